"""Two repairs of L2M's estimators: the first two tokens of a marginal (A.14), the bias of two-point MI (A.17)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import stdtrit

from lib.checks import real_array, real_number
from lib.information.decay.parameters import rounding_floor
from lib.information.estimators import entropy

Floats = NDArray[np.float64]

# Where the search for C starts: logits of C / min I. At -30 and 30, C is 1e-13 min I away from 0 and from min I.
_LOGITS = np.linspace(-30.0, 30.0, 241)


def ngram_corrected_log_marginal(
    log_q_tokens: ArrayLike, bigram_counts: ArrayLike, model_weight: float = 0.2, estimator: str = "grassberger2008"
) -> Floats:
    """ln q(Y) of each sample with the model's first two tokens replaced, mostly, by the bigram entropy, (n,).

    L2M, Eq. A.14, with w = 1/5:

        H(p_Y, q_Y) = - sum_{i >= 3} E ln q(y_i | y_<i) + w H(p_Y1Y2, q_Y1Y2|BOS) + (1 - w) H_G(Y_1 Y_2).

    A sample contributes its own logarithms; the entropy estimate is the same constant for all, so that the mean of the
    result is minus the corrected cross entropy and `direct_estimate` takes it as log_q_y. The noise of H_G is not in
    its standard error: count bigrams on much more text than the samples.

    log_q_tokens: (n, length >= 2), ln q(y_i | y_<i, BOS) <= finite, in nats. bigram_counts: whole numbers >= 0, any
    shape. model_weight: 0 <= w <= 1. estimator: as in `entropy`; the paper's G(n) by default. ValueError otherwise.
    O(n length + cells).
    """
    logarithms = real_array(log_q_tokens, "log_q_tokens")
    if logarithms.ndim != 2 or logarithms.shape[0] < 1 or logarithms.shape[1] < 2:
        raise ValueError(
            f"log_q_tokens: shape (samples, length) with at least two tokens is allowed, got {logarithms.shape}"
        )
    if not np.all(np.isfinite(logarithms)):
        wrong = logarithms[~np.isfinite(logarithms)].flat[0]
        raise ValueError(f"log_q_tokens: finite logarithms are allowed, got {wrong} (infinite cross entropy)")
    weight = real_number(model_weight, "model_weight")
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"model_weight: 0 <= weight <= 1 is allowed, got {model_weight!r}")
    bigram_entropy = entropy(bigram_counts, estimator)
    first_two = weight * logarithms[:, :2].sum(axis=1) - (1.0 - weight) * bigram_entropy
    return np.asarray(logarithms[:, 2:].sum(axis=1) + first_two)


@dataclass(frozen=True)
class TwoPointFit:
    """I_d = A d^-alpha + C, fitted as straight line of ln(I - C) against ln d (L2M, Eq. A.18)."""

    exponent: float  # alpha
    amplitude: float  # A, nats
    bias: float  # C, nats
    interval: tuple[float, float]  # 95 % for alpha
    bias_interval: tuple[float, float]  # 95 % for C
    loss: float  # sum of the squared residuals in ln(I - C)

    def predict(self, lags: ArrayLike) -> Floats:
        """A d^-alpha + C in nats at positive lags of any shape."""
        return np.asarray(self.amplitude * _positive(lags, "lags") ** -self.exponent + self.bias)

    def corrected(self, mi: ArrayLike) -> Floats:
        """I_d - C: the estimate without its bias (L2M, Eq. A.17)."""
        return np.asarray(real_array(mi, "mi") - self.bias)


def fit_two_point_bias(lags: ArrayLike, mi: ArrayLike) -> TwoPointFit:
    """Fit a power law plus a constant bias to two-point information, least squares in ln(I - C), 0 < C < min I.

    minimise sum_d [ln(I_d - C) - (ln A - alpha ln d)]^2 (L2M, Eq. A.18). Given C this is a straight line, so one
    number is left to search, C = min I / (1 + e^-c) as in the authors' program; a grid in c and a bounded search
    around its best point find the least value from no start at all.

    Intervals: Student's t with n - 3 degrees of freedom and the covariance s^2 (J^T J)^-1 of the linearised problem.
    They hold where the residuals in ln(I - C) are independent, of one size and small, such as 5 %, and the lags reach
    so far that C stands out of A d^-alpha: of 40 lags, evenly spaced in the logarithm from 1 to 1000, with alpha = 1.5
    and C = A/2, in 94 to 97 of 100 cases. Else least squares prefer C = 0: with every lag from 1 to 100 and alpha = 0.5
    no interval of 100 held either number. Noise that is the same at every d in I or
    in ln I is of another size in ln(I - C) at each: with 0.1 % in ln I no interval held either number.

    lags, mi: (n,) with n >= 4, lags > 0 with at least 3 different values, mi > 0; ValueError otherwise.
    `fit_power_law(lags, mi, offset=True)` fits the same curve with residuals in ln I, where points close to C weigh
    less. O(n).
    """
    places, values = np.log(_positive(lags, "lags")), _positive(mi, "mi")
    if places.ndim != 1 or places.shape != values.shape or places.size < 4:
        raise ValueError(
            f"lags and mi: two rows of one length >= 4 are allowed, got shapes {places.shape} and {values.shape}"
        )
    if np.unique(places).size < 3:
        raise ValueError("lags: at least 3 different values are allowed, a power law with an offset has 3 parameters")
    smallest = float(values.min())

    def gap(logit: float) -> Floats:
        """I - C, written so that the smallest point keeps its digits: min I - C = min I / (1 + e^c)."""
        return np.asarray((values - smallest) + smallest / (1.0 + np.exp(logit)))

    def loss(logit: float) -> float:
        return _line(places, np.log(gap(logit)))[2]

    start = _LOGITS[int(np.argmin([loss(logit) for logit in _LOGITS]))]
    step = _LOGITS[1] - _LOGITS[0]
    found = minimize_scalar(loss, bounds=(start - step, start + step), method="bounded", options={"xatol": 1e-10})
    logit = float(found.x) if found.fun <= loss(start) else float(start)
    for _ in range(4):  # by values alone a minimum is known to half its digits; Gauss-Newton has the rest
        above = gap(logit)
        change = _left(places, -smallest / (2.0 + np.exp(logit) + np.exp(-logit)) / above)
        size = float(change @ change)
        step = float(change @ _left(places, np.log(above))) / size if size > 0.0 else 0.0
        if not abs(step) < 1.0 or loss(logit - step) > loss(logit):
            break
        logit -= step
    above = gap(logit)
    intercept, slope, squares = _line(places, np.log(above))
    bias = smallest / (1.0 + float(np.exp(-logit)))
    # residual r = ln(I - C) - ln A + alpha ln d: derivatives with respect to alpha, ln A and C
    jacobian = np.column_stack([places, -np.ones_like(places), -1.0 / above])
    half, _, half_bias = _half_widths(jacobian, max(squares, rounding_floor(np.log(above)))).tolist()
    return TwoPointFit(
        exponent=-slope,
        amplitude=float(np.exp(intercept)),
        bias=bias,
        interval=(-slope - half, -slope + half),
        bias_interval=(bias - half_bias, bias + half_bias),
        loss=squares,
    )


def _line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Intercept, slope and sum of squared residuals of the least-squares line."""
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    residuals = y - intercept - slope * x
    return intercept, slope, float(residuals @ residuals)


def _left(x: Floats, y: Floats) -> Floats:
    """What the least-squares line leaves of y."""
    intercept, slope, _ = _line(x, y)
    return np.asarray(y - intercept - slope * x)


def _half_widths(jacobian: Floats, squares: float) -> Floats:
    scale = np.linalg.norm(jacobian, axis=0)  # columns differ by orders of magnitude: C against alpha
    inverse = np.linalg.pinv(jacobian / scale)
    freedom = jacobian.shape[0] - jacobian.shape[1]
    spread = np.sqrt(np.maximum(squares, 0.0) / freedom * np.sum(inverse**2, axis=1)) / scale
    return np.asarray(stdtrit(freedom, 0.975) * spread)


def _positive(values: ArrayLike, name: str) -> Floats:
    array = real_array(values, name)
    if array.size == 0 or not np.all(np.isfinite(array)) or np.any(array <= 0.0):
        raise ValueError(f"{name}: finite numbers > 0 are allowed, got {np.asarray(values)!r}")
    return array
