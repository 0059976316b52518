"""The tail of a mutual-information curve and what is needed to believe it: floor, spread, exponent, alternative.

Laws of decay are fitted by least squares in I itself, weighted by its spread. A curve less its sampling floor scatters
about zero where nothing is left, and has no logarithm there. Fits in ln I, as in the papers, then keep the values that
chance made positive. Here every lag counts by how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from lib.information.documents.segments import (
    checked_offsets,
    pair_numbers,
    sampling_floor,
    segmented_mutual_information,
)
from lib.information.documents.uniformity import CONFIDENCE, block_bootstrap, cut_pieces
from lib.information.intervals import Interval

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
Law = Literal["power", "exponential"]
_STEPS = 2001
_EXPONENTS = (-1.0, 4.0)  # of tau, in the power law


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


@dataclass(frozen=True)
class WeightedFit:
    """Fits of I(tau) = A f(tau) to several curves; `rate` is gamma in tau^-gamma or 1/xi in exp(-tau/xi).

    rate, amplitude, chi_square: (curves,); chi_square is the sum of squared residuals over squared spreads.
    """

    rate: Floats
    amplitude: Floats
    chi_square: Floats


def weighted_fit(
    lags: npt.ArrayLike, curves: npt.ArrayLike, spread: npt.ArrayLike, law: Law = "power", fastest: float = 20.0
) -> WeightedFit:
    """Fit A tau^-gamma ("power") or A exp(-tau/xi) ("exponential") to each curve: least sum of (I - A f)^2 / spread^2.

    curves: (lags,) or (curves, lags), nats, of either sign; spread: (lags,), their standard deviations. The amplitude
    is solved for exactly, the rate on a grid of 2001 values: gamma in [-1, 4], tau_max/xi from -5 to `fastest`. Two
    parameters each, so that chi_square compares the laws. O(curves * lags * grid). `ValueError` for shapes that do not
    fit and spreads that are not positive.
    """
    steps, sigma = np.asarray(lags, dtype=np.float64), np.asarray(spread, dtype=np.float64)
    values = np.atleast_2d(np.asarray(curves, dtype=np.float64))
    if steps.ndim != 1 or steps.size < 3 or values.shape[1:] != steps.shape or sigma.shape != steps.shape:
        raise ValueError(
            f"at least 3 lags, and curves and spread of that length; got {steps.shape}, {values.shape}, {sigma.shape}"
        )
    if np.any(steps <= 0) or not np.all(sigma > 0) or not np.all(np.isfinite(values)):
        raise ValueError("lags and spreads must be positive and curves finite")
    if law not in ("power", "exponential"):
        raise ValueError(f"unknown law {law!r}; choose 'power' or 'exponential'")
    if law == "power":
        rates = np.linspace(*_EXPONENTS, _STEPS)
        shapes = (steps / steps[0]) ** -rates[:, None]  # (grid, lags), 1 at the first lag
    else:
        rates = np.linspace(-5.0, fastest, _STEPS) / steps.max()
        shapes = np.exp(-(steps - steps[0]) * rates[:, None])
    weighted = shapes / sigma
    observed = values / sigma
    projections = observed @ weighted.T  # (curves, grid)
    norms = (weighted**2).sum(axis=1)
    best = np.argmax(projections**2 / norms, axis=1)
    amplitude = projections[np.arange(len(values)), best] / norms[best]
    residual = observed - amplitude[:, None] * weighted[best]
    scale = steps[0] ** rates[best] if law == "power" else np.exp(steps[0] * rates[best])
    return WeightedFit(rates[best], amplitude * scale, (residual**2).sum(axis=1))
