"""A Gaussian distribution in the form of a language model: a prediction for each position, given what came before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from lib.checks import checked_covariance, whole_number
from lib.processes.discrete.tables import divergence_terms

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianPredictor:
    """q(x_i | x_<i) = N(weights[i] @ x, variances[i]) with weights strictly lower triangular, mean zero.

    Every Gaussian distribution has this form exactly once. weights: (L, L); variances: (L,) > 0. ValueError otherwise.
    """

    weights: Floats
    variances: Floats

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        variances = np.asarray(self.variances, dtype=np.float64)
        if weights.ndim != 2 or weights.shape != (variances.size, variances.size) or variances.ndim != 1:
            raise ValueError(
                f"weights (L, L) and variances (L,) are allowed, got shapes {weights.shape} and {variances.shape}"
            )
        if not np.all(np.isfinite(weights)) or np.any(np.triu(weights)):
            raise ValueError(
                "weights: finite, strictly lower triangular ones are allowed (a position sees the earlier ones)"
            )
        if not np.all((variances > 0.0) & np.isfinite(variances)):
            raise ValueError(f"variances: finite numbers > 0 are allowed, got {variances.min()!r} as the smallest")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "variances", variances)

    @classmethod
    def from_covariance(cls, covariance: ArrayLike) -> GaussianPredictor:
        """The predictor of a mean-zero Gaussian: Sigma = C C^T, C = K sqrt(D), weights = 1 - K^-1. O(L^3)."""
        factor = cholesky(covariance)
        scale = np.diagonal(factor).copy()
        inverse = scipy.linalg.solve_triangular(factor / scale, np.eye(scale.size), lower=True, unit_diagonal=True)
        return cls(np.tril(-inverse, -1), scale * scale)

    @classmethod
    def windowed(cls, covariance: ArrayLike, window: int) -> GaussianPredictor:
        """The best predictor that sees only the last `window` entries: q(x_i | x_<i) = p(x_i | x_{i-window..i-1}).

        window >= 0; from L - 1 on it is the full distribution. Raises ValueError otherwise. O(L window^3).
        """
        matrix, window = checked_covariance(covariance), whole_number(window, "window", 0)
        length = matrix.shape[0]
        if window >= length - 1:
            return cls.from_covariance(matrix)
        weights, variances = np.zeros((length, length)), np.diagonal(matrix).copy()
        for place in range(1, length):
            seen = slice(max(0, place - window), place)
            if seen.start == seen.stop:
                continue
            best = scipy.linalg.solve(matrix[seen, seen], matrix[seen, place], assume_a="pos")
            weights[place, seen] = best
            variances[place] -= best @ matrix[seen, place]
        return cls(weights, variances)

    @property
    def length(self) -> int:
        return int(self.variances.size)

    def covariance(self) -> Floats:
        """The covariance of the distribution that these predictions define together, (L, L). O(L^3)."""
        spread = scipy.linalg.solve_triangular(
            np.eye(self.length) - self.weights, np.diag(np.sqrt(self.variances)), lower=True, unit_diagonal=True
        )
        return np.asarray(spread @ spread.T)

    def log_densities(self, sequences: ArrayLike) -> Floats:
        """ln q(x_i | x_<i) in nats at every position of every row, (n, L) -> (n, L). ValueError for another width."""
        values = np.asarray(sequences, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.length:
            raise ValueError(f"sequences: shape (n, {self.length}) is allowed, got {values.shape}")
        residuals = values - values @ self.weights.T
        return np.asarray(-0.5 * (residuals**2 / self.variances + np.log(2.0 * np.pi * self.variances)))

    def cross_entropies(self, covariance: ArrayLike) -> Floats:
        """-E_p ln q(x_i | x_<i) in nats for p = N(0, covariance), (L,): L2M, Eq. 4, position by position. O(L^3)."""
        residual = np.eye(self.length) - self.weights
        spread = np.einsum("ij,ij->i", residual @ self._matching(covariance), residual)
        return np.asarray(0.5 * (spread / self.variances + np.log(2.0 * np.pi * self.variances)))

    def divergences(self, covariance: ArrayLike) -> Floats:
        """E_p KL(p(x_i | x_<i) || q(x_i | x_<i)) in nats for p = N(0, covariance), (L,): L2M, Eq. E.36. O(L^3).

        With the predictor of p, 1/2 [u - 1 - ln u + E (difference of the means)^2 / v_q], u = v_p / v_q: a sum of terms
        >= 0, none of which cancels. A tiny one is as exact as what two factorisations leave of v_p - v_q, to about
        1e-16 / |u - 1| of itself.
        """
        matrix = self._matching(covariance)
        truth = GaussianPredictor.from_covariance(matrix)
        difference = truth.weights - self.weights
        shift = np.einsum("ij,ij->i", difference @ matrix, difference) / self.variances
        spread = divergence_terms(self.variances, truth.variances) / self.variances
        return np.asarray(0.5 * (spread + shift))

    def _matching(self, covariance: ArrayLike) -> Floats:
        matrix = checked_covariance(covariance)
        if matrix.shape[0] != self.length:
            raise ValueError(f"covariance: size {self.length} as the predictor is allowed, got {matrix.shape[0]}")
        return matrix


def cholesky(covariance: ArrayLike) -> Floats:
    """The lower Cholesky factor; ValueError with the smallest eigenvalue unless positive definite. O(L^3)."""
    matrix = checked_covariance(covariance)
    try:
        return np.asarray(scipy.linalg.cholesky(matrix, lower=True))
    except np.linalg.LinAlgError as error:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        message = f"covariance: positive definite is allowed, the smallest eigenvalue is {smallest:.3g}"
        raise ValueError(message) from error
