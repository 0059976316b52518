"""Is one part of a corpus like another? Block bootstrap of mutual-information curves, and non-uniformity as a number.

A validation set is smaller than its training set, and an estimator's bias grows as the sample shrinks. A split is
therefore never compared with the whole of another, only with pieces of the same size cut out of it, each with its own
sampling floor taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.stats import t as student

from lib.information.documents.segments import (
    Floats,
    Integers,
    Symbols,
    checked_lags,
    checked_offsets,
    checked_symbols,
    pair_starts,
    sampling_floor,
    segmented_mutual_information,
)
from lib.information.estimators import entropy_from_sums, find_estimator, weighted_sum

CONFIDENCE = 0.95
DENSE_CELLS = 1 << 24  # tables of all blocks are kept up to this size, beyond it the pairs are sorted


@dataclass(frozen=True)
class NonUniformity:
    """How far the mutual information of a split is from that of equally long pieces of a reference, as a log-ratio.

    value: ln(band mean of the split) - mean of ln(band mean of a piece); 0 for a uniform corpus.
    interval: 95 % bootstrap interval of `value`. expected: where one more piece of the reference would lie, 95 %;
    `None` where there was no reference to cut into pieces.
    """

    value: float
    interval: tuple[float, float]
    expected: tuple[float, float] | None = None

    @property
    def uniform(self) -> bool:
        """Whether the split could be one more piece of the reference; without pieces, whether the interval holds 0."""
        low, high, middle = (*self.expected, self.value) if self.expected else (*self.interval, 0.0)
        return low <= middle <= high


def cut_pieces(symbols: npt.NDArray[np.integer], length: int, count: int) -> list[npt.NDArray[np.integer]]:
    """`count` contiguous pieces of `length` symbols, evenly spread; they overlap if they do not fit side by side."""
    if not 1 <= length <= len(symbols) or count < 1:
        raise ValueError(f"pieces have 1 to {len(symbols)} symbols and there is at least one; got {count} of {length}")
    starts = np.linspace(0, len(symbols) - length, count).round().astype(int)
    return [symbols[start : start + length] for start in starts]


def band_information(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    shuffles: int = 4,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> float:
    """Mean mutual information over the lags, less the sampling floor of the same symbols (nats).

    The floor is that of all pairs: documents are to be long beside the lags.
    """
    curve = segmented_mutual_information(symbols, lags, offsets, estimator)
    return float(curve.mean() - sampling_floor(symbols, shuffles, seed, estimator).mean())


def block_bootstrap(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> Floats:
    """Mutual-information curves of resampled text, shape (replicates, len(lags)), nats.

    The text is cut into contiguous blocks and every replicate keeps a random half of them; a pair belongs to the block
    in which it starts, so no pair crosses a seam. Half-samples spread about their mean as the estimate does about the
    truth (Shao and Wu 1989), and no block is drawn twice: a repeated block looks to the estimator like certainty, and
    lifts its result by an amount that changes from draw to draw. The curves are shifted so that their mean is the
    estimate itself: half the pairs have twice the bias. O(length + replicates * occupied cells) a lag.
    """
    array, size = checked_symbols(symbols)
    borders = checked_offsets(offsets, len(array))
    steps = checked_lags(lags, int(np.diff(borders).max()))
    most = len(array) // int(steps.max())
    if blocks < 2 or blocks % 2 or replicates < 2 or blocks > most:
        raise ValueError(
            f"blocks must be an even number from 2 to {most}, so that none is shorter than the largest lag, and "
            f"replicates at least 2; got {blocks} and {replicates}"
        )
    random = np.random.default_rng(seed)
    weights = random.permuted(np.tile(np.arange(blocks) % 2, (replicates, 1)), axis=1)  # (replicates, blocks)
    curves = np.empty((replicates, len(steps)))
    for index, lag in enumerate(steps):
        tables = _block_tables(array, size, borders, int(lag), blocks)
        first, second, joint = (_resampled_entropy(counts, weights, estimator) for counts in tables)
        curves[:, index] = first + second - joint
    estimate = segmented_mutual_information(array, steps, borders, estimator)
    return np.asarray(curves - curves.mean(axis=0) + estimate, dtype=np.float64)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_blocks(symbols: Any, offsets: Any, lag: int, tables: Any) -> None:
    length, blocks = len(symbols), len(tables)
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1] - lag):
            tables[place * blocks // length, symbols[place], symbols[place + lag]] += 1


def _block_tables(array: Symbols, size: int, borders: Integers, lag: int, blocks: int) -> list[Integers]:
    """Counts of first symbols, second symbols and pairs in every block, each (blocks, cells that occur at all)."""
    if blocks * size * size <= DENSE_CELLS:
        tables = np.zeros((blocks, size, size), dtype=np.int32)
        _count_blocks(array, borders, lag, tables)
        joint = tables.reshape(blocks, -1)
        return [tables.sum(axis=2), tables.sum(axis=1), joint[:, joint.any(axis=0)]]
    starts = pair_starts(lag, borders)
    block, first, second = starts * blocks // len(array), array[starts], array[starts + lag]
    counted = []
    for codes in (first, second, first.astype(np.int64) * size + second):
        values, number = np.unique(codes, return_inverse=True)
        cells = len(values)
        counted.append(np.bincount(block * cells + number, minlength=blocks * cells).reshape(blocks, cells))
    return counted


def _resampled_entropy(counts: Integers, weights: Integers, estimator: str) -> Floats:
    """Entropy of the counts (blocks, cells) for every choice of blocks, shape (replicates,)."""
    rule = find_estimator(estimator)
    resampled = np.rint(weights.astype(np.float64) @ counts)  # (replicates, cells); floats multiply faster
    occupied = (resampled > 0).sum(axis=1)
    return entropy_from_sums(resampled.sum(axis=1), weighted_sum(resampled, rule, axis=1), occupied, rule)


def non_uniformity(
    replicates: npt.ArrayLike, pieces: npt.ArrayLike, seed: int | np.random.Generator = 0
) -> NonUniformity:
    """Log-ratio of a split to same-size pieces of a reference, with a bootstrap interval.

    replicates: (r,) bootstrap values of the split's band information; pieces: (p,) band information of the pieces,
    p >= 3. The interval resamples the split's blocks and the pieces; the expected range is that of one more piece, a
    Student prediction interval in the logarithm. `ValueError` if a value is not above the sampling floor: then there is
    nothing to take the logarithm of, and a longer piece or nearer lags are needed.
    """
    split, reference = np.asarray(replicates, dtype=np.float64), np.asarray(pieces, dtype=np.float64)
    if split.ndim != 1 or split.size < 2 or reference.ndim != 1 or reference.size < 3:
        raise ValueError(f"at least 2 replicates and 3 pieces in 1-D arrays, got {split.shape} and {reference.shape}")
    if not split.mean() > 0 or not np.all(reference > 0):
        raise ValueError(
            f"information at or below the sampling floor: split {split.mean():.2e}, least piece {reference.min():.2e} "
            "nats; take longer pieces or smaller lags"
        )
    logs = np.log(reference)
    value = float(np.log(split.mean()) - logs.mean())
    random = np.random.default_rng(seed)
    redrawn = random.choice(logs, size=(split.size, logs.size)).mean(axis=1)
    with np.errstate(divide="ignore"):
        spread = np.log(np.maximum(split, 0.0)) - redrawn  # minus infinity where a replicate lies below the floor
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(spread, [tail, 1 - tail], method="inverted_cdf")
    reach = float(student.ppf(1 - tail, logs.size - 1) * logs.std(ddof=1) * np.sqrt(1 + 1 / logs.size))
    return NonUniformity(value, (float(low), float(high)), (-reach, reach))


def compare_split(
    split: npt.NDArray[np.integer],
    reference: npt.NDArray[np.integer],
    lags: npt.ArrayLike,
    *,
    pieces: int = 9,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> NonUniformity:
    """Non-uniformity of `split` against `pieces` pieces of the same length of `reference`, over the given lags.

    Both are (length,) integers in one numbering or in two: mutual information does not depend on names.
    """
    random = np.random.default_rng(seed)
    curves = block_bootstrap(split, lags, blocks=blocks, replicates=replicates, seed=random, estimator=estimator)
    own = curves.mean(axis=1) - sampling_floor(split, seed=random, estimator=estimator).mean()
    cut = [
        band_information(piece, lags, seed=random, estimator=estimator)
        for piece in cut_pieces(reference, len(split), pieces)
    ]
    return non_uniformity(own, np.array(cut), random)


def compare_pair(
    first: npt.NDArray[np.integer],
    second: npt.NDArray[np.integer],
    lags: npt.ArrayLike,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> NonUniformity:
    """ln(band information of `first`) - ln(that of `second`), both cut to the shorter length, blocks of both redrawn.

    For two splits whose training set is not at hand. `ValueError` if either lies at or below its sampling floor.
    """
    random = np.random.default_rng(seed)
    length = min(len(first), len(second))
    logs, values = [], []
    for part in (first[:length], second[:length]):
        curves = block_bootstrap(part, lags, blocks=blocks, replicates=replicates, seed=random, estimator=estimator)
        band = curves.mean(axis=1) - sampling_floor(part, seed=random, estimator=estimator).mean()
        if not band.mean() > 0:
            raise ValueError(f"information at or below the sampling floor: {band.mean():.2e} nats; take smaller lags")
        values.append(np.log(band.mean()))
        logs.append(np.log(np.maximum(band, np.finfo(float).tiny)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(logs[0] - logs[1], [tail, 1 - tail], method="inverted_cdf")
    return NonUniformity(float(values[0] - values[1]), (float(low), float(high)))
