"""Linear attention: with a kernel in place of the softmax, keys and values add up to a state of fixed size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lib.checks import whole_number
from lib.models.base import Module, SequenceModel, glorot_linear, head_width, seeded
from lib.models.block import Block, norm_of


class LinearAttentionState(NamedTuple):
    memory: Tensor  # (batch, heads, head width, head width): sum of f(k_j) v_j^T
    normaliser: Tensor  # (batch, heads, head width): sum of f(k_j)


class LinearAttentionMixer(Module):
    """y_t = sum_{j<=t} (f(q_t) . f(k_j)) v_j / sum_{j<=t} f(q_t) . f(k_j),  f(x) = elu(x) + 1 > 0."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        self.in_proj = glorot_linear(width, 3 * width)
        self.out_proj = glorot_linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.in_proj(x).unflatten(-1, (3, self.heads, self.head_width))  # (batch, time, 3, heads, head width)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, head width)
        weights = (_feature(q) @ _feature(k).transpose(-2, -1)).tril()  # (batch, heads, time, time)
        mixed = weights @ v / weights.sum(dim=-1, keepdim=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def initial_state(self, batch: int) -> LinearAttentionState:
        zeros = self.out_proj.weight.new_zeros(batch, self.heads, self.head_width, self.head_width)
        return LinearAttentionState(zeros, zeros[..., 0])

    def step(self, x: Tensor, state: LinearAttentionState) -> tuple[Tensor, LinearAttentionState]:
        q, k, v = (
            self.in_proj(x).unflatten(-1, (3, self.heads, self.head_width)).unbind(1)
        )  # (batch, heads, head width)
        q, k = _feature(q), _feature(k)
        memory = state.memory + k[..., :, None] * v[..., None, :]
        normaliser = state.normaliser + k
        read = torch.einsum("bhk,bhkv->bhv", q, memory)
        mixed = read / (q * normaliser).sum(dim=-1, keepdim=True)
        return self.out_proj(mixed.flatten(1)), LinearAttentionState(memory, normaliser)

    def state_size(self, length: int) -> int:
        return self.width * (self.head_width + 1)


def _feature(x: Tensor) -> Tensor:
    return F.elu(x) + 1.0


class LinearTransformer(SequenceModel):
    """A Transformer with linear attention (Katharopoulos et al. 2020), additive sinusoidal positions.

    State: depth x width x (width / heads + 1) numbers whatever the length, and the position. The parallel form costs
    O(time^2), a step O(width^2).
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
        hidden = 4 * width if feed_forward is None else feed_forward
        with seeded(seed):
            layers = [
                Block(LinearAttentionMixer(width, heads), width, placement=placement, feed_forward=hidden)
                for _ in range(whole_number(depth, "depth", 1))
            ]
            norm = norm_of(width) if placement == "pre" else None
            super().__init__(vocabulary, width, layers, width, norm=norm, positions=True)
