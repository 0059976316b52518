"""Exponential, power law, neither, nothing, or too short to say: the rule that reads a curve, fixed before any text.

A law holds on a range if the curve, in the mean square over its distances, stays within its noise and a tenth. The rule
looks for the nearest distance from which on one law holds and the other does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from lib.information.decay.weighted import weighted_fit
from lib.information.intervals import Interval
from lib.measure.curves import Curve

Floats = npt.NDArray[np.float64]
Verdict = Literal["exponential", "power law", "neither", "nothing above the floor", "too short to say"]
FEWEST = 5000  # symbols: shorter texts get no verdict
SEEN = 3.0  # standard deviations above the floor
TOGETHER = 8.0  # of those without blocks, for all distances together: of the floor there are 4 shuffles
TOLERANCE = 0.1  # of the law
POINTS = 5  # distances that a law is fitted to
DECADE = 10.0  # from the nearest to the farthest distance, but for an exponential from the first distance on
BEYOND = 2.0  # times the farthest distance with information: so far a law may not predict what is not there
SURE = 0.975  # of the replicates, where both laws fit
MISFIT = 0.995  # of replicates about a law itself have a smaller misfit than one that is refused
LEVEL = 0.2  # a curve that falls by no more than this, in ln I over its range, has no law of decay


@dataclass(frozen=True)
class Reading:
    """What a curve says: the verdict and why, the distances it is about, and the number of the law that holds.

    The interval of an exponent does not cover at 95 % where the memory of one text is long (see `read_curve`). That
    of a correlation length is too short in one text of six: of 194 chains of two states with second eigenvalues 0.5 to
    0.998 and 100 000 symbols it missed the true length in 34, and lay below it in all of these.
    """

    verdict: Verdict
    reason: str
    range: tuple[int, int] | None = None
    correlation_length: Interval | None = None
    exponent: Interval | None = None
    amplitude: float | None = None  # nats, at distance 0 of the exponential, 1 of the power law


@dataclass(frozen=True)
class _Law:
    holds: bool
    fall: float  # of ln I over the range
    value: Interval
    amplitude: float
    misfits: Floats  # (1 + replicates,), the estimate first


def read_curve(curve: Curve, length: int) -> Reading:
    """The verdict on a curve of a text of `length` symbols.

    Information is seen at a distance if the mean over it and its two neighbours lies three standard deviations above
    the floor, those between blocks of the text. "nothing above the floor": nowhere, nor for all distances together by
    eight of the errors that a text without memory has. "too short to say": fewer than 5000 symbols or fewer than 5
    distances in a row with information; both laws hold and 97.5 % of the replicates do not agree on the better; or only
    the power law holds, and over less than a decade. "neither": no range on which a law holds, a level curve, or
    information that is seen at no single distance, since the blocks differ by as much as it has.
    Ranges lie in the longest row of distances at which information is seen; what comes beyond a gap, such as the width
    of columns, is not judged. They end where that row does, and begin at the nearest distance that allows a decision:
    at the first, or at twice, four times ... its distance where a decade is left. A law is held to distances up to
    twice as far, where it may not predict what is not there.

    The interval of an exponent below about 1 from one text is rather an upper end. The frequencies of one text take out
    its own mean, so that the curve is too low at far distances and the fit too steep. In texts whose law is exact
    (`PowerLawBinary` with amplitude 0.1 and `exact=True`) the interval held the exponent 0.4 in 18 of 60 (mean interval
    [0.44, 0.73]) and 0.8 in 127 of 148 ([0.72, 1.05]) at 50 000 symbols, and 0.8 in 50 of 60 at 200 000.
    """
    if length < FEWEST:
        return Reading("too short to say", f"the text has {length} symbols; {FEWEST} are needed")
    seen = _seen(curve)
    if not seen.any():
        if not _together(curve):
            return Reading("nothing above the floor", f"at distances 1 to {curve.lags[-1]}")
        told = "above the floor in the mean over distances, but by no more than blocks of the text differ: see drift"
        return Reading("neither", told, (int(curve.lags[0]), int(curve.lags[-1])))
    first, last = _longest_run(seen)
    run = curve.lags[first], curve.lags[last]
    if last - first + 1 < POINTS:
        others = ", and at others" if seen.sum() > last - first + 1 else " only"
        told = f"information is above the floor at distances {run[0]} to {run[1]}" + others
        return Reading("too short to say", told, (int(run[0]), int(run[1])))
    undecided = None
    for start in _starts(curve.lags, first, last):
        found = _decided(curve, start, last)
        if found is not None and found.verdict != "too short to say":
            return found
        undecided = undecided or found
    if undecided is not None:
        return undecided
    return Reading("neither", "no range on which one of the laws holds", (int(run[0]), int(run[1])))


def _starts(lags: npt.NDArray[np.int64], first: int, last: int) -> Iterator[int]:
    """Places of distances 1, 2, 4, ... from the first, as long as a decade is left."""
    yield first
    wanted = 2 * lags[first]
    while DECADE * wanted <= lags[last]:
        yield int(np.searchsorted(lags, wanted))
        wanted *= 2


def _decided(curve: Curve, start: int, last: int) -> Reading | None:
    """What holds from one distance on; None if neither law does."""
    near, far = int(curve.lags[start]), int(curve.lags[last])
    power, exponential = (_law(curve, start, last, law) for law in ("power", "exponential"))
    if not power.holds and not exponential.holds:
        return None
    if power.holds and exponential.holds:
        if max(power.fall, exponential.fall) < LEVEL:
            return Reading("neither", f"the curve is level from {near} to {far}", (near, far))
        share = float(np.mean(exponential.misfits[1:] > power.misfits[1:]))
        if 1 - SURE < share < SURE:
            return Reading("too short to say", f"both laws hold from {near} to {far}", (near, far))
        power_wins = share >= SURE
    else:
        power_wins = power.holds
    law = power if power_wins else exponential
    if law.fall < LEVEL:
        return Reading("neither", f"the curve is level from {near} to {far}", (near, far))
    if not power_wins:
        told = "the curve is within its noise and a tenth of the law, in the mean over distances"
        return Reading("exponential", told, (near, far), exponential.value, None, exponential.amplitude)
    if far < DECADE * near:
        told = f"a power law holds from {near} to {far}, which is less than a decade"
        return Reading("too short to say", told, (near, far))
    if power.value.low <= 0:
        return Reading("neither", f"from {near} to {far} the curve may as well be level", (near, far))
    told = "the curve is within its noise and a tenth of the law, in the mean over distances"
    return Reading("power law", told, (near, far), None, power.value, power.amplitude)


def _law(curve: Curve, start: int, last: int, law: Literal["power", "exponential"]) -> _Law:
    """A law fitted from `start` to twice `last`.

    Its interval is that of the replicates, widened to hold the fits of the near and of the far half, and by what a
    tenth at either end would change.
    """
    used = slice(start, int(np.searchsorted(curve.lags, BEYOND * curve.lags[last], side="right")))
    lags, noise = curve.lags[used], _tolerated(curve)[used]
    curves = np.vstack([curve.excess, curve.replicates])[:, used]
    fastest = 20.0 * lags[-1] / max(1, curve.lags[last] - curve.lags[start])  # to 1/20 of the range
    fit = weighted_fit(lags, curves, noise, law, fastest)
    freedom = len(lags) - 2
    # What noise alone does to the misfit, with distances that depend on each other: replicates about their own fit.
    fitted = _values(lags, fit.amplitude[0], fit.rate[0], law)
    noisy = weighted_fit(lags, curves[1:] - curves[0] + fitted, noise, law, fastest)
    holds = fit.chi_square[0] <= max(freedom, float(np.quantile(noisy.chi_square, MISFIT)))
    low, high = np.quantile(fit.rate[1:], [0.025, 0.975])
    inside = np.arange(start, last + 1)
    for part in (inside[: max(3, len(inside) // 2 + 1)], inside[-max(3, len(inside) // 2 + 1) :]):
        rate = weighted_fit(curve.lags[part], curve.excess[part], _tolerated(curve)[part], law, fastest).rate[0]
        low, high = min(low, rate), max(high, rate)
    # The law is only held to a tenth: a tenth more at one end and less at the other is another rate.
    near, far = float(curve.lags[start]), float(curve.lags[last])
    span = far - near if law == "exponential" else np.log(far / near)
    low, high = low - 2 * TOLERANCE / span, high + 2 * TOLERANCE / span
    if law == "power":
        value = Interval(float(fit.rate[0]), float(low), float(high))
    else:
        value = Interval(*(1 / rate if rate > 0 else np.inf for rate in map(float, (fit.rate[0], high, low))))
    return _Law(bool(holds), float(fit.rate[0] * span), value, float(fit.amplitude[0]), fit.chi_square)


def _tolerated(curve: Curve) -> Floats:
    return np.asarray(np.hypot(curve.noise, TOLERANCE * np.maximum(curve.excess, 0.0)), dtype=np.float64)


def _values(lags: npt.NDArray[np.int64], amplitude: float, rate: float, law: str) -> Floats:
    return np.asarray(amplitude * (lags**-rate if law == "power" else np.exp(-rate * lags)), dtype=np.float64)


def _seen(curve: Curve) -> npt.NDArray[np.bool_]:
    """Where the mean over a distance and its neighbours is above the floor, whose error all three share."""
    seen = np.empty(len(curve.lags), dtype=bool)
    for place in range(len(curve.lags)):
        near = slice(max(place - 1, 0), place + 2)
        own = curve.replicates[:, near].mean(axis=1).std(ddof=1)
        seen[place] = curve.excess[near].mean() > SEEN * np.hypot(own, curve.floor_error[near].mean())
    return seen


def _together(curve: Curve) -> bool:
    """Is the mean over all distances above the floor, by the error of the floor and the scatter of the distances?"""
    error = np.hypot(curve.floor_error.mean(), curve.excess.std(ddof=1) / np.sqrt(len(curve.lags)))
    return bool(curve.excess.mean() > TOGETHER * error)


def _longest_run(seen: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """First and last place of the longest stretch of distances with information."""
    runs = [(value, len(list(group))) for value, group in itertools.groupby(seen.tolist())]
    ends = np.cumsum([count for _, count in runs])
    place = max((index for index, run in enumerate(runs) if run[0]), key=lambda index: runs[index][1])
    return int(ends[place] - runs[place][1]), int(ends[place] - 1)


@dataclass(frozen=True)
class Concatenated:
    """I = exponential exp(-lag/correlation_length) + power lag^-exponent, nats."""

    correlation_length: float
    exponent: float
    exponential: float
    power: float
    misfit: float  # sum of squared residuals over squared spreads


def fit_concatenated(lags: npt.ArrayLike, curve: npt.ArrayLike, spread: npt.ArrayLike) -> Concatenated:
    """An exponential and a power law added up, both amplitudes >= 0, by weighted least squares in I.

    Text has the one within words and the other beyond; birdsong and speech are described so. Correlation length and
    exponent on a grid (60 each, 0.2 to 10 times the farthest lag; 0.02 to 4), amplitudes exactly. ``ValueError`` for
    shapes that do not fit, fewer than 5 lags, and spreads that are not positive. O(3600 lags).
    """
    steps, values, sigma = (np.asarray(one, dtype=np.float64) for one in (lags, curve, spread))
    if steps.ndim != 1 or steps.size < 5 or values.shape != steps.shape or sigma.shape != steps.shape:
        raise ValueError(f"at least 5 lags, curve and spread alike; got {steps.shape}, {values.shape}, {sigma.shape}")
    if not np.all(sigma > 0) or np.any(steps <= 0) or not np.all(np.isfinite(values)):
        raise ValueError(
            f"positive lags and spreads, a finite curve are allowed, got "
            f"at least {steps.min():g}, at least {sigma.min():g}, at most {values.max():g}"
        )
    best: Concatenated | None = None
    for length in np.geomspace(0.2, 10 * steps.max(), 60):
        for exponent in np.linspace(0.02, 4.0, 60):
            columns = np.stack([np.exp(-steps / length), steps**-exponent], axis=1) / sigma[:, None]
            scale = np.linalg.norm(columns, axis=0)
            amplitudes, residual = nnls(columns / scale, values / sigma)
            if best is None or residual**2 < best.misfit:
                sizes = amplitudes / scale
                best = Concatenated(float(length), float(exponent), float(sizes[0]), float(sizes[1]), residual**2)
    assert best is not None
    return best
