"""Stationary Gaussian sequences of unit variance: exact two-point and bipartite information."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, real_number, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths


class StationaryGaussian(ABC):
    """A Gaussian sequence with mean 0, variance 1 and correlation c(d) at lag d."""

    @abstractmethod
    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """c(d) at whole lags >= 0, any shape; ValueError for other lags."""

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact mutual information -ln(1 - c(d)^2) / 2 in nats of two entries at whole lags >= 0, any shape.

        At lag 0 it is infinite, as the information of a continuous variable with itself. Raises ValueError for other
        lags. Cost O(1) each.
        """
        c = np.asarray(self.correlation(lags))
        with np.errstate(divide="ignore"):
            return _of_correlation(c)[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """Exact information in nats between the first `splits` entries (default: half) and the rest of `lengths`.

        With the partial autocorrelations phi_j (the correlation of entries j apart, given those between),

            I(l; L - l) = -1/2 sum_{j=1}^{L-1} min(j, L - j, l, L - l) ln(1 - phi_j^2),

        a sum of positive terms: pairs j apart straddle the split in min(...) places. One recursion serves all lengths.
        Returns the common shape. Raises ValueError unless 1 <= split < length. Cost O(longest^2).
        """
        first, second = block_lengths(lengths, splits)
        longest = int((first + second).max(initial=1))
        partial = partial_autocorrelations(np.asarray(self.correlation(np.arange(longest))))
        gains = _of_correlation(partial)
        information = np.empty(first.shape)
        for place in np.ndindex(first.shape):
            left, right = int(first[place]), int(second[place])
            apart = np.arange(1, left + right)
            straddling = np.minimum(np.minimum(apart, apart[::-1]), min(left, right))
            information[place] = straddling @ gains[: apart.size]
        return information[()]

    def covariance(self, length: int) -> NDArray[np.float64]:
        """Toeplitz covariance of `length` entries in a row, (length, length)."""
        return np.asarray(scipy.linalg.toeplitz(self.correlation(np.arange(whole_number(length, "length", 1)))))

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.float64]:
        """n independent sequences (n, length), each entry drawn given all before it.

        Raises ValueError for n or length < 1 or a bad seed. Cost O(n length^2).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        values = generator(seed).standard_normal((columns, rows))
        for place, (weights, variance) in enumerate(_predictors(np.asarray(self.correlation(np.arange(columns))))):
            values[place] = weights[::-1] @ values[:place] + np.sqrt(variance) * values[place]
        return np.ascontiguousarray(values.T)


class AutoregressiveGaussian(StationaryGaussian):
    """AR(1): x_t = rho x_{t-1} + sqrt(1 - rho^2) e_t, so that c(d) = rho^d.

    coefficient: -1 < rho < 1; ValueError otherwise. Markov, hence one bipartite value at all lengths.
    """

    def __init__(self, coefficient: float) -> None:
        self.coefficient = real_number(coefficient, "coefficient")
        if not -1.0 < self.coefficient < 1.0:
            raise ValueError(f"coefficient: -1 < rho < 1 is allowed for a stationary sequence, got {coefficient!r}")

    def __repr__(self) -> str:
        return f"AutoregressiveGaussian({self.coefficient!r})"

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """rho^d at whole lags >= 0, any shape."""
        return np.asarray(self.coefficient ** whole_lags(lags).astype(np.float64))[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """-ln(1 - rho^2) / 2 nats between any two neighbouring blocks. Cost O(1) each."""
        first, _ = block_lengths(lengths, splits)
        return np.full(first.shape, self.mutual_information(1))[()]

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.float64]:
        """n independent sequences (n, length) by the recursion, from its stationary distribution. Cost O(n length)."""
        from scipy.signal import lfilter  # takes half a second to load, which nothing else here needs

        values = generator(seed).standard_normal((whole_number(n, "n", 1), whole_number(length, "length", 1)))
        values[:, 1:] *= np.sqrt(1.0 - self.coefficient**2)
        return np.asarray(lfilter([1.0], [1.0, -self.coefficient], values, axis=1))


class PowerLawGaussian(StationaryGaussian):
    """Correlation c(d) = (1 + d)^-a, convex and decreasing, hence positive definite for every a > 0 (Polya 1949).

    Two-point information ~ d^(-2a) / 2. Bipartite information grows like ((1 - a) / 2)^2 ln(L) / 2 for a < 1 and
    tends to a constant for a > 1; it is never a power of L.

    exponent: a > 0; ValueError otherwise. Below about 1e-15 correlations round to one: blocks are refused, and above it
    they lose as many digits as a has zeros.
    """

    def __init__(self, exponent: float) -> None:
        self.exponent = real_number(exponent, "exponent")
        if self.exponent <= 0.0:
            raise ValueError(f"exponent: numbers > 0 are allowed, got {exponent!r}")

    def __repr__(self) -> str:
        return f"PowerLawGaussian({self.exponent!r})"

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """(1 + d)^-a at whole lags >= 0, any shape."""
        return np.asarray((1.0 + whole_lags(lags)) ** -self.exponent)[()]

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """-ln(1 - (1 + d)^(-2a)) / 2 nats at whole lags >= 0, any shape, with all digits for small exponents too."""
        away = 2.0 * self.exponent * np.log1p(whole_lags(lags))  # -ln c^2
        with np.errstate(divide="ignore"):
            near = np.log(-np.expm1(-away))
        return np.asarray(-0.5 * np.where(away < 0.5, near, np.log1p(-np.exp(-np.maximum(away, 0.5)))))[()]


class EquicorrelatedGaussian(StationaryGaussian):
    """x_t = sqrt(s) z + sqrt(1 - s) e_t: one latent z shared by the whole sequence, c(d) = s at every lag d >= 1.

    common_variance: 0 <= s < 1, the share of the variance that z carries; ValueError otherwise.
    """

    def __init__(self, common_variance: float) -> None:
        self.common_variance = real_number(common_variance, "common_variance")
        if not 0.0 <= self.common_variance < 1.0:
            raise ValueError(f"common_variance: 0 <= s < 1 is allowed, got {common_variance!r}")

    def __repr__(self) -> str:
        return f"EquicorrelatedGaussian({self.common_variance!r})"

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """s at whole lags >= 1 and 1 at lag 0, any shape."""
        return np.asarray(np.where(whole_lags(lags) == 0, 1.0, self.common_variance))[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """1/2 ln(1 + l r s^2 / ((1 - s)(1 - s + (l + r) s))) nats between l entries and the r after them.

        It grows like ln(L) / 2 at the half: both blocks learn z with a precision that grows with their length.
        Returns the common shape. Raises ValueError unless 1 <= split < length. Cost O(1) each.
        """
        first, second = block_lengths(lengths, splits)
        shared, own = self.common_variance, 1.0 - self.common_variance
        ratio = first.astype(np.float64) * second * shared**2 / (own * (own + (first + second) * shared))
        return np.asarray(0.5 * np.log1p(ratio))[()]

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.float64]:
        """n independent sequences (n, length), one latent each. Cost O(n length)."""
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        random = generator(seed)
        latent = random.standard_normal((rows, 1))
        own = random.standard_normal((rows, columns))
        return np.asarray(np.sqrt(self.common_variance) * latent + np.sqrt(1.0 - self.common_variance) * own)


def _of_correlation(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """-ln(1 - c^2) / 2 in nats, with all digits of 1 - c^2 at both ends: squares lose those near one."""
    near = np.abs(correlation) > 0.5
    far = np.log1p(-(np.where(near, 0.0, correlation) ** 2))
    return np.asarray(-0.5 * np.where(near, np.log((1.0 - correlation) * (1.0 + correlation)), far))


def partial_autocorrelations(correlations: ArrayLike) -> NDArray[np.float64]:
    """phi_1, ..., phi_{n-1} of a stationary Gaussian: correlation of entries j apart, given those between them.

    correlations: c(0) = 1, c(1), ..., c(n - 1). Returns (n - 1,). Raises ValueError if they are not positive
    definite. Durbin's recursion, cost O(n^2).
    """
    row = np.asarray(correlations, dtype=np.float64)
    if row.ndim != 1 or row.size == 0 or row[0] != 1.0:
        raise ValueError(f"correlations: a row that starts with c(0) = 1 is allowed, got {row}")
    return np.array([weights[-1] for weights, _ in _predictors(row) if weights.size])


def predictors(row: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Weights of x_{t-1}, x_{t-2}, ..., x_0 in the best prediction of x_t, and its error variance, for t = 0, 1, ...

    row: the correlations at lags 0, 1, ... with row[0] = 1. The variances are the ratios of successive determinants of
    the Toeplitz matrix, which is positive definite exactly when all are > 0; the first one that is not is the last that
    comes. The weights are a view that the next step overwrites. Levinson and Durbin, cost O(length^2).
    """
    weights = np.zeros(row.size)
    variance = 1.0
    yield weights[:0], variance
    for lag in range(1, row.size):
        past = weights[: lag - 1]
        reflection = (row[lag] - past @ row[lag - 1 : 0 : -1]) / variance
        past -= reflection * past[::-1].copy()
        weights[lag - 1] = reflection
        variance *= 1.0 - reflection * reflection
        yield weights[:lag], variance
        if not variance > 0.0:
            return


def _predictors(row: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.float64], float]]:
    """The same for a positive definite row; ValueError where it turns out to be none."""
    for weights, variance in predictors(row):
        if not variance > 0.0:
            raise ValueError(f"correlations: the first {weights.size + 1} are not positive definite")
        yield weights, variance
