"""Entropy of a distribution of which only counts are known: four estimators that share one formula.

Every estimator here is the plug-in entropy with the logarithm of a count replaced by a function f that knows
how noisy the logarithm of a small count is, and possibly a correction for the number of occupied cells:

    H = ln N - (1/N) sum_i n_i f(n_i) + c (K - 1) / (2N),      N = sum_i n_i,  K = number of non-zero n_i.

| estimator         | f(n)                        | c | source                                                   |
|-------------------|-----------------------------|---|----------------------------------------------------------|
| `plugin`          | ln n                        | 0 | maximum likelihood                                       |
| `miller_madow`    | ln n                        | 1 | Miller 1955                                              |
| `grassberger2003` | psi(n)                      | 0 | Shen 2019, Eq. 53                                        |
| `grassberger2008` | psi(floor(n/2) + 1/2) + ln 2 | 0 | L2M, Eq. 8-9 (their G(n), which is this in closed form) |

Among the counts are those of neighbouring tokens of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from lib.checks import plain_array, whole_number

type_of_counts = "integers >= 0 (floats are accepted when they are whole)"
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def _half_integer_digamma(counts: FloatArray) -> FloatArray:
    return np.asarray(digamma(np.floor(counts / 2) + 0.5) + np.log(2.0), dtype=np.float64)


def _digamma(counts: FloatArray) -> FloatArray:
    return np.asarray(digamma(counts), dtype=np.float64)


@dataclass(frozen=True)
class Estimator:
    """What tells one entropy estimator from another.

    `logarithm` is f(n). For large n it is ln m + series[0]/m + series[1]/m^2 up to O(m^-4), with m = n, or the even
    part of n if `even_part`: the form in which the compiled kernels use it where no table reaches.
    """

    name: str
    logarithm: Callable[[FloatArray], FloatArray]
    cell_correction: float
    series: tuple[float, float]
    even_part: bool = False


_ALL = (
    Estimator("grassberger2003", _digamma, 0.0, (-1 / 2, -1 / 12)),
    Estimator("grassberger2008", _half_integer_digamma, 0.0, (0.0, 1 / 6), even_part=True),
    Estimator("miller_madow", np.log, 1.0, (0.0, 0.0)),
    Estimator("plugin", np.log, 0.0, (0.0, 0.0)),
)
ESTIMATORS: dict[str, Estimator] = {estimator.name: estimator for estimator in _ALL}


def find_estimator(name: str) -> Estimator:
    """The estimator of that name; ValueError lists the names there are."""
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; choose one of {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name]


def weighted_sum(counts: npt.ArrayLike, estimator: Estimator, axis: int | tuple[int, ...] | None = None) -> FloatArray:
    """sum n f(n) over `axis` (all cells by default), empty cells adding nothing."""
    numbers = np.asarray(counts, dtype=np.float64)
    occupied = np.maximum(numbers, 1.0)  # f may be infinite at 0, where n f(n) counts as 0
    return np.asarray(np.sum(numbers * estimator.logarithm(occupied), axis=axis), dtype=np.float64)


def entropy_from_sums(
    total: npt.ArrayLike, weighted: npt.ArrayLike, cells: npt.ArrayLike, estimator: Estimator
) -> FloatArray:
    """ln N - (1/N) sum n f(n) + c (K - 1)/(2N), elementwise: the one formula behind all estimators."""
    number = np.asarray(total, dtype=np.float64)
    correction = estimator.cell_correction * (np.asarray(cells, dtype=np.float64) - 1) / (2 * number)
    return np.asarray(np.log(number) - np.asarray(weighted) / number + correction, dtype=np.float64)


def checked_counts(counts: npt.ArrayLike, what: str = "counts") -> IntArray:
    """Counts as int64, or a ValueError that says what is wrong with them."""
    array = plain_array(counts, what)
    if array.size == 0:
        raise ValueError(f"{what} are empty; give at least one count")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{what} have type {array.dtype}; counts are {type_of_counts}")
    if array.dtype.kind == "f":
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{what} contain NaN or infinity; counts are {type_of_counts}")
        if np.any(array != np.floor(array)):
            wrong = array[array != np.floor(array)].flat[0]
            raise ValueError(f"{what} contain {wrong}; counts are {type_of_counts}")
    if np.any(array < 0):
        raise ValueError(f"{what} contain {array.min()}; counts are {type_of_counts}")
    with np.errstate(over="ignore"):
        if float(array.max()) * array.size >= 2.0**63 and (total := float(array.sum(dtype=np.float64))) >= 2.0**63:
            raise ValueError(f"{what} sum to {total:.3g}; the sum must stay below 2^63")
    if not np.any(array):
        raise ValueError(f"{what} are all zero; at least one must be positive")
    return array.astype(np.int64)


def entropy(counts: npt.ArrayLike, estimator: str = "grassberger2003") -> float:
    """Entropy estimated from how often each symbol was seen, in nats.

    H = ln N - (1/N) sum_i n_i f(n_i) + c (K - 1)/(2N); the table at the head of this module says f and c for
    "grassberger2003" (Shen 2019, Eq. 53), "grassberger2008" (L2M, Eq. 8-9), "miller_madow" and "plugin".

    counts: whole numbers >= 0 of any shape; zeros are ignored. Raises ValueError for negative, fractional, infinite,
    boolean, missing or all-zero counts and for an unknown estimator. None of the four is unbiased: psi(n) leaves
    +1/(2N) when every cell is well sampled, and all fall short when cells outnumber samples. O(cells).
    """
    rule = find_estimator(estimator)
    numbers = checked_counts(counts)
    seen = numbers[numbers > 0]
    return float(entropy_from_sums(seen.sum(), weighted_sum(seen, rule), seen.size, rule))


def ngram_counts(documents: Sequence[ArrayLike], length: int = 2) -> NDArray[np.int64]:
    """How often each block of `length` neighbours that occurs does, in no order of interest; none crosses documents.

    documents: arrays of whole numbers >= 0. ``ValueError`` for other input, or without any such block. A sort for every
    factor by which the blocks outgrow 63 bits: O(total ln total), 16 bytes per token and more.
    """
    arrays = [plain_array(document, "documents") for document in documents]
    if any(array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0) for array in arrays):
        raise ValueError("documents: whole numbers >= 0 of shape (length,) are allowed")
    length = whole_number(length, "length", 1)
    if not any(array.size >= length for array in arrays):
        raise ValueError(
            f"length: a document as long is needed; got {length}, and the longest document has "
            f"{max((array.size for array in arrays), default=0)} tokens"
        )
    long_enough = [array for array in arrays if array.size >= length]
    size = max(int(array.max()) for array in long_enough) + 1
    if size > 2**31:  # number what occurs, so that neither a code nor an unsigned token is beyond int64
        ends = np.cumsum([array.size for array in long_enough])[:-1]
        values, numbers = np.unique(
            np.concatenate([array.astype(np.uint64) for array in long_enough]), return_inverse=True
        )
        long_enough, size = np.split(numbers, ends), values.size
    long_enough = [array.astype(np.int64) for array in long_enough]
    codes, below = np.concatenate([array[: array.size - length + 1] for array in long_enough]), size
    for place in range(1, length):
        if below > 2**62 // size:  # number what occurs anew
            values, codes = np.unique(codes, return_inverse=True)
            below = values.size
        following = np.concatenate([array[place : array.size - length + 1 + place] for array in long_enough])
        codes, below = codes * size + following, below * size
    return np.unique(codes, return_counts=True)[1]


def ngram_entropy(documents: Sequence[ArrayLike], length: int = 2, estimator: str = "grassberger2008") -> float:
    """Entropy of `length` neighbouring tokens, nats; for two and with G(n), the default, that of L2M, Eq. A.14."""
    return entropy(ngram_counts(documents, length), estimator)
