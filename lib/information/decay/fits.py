"""Exponential or power law? Fits of mutual information against distance by least squares in ln I, and their comparison.

All models are fitted to ln I with Gaussian residuals of equal size, so their AIC are comparable:

    AIC = n ln(RSS/n) + 2k,        AICc = AIC + 2k(k + 1)/(n - k - 1),

k counting amplitude, rate, offset if there is one, and the variance of the residuals. An exact fit counts with the
RSS that rounding would leave. Intervals take the points as independent; values of one curve at neighbouring lags
are not quite.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.checks import real_array, real_number, truth_value
from lib.information.decay.parameters import Decay, fit_line, fit_line_with_offset, rounding_floor

Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Fit:
    """What every fit of a decay has; `decay` holds the numbers in the common form A exp(-rate x) + C."""

    decay: Decay
    points: int  # used: mi above the floor
    sigma: float  # standard deviation of the residuals in ln I
    aic: float
    aicc: float

    @property
    def offset(self) -> float:
        """C in nats, 0 for models without."""
        return self.decay.offset

    @property
    def amplitude(self) -> float:
        """A in nats; infinite if it overflows, as for a steep law whose lags are all far from 0 (power law: from 1)."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.decay.log_amplitude + self.decay.rate * self.decay.origin))


@dataclass(frozen=True)
class ExponentialFit(_Fit):
    """I(d) = A exp(-d / correlation_length) + C, in nats."""

    @property
    def correlation_length(self) -> float:
        """1/rate; infinite for a curve that does not fall."""
        return _inverse(self.decay.rate)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the correlation length; the upper end is infinite where the slope may be 0."""
        low, high = self.decay.rate_interval
        return _inverse(high), _inverse(low)

    def predict(self, lags: npt.ArrayLike) -> Points:
        """The fitted curve, in nats, shape of `lags`, growing on if it grows; ValueError for lags that are not >= 0."""
        array = real_array(lags, "lags")
        if not np.all(good := (array >= 0) & (array < np.inf)):
            raise ValueError(f"lags contain {array[~good].flat[0]:g}; an exponential needs finite lags >= 0")
        return self.decay.value(array)


@dataclass(frozen=True)
class PowerLawFit(_Fit):
    """I(d) = A d^(-exponent) + C, in nats."""

    @property
    def exponent(self) -> float:
        """Negative for a curve that grows."""
        return self.decay.rate

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the exponent."""
        return self.decay.rate_interval

    def predict(self, lags: npt.ArrayLike) -> Points:
        """The fitted curve, in nats, shape of `lags`; ValueError for lags that are not positive."""
        array = real_array(lags, "lags")
        _require_positive(array)
        return self.decay.value(np.log(array))


@dataclass(frozen=True)
class FitComparison:
    """Four models of the same points. `weights` are Akaike weights from AICc: they sum to 1."""

    fits: dict[str, ExponentialFit | PowerLawFit]
    weights: dict[str, float]

    @property
    def best(self) -> str:
        """Name of the model with the smallest AICc."""
        return min(self.fits, key=lambda name: self.fits[name].aicc)


def fit_exponential(
    lags: npt.ArrayLike, mi: npt.ArrayLike, floor: float = 1e-3, offset: bool = False
) -> ExponentialFit:
    """Correlation length of I(d) = A exp(-d/xi) by least squares in ln I over the points with mi > floor.

    As Shen 2019 does for Fig. 1(c): the slope of ln I against d is -1/xi, and its 95 % interval is Student's.
    offset=True adds a constant C >= 0, see `fit_power_law`. A curve that does not fall has xi = inf, and an
    interval whose slope may be 0 ends at inf. A power law also has a "correlation length" in this sense, set by the
    largest lag: compare models. floor has to exceed the noise of mi: otherwise the far points kept are those that noise
    lifted, and length and interval are far too large. Take `sampling_floor` and its spread, or near lags only.

    lags, mi: (n,), lags >= 0, mi in nats. Returns .correlation_length .interval .amplitude .offset .predict(lags)
    .aic .aicc .points .sigma. Raises ValueError for other shapes, NaN or infinity, negative lags or floor, fewer
    than 3 points above the floor (4 with offset), and fewer different lags than needed. O(n).
    """
    distance, information = _usable(lags, mi, floor, _needed(offset))
    return ExponentialFit(*_fitted(distance, np.log(information), offset))


