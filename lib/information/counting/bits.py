"""Pairs of two symbols, or a handful: one bit per position, 64 positions per instruction.

A symbol s has a bit plane, the positions where it stands. The number of pairs (a, b) at a lag is the number of ones
in plane(a) AND plane(b) shifted by the lag. One plane fewer than symbols suffices, the most frequent symbol
following from the marginals. Rows are padded with zeros to whole words, so pairs that would reach beyond the end of
a row vanish.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

from lib.information.estimators import Estimator, weighted_sum

_CHUNK = 2048  # words of a plane that stay in the first cache while all pairs of planes are counted


@intrinsic  # type: ignore[untyped-decorator]
def _popcount(typing_context: Any, word: Any) -> Any:
    """Number of ones in a word: LLVM's own operation, which it turns into vector instructions."""
    signature = types.uint64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return signature, generate


def packed_planes(symbols: npt.NDArray[Any], size: int) -> npt.NDArray[np.uint64]:
    """Bit planes of the symbols 1..size-1: (size - 1, words + 1, n), bit i of word w for position 64 w + i of a row.

    Words of different rows lie side by side, so that one loop without row borders serves one long sequence as well
    as many short ones. The last word is zero and stands for what follows the end.
    """
    rows, length = symbols.shape
    words = -(-length // 64)
    planes = np.zeros((size - 1, words + 1, rows), dtype=np.uint64)
    octets = np.zeros((rows, 8 * words), dtype=np.uint8)
    for symbol in range(1, size):
        packed = np.packbits(symbols == symbol, axis=1, bitorder="little")
        octets[:, : packed.shape[1]] = packed
        planes[symbol - 1, :words] = octets.view(np.dtype("<u8")).T
    return planes


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_planes(planes: Any, rows: int, lags: Any, tables: Any) -> None:
    """Add the number of pairs of planes (a, b) at each lag to tables[lag, a, b]; planes are flattened words."""
    size, entries = planes.shape
    one, last = np.uint64(1), np.uint64(63)
    for k in range(len(lags)):
        shift = np.uint64(lags[k] & 63)
        # All indices are unsigned: a test for negative ones would keep the loop from being vectorised.
        skip = np.uint64((lags[k] >> 6) * rows)
        next_word = skip + np.uint64(rows)
        used = entries - np.int64(next_word)
        for start in range(0, used, _CHUNK):
            stop = min(start + _CHUNK, used)
            for a in range(size):
                first = planes[a]
                for b in range(size):
                    second = planes[b]
                    ones = np.uint64(0)
                    for w in range(np.uint64(start), np.uint64(stop)):
                        # two shifts, because a shift by 64 in one is not defined
                        carried = (second[w + next_word] << one) << (last - shift)
                        ones += _popcount(first[w] & ((second[w + skip] >> shift) | carried))
                    tables[k, a, b] += np.int64(ones)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_before(planes: Any, words: Any, columns: Any, before: Any) -> None:
    """before[k, a]: ones of plane a in the first columns[k] of its rows; words[a, w]: those in its first w words."""
    size, _, rows = planes.shape
    for k in range(len(columns)):
        word = columns[k] >> 6
        lowest = (np.uint64(1) << np.uint64(columns[k] & 63)) - np.uint64(1)
        for a in range(size):
            row = planes[a, word]
            ones = np.uint64(0)
            for r in range(rows):
                ones += _popcount(row[r] & lowest)
            before[k, a] = words[a, word] + np.int64(ones)


class BitCounts:
    """Joint tables of a small alphabet at any lag, from its bit planes.

    symbols: (n, length), below `size`. Set-up O(size n length), once; then `tables(lags)` costs
    O(size^2 n ceil(length / 64)) per lag, whatever the lag. Memory size n ceil(length / 64) words of 8 bytes, and
    size length / 64 of them more: size n length / 8 bytes for long rows, up to twice that for a single one.
    """

    def __init__(self, symbols: npt.NDArray[Any], size: int) -> None:
        self.rows, self.length = symbols.shape
        self.size = size
        self.planes = packed_planes(symbols, size)  # (size - 1, words + 1, n)
        self._words = np.zeros((size - 1, self.planes.shape[1] + 1), dtype=np.int64)  # ones in the first w words
        for plane, ones in zip(self.planes, self._words, strict=True):
            np.cumsum(np.bitwise_count(plane).sum(axis=1, dtype=np.int64), out=ones[1:])

    def tables(self, lags: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Joint counts (len(lags), size, size): [k, a, b] pairs of a followed by b at lags[k]."""
        inner = np.zeros((lags.size, self.size - 1, self.size - 1), dtype=np.int64)
        flat = self.planes.reshape(self.size - 1, self.planes.shape[1] * self.rows)
        _count_planes(flat, self.rows, lags, inner)
        # First symbols stand before the last `lag` columns, second ones behind the first `lag`.
        first, second = self._before(self.length - lags), self._words[:, -1] - self._before(lags)
        joint = np.empty((lags.size, self.size, self.size), dtype=np.int64)
        joint[:, 1:, 1:] = inner
        joint[:, 1:, 0] = first - inner.sum(axis=2)
        joint[:, 0, 1:] = second - inner.sum(axis=1)
        joint[:, 0, 0] = self.rows * (self.length - lags) - first.sum(axis=1) - joint[:, 0, 1:].sum(axis=1)
        return joint

    def _before(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How often each symbol but 0 stands in the first columns of all rows, (len(columns), size - 1)."""
        before = np.empty((columns.size, self.size - 1), dtype=np.int64)
        _count_before(self.planes, self._words, columns, before)
        return before

    def sums(
        self,
        lags: npt.NDArray[np.int64],
        estimator: Estimator,
        sums: npt.NDArray[np.float64],
        cells: npt.NDArray[np.int64],
    ) -> None:
        """Fill sums and cells, (len(lags), 3): sum n f(n) and occupied cells of first, second symbols and pairs."""
        joint = self.tables(lags)
        for column, counts in enumerate((joint.sum(axis=2), joint.sum(axis=1), joint.reshape(lags.size, -1))):
            sums[:, column] = weighted_sum(counts, estimator, axis=1)
            cells[:, column] = np.count_nonzero(counts, axis=1)
