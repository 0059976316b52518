"""Patterns of sparse attention, and the shortest way of a gradient through them (Kerg et al. 2020, App. A.4).

Every pattern is a list `attended` with attended[tau - 1] the 1-based times, ascending, that s_tau attends to.


The baseline without attention: h_{t+1} = phi(V h_t + b_t), whose gradient is a product of Jacobians.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from lib.checks import generator, real_array, whole_lags, whole_number
from lib.theory.attention.sparse import Attended, attention_table

Pattern = list[list[int]]
Depths = NDArray[np.int64]


def no_attention(length: int) -> Pattern:
    """Nothing is attended to: the plain recurrence, p_{0:k} = lambda^k."""
    return [[] for _ in range(whole_number(length, "length", 1))]


def full_attention(length: int) -> Pattern:
    """Every state attends to all states up to itself. Memory O(length^2)."""
    return [list(range(1, tau + 1)) for tau in range(1, whole_number(length, "length", 1) + 1)]


def window(length: int, width: int, stride: int = 1) -> Pattern:
    """tau, tau - stride, tau - 2 stride, ...: `width` times, as far as they exist. A chain for width = 1."""
    back = whole_number(stride, "stride", 1) * np.arange(whole_number(width, "width", 1))[::-1]
    return [[tau - b for b in back.tolist() if b < tau] for tau in range(1, whole_number(length, "length", 1) + 1)]


def hubs(length: int, times: Iterable[int], width: int = 0) -> Pattern:
    """The relevant states at these times, once they are there, and the last `width` states: relevancy screening."""
    if not isinstance(times, Iterable):
        raise ValueError(f"times: a sequence of times is allowed, got {times!r}")
    relevant = sorted({whole_number(time, "times", 1) for time in times})
    recent = whole_number(width, "width", 0)
    return [
        sorted({*(time for time in relevant if time <= tau), *range(max(1, tau - recent + 1), tau + 1)})
        for tau in range(1, whole_number(length, "length", 1) + 1)
    ]


def dyadic_tree(length: int) -> Pattern:
    """tau - 2^j + 1 for every 2^j that divides tau: a tree over the sequence, two attended states on average.

    From s_tau one hop and one recurrent step lead back 2^j times. Every interval of n whole numbers is made of at most
    2 log2(1 + n/2) such blocks, so h_t reaches every later s_T with that many recurrent steps, n = T - t.
    """
    powers = [
        [2**j for j in range((tau & -tau).bit_length())] for tau in range(1, whole_number(length, "length", 1) + 1)
    ]
    return [[tau - power + 1 for power in reversed(row)] for tau, row in enumerate(powers, start=1)]


def random_sparse(length: int, kappa: int, seed: int | np.random.Generator) -> Pattern:
    """min(kappa, tau) different times from 1 ... tau, all choices equally likely, drawn anew for every tau."""
    draw, size = generator(seed), whole_number(kappa, "kappa", 1)
    return [
        sorted((draw.choice(tau, min(size, tau), replace=False) + 1).tolist())
        for tau in range(1, whole_number(length, "length", 1) + 1)
    ]


def relay(length: int, first: int, gap: int, hops: int, kappa: int = 1) -> Pattern:
    """Every `gap` times, s attends to the relay before it; all states after the last relay attend to that one.

    h_first is read at first + gap, whose successor is read at first + 2 gap, and so on: s' = hops recurrent steps where
    gap is long. The other kappa - 1 attended times lie before `first`, which has to be at least kappa.
    """
    others = list(range(1, whole_number(kappa, "kappa", 1)))
    read, last = (
        whole_number(first, "first", kappa),
        first + whole_number(hops, "hops", 0) * whole_number(gap, "gap", 2),
    )
    attended = no_attention(length)
    for tau in range(first + 1, length + 1):
        if tau > last or (tau - first) % gap == 0:
            attended[tau - 1] = [*others, read]
            read = tau + 1 if tau <= last else read
    return attended


def largest_attention(attended: Attended) -> int:
    """kappa: the largest number of states that one state attends to, at least 1."""
    return max(1, max((len(row) for row in attended), default=1))


def dependency_depth(attended: Attended, t: int, k: ArrayLike, attention_only: bool = False) -> Any:
    """Smallest number s' of recurrent steps V on a path from h_t to s_{t+k}.

    A path alternates: from h_i to some s_tau by attention (i in A_tau), or directly for tau = i, since s = h + c; then
    from s_tau to h_{tau+1} through V. With s' recurrent steps there are s' + 1 hops, each with a weight of at least
    1 / kappa. attention_only: direct hops do not count, and -1 says that there is no path. k: whole number or array.
    Returns an int or an array in the shape of k. Raises ValueError as `sparse_attention_gradient`.
    Cost O(k + sum of kappa_tau). Source: Theorem 2, Eq. 287, where a direct hop is the second term of a factor.
    """
    array = whole_lags(k, name="k")
    depths, _ = _forward(attended, t, int(array.max(initial=0)), attention_only)
    return depths[array] if array.ndim else int(depths[int(array)])


def shortest_path(attended: Attended, t: int, k: int, attention_only: bool = False) -> list[tuple[int, int]]:
    """One path with as few recurrent steps as possible: hops (i, tau) from h_i to s_tau, in order of time.

    Successive hops (i, tau), (i', tau') have i' = tau + 1, the recurrent step. An empty list if there is no path.
    Arguments, ValueErrors and cost as `dependency_depth`.
    """
    depths, sources = _forward(attended, t, whole_number(k, "k", 0), attention_only)
    if depths[k] < 0:
        return []
    hops = []
    tau = t + k
    while True:
        i = int(sources[tau - t])
        hops.append((i, tau))
        if i == t:
            return hops[::-1]
        tau = i - 1


def depths_before(attended: Attended, time: int, attention_only: bool = False) -> Depths:
    """Smallest number of recurrent steps from each of h_1 ... h_time to s_time, -1 where there is no path.

    Returns (time,). Raises ValueError as `sparse_attention_gradient`. Cost O(time + sum of kappa_tau).
    """
    offsets, times = attention_table(attended, 1, whole_number(time, "time", 1) - 1)
    far = time + 1  # more than any path has
    depths = np.full(time + 2, far, dtype=np.int64)  # from h_i, 1-based
    reached = 0  # recurrent steps from s_tau on
    for tau in range(time, 0, -1):
        if tau < time:
            reached = min(depths[tau + 1] + 1, far)
        row = times[offsets[tau - 1] : offsets[tau]]
        depths[row] = np.minimum(depths[row], reached)
        if not attention_only:
            depths[tau] = min(depths[tau], reached)
    return np.where(depths[1:-1] >= far, -1, depths[1:-1])


def path_bound(eigenvalue: Any, kappa: Any, depth: Any) -> Any:
    """lambda^s' kappa^-(s'+1): what one path with s' recurrent steps adds at least to p_{0:k}(lambda), lambda > 0.

    Numbers of any type (exact for a Fraction) or arrays. Source: Theorem 2 with the factor that Eq. 292 hides.
    """
    return (eigenvalue / kappa) ** depth / kappa


def most_within(kappa: int, depth: int) -> int:
    """The most earlier states that can have a path with at most `depth` recurrent steps to one state.

    Going back, every hop chooses among kappa attended states and the state itself, so that there are at most
    sum_{s=0}^{depth} (kappa + 1)^(s+1) paths. Exact integer.
    """
    base = whole_number(kappa, "kappa", 1) + 1
    return sum(base ** (s + 1) for s in range(whole_number(depth, "depth", 0) + 1))


def _forward(attended: Attended, t: int, k: int, attention_only: bool) -> tuple[Depths, Depths]:
    """Depth of s_{t+j}, j = 0 ... k, and the time of the h from which the last hop comes; -1 where there is none."""
    offsets, times = attention_table(attended, t, k)
    far = k + 2
    hidden = np.full(k + 2, far, dtype=np.int64)  # steps to h_{t+j}
    hidden[0] = 0
    depths = np.full(k + 1, far, dtype=np.int64)
    sources = np.full(k + 1, -1, dtype=np.int64)
    for j in range(k + 1):
        row = times[offsets[t + j - 1] : offsets[t + j]]
        inside = row[row >= t] - t
        if inside.size:
            best = int(inside[np.argmin(hidden[inside])])
            depths[j], sources[j] = hidden[best], t + best
        if not attention_only and hidden[j] < depths[j]:
            depths[j], sources[j] = hidden[j], t + j
        hidden[j + 1] = min(depths[j] + 1, far)
    return np.where(depths >= far, -1, depths), np.where(depths >= far, -1, sources)


def power_norms(recurrent: ArrayLike, k: int) -> NDArray[np.float64]:
    """Spectral norms of V^0 ... V^k: the gradient dh_{t+k}/dh_t of a linear recurrence.

    recurrent: V (n, n), real. Powers are rescaled, so that only the norm itself can underflow, or be infinite.
    Returns (k + 1,). Raises ValueError for a matrix that is complex, empty, not square or not finite. Cost O(k n^3).
    """
    matrix = _square(recurrent)
    steps = np.broadcast_to(matrix, (whole_number(k, "k", 0), *matrix.shape))
    with np.errstate(over="ignore"):
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

    recurrent: V (n, n). drive: b_t (k, n). start: h_0 (n,). Returns (k, n, n). Raises ValueError for other shapes
    and for numbers that are not finite. Cost O(k n^2).
    """
    matrix, inputs, h = _square(recurrent), np.asarray(drive, dtype=np.float64), np.asarray(start, dtype=np.float64)
    n = len(matrix)
    if inputs.ndim != 2 or inputs.shape[1] != n or h.shape != (n,):
        raise ValueError(f"drive (k, {n}) and start ({n},) are allowed, got shapes {inputs.shape} and {h.shape}")
    if not (np.all(np.isfinite(inputs)) and np.all(np.isfinite(h))):
        raise ValueError("drive and start: finite numbers are allowed, got NaN or infinity")
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
    matrix = real_array(recurrent, "recurrent")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.all(np.isfinite(matrix)):
        raise ValueError(f"recurrent: a square matrix of finite numbers is allowed, got shape {matrix.shape}")
    return matrix