def fit_power_law(lags: npt.ArrayLike, mi: npt.ArrayLike, offset: bool = False, floor: float = 0.0) -> PowerLawFit:
    """Exponent of I(d) = A d^-alpha by least squares in ln I over the points with mi > floor.

    offset=True fits A d^-alpha + C. L2M (A.17-A.18) minimise sum [ln(I - C) - ln A + alpha ln d]^2, which weighs
    the points anew for every C and so gives sums that no other model can be compared with; here sum [ln I - ln(A
    d^-alpha + C)]^2 is minimised, over C >= 0. A negative C is not allowed: the curve would be negative beyond some
    distance, where mutual information is not, and the points that noise made negative, which could speak for it,
    have no logarithm and are missing. Interval: 95 %, Student's without offset, by profile likelihood with it.

    lags, mi: (n,), lags > 0, mi in nats. Returns .exponent .interval .amplitude .offset .predict(lags) .aic .aicc
    .points .sigma. Raises ValueError for other shapes, NaN or infinity, lags <= 0, a negative floor, fewer than 3
    points above the floor (4 with offset), and fewer different lags than needed. O(n).
    """
    distance, information = _usable(lags, mi, floor, _needed(offset))
    _require_positive(real_array(lags, "lags"))
    return PowerLawFit(*_fitted(np.log(distance), np.log(information), offset))


def compare_fits(lags: npt.ArrayLike, mi: npt.ArrayLike, floor: float = 1e-3) -> FitComparison:
    """Exponential and power law, each without and with offset, fitted to the same points with mi > floor.

    Returns .fits, .weights and .best, by the names "exponential", "exponential with offset", "power law", "power
    law with offset". The weight of a model is proportional to exp(-AICc/2). Raises ValueError as the fits do, for
    lags <= 0, and for fewer than 6 points above the floor, where AICc does not exist for all four. O(n).
    """
    _usable(lags, mi, floor, 6)
    _require_positive(real_array(lags, "lags"))
    fits: dict[str, ExponentialFit | PowerLawFit] = {
        "exponential": fit_exponential(lags, mi, floor),
        "exponential with offset": fit_exponential(lags, mi, floor, offset=True),
        "power law": fit_power_law(lags, mi, floor=floor),
        "power law with offset": fit_power_law(lags, mi, offset=True, floor=floor),
    }
    criteria = np.array([fit.aicc for fit in fits.values()])
    likelihoods = np.exp(-(criteria - criteria.min()) / 2)
    return FitComparison(fits, dict(zip(fits, (likelihoods / likelihoods.sum()).tolist(), strict=True)))


def _fitted(x: Points, y: Points, offset: bool) -> tuple[Decay, int, float, float, float]:
    """The fields of a fit, in their order."""
    decay = fit_line_with_offset(x, y) if offset else fit_line(x, y)
    number, parameters = y.size, 4 if offset else 3
    aic = number * np.log(max(decay.rss, rounding_floor(y)) / number) + 2 * parameters
    room = number - parameters - 1
    aicc = aic + 2 * parameters * (parameters + 1) / room if room > 0 else np.inf
    sigma = np.sqrt(decay.rss / (number - parameters + 1))
    return decay, number, float(sigma), float(aic), float(aicc)


def _needed(offset: bool) -> int:
    return 4 if truth_value(offset, "offset") else 3


def _usable(lags: npt.ArrayLike, mi: npt.ArrayLike, floor: float, needed: int) -> tuple[Points, Points]:
    """Lags and information of the points above the floor, or a ValueError that says why there are too few."""
    distance, information, least = real_array(lags, "lags"), real_array(mi, "mi"), real_number(floor, "floor")
    if distance.ndim != 1 or distance.shape != information.shape:
        raise ValueError(f"lags have shape {distance.shape}, mi {information.shape}; both must be (n,) with the same n")
    if not (np.all(np.isfinite(distance)) and np.all(np.isfinite(information))):
        raise ValueError("lags or mi contain NaN or infinity; finite numbers are needed")
    if np.any(distance < 0):
        raise ValueError(f"lags contain {distance.min():g}; they must not be negative")
    if least < 0:
        raise ValueError(f"floor = {floor}; a finite number >= 0 is needed, for logarithms are fitted")
    used = information > least
    if np.count_nonzero(used) < needed:
        raise ValueError(
            f"{np.count_nonzero(used)} of {distance.size} points lie above the floor of {least:g} nats; "
            f"at least {needed} are needed"
        )
    different = np.unique(distance[used]).size
    if different < needed - 1:
        raise ValueError(
            f"the points above the floor have {different} different lags; at least {needed - 1} are needed"
        )
    return distance[used], information[used]


def _require_positive(lags: Points) -> None:
    if not np.all(good := (lags > 0) & (lags < np.inf)):
        raise ValueError(f"lags contain {lags[~good].flat[0]:g}; a power law needs finite lags > 0")


def _inverse(rate: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(1.0) / rate) if rate > 0 else np.inf
