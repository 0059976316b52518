"""The Santa Fe process: sequences of symbols whose bipartite information is a power of their length by construction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from lib.checks import generator, plain_array, real_number, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths


class SantaFeProcess:
    """x_t = (k_t, z_{k_t}): a topic k_t drawn anew each time, and a fact about it that never changes in one sequence.

    Topics are independent with P(k) proportional to k^(-1/exponent), k = 1 .. topics; the facts z_k are uniform on
    `values` values, a bit by default, drawn once per sequence. Two blocks share what both say about the same topics,
    which for endless topics grows like L^exponent (Debowski, IEEE Trans. Inf. Theory 57, 4589, 2011); two symbols share
    the same at every distance.

    exponent: 0 < beta < 1. topics: whole number >= 1; the power law ends when the rarest of them is usually seen.
    values: whole number >= 2. Symbol values (k - 1) + z_k. Raises ValueError otherwise.
    """

    def __init__(self, exponent: float, topics: int = 4096, values: int = 2) -> None:
        self.exponent = real_number(exponent, "exponent")
        if not 0.0 < self.exponent < 1.0:
            raise ValueError(f"exponent: 0 < exponent < 1 is allowed, got {exponent!r}")
        self.topics, self.values = whole_number(topics, "topics", 1), whole_number(values, "values", 2)
        weights = np.arange(1.0, self.topics + 1.0) ** (-1.0 / self.exponent)
        self.topic_law: NDArray[np.float64] = weights / weights.sum()

    def __repr__(self) -> str:
        values = "" if self.values == 2 else f", values={self.values}"
        return f"SantaFeProcess({self.exponent!r}, topics={self.topics}{values})"

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact information of two symbols, ln V sum_k P(k)^2 nats at any lag >= 1 (lag 0: the entropy), any shape."""
        whole = whole_lags(lags)
        shared = np.log(self.values) * float(self.topic_law @ self.topic_law)
        return np.asarray(np.where(whole == 0, self.entropy(1), shared))[()]

    def entropy(self, lengths: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact entropy of L symbols in a row, L H(k) + ln V sum_k (1 - (1 - P(k))^L) nats, any shape of L >= 0."""
        whole = whole_lags(lengths, name="lengths")
        topics = -float(np.sum(xlogy(self.topic_law, self.topic_law)))
        return np.asarray(whole * topics + np.log(self.values) * self._seen(whole).sum(axis=-1))[()]

    def bipartite_mutual_information(
        self, lengths: ArrayLike, splits: ArrayLike | None = None
    ) -> np.float64 | NDArray[np.float64]:
        """ln V times the expected number of topics that both blocks mention, in nats, common shape; V values.

        I(l; L - l) = ln V sum_k (1 - (1 - P(k))^l) (1 - (1 - P(k))^(L - l)). splits: l, half by default.
        Raises ValueError unless 1 <= split < length. Cost O(topics) each.
        """
        first, second = block_lengths(lengths, splits)
        return np.asarray(np.log(self.values) * (self._seen(first) * self._seen(second)).sum(axis=-1))[()]

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.unsignedinteger[Any]]:
        """n independent sequences (n, length) of symbols 0 .. values topics - 1. O(n length log length)."""
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        random = generator(seed)
        topics = np.minimum(
            np.searchsorted(np.cumsum(self.topic_law), random.random((rows, columns)), side="right"), self.topics - 1
        )
        facts = random.integers(0, self.values, size=(rows, columns))
        order, grouped, known = mentions(topics)
        first = np.maximum.accumulate(np.where(known, 0, np.arange(columns)), axis=1)  # where its group begins
        said = np.take_along_axis(np.take_along_axis(facts, order, axis=1), first, axis=1)
        symbols = np.empty((rows, columns), dtype=np.min_scalar_type(self.values * self.topics - 1))
        np.put_along_axis(symbols, order, (self.values * grouped + said).astype(symbols.dtype), axis=1)
        return symbols

    def log_probabilities(self, sequences: ArrayLike) -> NDArray[np.float64]:
        """ln p(x_i | x_<i) in nats at every position of every row, (n, length).

        ln P(k) - ln V where topic k is new, ln P(k) where the fact repeats what was said about it, -inf where it
        contradicts. Raises ValueError for other symbols or shapes. O(n length log length).
        """
        symbols = plain_array(sequences, "sequences")
        if symbols.ndim != 2 or symbols.dtype.kind not in "iu" or symbols.size == 0:
            raise ValueError(f"sequences: integers (n, length) are allowed, got {symbols.shape} of {symbols.dtype}")
        if symbols.min() < 0 or symbols.max() >= self.values * self.topics:
            most = self.values * self.topics - 1
            raise ValueError(f"sequences: symbols 0 .. {most} are allowed, got {symbols.min()} .. {symbols.max()}")
        topics, facts = np.divmod(symbols.astype(np.int64), self.values)
        order, _, known = mentions(topics)
        said = np.take_along_axis(facts, order, axis=1)
        # a topic contradicted once has probability zero from there on; later symbols are then judged by the last fact
        contradicted = known.copy()
        contradicted[:, 1:] &= said[:, 1:] != said[:, :-1]
        fact = np.where(contradicted, -np.inf, np.where(known, 0.0, -np.log(self.values)))
        logarithms = np.empty(symbols.shape)
        np.put_along_axis(logarithms, order, fact, axis=1)
        # ln P(k) from P(1), which never underflows
        return np.asarray(logarithms + (np.log(self.topic_law[0]) - np.log(topics + 1.0) / self.exponent))

    def _seen(self, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability that a topic is mentioned among so many symbols, shape of `lengths` + (topics,)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a lone topic: ln 0, and 0 ln 0 for no symbols
            missed = np.multiply.outer(lengths, np.log1p(-self.topic_law))
        return np.asarray(np.where(lengths[..., None] > 0, -np.expm1(missed), 0.0))


def mentions(topics: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The order that groups mentions of a topic, earliest first, the topics in that order, and which are repeats.

    topics: (n, length), and so is each of the three, by rows. O(n length log length).
    """
    order = np.argsort(topics, axis=1, kind="stable")
    grouped = np.take_along_axis(topics, order, axis=1)
    known = np.zeros(topics.shape, dtype=np.bool_)
    known[:, 1:] = grouped[:, 1:] == grouped[:, :-1]
    return order, grouped, known
