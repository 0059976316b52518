"""Pairs of a small alphabet: one table of all pairs, two lags in one pass.

The loop is bound by how soon an increment of a cell can follow the one before it, not by arithmetic. Hence symbols
come relabelled by frequency (the busy cells share a few cache lines), the first symbol is read once for two lags,
and the two lags count into tables of their own, so that neighbouring increments never touch the same cell.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.information.estimators import Estimator

TABLED_COUNTS = 1 << 16  # n f(n) is read from a table below this count and from its asymptotic series above


@cache
def tabulated_weights(estimator: Estimator) -> npt.NDArray[np.float64]:
    """n f(n) for n = 0, 1, ..., TABLED_COUNTS - 1, the value at 0 being 0."""
    counts = np.arange(TABLED_COUNTS, dtype=np.float64)
    weights = counts * estimator.logarithm(np.maximum(counts, 1.0))
    return np.asarray(weights, dtype=np.float64)


def series_coefficients(estimator: Estimator) -> npt.NDArray[np.float64]:
    """(1 for the even part of n or 0, and the two coefficients): f(n) beyond the table, as the kernels take it."""
    return np.array([float(estimator.even_part), *estimator.series])


@njit(nogil=True, cache=True, inline="always")  # type: ignore[untyped-decorator]
def weight(count: int, weights: Any, series: Any) -> float:
    """n f(n) of one count."""
    if count < TABLED_COUNTS:
        return float(weights[count])
    n = float(count)
    m = n - (count & 1) if series[0] != 0.0 else n
    return float(n * (np.log(m) + (series[1] + series[2] / m) / m))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_two(symbols: Any, size: int, near: int, far: int, first_table: Any, second_table: Any) -> None:
    # Unsigned indices spare the test for negative ones; it costs a quarter of the speed.
    rows, length = symbols.shape
    width, near_step, far_step = np.uint64(size), np.uint64(near), np.uint64(far)
    for r in range(rows):
        row = symbols[r]
        for i in range(np.uint64(length - far)):
            start = np.uint64(row[i]) * width
            first_table[start + np.uint64(row[i + near_step])] += 1
            second_table[start + np.uint64(row[i + far_step])] += 1
        for i in range(np.uint64(length - far), np.uint64(length - near)):
            first_table[np.uint64(row[i]) * width + np.uint64(row[i + near_step])] += 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_one(symbols: Any, size: int, lag: int, table: Any) -> None:
    rows, length = symbols.shape
    width, step = np.uint64(size), np.uint64(lag)
    for r in range(rows):
        row = symbols[r]
        for i in range(np.uint64(length - lag)):
            table[np.uint64(row[i]) * width + np.uint64(row[i + step])] += 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _summarise(table: Any, size: int, second: Any, weights: Any, series: Any, sums: Any, cells: Any) -> None:
    """sum n f(n) and number of non-zero cells of rows, columns and table; leaves the table zero."""
    sums[:] = 0.0
    cells[:] = 0
    second[:] = 0
    for a in range(size):
        seen, occupied = 0, 0
        row_sum = 0.0  # sums by row keep the rounding error at O(size) terms
        for b in range(size):
            count = int(table[a * size + b])
            if count:
                table[a * size + b] = 0
                seen += count
                second[b] += count
                occupied += 1
                row_sum += weight(count, weights, series)
        if occupied:
            sums[0] += weight(seen, weights, series)
            sums[2] += row_sum
            cells[0] += 1
            cells[2] += occupied
    for b in range(size):
        if second[b]:
            sums[1] += weight(second[b], weights, series)
            cells[1] += 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _dense(
    symbols: Any, size: int, lags: Any, tables: Any, second: Any, weights: Any, series: Any, sums: Any, cells: Any
) -> None:
    done = 0
    while done + 1 < len(lags):
        near, far = lags[done], lags[done + 1]
        if near <= far:
            _count_two(symbols, size, near, far, tables[0], tables[1])
        else:
            _count_two(symbols, size, far, near, tables[1], tables[0])
        _summarise(tables[0], size, second, weights, series, sums[done], cells[done])
        _summarise(tables[1], size, second, weights, series, sums[done + 1], cells[done + 1])
        done += 2
    if done < len(lags):
        _count_one(symbols, size, lags[done], tables[0])
        _summarise(tables[0], size, second, weights, series, sums[done], cells[done])


def dense_sums(
    symbols: npt.NDArray[Any],
    size: int,
    lags: npt.NDArray[np.int64],
    estimator: Estimator,
    sums: npt.NDArray[np.float64],
    cells: npt.NDArray[np.int64],
) -> None:
    """Fill sums and cells, both (len(lags), 3): sum n f(n) and occupied cells of first, of second symbols, of pairs.

    symbols: (n, length), unsigned, below `size`. O(pairs + size^2) a lag; memory 2 size^2 counters for any number
    of lags.
    """
    counter = np.uint32 if symbols.size < 2**32 else np.uint64
    tables = np.zeros((2, size * size), dtype=counter)
    second = np.empty(size, dtype=np.int64)
    _dense(
        symbols, size, lags, tables, second, tabulated_weights(estimator), series_coefficients(estimator), sums, cells
    )
