"""Stationary Markov chains over a finite alphabet: exact two-point and bipartite information."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from lib.checks import generator, real_array, sum_tolerance, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths, enumerable_length, information_of_deviation

FAR = 1e-3  # of a probability: a larger deviation from it is resolved by powers of P itself
_BLOCK = 2**20  # uniform numbers held at a time while sampling


class MarkovChain:
    """Stationary chain with P(next = b | now = a) = transition[a, b].

    transition: (M, M), rows are probabilities. initial: (M,), a distribution that the transition leaves unchanged; None
    takes the stationary distribution, which then has to be unique. Raises ValueError otherwise. Sums may miss one by
    1e-9, or by four epsilon of float32 or float16 where probabilities come so; they are then divided by their sum.
    """

    def __init__(self, transition: ArrayLike, initial: ArrayLike | None = None) -> None:
        self.transition = _stochastic(transition)
        if initial is None:
            self.initial = stationary_distribution(self.transition)
        else:
            self.initial = _stationary(initial, self.transition, sum_tolerance(transition, "transition"))

    def __repr__(self) -> str:
        return f"MarkovChain({self.transition.tolist()!r}, initial={self.initial.tolist()!r})"

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact mutual information in nats of two symbols at whole lags >= 0, any shape (lag 0: the entropy).

        P^lag - 1 pi = (P - 1 pi)^lag for lag >= 1 is the deviation from independence. Where it is small, powers of it,
        not of P, keep the digits of information as small as 1e-300, up to a relative error of about lag 1e-16; where it
        is not, as for ever in a periodic or reducible chain, or where the lag has eaten those digits, powers of P do,
        whose rows are divided by their sums and keep their zeros. Raises ValueError for other lags. Cost O(M^3) per lag
        for lags in a row, O(M^3 log gap) across a gap.
        """
        whole = whole_lags(lags)
        support = self.initial > 0.0
        law = self.initial[support]
        centred = self.transition[np.ix_(support, support)] - law
        unique, position = np.unique(whole, return_inverse=True)
        information = np.empty(unique.size)
        plain, power, reached = np.eye(law.size), np.eye(law.size) - law, 0
        for index, lag in enumerate(unique.tolist()):
            if lag > reached:
                plain = plain @ _stochastic_power(self.transition[np.ix_(support, support)], lag - reached)
                plain /= plain.sum(axis=1, keepdims=True)
                with np.errstate(over="ignore", invalid="ignore"):  # of a chain that does not mix
                    power = power @ np.linalg.matrix_power(centred, lag - reached)
            reached = lag
            off = np.abs(plain - law)
            faded = (off < 1e-12 * law) & (np.abs(power) < 1e-9 * law)  # what is left of it is rounding
            deviation = np.where((off * max(lag, 1 / FAR) < law) | faded, power, plain - law)
            information[index] = information_of_deviation(law[:, None] * deviation, law, law)
        return np.asarray(information[position].reshape(whole.shape))[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """Exact information in nats between the first `splits` symbols (default: half) and the rest of `lengths`.

        The past acts on the future through the last symbol alone, so it is I(1) at every length and split. Returns
        the common shape. Raises ValueError unless 1 <= split < length. Cost O(M^3).
        """
        first, _ = block_lengths(lengths, splits)
        return np.full(first.shape, self.mutual_information(1))[()]

    def joint_distribution(self, length: int) -> NDArray[np.float64]:
        """Probability of every sequence, shape (M,) * length. Plain enumeration, at most 2^24 sequences."""
        joint = self.initial.copy()
        for _ in range(enumerable_length(length, self.initial.size) - 1):
            joint = joint[..., None] * self.transition
        return joint

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.unsignedinteger[Any]]:
        """n independent stationary sequences (n, length) of symbols 0 .. M - 1, uint8 up to M = 256.

        Raises ValueError for n or length < 1 or a bad seed. Cost O(n length log M).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        steps = np.broadcast_to(self.transition, (columns, *self.transition.shape))
        return sample_chain(self.initial, steps, rows, seed)


def _stochastic_power(transition: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """P^exponent by squaring, (M, M): no product subtracts, and rows are divided by their sums each time."""
    result, base = np.eye(len(transition)), transition
    while exponent:
        if exponent & 1:
            result = result @ base
            result /= result.sum(axis=1, keepdims=True)
        exponent >>= 1
        if exponent:
            base = base @ base
            base = base / base.sum(axis=1, keepdims=True)
    return result


def stationary_distribution(transition: ArrayLike) -> NDArray[np.float64]:
    """The distribution pi = pi P of a chain with one recurrent class, (M,).

    Elimination of states one by one without a subtraction (Grassmann, Taksar and Heyman 1985), so that small
    probabilities have all their digits. Raises ValueError if several distributions are stationary. Cost O(M^3).
    """
    matrix = _stochastic(transition)
    count, labels = connected_components(matrix > 0.0, directed=True, connection="strong")
    closed = [k for k in range(count) if not np.any(matrix[np.ix_(labels == k, labels != k)] > 0.0)]
    if len(closed) != 1:
        raise ValueError(
            f"transition: one recurrent class has one stationary distribution, this chain has {len(closed)}; "
            "give the distribution as `initial`"
        )
    recurrent = labels == closed[0]
    law = np.zeros(matrix.shape[0])
    law[recurrent] = _by_elimination(matrix[np.ix_(recurrent, recurrent)].copy())
    return law


def sample_chain(
    initial: NDArray[np.float64], transitions: NDArray[np.float64], n: int, seed: int | np.random.Generator
) -> NDArray[np.unsignedinteger[Any]]:
    """n sequences of a chain whose step into place t has probabilities transitions[t], (length, M, M).

    transitions[0] is not used: the first symbol has the distribution `initial`. Returns (n, length), the smallest
    unsigned type that holds M - 1. One uniform number per symbol, row by row.
    """
    length, size = transitions.shape[0], transitions.shape[1]
    random = generator(seed)
    start = _cumulative(initial)
    if transitions.strides[0] == 0:  # one matrix for all steps: keep one copy of its sums, too
        steps = np.broadcast_to(_cumulative(transitions[0]), transitions.shape)
    else:
        steps = _cumulative(transitions)
    symbols = np.empty((n, length), dtype=np.min_scalar_type(size - 1))
    rows = max(1, _BLOCK // length)
    for begin in range(0, n, rows):
        block = symbols[begin : begin + rows]
        _walk(start, steps, random.random(block.shape), block)
    return symbols


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _walk(start: Any, steps: Any, uniform: Any, symbols: Any) -> None:
    for row in range(uniform.shape[0]):
        state = np.searchsorted(start, uniform[row, 0], side="right")
        symbols[row, 0] = state
        for place in range(1, uniform.shape[1]):
            state = np.searchsorted(steps[place, state], uniform[row, place], side="right")
            symbols[row, place] = state


def _cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums along the last axis, one from the last possible symbol on: no uniform number in [0, 1) lies beyond it."""
    possible_later = np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1] - probabilities > 0.0
    return np.where(possible_later, np.cumsum(probabilities, axis=-1), 1.0)


