"""Counting pairs at many lags: chooses a kernel and shares the lags among the cores.

| kernel | for                            | cost of a lag             | memory                        |
|--------|--------------------------------|---------------------------|-------------------------------|
| bits   | alphabets of up to 8 symbols   | size^2 pairs / 64 words   | size pairs / 8 bytes          |
| dense  | a table that fits a cache      | pairs + size^2            | two tables a core             |
| sparse | larger vocabularies            | pairs + size              | two integers a position, three rows a core |

All of them count in integers, so they agree exactly with each other and with a loop over pairs. No memory grows with
the number of lags.
"""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.information.counting.alphabet import RelabelledSequences
from lib.information.counting.bits import BitCounts
from lib.information.counting.dense import dense_sums
from lib.information.counting.sparse import SparseCounts
from lib.information.estimators import Estimator
from lib.machine import available_cores

BITS_SYMBOLS = 8  # beyond, size^2 passes over the bits cost as much as one over the symbols
DENSE_CELLS = 1 << 21  # beyond, increments miss the second cache and the sparse kernel is as fast
DENSE_CELLS_PER_PAIR = 4  # beyond, most of the time would go into reading and clearing empty cells
PAIRS_PER_SECOND = {"bits": 5e10, "dense": 1.5e9, "sparse": 1e8}  # one core, cautious: decides only about the bar
BLOCK_SECONDS = 0.1  # work handed to a thread at a time: long enough to be cheap, short enough to interrupt
BAR_SECONDS = 2.0  # predicted work that deserves a progress bar

Kernel = Callable[[npt.NDArray[np.int64], Estimator, npt.NDArray[np.float64], npt.NDArray[np.int64]], None]


def choose_kernel(size: int, pairs: int) -> str:
    """ "bits", "dense" or "sparse", from the number of distinct symbols and of pairs at a lag."""
    if size <= BITS_SYMBOLS:
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
    name = kernel or choose_kernel(sequences.size, sequences.symbols.size)
    count = _prepared(name, sequences, lags)
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


def _prepared(name: str, sequences: RelabelledSequences, lags: npt.NDArray[np.int64]) -> Kernel:
    symbols, size = sequences.symbols, sequences.size
    if name == "bits":
        return BitCounts(symbols, size, int(lags.max())).sums
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
