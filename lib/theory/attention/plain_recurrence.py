"""The baseline without attention: h_{t+1} = phi(V h_t + b_t), whose gradient is a product of Jacobians."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from lib.checks import whole_number


def power_norms(recurrent: ArrayLike, k: int) -> NDArray[np.float64]:
    """Spectral norms of V^0 ... V^k: the gradient dh_{t+k}/dh_t of a linear recurrence.

    recurrent: V (n, n). Powers are rescaled, so that only the norm itself can underflow. Returns (k + 1,).
    Raises ValueError. Cost O(k n^3).
    """
    matrix = _square(recurrent)
    steps = np.broadcast_to(matrix, (whole_number(k, "k", 0), *matrix.shape))
    return np.asarray(np.exp(log_product_norms(steps, len(matrix))))


def log_product_norms(jacobians: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """ln of the spectral norm of J_j ... J_2 J_1 for j = 0 ... k, each product rescaled before the next factor.

    jacobians: (k, size, size). Returns (k + 1,), -inf where a product is zero. Cost O(k size^3).
    """
    product, scale = np.eye(size), 0.0
    logs = [0.0]
    for jacobian in jacobians:
        product = jacobian @ product
        norm = float(np.linalg.norm(product, 2))
        if norm == 0.0:
            return np.array(logs + [-np.inf] * (len(jacobians) + 1 - len(logs)))
        product /= norm
        scale += np.log(norm)
        logs.append(scale)
    return np.array(logs)


def tanh_jacobians(recurrent: ArrayLike, drive: ArrayLike, start: ArrayLike) -> NDArray[np.float64]:
    """dh_{t+1}/dh_t = diag(1 - h_{t+1}^2) V along h_{t+1} = tanh(V h_t + b_t).

    recurrent: V (n, n). drive: b_t (k, n). start: h_0 (n,). Returns (k, n, n). Raises ValueError. Cost O(k n^2).
    """
    matrix, inputs, h = _square(recurrent), np.asarray(drive, dtype=np.float64), np.asarray(start, dtype=np.float64)
    n = len(matrix)
    if inputs.ndim != 2 or inputs.shape[1] != n or h.shape != (n,):
        raise ValueError(f"drive (k, {n}) and start ({n},) are allowed, got shapes {inputs.shape} and {h.shape}")
    jacobians = np.empty((len(inputs), n, n))
    for step, b in enumerate(inputs):
        h = np.tanh(matrix @ h + b)
        jacobians[step] = (1.0 - h**2)[:, None] * matrix
    return jacobians


def kreiss_constant(recurrent: ArrayLike) -> float:
    """sup over |z| > 1 of (|z| - 1) ||(z I - V)^-1||, which brackets the transient growth of powers:

        kreiss <= sup_k ||V^k||_2 <= e n kreiss          (Kreiss matrix theorem, n the size of V).

    Searched on a grid in the complex plane and polished, so the value is a lower bound that is met closely. Raises
    ValueError unless V is square with spectral radius below 1. Cost O(n^3) per point, a few thousand points.
    """
    matrix = _square(recurrent)
    radius = float(np.abs(np.linalg.eigvals(matrix)).max())
    if radius >= 1.0:
        raise ValueError(f"recurrent: a spectral radius below 1 is allowed, got {radius}")
    identity = np.eye(len(matrix))

    def height(point: NDArray[np.float64]) -> float:
        beyond = np.exp(point[0])
        resolvent = (1.0 + beyond) * np.exp(1j * point[1]) * identity - matrix
        return float(beyond / np.linalg.svd(resolvent, compute_uv=False)[-1])

    grid = [
        (x, angle) for x in np.linspace(-12.0, 4.0, 49) for angle in np.linspace(0.0, 2 * np.pi, 64, endpoint=False)
    ]
    best = max(grid, key=lambda point: height(np.array(point)))
    polished = minimize(lambda point: -height(point), np.array(best), method="Nelder-Mead")
    return max(1.0, height(np.array(best)), height(polished.x))  # 1 is the limit |z| -> infinity


def _square(recurrent: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(recurrent, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise ValueError(f"recurrent: a square matrix of finite numbers is allowed, got shape {matrix.shape}")
    return matrix
