"""What an estimator of bipartite information returns on average when a model q replaces the distribution p: the terms.

For X = the first half and Y = the second, with everything in nats,

    direct = E_p[ln q(Y|X)] - E_p[ln q(Y)]           = I + KL(p_Y || q_Y)               - KL(p_Y|X || q_Y|X),
    vCLUB  = E_p[ln q(Y|X)] - E_{p_X p_Y}[ln q(Y|X)] = I + KL(p_X p_Y || p_X q_Y|X)     - KL(p_Y|X || q_Y|X)

(L2M, Eq. 6-7, and what their text leaves out of Eq. 7; a factor q_X for p_X would cancel in the difference). The second
term of each is an overestimate, the third an underestimate, and nothing makes them equal. At q = p the direct estimator
is I and vCLUB is the Jeffreys divergence KL(p_XY || p_X p_Y) + KL(p_X p_Y || p_XY).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import checked_covariance, real_array, sum_tolerance
from lib.processes.discrete.tables import block_lengths, divergence_terms
from lib.theory.gaussian_predictor import GaussianPredictor
from lib.theory.history import canonical_correlations

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorTerms:
    """Exact information and the three divergences between p and q that model-based estimators add to it, in nats."""

    information: float  # I_p(X; Y)
    marginal: float  # KL(p_Y || q_Y)
    conditional: float  # E_p KL(p_Y|X || q_Y|X)
    shuffled: float  # KL(p_X p_Y || p_X q_Y|X)

    @property
    def direct(self) -> float:
        """Expectation of the direct estimator, I + marginal - conditional (L2M, Eq. 6)."""
        return self._sum(self.marginal, "marginal")

    @property
    def vclub(self) -> float:
        """Expectation of the vCLUB estimator, I + shuffled - conditional (L2M, Eq. 7)."""
        return self._sum(self.shuffled, "shuffled")

    def _sum(self, added: float, name: str) -> float:
        if np.isinf(added) and np.isinf(self.conditional):
            raise ValueError(f"the estimator has no expectation: its {name} and its conditional term are both infinite")
        return self.information + added - self.conditional


def gaussian_error_terms(
    p: ArrayLike,
    q: ArrayLike | GaussianPredictor,
    split: int | None = None,
    marginal: ArrayLike | GaussianPredictor | None = None,
) -> ErrorTerms:
    """The terms for mean-zero Gaussians, in closed form.

    p: covariance (L, L). q: the model of X and Y, a covariance (L, L) or a predictor; only q(Y|X) matters.
    split: length of X, half by default. marginal: the model of Y alone, a covariance (L - split, L - split) or a
    predictor; by default what q says about Y, although a language model started afresh at Y need not agree with that.
    Raises ValueError for a split outside 1 .. L - 1, matrices that do not fit or are not positive definite. O(L^3).
    """
    truth = checked_covariance(p)
    cut = int(block_lengths(len(truth), split)[0])
    model = q if isinstance(q, GaussianPredictor) else GaussianPredictor.from_covariance(q)
    if model.length != truth.shape[0]:
        raise ValueError(f"q: size {truth.shape[0]} as p is allowed, got {model.length}")
    alone = marginal if marginal is not None else model.covariance()[cut:, cut:]
    if not isinstance(alone, GaussianPredictor):
        alone = GaussianPredictor.from_covariance(alone)
    independent = truth.copy()
    independent[:cut, cut:] = independent[cut:, :cut] = 0.0
    return ErrorTerms(
        information=_sum(-0.5 * np.log1p(-(_correlations(truth, cut) ** 2))),
        marginal=_sum(alone.divergences(truth[cut:, cut:])),
        conditional=_sum(model.divergences(truth)[cut:]),
        shuffled=_sum(model.divergences(independent)[cut:]),
    )


def gaussian_jeffreys(covariance: ArrayLike, split: int | None = None) -> float:
    """Jeffreys divergence of two blocks of a Gaussian and their product, sum_k rho_k^2 / (1 - rho_k^2), in nats.

    rho_k: canonical correlations. covariance, split and ValueError as in `gaussian_error_terms`. O(L^3).
    """
    matrix = checked_covariance(covariance)
    squares = _correlations(matrix, int(block_lengths(len(matrix), split)[0])) ** 2
    return _sum(squares / (1.0 - squares))


def _correlations(covariance: Floats, split: int) -> Floats:
    """`canonical_correlations` of the two blocks of a positive definite matrix."""
    values = canonical_correlations(covariance, np.arange(split), np.arange(split, len(covariance)))
    if values[0] >= 1.0:
        raise ValueError(f"covariance: positive definite is allowed, a canonical correlation is {values[0]:.6g}")
    return values


def table_error_terms(p: ArrayLike, q: ArrayLike, marginal: ArrayLike | None = None) -> ErrorTerms:
    """The terms for a finite joint distribution p(x, y), by exact sums; a term is inf where q is 0 and its p is not.

    p, q: tables (A, B) that sum to one; q needs a row of positive sum wherever p has one. marginal: (B,), the model
    of Y alone; by default the column sums of q. Raises ValueError otherwise. O(A B).
    """
    truth, model = _checked_law(p, 2, "p"), _checked_law(q, 2, "q")
    if model.shape != truth.shape:
        raise ValueError(f"q: shape {truth.shape} as p is allowed, got {model.shape}")
    first, second = truth.sum(axis=1), truth.sum(axis=0)
    given = model.sum(axis=1)
    if np.any((given == 0.0) & (first > 0.0)):
        raise ValueError("q: a row of zeros leaves q(y | x) undefined where p(x) > 0")
    conditional = first[:, None] * model / np.where(given > 0.0, given, 1.0)[:, None]  # p(x) q(y | x)
    alone = model.sum(axis=0) if marginal is None else _checked_law(marginal, 1, "marginal")
    if alone.shape != second.shape:
        raise ValueError(f"marginal: {second.size} probabilities are allowed, got {alone.size}")
    product = np.outer(first, second)
    return ErrorTerms(
        information=divergence(truth, product),
        marginal=divergence(second, alone),
        conditional=divergence(truth, conditional),
        shuffled=divergence(product, conditional),
    )


def markov_error_terms(
    p: tuple[ArrayLike, ArrayLike],
    q: tuple[ArrayLike, ArrayLike],
    length: int,
    split: int | None = None,
    start: ArrayLike | None = None,
) -> ErrorTerms:
    """The terms for Markov chains p and q of M symbols, exact at any length.

    p, q: (initial distribution (M,), transition (M, M)). start: (M,), the distribution that the model of Y alone gives
    to its first symbol (what it predicts after its BOS token); by default the distribution of that symbol under q. Only
    steps count: with s_i = E_p KL(P(.|x_i) || Q(.|x_i)) and x = the last symbol of X, y = the first of Y,

        marginal = KL(p_y || start) + sum_{i in Y, not last} s_i,    conditional = s_x + the same sum,

    so that the errors inside Y cancel in the direct estimator at every length. Raises ValueError for distributions that
    do not sum to one, sizes that differ, a split outside 1 .. length - 1. O(length M^2).
    """
    (first, step), (model_first, model_step) = (_checked_chain(p, "p"), _checked_chain(q, "q"))
    if model_first.shape != first.shape:
        raise ValueError(f"q: {first.size} symbols as p are allowed, got {model_first.size}")
    cut = int(block_lengths(length, split)[0])
    laws, model_law = [first], model_first
    for _ in range(length - 1):
        laws.append(laws[-1] @ step)
    for _ in range(cut):
        model_law = model_law @ model_step
    begin = model_law if start is None else _checked_law(start, 1, "start")
    if begin.shape != first.shape:
        raise ValueError(f"start: {first.size} probabilities are allowed, got {begin.size}")
    inside = sum(divergence(law[:, None] * step, law[:, None] * model_step) for law in laws[cut:-1])
    here, there = laws[cut - 1], laws[cut]
    joint, model = here[:, None] * step, here[:, None] * model_step
    product = np.outer(here, there)
    return ErrorTerms(
        information=divergence(joint, product),
        marginal=divergence(there, begin) + inside,
        conditional=divergence(joint, model) + inside,
        shuffled=divergence(product, model) + inside,
    )


def divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Kullback-Leibler divergence sum p ln(p / q) of two distributions of one shape, in nats; inf where only q is 0.

    A sum of terms >= 0, `divergence_terms`, none of which cancels: it keeps all digits where p and q nearly agree.
    Raises ValueError for different shapes; that both are distributions is for the caller to see to. O(size).
    """
    truth, model = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if truth.shape != model.shape:
        raise ValueError(f"q: shape {truth.shape} as p is allowed, got {model.shape}")
    possible = model > 0.0
    if np.any(truth[~possible] > 0.0):
        return float("inf")
    return _sum(divergence_terms(truth[possible], model[possible]))


