"""What each stretch of a text contributes to its mutual-information curve: the curve without it, at every lag.

A bootstrap redraws blocks from tables of all of them, which for thousands of symbols are too large.
Here one table of all pairs is kept, and the pairs of one block at a time are taken out of it: sum n f(n) changes only
at the cells that the block has touched. So all B curves cost two passes over the text, and memory two tables.
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
    among `workers` threads (default: all cores), each with two tables of size^2 counters.
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
        whole, part = np.zeros(size * size, dtype=np.uint32), np.zeros(size * size, dtype=np.uint32)
        found = []
        for lag in some:
            sums, cells = np.zeros((blocks + 1, 3)), np.zeros((blocks + 1, 3), dtype=np.int64)
            pairs = np.zeros(blocks + 1, dtype=np.int64)
            _leave_out(array, size, borders, lag, blocks, whole, part, weights, series, sums, cells, pairs)
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
    symbols: Any, size: int, offsets: Any, lag: int, blocks: int, whole: Any, part: Any,
    weights: Any, series: Any, sums: Any, cells: Any, pairs: Any,
) -> None:  # fmt: skip
    """Row 0 of sums, cells and pairs: of all pairs; row b + 1: without those that start in block b. Tables end zero."""
    length = len(symbols)
    first, second = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1] - lag):
            whole[np.uint64(symbols[place]) * np.uint64(size) + np.uint64(symbols[place + lag])] += 1
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
    for a in range(size):
        pairs[0] += first[a]
        if first[a] > 0:
            sums[0, 0] += weight(first[a], weights, series)
            cells[0, 0] += 1
        if second[a] > 0:
            sums[0, 1] += weight(second[a], weights, series)
            cells[0, 1] += 1
    touched = np.empty(length // blocks + 2, dtype=np.int64)
    own_first, own_second = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    document = 0
    for block in range(blocks):
        own_first[:] = 0
        own_second[:] = 0
        number, seen = 0, 0
        place, end = block * length // blocks, (block + 1) * length // blocks
        while place < end:
            while offsets[document + 1] <= place:
                document += 1
            stop = min(end, offsets[document + 1] - lag)
            for i in range(place, stop):
                near, far = np.uint64(symbols[i]), np.uint64(symbols[i + lag])
                cell = near * np.uint64(size) + far
                if part[cell] == 0:
                    touched[number] = cell
                    number += 1
                part[cell] += 1
                own_first[near] += 1
                own_second[far] += 1
                seen += 1
            place = min(end, offsets[document + 1])
        gone, emptied = 0.0, 0
        for index in range(number):
            cell = np.uint64(touched[index])
            n = int(whole[cell])
            left = n - int(part[cell])
            gone += weight(n, weights, series) - weight(left, weights, series)
            emptied += left == 0
            part[cell] = 0
        pairs[block + 1] = pairs[0] - seen
        sums[block + 1, 2] = sums[0, 2] - gone
        cells[block + 1, 2] = cells[0, 2] - emptied
        for a in range(size):
            left = first[a] - own_first[a]
            if left > 0:
                sums[block + 1, 0] += weight(left, weights, series)
                cells[block + 1, 0] += 1
            left = second[a] - own_second[a]
            if left > 0:
                sums[block + 1, 1] += weight(left, weights, series)
                cells[block + 1, 1] += 1
    whole[:] = 0
