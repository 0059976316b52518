"""Repetitive sequences of the pairs 01 and 10: mutual information that never decays.

Sequences of one token, repeated: the same information at every distance and between any two blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from lib.checks import generator, plain_array, real_number, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths


class RepetitiveSequence:
    """Pairs 01 (probability p) and 10 (1 - p) written one after another, read from a random phase.

    At every lag beyond one the mutual information is the same constant (Eq. 52 of Shen 2019): two symbols
    remember nothing but whether both are first, both second, or one of each in their pairs. Given the phase,
    symbols of different pairs are independent.

    The sequence is a hidden Markov chain of three states A, B, C (in this order in every array): from A, a
    pair begins; A -> B with probability p emits 0, A -> C with 1 - p emits 1; B -> A emits 1, C -> A emits 0.

    p: probability of the pair 01, between 0 and 1; ValueError otherwise.
    Source: Shen (2019), App. C, Eq. 48-52.
    """

    def __init__(self, p: float) -> None:
        self.p = real_number(p, "p")
        if not 0.0 <= self.p <= 1.0:
            raise ValueError(f"p: a probability between 0 and 1 is allowed, got {p!r}")

    def __repr__(self) -> str:
        return f"RepetitiveSequence({self.p!r})"

    @property
    def transition_matrix(self) -> NDArray[np.float64]:
        """Probability of going from one state (row) to another (column), (3, 3), states A, B, C."""
        return np.array([[0.0, self.p, 1.0 - self.p], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])

    @property
    def emission(self) -> NDArray[np.float64]:
        """Joint probability of symbol and next state, given the state.

        Shape (2, 3, 3): symbol emitted, state left, state reached; symbols belong to the arrows, so the sum
        over symbols is `transition_matrix`.
        """
        arrows = np.zeros((2, 3, 3))
        arrows[0, 0, 1], arrows[1, 0, 2] = self.p, 1.0 - self.p
        arrows[1, 1, 0], arrows[0, 2, 0] = 1.0, 1.0
        return arrows

    @property
    def initial_distribution(self) -> NDArray[np.float64]:
        """Probabilities of A, B, C before the first symbol: the stationary distribution, both phases alike."""
        return np.array([0.5, 0.5 * self.p, 0.5 * (1.0 - self.p)])

    def joint_distribution(self, lag: int) -> NDArray[np.float64]:
        """P(x_t = i, x_{t+lag} = j) at a whole lag >= 0, (2, 2), pooled over both phases. Closed form, O(1).

        Raises ValueError for anything else, an array of lags too.

        Even lags > 0 join like places of two pairs (equal with q = p^2 + (1-p)^2: Eq. 49-51), odd lags > 1
        unlike places (equal with 1 - q); lag 1 joins the two symbols of one pair half of the time.
        """
        excess = self._excess(_one_lag(lag))
        return 0.25 * np.array([[1.0 + excess, 1.0 - excess], [1.0 - excess, 1.0 + excess]], dtype=np.float64)

    def joint_distribution_by_matrix_powers(self, lag: int) -> NDArray[np.float64]:
        """The same table from the hidden Markov chain: pi E_i T^(lag-1) E_j 1, errors too. Plain form, O(log lag)."""
        whole = int(_one_lag(lag))
        start, arrows = self.initial_distribution, self.emission
        if whole == 0:
            return np.diag(np.einsum("a,iab->i", start, arrows))
        between = np.linalg.matrix_power(self.transition_matrix, whole - 1)
        return np.asarray(np.einsum("a,iab,bc,jcd->ij", start, arrows, between, arrows))

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact mutual information in nats at whole lags >= 0, any shape.

        With P(equal) = q = p^2 + (1-p)^2 or 1 - q beyond lag 1, I = q ln 2q + (1-q) ln 2(1-q), which is Eq.
        52, 4 p (p-1) artanh[(1-2p)^2] + ln[2 + 4p(p-1)], and has its limit ln 2 at p = 0 and 1.
        Lag 0: ln 2. Lag 1: the two symbols of one pair always differ, so P(equal) = p (1-p), and I(1) > 0
        even at p = 1/2. Raises ValueError for other lags. Cost O(1) each. Source: Shen (2019), Eq. 52.
        """
        excess = self._excess(whole_lags(lags))
        small = np.clip(excess, -0.5, 0.5)  # where the plain form loses digits
        information = np.where(
            np.abs(excess) < 0.5,
            small * np.arctanh(small) + 0.5 * np.log1p(-(small**2)),
            0.5 * (xlogy(1.0 + excess, 1.0 + excess) + xlogy(1.0 - excess, 1.0 - excess)),
        )
        return np.asarray(information)[()]

    def sample(
        self, n: int, length: int, seed: int | np.random.Generator, phase: int | None = None
    ) -> NDArray[np.uint8]:
        """n independent sequences of symbols 0 and 1, uint8 (n, length).

        phase: None draws each row's with probability one half, so that pooled pairs follow Eq. 48-52; 0
        starts every row with the first symbol of a pair, 1 with the second. Raises ValueError otherwise.
        Cost O(n length).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        if plain_array(phase, "phase").ndim or phase not in (None, 0, 1) or isinstance(phase, bool | np.bool_):
            raise ValueError(f"phase: None, 0 or 1 is allowed, got {phase!r}")
        random = generator(seed)
        phases = random.integers(0, 2, size=rows) if phase is None else np.full(rows, int(phase))
        pairs = columns // 2 + 1
        first = (random.random((rows, pairs)) >= self.p).astype(np.uint8)
        symbols = np.stack([first, 1 - first], axis=2).reshape(rows, 2 * pairs)
        # A row that starts within a pair drops the first symbol.
        late = phases[:, None] == 1
        return np.where(late, symbols[:, 1 : columns + 1], symbols[:, :columns]).astype(np.uint8)

    def _excess(self, lags: NDArray[np.int64]) -> NDArray[np.float64]:
        """2 P(equal) - 1, which is (1-2p)^2 for like places."""
        like_places = (1.0 - 2.0 * self.p) ** 2
        beyond = np.where(lags % 2 == 0, like_places, -like_places)
        return np.where(lags == 0, 1.0, np.where(lags == 1, 2.0 * self.p * (1.0 - self.p) - 1.0, beyond))


class IdenticalTokens:
    """All tokens of a sequence are the same, drawn uniformly from M: p(w_1, ..., w_L) = 1(w_1 = ... = w_L) / M.

    vocabulary: M >= 1 tokens; ValueError otherwise. Source: L2M (2025), Sec. 4.4. It is also the Markov chain whose
    transition matrix is the identity, started from the uniform distribution.
    """

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = whole_number(vocabulary, "vocabulary", 1)

    def __repr__(self) -> str:
        return f"IdenticalTokens({self.vocabulary})"

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """ln M nats at every whole lag >= 0, any shape; ValueError for other lags."""
        return np.full(whole_lags(lags).shape, np.log(self.vocabulary))[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """ln M nats between the first `splits` tokens (default: half) and the rest of `lengths`, common shape.

        Raises ValueError unless 1 <= split < length.
        """
        first, _ = block_lengths(lengths, splits)
        return np.full(first.shape, np.log(self.vocabulary))[()]

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.unsignedinteger[Any]]:
        """n independent sequences (n, length) of tokens 0 .. M - 1, uint8 up to M = 256.

        Raises ValueError for n or length < 1 or a bad seed. Cost O(n length).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        tokens = generator(seed).integers(0, self.vocabulary, size=rows)
        kind = np.min_scalar_type(self.vocabulary - 1)
        return np.repeat(tokens.astype(kind)[:, None], columns, axis=1)


def _one_lag(lag: int) -> NDArray[np.int64]:
    whole = whole_lags(lag, name="lag")
    if whole.ndim:
        raise ValueError(f"lag: one whole number >= 0 is allowed, got shape {whole.shape}")
    return whole
