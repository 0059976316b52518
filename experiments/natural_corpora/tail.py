"""The tail of a mutual-information curve and what is needed to believe it: floor, spread, exponent, alternative.

Laws of decay are fitted by least squares in I itself, weighted by its spread. A curve less its sampling floor scatters
about zero where nothing is left, and has no logarithm there. Fits in ln I, as in the papers, then keep the values that
chance made positive. Here every lag counts by how well it is known.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from experiments.natural_corpora.resampling import block_bootstrap, cut_pieces, resampled_curve
from experiments.natural_corpora.uniformity import CONFIDENCE
from lib.information.decay.weighted import WeightedFit, weighted_fit
from lib.information.documents.segments import (
    checked_offsets,
    floor_at_lags,
    segmented_mutual_information,
    shuffled_partners,
)
from lib.information.intervals import Interval

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
LEVELS = 8  # distances at which the level of documents is measured


@dataclass(frozen=True)
class Tail:
    """I(tau) over a range of lags, and A tau^-exponent fitted to it with and without the sampling floor taken off.

    curve: as estimated, floor included; floor: the sampling floor, at each lag for the pairs that are left there;
    spread: bootstrap standard deviation of what is fitted without floor; amplitude: of that fit; intervals: 95 %,
    bootstrap. They know the spread of one text and not its bias: of 40 exact power-law sequences of each exponent, a
    million binary symbols long, they held the exponent 0.3 in 4, 0.6 in 17 and 1 in 27, and lay above it in the others.
    advantage: chi square of the exponential less that of the power law, floor off; positive favours the power law.
    favoured: share of the bootstrap replicates in which it is positive.
    last: interval of the mean over the farther half of the lags, floor taken off; above 0 where information is left.
    means: (replicates,) mean over all lags in every bootstrap replicate, floor taken off.
    """

    lags: npt.NDArray[np.int64]
    curve: Floats
    floor: Floats
    spread: Floats
    amplitude: float
    exponent: float
    interval: Ends
    raw_exponent: float
    raw_interval: Ends
    advantage: float
    favoured: float
    last: Ends
    means: Floats


def measure_tail(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> Tail:
    """Measure a curve, its floor and its bootstrap spread, and fit both laws to the estimate and to every replicate.

    symbols: (length,) integers, offsets: borders of the documents, lags: in increasing order. Nats throughout.
    `ValueError` as from `segmented_mutual_information` and `block_bootstrap`.
    """
    random = np.random.default_rng(seed)
    steps = np.asarray(lags)
    _, curve, floor, redrawn = resampled_curve(
        symbols, steps, offsets, blocks=blocks, replicates=replicates, seed=random, estimator=estimator
    )
    return _tail(steps, curve, floor, redrawn, np.vstack([curve, redrawn]) - floor)


def measure_beside_documents(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> tuple[Tail, Tail]:
    """`measure_tail`, and a second one whose floor includes what two symbols tell by standing in the same document.

    That level is what is found, less its floor, when the symbols of every document are shuffled; the mean over 8 of the
    lags is taken off at every lag. It depends on which documents are drawn, as the curve does: every replicate has its
    own, of the same blocks. Two kinds of information are taken to add, and what slow memory leaves between distant
    places of a document goes too: of tau^-1/2 in documents of length L about as much as it has at L/5. So what stays is
    beyond documents, and what goes may be either.

    `ValueError` as from `measure_tail`, and for documents of fewer than 8 symbols.
    """
    random = np.random.default_rng(seed)
    steps, array = np.asarray(lags), np.asarray(symbols)
    borders = checked_offsets(offsets, array.size)
    if np.diff(borders).min() < 8:
        raise ValueError(f"offsets: documents of at least 8 symbols are allowed, got {np.diff(borders).min()}")
    bootstrap = partial(block_bootstrap, blocks=blocks, replicates=replicates, estimator=estimator)
    curve = segmented_mutual_information(array, steps, borders, estimator)
    floor = floor_at_lags(array, steps, borders, seed=random, estimator=estimator).mean(axis=0)
    kept = copy.deepcopy(random)  # draws the same blocks
    redrawn = bootstrap(array, steps, borders, seed=random)
    levels = []
    for lag in steps[np.unique(np.linspace(0, len(steps) - 1, LEVELS).round().astype(int))]:
        shuffled = array[shuffled_partners(borders, 1, within=True, seed=random)]
        found = bootstrap(shuffled, [lag], borders, seed=copy.deepcopy(kept))[:, 0]
        below = floor_at_lags(shuffled, [lag], borders, shuffles=2, seed=random, estimator=estimator).mean()
        levels.append(np.concatenate([[found.mean()], found]) - below)  # the mean is the estimate
    level = np.mean(levels, axis=0)
    left = np.vstack([curve, redrawn]) - floor
    return (
        _tail(steps, curve, floor, redrawn, left),
        _tail(steps, curve, floor + level[0], redrawn, left - level[:, None]),
    )


def steeper_than_pieces(
    split: npt.NDArray[np.integer],
    reference: npt.NDArray[np.integer],
    lags: npt.ArrayLike,
    *,
    pieces: int = 9,
    blocks: int = 32,
    replicates: int = 12,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> Interval:
    """Exponent of `split` as estimated, less the mean of those of pieces of `reference` that are as long.

    The floor flattens a short text, and at one length it does so alike on both sides: what differs then is the text.
    Negative where the split is flatter. The 95 % interval is Student's for one more piece, by the spread of the pieces;
    replicates only weight the lags. `ValueError` for fewer than 3 pieces, else as from `measure_tail`. O(pieces) tails.
    """
    if pieces < 3:
        raise ValueError(f"at least 3 pieces tell how much pieces differ, got {pieces}")
    random = np.random.default_rng(seed)
    own, *others = (
        measure_tail(text, lags, blocks=blocks, replicates=replicates, seed=random, estimator=estimator).raw_exponent
        for text in (split, *cut_pieces(reference, len(split), pieces))
    )
    quantile = float(stdtrit(pieces - 1, 0.5 + CONFIDENCE / 2))
    reach = quantile * float(np.std(others, ddof=1)) * float(np.sqrt(1 + 1 / pieces))
    value = own - float(np.mean(others))
    return Interval(value, value - reach, value + reach, form="+.2f")


def _tail(steps: npt.NDArray[np.int64], curve: Floats, floor: Floats, redrawn: Floats, left: Floats) -> Tail:
    """left: what is fitted, the estimate first, then its replicates."""
    spread = left[1:].std(axis=0, ddof=1)
    raw = weighted_fit(steps, np.vstack([curve, redrawn]), redrawn.std(axis=0, ddof=1))
    power, exponential = (weighted_fit(steps, left, spread, law) for law in ("power", "exponential"))
    advantage = exponential.chi_square - power.chi_square
    return Tail(
        steps,
        curve,
        floor,
        spread,
        float(power.amplitude[0]),
        *_rate(power),
        *_rate(raw),
        advantage=float(advantage[0]),
        favoured=float((advantage[1:] > 0).mean()),
        last=_middle(left[1:, len(steps) // 2 :].mean(axis=1)),
        means=left[1:].mean(axis=1),
    )


def _rate(fit: WeightedFit) -> tuple[float, Ends]:
    return float(fit.rate[0]), _middle(fit.rate[1:])


def _middle(values: Floats) -> Ends:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
