"""Pairs of a small alphabet: one table of all pairs, two lags in one pass.

The loop is bound by how soon an increment of a cell can follow the one before it, not by arithmetic. Hence symbols
come relabelled by frequency (the busy cells share a few cache lines), the first symbol is read once for two lags,
and the two lags count into tables of their own, so that neighbouring increments never touch the same cell.
"""

from collections.abc import Iterator
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

    symbols: (n, length), unsigned, below `size`. O(pairs + size^2) per lag; memory 2 size^2 counters for any number
    of lags.
    """
    counter = np.uint32 if symbols.size < 2**32 else np.uint64
    tables = np.zeros((2, size * size), dtype=counter)
    second = np.empty(size, dtype=np.int64)
    _dense(
        symbols, size, lags, tables, second, tabulated_weights(estimator), series_coefficients(estimator), sums, cells
    )


def dense_tables(
    symbols: npt.NDArray[Any], starts: int, size: int, lags: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.uint32]]:
    """Joint counts (size^2,), one lag after the other, of the pairs that start at the first `starts` places.

    symbols: (length,), unsigned, below `size`; a pair ends within them. starts < 2^32. A table holds until the next one
    is asked for. O(starts + size^2) per lag; memory two tables for any number of lags.
    """
    row, tables = symbols[np.newaxis], np.zeros((2, size * size), dtype=np.uint32)
    for done in range(0, lags.size, 2):
        pair = lags[done : done + 2].tolist()
        near, far = np.argsort(pair)[[0, -1]]
        together = row[:, : starts + pair[near]]
        left = [(place, 0) for place in range(len(pair))]
        if near != far and together.shape[1] > pair[far]:
            _count_two(together, size, pair[near], pair[far], tables[near], tables[far])
            left = [(far, together.shape[1] - pair[far])]  # the last starts of the farther lag
        for place, first in left:
            part = row[:, first : starts + pair[place]]
            if part.shape[1] > pair[place]:
                _count_one(part, size, pair[place], tables[place])
        for place in range(len(pair)):
            yield tables[place]
        tables[:] = 0


def table_sums(
    tables: npt.NDArray[np.int64], size: int, estimator: Estimator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """sum n f(n) and occupied cells of first, second symbols and pairs, (lags, 3), of tables (lags, size^2).

    The tables are zero afterwards. O(size^2) per table.
    """
    sums, cells = np.empty((len(tables), 3)), np.empty((len(tables), 3), dtype=np.int64)
    second, weights = np.empty(size, dtype=np.int64), tabulated_weights(estimator)
    for table, own_sums, own_cells in zip(tables, sums, cells, strict=True):
        _summarise(table, size, second, weights, series_coefficients(estimator), own_sums, own_cells)
    return sums, cells
