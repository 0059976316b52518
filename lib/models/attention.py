"""Softmax attention, full, in a sliding window or sparse: keys and values of the past are the state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.attention_patterns import FixedStride, Full, Pattern, Strided, Window
from lib.models.base import Module, SequenceModel, glorot_linear, head_width, seeded
from lib.models.block import Block, norm_of
from lib.processes.checks import whole_number

SPARSE: dict[str, type[FixedStride] | type[Strided]] = {"fixed": FixedStride, "strided": Strided}


class KeyValueCache(NamedTuple):
    keys: Tensor  # (batch, heads, kept, head width)
    values: Tensor  # the same shape
    position: int  # tokens read so far: says which positions the kept keys have


class Attention(Module):
    """y_t = sum_j softmax_j(q_t . k_j / sqrt(head width)) v_j over the positions j that t attends to: L2M, Eq. C.26."""

    def __init__(self, width: int, heads: int, pattern: Pattern) -> None:
        super().__init__()
        self.width, self.heads, self.pattern = width, heads, pattern
        self.head_width = head_width(width, heads)
        self.in_proj = glorot_linear(width, 3 * width)
        self.out_proj = glorot_linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self._heads(x)  # (batch, heads, time, head width)
        if isinstance(self.pattern, Full):
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            place = np.arange(x.shape[1])
            mask = torch.from_numpy(self.pattern.attends(place[:, None], place)).to(x.device)  # (time, time)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def initial_state(self, batch: int) -> KeyValueCache:
        none = self.out_proj.weight.new_zeros(batch, self.heads, 0, self.head_width)
        return KeyValueCache(none, none, 0)

    def step(self, x: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        q, k, v = self._heads(x[:, None])  # (batch, heads, 1, head width)
        keys = torch.cat([state.keys, k], dim=2)  # (batch, heads, kept + 1, head width)
        values = torch.cat([state.values, v], dim=2)
        now = state.position
        held = np.append(self.pattern.kept(now), now)
        scores = q @ keys.transpose(-2, -1) / self.head_width**0.5  # (batch, heads, 1, kept + 1)
        unseen = torch.from_numpy(~self.pattern.attends(now, held)).to(x.device)
        mixed = scores.masked_fill(unseen, -torch.inf).softmax(dim=-1) @ values
        needed = np.flatnonzero(np.isin(held, self.pattern.kept(now + 1)))
        if needed.size < held.size:
            index = torch.from_numpy(needed).to(x.device)
            keys, values = keys[:, :, index], values[:, :, index]
        return self.out_proj(mixed.flatten(1)), KeyValueCache(keys, values, now + 1)

    def state_size(self, length: int) -> int:
        return 2 * self.width * self.pattern.kept_count(length)

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.in_proj(x).unflatten(-1, (3, self.heads, self.head_width))  # (batch, time, 3, heads, head width)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        return q, k, v


class _AttentionModel(SequenceModel):
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
    ) -> None:
        hidden = 4 * width if feed_forward is None else feed_forward
        with seeded(seed):
            layers = [
                Block(Attention(width, heads, pattern), width, placement=placement, feed_forward=hidden)
                for _ in range(whole_number(depth, "depth", 1))
            ]
            norm = norm_of(width) if placement == "pre" else None
            super().__init__(vocabulary, width, layers, width, norm=norm, positions=True)


class Transformer(_AttentionModel):
    """Attention to the whole past (Vaswani et al. 2017; Shen 2019, App. E.2), additive sinusoidal positions.

    placement: "pre" or "post", of the norms. feed_forward: its hidden width, 4 width by default, 0 for none.
    State after l tokens: keys and values of all of them, 2 x depth x width x l numbers, and the position.
    Raises ValueError for a width that the heads do not divide.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        heads: int = 4,
        placement: str = "pre",
        feed_forward: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(Full(), vocabulary, width, depth, heads, placement, feed_forward, seed)


class SlidingWindowTransformer(_AttentionModel):
    """A Transformer that attends to the last `window` tokens, this one among them; a step costs O(window).

    State: 2 x depth x width x min(l, window - 1) numbers, and the position.
    """

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
