"""Other forms of the gradient under uniform attention: word for word, without sums, and for a whole matrix.

See `lib.theory.attention.uniform` for the recursion. C_k stands for p_{0:k}(lambda).


Kerg et al. (2020), Prop. 4 and Theorem 1: how uniform attention's gradient decays, printed and right.

With A = lambda / (1 - lambda) and T = t + k, for |lambda| < 1,

    p_{0:k}(lambda) = K_t T^(A-1) (1 + O(1/T)),   K_t = (1-lambda)^(A-2) Gamma(t)/Gamma(t+A) 2F1(A, t-1; t+A; lambda),

where the paper has c T^(lambda-1) + c'/T. Everything follows from the three-term recursion of d_n = lambda p_{0:n-t},

    (n+1) d_{n+1} = (n + lambda (n+2)) d_n - lambda n d_{n-1},

whose solution for t = 1 has the generating function (1-x)^(-A) (1 - lambda x)^(A-1).

Networks as they are trained take a mean, s = a h + b c with a = b = 1/2 in place of 1. Then

    C_0 = a + b/t,   C_{k+1} = b/(t+k+1) (1 + lambda sum_{j<=k} C_j) + a lambda C_k,

and A = b lambda / (1 - a lambda), for |a lambda| < 1. With a = b = 1/2 it grows for no eigenvalue of the unit disc.
"""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import mpmath  # type: ignore[import-untyped]
import numpy as np
import scipy.special
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lib.checks import plain_array, real_array, whole_lags, whole_number

Reading = Literal["max", "min"]
Shares = tuple[Any, Any]


def plain_recursion(eigenvalue: Any, t: int, length: int, shares: Shares = (1, 1)) -> list[Any]:
    """p_{0:0} ... p_{0:length} by the recursion word for word, in the arithmetic of the eigenvalue.

    Fractions give fractions, SymPy symbols polynomials, mpmath numbers their precision; `Fraction(1, t)` is the
    weight. shares: a and b of s = a h + b c. Raises ValueError for t < 1 or length < 0. Cost O(length) operations.
    """
    start, last, (a, b) = whole_number(t, "t", 1), whole_number(length, "length", 0), shares
    one = eigenvalue**0
    values = [a * one + b * one / start]
    total = values[0]
    for k in range(last):
        values.append(b * (one + eigenvalue * total) / (start + k + 1) + a * eigenvalue * values[-1])
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

    k: whole, >= 0, one or a row of them -> (len(k), n, n). Raises ValueError for a matrix that is complex, not square
    or not finite, for k of more dimensions, and where entries leave the range of float64. Relative rounding of the norm
    about 1e-13 at k = 1e5. Cost O(max k n^3).
    """
    start, steps = whole_number(t, "t", 1), np.atleast_1d(whole_lags(k, name="k"))
    V = np.ascontiguousarray(real_array(matrix, "matrix"))
    if V.ndim != 2 or V.shape[0] != V.shape[1] or not np.isfinite(V).all():
        raise ValueError(f"matrix: finite entries and shape (n, n) are allowed, got shape {V.shape}")
    if steps.ndim > 1:
        raise ValueError(f"k: a whole number or a row of them is allowed, got shape {steps.shape}")
    order = np.argsort(steps, kind="stable")
    result = np.empty((len(steps), *V.shape))
    result[order] = _matrix_recursion(V, start, steps[order])
    if not np.isfinite(result).all():
        raise ValueError(f"matrix, k: gradients below 1.8e308 are allowed, got one beyond at t = {start}")
    return result


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _matrix_recursion(V: NDArray[np.float64], t: int, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    n = len(V)
    results = np.empty((len(steps), n, n))
    w, d, p = np.eye(n), np.eye(n), np.empty((n, n))
    place, k = 0, 0
    while place < len(steps):
        for i in range(n):  # assigned as slices, they would take Numba two seconds more to compile
            for j in range(n):
                p[i, j] = w[i, j] / (t + k) + d[i, j]
        while place < len(steps) and steps[place] == k:
            for i in range(n):
                for j in range(n):
                    results[place, i, j] = p[i, j]
            place += 1
        np.dot(V, p, d)
        w += d
        k += 1
    return results


def rate(eigenvalue: ArrayLike, shares: Shares = (1, 1)) -> NDArray[np.complex128]:
    """A = b lambda / (1 - a lambda), of the shape of the eigenvalue. Raises ValueError for a lambda = 1."""
    array, (a, b) = _numbers(eigenvalue), shares
    if not np.isfinite(array).all() or bool(np.any(a * array == 1)):
        raise ValueError(
            f"eigenvalue: finite numbers other than {1 / a if a else 'none'} are allowed, got {eigenvalue!r}"
        )
    return np.asarray(b * array / (1 - a * array))


def exponent(eigenvalue: ArrayLike, shares: Shares = (1, 1)) -> Any:
    """Re(A) - 1, the power of T with which |p_{0:k}(lambda)| goes, for |a lambda| < 1. Same shape, no unit.

    With a = b = 1 above -3/2 in the whole disc; -1 on the circle |lambda - 1/2| = 1/2, 0 on |lambda - 3/4| = 1/4.
    shares: a and b of s = a h + b c.
    """
    _refuse_outside(np.multiply(shares[0], _numbers(eigenvalue)))
    return (rate(eigenvalue, shares).real - 1)[()]


def printed_exponent(eigenvalue: ArrayLike) -> Any:
    """max(-1, Re(lambda) - 1), the power of T by Eq. 248 and 263: the larger of c'/T and c T^(lambda-1)."""
    _refuse_outside(eigenvalue)
    return np.maximum(-1.0, np.real(np.asarray(eigenvalue)) - 1)[()]


