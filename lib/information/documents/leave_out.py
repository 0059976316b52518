"""What each stretch of a text contributes to its mutual-information curve: the curve without it, at every lag.

A bootstrap redraws blocks from tables of all of them, which for thousands of symbols are too large.
Here one table of all pairs is kept, and the pairs of one block at a time are taken out of it: sum n f(n) changes only
at the cells that the block has touched. So all B curves cost two passes over the text, and memory two tables. Where
tables of all blocks hold no more cells than the text has symbols they are kept after all, and one pass is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.checks import generator, whole_number
from lib.information.counting.dense import series_coefficients, tabulated_weights, weight
from lib.information.documents.segments import Floats, checked_offsets, checked_symbols
from lib.information.estimators import entropy_from_sums, find_estimator
from lib.information.two_point import checked_lags
from lib.machine import available_cores

LARGEST = 1 << 25  # cells of a table: 128 MB, and each thread has two
APART = 1 << 22  # cells of the tables of all blocks together: 16 MB for each thread


@dataclass(frozen=True)
class LeftOut:
    """A mutual-information curve, and the same curve without each block of the text; nats."""

    lags: npt.NDArray[np.int64]
    curve: Floats  # (lags,)
    without: Floats  # (blocks, lags)

    def replicates(self, count: int, seed: int | np.random.Generator = 0) -> Floats:
        """Bootstrap of the blocks by their influence on the curve, (count, lags), nats.

        curve + sum over blocks of (n_b - 1)(B - 1)(mean of `without` - `without`_b)/B, n_b how often block b is drawn
        in B draws: the estimate to first order in the weights of the blocks (Efron 1982, Sec. 6.3), scaled so that its
        variance is that of the jackknife. All lags of a replicate share their blocks. O(count blocks lags).
        """
        replicates, blocks = whole_number(count, "count", 1), len(self.without)
        influence = (blocks - 1) * (self.without.mean(axis=0) - self.without)
        drawn = generator(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=replicates)
        scale = np.sqrt(blocks / (blocks - 1)) / blocks
        return np.asarray(self.curve + scale * ((drawn - 1) @ influence), dtype=np.float64)


def leave_blocks_out(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    *,
    blocks: int = 32,
    estimator: str = "grassberger2003",
    workers: int | None = None,
) -> LeftOut:
    """Auto-mutual information of documents, and without each of `blocks` contiguous stretches; nats.

    symbols, lags, offsets: as in `segmented_mutual_information`, whose curve this is. A pair belongs to the block in
    which it starts. ``ValueError`` for bad input, for blocks shorter than the largest lag or without a pair at some
    lag, and for more than 5792 symbols (number the rare ones alike). O(length + size^2) per lag; the lags are shared
    among `workers` threads (default: all cores), each with two tables of size^2 counters, or with blocks + 1 of them
    where those of all blocks hold at most as many counters as there are symbols, and at most 2^22.
    """
    rule = find_estimator(estimator)
    threads = available_cores() if workers is None else whole_number(workers, "workers", 1)
    array, size = checked_symbols(symbols)
    borders = checked_offsets(offsets, len(array))
    steps = checked_lags(lags, int(np.diff(borders).max()), least=1)
    most = len(array) // int(steps.max())
    if not 2 <= whole_number(blocks, "blocks", 0) <= most:
        raise ValueError(f"blocks: 2 to {most} are allowed, so that none is shorter than the largest lag; got {blocks}")
    if size * size > LARGEST:  # numbered with gaps, perhaps
        values, numbered = np.unique(array, return_inverse=True)
        array, size = numbered.astype(array.dtype), len(values)
    if size * size > LARGEST:
        raise ValueError(f"symbols: at most {int(LARGEST**0.5)} different ones are allowed, got {size}")
    weights, series = tabulated_weights(rule), series_coefficients(rule)

    def count(some: Iterable[int]) -> list[tuple[Floats, Any, Any]]:
        tables = blocks if blocks * size * size <= min(len(array), APART) else 1
        whole, parts = np.zeros(size * size, dtype=np.uint32), np.zeros((tables, size * size), dtype=np.uint32)
        found = []
        for lag in some:
            sums, cells = np.zeros((blocks + 1, 3)), np.zeros((blocks + 1, 3), dtype=np.int64)
            pairs = np.zeros(blocks + 1, dtype=np.int64)
            _leave_out(array, size, borders, lag, blocks, whole, parts, weights, series, sums, cells, pairs)
            found.append((sums, cells, pairs))
        return found

    threads = max(1, min(threads, len(steps)))
    shares = [steps[first::threads].tolist() for first in range(threads)]
    curves = np.empty((blocks + 1, len(steps)))
    with ThreadPoolExecutor(threads) as pool:
        for first, found in enumerate(pool.map(count, shares)):
            for index, (sums, cells, pairs) in zip(range(first, len(steps), threads), found, strict=True):
                if np.any(pairs < 1):
                    raise ValueError(f"lags: too few pairs at {steps[index]}; take smaller lags or fewer blocks")
                entropies = entropy_from_sums(pairs[:, None], sums, cells, rule)
                curves[:, index] = entropies[:, 0] + entropies[:, 1] - entropies[:, 2]
    return LeftOut(steps, curves[0], curves[1:])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _leave_out(
    symbols: Any, size: int, offsets: Any, lag: int, blocks: int, whole: Any, parts: Any,
    weights: Any, series: Any, sums: Any, cells: Any, pairs: Any,
) -> None:  # fmt: skip
    """Row 0 of sums, cells and pairs: of all pairs; row b + 1: without those that start in block b. Tables end zero.

    whole (size^2,), parts (blocks, size^2) or (1, size^2): with tables of all blocks the text is read once, otherwise
    the cells that a block has touched are noted as it is read again.
    """
    apart, ends = len(parts) > 1, np.arange(blocks + 1) * len(symbols) // blocks
    touched = np.empty(len(whole) if apart else len(symbols) // blocks + 1, dtype=np.int64)
    document = 0
    for block in range(blocks):
        table = parts[block] if apart else whole
        document = _count(symbols, size, offsets, lag, ends[block], ends[block + 1], document, table)
        if apart:
            for cell in range(len(whole)):
                whole[cell] += table[cell]
    first, second = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for a in range(size):
        row = 0.0
        for b in range(size):
            n = int(whole[a * size + b])
            if n > 0:
                first[a] += n
                second[b] += n
                row += weight(n, weights, series)
                cells[0, 2] += 1
        sums[0, 2] += row
    pairs[0] = first.sum()
    _sum_margins(first, second, weights, series, sums[0], cells[0])
    document = 0
    for block in range(blocks):
        part, left = parts[block if apart else 0], np.stack((first, second))
        if apart:
            number = _take_out(part, touched, left)
        else:
            number, document = _count_anew(
                symbols, offsets, lag, ends[block : block + 2], document, part, touched, left
            )
        gone, emptied = 0.0, 0
        for index in range(number):
            cell = touched[index]
            n, own = int(whole[cell]), int(part[cell])
            gone += weight(n, weights, series) - weight(n - own, weights, series)
            emptied += n == own
            part[cell] = 0
        pairs[block + 1] = left[0].sum()
        sums[block + 1, 2] = sums[0, 2] - gone
        cells[block + 1, 2] = cells[0, 2] - emptied
        _sum_margins(left[0], left[1], weights, series, sums[block + 1], cells[block + 1])
    whole[:] = 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count(symbols: Any, size: int, offsets: Any, lag: int, place: int, end: int, document: int, table: Any) -> int:
    """Add the pairs that start at place .. end to a table; the document of `end`, from one at or before `place`."""
    width = np.uint64(size)
    while place < end:
        while offsets[document + 1] <= place:
            document += 1
        for i in range(place, min(end, offsets[document + 1] - lag)):
            table[np.uint64(symbols[i]) * width + np.uint64(symbols[i + lag])] += 1
        place = min(end, offsets[document + 1])
    return document


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_anew(
    symbols: Any, offsets: Any, lag: int, ends: Any, document: int, table: Any, touched: Any, left: Any
) -> tuple[int, int]:
    """The same into a table of zeros, off `left`, (2, size): how many new cells `touched` lists, and the document."""
    (first, second), width, number = left, np.uint64(left.shape[1]), 0
    place, end = ends
    while place < end:
        while offsets[document + 1] <= place:
            document += 1
        for i in range(place, min(end, offsets[document + 1] - lag)):
            near, far = np.uint64(symbols[i]), np.uint64(symbols[i + lag])
            cell = near * width + far
            if table[cell] == 0:
                touched[number] = cell
                number += 1
            table[cell] += 1
            first[near] -= 1
            second[far] -= 1
        place = min(end, offsets[document + 1])
    return number, document


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _take_out(table: Any, touched: Any, left: Any) -> int:
    """Take the pairs of a table off `left`, (2, size): how many of its cells are not zero, which `touched` lists."""
    (first, second), size, number = left, left.shape[1], 0
    for a in range(size):
        row = table[a * size : (a + 1) * size]
        for b in range(size):
            if row[b] > 0:
                touched[number] = a * size + b
                number += 1
                first[a] -= row[b]
                second[b] -= row[b]
    return number


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _sum_margins(first: Any, second: Any, weights: Any, series: Any, sums: Any, cells: Any) -> None:
    """Fill in the sums and cells of the first and of the second symbols."""
    for a in range(len(first)):
        if first[a] > 0:
            sums[0] += weight(first[a], weights, series)
            cells[0] += 1
        if second[a] > 0:
            sums[1] += weight(second[a], weights, series)
            cells[1] += 1
