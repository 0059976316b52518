"""Exact mean and variance of the entropy estimators under independent sampling from a known law.

All four estimators are sums over symbols, H = constant - (1/N) sum_i g(n_i), and each count n_i is binomial. So the
mean needs one binomial sum a symbol and the variance one trinomial sum a pair of symbols: nothing has to be simulated.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from lib.information.estimators import Estimator, find_estimator

FloatArray = npt.NDArray[np.float64]
_TAIL = 41.0  # nats: counts that are together less probable than e^-41 are left out of a sum


def expected_entropy(probabilities: npt.ArrayLike, samples: int, estimator: str = "grassberger2003") -> float:
    """Mean of the estimate from `samples` independent draws, in nats, exactly.

    E[H] = ln N - c/(2N) - (1/N) sum_i E[g(n_i)], n_i ~ Binomial(N, p_i), g(n) = n f(n) - (c/2) [n > 0]; f and c as in
    `lib.information.entropy`. Its difference to `entropy_of` is the bias.

    probabilities: >= 0 with sum 1, any shape. samples: N >= 1. Raises ValueError for other values and for an unknown
    estimator. Cost O(sqrt(N)) for each distinct probability.
    """
    rule = find_estimator(estimator)
    values, copies = _law(probabilities)
    number = _samples(samples)
    means = np.array([_moments(p, number, rule)[0] for p in values])
    return float(np.log(number) - rule.cell_correction / (2 * number) - copies @ means / number)


def entropy_variance(probabilities: npt.ArrayLike, samples: int, estimator: str = "grassberger2003") -> float:
    """Variance of the estimate from `samples` independent draws, in nats squared, exactly.

    Var[H] = (1/N^2) [sum_i Var g(n_i) + sum_{i != j} Cov(g(n_i), g(n_j))]; given n_i, n_j ~ Binomial(N - n_i,
    p_j / (1 - p_i)).

    Arguments and errors as for `expected_entropy`. Cost O(N) for each pair of distinct probabilities.
    """
    rule = find_estimator(estimator)
    values, copies = _law(probabilities)
    number = _samples(samples)
    means, squares = np.array([_moments(p, number, rule) for p in values]).T
    total = float(copies @ (squares - means**2))
    for i, p in enumerate(values):
        for j in range(i, values.size):
            pairs = copies[i] * (copies[i] - 1) if i == j else 2 * copies[i] * copies[j]
            if pairs:
                total += pairs * (_cross_moment(p, values[j], number, rule) - means[i] * means[j])
    return max(total, 0.0) / number**2


def entropy_of(probabilities: npt.ArrayLike) -> float:
    """Entropy of a law, -sum p ln p, in nats. ValueError unless the probabilities are >= 0 and sum to 1."""
    values, copies = _law(probabilities)
    return float(-copies @ (values * np.log(values)))


def _summand(counts: FloatArray, rule: Estimator) -> FloatArray:
    """g(n) = n f(n) - (c/2) [n > 0]."""
    weighted = counts * rule.logarithm(np.maximum(counts, 1.0))
    return np.asarray(weighted - 0.5 * rule.cell_correction * (counts > 0))


def _binomial(p: float, samples: int) -> tuple[FloatArray, FloatArray]:
    """Counts that matter and their probabilities; what is left out weighs less than e^-41 on either side (Bernstein).

    Ratios of neighbouring probabilities are multiplied up from the first count and normalised: no factorials, so no
    cancellation for large N.
    """
    if p >= 1.0:
        return np.array([float(samples)]), np.array([1.0])
    mean, variance = samples * p, samples * p * (1.0 - p)
    reach = _TAIL / 3 + np.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * variance)
    counts = np.arange(max(0.0, np.floor(mean - reach)), min(float(samples), np.ceil(mean + reach)) + 1.0)
    ratios = np.log((samples - counts[:-1]) / counts[1:]) + np.log(p) - np.log1p(-p)
    logarithms = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, weights / weights.sum()


def _moments(p: float, samples: int, rule: Estimator) -> tuple[float, float]:
    counts, weights = _binomial(p, samples)
    values = _summand(counts, rule)
    return float(weights @ values), float(weights @ values**2)


def _cross_moment(p: float, q: float, samples: int, rule: Estimator) -> float:
    """E[g(n) g(m)] of two cells of a multinomial with probabilities p and q."""
    first, weights = _binomial(p, samples)
    second, _ = _binomial(q, samples)
    rest = min(1.0, q / (1.0 - p))
    conditional = binom.pmf(second, samples - first[:, np.newaxis], rest)
    return float((weights * _summand(first, rule)) @ conditional @ _summand(second, rule))


def _law(probabilities: npt.ArrayLike) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Distinct non-zero probabilities and how often each occurs."""
    law = np.asarray(probabilities, dtype=np.float64).ravel()
    if law.size == 0 or not np.all(np.isfinite(law)) or np.any(law < 0):
        raise ValueError("probabilities must be finite numbers >= 0, at least one")
    if abs(law.sum() - 1.0) > 1e-9:
        raise ValueError(f"probabilities sum to {law.sum():.12g}; they must sum to 1")
    # Products of the same probabilities in another order may differ in the last digit: they are one value.
    _, index, copies = np.unique(np.round(np.log(law[law > 0]), 13), return_index=True, return_counts=True)
    return law[law > 0][index], copies


def _samples(samples: int) -> int:
    if isinstance(samples, bool) or int(samples) != samples or samples < 1:
        raise ValueError(f"samples = {samples!r}; a whole number >= 1 is needed")
    return int(samples)
