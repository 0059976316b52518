"""Symbols renamed 0, 1, 2, ... by decreasing frequency, so that tables of pairs are small and their busy cells near."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

_WIDEST_TABLE = 1 << 24  # value ranges up to this wide are counted in a table, wider ones are sorted


@dataclass(frozen=True)
class RelabelledSequences:
    """Rows of symbols 0..size-1 (0 the most frequent), with how often each occurs in all of them."""

    symbols: npt.NDArray[Any]  # (n, length), the smallest unsigned type that holds them
    occurrences: npt.NDArray[np.int64]  # (size,)

    @property
    def size(self) -> int:
        return int(self.occurrences.size)


def checked_sequences(sequences: npt.ArrayLike) -> npt.NDArray[Any]:
    """Sequences as an integer array (n, length), or a ValueError that says what is wrong with them."""
    array = np.asarray(sequences)
    if array.size == 0:
        raise ValueError(f"sequences are empty (shape {array.shape}); give at least one symbol")
    if array.ndim not in (1, 2):
        raise ValueError(f"sequences have shape {array.shape}; allowed are (length,) and (n, length)")
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    elif array.dtype.kind == "f":
        if not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
            raise ValueError(
                f"sequences of type {array.dtype} contain symbols that are not whole numbers; use integers"
            )
        if np.any(np.abs(array) >= 2.0**53):
            raise ValueError(
                "sequences contain floats beyond 2^53, where whole numbers are no longer distinct; use integers"
            )
        array = array.astype(np.int64)
    elif array.dtype.kind not in "iu":
        raise ValueError(f"sequences have type {array.dtype}; symbols must be integers")
    return array[np.newaxis] if array.ndim == 1 else array


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count(flat: Any, lowest: Any, counts: Any) -> None:
    for i in range(flat.size):
        counts[np.uint64(np.int64(flat[i]) - lowest)] += 1  # wraps around for huge values, which cancels


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _rename(flat: Any, lowest: Any, names: Any, symbols: Any) -> None:
    for i in range(flat.size):
        symbols[i] = names[np.uint64(np.int64(flat[i]) - lowest)]


def relabel(sequences: npt.NDArray[Any]) -> RelabelledSequences:
    """Rename any integers to 0..size-1 by decreasing frequency. O(N), or O(N log N) when values are far apart."""
    flat = np.ascontiguousarray(sequences).reshape(-1)
    smallest = flat.min()
    width = int(flat.max()) - int(smallest) + 1
    codes: npt.NDArray[Any]
    if width <= min(_WIDEST_TABLE, max(1 << 16, 8 * flat.size)):
        codes, lowest = flat, smallest.astype(np.int64)
        counts = np.zeros(width, dtype=np.int64)
        _count(codes, lowest, counts)
    else:
        _, codes, counts = np.unique(flat, return_inverse=True, return_counts=True)
        lowest = np.int64(0)
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    names = np.zeros(counts.size, dtype=_smallest_type(order.size))
    names[order] = np.arange(order.size)
    symbols = np.empty(flat.size, dtype=names.dtype)
    _rename(codes, lowest, names, symbols)
    return RelabelledSequences(symbols.reshape(sequences.shape), counts[order].astype(np.int64))


def _smallest_type(size: int) -> npt.DTypeLike:
    return np.min_scalar_type(max(size - 1, 0))
