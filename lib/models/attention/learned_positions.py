"""A Transformer that learns what a position is, as GPT2 does."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.attention.patterns import Full
from lib.models.attention.transformer import Attention
from lib.models.base import SequenceModel, State, seeded
from lib.models.block import Block, norm_of


class LearnedPositionTransformer(SequenceModel):
    """logits = head(norm(blocks(embedding(w_t) + table(t)))), with pre-norm blocks: the layers of GPT2.

    longest: positions that are learned; longer sequences raise ValueError. spread: standard deviation of the normal
    numbers that embedding and table start with, 0.02 in GPT2. Unlike there, the head has weights of its own and the
    other weights start Glorot uniform.
    State after l tokens: keys and values of all of them, 2 x depth x width x l numbers, and the position.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        longest: int = 1024,
        heads: int = 4,
        spread: float = 0.02,
        seed: int | np.random.Generator = 0,
    ) -> None:
        with seeded(seed):
            layers = [
                Block(Attention(width, heads, Full()), width, feed_forward=4 * width)
                for _ in range(whole_number(depth, "depth", 1))
            ]
            super().__init__(vocabulary, width, layers, width, norm=norm_of(width))
            self.table = nn.Embedding(whole_number(longest, "longest", 1), width)
            if not spread > 0:
                raise ValueError(f"spread: a number above 0 is allowed, got {spread!r}")
            for part in (self.embedding, self.table):
                nn.init.normal_(part.weight, std=spread)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self._embed(tokens, 2)
        x = x + self.table.weight[: self._within(x.shape[1])]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def initial_state(self, batch: int) -> State:
        return State(super().initial_state(batch).layers, 0)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        read = self._within((state.position or 0) + 1)
        x = self._embed(token, 1) + self.table.weight[read - 1]
        after = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x, kept = layer.step(x, before)
            after.append(kept)
        return self.head(self.norm(x)), State(tuple(after), read)

    def _within(self, length: int) -> int:
        if length > self.table.num_embeddings:
            raise ValueError(f"tokens: {self.table.num_embeddings} positions are learned, got {length}")
        return length
