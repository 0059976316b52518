"""Kerg et al. (2020), Lemma 12: what its main term leaves of chi_{0:k}(s), for long sequences in float64.

    remainder = chi_{0:k}(s) - [k=s] - 1/(t+k) sum_r C(s+1,r+1) omega_{s-r:k}(r)

The lemma says Theta(1/T), T = t + k. In truth T times the remainder goes to 0 for s <= 1, to 2/t for s = 2, and grows
like s ln(T)^(s-2) / (t (s-2)!) for s >= 3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_lags, whole_number


def scaled_remainders(t: int, k: ArrayLike, order: int) -> NDArray[np.float64]:
    """T times the remainder of Lemma 12 for s = 0 ... order at every k >= order: (order + 1, len(k)).

    By cumulative sums of positive terms, with relative errors around 1e-13 of chi. Raises ValueError for k below the
    order. Cost O(max k order^2) time, O(max k order) memory.
    """
    start, highest, steps = whole_number(t, "t", 1), whole_number(order, "order", 0), np.atleast_1d(whole_lags(k))
    if steps.min() < highest:
        raise ValueError(f"k: at least order = {highest} is allowed, got {steps.min()}")
    inverse = 1.0 / (start + np.arange(steps.max() + 1, dtype=np.float64))
    lower = np.zeros((highest + 1, len(steps)))
    for first in range(highest + 1):
        omega = np.where(np.arange(len(inverse)) >= first, 1.0, 0.0)  # omega_{first:k}(0) at every k
        for r in range(highest + 1 - first):
            lower[first + r] += math.comb(first + r + 1, r + 1) * omega[steps]
            omega = _before(omega * inverse)
    ends = (steps == np.arange(highest + 1)[:, None]) / inverse[steps]  # T [k = s]
    return np.asarray(chi_rows(start, steps, highest) / inverse[steps] - ends - lower)


def chi_rows(t: int, steps: NDArray[np.int64], order: int) -> NDArray[np.float64]:
    """chi_{0:k}(s) for s = 0 ... order at these k: (order + 1, len(steps)), as above."""
    inverse = 1.0 / (t + np.arange(steps.max() + 1, dtype=np.float64))
    theta, chi = np.ones(len(inverse)), inverse.copy()
    chi[0] += 1.0
    rows = [chi[steps]]
    for s in range(1, order + 1):
        shifted = np.concatenate([[0.0], theta[:-1]])  # the last step taken directly; for s = 1 from the start
        theta = _before(theta * inverse) + (np.where(np.arange(len(theta)) > 0, 1.0, 0.0) if s == 1 else shifted)
        chi = theta * inverse + np.concatenate([[0.0], chi[:-1]])
        rows.append(chi[steps])
    return np.stack(rows)


def leading_coefficient(t: int, s: int) -> float:
    """s / (t (s-2)!), the coefficient of ln(T)^(s-2) in T times the remainder. s >= 2."""
    return whole_number(s, "s", 2) / (whole_number(t, "t", 1) * math.factorial(s - 2))


def _before(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of all terms before each place."""
    return np.concatenate([[0.0], np.cumsum(terms)[:-1]])
