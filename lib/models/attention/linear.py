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

CHUNK, SYSTEM = 16, 64  # tokens that are mixed by one matrix product, and inner steps that are solved for together


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
        summed = causal_products(_feature(q), _feature(k), F.pad(v, (0, 1), value=1.0))  # the column of ones: weights
        return self.out_proj((summed[..., :-1] / summed[..., -1:]).transpose(1, 2).flatten(2))

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
    return torch.where(x > 0.0, x + 1.0, x.clamp(max=0.0).exp())  # elu(x) + 1 would round to 0 below -17


def causal_products(q: Tensor, k: Tensor, v: Tensor, chunk: int = CHUNK) -> Tensor:
    """sum_{j<=t} (q_t . k_j) v_j for q, k (batch, heads, time, size) and v (batch, heads, time, width), shape of v.

    Within a chunk it is a triangle of weights; all chunks before it are one matrix, the sum of their k_j v_j^T.
    Cost O(time x (chunk + size) x width). Source: Yang et al. (2024), Sec. 2.2, without gates.
    """
    time = q.shape[2]
    if time <= chunk:
        return (q @ k.transpose(-2, -1)).tril() @ v
    q, k, v = (F.pad(x, (0, 0, 0, -time % chunk)).unflatten(2, (-1, chunk)) for x in (q, k, v))
    before = F.pad((k.transpose(-2, -1) @ v).cumsum(dim=2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
    return ((q @ k.transpose(-2, -1)).tril() @ v + q @ before).flatten(2, 3)[:, :, :time]


class LinearTransformer(BlockModel):
    """A Transformer with linear attention (Katharopoulos et al. 2020), additive sinusoidal positions.

    State: depth x width x (width / heads + 1) numbers whatever the length, and the position. The parallel form costs
    O(time x width^2) as the steps do, see `causal_products`.
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
        """A chunk of inner steps at once: from W_0 at its start, W_t = W_0 + sum_{s<=t} u_s k_s^T, and the u_s solve

        u_t + eta_t sum_{s<t} (k_t . k_s) u_s = eta_t (v_t - W_0 k_t),  a triangular system.
        """
        weights, mixed = self.initial_weights.transpose(-2, -1), []
        # q, k and v (batch, heads, chunk, head width), rate (batch, heads, chunk, 1)
        for q, k, v, rate in zip(*(part.split(SYSTEM, dim=2) for part in self._heads(x)), strict=True):
            system = (rate * (k @ k.transpose(-2, -1))).tril(-1)  # its diagonal counts as ones
            steps = unit_lower_solution(system, rate * (v - k @ weights))
            mixed.append(q @ weights + (q @ k.transpose(-2, -1)).tril() @ steps)
            weights = weights + k.transpose(-2, -1) @ steps
        return self.out_proj(torch.cat(mixed, dim=2).transpose(1, 2).flatten(2))

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


def unit_lower_solution(matrix: Tensor, right: Tensor) -> Tensor:
    """X with (I + L) X = right, L the part of a matrix below its diagonal; (..., n, n) and (..., n, m) -> (..., n, m).

    In float32 at least, since torch has no such solution of narrower numbers; of the type of `right`.
    """
    wide = torch.promote_types(torch.promote_types(matrix.dtype, right.dtype), torch.float32)
    solved = torch.linalg.solve_triangular(matrix.to(wide), right.to(wide), upper=False, unitriangular=True)
    return solved.to(right.dtype)


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
