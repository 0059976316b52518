"""How sure is a curve of mutual information? Text cut into blocks and drawn again, and pieces of one length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.information.documents.segments import (
    Floats,
    Integers,
    Symbols,
    checked_offsets,
    checked_symbols,
    floor_at_lags,
    pair_numbers,
    pair_starts,
    sampling_floor,
    segmented_mutual_information,
)
from lib.information.estimators import entropy_from_sums, find_estimator, weighted_sum
from lib.information.two_point import checked_lags

DENSE_CELLS = 1 << 24  # tables of all blocks are kept up to this size, beyond it the pairs are sorted


class ResampledCurve(NamedTuple):
    """Mutual information at a distance as estimated, nats, with what is needed to believe it."""

    lags: Integers
    curve: Floats  # (lags,), sampling floor included
    floor: Floats  # (lags,), for the pairs that are left at each lag
    replicates: Floats  # (replicates, lags), of half the blocks each; their mean is the curve


def resampled_curve(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
    floor: Callable[..., Floats] = floor_at_lags,
) -> ResampledCurve:
    """A curve, its sampling floor and its block bootstrap: arguments and errors of `block_bootstrap`.

    floor: what measures it, `floor_at_lags` or `proportional_floor`.
    """
    random = np.random.default_rng(seed)
    steps = np.asarray(lags)
    curve = segmented_mutual_information(symbols, steps, offsets, estimator)
    below = floor(symbols, steps, offsets, seed=random, estimator=estimator).mean(axis=0)
    redrawn = block_bootstrap(
        symbols, steps, offsets, blocks=blocks, replicates=replicates, seed=random, estimator=estimator
    )
    return ResampledCurve(steps, curve, below, redrawn)


def proportional_floor(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    *,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> Floats:
    """The floor of the whole text, raised in proportion as pairs become fewer: shape (shuffles, len(lags)), nats.

    Good to a hundredth or so where nearly all pairs are left, as in rows of 32 768 characters. Where a third of them is
    lost and many cells hold less than a pair it is far too high: `floor_at_lags`.
    """
    length = np.asarray(symbols).size
    pairs = pair_numbers(lags, checked_offsets(offsets, length))
    whole = sampling_floor(symbols, seed=seed, estimator=estimator).mean()
    return np.asarray(whole * length / pairs)[None]


def cut_pieces(symbols: npt.NDArray[np.integer], length: int, count: int) -> list[npt.NDArray[np.integer]]:
    """`count` contiguous pieces of `length` symbols, evenly spread; they overlap if they do not fit side by side."""
    if not 1 <= length <= len(symbols) or count < 1:
        raise ValueError(f"pieces have 1 to {len(symbols)} symbols and there is at least one; got {count} of {length}")
    starts = np.linspace(0, len(symbols) - length, count).round().astype(int)
    return [symbols[start : start + length] for start in starts]


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
    estimate itself: half the pairs have twice the bias. O(length + replicates * occupied cells) per lag.
    """
    array, size = checked_symbols(symbols)
    borders = checked_offsets(offsets, len(array))
    steps = checked_lags(lags, int(np.diff(borders).max()), least=1)
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