def norm_exponent(eigenvalues: ArrayLike) -> float:
    """The power of T of ||ds_T/dh_t|| for normal V with these eigenvalues: the largest of their `exponent`s."""
    return float(np.max(exponent(eigenvalues)))


def printed_norm_exponent(eigenvalues: ArrayLike, reading: Reading = "max") -> float:
    """-eta of Theorem 1, Eq. 267: eta = max_i (or min_i) min(1, 1 - Re lambda_i).

    The text at hand does not tell which of the two is printed. "max" is what the proof needs, which bounds the norm
    by its smallest eigenvalue; "min" is the stronger statement. Raises ValueError for another reading.
    """
    if reading not in ("max", "min"):
        raise ValueError(f"reading: 'max' or 'min' is allowed, got {reading!r}")
    powers = np.asarray(printed_exponent(eigenvalues))
    return float(powers.min() if reading == "max" else powers.max())


def printed_rate_holds(eigenvalue: ArrayLike) -> Any:
    """Where |p| = Omega(T^-eta) with the printed eta = min(1, 1 - Re lambda): boolean, same shape.

    For x = Re(lambda), y = Im(lambda) that is |y| <= x sqrt((1-x)/(1+x)), x >= 0: the loop of a strophoid.
    """
    return np.greater_equal(exponent(eigenvalue), printed_exponent(eigenvalue))


def strophoid(count: int = 400) -> NDArray[np.complex128]:
    """`count` points of the boundary of `printed_rate_holds`, once around."""
    angle = np.linspace(-np.pi / 4, np.pi / 4, count)
    return np.asarray(np.exp(1j * angle) * np.cos(2 * angle) / np.cos(angle))


def amplitude(eigenvalue: complex, t: int, digits: int = 50) -> Any:
    """K_t(lambda) as an mpmath number with about `digits` digits. |lambda| < 1; t whole, >= 1.

    K_t is real and positive for real lambda. Raises ValueError outside of that.
    """
    start = whole_number(t, "t", 1)
    _refuse_all_but_one(eigenvalue)
    with mpmath.workdps(_digits(eigenvalue, digits)):
        point = mpmath.mpmathify(eigenvalue)
        A = point / (1 - point)
        return (1 - point) ** (A - 2) * _weight(point, A, start) / mpmath.gamma(1 + A)


def zeros_of_amplitude(t: int, points: int = 600, nodes: int = 800) -> float:
    """How many zeros K_t has in the disc |lambda| < 1, by the argument principle: a float near a whole number.

    It is proved to have none, for every t; this counts them without the proof. K_t is (1-lambda)^(A-2) / Gamma(1+A)
    times the integral over 0 < y < 1 of (t-1) y^(t-2) ((1-y)/(1-lambda y))^A. The first factors have no zeros; the
    integral is followed along the circle |lambda| = 1, A = -1/2 + ib, up to large |b|, where it tends to a positive
    number. t whole, >= 2 (K_1 has no zeros). Cost O(points nodes).
    """
    start = whole_number(t, "t", 2)
    u = scipy.special.expit(np.linspace(-30, 30, nodes))  # 1 - y; equal steps of the logit converge exponentially
    weights = u * (1 - u) ** (start - 1)
    b = np.concatenate([[0.0], np.geomspace(0.01, 10.0 * start**2 + 1000, points - 1)])[:, None]
    A = -0.5 + 1j * b
    turned = np.unwrap(np.angle(np.exp(A * np.log(u * (1 + A) / (1 + A * u))) @ weights))
    return float((turned[-1] - turned[0]) / np.pi)  # the lower half of the circle is the mirror image