def _sum(terms: ArrayLike) -> float:
    return float(np.sum(terms))


def _checked_law(law: ArrayLike, dimensions: int, name: str) -> Floats:
    array = real_array(law, name)
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(f"{name}: a {dimensions}-D table of probabilities is allowed, got shape {array.shape}")
    if not np.all(array >= 0.0) or abs(float(array.sum()) - 1.0) > sum_tolerance(law, name):
        raise ValueError(f"{name}: probabilities >= 0 that sum to one are allowed, the sum is {float(array.sum())!r}")
    return np.asarray(array / array.sum())


def _checked_chain(chain: tuple[ArrayLike, ArrayLike], name: str) -> tuple[Floats, Floats]:
    initial, transition = _checked_law(chain[0], 1, f"{name}[0]"), real_array(chain[1], f"{name}[1]")
    tolerance = sum_tolerance(chain[1], f"{name}[1]")
    if transition.shape != (initial.size, initial.size):
        raise ValueError(f"{name}[1]: shape {(initial.size, initial.size)} is allowed, got {transition.shape}")
    if not np.all(transition >= 0.0) or not np.allclose(transition.sum(axis=1), 1.0, rtol=0.0, atol=tolerance):
        raise ValueError(f"{name}[1]: rows of probabilities that sum to one are allowed, got {transition}")
    return initial, np.asarray(transition / transition.sum(axis=1, keepdims=True))
