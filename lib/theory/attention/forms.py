"""Other forms of the gradient under uniform attention: word for word, without sums, and for a whole matrix.

See `lib.theory.attention.uniform` for the recursion. C_k stands for p_{0:k}(lambda).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_number, whole_steps


def plain_recursion(eigenvalue: Any, t: int, length: int) -> list[Any]:
    """p_{0:0} ... p_{0:length} by the recursion word for word, in the arithmetic of the eigenvalue.

    Fractions give fractions, SymPy symbols polynomials, mpmath numbers their precision; `Fraction(1, t)` is the
    weight. Raises ValueError for t < 1 or length < 0. Cost O(length) operations.
    """
    start, last = whole_number(t, "t", 1), whole_number(length, "length", 0)
    one = eigenvalue**0
    values = [one + one / start]
    total = values[0]
    for k in range(last):
        values.append((one + eigenvalue * total) / (start + k + 1) + eigenvalue * values[-1])
        total = total + values[-1]
    return values


def double_sum(eigenvalue: Any, t: int, length: int) -> list[Any]:
    """The same numbers with every sum done again: C_{k+1} = E_{k+1} + sum_j F_{k+1,j} C_j (Eq. 19), O(length^2)."""
    start, last = whole_number(t, "t", 1), whole_number(length, "length", 0)
    one = eigenvalue**0
    values = [one + one / start]
    for k in range(last):
        weight = one / (start + k + 1)
        terms = (eigenvalue * (weight + (1 if j == k else 0)) * values[j] for j in range(k + 1))
        values.append(sum(terms, start=weight))
    return values


def three_term(eigenvalue: Any, t: int, length: int) -> list[Any]:
    """The same numbers by (n+1) C_{n+1} = (n + lambda (n+2)) C_n - lambda n C_{n-1}, n = t + k. O(length).

    The sum is gone: subtracting two neighbouring lines of the recursion removes it.
    """
    start, last = whole_number(t, "t", 1), whole_number(length, "length", 0)
    one = eigenvalue**0
    values = [one + one / start]
    carried = one  # lambda C_{n-1}, with lambda C_{t-1} = 1
    for n in range(start, start + last):
        latest = values[-1]
        values.append(((n + eigenvalue * (n + 2)) * latest - n * carried) / (n + 1))
        carried = eigenvalue * latest
    return values


def bracket(eigenvalue: Any, t: int, length: int) -> list[Any]:
    """The same with the bracket w_k = 1 + lambda sum_{j<=k} C_j as a variable. O(length).

    C_k = w_{k-1} / (t+k) + lambda C_{k-1}, w_k = w_{k-1} + lambda C_k; `uniform_attention_gradient` is this form in
    double-double arithmetic.
    """
    start, last = whole_number(t, "t", 1), whole_number(length, "length", 0)
    w = carried = eigenvalue**0
    values = []
    for n in range(start, start + last + 1):
        values.append(w / n + carried)
        carried = eigenvalue * values[-1]
        w = w + carried
    return values


def jacobian(matrix: NDArray[np.float64], t: int, k: ArrayLike) -> NDArray[np.float64]:
    """ds_{t+k}/dh_t = p_{0:k}(V) for a real matrix V (n, n), normal or not, by the recursion in float64.

    k: whole, >= 0, one-dimensional -> (len(k), n, n). Raises ValueError for a matrix that is not square or finite.
    Relative rounding of the norm about 1e-13 at k = 1e5. Cost O(max k n^3).
    """
    start, steps = whole_number(t, "t", 1), np.atleast_1d(whole_steps(k))
    V = np.array(matrix, dtype=np.float64)
    if V.ndim != 2 or V.shape[0] != V.shape[1] or not np.isfinite(V).all():
        raise ValueError(f"matrix: finite entries and shape (n, n) are allowed, got shape {V.shape}")
    order = np.argsort(steps, kind="stable")
    result = np.empty((len(steps), *V.shape))
    result[order] = _matrix_recursion(V, start, steps[order])
    return result


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _matrix_recursion(V: NDArray[np.float64], t: int, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    n = len(V)
    results = np.empty((len(steps), n, n))
    w, d, p = np.eye(n), np.eye(n), np.empty((n, n))
    place, k = 0, 0
    while place < len(steps):
        p[:] = w / (t + k) + d
        while place < len(steps) and steps[place] == k:
            results[place] = p
            place += 1
        d[:] = V @ p
        w += d
        k += 1
    return results
