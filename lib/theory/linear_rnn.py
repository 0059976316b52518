"""Shen (2019), App. A: covariances and generating function of a linear RNN, as printed and corrected.

The network is h_t = W x_{t-1} + U h_{t-1}, o_t = O h_{t-1}, x_t = o_t + e_t (Eq. 3-4). Unrolled, it gives

    o_t = O U^(t-1) h_0 + sum_{i=0}^{t-2} O U^(t-2-i) W x_i,

where Eq. 5, and all that follows from it, has U^t and U^(t-1-i): one factor U too many. Every function takes
`form`, "corrected" or "printed". Matrices may hold floats, fractions or SymPy expressions, and so will the
results: W (m, d), U (m, m), O (d, m), arrays of any NumPy type.

The generating function (Eq. 7 and 35) and its series: With A(z) = O (1 - U z)^-1 W z^2 and B(z) = O (1 - U z)^-1
Cov(h_0, x_0) z,

    Sigma(z) = [1 - A(z)]^-1 [B(z) + Cov(x_0)];

the paper has a factor U behind both resolvents.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import sympy
from numpy.typing import NDArray

Array = NDArray[Any]
Form = Literal["corrected", "printed"]


def extra_factors(form: str) -> int:
    """Factors U that a form has too many: 0 for "corrected", 1 for "printed"; ValueError for another form."""
    if form not in ("corrected", "printed"):
        raise ValueError(f"form: 'corrected' or 'printed' is allowed, got {form!r}")
    return int(form == "printed")


def input_weights(W: Array, U: Array, O: Array, length: int, form: Form = "corrected") -> list[Array]:  # noqa: E741
    """A_1 ... A_length, the weights of x_{t-n} in o_t: A_1 = 0, A_n = O U^(n-2) W (Eq. 23; printed U^(n-1)).

    Returns `length` arrays (d, d). Cost O(length m^2 (m + d)).
    """
    power = O @ U if extra_factors(form) else O
    weights = [0 * (O @ W)]
    while len(weights) < length:
        weights.append(power @ W)
        power = power @ U
    return weights[:length]


def initial_weights(U: Array, O: Array, length: int, form: Form = "corrected") -> list[Array]:  # noqa: E741
    """The weights of h_0 in o_1 ... o_length: O U^(n-1) (Eq. 5; printed U^n).

    Returns `length` arrays (d, m). Cost O(length m^2 d).
    """
    weights = [O @ U if extra_factors(form) else O]
    while len(weights) < length:
        weights.append(weights[-1] @ U)
    return weights[:length]


def cross_covariances(
    W: Array,
    U: Array,
    O: Array,  # noqa: E741
    hidden_covariance: Array,
    output_covariance: Array,
    length: int,
    form: Form = "corrected",
) -> list[Array]:
    """Cov(x_n, x_0) for n = 0 ... length by the recursion of Eq. 6, 15, 21, term by term.

    hidden_covariance: Cov(h_0, x_0) (m, d). output_covariance: Cov(x_0) (d, d). Returns length + 1 arrays
    (d, d). Cost O(length^2 d^3). Loses digits where U grows and the process does not.
    """
    inputs = input_weights(W, U, O, length, form)
    start = initial_weights(U, O, length, form)
    covariances = [output_covariance]
    for n in range(1, length + 1):
        total = start[n - 1] @ hidden_covariance
        for earlier in range(n):
            total = total + inputs[n - earlier - 1] @ covariances[earlier]
        covariances.append(total)
    return covariances


def unrolled(W: Array, U: Array, O: Array, length: int) -> tuple[Array, Array]:  # noqa: E741
    """The outputs as linear maps of what is independent: x_t = F_t (h_0, x_0) + E_t (e_1, ..., e_length).

    Eq. 3 and 4 step by step, with nothing solved: the definition that every formula is compared with.
    Returns F (length + 1, d, m + d) and E (length + 1, d, length d). Cost O(length^2 (m+d)^2 d).
    """
    m, d = W.shape
    identity = np.eye(m + d + length * d, dtype=int)
    hidden, output = identity[:m], identity[m : m + d]
    outputs = [output]
    for step in range(length):
        noise = identity[m + d + step * d : m + d + (step + 1) * d]
        hidden, output = W @ output + U @ hidden, O @ hidden + noise
        outputs.append(output)
    stacked = np.stack(outputs)
    return stacked[:, :, : m + d], stacked[:, :, m + d :]


def joint_covariance(
    W: Array,
    U: Array,
    O: Array,  # noqa: E741
    noise_variance: Any,
    initial: Array,
    length: int,
) -> Array:
    """Covariance of (h_0, x_0, x_1, ..., x_length) from the unrolled process, the Sigma of Eq. 18.

    initial: Cov(h_0, x_0) (m + d, m + d). Returns (m + (length + 1) d,) squared. Cost O(length^3 d^3).
    """
    m, d = W.shape
    start, noise = unrolled(W, U, O, length)
    rows = start.reshape(-1, m + d)
    first = np.concatenate([0 * rows[:1].repeat(m, axis=0), rows])
    first[:m, :m] = first[:m, :m] + np.eye(m, dtype=int)
    flat = noise.reshape(len(rows), -1)
    second = np.concatenate([0 * flat[:1].repeat(m, axis=0), flat])
    return np.asarray(first @ initial @ first.T + noise_variance * (second @ second.T))


def last_precision_row(
    W: Array,
    U: Array,
    O: Array,  # noqa: E741
    noise_variance: Any,
    length: int,
    form: Form = "corrected",
) -> Array:
    """The rows of x_length in the inverse of `joint_covariance`, Eq. 19.

    (-O U^(t-1), -O U^(t-2) W, ..., -O W, 0, 1) / noise_variance at t = length; printed with one U more in
    every term of h_0 and x_i. length >= 1. Returns (d, m + (length + 1) d). Cost O(length m^2 (m + d)).
    """
    d = W.shape[1]
    inputs = input_weights(W, U, O, length, form)
    blocks = [-initial_weights(U, O, length, form)[-1], *(-weight for weight in reversed(inputs))]
    one = 0 * (O @ W) + np.eye(d, dtype=int)
    return np.asarray(np.concatenate([*blocks, one], axis=1) / noise_variance)


def normaliser_dimension(m: int, d: int, length: int, form: Form = "corrected") -> int:
    """The power k of 2 pi under the root in Eq. 13, 18: (t + 1) d + m; printed (t + 2) d, right for m = d."""
    return (length + 2) * d if extra_factors(form) else (length + 1) * d + m


def mutual_information_by_determinant(
    first: NDArray[np.float64], second: NDArray[np.float64], cross: NDArray[np.float64]
) -> float:
    """-1/2 ln det(1 - S_xx^-1 S_xy S_yy^-1 S_yx) in nats, Eq. 8 and 41 word for word.

    first: Cov(x) (d, d). second: Cov(y) (p, p). cross: Cov(x, y) (d, p). Below 1e-15 nats nothing but
    rounding is left of it. Cost O(d^3).
    """
    explained = np.linalg.solve(first, cross) @ np.linalg.solve(second, cross.T)
    return float(-0.5 * np.linalg.slogdet(np.eye(len(first)) - explained)[1])


def half_trace(first: NDArray[np.float64], second: NDArray[np.float64], cross: NDArray[np.float64]) -> float:
    """1/2 tr(S_xx^-1 S_xy S_yy^-1 S_yx) in nats, the approximation of Eq. 8 and 41: a lower bound.

    Shapes as above. -ln(1 - r^2) >= r^2 for every canonical correlation r, so it never exceeds the
    information, and the relative error is about r^2 / 2. Cost O(d^3).
    """
    return float(0.5 * np.trace(np.linalg.solve(first, cross) @ np.linalg.solve(second, cross.T)))


def generating_function(
    W: Array,
    U: Array,
    O: Array,  # noqa: E741
    hidden_covariance: Array,
    output_covariance: Array,
    z: complex,
    form: Form = "corrected",
) -> NDArray[np.complex128]:
    """The closed form at a number z, float64: W (m, d), U (m, m), O (d, m). Returns (d, d), complex.

    Raises ValueError where 1 - U z or 1 - A(z) is singular; at the first it should not, because these
    singularities cancel: `LinearRNN.generating_function` takes the resolvent of [[U, W], [O, 0]] instead.
    Cost O(m^3 + d^3).
    """
    U = np.asarray(U)
    factor = U if extra_factors(form) else np.eye(len(U))
    try:
        resolvent = O @ np.linalg.inv(np.eye(len(U)) - z * U) @ factor
        feedback = np.eye(len(O)) - resolvent @ W * z**2
        solved = np.linalg.solve(feedback, resolvent @ hidden_covariance * z + output_covariance)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"z: no reciprocal eigenvalue of U and no pole is allowed, got {z!r}") from error
    return np.asarray(solved, dtype=np.complex128)


def symbolic_generating_function(
    W: sympy.Matrix,
    U: sympy.Matrix,
    O: sympy.Matrix,  # noqa: E741
    hidden_covariance: sympy.Matrix,
    output_covariance: sympy.Matrix,
    z: sympy.Symbol,
    form: Form = "corrected",
) -> sympy.Matrix:
    """The closed form as a matrix of rational functions of z, SymPy. Returns (d, d), each entry cancelled."""
    m, d = W.shape
    extra = U if extra_factors(form) else sympy.eye(m)
    system = sympy.eye(m) - U * z
    # by adjugate and determinant: pivots would only make the fractions larger
    resolvent = O * system.adjugate() * extra / system.det(method="berkowitz")
    feedback = (sympy.eye(d) - resolvent * W * z**2).applyfunc(sympy.cancel)
    right = resolvent * hidden_covariance * z + output_covariance
    return (feedback.adjugate() * right / feedback.det(method="berkowitz")).applyfunc(sympy.cancel)


def series(function: sympy.Matrix, z: sympy.Symbol, order: int) -> list[sympy.Matrix]:
    """Taylor coefficients of a matrix of rational functions at z = 0: order + 1 matrices, expanded.

    From numerator p and denominator q by c_n = (p_n - sum_{k>=1} q_k c_{n-k}) / q_0. Raises ValueError if
    there is a pole at 0. Cost O(order^2) products per entry.
    """
    rows, columns = function.shape
    entries = [_entry_series(function[i, j], z, order) for i in range(rows) for j in range(columns)]
    return [sympy.Matrix(rows, columns, [entry[n] for entry in entries]) for n in range(order + 1)]


def _entry_series(function: Any, z: sympy.Symbol, order: int) -> list[Any]:
    above, below = (sympy.Poly(part, z) for part in sympy.fraction(sympy.together(function)))
    if below.nth(0) == 0:
        raise ValueError(f"function: no pole at {z} = 0 is allowed, got {function}")
    coefficients: list[Any] = []
    for n in range(order + 1):
        known = sum((below.nth(k) * coefficients[n - k] for k in range(1, n + 1)), sympy.Integer(0))
        coefficients.append(sympy.expand((above.nth(n) - known) / below.nth(0)))
    return coefficients
