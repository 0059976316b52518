"""Laws of decay fitted in I itself, weighted by its spread: a curve that scatters about zero has no logarithm there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lib.checks import real_array, real_number

Floats = npt.NDArray[np.float64]
Law = Literal["power", "exponential"]
_STEPS = 2001
_EXPONENTS = (-1.0, 4.0)  # of tau, in the power law


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
    steps, sigma = real_array(lags, "lags"), real_array(spread, "spread")
    values = np.atleast_2d(real_array(curves, "curves"))
    if steps.ndim != 1 or steps.size < 3 or values.shape[1:] != steps.shape or sigma.shape != steps.shape:
        raise ValueError(
            f"at least 3 lags, and curves and spread of that length; got {steps.shape}, {values.shape}, {sigma.shape}"
        )
    if not all(np.all(np.isfinite(given)) for given in (steps, sigma, values)) or min(steps.min(), sigma.min()) <= 0:
        raise ValueError(
            f"finite curves, positive finite lags and spreads are allowed, got "
            f"at least {steps.min():g}, at least {sigma.min():g}, at most {values.max():g}"
        )
    last = real_number(fastest, "fastest")
    if law not in ("power", "exponential"):
        raise ValueError(f"unknown law {law!r}; choose 'power' or 'exponential'")
    if law == "power":
        rates = np.linspace(*_EXPONENTS, _STEPS)
        shapes = (steps / steps[0]) ** -rates[:, None]  # (grid, lags), 1 at the first lag
    else:
        rates = np.linspace(-5.0, last, _STEPS) / steps.max()
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
