"""Mutual information of long blocks estimated by a model q of one block given the other.

Both average log-probabilities of a model q over samples of the true distribution p. Neither is a bound in general.

vCLUB (L2M, Eq. 7) compares q(y_i | x_i) with q(y_j | x_i) for a foreign j. If j = i happens, that pair is no sample of
the product of the marginals: a uniformly random permutation has one fixed point on average, which shrinks the
expectation by the factor 1 - 1/N (erratum 18). A cyclic shift and a random derangement have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from lib.checks import generator, plain_array, whole_number

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class ModelEstimate:
    """An estimate in nats with the standard error of its average over samples (not of the error of the model)."""

    value: float
    standard_error: float


@np.errstate(over="ignore", invalid="ignore")
def direct_estimate(log_q_y_given_x: npt.ArrayLike, log_q_y: npt.ArrayLike) -> ModelEstimate:
    """Average of ln q(y|x) - ln q(y) over samples of p, in nats (L2M, Eq. 6).

    Its mean is I + KL(p_Y || q_Y) - KL(p_Y|X || q_Y|X): exact at q = p, otherwise neither an upper nor a lower bound.

    log_q_y_given_x, log_q_y: (n,) nats, the same sample at the same place, n >= 2. The standard error is that of
    the paired differences. Raises ValueError for other shapes and for values or an average that are not finite. O(n).
    """
    conditional = _checked_samples(log_q_y_given_x, "log_q_y_given_x")
    marginal = _checked_samples(log_q_y, "log_q_y")
    if conditional.size != marginal.size:
        raise ValueError(
            f"log_q_y_given_x has {conditional.size} samples, log_q_y {marginal.size}; they must be paired"
        )
    return _average(conditional - marginal)


@np.errstate(over="ignore", invalid="ignore")
def vclub_estimate(
    log_q_joint: npt.ArrayLike, log_q_shuffled: npt.ArrayLike, partners: npt.ArrayLike | None = None
) -> ModelEstimate:
    """Average of ln q(y|x) over true pairs minus that over pairs of strangers, in nats (L2M, Eq. 7).

    Its mean is I + KL(p_X p_Y || q) - KL(p_XY || q), with q(x, y) = p(x) q(y|x): at q = p it is the Jeffreys
    divergence of joint and product, not I. It may be infinite where I is finite: ln q = -inf is allowed among the
    strangers, and gives inf. Strangers must be strangers: draw them by a cyclic shift or another permutation
    without fixed points, for a fixed point shrinks the estimate.

    log_q_joint: (n,) nats, n >= 2. log_q_shuffled: (m,) nats. Standard error: if m = n, entry i of both should hold
    the same x, and the differences are averaged (entries in another order cost nothing but the gain of pairing);
    else the two averages count as independent. Every y serves twice, in a true and in a strange pair. This
    dependence enters only if `partners` says it: partners[i] is the sample whose y stands in entry i of
    log_q_shuffled, a permutation without fixed points or 2-cycles. Raises ValueError for other shapes, NaN, +inf,
    averages that overflow, and partners that are no such permutation. O(n).
    """
    joint = _checked_samples(log_q_joint, "log_q_joint")
    shuffled = _checked_samples(log_q_shuffled, "log_q_shuffled", lowest_allowed=True)
    order = None if partners is None else _checked_partners(partners, joint.size, shuffled.size)
    if np.any(np.isneginf(shuffled)):
        return ModelEstimate(float("inf"), float("inf"))
    if joint.size != shuffled.size:
        variance = joint.var(ddof=1) / joint.size + shuffled.var(ddof=1) / shuffled.size
        return _finite(joint.mean() - shuffled.mean(), np.sqrt(variance))
    differences = joint - shuffled
    if order is None:
        return _average(differences)
    deviations = differences - differences.mean()
    shared = 2 * np.mean(deviations * deviations[order])
    variance = max(float(differences.var(ddof=1) + shared), 0.0) / differences.size
    return _finite(differences.mean(), np.sqrt(variance))


def _average(values: npt.NDArray[np.float64]) -> ModelEstimate:
    return _finite(values.mean(), values.std(ddof=1) / np.sqrt(values.size))


def _finite(value: float, error: float) -> ModelEstimate:
    if not np.isfinite([value, error]).all():
        raise ValueError(f"samples: a finite average and standard error are needed, got {value:.3g}, {error:.3g}")
    return ModelEstimate(float(value), float(error))


def _checked_samples(values: npt.ArrayLike, what: str, lowest_allowed: bool = False) -> npt.NDArray[np.float64]:
    array = plain_array(values, what)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or array.size < 2:
        message = f"{what} has shape {array.shape} and type {array.dtype}; (n,) real numbers with n >= 2 are needed"
        raise ValueError(message)
    array = array.astype(np.float64)
    wrong = ~np.isfinite(array)
    if lowest_allowed:
        wrong &= ~np.isneginf(array)
    if np.any(wrong):
        allowed = "finite numbers or -inf" if lowest_allowed else "finite numbers"
        raise ValueError(f"{what} contains {array[wrong][0]}; allowed are {allowed}")
    return array


def _checked_partners(partners: npt.ArrayLike, joint: int, shuffled: int) -> npt.NDArray[np.int64]:
    order = plain_array(partners, "partners")
    if joint != shuffled or order.shape != (joint,) or order.dtype.kind not in "iu":
        raise ValueError(f"partners has shape {order.shape}; with {joint} true and {shuffled} strange pairs it must be "
                         f"({joint},) integers, and as many pairs of either kind")  # fmt: skip
    own = np.arange(joint)
    if not np.array_equal(np.sort(order), own):
        raise ValueError("partners is not a permutation of the samples; every y must serve once")
    if np.any(order == own) or np.any(order[order] == own):
        raise ValueError("partners has a fixed point or a 2-cycle; use a cyclic shift of at least 3 samples")
    return order.astype(np.int64)


def cyclic_shift(count: int, shift: int = 1) -> Indices:
    """The derangement i -> (i + shift) mod count, (count,).

    For independent samples as good as any other. Samples cut one after another from one text need a shift longer than
    their dependence. Raises ValueError unless count >= 2 and 1 <= shift < count. O(count).
    """
    size = whole_number(count, "count", 2)
    step = whole_number(shift, "shift", 1)
    if step >= size:
        raise ValueError(f"shift: whole numbers 1 <= shift < count = {size} move every element, got {shift!r}")
    return (np.arange(size, dtype=np.int64) + step) % size


def random_derangement(count: int, seed: int | np.random.Generator) -> Indices:
    """A derangement drawn uniformly from all of them, (count,).

    Uniform permutations are drawn until one has no fixed point: a share D_n / n! -> 1/e of them, so e draws on average.
    Raises ValueError unless count >= 2 (one element alone cannot leave its place). O(count) on average.
    """
    size = whole_number(count, "count", 2)
    random = generator(seed)
    places = np.arange(size)
    while True:
        permutation = random.permutation(size).astype(np.int64)
        if not np.any(permutation == places):
            return permutation
