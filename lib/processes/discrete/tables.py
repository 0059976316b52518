"""Probabilities that are known exactly: information of a table, and which blocks of a sequence are allowed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py

from lib.checks import plain_array, real_array, sum_tolerance, whole_number

# Below this |x|, (1 + x) ln(1 + x) - x cancels, and sixteen terms of its series reach the rounding of x.
_SERIES_BELOW = 0.1
_SERIES_TERMS = 16
_UNIT = 2.0**511  # the product of the smallest normal numbers in it is the smallest normal number
_LONGEST, _LARGEST = 24, 2**24  # symbols of a sequence of which all are enumerated, and how many they may be


def information_of_deviation(deviation: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> NDArray[np.float64]:
    """Mutual information of P(a, b) = rows(a) columns(b) + deviation(a, b), without cancellation.

    With x = deviation / (rows columns) and sum deviation = 0,

        I = sum_ab rows columns ((1 + x) ln(1 + x) - x),

    where every term is >= 0: values of I keep all their digits down to the smallest numbers there are.

    deviation: (..., A, B). rows: (..., A) and columns: (..., B), the marginals. Returns nats, shape (...).
    Cells of probability zero add nothing. Cost O(A B) each.
    """
    difference = np.asarray(deviation, dtype=np.float64)
    first, second = (np.asarray(law, dtype=np.float64) * _UNIT for law in (rows, columns))
    product = first[..., :, None] * second[..., None, :]  # where that of the laws themselves would underflow
    possible = product > 0.0
    with np.errstate(over="ignore"):
        relative = np.where(possible, difference * _UNIT**2 / np.where(possible, product, 1.0), 0.0)
    return np.asarray((difference * _excess(relative)).sum(axis=(-2, -1)))


def information_of_table(table: ArrayLike) -> np.float64:
    """Mutual information of a joint probability table (A, B): KL divergence from the product of its marginals.

    I = sum_ab P(a, b) ln(P(a, b) / (P(a) P(b))), Eq. 1 of L2M (2025). Returns nats. Raises ValueError unless
    the entries are >= 0 and sum to one (to within four epsilon of floats narrower than float64). Cost O(A B).
    """
    joint, tolerance = real_array(table, "table"), sum_tolerance(table, "table")
    if joint.ndim != 2 or joint.size == 0 or not np.all(joint >= 0.0) or abs(joint.sum() - 1.0) > tolerance:
        allowed = f"a matrix of probabilities that sum to one to within {tolerance:.3g}"
        raise ValueError(f"table: {allowed} is allowed, got {table!r} with the sum {joint.sum():.12g}")
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    return np.float64(information_of_deviation(joint - np.outer(rows, columns), rows, columns))


def divergence_terms(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """p ln(p / q) - p + q >= 0 cell by cell; over two distributions they sum to KL(p || q), in nats.

    With x = p / q - 1 it is (p - q) ((1 + x) ln(1 + x) - x) / x: every digit is kept where p and q nearly agree, and
    where either is next to nothing. p: numbers >= 0. q: numbers > 0, of the same shape. O(size).
    """
    law, other = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    difference = law - other
    with np.errstate(over="ignore"):
        relative = difference / other
    beyond = np.isinf(relative)
    logarithm = np.log(np.where(beyond, law, 1.0)) - np.log(np.where(beyond, other, 1.0))
    return np.where(beyond, law * (logarithm - 1.0), difference * _excess(np.where(beyond, 0.0, relative)))


def _excess(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """((1 + x) ln(1 + x) - x) / x for x >= -1; it has the sign of x and is x / 2 near zero."""
    bounded = np.maximum(x, -1.0)  # rounding may put an impossible pair a little below
    small = np.abs(bounded) < _SERIES_BELOW
    near = np.where(small, bounded, 0.0)
    series = np.zeros_like(near)
    for k in range(_SERIES_TERMS + 1, 1, -1):
        series = near * (1.0 / (k * (k - 1.0)) - series)
    far = np.where(small, 1.0, bounded)
    return np.where(small, series, xlog1py(1.0 + 1.0 / far, far) - 1.0)


def enumerable_length(length: int, symbols: int) -> int:
    """How long a sequence is of which every one is listed, symbols^length <= 2^24 of them; ValueError for more."""
    steps = whole_number(length, "length", 1)
    if steps > _LONGEST or symbols**steps > _LARGEST:
        most = f"at most {_LONGEST} symbols and 2^24 sequences are allowed"
        raise ValueError(f"length: {symbols}^{steps} sequences are too many to enumerate, {most}")
    return steps


def block_lengths(lengths: ArrayLike, splits: ArrayLike | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of the first and of the second block, int64 arrays of the common shape.

    lengths: whole numbers L >= 2. splits: the first block has this many symbols, 1 <= split < L; None: L // 2.
    Raises ValueError for anything else, or shapes that do not broadcast.
    """
    whole = _integers(lengths, "lengths")
    if np.any(whole < 2):
        raise ValueError(f"lengths: whole numbers of at least 2 are allowed, got {whole[whole < 2].flat[0]}")
    first = whole // 2 if splits is None else _integers(splits, "splits")
    try:
        whole, first = np.broadcast_arrays(whole, first)
    except ValueError as error:
        raise ValueError(f"splits: shape {first.shape} does not match lengths of shape {whole.shape}") from error
    outside = (first < 1) | (first >= whole)
    if np.any(outside):
        raise ValueError(
            f"splits: 1 <= split < length = {whole[outside].flat[0]} is allowed, got {first[outside].flat[0]}"
        )
    return first, np.asarray(whole - first)


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = plain_array(values, name)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name}: whole numbers are allowed, got type {array.dtype}")
    if np.any(array >= 2**63):
        raise ValueError(f"{name}: whole numbers below 2^63 are allowed, got {array.max()}")
    return array.astype(np.int64)
