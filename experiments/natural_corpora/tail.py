"""The tail of a mutual-information curve and what is needed to believe it: floor, spread, exponent, alternative.

Laws of decay are fitted by least squares in I itself, weighted by its spread. A curve less its sampling floor scatters
about zero where nothing is left, and has no logarithm there. Fits in ln I, as in the papers, then keep the values that
chance made positive. Here every lag counts by how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from experiments.natural_corpora.resampling import cut_pieces, resampled_curve
from experiments.natural_corpora.uniformity import CONFIDENCE
from lib.information.decay.weighted import WeightedFit, weighted_fit
from lib.information.intervals import Interval

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Tail:
    """I(tau) over a range of lags, and A tau^-exponent fitted to it with and without the sampling floor taken off.

    curve: as estimated, floor included; floor: the sampling floor, at each lag for the pairs that are left there;
    spread: bootstrap standard deviation of the curve; amplitude: of the fit without floor; intervals: 95 %, bootstrap.
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
    spread = redrawn.std(axis=0, ddof=1)
    raw = weighted_fit(steps, np.vstack([curve, redrawn]), spread)  # the estimate first, then its replicates
    power, exponential = (
        weighted_fit(steps, np.vstack([curve, redrawn]) - floor, spread, law) for law in ("power", "exponential")
    )
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
        last=_middle((redrawn - floor)[:, len(steps) // 2 :].mean(axis=1)),
        means=(redrawn - floor).mean(axis=1),
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


def _rate(fit: WeightedFit) -> tuple[float, Ends]:
    return float(fit.rate[0]), _middle(fit.rate[1:])


def _middle(values: Floats) -> Ends:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
