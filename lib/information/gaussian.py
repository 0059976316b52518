"""Mutual information of jointly Gaussian variables from their covariance.

How much of the information between two halves a model captures, where the true law is known.

The direct estimator (L2M, Eq. 6) needs ln q(y), the model's law of the second half Y without the first half X. An
autoregressive model has no such number: started afresh it says what it would say of a *first* half. Where p is known,
three quantities are well defined for every model q(y_i | y_<i, x) = q(y_i | y_<i, z), z = its state after X:

    net       E_p[ln q(Y|X) - ln p(Y)]    = I_p(X; Y) - sum_i KL_i            = sum_i (g_i - KL_i)
    captured  the same for r(y|z), which is q where that helps, else p without X  = sum_i max(g_i - KL_i, 0)
    own       I_q(X; Y), of sequences that the model itself draws, between two bounds

with i over the positions of Y, g_i = I_p(X; Y_i | Y_<i), which add up to I_p(X; Y), and KL_i of Eq. E.36. As r(y|z)
is a law of Y given the state, E_p[ln r(Y|z) - ln p(Y)] = I_p(Z; Y) - E KL(p(Y|z) || r(Y|z)), so that

    net <= captured <= I_p(Z; Y) <= min(I_p(X; Y), what a state of that size can hold):

the second inequality is Theorem 5.2's chain under p, and holds for `net` and `captured` of every trained model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular, svdvals

from lib.information.model_estimates import ModelEstimate, direct_estimate

_ASYMMETRY = 1e-8  # relative to the largest entry; covariances computed by different routes differ far less
Floats = NDArray[np.float64]


def gaussian_mutual_information(covariance: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Mutual information of two groups of jointly Gaussian variables, in nats: -1/2 sum_i ln(1 - r_i^2).

    r_i are the canonical correlations, the singular values of S_11^(-1/2) S_12 S_22^(-1/2). This equals 1/2 ln(det
    S_11 det S_22 / det S) (Shen 2019, Eq. 8 and 38), whose difference of determinants is rounding noise for
    information below 1e-15; here tiny values keep their digits.

    covariance: (n, n). first, second: indices of the two groups, without overlap or repetition. Raises ValueError
    for a matrix that is not square, finite and symmetric, for variables of the groups whose covariance is not
    positive definite, and for bad indices. O(k^3) for k variables in the groups.
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
    return float(-0.5 * np.sum(np.log1p(-(correlations**2))))


def bipartite_mutual_information(covariance: npt.ArrayLike, split: int | None = None) -> float:
    """Mutual information of the first `split` variables and the rest, in nats: I(X_{1:l}; X_{l+1:n}), L2M Def. 4.1.

    covariance: (n, n). split: 0 < split < n, by default n // 2, the halves. Raises ValueError as
    `gaussian_mutual_information` does, and for a split out of range. O(n^3).
    """
    matrix = checked_covariance(covariance)
    size = matrix.shape[0]
    if split is None:
        split = size // 2
    if isinstance(split, bool) or int(split) != split or not 0 < split < size:
        raise ValueError(f"split = {split}; allowed are whole numbers 0 < split < {size}, the number of variables")
    return gaussian_mutual_information(matrix, np.arange(int(split)), np.arange(int(split), size))


def checked_covariance(covariance: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """A finite symmetric matrix as float64, or a ValueError that says what is wrong with it."""
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"covariance has shape {matrix.shape}; a square matrix is needed")
    if not np.all(np.isfinite(matrix)):
        raise ValueError("covariance contains NaN or infinity; finite numbers are needed")
    difference = float(np.abs(matrix - matrix.T).max())
    if difference > _ASYMMETRY * float(np.abs(matrix).max()):
        raise ValueError(
            f"covariance is not symmetric: entries differ from their mirror image by up to {difference:.3g}"
        )
    return np.asarray((matrix + matrix.T) / 2, dtype=np.float64)


def _require_positive_definite(matrix: npt.NDArray[np.float64]) -> None:
    try:
        cholesky(matrix, lower=True)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        message = f"covariance is not positive definite: its smallest eigenvalue is {smallest:.6g}; it must be positive"
        raise ValueError(message) from None


def _checked_indices(indices: npt.ArrayLike, size: int, what: str) -> npt.NDArray[np.int64]:
    array: npt.NDArray[Any] = np.atleast_1d(np.asarray(indices))
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


def information_by_position(covariance: ArrayLike, split: int | None = None) -> Floats:
    """g_i = I(X; Y_i | Y_<i) = 1/2 ln(Var[y_i | y_<i] / Var[y_i | y_<i, x]) of a Gaussian, nats, (L - split,).

    covariance (L, L); X is the first `split` variables, by default half. The g_i are >= 0 and add up to the bipartite
    information. Raises ValueError for a matrix that is not positive definite, a split outside 1 .. L - 1. O(L^3).
    """
    matrix = checked_covariance(covariance)
    cut = checked_split(split, len(matrix))
    try:
        joint, alone = (np.diagonal(cholesky(block, lower=True)) for block in (matrix, matrix[cut:, cut:]))
    except LinAlgError as error:
        raise ValueError(f"covariance: positive definite is allowed: {error}") from error
    return np.asarray(np.log(alone / joint[cut:]))


@dataclass(frozen=True)
class CapturedInformation:
    """Nats about the second half that a model has from the first; see the head of this module."""

    net: ModelEstimate
    captured: ModelEstimate
    information: float  # I_p(X; Y)


def captured_information(divergences: ArrayLike, gains: ArrayLike) -> CapturedInformation:
    """`net` and `captured` of a model from its KL at the positions of the second half.

    divergences: (n, k) nats a token, KL of the laws given the past, of n >= 4 independent sequences. gains: (k,), the
    g_i of the same tokens. Where the model helps is decided on one half of the sequences and counted on the other, and
    the other way round, so that the decision adds no information. Raises ValueError for other shapes and values that
    are not finite. O(n k).
    """
    values, share = np.asarray(divergences, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    if values.ndim != 2 or len(values) < 4 or share.shape != values.shape[1:] or share.size == 0:
        raise ValueError(
            f"divergences (n >= 4, k) and gains (k,) are allowed, got shapes {values.shape} and {share.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(share).all()):
        raise ValueError("divergences and gains: finite values are allowed")
    kept = share - values  # (n, k): expectation g_i - KL_i
    first, second = kept[: len(kept) // 2], kept[len(kept) // 2 :]
    counted = [here @ (other.mean(axis=0) > 0.0) for here, other in ((first, second), (second, first))]
    return CapturedInformation(_average(kept.sum(axis=1)), _average(np.concatenate(counted)), float(share.sum()))


@dataclass(frozen=True)
class OwnInformation:
    """I_q(X; Y) of the law that a model draws from lies between these, up to their standard errors; nats."""

    lower: ModelEstimate
    upper: ModelEstimate


def own_information_bounds(
    log_q_x: ArrayLike, log_q_y_given_x: ArrayLike, log_r_joint: ArrayLike, log_r_y: ArrayLike
) -> OwnInformation:
    """Bounds of I_q(X; Y) from sequences drawn from q, with any law r of which joint and second half are known.

        lower = E_q[ln r(X|Y) - ln q(X)] <= I_q(X; Y) <= upper = E_q[ln q(Y|X) - ln r(Y)]

    (Barber and Agakov 2003, both ways); upper - lower = KL(q || r), so that both are exact at r = q. What an
    autoregressive model cannot tell, q(y), is not needed: q(x) and q(y|x) are products of its predictions. Every
    argument: (n,) nats of the same n >= 2 sequences, drawn from q; log_r_joint is ln r(x, y). r must not depend on
    these sequences. Raises ValueError for other shapes and values that are not finite. O(n).
    """
    given_y = np.asarray(log_r_joint, dtype=np.float64) - np.asarray(log_r_y, dtype=np.float64)
    return OwnInformation(direct_estimate(given_y, log_q_x), direct_estimate(log_q_y_given_x, log_r_y))


def checked_split(split: int | None, length: int) -> int:
    """The split, half by default; ValueError outside 1 .. length - 1."""
    cut = length // 2 if split is None else split
    if isinstance(cut, bool) or not 1 <= cut < length:
        raise ValueError(f"split: 1 <= split < length = {length} is allowed, got {cut!r}")
    return cut


def _average(values: Floats) -> ModelEstimate:
    return ModelEstimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))
