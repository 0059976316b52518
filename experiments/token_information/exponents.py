"""The exponent of a curve that was measured together with bootstrap replicates, and whether the fit can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from experiments.token_information.resampled import GROUPS
from lib.checks import real_array
from lib.information.corrections import fit_two_point_bias
from lib.information.decay.fits import fit_power_law
from lib.report import claims
from lib.report.verdicts import UNMET, judge

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]
CONFIDENCE = 0.95  # of the intervals
FEWEST_LAGS = 4
CLEAR = 3.0  # bootstrap standard deviations above 0 at which a point is used
ENDS = (0.01, 0.999)  # C / min I below and above which a fitted constant has run into the end of its range


@dataclass(frozen=True)
class Exponent:
    """A d^-exponent + constant, with 95 % bootstrap intervals; lags: those that were fitted."""

    exponent: float
    interval: Interval
    amplitude: float
    constant: float  # C in nats, 0 where none was fitted
    constant_interval: Interval
    at_the_end: float  # share of the fits, estimate and replicates, in which C ran into 0 or into min I
    lags: npt.NDArray[np.int64]

    def predict(self, lags: npt.ArrayLike) -> Floats:
        """A d^-exponent + constant in nats, shape of `lags`."""
        return np.asarray(self.amplitude * np.asarray(lags, dtype=np.float64) ** -self.exponent + self.constant)


def judge_between(claim: str, printed: float, exponents: Sequence[float], *, part: str) -> str:
    """Is the printed exponent between those of several vocabularies? A remark, undecided for fewer than two of them."""
    if len(exponents) < 2:
        told = f"vocabularies that reach a distance of 64: {len(exponents)}, two are asked for"
        claims.undecided(claim, part=part, reason=UNMET, sentence=told, remark=True)
        return "undecided"
    return judge(claim, printed, at_least=min(exponents), at_most=max(exponents), fewest=0, part=part, remark=True,
                 paper=printed, note="the smaller vocabularies decay faster",
                 explanation="the exponents of all vocabularies lie on one side of it")  # fmt: skip


def power_law_exponent(lags: npt.ArrayLike, curves: npt.ArrayLike, clear: float = CLEAR) -> Exponent:
    """A d^-alpha through a curve and through each of its replicates, least squares in ln I.

    lags: (n,) in increasing order; curves: (1 + replicates, n) nats, row 0 the estimate, of either sign. Used are the
    lags up to the first at which the estimate is not `clear` bootstrap standard deviations above 0 or some replicate is
    not positive, the same lags in every row. ValueError for other shapes, fewer than 2 replicates and fewer than four
    usable lags. O(curves).
    """
    steps, values = _checked(lags, curves)
    good = (values[0] > clear * values[1:].std(axis=0, ddof=1)) & np.all(values > 0, axis=0)
    number = good.size if good.all() else int(np.argmin(good))
    if number < FEWEST_LAGS:
        raise ValueError(
            f"the curve stands clear of 0 at the first {number} lags only; at least {FEWEST_LAGS} are needed: take a "
            "larger corpus or a smaller vocabulary"
        )
    fits = [fit_power_law(steps[:number], row[:number]) for row in values]
    return _summary([(fit.exponent, fit.amplitude, 0.0) for fit in fits], np.zeros(len(fits)), steps[:number])


def fitted_constant_exponent(lags: npt.ArrayLike, curves: npt.ArrayLike) -> Exponent:
    """A d^-alpha + C with C fitted, residuals in ln(I - C), for a curve and each of its replicates (L2M, A.17-A.18).

    Arguments as for `power_law_exponent`; every value has to be positive. The squares of A.18 are measured anew for
    every C: as C goes to min I the last point gets all the weight, and if bias is most of the curve, ln I is so flat
    that C = 0 may win. `at_the_end` says how often either happened. O(241 curves).
    """
    steps, values = _checked(lags, curves)
    fits = [fit_two_point_bias(steps, row) for row in values]
    share = np.array([fit.bias for fit in fits]) / values.min(axis=1)
    ends = (share < ENDS[0]) | (share > ENDS[1])
    return _summary([(fit.exponent, fit.amplitude, fit.bias) for fit in fits], ends, steps)


def centred_interval(values: npt.ArrayLike, confidence: float = CONFIDENCE, groups: int = GROUPS) -> Interval:
    """values[0] plus and minus t s, with s the standard deviation of its replicates values[1:].

    Half the documents have another bias than all of them; what carries over is how much the replicates differ. t is
    Student's quantile for 1 / (1 / (groups - 1) + 2 / replicates) degrees of freedom: groups are few, and replicates,
    of which two are the halves of one draw, estimate their variance only.
    """
    array = real_array(values, "values")
    if array.ndim != 1 or array.size < 3:
        raise ValueError(f"values: an estimate and at least two replicates are allowed, got shape {array.shape}")
    freedom = 1 / (1 / (groups - 1) + 2 / (array.size - 1))
    reach = float(stdtrit(freedom, (1 + confidence) / 2) * array[1:].std(ddof=1))
    return float(array[0]) - reach, float(array[0]) + reach


def _summary(fits: list[tuple[float, float, float]], ends: npt.NDArray[Any], lags: npt.NDArray[np.int64]) -> Exponent:
    exponents, amplitudes, constants = np.array(fits).T
    return Exponent(
        float(exponents[0]),
        centred_interval(exponents),
        float(amplitudes[0]),
        float(constants[0]),
        centred_interval(constants),
        float(np.mean(ends)),
        lags,
    )


def _checked(lags: npt.ArrayLike, curves: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], Floats]:
    steps, values = np.asarray(lags), np.asarray(curves, dtype=np.float64)
    if steps.ndim != 1 or values.ndim != 2 or values.shape[1:] != steps.shape or len(values) < 3:
        raise ValueError(f"lags (n,) and curves (3 or more, n) are allowed, got {steps.shape} and {values.shape}")
    if not np.all(np.isfinite(values)) or np.any(np.diff(steps) <= 0):
        raise ValueError("finite curves and lags in increasing order are allowed")
    return steps, values
