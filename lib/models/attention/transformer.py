"""Softmax attention, full, in a sliding window or sparse: keys and values of the past are the state.

Positions are told apart by sinusoids that are added, by rotations of queries and keys, or learned, as GPT2 does.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from lib.checks import truth_value, whole_number
from lib.models.attention.patterns import FixedStride, Full, KeyValueCache, Pattern, Strided, Window, extended
from lib.models.base import (
    Block,
    BlockModel,
    Module,
    SequenceModel,
    glorot_linear,
    head_width,
    norm_of,
    seeded,
)
from lib.models.kernels.attention import causal_attention, split_heads, torch_attention
from lib.models.states import State, read, stepped

ADDED, ROTARY, _ = POSITIONS = ("sinusoidal", "rotary", "none")
SPARSE: dict[str, type[FixedStride] | type[Strided]] = {"fixed": FixedStride, "strided": Strided}


class Attention(Module):
    """y_t = sum_j softmax_j(q_t . k_j / sqrt(head width)) v_j over the positions j that t attends to: L2M, Eq. C.26.

    rotary: q_t and k_j are turned by their positions (`turned`), so that q_t . k_j depends on t - j beside the inputs.
    Raises ValueError for rotary heads of odd width.
    """

    def __init__(self, width: int, heads: int, pattern: Pattern, rotary: bool = False) -> None:
        super().__init__()
        self.width, self.heads, self.pattern, self.rotary = width, heads, pattern, truth_value(rotary, "rotary")
        self.head_width = head_width(width, heads)
        if rotary and self.head_width % 2:
            raise ValueError(f"positions: rotary ones need heads of even width, got {heads} of width {self.head_width}")
        self.in_proj = glorot_linear(width, 3 * width)
        self.out_proj = glorot_linear(width, width)

    def _project(self, x: Tensor, start: int = 0) -> Tensor:
        """Queries, keys and values (batch, time, 3 width) of x (batch, time, width) from position `start` on."""
        projected = self.in_proj(x)
        return turned(projected, self.heads, start) if self.rotary else projected

    def forward(self, x: Tensor) -> Tensor:
        projected = self._project(x)
        if isinstance(self.pattern, Full | Window):
            window = self.pattern.size if isinstance(self.pattern, Window) else None
            return self.out_proj(causal_attention(projected, self.heads, window))
        place = np.arange(x.shape[1])
        mask = torch.from_numpy(self.pattern.attends(place[:, None], place)).to(x.device)  # (time, time)
        return self.out_proj(torch_attention(projected, self.heads, mask))

    def initial_state(self, batch: int) -> KeyValueCache:
        none = self.out_proj.weight.new_zeros(batch, self.heads, 0, self.head_width)
        return KeyValueCache(none, none, 0)

    def forward_from(self, x: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        if state.position or not isinstance(self.pattern, Full):
            return stepped(self, x, state)
        projected = self._project(x)
        _, k, v = split_heads(projected, self.heads)  # (batch, heads, time, head width)
        return self.out_proj(causal_attention(projected, self.heads)), KeyValueCache(k, v, x.shape[1])

    def step(self, x: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        q, k, v = split_heads(self._project(x[:, None], state.position), self.heads)  # (batch, heads, 1, head width)
        keys, values, after = extended(state, k, v, self.pattern)  # (batch, heads, kept + 1, head width)
        scores = (q / self.head_width**0.5) @ keys.transpose(-2, -1)  # (batch, heads, 1, kept + 1)
        if not self.pattern.reads_all:
            now = state.position
            unseen = ~self.pattern.attends(now, np.append(self.pattern.kept(now), now))
            scores = scores.masked_fill(torch.from_numpy(unseen).to(x.device), -torch.inf)
        mixed = scores.softmax(dim=-1) @ values
        return self.out_proj(mixed.flatten(1)), after

    def state_size(self, length: int) -> int:
        return 2 * self.width * self.pattern.kept_count(length)


def turned(projected: Tensor, heads: int, start: int) -> Tensor:
    """Queries and keys with each pair of numbers (2i, 2i + 1) of a head turned by t 10000^(-2i / head width), values as
    they are (Su et al. 2021, RoFormer, Eq. 34).

    projected (batch, time, 3 width), the first of them at position t = `start`. Turned so, q_t . k_j is what it is at
    t - j and 0: distances count, positions do not.
    """
    parts = projected.unflatten(-1, (3, heads, -1, 2))  # (batch, time, 3, heads, pairs, 2)
    time, pairs = parts.shape[1], parts.shape[4]
    rates = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64, device=projected.device) / pairs)
    place = torch.arange(start, start + time, dtype=torch.float64, device=projected.device)
    angles = (place[:, None] * rates)[:, None, None]  # (time, 1, 1, pairs), in float64 as those of `sinusoids`
    sine, cosine = angles.sin().to(projected.dtype), angles.cos().to(projected.dtype)
    x, y = parts[:, :, :2].unbind(-1)
    both = torch.stack([x * cosine - y * sine, x * sine + y * cosine], dim=-1)
    return torch.cat([both, parts[:, :, 2:]], dim=2).flatten(2)


class _AttentionModel(BlockModel):
    """`depth` blocks of attention with one pattern; what the paper leaves open are named choices."""

    def __init__(
        self,
        pattern: Pattern,
        vocabulary: int,
        width: int,
        depth: int,
        heads: int,
        placement: str,
        feed_forward: int | None,
        seed: int | np.random.Generator,
        dropout: float = 0.0,
        tied: bool = False,
        positions: str = ADDED,
    ) -> None:
        if positions not in POSITIONS:
            raise ValueError(f"positions: {', '.join(POSITIONS)} are allowed, got {positions!r}")
        mixer, added = partial(Attention, width, heads, pattern, positions == ROTARY), positions == ADDED
        shape = (vocabulary, width, depth, seed, placement, feed_forward)
        super().__init__(mixer, *shape, positions=added, dropout=dropout, tied=tied)


class Transformer(_AttentionModel):
    """Attention to the whole past (Vaswani et al. 2017; Shen 2019, App. E.2).

    positions: "sinusoidal", added to the embedding; "rotary", which turn queries and keys; or "none". placement: "pre"
    or "post", of the norms. feed_forward: its hidden width, 4 width by default, 0 for none. dropout, tied: as
    `SequenceModel` has them.
    State after l tokens: keys and values of all of them, 2 x depth x width x l numbers, and the position.
    Raises ValueError for a width that the heads do not divide, other positions, and rotary heads of odd width.
    """

    variants = (
        {},
        {"placement": "post"},
        {"feed_forward": 0, "heads": 1},
        {"tied": True},
        {"positions": "rotary"},
        {"positions": "none"},
    )

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        heads: int = 4,
        placement: str = "pre",
        feed_forward: int | None = None,
        dropout: float = 0.0,
        tied: bool = False,
        positions: str = ADDED,
        seed: int | np.random.Generator = 0,
    ) -> None:
        shape = (vocabulary, width, depth, heads, placement, feed_forward)
        super().__init__(Full(), *shape, seed, dropout, tied, positions)


class SlidingWindowTransformer(_AttentionModel):
    """A Transformer that attends to the last `window` tokens, this one among them; a step costs O(window).

    State: 2 x depth x width x min(l, window - 1) numbers, and the position.
    """

    variants = ({}, {"window": 5}, {"window": 1})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        window: int = 64,
        heads: int = 4,
        placement: str = "pre",
        feed_forward: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(Window(window), vocabulary, width, depth, heads, placement, feed_forward, seed)


class SparseTransformer(_AttentionModel):
    """A Transformer that attends to a window and to every stride-th position (Child et al. 2019).

    pattern: "fixed", the same columns for all (state about 2 x depth x width x l / stride numbers); or "strided",
    counted back from the present token (all keys are read again: 2 x depth x width x l). And the position.
    """

    variants = ({}, {"stride": 4, "window": 3}, {"stride": 4, "window": 3, "pattern": "strided"})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        stride: int = 16,
        window: int = 16,
        pattern: str = "fixed",
        heads: int = 4,
        placement: str = "pre",
        feed_forward: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        if pattern not in SPARSE:
            raise ValueError(f"pattern: {' or '.join(SPARSE)} is allowed, got {pattern!r}")
        chosen = SPARSE[pattern](stride, window)
        super().__init__(chosen, vocabulary, width, depth, heads, placement, feed_forward, seed)


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

    def forward_from(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        x = self._embed(tokens, 2)
        self._refuse_unfit(state, x)
        start = state.position or 0
        done = self._within(start + x.shape[1])
        x, after = x + self.table.weight[start:done], []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x, kept = read(layer, x, before)
            after.append(kept)
        return self.head(self.norm(x)), State(tuple(after), done)

    def initial_state(self, batch: int) -> State:
        return State(super().initial_state(batch).layers, 0)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        x = self._embed(token, 1)
        self._refuse_unfit(state, x)
        done = self._within((state.position or 0) + 1)
        x = x + self.table.weight[done - 1]
        after = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x, kept = layer.step(x, before)
            after.append(kept)
        return self.head(self.norm(x)), State(tuple(after), done)

    def _within(self, length: int) -> int:
        if length > self.table.num_embeddings:
            raise ValueError(f"tokens: {self.table.num_embeddings} positions are learned, got {length}")
        return length
