"""Is a measured curve of information nearer to an exponential or to a power law, and how sure is that?

The points of one curve are not independent, because all lags share the sequences they were counted in. What is
independent are the sequences. So they are cut into disjoint groups, every number is computed again with one group left
out, and the spread of these numbers (the jackknife of Quenouille and Tukey) is the sampling error, whatever the
correlations of the points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from lib.information.decay.fits import fit_exponential
from lib.information.intervals import Interval, jackknife
from lib.information.two_point import auto_mutual_information

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
Weighting = Literal["lags", "precision"]

WEIGHTINGS: tuple[Weighting, Weighting] = ("lags", "precision")
FLOOR = 1e-3  # nats: Shen (2019) fits the points above it
FEWEST_POINTS = 5
SIGNS = {"exponential": -1, "undecided": 0, "power law": 1}


@dataclass(frozen=True)
class DecayComparison:
    """Exponential and power law, fitted to the same points of one curve.

    advantage: (RSS_exponential - RSS_power) / (RSS_exponential + RSS_power), 1 for an exact power law, -1 for an exact
    exponential; a monotone function of the ratio of the two, and so of the difference of their AIC, which unlike the
    logarithm stays finite where one law is exact. misfit: root mean square of the residuals in ln I, by law: about the
    relative error of the fitted curve. exponent, rate: gamma and 1/xi of A tau^-gamma exp(-tau/xi), which holds both
    laws: a power law has rate 0, an exponential has exponent 0.
    """

    lags: npt.NDArray[np.int64]
    weighting: Weighting
    advantage: Interval
    misfit: dict[str, float]
    exponent: Interval
    rate: Interval

    @property
    def verdict(self) -> str:
        """The law that is nearer, or "undecided" where the interval of advantage holds zero."""
        return {1: "power law", -1: "exponential", 0: "undecided"}[self.advantage.sign]

    @property
    def aic_difference(self) -> float:
        """AIC of the exponential less that of the power law, n ln(RSS/RSS): all n lags of the window as independent."""
        return float(
            (self.lags[-1] - self.lags[0] + 1) * 2 * np.log(self.misfit["exponential"] / self.misfit["power law"])
        )


@dataclass(frozen=True)
class CorrelationLength:
    """xi of an exponential, in symbols, with the textbook's interval and that of the groups.

    points: lags above the floor. textbook: Student's 95 % interval of the slope, points taken as independent, as Shen
    (2019) draws it. sampling: nominal 95 % interval from the groups; None where none were given or a replicate has no
    xi. Of exponentials with xi of 30 to 100 symbols it holds the value without noise somewhat more seldom than in 95 %,
    of the power law of the data more often.
    """

    value: float
    textbook: Ends
    sampling: Ends | None
    points: int


def compare_decay(
    lags: npt.ArrayLike,
    curve: npt.ArrayLike,
    groups: npt.ArrayLike,
    floor: float = FLOOR,
    weighting: Weighting = "lags",
) -> DecayComparison:
    """Fit ln I by a straight line in tau (exponential) and in ln tau (power law), and by both at once.

    The points are those before the curve first falls to the floor. weighting "lags": every whole lag counts alike, a
    point of a thinned curve for all that are nearer to it than to its neighbours; this is the fit of Shen (2019),
    Fig. 1(c). "precision": every point counts by the inverse of its sampling variance in ln I, from the groups.

    lags: (n,) rising whole numbers >= 1. curve: (n,) nats, of all sequences. groups: (g >= 3, n) nats, of disjoint
    groups of these sequences. Raises ValueError for other shapes, for fewer than 5 points above the floor, and where a
    point is not above 0 without one of the groups. O(g n).
    """
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting: one of {', '.join(WEIGHTINGS)} is allowed, got {weighting!r}")
    steps, values, parts = _checked(lags, curve, groups)
    used = points_before_floor(values, floor)
    if used < FEWEST_POINTS:
        raise ValueError(
            f"{used} points lie before the curve falls to {floor:g} nats; at least {FEWEST_POINTS} are needed"
        )
    steps, values, parts = steps[:used], values[:used], parts[:, :used]
    if np.any(values <= 0) or np.any(_without_one(parts) <= 0):
        raise ValueError("groups: information above 0, with any one of them left out, is needed")
    weights = lag_weights(steps) if weighting == "lags" else _precision(values, parts)
    replicates = _without_one(parts)

    def estimate(number: Callable[[Floats], float]) -> Interval:
        return jackknife(number(values), [number(replicate) for replicate in replicates])

    def advantage(information: Floats) -> float:
        exponential, power = (_misfit(steps, information, weights, law) ** 2 for law in ("exponential", "power law"))
        return (exponential - power) / (exponential + power)

    return DecayComparison(
        steps,
        weighting,
        estimate(advantage),
        {law: _misfit(steps, values, weights, law) for law in ("exponential", "power law", "both")},
        estimate(lambda information: float(-_fit(steps, information, weights, "both")[0][1])),
        estimate(lambda information: float(-_fit(steps, information, weights, "both")[0][2])),
    )


def correlation_length(
    lags: npt.ArrayLike,
    curve: npt.ArrayLike,
    group_lags: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    floor: float = FLOOR,
) -> CorrelationLength:
    """xi of A exp(-tau/xi) by least squares in ln I over the points above the floor, as in Shen (2019), Fig. 1(c).

    lags, curve: (n,), nats. group_lags: (k,), groups: (g, k): the curves of disjoint groups of the sequences at some
    of the lags; every replicate is fitted there, with each lag counted for those around it, above the floor of their
    mean. Raises ValueError as `fit_exponential` does, and for one of group_lags and groups without the other. O(n).
    """
    if (group_lags is None) is not (groups is None):
        raise ValueError("group_lags and groups: both or neither are needed")
    fit = fit_exponential(lags, curve, floor)
    xi = fit.correlation_length
    sampling = None
    if group_lags is not None and groups is not None:
        sampling = _sampling_interval(xi, group_lags, groups, floor)
    return CorrelationLength(xi, fit.interval, sampling, fit.points)


def points_before_floor(curve: npt.ArrayLike, floor: float = FLOOR) -> int:
    """How many points stand before the first that is not above the floor. O(n)."""
    values = np.asarray(curve, dtype=np.float64)
    below = np.flatnonzero(~(values > floor))
    return int(below[0]) if below.size else values.size


def lag_weights(lags: npt.ArrayLike) -> Floats:
    """How many whole lags each of these stands for: the cells between midpoints, first to last. They sum to the range.

    lags: (n,) rising whole numbers. A lag at equal distance of two goes to both by halves. O(n).
    """
    steps = np.asarray(lags, dtype=np.float64)
    if steps.ndim != 1 or not steps.size:
        raise ValueError(f"lags: one or more, (n,), are needed, got shape {steps.shape}")
    edges = np.concatenate([[steps[0] - 0.5], (steps[1:] + steps[:-1]) / 2, [steps[-1] + 0.5]])
    return np.asarray(np.diff(edges), dtype=np.float64)


def _sampling_interval(value: float, group_lags: npt.ArrayLike, groups: npt.ArrayLike, floor: float) -> Ends | None:
    """Jackknife of the decay rate, turned into lengths: a rate is nearer to a normal variable than a length."""
    parts = np.asarray(groups, dtype=np.float64)
    steps, values, parts = _checked(group_lags, parts.mean(axis=0), parts)
    used = values > floor
    replicates = _without_one(parts)[:, used]
    if np.count_nonzero(used) < 3 or np.any(replicates <= 0) or not np.isfinite(value):
        return None
    weights = lag_weights(steps)[used]
    rates = [-float(_fit(steps[used], replicate, weights, "exponential")[0][1]) for replicate in replicates]
    low, high = jackknife(1 / value, rates).ends
    return (1 / high if high > 0 else np.inf), (1 / low if low > 0 else np.inf)


def _fit(lags: npt.NDArray[np.int64], information: Floats, weights: Floats, law: str) -> tuple[Floats, float]:
    """Coefficients and weighted mean square of the residuals of a straight line in ln I."""
    steps = lags.astype(np.float64)
    columns = {
        "exponential": [np.ones(steps.size), steps],
        "power law": [np.ones(steps.size), np.log(steps)],
        "both": [np.ones(steps.size), np.log(steps), steps],
    }[law]
    root = np.sqrt(weights / weights.sum())
    design, target = np.stack(columns, axis=1) * root[:, None], np.log(information) * root
    coefficients = np.linalg.lstsq(design, target)[0]
    residuals = target - design @ coefficients
    return coefficients, float(residuals @ residuals)


def _misfit(lags: npt.NDArray[np.int64], information: Floats, weights: Floats, law: str) -> float:
    """Root mean square residual in ln I, not below what rounding leaves."""
    return max(float(np.sqrt(_fit(lags, information, weights, law)[1])), 1e-13)


def _precision(curve: Floats, groups: Floats) -> Floats:
    """Inverse sampling variance of ln I: d ln I = dI / I."""
    return np.asarray(1 / np.maximum((groups / curve).var(axis=0, ddof=1) / len(groups), 1e-24))


def _without_one(groups: Floats) -> Floats:
    """Mean of all groups but one, for each: (g, n)."""
    return np.asarray((groups.sum(axis=0) - groups) / (len(groups) - 1))


def _checked(
    lags: npt.ArrayLike, curve: npt.ArrayLike, groups: npt.ArrayLike
) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    steps, values = np.asarray(lags), np.asarray(curve, dtype=np.float64)
    parts = np.asarray(groups, dtype=np.float64)
    shaped = steps.ndim == 1 and values.shape == steps.shape and parts.ndim == 2 and parts.shape[1:] == steps.shape
    if not shaped or not steps.size:
        raise ValueError(
            f"lags (n,), curve (n,) and groups (g, n) with n >= 1 are needed; got {steps.shape}, {values.shape}, "
            f"{parts.shape}"
        )
    if len(parts) < 3 or not (np.all(np.isfinite(values)) and np.all(np.isfinite(parts))):
        raise ValueError(f"groups: at least 3, of finite numbers, are needed; got {len(parts)}")
    whole = steps.astype(np.int64)
    if np.any(whole != steps) or np.any(np.diff(whole) <= 0) or whole[0] < 1:
        raise ValueError("lags: rising whole numbers >= 1 are needed")
    return whole, values, parts


@dataclass(frozen=True)
class GroupedCurve:
    """curve: nats at lags 1, 2, ..., n. groups: (g, k), the curves of g disjoint groups at `group_lags`."""

    curve: Floats
    group_lags: npt.NDArray[np.int64]
    groups: Floats

    @property
    def lags(self) -> npt.NDArray[np.int64]:
        return np.arange(1, self.curve.size + 1)

    @cached_property
    def correlation_length(self) -> CorrelationLength | None:
        """xi with both intervals, of the points before the first at the floor of 1e-3 nats; None for fewer than three.

        At the largest lags pairs are few, and noise can lie above the floor where the curve ended long before.
        """
        used = points_before_floor(self.curve)
        near = self.group_lags <= used
        if used < 3:
            return None
        return correlation_length(self.lags[:used], self.curve[:used], self.group_lags[near], self.groups[:, near])

    @property
    def xi(self) -> float:
        """Correlation length in symbols; NaN where there is none."""
        return np.nan if self.correlation_length is None else self.correlation_length.value

    @cached_property
    def comparisons(self) -> tuple[DecayComparison, ...]:
        """Exponential against power law: all lags alike, and by precision. Empty for a curve at the floor too soon.

        Also where a group is all that lifts a point above 0.
        """
        thinned = self.curve[self.group_lags - 1]
        used = points_before_floor(thinned)
        if used < FEWEST_POINTS or np.any(_without_one(self.groups)[:, :used] <= 0):
            return ()
        return tuple(
            compare_decay(self.group_lags, thinned, self.groups, weighting=weighting) for weighting in WEIGHTINGS
        )

    @property
    def law(self) -> str:
        """The law that both comparisons find nearer; "undecided" if one is, or they differ, or there are none."""
        return shared(comparison.verdict for comparison in self.comparisons)

    @property
    def sign(self) -> int:
        """-1 for an exponential, 1 for a power law, 0 for undecided."""
        return SIGNS[self.law]


def grouped_curve(
    sequences: npt.ArrayLike, group_lags: npt.ArrayLike, number: int = 10, estimator: str = "grassberger2003"
) -> GroupedCurve:
    """Measure (n, length) sequences at all lags, and `number` groups of them at group_lags.

    Raises ValueError as `auto_mutual_information` does, and for fewer than 3 groups or more groups than sequences.
    O(n length^2).
    """
    rows = np.asarray(sequences)
    if rows.ndim != 2 or not 3 <= number <= len(rows):
        raise ValueError(f"3 to {len(rows) if rows.ndim == 2 else 'n'} groups of sequences (n, length) are allowed, "
                         f"got {number} of shape {rows.shape}")  # fmt: skip
    lags = np.asarray(group_lags)
    groups = [auto_mutual_information(part, lags, estimator, progress=False) for part in np.array_split(rows, number)]
    every = np.arange(1, rows.shape[1])
    curve = auto_mutual_information(rows, every, estimator, progress=False)
    return GroupedCurve(curve, lags.astype(np.int64), np.array(groups))


def shared(verdicts: Iterable[str]) -> str:
    """What all say, or "undecided" if they say different things or nothing."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else "undecided"
