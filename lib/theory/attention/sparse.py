"""Gradients through a linear recurrence whose states attend, with equal weights, to a few chosen earlier states.

The network is s_tau = h_tau + c_tau, c_tau the mean of h_i over the kappa_tau attended times i in A_tau, and
h_{tau+1} = V s_tau + inputs (Kerg et al. 2020, supplement, App. A.4, indexed as in note 28 of the errata). Then
ds_{t+k}/dh_t is a polynomial p_{0:k} in V. An empty A_tau means c_tau = 0: no attention at that time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lib.checks import plain_array, whole_lags, whole_number
from lib.theory.attention.uniform import unscaled

Attended = Sequence[Any]
Times = NDArray[np.int64]
SMALLEST = float(np.finfo(np.float64).tiny)  # below, digits are lost
LOST, ZERO = -1100, -(2**62)  # powers of two: nothing is left of a float there; and that of a zero


def sparse_attention_gradient(eigenvalue: complex, attended: Attended, t: int, k: ArrayLike) -> Any:
    """p_{0:k}(lambda), the eigenvalue of ds_{t+k}/dh_t at the eigenvalue lambda of V, under sparse attention.

    With D_i = dh_{t+i}/dh_t (D_0 = 1, D_i = lambda p_{0:i-1}), A = A_{t+k} and kappa its size,

        p_{0:k} = D_k + (1 / kappa) sum_{i : t+i in A} D_i          (Eq. 278-283, note 28).

    eigenvalue: real or complex. attended: at least t + k sequences of whole numbers; attended[tau - 1] holds the
    1-based times, all in 1 ... tau and different, that s_tau attends to with weight 1 / kappa_tau; it may be empty,
    which means c_tau = 0. k: whole number >= 0 or array of them. Returns a float (complex for a complex eigenvalue),
    or an array in the shape of k. For lambda >= 0 nothing cancels. Growth beyond 1e308 becomes inf with the right sign
    (complex: in each part), and what a gradient beyond the floats comes back to is right again.
    Raises ValueError for anything else, naming the time. Cost O(k + sum of kappa_tau), for all k up to the largest.
    """
    value = _finite_number(eigenvalue)
    whole = whole_lags(k, name="k")
    last = int(whole.max(initial=0))
    offsets, times = attention_table(attended, t, last)
    gradients = np.empty(last + 1, dtype=np.complex128 if isinstance(value, complex) else np.float64)
    _run(value, offsets, times, int(t), gradients)
    with np.errstate(over="ignore"):
        size = np.abs(gradients)
    if not np.all((size >= SMALLEST) & np.isfinite(size)):  # once more, with a power of two beside every number
        exponents = np.empty(last + 1, dtype=np.int64)
        _run_scaled(value, offsets, times, int(t), gradients, exponents)
        gradients = unscaled(gradients, exponents)
    return np.asarray(gradients[whole])[()] if np.ndim(k) else gradients[int(whole)].item()


def sparse_attention_jacobian(recurrent: ArrayLike, attended: Attended, t: int, k: int) -> NDArray[Any]:
    """ds_{t+j}/dh_t = p_{0:j}(V) for j = 0 ... k and any square matrix V, normal or not.

    recurrent: V (n, n), real or complex. attended and t: as in `sparse_attention_gradient`. Returns (k + 1, n, n).
    Raises ValueError, of a matrix that is not square or not finite, and of gradients that leave the range of float64
    too. Cost O(k n^3 + n^2 sum of kappa_tau).
    """
    matrix = np.asarray(recurrent)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind not in "iufc":
        raise ValueError(f"recurrent: a square matrix of numbers is allowed, got shape {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise ValueError("recurrent: finite numbers are allowed, got NaN or infinity")
    offsets, times = attention_table(attended, t, whole_number(k, "k", 0))
    dtype = np.complex128 if matrix.dtype.kind == "c" else np.float64
    states = np.empty((k + 1, *matrix.shape), dtype=dtype)  # dh_{t+j}/dh_t
    jacobian = np.empty_like(states)
    states[0] = np.eye(len(matrix))
    for j in range(k + 1):
        row = times[offsets[t + j - 1] : offsets[t + j]]
        inside = row[row >= t] - t
        jacobian[j] = states[j]
        if inside.size:
            jacobian[j] += states[inside].sum(axis=0) / row.size
        if j < k:
            with np.errstate(over="ignore", invalid="ignore"):
                states[j + 1] = matrix @ jacobian[j]
    if not np.all(np.isfinite(jacobian)):
        raise ValueError(f"recurrent, k: gradients below 1.8e308 are allowed, got one beyond within {k} steps")
    return jacobian


def gradient_recursion(eigenvalue: Any, attended: Attended, t: int, k: int) -> list[Any]:
    """p_{0:0}(lambda) ... p_{0:k}(lambda) for a number of any exact type: Fraction, SymPy expression, int.

    The same recursion as `sparse_attention_gradient`, word for word and without rounding. Raises ValueError for
    attended times that are not allowed. Cost O(k + sum of kappa_tau) operations of that type.
    """
    offsets, times = attention_table(attended, t, whole_number(k, "k", 0))
    states: list[Any] = [Fraction(1)]
    gradients: list[Any] = []
    for j in range(k + 1):
        row = times[offsets[t + j - 1] : offsets[t + j]].tolist()
        total = sum((states[i - t] for i in row if i >= t), start=Fraction(0))
        gradients.append(states[j] + total * Fraction(1, max(len(row), 1)))
        states.append(eigenvalue * gradients[j])
    return gradients


def gradient_polynomial(attended: Attended, t: int, k: int) -> list[Fraction]:
    """The coefficients chi(0) ... chi(k) of p_{0:k}, exact: chi(s) is the weight of all paths with s factors V.

    No coefficient is negative. Raises ValueError for attended times that are not allowed. Cost O(k sum of kappa_tau).
    """
    offsets, times = attention_table(attended, t, whole_number(k, "k", 0))
    states = np.full((k + 1, k + 1), Fraction(0), dtype=object)
    states[0, 0] = Fraction(1)
    for j in range(k + 1):
        row = times[offsets[t + j - 1] : offsets[t + j]]
        inside = row[row >= t] - t
        gradient = states[j].copy()
        if inside.size:
            gradient = gradient + states[inside].sum(axis=0) * Fraction(1, int(row.size))
        if j < k:
            states[j + 1, 1:] = gradient[:-1]
    return list(gradient)


def path_sum(attended: Attended, t: int, k: int) -> list[Fraction]:
    """The same coefficients by enumeration of all 2^k choices 0 <= i_1 < ... < i_s < k (Eq. 279-280).

    A choice says at which times t + i_1, ..., t + i_s the gradient goes through V. Between two of them, from h_{t+a} to
    s_{t+b}, the factor is [t + a in A_{t+b}] / kappa_{t+b} + [a = b]. Raises ValueError for k > 20 and for attended
    times that are not allowed.
    """
    if whole_number(k, "k", 0) > 20:
        raise ValueError(f"k: at most 20 is allowed for an enumeration of 2^k paths, got {k}")
    offsets, times = attention_table(attended, t, k)
    rows = [times[offsets[t + j - 1] : offsets[t + j]].tolist() for j in range(k + 1)]

    def hop(a: int, b: int) -> Fraction:
        return Fraction(int(t + a in rows[b]), max(len(rows[b]), 1)) + int(a == b)

    coefficients = []
    for s in range(k + 1):
        total = Fraction(0)
        for chosen in combinations(range(k), s):
            product = Fraction(1)
            for a, b in zip((0, *(i + 1 for i in chosen)), (*chosen, k), strict=True):
                product *= hop(a, b)
            total += product
        coefficients.append(total)
    return coefficients


def window_growth_rate(eigenvalue: complex, width: int, others: int = 0) -> float:
    """|x| of the fastest mode x^k of p_{0:k}(lambda) when every state attends to the last `width` states.

    x is the root of largest modulus of x^w = lambda [x^(w-1) + (1 / kappa) (x^(w-1) + ... + x + 1)], w the width and
    kappa = w + others: `others` further attended states lie before the window and add only a constant source. For
    lambda > 0 that root exceeds 1 exactly where lambda > kappa / (kappa + w), which is 1/2 for a window alone.
    Raises ValueError unless width >= 1 and others >= 0. Cost O(width^3).
    """
    value = _finite_number(eigenvalue)
    w = whole_number(width, "width", 1)
    kappa = w + whole_number(others, "others", 0)
    coefficients = np.full(w + 1, -value / kappa)
    coefficients[0] = 1.0
    coefficients[1] -= value
    return float(np.abs(np.roots(coefficients)).max(initial=0.0))


def attention_table(attended: Attended, t: int, k: int) -> tuple[Times, Times]:
    """(offsets, times): times[offsets[tau - 1]:offsets[tau]] are the times that s_tau attends to, ascending.

    Raises ValueError, naming tau, unless t >= 1, attended reaches to t + k and every attended[tau - 1] holds different
    whole numbers from 1 to tau (or none). Cost O(length + n log n) for n attended times.
    """
    first = whole_number(t, "t", 1)
    try:
        rows = list(attended)
        counts = [len(row) for row in rows]
    except TypeError as error:
        raise ValueError(f"attended: a sequence of sequences of times is allowed, got {type(attended)}") from error
    if len(counts) < first + k:
        raise ValueError(f"attended: times up to t + k = {first + k} are needed, got {len(counts)}")
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    given = list(chain.from_iterable(rows))
    if any(kind is not int and not issubclass(kind, np.integer) for kind in set(map(type, given))):
        wrong = [time for time in given if not _is_whole(time)]  # also a truth value among numbers, and a nested row
        if wrong:
            raise ValueError(f"attended: rows of whole numbers are allowed, got {wrong[0]!r} of {type(wrong[0])}")
        given = list(map(operator.index, given))
    flat = np.array(given) if given else np.empty(0, dtype=np.int64)
    if flat.dtype.kind not in "iu":
        raise ValueError(f"attended: rows of whole numbers below 2^63 are allowed, got {max(given, key=abs)}")
    owner = np.repeat(np.arange(1, len(counts) + 1), counts)
    outside = (flat < 1) | (flat > owner)
    if outside.any():
        tau, time = owner[outside][0], flat[outside][0]
        raise ValueError(f"attended[{tau - 1}]: s_{tau} may attend to the times 1 .. {tau}, got {time}")
    order = np.lexsort((flat, owner))
    flat = flat[order].astype(np.int64)
    twice = (flat[1:] == flat[:-1]) & (owner[1:] == owner[:-1])
    if twice.any():
        tau, time = owner[1:][twice][0], flat[1:][twice][0]
        raise ValueError(f"attended[{tau - 1}]: different times are allowed, got {time} twice")
    return offsets, flat


def _is_whole(item: Any) -> bool:
    try:
        whole_number(item, "time", 0)
    except ValueError:
        return False
    return True


def _finite_number(eigenvalue: complex) -> float | complex:
    value: float | complex
    try:
        plain = plain_array(eigenvalue, "eigenvalue")
        if plain.ndim or plain.dtype.kind not in "iufcO":
            raise TypeError("no number")
        value = complex(plain) if np.iscomplexobj(plain) else float(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"eigenvalue: a finite real or complex number is allowed, got {eigenvalue!r}") from error
    if not np.isfinite(value):
        raise ValueError(f"eigenvalue: a finite real or complex number is allowed, got {eigenvalue!r}")
    return value


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _run(eigenvalue: Any, offsets: Any, times: Any, t: Any, gradients: Any) -> None:
    states = np.empty_like(gradients)  # dh_{t+j}/dh_t
    states[0] = 1.0
    for j in range(gradients.size):
        total = eigenvalue * 0.0
        start, end = offsets[t + j - 1], offsets[t + j]
        for place in range(start, end):
            if times[place] >= t:
                total += states[times[place] - t]
        gradients[j] = states[j] + total / max(end - start, 1)
        if j + 1 < gradients.size:
            states[j + 1] = eigenvalue * gradients[j]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _normal(number: Any) -> Any:
    """(part, exponent) with number = part 2^exponent, its larger component from 1/2 to 1; (0, 0) for 0."""
    exponent = math.frexp(max(abs(number.real), abs(number.imag)))[1]
    half = exponent // 2  # in two steps: 2^-exponent itself may be beyond the floats
    return number * math.ldexp(1.0, -half) * math.ldexp(1.0, half - exponent), exponent


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _run_scaled(eigenvalue: Any, offsets: Any, times: Any, t: Any, gradients: Any, exponents: Any) -> None:
    """The same with gradients[j] 2^exponents[j]; every sum is formed at the exponent of its largest term."""
    factor, power = _normal(eigenvalue)
    states, powers = np.empty_like(gradients), np.empty_like(exponents)  # dh_{t+j}/dh_t = states[j] 2^powers[j]
    states[0], powers[0] = 1.0, 0
    for j in range(gradients.size):
        start, end = offsets[t + j - 1], offsets[t + j]
        top = powers[j]
        for place in range(start, end):
            if times[place] >= t:
                top = max(top, powers[times[place] - t])
        total = eigenvalue * 0.0
        for place in range(start, end):
            if times[place] >= t:
                i = times[place] - t
                total += states[i] * math.ldexp(1.0, max(powers[i] - top, LOST))
        own = states[j] * math.ldexp(1.0, max(powers[j] - top, LOST))
        gradients[j], exponents[j] = _normal(own + total / max(end - start, 1))
        exponents[j] += top
        if j + 1 < gradients.size:
            states[j + 1], powers[j + 1] = _normal(factor * gradients[j])
            powers[j + 1] = ZERO if states[j + 1] == 0 else powers[j + 1] + exponents[j] + power
