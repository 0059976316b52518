"""Checks of what a process is asked for: whole numbers, lags, seeds."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def whole_number(value: Any, name: str, at_least: int) -> int:
    """The value as an int; ValueError unless it is a whole number of at least `at_least` (True is none)."""
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: a whole number of at least {at_least} is allowed, got {value!r}")
    return number


def real_number(value: Any, name: str) -> float:
    """The value as a finite float; ValueError otherwise."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise ValueError(f"{name}: a finite real number is allowed, got {value!r}")
    return number


def whole_lags(lags: ArrayLike, below: int | None = None) -> NDArray[np.int64]:
    """Lags as an int64 array of the given shape; ValueError unless whole numbers, 0 <= lag (< `below`)."""
    array = np.asarray(lags)
    allowed = "lag >= 0" if below is None else f"0 <= lag < length = {below}"
    if array.dtype.kind not in "iuf":
        raise ValueError(f"lags: whole numbers with {allowed} are allowed, got type {array.dtype}")
    good = (array >= 0) & (array == np.floor(array)) & (array < (np.inf if below is None else below))
    if not np.all(good):  # NaN and infinity fail too
        raise ValueError(f"lags: whole numbers with {allowed} are allowed, got {array[~good].flat[0]}")
    return array.astype(np.int64)


def whole_steps(k: ArrayLike) -> NDArray[np.int64]:
    """k as an int64 array of the given shape; ValueError unless all are whole numbers of at least 0."""
    array = np.asarray(k)
    good = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(np.all(array == np.floor(array))))
    if not good or not np.isfinite(array).all() or bool(np.any(array < 0)):
        raise ValueError(f"k: whole numbers of at least 0 are allowed, got {k!r}")
    return array.astype(np.int64)


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The generator of a seed: a Generator passes through; ValueError unless that or a whole number >= 0."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(whole_number(seed, "seed", 0))
