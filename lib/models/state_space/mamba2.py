"""Mamba2: one decay for all channels of a head, so that the scan is matrix products (Dao and Gu 2024)."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import BlockModel, Module, norm_of
from lib.models.kernels.convolution import convolve, convolve_step, depthwise
from lib.models.kernels.scan import scalar_decay_scan
from lib.models.state_space.mamba import LARGEST_STEP, SMALLEST_STEP, inverse_softplus, log_uniform


class Mamba2State(NamedTuple):
    window: Tensor  # (batch, inner width + 2 size, kernel - 1): inputs of the convolution
    ssm: Tensor  # (batch, heads, head width, size)


class Mamba2Mixer(Module):
    """S_t = exp(dt a) S_{t-1} + dt u_t B_t^T,  y_t = S_t C_t + D u_t in every head; dt, B, C come with u from in_proj.

    Parameters have the names, shapes and order of `mamba_ssm.Mamba2` with one group.
    """

    def __init__(self, width: int, size: int = 64, kernel: int = 4, expand: int = 2, head_width: int = 64) -> None:
        super().__init__()
        self.inner, self.size, self.kernel, self.head_width = expand * width, size, kernel, head_width
        if self.inner % head_width:
            raise ValueError(f"head_width: a divisor of expand x width = {self.inner} is allowed, got {head_width}")
        self.heads = self.inner // head_width
        self.channels = self.inner + 2 * size  # u, B and C go through the convolution together
        self.in_proj = nn.Linear(width, self.inner + self.channels + self.heads, bias=False)
        self.conv1d = depthwise(self.channels, kernel)
        self.dt_bias = nn.Parameter(inverse_softplus(log_uniform(self.heads, SMALLEST_STEP, LARGEST_STEP)))
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1.0, 16.0).log())
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = norm_of(self.inner, rms=True)
        self.out_proj = nn.Linear(self.inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, mixed, dt = self._project(x)
        u, dt, B, C = self._selection(convolve(self.conv1d, mixed), dt)  # u (batch, time, heads, head width)
        y = scalar_decay_scan(u, dt, -self.A_log.exp(), B, C, self.D)
        return self._out(y, gate)

    def initial_state(self, batch: int) -> Mamba2State:
        zeros = self.D.new_zeros
        window = zeros(batch, self.channels, self.kernel - 1)
        return Mamba2State(window, zeros(batch, self.heads, self.head_width, self.size))

    def step(self, x: Tensor, state: Mamba2State) -> tuple[Tensor, Mamba2State]:
        gate, mixed, dt = self._project(x)
        mixed, window = convolve_step(self.conv1d, mixed, state.window)
        u, dt, B, C = self._selection(mixed, dt)  # u (batch, heads, head width), dt (batch, heads), B, C (batch, size)
        decay = (dt * -self.A_log.exp()).exp()
        ssm = decay[..., None, None] * state.ssm + torch.einsum("bh,bhp,bn->bhpn", dt, u, B)
        y = torch.einsum("bhpn,bn->bhp", ssm, C) + self.D[:, None] * u
        return self._out(y, gate), Mamba2State(window, ssm)

    def state_size(self, length: int) -> int:
        return self.inner * self.size + self.channels * (self.kernel - 1)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gate, mixed, dt = self.in_proj(x).split([self.inner, self.channels, self.heads], dim=-1)
        return gate, mixed, dt

    def _selection(self, mixed: Tensor, dt: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u, B, C = mixed.split([self.inner, self.size, self.size], dim=-1)
        return u.unflatten(-1, (self.heads, self.head_width)), F.softplus(dt + self.dt_bias), B, C

    def _out(self, y: Tensor, gate: Tensor) -> Tensor:
        return self.out_proj(self.norm(y.flatten(-2) * F.silu(gate)))


class Mamba2(BlockModel):
    """`depth` residual blocks of Mamba2 with RMS norm and no feed-forward.

    size: numbers of state a channel; head_width: channels a head, a divisor of expand x width, by default the greatest
    that also divides 64. State: depth x (expand x width x size + (expand x width + 2 size) x (kernel - 1)) numbers,
    whatever the length.
    """

    variants = ({"size": 3, "head_width": 4},)

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        size: int = 64,
        kernel: int = 4,
        expand: int = 2,
        head_width: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        inner = whole_number(expand, "expand", 1) * whole_number(width, "width", 1)
        channels = math.gcd(64, inner) if head_width is None else whole_number(head_width, "head_width", 1)
        mixer = partial(
            Mamba2Mixer, width, whole_number(size, "size", 1), whole_number(kernel, "kernel", 1), expand, channels
        )
        super().__init__(mixer, vocabulary, width, depth, seed, rms=True)
