"""Mutual information of the signs of two correlated Gaussians, and its inverse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from lib.checks import real_array

LN_2 = float(np.log(2.0))
# Below this mutual information sqrt(2 I) is the root to better than one rounding error,
# and the Newton step would lose it to underflow.
_SQUARE_ROOT_IS_EXACT = 1e-18
_NEWTON_STEPS = 60


def sign_mutual_information(correlation: ArrayLike) -> np.float64 | NDArray[np.float64]:
    """Mutual information between sgn X and sgn Y of two Gaussians with this correlation.

    Equation 46 of Shen (2019). With theta = arccos(c) the signs agree with probability 1 - theta / pi, so

        I = ln 2 + (1 - theta / pi) ln(1 - theta / pi) + (theta / pi) ln(theta / pi)
          = u artanh(u) + ln(1 - u^2) / 2,        u = (2 / pi) arcsin(c).

    The second form has no cancellation when c is small (I = 2 c^2 / pi^2 + ...), the first none when |c| is
    near one; each is used on its side, so that the relative error stays at a few units of rounding.

    correlation: number or array of any shape, between -1 and 1. I is an even function of it.
    Returns nats, same shape, between 0 and ln 2. Raises ValueError outside [-1, 1] or for NaN. Cost O(1)
    each.
    """
    c = _checked(correlation, "correlation", -1.0, 1.0, "-1 and 1")
    return np.asarray(_mutual_information_of_signs(c))[()]


def sign_correlation(mutual_information: ArrayLike) -> np.float64 | NDArray[np.float64]:
    """Correlation c >= 0 of two Gaussians whose signs share this mutual information: inverse of Eq. 46.

    I(u) = u artanh(u) + ln(1 - u^2) / 2 is convex and at least u^2 / 2, so Newton's method started at
    u = min(sqrt(2 I), 1) descends to the root without overshooting; then c = sin(pi u / 2).

    mutual_information: number or array of nats between 0 and ln 2. Returns c in [0, 1], same shape.
    Next to ln 2 the slope dI/dc is infinite: there c is accurate, but one rounding of c moves I by up to
    1e-7. Raises ValueError outside [0, ln 2] or for NaN. Cost O(1) each (about six Newton steps). Source:
    Shen (2019), Eq. 46.
    """
    information = _checked(mutual_information, "mutual information", 0.0, LN_2, "0 and ln 2 = 0.6931... nats") + 0.0
    return np.asarray(np.sin(0.5 * np.pi * _agreement(information)))[()]


def _mutual_information_of_signs(c: NDArray[np.float64]) -> NDArray[np.float64]:
    magnitude = np.abs(c)
    u = (2.0 / np.pi) * np.arcsin(magnitude)
    disagreement = np.arccos(magnitude) / np.pi
    near_one = u > 0.5
    small = np.where(near_one, 0.0, u)
    from_zero = small * np.arctanh(small) + 0.5 * np.log1p(-small * small)
    from_one = LN_2 + (1.0 - disagreement) * np.log1p(-disagreement) + xlogy(disagreement, disagreement)
    return np.asarray(np.where(near_one, from_one, from_zero), dtype=np.float64)


def _agreement(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """u = P(signs agree) - P(signs differ) for a given mutual information."""
    u = np.minimum(np.sqrt(2.0 * information), 1.0)
    # At u = 1 the derivative is infinite, so the largest number below it is the right-most usable start.
    solving = (information > _SQUARE_ROOT_IS_EXACT) & (information < LN_2)
    root = np.where(solving, np.minimum(u, 1.0 - 2.0**-53), 0.5)
    target = np.where(solving, information, _information_of_agreement(np.asarray(0.5)))
    for _ in range(_NEWTON_STEPS):
        step = (_information_of_agreement(root) - target) / np.arctanh(root)
        root = np.minimum(root - step, 1.0 - 2.0**-53)
        if np.all(np.abs(step) <= 1e-15 * root):
            break
    exact_or_end = np.where(information >= LN_2, 1.0, u)
    return np.asarray(np.where(solving, root, exact_or_end), dtype=np.float64)


def _information_of_agreement(u: NDArray[np.float64]) -> NDArray[np.float64]:
    half = 0.5 * (1.0 - u)
    from_one = LN_2 + (1.0 - half) * np.log1p(-half) + xlogy(half, half)
    from_zero = u * np.arctanh(u) + 0.5 * np.log1p(-u * u)
    return np.asarray(np.where(u > 0.5, from_one, from_zero), dtype=np.float64)


def _checked(values: ArrayLike, name: str, low: float, high: float, allowed: str) -> NDArray[np.float64]:
    try:
        array = real_array(values, name)
    except ValueError as error:
        raise ValueError(f"{name}: real numbers between {allowed} are allowed, got {values!r}") from error
    outside = ~((array >= low) & (array <= high))
    if np.any(outside):
        raise ValueError(f"{name}: numbers between {allowed} are allowed, got {array[outside].flat[0]!r}")
    return array
