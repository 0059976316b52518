"""How many inputs an SSM or an RNN sees: outputs, dependence on one old input, eigenvalues of a nilpotent matrix.

State space model (Def. 3.6 of Nandakumar, Qu, Mi and Liu 2024): h_t = A h_{t-1} + B x_t, y_t = C relu(h_t + b).
Recurrent network (Def. A.5):                                h_t = relu(A h_{t-1} + B x_t + b), y_t = C h_t.
A window of n means: y_t depends on x_{t-n+1}, ..., x_t only. Both start at h_0 = 0.


What linear outputs can make of given features: not every number, perhaps still every distribution of a language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from lib.checks import generator, real_number, whole_lags, whole_number

Array = NDArray[Any]


def ssm_outputs(A: Array, B: Array, b: Array, C: Array, inputs: Array) -> Array:
    """Outputs y_t = C relu(h_t + b) of the SSM h_t = A h_{t-1} + B x_t, h_0 = 0 (Def. 3.6).

    A (N, N), B (N, m), b (N,), C (p, N), inputs (..., T, m) -> (..., T, p). Any NumPy type, fractions as well; the
    arithmetic is that of the arrays. Raises ValueError for shapes that do not fit. Cost O(T N (N + m + p)) a row.
    """
    check_network(A, B, b, C, inputs)
    hidden = 0 * (inputs[..., 0, :] @ B.T)
    outputs = []
    for t in range(inputs.shape[-2]):
        hidden = hidden @ A.T + inputs[..., t, :] @ B.T
        outputs.append(relu(hidden + b) @ C.T)
    return np.stack(outputs, axis=-2)


def rnn_states(A: Array, B: Array, b: Array, inputs: Array) -> Array:
    """States h_t = relu(A h_{t-1} + B x_t + b) of the RNN, h_0 = 0 (Def. A.5).

    A (N, N), B (N, m), b (N,), inputs (..., T, m) -> (..., T, N). Types, errors and cost as `ssm_outputs`.
    """
    check_network(A, B, b, np.empty((1, len(A))), inputs)
    hidden = 0 * (inputs[..., 0, :] @ B.T)
    states = []
    for t in range(inputs.shape[-2]):
        hidden = relu(hidden @ A.T + inputs[..., t, :] @ B.T + b)
        states.append(hidden)
    return np.stack(states, axis=-2)


def rnn_outputs(A: Array, B: Array, b: Array, C: Array, inputs: Array) -> Array:
    """Outputs y_t = C h_t of the RNN of `rnn_states`, (..., T, p); C (p, N) (Def. A.5 with b_y = 0)."""
    check_network(A, B, b, C, inputs)
    return np.asarray(rnn_states(A, B, b, inputs) @ C.T)


def relu(values: Array) -> Array:
    """max(values, 0), entry by entry, of any NumPy type."""
    return np.maximum(values, 0)


def dependence(outputs: Callable[[Array], Array], inputs: Array, replacements: Array, lags: ArrayLike) -> Array:
    """How far the last output moves when the input `lag` steps before it is replaced: max |y_T - y'_T| at each lag.

    outputs: maps (samples, T, m) to (samples, T, p). inputs, replacements: (samples, T, m). lags: whole numbers,
    0 <= lag < T; 0 is the last input itself. Returns (len(lags),) of the outputs' type; an exact zero means that
    no bit of any sample's output changed. Raises ValueError otherwise. Cost len(lags) + 1 calls of `outputs`.
    """
    if inputs.ndim != 3 or inputs.shape != replacements.shape:
        raise ValueError(
            f"inputs, replacements: two arrays of one shape (samples, T, m) are allowed, "
            f"got {inputs.shape} and {replacements.shape}"
        )
    last = inputs.shape[1] - 1
    reference = outputs(inputs)[:, -1]
    moved = []
    for lag in np.atleast_1d(whole_lags(lags, below=last + 1)).tolist():
        changed = inputs.copy()
        changed[:, last - lag] = replacements[:, last - lag]
        moved.append(np.max(np.abs(outputs(changed)[:, -1] - reference)))
    return np.array(moved)


def nilpotent_shift(size: int) -> NDArray[np.float64]:
    """The shift S e_k = e_{k+1}, ones below the diagonal (size, size): S^size = 0 and S^(size-1) is not."""
    return np.eye(whole_number(size, "size", 1), k=-1)


def rotated_shift(size: int, seed: int | np.random.Generator) -> NDArray[np.float64]:
    """P S P^T in float64, S the nilpotent shift and P a random orthogonal matrix: nilpotent up to rounding only.

    size: whole number >= 1. Returns (size, size). Cost O(size^3).
    """
    shift = nilpotent_shift(size)
    orthogonal, _ = np.linalg.qr(generator(seed).standard_normal(shift.shape))
    return np.asarray(orthogonal @ shift @ orthogonal.T)


def eigenvalue_bound(size: int, perturbation: float) -> float:
    """How far from zero the eigenvalues of P S P^T + E can be, |E| <= perturbation in the spectral norm, P orthogonal.

    |lambda| = r with r^n = perturbation * (1 + r + ... + r^(n-1)), n = size: an eigenvalue of S + E makes
    (lambda - S)^-1 at least 1 / |E| large, and that inverse is sum_k S^k / lambda^(k+1). About
    perturbation^(1/n), so that rounding (1e-16) moves the zeros of a shift of 32 by a third.
    perturbation: finite and >= 0. Raises ValueError otherwise. Bisection, O(n) per step.
    """
    n, perturbation = whole_number(size, "size", 1), real_number(perturbation, "perturbation")
    if perturbation < 0.0:
        raise ValueError(f"perturbation: a finite number >= 0 is allowed, got {perturbation!r}")
    low, high = 0.0, 1.0 + perturbation  # there r^n > perturbation * (r^n - 1) / (r - 1) = r^n - 1
    powers = np.arange(n)
    for _ in range(200):
        middle = 0.5 * (low + high)
        with np.errstate(over="ignore"):  # divided by r^n: infinite where r is small, and never for large perturbations
            too_small = middle > 0.0 and perturbation * np.sum(middle ** (powers - float(n))) >= 1.0
        low, high = (middle, high) if too_small or middle == 0.0 else (low, middle)
    return float(high) if perturbation else 0.0


def check_network(A: Array, B: Array, b: Array, C: Array, inputs: Array) -> None:
    """ValueError unless A (N, N), B (N, m), b (N,), C (p, N) and inputs (..., T, m), T >= 1, fit together."""
    shapes = {"A": np.shape(A), "B": np.shape(B), "b": np.shape(b), "C": np.shape(C), "inputs": np.shape(inputs)}
    size = shapes["A"][0] if shapes["A"] else 0
    good = shapes["A"] == (size, size) and shapes["b"] == (size,)
    good = good and len(shapes["B"]) == 2 and shapes["B"][0] == size
    good = good and len(shapes["C"]) == 2 and shapes["C"][1] == size
    good = good and len(shapes["inputs"]) >= 2 and shapes["inputs"][-1] == shapes["B"][1] and shapes["inputs"][-2] >= 1
    if not good or size == 0:
        raise ValueError(
            "network: A (N, N), B (N, m), b (N,), C (p, N) and inputs (..., T, m) with T >= 1 are allowed, got "
            + ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        )


def separating_readout(features: ArrayLike, allowed: ArrayLike) -> NDArray[np.float64] | None:
    """Weights C with equal logits for all allowed words of a context and logits lower by 1 or more for all others.

    features: (N, F), phi_i of each context. allowed: booleans (N, K), at least one in each row. With such a C,
    softmax(scale C phi_i) tends to the uniform distribution on the allowed words as scale grows, so the n-gram model
    whose distributions are uniform on these words is met within any epsilon. Words that are allowed in the same
    contexts share their row of C. Returns C (K, F), or None if there is none: then a linear program has no solution.
    Raises ValueError for other shapes or numbers that are not finite. Cost: a program of F times the number of
    different columns of `allowed` unknowns.
    """
    phi, table = np.asarray(features, dtype=np.float64), np.asarray(allowed, dtype=bool)
    if phi.ndim != 2 or table.ndim != 2 or len(phi) != len(table) or phi.size == 0 or not np.all(table.any(axis=1)):
        raise ValueError(
            "features (N, F) and allowed (N, K) with an allowed word in each row are allowed, got shapes "
            f"{phi.shape} and {table.shape}"
        )
    if not np.all(np.isfinite(phi)):
        raise ValueError("features: finite numbers are allowed, got NaN or infinity")
    scale = np.abs(phi).max(axis=0)
    scale[scale == 0.0] = 1.0
    phi = phi / scale
    words, which = np.unique(table, axis=1, return_inverse=True)
    first = np.argmax(words, axis=1)
    forbidden, equal = ~words, words.copy()
    equal[np.arange(len(words)), first] = False
    unknowns = words.shape[1] * phi.shape[1]
    program = {
        "A_ub": _differences(phi, first, forbidden, unknowns),
        "b_ub": -np.ones(int(forbidden.sum())),
        "A_eq": _differences(phi, first, equal, unknowns),
        "b_eq": np.zeros(int(equal.sum())),
        "bounds": (None, None),
    }
    for method in ("highs-ds", "highs-ipm"):  # where rounding leaves the simplex method undecided, the other decides
        solved = linprog(np.zeros(unknowns), method=method, **program)
        if solved.status in (0, 2):
            break
    else:
        raise ValueError(f"features: a program that can be decided is allowed, this one ends with: {solved.message}")
    if solved.status == 2:
        return None
    weights: NDArray[np.float64] = solved.x.reshape(words.shape[1], -1) / scale
    return np.asarray(weights[which.ravel()])


def _differences(
    phi: NDArray[np.float64], first: NDArray[np.intp], chosen: NDArray[np.bool_], unknowns: int
) -> coo_array:
    """One row phi_i . (c_word - c_first) for every chosen pair of a context and a word."""
    contexts, words = np.nonzero(chosen)
    width = phi.shape[1]
    values = phi[contexts].ravel()
    rows = np.repeat(np.arange(len(contexts)), width)
    columns = [(index[:, None] * width + np.arange(width)).ravel() for index in (words, first[contexts])]
    places = (np.tile(rows, 2), np.concatenate(columns))
    return coo_array((np.concatenate([values, -values]), places), shape=(len(contexts), unknowns))
