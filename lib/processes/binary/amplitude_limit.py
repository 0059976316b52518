"""How large the mutual information of a binary power law may be: limits of positive definiteness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lib.processes.binary.sign import LN_2, sign_correlation
from lib.processes.binary.stationary import prediction_error

# (lags as float64, amplitude) -> correlations
Law = Callable[[NDArray[np.float64], float], NDArray[np.float64]]

LONGEST_DENSE = 2048  # beyond, the finite-length limit equals the infinite one to better than a part in 10^5
# Closer than this to the limit, rounding decides whether a Cholesky factor exists.
_MARGIN = 1e-10
_DIRECT_TERMS, _ACCELERATED_TERMS = 64, 32
_BISECTIONS = 52


def asymptotic_correlation(lags: NDArray[np.float64], amplitude: float, exponent: float) -> NDArray[np.float64]:
    """c(d) = pi sqrt(A / 2) d^(-gamma / 2): Eq. 47 of Shen (2019), read so that 2 c^2 / pi^2 = A d^-gamma."""
    return np.asarray(np.pi * np.sqrt(0.5 * amplitude) * lags ** (-0.5 * exponent))


def exact_correlation(lags: NDArray[np.float64], amplitude: float, exponent: float) -> NDArray[np.float64]:
    """The correlation whose signs share exactly A d^-gamma nats: Eq. 46 of Shen (2019) inverted."""
    return np.asarray(sign_correlation(amplitude * lags**-exponent))


def spectral_density_at_pi(law: Law, amplitude: float) -> float:
    """S(pi) = 1 + 2 sum_{d >= 1} (-1)^d c(d) of the infinite sequence, to rounding.

    The first terms are summed as they stand, the rest by the Chebyshev acceleration of alternating series
    (Cohen, Rodriguez Villegas and Zagier 2000), whose error falls like 5.8^-k for completely monotone terms.
    """
    lags = np.arange(1.0, _ALTERNATING_WEIGHTS.size + 1.0)
    return float(1.0 - 2.0 * (_ALTERNATING_WEIGHTS @ law(lags, amplitude)))


def infinite_length_limit(law: Law, ceiling: float) -> float:
    """Largest amplitude up to `ceiling` at which S(pi) >= 0, by bisection.

    Where the spectral density has its minimum at frequency pi this is the limit of positive definiteness of
    the infinite sequence: proved for Eq. 47 (then A = 1 / (2 pi^2 eta(gamma / 2)^2), eta Dirichlet's), found
    numerically for the exact law.
    """
    return _largest(lambda amplitude: spectral_density_at_pi(law, amplitude) >= 0.0, 0.0, ceiling)


def finite_length_limit(law: Law, ceiling: float, length: int, positive_definite: float) -> float:
    """Largest amplitude up to `ceiling` whose Toeplitz matrix of this length is positive definite.

    Bisection between `positive_definite`, an amplitude known to be so, and `ceiling`, less a part in 10^10
    for rounding. Cost O(length^2).
    """
    lags = np.arange(1.0, float(length))

    def accepted(amplitude: float) -> bool:
        row = np.concatenate([[1.0], law(lags, amplitude)])
        return prediction_error(row) > 0.0

    if length <= 2:  # no joint constraint: any correlation up to one will do
        return ceiling
    return max(positive_definite, (1.0 - _MARGIN) * _largest(accepted, positive_definite, ceiling))


def ceiling_of(exact: bool) -> float:
    """Amplitude at which the correlation of neighbours reaches one."""
    return LN_2 if exact else 2.0 / np.pi**2


def _largest(accepted: Callable[[float], bool], low: float, high: float) -> float:
    if accepted(high):
        return high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


def _alternating_weights(direct: int, accelerated: int) -> NDArray[np.float64]:
    """w with sum_k (-1)^k a_k ~ sum_k w_k a_k: ones of alternating sign, then Chebyshev weights."""
    power = (3.0 + np.sqrt(8.0)) ** accelerated
    total = 0.5 * (power + 1.0 / power)
    term, partial, weights = -1.0, -total, []
    for k in range(accelerated):
        partial = term - partial
        weights.append(partial / total)
        term *= (k + accelerated) * (k - accelerated) / ((k + 0.5) * (k + 1.0))
    signs = (-1.0) ** np.arange(direct)
    return np.concatenate([signs, (-1.0) ** direct * np.asarray(weights)])


_ALTERNATING_WEIGHTS = _alternating_weights(_DIRECT_TERMS, _ACCELERATED_TERMS)
