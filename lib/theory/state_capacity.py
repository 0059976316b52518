"""How much information a state of one real number, or of m Gaussian ones, carries from the past to the future."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular, svdvals
from scipy.special import entr, ndtr, ndtri

_REACH = 9.0  # standard deviations that a Gaussian is integrated over; beyond lie 1e-19
_POINTS = 8  # of the grid in the smallest width that occurs; the trapezoidal rule then is exact to rounding


def canonical_correlations(covariance: ArrayLike, first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Canonical correlations of two groups of variables, descending: singular values of S_11^(-1/2) S_12 S_22^(-1/2).

    If what the first group tells about the second passes through m numbers linearly, at most m of them are not zero;
    for Gaussians I = -1/2 sum ln(1 - r^2). covariance (n, n), first and second: index arrays without overlap. Raises
    ValueError unless both groups have a positive definite covariance. Cost O(n^3).
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    left, right = np.asarray(first), np.asarray(second)
    try:
        roots = [cholesky(matrix[np.ix_(group, group)], lower=True) for group in (left, right)]
    except (np.linalg.LinAlgError, IndexError, ValueError) as error:
        raise ValueError(f"covariance: positive definite blocks of both groups are allowed: {error}") from error
    half = solve_triangular(roots[0], matrix[np.ix_(left, right)], lower=True)
    return np.asarray(svdvals(solve_triangular(roots[1], half.T, lower=True)))


def quantised_autoregression_information(coefficient: float, bits: int) -> float:
    """I(cell of x_l; x_{l+1}, x_{l+2}, ...) in nats of an AR(1) process whose state is rounded to 2^bits cells.

    x_{l+1} = rho x_l + sqrt(1 - rho^2) e, variance 1; the cells of x_l are equally likely. Since the future depends on
    the past through x_{l+1} alone, this is

        I = bits ln 2 - E_y H(cell | x_{l+1} = y),

    which grows with rho to bits ln 2, where the unrounded state carries -ln(1 - rho^2) / 2 without bound. The integral
    over y is a trapezoidal sum. Raises ValueError unless -1 < rho < 1 and 1 <= bits <= 10. Cost O(2^bits / sqrt(1 -
    rho^2)). Source: L2M (2025), Thm 5.2, for a state of finite precision.
    """
    if not -1.0 < coefficient < 1.0:
        raise ValueError(f"coefficient: a number between -1 and 1 is allowed, got {coefficient!r}")
    if isinstance(bits, bool) or bits not in range(1, 11):
        raise ValueError(f"bits: a whole number from 1 to 10 is allowed, got {bits!r}")
    edges = ndtri(np.arange(1, 2**bits) / 2**bits)
    width = np.sqrt((1.0 - coefficient) * (1.0 + coefficient))  # of x_l, given its successor
    half = int(np.ceil(_REACH * _POINTS / width))
    y, step = np.linspace(-_REACH, _REACH, 2 * half + 1, retstep=True)
    density = np.exp(-0.5 * y * y) / np.sqrt(2.0 * np.pi) * step
    below = np.zeros_like(y)
    doubt = np.zeros_like(y)  # H(cell | y)
    for edge in [*edges, np.inf]:
        upto = ndtr((edge - coefficient * y) / width)
        doubt += entr(np.maximum(upto - below, 0.0))
        below = upto
    return float(bits * np.log(2.0) - density @ doubt)
