"""How far counting is off on average: the bias of the digamma estimators for a known law, in closed form.

Under Poisson sampling, n ~ Poisson(N p) independently in every cell, the two Grassberger forms have exact means,

    E[n psi(n)] = lambda (ln lambda + E1(lambda)),      E[n G(n)] = lambda (ln lambda + E1(2 lambda)),

with the exponential integral E1. So the whole bias of an entropy is one sum over cells. A fixed number of draws
instead of a Poisson number adds about 1/(2N).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import exp1

from lib.checks import whole_number

Floats = npt.NDArray[np.float64]
SHARPNESS = {"grassberger2003": 1.0, "grassberger2008": 2.0}  # k in E1(k lambda)
_CHUNK = 1 << 22  # cells whose E1 is in memory at a time


def poisson_entropy_bias(
    probabilities: npt.ArrayLike,
    samples: int,
    estimator: str = "grassberger2008",
    copies: npt.ArrayLike | None = None,
) -> float:
    """E[H] - H of an entropy estimated from about `samples` independent draws, in nats: - sum_i p_i E1(k N p_i) <= 0.

    k = 1 for "grassberger2003", 2 for "grassberger2008" (Grassberger 2003, 2008).

    probabilities: >= 0, any shape; copies: how many cells have each of them (default 1), so that sum copies p = 1.
    ValueError for other values, samples < 1, and other estimators, which have no closed form. O(probabilities).
    """
    law, number = _law(probabilities, copies)
    rate = _sharpness(estimator) * whole_number(samples, "samples", 1)
    seen = law > 0
    return -float((number[seen] * law[seen]) @ exp1(rate * law[seen]))


def independence_bias(
    first: npt.ArrayLike, second: npt.ArrayLike, samples: int, estimator: str = "grassberger2008"
) -> float:
    """Mutual information that counting finds, on average, between symbols that are independent, in nats.

    B = sum_ij p_i q_j E1(k N p_i q_j) - sum_i p_i E1(k N p_i) - sum_j q_j E1(k N q_j),

    k as in `poisson_entropy_bias`. It needs no pairs, only how frequent the symbols are and how many pairs will be
    counted: it is the constant C of L2M (A.17) where nothing else is in it.

    first, second: laws of the two symbols, each >= 0 with sum 1. ValueError for other values. O(distinct values of
    `first` times those of `second`).
    """
    rows, row_copies = _distinct(first)
    columns, column_copies = _distinct(second)
    rate = _sharpness(estimator) * whole_number(samples, "samples", 1)
    joint = 0.0
    step = max(1, _CHUNK // columns.size)
    for start in range(0, rows.size, step):
        some = slice(start, start + step)
        cells = np.outer(rows[some], columns)
        joint += float((row_copies[some] * rows[some]) @ exp1(rate * cells) @ (column_copies * columns))
    return (
        joint
        + poisson_entropy_bias(rows, samples, estimator, row_copies)
        + poisson_entropy_bias(columns, samples, estimator, column_copies)
    )


def _distinct(law: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Distinct probabilities above 0 and how many symbols have each: frequencies are counts, and those repeat."""
    values, _ = _law(law, None)
    found, copies = np.unique(values[values > 0], return_counts=True)
    return found, copies.astype(np.float64)


def _law(probabilities: npt.ArrayLike, copies: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    law = np.asarray(probabilities, dtype=np.float64).ravel()
    number = np.ones_like(law) if copies is None else np.asarray(copies, dtype=np.float64).ravel()
    if law.size == 0 or number.shape != law.shape:
        raise ValueError(f"probabilities and copies: the same number of each, got {law.size} and {number.size}")
    if not np.all(np.isfinite(law)) or np.any(law < 0) or np.any(number < 0):
        raise ValueError("probabilities and copies: finite numbers >= 0 are allowed")
    if abs(float(law @ number) - 1.0) > 1e-9:
        raise ValueError(f"probabilities sum to {float(law @ number):.12g}; they must sum to 1")
    return law, number


def _sharpness(estimator: str) -> float:
    if estimator not in SHARPNESS:
        raise ValueError(f"estimator: one of {', '.join(SHARPNESS)} is allowed, got {estimator!r}")
    return SHARPNESS[estimator]
