"""Shen (2019), Eq. 7 and 35: the generating function of a linear RNN, as printed and corrected, and its series.

With A(z) = O (1 - U z)^-1 W z^2 and B(z) = O (1 - U z)^-1 Cov(h_0, x_0) z,

    Sigma(z) = [1 - A(z)]^-1 [B(z) + Cov(x_0)];

the paper has a factor U behind both resolvents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from lib.theory.linear_rnn import Array, Form, extra_factors


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
    there is a pole at 0. Cost O(order^2) products an entry.
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
