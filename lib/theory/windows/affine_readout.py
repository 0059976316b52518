"""What linear outputs can make of given features: not every number, perhaps still every law of a language."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array


def separating_readout(features: ArrayLike, allowed: ArrayLike) -> NDArray[np.float64] | None:
    """Weights C with equal logits for all allowed words of a context and logits lower by 1 or more for all others.

    features: (N, F), phi_i of each context. allowed: booleans (N, K), at least one in each row. With such a C,
    softmax(scale C phi_i) tends to the uniform law on the allowed words as scale grows, so the n-gram model
    whose laws are uniform on these words is met within any epsilon. Words that are allowed in the same contexts share
    their row of C. Returns C (K, F), or None if there is none: then a linear program has no solution.
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
