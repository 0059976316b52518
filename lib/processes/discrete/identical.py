"""Sequences of one token, repeated: the same information at every distance and between any two blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths


class IdenticalTokens:
    """All tokens of a sequence are the same, drawn uniformly from M: p(w_1, ..., w_L) = 1(w_1 = ... = w_L) / M.

    vocabulary: M >= 1 tokens; ValueError otherwise. Source: L2M (2025), Sec. 4.4. It is also the Markov chain whose
    transition matrix is the identity, started from the uniform law.
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
