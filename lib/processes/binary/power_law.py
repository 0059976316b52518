"""Binary sequences whose mutual information decays as a power law, and how large it may be.

The limits are those of positive definiteness.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import real_number, truth_value, whole_lags, whole_number
from lib.processes.binary.sign import LN_2, sign_correlation, sign_mutual_information
from lib.processes.binary.stationary import embedding_spectrum, prediction_error, signs_by_embedding, signs_by_factor

# (lags as float64, amplitude) -> correlations
Law = Callable[[NDArray[np.float64], float], NDArray[np.float64]]
LONGEST_DENSE = 2048  # beyond, the finite-length limit equals the infinite one to better than a part in 10^5
# Closer than this to the limit, rounding decides whether a Cholesky factor exists.
_MARGIN = 1e-10
_DIRECT_TERMS, _ACCELERATED_TERMS = 64, 32
_BISECTIONS = 52


class PowerLawBinary:
    """Signs of a stationary Gaussian whose mutual information at lag d is, or tends to, A d^-gamma nats.

    exact=False: correlation pi sqrt(A / 2) d^(-gamma / 2), Eq. 47 of Shen (2019) with its constant corrected;
    I(d) ~ A d^-gamma for large d, more at short lags.
    exact=True: Eq. 46 inverted at every lag, I(d) = A d^-gamma from lag 1 on.

    length: symbols per sequence, >= 1. amplitude: A >= 0 in nats (0: independent fair bits). exponent: gamma >
    0. Raises ValueError for other values, and for an amplitude above `largest_amplitude`: beyond it no
    Gaussian has these correlations. Source: Shen (2019), App. B, Eq. 42-47.
    """

    def __init__(self, length: int, amplitude: float = 0.1, exponent: float = 0.4, exact: bool = False) -> None:
        self.length = whole_number(length, "length", 1)
        self.amplitude = real_number(amplitude, "amplitude")
        self.exponent = real_number(exponent, "exponent")
        self.exact = truth_value(exact, "exact")
        if self.amplitude < 0.0:
            raise ValueError(f"amplitude: numbers >= 0 (nats) are allowed, got {amplitude!r}")
        if self.exponent <= 0.0:
            raise ValueError(f"exponent: numbers > 0 are allowed, got {exponent!r}")
        # The finite-length limit takes a second to find, and only a nearly forbidden amplitude needs it.
        if self.amplitude > self._infinite_length_limit and self.amplitude > self.largest_amplitude:
            raise ValueError(
                f"amplitude: at most {self.largest_amplitude:.6g} nats are allowed for exponent "
                f"{self.exponent:g} and length {self.length} ({'exact power law' if self.exact else 'Eq. 47'}), "
                f"got {amplitude!r}; beyond that the covariance is not positive definite"
            )

    def __repr__(self) -> str:
        return f"PowerLawBinary({self.length}, {self.amplitude!r}, {self.exponent!r}, exact={self.exact})"

    @cached_property
    def largest_amplitude(self) -> float:
        """Largest amplitude (nats) with a positive definite covariance at this length and exponent.

        To length 2048 the limit of the Toeplitz matrix itself, by bisection on its determinants; beyond, the
        limit of the infinite sequence, which is smaller by less than a part in 10^5. Cost O(length^2) to
        length 2048.
        """
        if self.length > LONGEST_DENSE:
            return self._infinite_length_limit
        return finite_length_limit(self._law, ceiling_of(self.exact), self.length, self._infinite_length_limit)

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Correlation of the Gaussians whose signs are the symbols.

        lags: whole numbers 0 <= d < length, any shape. Returns the same shape. Raises ValueError for other
        lags. Cost O(1) each.
        """
        whole = whole_lags(lags, self.length)
        law = self._law(np.maximum(whole, 1).astype(np.float64), self.amplitude)
        return np.asarray(np.where(whole == 0, 1.0, law))[()]

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact mutual information in nats of two symbols (ln 2 at lag 0).

        lags: whole numbers 0 <= d < length, any shape. Returns the same shape. Eq. 46 of Shen (2019) at the
        correlation of each lag. Raises ValueError for other lags. Cost O(1) each.
        """
        return sign_mutual_information(self.correlation(lags))

    def sample(self, n: int, seed: int | np.random.Generator) -> NDArray[np.uint8]:
        """n independent sequences of symbols 0 and 1, uint8 (n, length).

        Circulant embedding (see `lib.processes.binary.stationary`): O(length log length) per sequence, on all cores;
        the first rows of a larger sample from the same whole-number seed are those of a smaller one. For an
        amplitude between the limits of the infinite and of the finite sequence, a Cholesky factor:
        O(length^3). Raises ValueError for n < 1 or a seed that is neither a whole number >= 0 nor a
        Generator.
        """
        count = whole_number(n, "n", 1)
        if self._spectrum is None:
            return signs_by_factor(np.asarray(self.correlation(np.arange(self.length))), count, seed)
        return signs_by_embedding(self._spectrum, self.length, count, seed)

    @cached_property
    def _spectrum(self) -> NDArray[np.float64] | None:
        spectrum = embedding_spectrum(lambda lags: self._law(lags, self.amplitude), self.length)
        if spectrum is None and self.length > LONGEST_DENSE:
            raise ValueError(
                f"amplitude: {self.amplitude!r} lies so close to the limit {self.largest_amplitude:.6g} nats "
                f"that no circulant covariance carries it at length {self.length}; a smaller one is needed"
            )
        return spectrum

    @cached_property
    def _infinite_length_limit(self) -> float:
        return infinite_length_limit(self._law, ceiling_of(self.exact))

    def _law(self, lags: NDArray[np.float64], amplitude: float) -> NDArray[np.float64]:
        law = exact_correlation if self.exact else asymptotic_correlation
        # At the ceiling, pi sqrt(A / 2) may round to one part in 10^16 above one.
        return np.minimum(law(lags, amplitude, self.exponent), 1.0)


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
    numerically for the exact power law.
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