def _by_elimination(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    size = matrix.shape[0]
    for state in range(size - 1, 0, -1):
        matrix[:state, state] /= matrix[state, :state].sum()
        matrix[:state, :state] += np.outer(matrix[:state, state], matrix[state, :state])
    law = np.ones(size)
    for state in range(1, size):
        law[state] = law[:state] @ matrix[:state, state]
    return np.asarray(law / law.sum())


def _stochastic(transition: ArrayLike) -> NDArray[np.float64]:
    matrix = real_array(transition, "transition")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"transition: a square matrix of probabilities is allowed, got shape {matrix.shape}")
    if not np.all(matrix >= 0.0):
        raise ValueError(f"transition: probabilities >= 0 are allowed, got {matrix[~(matrix >= 0.0)].flat[0]!r}")
    sums, tolerance = matrix.sum(axis=1), sum_tolerance(transition, "transition")
    wrong = ~(np.abs(sums - 1.0) <= tolerance)
    if np.any(wrong):
        row, found = int(wrong.argmax()), f"{sums[wrong][0]:.12g}"
        raise ValueError(f"transition: every row has to sum to one to within {tolerance:.3g}, row {row} has {found}")
    return np.asarray(matrix / sums[:, None])


def _stationary(initial: ArrayLike, transition: NDArray[np.float64], rounding: float) -> NDArray[np.float64]:
    law, tolerance = real_array(initial, "initial"), sum_tolerance(initial, "initial")
    if law.shape != transition.shape[:1] or not np.all(law >= 0.0) or abs(law.sum() - 1.0) > tolerance:
        allowed = f"{transition.shape[0]} probabilities that sum to one to within {tolerance:.3g}"
        raise ValueError(f"initial: {allowed} are allowed, got {initial!r} with the sum {law.sum():.12g}")
    law = law / law.sum()
    gap = float(np.max(np.abs(law @ transition - law)))
    if gap > max(tolerance, rounding):
        raise ValueError(f"initial: a stationary distribution is allowed; the transition moves this one by {gap:.3g}")
    return np.asarray(law)
