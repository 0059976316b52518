"""Pairs of a large vocabulary: the table of all pairs would be mostly zeros, so only one of its rows exists at a time.

Positions are grouped by their symbol once. At each lag the positions of one symbol are visited, the symbols a lag
ahead are counted in a scratch row, the row is summed and cleared by the list of the cells it touched, and the next
symbol follows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.information.counting.dense import series_coefficients, tabulated_weights, weight
from lib.information.estimators import Estimator


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _group(symbols: Any, ends: Any, positions: Any, columns: Any) -> None:
    """Stable counting sort of the positions by symbol; `ends` holds the start of each group before, its end after."""
    rows, length = symbols.shape
    for r in range(rows):
        for c in range(length):
            place = ends[symbols[r, c]]
            positions[place] = r * length + c
            columns[place] = c
            ends[symbols[r, c]] = place + 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _sparse(
    flat: Any, length: int, ends: Any, positions: Any, columns: Any, lags: Any, scratch: Any, second: Any, touched:
    Any, weights: Any, series: Any, sums: Any, cells: Any,
) -> None:  # fmt: skip
    size = len(ends)
    for k in range(len(lags)):
        lag = lags[k]
        allowed = length - lag
        sums[k] = 0.0
        cells[k] = 0
        start = 0
        for a in range(size):
            seen, occupied, row_sum = 0, 0, 0.0
            for p in range(start, ends[a]):
                if columns[p] < allowed:
                    b = flat[positions[p] + lag]
                    touched[occupied] = b  # kept only if the cell was empty: no branch to mispredict
                    occupied += scratch[b] == 0
                    scratch[b] += 1
                    seen += 1
            start = ends[a]
            for t in range(occupied):
                b = touched[t]
                count = np.int64(scratch[b])
                scratch[b] = 0
                second[b] += count
                row_sum += weight(count, weights, series)
            if occupied:
                sums[k, 0] += weight(seen, weights, series)
                sums[k, 2] += row_sum
                cells[k, 0] += 1
                cells[k, 2] += occupied
        for b in range(size):
            if second[b]:
                sums[k, 1] += weight(second[b], weights, series)
                cells[k, 1] += 1
                second[b] = 0


class SparseCounts:
    """Pair statistics of a large vocabulary at any lag.

    symbols: (n, length), below len(occurrences) = V. O(pairs + V) per lag; memory O(pairs + V), O(V) more per worker.
    """

    def __init__(self, symbols: npt.NDArray[Any], occurrences: npt.NDArray[np.int64]) -> None:
        rows, self.length = symbols.shape
        self.flat = symbols.reshape(-1)
        index = np.int32 if symbols.size < 2**31 else np.int64
        self.ends = np.concatenate(([0], np.cumsum(occurrences)[:-1]))
        self.positions = np.empty(symbols.size, dtype=index)
        self.columns = self.positions if rows == 1 else np.empty(symbols.size, dtype=index)
        _group(symbols, self.ends, self.positions, self.columns)

    def sums(
        self,
        lags: npt.NDArray[np.int64],
        estimator: Estimator,
        sums: npt.NDArray[np.float64],
        cells: npt.NDArray[np.int64],
    ) -> None:
        """Fill sums and cells, (len(lags), 3): sum n f(n) and occupied cells of first, second symbols and pairs."""
        size = self.ends.size
        scratch = np.zeros(size, dtype=self.positions.dtype)
        second = np.zeros(size, dtype=np.int64)
        touched = np.empty(size + 1, dtype=self.flat.dtype)  # one spare cell for the symbol that is not kept
        _sparse(
            self.flat, self.length, self.ends, self.positions, self.columns, lags, scratch, second, touched,
            tabulated_weights(estimator), series_coefficients(estimator), sums, cells,
        )  # fmt: skip
