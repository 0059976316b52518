"""Counting pairs at many lags: chooses a kernel and shares the lags among the cores.

| kernel | for                                 | cost of a lag  | memory                                         |
|--------|-------------------------------------|----------------|------------------------------------------------|
| bits   | up to 8 symbols, rows not too short | size^2 words   | size words, twice that for a single row        |
| dense  | a table that fits a cache           | pairs + size^2 | two tables per core                            |
| sparse | larger vocabularies                 | pairs + size   | two integers per position, three rows per core |

A word is 8 bytes and holds 64 places of one row: n ceil(length / 64) words for n rows, pairs / 64 where rows are long.
All kernels count in integers, so they agree exactly with each other and with a loop over pairs. No cost depends on how
far a lag is, and no memory but that of the results grows with the number of lags.


Symbols renamed 0, 1, 2, ... by decreasing frequency, so that tables of pairs are small and their busy cells near.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.checks import plain_array
from lib.information.counting.bits import BitCounts
from lib.information.counting.dense import dense_sums
from lib.information.counting.sparse import SparseCounts
from lib.information.estimators import Estimator
from lib.machine import available_cores

BITS_PASSES = 80  # of words, for 64 pairs: beyond, they cost more than one over the symbols; 8 symbols take 64
BITS_LENGTH = 8  # symbols in a row for each of the alphabet: below, packing a row costs more than counting its lags
DENSE_CELLS = 1 << 21  # beyond, increments miss the second cache and the sparse kernel is as fast
DENSE_CELLS_PER_PAIR = 4  # beyond, most of the time would go into reading and clearing empty cells
PAIRS_PER_SECOND = {"bits": 5e10, "dense": 1.5e9, "sparse": 1e8}  # one core, cautious: decides only about the bar
BLOCK_SECONDS = 0.1  # work handed to a thread at a time: long enough to be cheap, short enough to interrupt
BAR_SECONDS = 2.0  # predicted work that deserves a progress bar
Kernel = Callable[[npt.NDArray[np.int64], Estimator, npt.NDArray[np.float64], npt.NDArray[np.int64]], None]
_WIDEST_TABLE = 1 << 24  # value ranges up to this wide are counted in a table, wider ones are sorted


def choose_kernel(size: int, pairs: int, length: int) -> str:
    """ "bits", "dense" or "sparse", from the number of distinct symbols, of pairs at a lag and of symbols in a row."""
    words = -(-length // 64)  # of a row, the last one padded
    if size**2 * 64 * words <= BITS_PASSES * length and length >= BITS_LENGTH * size:
        return "bits"
    return "dense" if size**2 <= min(DENSE_CELLS, DENSE_CELLS_PER_PAIR * pairs) else "sparse"


def pair_sums(
    sequences: RelabelledSequences,
    lags: npt.NDArray[np.int64],
    estimator: Estimator,
    *,
    kernel: str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """sum n f(n), and the number of non-zero n, over first, second symbols and pairs: two arrays (len(lags), 3).

    Every lag must lie in 0..length-1. `kernel` overrides the choice, `workers` the number of threads, `progress`
    the rule that a bar appears for work of more than two seconds on a terminal or in a notebook.
    """
    sums = np.empty((lags.size, 3), dtype=np.float64)
    cells = np.empty((lags.size, 3), dtype=np.int64)
    name = kernel or choose_kernel(sequences.size, sequences.symbols.size, sequences.symbols.shape[1])
    count = _prepared(name, sequences)
    seconds = sequences.symbols.size / PAIRS_PER_SECOND[name]
    threads = min(workers or available_cores(), lags.size)
    blocks = _blocks(lags.size, seconds, threads)

    def work(block: slice) -> int:
        count(lags[block], estimator, sums[block], cells[block])
        return int(block.stop) - int(block.start)

    shown = progress if progress is not None else seconds * lags.size / threads > BAR_SECONDS
    with _bar(lags.size, shown, forced=bool(progress)) as advance:
        if threads == 1 or len(blocks) == 1:
            for block in blocks:
                advance(work(block))
            return sums, cells
        pool = ThreadPoolExecutor(threads)
        try:
            for finished in as_completed([pool.submit(work, block) for block in blocks]):
                advance(finished.result())
        finally:  # on ctrl-C the blocks not yet begun are dropped
            pool.shutdown(cancel_futures=True)
    return sums, cells


def _prepared(name: str, sequences: RelabelledSequences) -> Kernel:
    symbols, size = sequences.symbols, sequences.size
    if name == "bits":
        return BitCounts(symbols, size).sums
    if name == "sparse":
        return SparseCounts(symbols, sequences.occurrences).sums
    if name == "dense":
        return lambda some, estimator, sums, cells: dense_sums(symbols, size, some, estimator, sums, cells)
    raise ValueError(f"unknown kernel {name!r}; choose one of {', '.join(PAIRS_PER_SECOND)}")


def _blocks(number: int, seconds: float, threads: int) -> list[slice]:
    """Slices of 0..number-1 of about BLOCK_SECONDS each, of even size because the dense kernel takes lags in pairs."""
    long_enough = 2 * max(1, round(BLOCK_SECONDS / max(seconds, 1e-9) / 2))
    even_share = max(2, 2 * (number // (2 * threads)))
    step = min(long_enough, even_share) if seconds * number > 1e-3 else number
    return [slice(start, min(start + step, number)) for start in range(0, number, step)]


@contextmanager
def _bar(total: int, shown: bool, forced: bool) -> Iterator[Callable[[int], Any]]:
    """A function that advances a progress bar, or does nothing."""
    if not shown:
        yield lambda done: None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets is no reason to warn a reader
        from tqdm.auto import tqdm
    # None lets tqdm switch itself off where nobody watches, for example in a log file.
    with tqdm(total=total, desc="lags", unit="lag", leave=False, disable=False if forced else None) as bar:
        yield bar.update


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
    array = plain_array(sequences, "sequences")
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
        if np.any(np.abs(array) >= np.float64(2.0**53)):  # half precision knows no 2^53
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
