"""Probabilities that correlated Gaussians have given signs, and the exact distribution of short blocks of signs."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_number

LARGEST_DIMENSION = 7  # each two dimensions beyond three add one nested integral
NODES = 48  # of Gauss and Legendre, for each integral


def orthant_probability(correlation: ArrayLike) -> float:
    """P(all Z_i > 0) for Gaussians of mean 0 and this correlation matrix (n, n), n <= 7.

    Closed form to n = 3 (Sheppard 1899); beyond, along R(s) = I + s (R - I), the derivative is
    sum_{i<j} r_ij / (2 pi sqrt(1 - s^2 r_ij^2)) P(the others > 0 given Z_i = Z_j = 0), an orthant of n - 2 dimensions
    (Plackett, Biometrika 41, 351, 1954), integrated by Gauss and Legendre over the angle whose sine is s. Error about
    1e-14 for correlations up to 0.99, 1e-12 at 0.999 and 1e-7 at 0.9999. Raises ValueError unless the matrix is a
    positive definite correlation matrix. Cost O((48 n^2)^((n - 2) // 2)) small matrices.
    """
    R = np.asarray(correlation, dtype=np.float64)
    if R.ndim != 2 or R.shape[0] != R.shape[1] or not 1 <= len(R) <= LARGEST_DIMENSION:
        raise ValueError(f"correlation: a matrix (n, n) with 1 <= n <= {LARGEST_DIMENSION} is allowed, got {R.shape}")
    if not (np.allclose(R, R.T, atol=1e-12) and np.allclose(np.diag(R), 1.0, atol=1e-12)):
        raise ValueError("correlation: a symmetric matrix with ones on the diagonal is allowed")
    if np.linalg.eigvalsh(R).min() <= 0.0:
        raise ValueError("correlation: a positive definite matrix is allowed")
    return float(_orthants(R[None])[0])


def sign_block_law(correlations: ArrayLike) -> NDArray[np.float64]:
    """Distribution of n successive signs of a stationary Gaussian: P(x_1 .. x_n), shape (2,) * n, 1 for Z > 0.

    As exact as `orthant_probability`.

    correlations: of lags 1 .. n - 1, n <= 7. Raises ValueError as `orthant_probability`. Cost 2^(n-1) orthants.
    """
    r = np.concatenate([[1.0], np.atleast_1d(np.asarray(correlations, dtype=np.float64))])
    n = whole_number(r.size, "number of correlations + 1", 2)
    place = np.arange(n)
    R = r[np.abs(place[:, None] - place)]
    law = np.empty((2,) * n)
    for signs in itertools.product((0, 1), repeat=n - 1):
        flip = np.array([1, *(2 * s - 1 for s in signs)], dtype=np.float64)
        law[(1, *signs)] = law[(0, *(1 - s for s in signs))] = orthant_probability(R * flip[:, None] * flip)
    return law


def _orthants(R: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthant probabilities of a stack (..., n, n) of correlation matrices."""
    n = R.shape[-1]
    if n == 0:
        return np.ones(R.shape[:-2])
    first, second = np.triu_indices(n, 1)
    if n <= 3:
        return np.asarray(
            0.5**n
            + np.arcsin(np.clip(R[..., first, second], -1, 1)).sum(axis=-1) / (4 * math.pi) * (2.0 if n == 2 else 1.0)
        )
    nodes, weights = _rule()
    total = np.full(R.shape[:-2], 0.5**n)
    others = np.array([[k for k in range(n) if k not in pair] for pair in zip(first, second, strict=True)])
    for i, j, rest in zip(first, second, others, strict=True):
        S = np.eye(n) + nodes[:, None, None] * (R[..., None, :, :] - np.eye(n))  # (..., nodes, n, n)
        pair = np.array([i, j])
        across = S[..., rest[:, None], pair]  # (..., nodes, n - 2, 2)
        left = S[..., rest[:, None], rest] - across @ np.linalg.solve(
            S[..., pair[:, None], pair], np.swapaxes(across, -1, -2)
        )
        scale = 1.0 / np.sqrt(np.diagonal(left, axis1=-2, axis2=-1))
        density = 1.0 / (2 * math.pi * np.sqrt(1.0 - (nodes * R[..., i, j, None]) ** 2))
        inside = _orthants(left * scale[..., :, None] * scale[..., None, :])
        total = total + R[..., i, j] * np.sum(weights * density * inside, axis=-1)
    return total


@lru_cache(maxsize=1)
def _rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    angles = 0.25 * math.pi * (nodes + 1.0)  # s = sin(angle), since 1 / sqrt(1 - s^2) is steep at 1
    return np.sin(angles), 0.25 * math.pi * weights * np.cos(angles)
