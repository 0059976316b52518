"""Attention whose state has a fixed size.

Linear attention has a kernel in place of the softmax, so that keys and values add up. In test-time training the state
is a linear model that takes one gradient step at every token (Sun et al. 2024).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.models.base import BlockModel, Module, glorot_linear, head_width


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
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.heads, self.head_width)).unbind(1)
        q, k = _feature(q), _feature(k)  # (batch, heads, head width)
        memory = state.memory + k[..., :, None] * v[..., None, :]
        normaliser = state.normaliser + k
        read = torch.einsum("bhk,bhkv->bhv", q, memory)
        mixed = read / (q * normaliser).sum(dim=-1, keepdim=True)
        return self.out_proj(mixed.flatten(1)), LinearAttentionState(memory, normaliser)

    def state_size(self, length: int) -> int:
        return self.width * (self.head_width + 1)


def _feature(x: Tensor) -> Tensor:
    return F.elu(x) + 1.0


class LinearTransformer(BlockModel):
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
        mixer = partial(LinearAttentionMixer, width, heads)
        super().__init__(mixer, vocabulary, width, depth, seed, placement, feed_forward, positions=True)


class FastWeights(NamedTuple):
    weights: Tensor  # (batch, heads, head width, head width)


class TTTLinearMixer(Module):
    """W_t = W_{t-1} - eta_t dl/dW,  l = |W k_t - v_t|^2 / 2;  y_t = W_t q_t, in every head.

    Keys have length one and 0 < eta_t < 1, so that no step overshoots. The inner model is the bare linear map: the
    layer norm and the residual that Sun et al. put into it are left out, which makes the parallel form below exact.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        self.in_proj = glorot_linear(width, 3 * width)
        self.rate = glorot_linear(width, heads)
        self.initial_weights = nn.Parameter(torch.randn(heads, self.head_width, self.head_width) * 0.02)
        self.out_proj = glorot_linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """All inner steps at once: with W_t = W_0 + sum_{s<=t} u_s k_s^T, the gradient steps u_s solve

        u_t + eta_t sum_{s<t} (k_t . k_s) u_s = eta_t (v_t - W_0 k_t),  a triangular system.
        """
        q, k, v, rate = self._heads(x)  # (batch, heads, time, head width), rate (batch, heads, time, 1)
        start = self.initial_weights.transpose(-2, -1)
        system = torch.eye(x.shape[1], dtype=x.dtype, device=x.device) + (rate * (k @ k.transpose(-2, -1))).tril(-1)
        steps = torch.linalg.solve_triangular(system, rate * (v - k @ start), upper=False, unitriangular=True)
        mixed = q @ start + (q @ k.transpose(-2, -1)).tril() @ steps
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def initial_state(self, batch: int) -> FastWeights:
        return FastWeights(self.initial_weights.expand(batch, -1, -1, -1))

    def step(self, x: Tensor, state: FastWeights) -> tuple[Tensor, FastWeights]:
        q, k, v, rate = (part[:, :, 0] for part in self._heads(x[:, None]))
        error = torch.einsum("bhij,bhj->bhi", state.weights, k) - v
        weights = state.weights - (rate * error)[..., :, None] * k[..., None, :]
        mixed = torch.einsum("bhij,bhj->bhi", weights, q)
        return self.out_proj(mixed.flatten(1)), FastWeights(weights)

    def state_size(self, length: int) -> int:
        return self.width * self.head_width

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        parts = self.in_proj(x).unflatten(-1, (3, self.heads, self.head_width))  # (batch, time, 3, heads, head width)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        return q, F.normalize(k, dim=-1), v, self.rate(x).sigmoid().transpose(1, 2)[..., None]


class TTTLinear(BlockModel):
    """`depth` blocks of test-time training with a linear inner model and a mini-batch of one token.

    State: the fast weights, depth x width x width / heads numbers, whatever the length.
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
        mixer = partial(TTTLinearMixer, width, heads)
        super().__init__(mixer, vocabulary, width, depth, seed, placement, feed_forward)
