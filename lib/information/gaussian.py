"""Mutual information of jointly Gaussian variables from their covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular, svdvals
from scipy.linalg.lapack import dpocon

from lib.checks import checked_covariance, plain_array

Floats = NDArray[np.float64]


def gaussian_mutual_information(covariance: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Mutual information of two groups of jointly Gaussian variables, in nats: -1/2 sum_i ln(1 - r_i^2).

    r_i are the canonical correlations, the singular values of S_11^(-1/2) S_12 S_22^(-1/2). This equals 1/2 ln(det
    S_11 det S_22 / det S) (Shen 2019, Eq. 8 and 38), whose difference of determinants is rounding noise for
    information below 1e-15; here tiny values keep their digits.

    covariance: (n, n). first, second: indices of the two groups, without overlap or repetition. Raises ValueError
    for a matrix that is not square, real, finite and symmetric, for k variables of the groups whose correlations have
    an eigenvalue of at most k 2^-50, as rounding leaves of 0 and below, and for bad indices. O(k^3).
    """
    matrix = checked_covariance(covariance)
    left = _checked_indices(first, matrix.shape[0], "first")
    right = _checked_indices(second, matrix.shape[0], "second")
    common = np.intersect1d(left, right)
    if common.size:
        raise ValueError(f"first and second share the indices {common[:5].tolist()}; the groups must not overlap")
    both = np.concatenate((left, right))
    _require_positive_definite(matrix[np.ix_(both, both)])
    left_root = cholesky(matrix[np.ix_(left, left)], lower=True)
    right_root = cholesky(matrix[np.ix_(right, right)], lower=True)
    half = solve_triangular(left_root, matrix[np.ix_(left, right)], lower=True)
    whitened = solve_triangular(right_root, half.T, lower=True)
    scale = float(np.abs(whitened).max())
    if scale == 0.0:
        return 0.0
    # The singular values are found at unit scale: the algorithm squares entries, which would underflow near 1e-150.
    correlations = np.minimum(svdvals(whitened / scale) * scale, 1 - np.finfo(np.float64).eps / 2)
    return float(-0.5 * np.sum(np.log1p(-(correlations**2)))) + 0.0  # no minus zero


def bipartite_mutual_information(covariance: npt.ArrayLike, split: int | None = None) -> float:
    """Mutual information of the first `split` variables and the rest, in nats: I(X_{1:l}; X_{l+1:n}), L2M Def. 4.1.

    covariance: (n, n). split: 0 < split < n, by default n // 2, the halves. Raises ValueError as
    `gaussian_mutual_information` does, and for a split that is no such number. O(n^3).
    """
    matrix = checked_covariance(covariance)
    size = matrix.shape[0]
    cut = checked_split(split, size)
    return gaussian_mutual_information(matrix, np.arange(cut), np.arange(cut, size))


def _require_positive_definite(matrix: npt.NDArray[np.float64]) -> None:
    variances = np.diagonal(matrix)
    if variances.min() <= 0:
        raise ValueError(f"covariance is not positive definite: variances must be > 0, got {variances.min():.6g}")
    scale = np.sqrt(variances)
    with np.errstate(over="ignore"):
        correlations = matrix / scale / scale[:, np.newaxis]
    rounding = 4 * len(matrix) * float(np.finfo(np.float64).eps)  # of the correlations and of their eigenvalues
    try:  # dpocon estimates 1 / |C^-1|, at most the smallest eigenvalue, within a small factor
        clear = dpocon(cholesky(correlations, lower=True), 1.0, uplo="L")[0] > 100 * rounding
    except ValueError:  # also infinite correlations, if variances are below 1e-308
        clear = False
    if not clear and (smallest := float(np.linalg.eigvalsh(np.nan_to_num(correlations))[0])) <= rounding:
        raise ValueError(
            f"covariance is not positive definite: of its correlations the smallest eigenvalue is {smallest:.6g}; "
            f"above {rounding:.6g} is needed, what rounding leaves of 0 with {len(matrix)} variables"
        )


def _checked_indices(indices: npt.ArrayLike, size: int, what: str) -> npt.NDArray[np.int64]:
    array: npt.NDArray[Any] = np.atleast_1d(plain_array(indices, what))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{what} has shape {array.shape}; give a list of at least one index")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{what} has type {array.dtype}; indices are integers")
    if array.min() < 0 or array.max() >= size:
        wrong = array[(array < 0) | (array >= size)][0]
        raise ValueError(f"{what} contains index {wrong}; allowed are 0..{size - 1}")
    if np.unique(array).size < array.size:
        raise ValueError(f"{what} repeats an index; every variable counts once")
    return array.astype(np.int64)


def checked_split(split: int | None, length: int) -> int:
    """The split, half by default; ValueError unless a whole number in 1 .. length - 1, and for a length below 2."""
    if length < 2:
        raise ValueError(f"two variables or more are allowed, got {length}")
    cut = plain_array(length // 2 if split is None else split, "split")
    if cut.ndim or cut.dtype.kind not in "iuf" or not 0 < cut < length or cut != np.floor(cut):
        raise ValueError(f"split: a whole number 0 < split < {length} is allowed, got {cut.tolist()!r}")
    return int(cut)
