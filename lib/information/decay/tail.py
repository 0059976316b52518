"""The tail of a mutual-information curve and what is needed to believe it: floor, spread, exponent, alternative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.information.decay.weighted_fits import WeightedFit, weighted_fit
from lib.information.documents.segments import (
    checked_offsets,
    pair_numbers,
    sampling_floor,
    segmented_mutual_information,
)
from lib.information.documents.uniformity import CONFIDENCE, block_bootstrap

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Tail:
    """I(tau) over a range of lags, and A tau^-exponent fitted to it with and without the sampling floor taken off.

    curve: as estimated, floor included; floor: the sampling floor, at each lag for the pairs that are left there;
    spread: bootstrap standard deviation of the curve; amplitude: of the fit without floor; intervals: 95 %, bootstrap.
    advantage: chi square of the exponential less that of the power law, floor off; positive favours the power law.
    favoured: share of the bootstrap replicates in which it is positive.
    last: interval of the mean over the farther half of the lags, floor taken off; above 0 where information is left.
    """

    lags: npt.NDArray[np.int64]
    curve: Floats
    floor: Floats
    spread: Floats
    amplitude: float
    exponent: float
    interval: Interval
    raw_exponent: float
    raw_interval: Interval
    advantage: float
    favoured: float
    last: Interval


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
    curve = segmented_mutual_information(symbols, steps, offsets, estimator)
    length = np.asarray(symbols).size
    pairs = pair_numbers(steps, checked_offsets(offsets, length))
    floor = sampling_floor(symbols, seed=random, estimator=estimator).mean() * length / pairs  # bias goes as 1/pairs
    redrawn = block_bootstrap(
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
    )


def _rate(fit: WeightedFit) -> tuple[float, Interval]:
    return float(fit.rate[0]), _middle(fit.rate[1:])


def _middle(values: Floats) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
