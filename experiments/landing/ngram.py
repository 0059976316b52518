"""An n-gram model with the interface of the networks: what it carries are the last n - 1 tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number


class NgramModel:
    """P(next | last n - 1 tokens) = (count + 1) / (total + K), from a table of counts; after fewer tokens of these.

    State: the last n - 1 tokens, (batch, at most n - 1). vocabulary: K. Raises ValueError for order < 2.
    """

    def __init__(self, order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = whole_number(order, "order", 2), whole_number(vocabulary, "vocabulary", 1)
        self._counts: dict[bytes, NDArray[np.int64]] = {}

    def count(self, tokens: NDArray[np.integer]) -> None:
        """Add the n-grams of a text, (time,), and its beginning."""
        text = np.asarray(tokens, dtype=np.int64)
        for place in range(1, len(text)):
            context = text[max(0, place - self.order + 1) : place].tobytes()
            self._counts.setdefault(context, np.zeros(self.vocabulary, dtype=np.int64))[text[place]] += 1

    def initial_state(self, batch: int) -> Tensor:
        return torch.empty(batch, 0, dtype=torch.int64)

    def step(self, token: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (batch, vocabulary) of the token after `token` (batch,), and the state that has read it."""
        after = torch.cat([state, token[:, None]], dim=1)[:, 1 - self.order :]
        nothing = np.zeros(self.vocabulary, dtype=np.int64)
        counts = np.stack([self._counts.get(row.tobytes(), nothing) for row in after.numpy()]) + 1
        return torch.from_numpy(np.log(counts / counts.sum(axis=1, keepdims=True))), after

    def state_size(self, length: int) -> int:
        """Tokens in the state after `length`."""
        return min(whole_number(length, "length", 0), self.order - 1)