def closed_form(eigenvalue: complex, t: int, k: int, digits: int = 50) -> Any:
    """p_{0:k}(lambda) exactly, as an mpmath number with about `digits` digits. |lambda| < 1; t >= 1, k >= 0 whole.

    p_{0:k} = [a u_n + (1 - a u_{t-1}) q_n / q_{t-1}] / lambda,  n = t + k,  a = K_t / K_1,
    u_n = Gamma(n+A) / (Gamma(A) n!) 2F1(-n, 1-A; 1-A-n; lambda),
    q_n = lambda^n n! / Gamma(n+1+A) 2F1(A, n+1; n+1+A; lambda).

    u_n goes like T^(A-1), q_n decays like lambda^n; for t = 1 the second term is zero. At lambda = 0 it is 1/(t+k),
    and 1 + 1/t for k = 0. Raises ValueError outside of that. Cost O((digits + |A|) / (1 - |lambda|)) products of
    numbers with digits + |A| decimals, A = lambda / (1 - lambda), whatever k.
    """
    start, steps = whole_number(t, "t", 1), whole_number(k, "k", 0)
    _refuse_all_but_one(eigenvalue)
    with mpmath.workdps(_digits(eigenvalue, digits)):
        point = mpmath.mpmathify(eigenvalue)
        if point == 0:
            return mpmath.mpf(1) / (start + steps) + (1 if steps == 0 else 0)
        A, n = point / (1 - point), start + steps
        share = _weight(point, A, start)
        value = share * _slow(point, A, n)
        if start > 1:
            rest = 1 - share * _slow(point, A, start - 1)
            value += rest * _fast(point, A, n) / _fast(point, A, start - 1)
        return value / point


def _weight(point: Any, A: Any, t: int) -> Any:
    """K_t / K_1 = Gamma(t) Gamma(1+A) / Gamma(t+A) 2F1(A, t-1; t+A; lambda)."""
    return mpmath.gammaprod([t, 1 + A], [t + A]) * _hypergeometric(A, t - 1, t + A, point)


def _slow(point: Any, A: Any, n: int) -> Any:
    return mpmath.rf(A, n) / mpmath.factorial(n) * _hypergeometric(1 - A, -n, 1 - A - n, point)


def _fast(point: Any, A: Any, n: int) -> Any:
    return point**n * mpmath.gammaprod([n + 1], [n + 1 + A]) * _hypergeometric(A, n + 1, n + 1 + A, point)


def _hypergeometric(a: Any, b: int, c: Any, point: Any) -> Any:
    """2F1(a, b; c; point) by its series: mpmath's own takes another route near the circle, and gives up for large b."""
    total = term = mpmath.mpf(1)
    j, smallest = 0, mpmath.eps
    while term != 0 and abs(term) > smallest * abs(total):
        term = term * (a + j) * (b + j) / ((c + j) * (j + 1)) * point
        total += term
        j += 1
    return total


def _digits(point: Any, digits: int) -> int:
    """Decimals to work with: the terms of the series can exceed its sum by about 2^|A|."""
    return digits + 15 + int(abs(point / (1 - point)))


def _refuse_outside(eigenvalue: Any) -> None:
    if not np.all(np.abs(_numbers(eigenvalue)) < 1):  # NaN fails too
        raise ValueError(f"eigenvalue: modulus below 1 is allowed, got {eigenvalue!r}")


def _refuse_all_but_one(eigenvalue: Any) -> None:
    if _numbers(eigenvalue).ndim:
        raise ValueError(f"eigenvalue: one number is allowed, got {eigenvalue!r}")
    _refuse_outside(eigenvalue)


def _numbers(eigenvalue: Any) -> NDArray[np.complex128]:
    array = plain_array(eigenvalue, "eigenvalue")
    if array.dtype.kind in "biufcO":  # O: fractions and the like
        with contextlib.suppress(TypeError, ValueError):
            return array.astype(np.complex128)
    raise ValueError(f"eigenvalue: real or complex numbers are allowed, got {eigenvalue!r}")
