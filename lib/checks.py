"""Checks of what a function is given: arrays, numbers, lags, seeds."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# of floats that know a sum of probabilities less well than 1e-9
_EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ASYMMETRY = 1e-8  # in units of correlation; covariances computed by different routes differ far less


def whole_number(value: Any, name: str, at_least: int) -> int:
    """The value as an int; ValueError unless it is a whole number of at least `at_least` (True of any type is none)."""
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    is_truth = isinstance(value, bool) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"
    if number < at_least or is_truth:
        raise ValueError(f"{name}: a whole number of at least {at_least} is allowed, got {value!r}")
    return number


def truth_value(value: Any, name: str) -> bool:
    """The value as a bool; ValueError for anything else, even for a string, of which all but the empty one are true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: True or False is allowed, got {value!r}")
    return bool(value)


def real_number(value: Any, name: str) -> float:
    """The value as a finite float; ValueError otherwise (a string, True and a complex number are none)."""
    try:
        array = plain_array(value, name)
        number = float(array) if array.ndim == 0 and array.dtype.kind in "iufO" else float("nan")
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number):
        raise ValueError(f"{name}: a finite real number is allowed, got {value!r}")
    return number


def real_array(values: Any, name: str) -> NDArray[np.float64]:
    """The values as float64, NaN and infinity too; ValueError unless an array of real numbers as for `plain_array`.

    Objects are allowed where every one is a real number, such as a fraction.
    """
    array = plain_array(values, name)
    if array.dtype.kind == "O" and all(isinstance(entry, Real) for entry in array.flat):
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name}: numbers below 1.8e308 are allowed, got a larger one") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: real numbers are allowed, got type {array.dtype}")
    return array.astype(np.float64, copy=False)


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """The values as an array of whatever type in the byte order of this machine, not copied where that is possible.

    Tensors are detached, and floating ones come as float64. ValueError for ragged lists and for masked entries, which
    an array would count like the others.
    """
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, rows))) and any(map(np.ma.is_masked, rows)):
        raise ValueError(f"{name}: arrays without masked entries are allowed, got a masked array; compress it first")
    try:
        if hasattr(values, "detach"):
            tensor = values.detach().cpu()
            values = (tensor.double() if tensor.is_floating_point() else tensor).numpy(force=True)
        array: NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name}: an array of numbers, no ragged list, is allowed, got {values!r}") from error
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def sum_tolerance(probabilities: Any, name: str) -> float:
    """How far from one their sum may be: 1e-9, or four epsilon of the narrower floats that they are given as."""
    kind = probabilities.dtype if hasattr(probabilities, "detach") else plain_array(probabilities, name).dtype
    return max(1e-9, 4.0 * _EPSILON.get(str(kind).removeprefix("torch."), 0.0))


def checked_covariance(covariance: ArrayLike) -> NDArray[np.float64]:
    """A finite matrix as float64, symmetric but for rounding, which is halved; ValueError that says what is wrong."""
    matrix = real_array(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"covariance: a square matrix is allowed, got shape {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise ValueError("covariance: finite entries are allowed, got NaN or infinity")
    if np.array_equal(matrix, matrix.T):
        return matrix
    scale = np.sqrt(np.abs(np.diagonal(matrix)))
    wrong = np.argwhere(np.abs(matrix - matrix.T) > _ASYMMETRY * np.outer(scale, scale))
    if wrong.size:
        i, j = wrong[0]
        entries = f"entry ({i}, {j}) is {matrix[i, j]:.9g}, its mirror image {matrix[j, i]:.9g}"
        raise ValueError(f"covariance: a symmetric matrix is allowed; {entries}")
    return np.asarray((matrix + matrix.T) / 2, dtype=np.float64)


def whole_lags(values: ArrayLike, below: int | None = None, name: str = "lags") -> NDArray[np.int64]:
    """Lags, times or lengths as an int64 array of the given shape; they may be whole numbers of 0 <= n < `below`.

    Without a limit 2^63. ValueError for others, which calls them by their name.
    """
    allowed = f"with 0 <= {name.removesuffix('s')} < {'2^63' if below is None else below}"
    array = plain_array(values, name)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)  # 2^63 is infinite in half precision
    elif array.dtype.kind not in "iu":
        raise ValueError(f"{name}: whole numbers {allowed} are allowed, got type {array.dtype}")
    good = (array >= 0) & (array == np.floor(array)) & (array < (2**63 if below is None else min(below, 2**63)))
    if not np.all(good):  # NaN and infinity fail too
        raise ValueError(f"{name}: whole numbers {allowed} are allowed, got {array[~good].flat[0]}")
    return array.astype(np.int64)


def attended_times(attended: Iterable[Iterable[int]]) -> list[list[int]]:
    """The lists, sorted; ValueError unless attended[t - 1] holds some of 1 ... t, or none, each once."""
    lists = []
    try:
        rows = [list(times) for times in attended]
    except TypeError:
        raise ValueError(f"attended: a sequence of sequences of times is allowed, got {attended!r}") from None
    for t, times in enumerate(rows, start=1):
        chosen = sorted(whole_number(i, f"attended[{t - 1}]", 1) for i in times)
        if max(chosen, default=0) > t or len(set(chosen)) < len(chosen):
            raise ValueError(f"attended[{t - 1}]: different times among 1 .. {t} are allowed, got {times!r}")
        lists.append(chosen)
    return lists


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The generator of a seed: a Generator passes through; ValueError unless that or a whole number >= 0."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(whole_number(seed, "seed", 0))
