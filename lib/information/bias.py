"""How far counting is off for a known distribution: the bias of the digamma estimators, mean and variance of all four.

Under Poisson sampling, n ~ Poisson(N p) independently in every cell, the two Grassberger forms have exact means,

    E[n psi(n)] = lambda (ln lambda + E1(lambda)),      E[n G(n)] = lambda (ln lambda + E1(2 lambda)),

with the exponential integral E1. So the whole bias of an entropy that has the expected number of draws for its N is one
sum over cells. With the sum of the counts in its place, be it Poisson or fixed, an entropy is up to 1/(2N) higher, all
of it where cells are well sampled.

Under independent sampling mean and variance are exact. All four estimators are sums over symbols, H = constant - (1/N)
sum_i g(n_i), and each count n_i is binomial. So the mean needs one binomial sum a symbol and the variance one trinomial
sum a pair of symbols: nothing has to be simulated.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import exp1

from lib.checks import real_array, sum_tolerance, whole_number
from lib.information.estimators import Estimator, find_estimator

Floats = npt.NDArray[np.float64]
SHARPNESS = {"grassberger2003": 1.0, "grassberger2008": 2.0}  # k in E1(k lambda)
_CHUNK = 1 << 22  # cells whose E1 is in memory at a time
_TAIL = 41.0  # nats: counts that are together less probable than e^-41 are left out of a sum


def poisson_entropy_bias(
    probabilities: npt.ArrayLike,
    samples: int,
    estimator: str = "grassberger2008",
    copies: npt.ArrayLike | None = None,
) -> float:
    """E[H] - H of an entropy of Poisson counts, N = `samples` draws expected, in nats: - sum_i p_i E1(k N p_i) <= 0.

    N stands in the estimate; with the sum of the counts in its place, or for exactly N draws, add up to 1/(2N). k = 1
    for "grassberger2003", 2 for "grassberger2008" (Grassberger 2003, 2008).

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
    counted: it is the constant C of L2M (A.17) where nothing else is in it. Under Poisson sampling, as there; counting
    exactly N pairs finds 1/(2N) more where every cell is well sampled, which then is most of it, and about 1/N where
    only the symbols are.

    first, second: distributions of the two symbols, each >= 0 with sum 1. ValueError for other values. O(distinct
    values of `first` times those of `second`).
    """
    rows, row_copies = _symbols_and_copies(first)
    columns, column_copies = _symbols_and_copies(second)
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


def _law(probabilities: npt.ArrayLike, copies: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    law = real_array(probabilities, "probabilities").ravel()
    number = np.ones_like(law) if copies is None else real_array(copies, "copies").ravel()
    if law.size == 0 or number.shape != law.shape:
        raise ValueError(
            f"probabilities and copies: as many of each, at least one, are allowed, got {law.size} and {number.size}"
        )
    if not (np.all(np.isfinite(law)) and np.all(np.isfinite(number))) or np.any(law < 0) or np.any(number < 0):
        raise ValueError(
            f"probabilities and copies: finite numbers >= 0 are allowed, got {law.min()} and {number.min()}"
        )
    if not abs(float(law @ number) - 1.0) <= sum_tolerance(probabilities, "probabilities"):
        raise ValueError(f"probabilities sum to {float(law @ number):.12g}; they must sum to 1")
    return law, number


def _sharpness(estimator: str) -> float:
    if not isinstance(estimator, str) or estimator not in SHARPNESS:
        raise ValueError(f"estimator: one of {', '.join(SHARPNESS)} is allowed, got {estimator!r}")
    return SHARPNESS[estimator]


def expected_entropy(probabilities: npt.ArrayLike, samples: int, estimator: str = "grassberger2003") -> float:
    """Mean of the estimate from `samples` independent draws, in nats, exactly.

    E[H] = ln N - c/(2N) - (1/N) sum_i E[g(n_i)], n_i ~ Binomial(N, p_i), g(n) = n f(n) - (c/2) [n > 0]; f and c as in
    `lib.information.entropy`. Its difference to `entropy_of` is the bias.

    probabilities: >= 0 with sum 1, any shape. samples: N >= 1. Raises ValueError for other values and for an unknown
    estimator. Cost O(sqrt(N)) for each distinct probability.
    """
    rule = find_estimator(estimator)
    values, copies = _symbols_and_copies(probabilities)
    number = whole_number(samples, "samples", 1)
    means = np.array([_moments(p, number, rule)[0] for p in values])
    return float(np.log(number) - rule.cell_correction / (2 * number) - copies @ means / number)


def entropy_variance(probabilities: npt.ArrayLike, samples: int, estimator: str = "grassberger2003") -> float:
    """Variance of the estimate from `samples` independent draws, in nats squared, exactly.

    Var[H] = (1/N^2) [sum_i Var g(n_i) + sum_{i != j} Cov(g(n_i), g(n_j))]; given n_i, n_j ~ Binomial(N - n_i,
    p_j / (1 - p_i)).

    Arguments and errors as for `expected_entropy`. Cost O(N) for each pair of distinct probabilities.
    """
    rule = find_estimator(estimator)
    values, copies = _symbols_and_copies(probabilities)
    number = whole_number(samples, "samples", 1)
    means, squares = np.array([_moments(p, number, rule) for p in values]).T
    total = float(copies @ (squares - means**2))
    for i, p in enumerate(values):
        for j in range(i, values.size):
            pairs = copies[i] * (copies[i] - 1) if i == j else 2 * copies[i] * copies[j]
            if pairs:
                total += pairs * (_cross_moment(p, values[j], number, rule) - means[i] * means[j])
    return max(total, 0.0) / number**2


def entropy_of(probabilities: npt.ArrayLike) -> float:
    """Entropy of a distribution, -sum p ln p, in nats. ValueError unless the probabilities are >= 0 and sum to 1."""
    values, copies = _symbols_and_copies(probabilities)
    return float(-copies @ (values * np.log(values)))


def _summand(counts: Floats, rule: Estimator) -> Floats:
    """g(n) = n f(n) - (c/2) [n > 0]."""
    weighted = counts * rule.logarithm(np.maximum(counts, 1.0))
    return np.asarray(weighted - 0.5 * rule.cell_correction * (counts > 0))


def _binomial(p: float, samples: int) -> tuple[Floats, Floats]:
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
    from scipy.stats import binom  # half a second to load

    first, weights = _binomial(p, samples)
    second, _ = _binomial(q, samples)
    rest = min(1.0, q / (1.0 - p))
    conditional = binom.pmf(second, samples - first[:, np.newaxis], rest)
    return float((weights * _summand(first, rule)) @ conditional @ _summand(second, rule))


def _symbols_and_copies(probabilities: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Distinct non-zero probabilities and how often each occurs."""
    law, _ = _law(probabilities, None)
    # Products of the same probabilities in another order may differ in the last digit: they are one value.
    _, index, copies = np.unique(np.round(np.log(law[law > 0]), 13), return_index=True, return_counts=True)
    return law[law > 0][index], copies
