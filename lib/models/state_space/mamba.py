"""Mamba: a state space model whose time step and maps depend on the token (Gu and Dao 2023)."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import BlockModel, Module
from lib.models.kernels.convolution import convolve, convolve_step, depthwise
from lib.models.kernels.scan import selective_scan

SMALLEST_STEP, LARGEST_STEP = 1e-3, 1e-1  # of the initial time steps


class MambaState(NamedTuple):
    window: Tensor  # (batch, inner width, kernel - 1): inputs of the convolution
    ssm: Tensor  # (batch, inner width, size)


class MambaMixer(Module):
    """s_t = exp(dt A) s_{t-1} + dt B_t u_t,  y_t = C_t . s_t + D u_t, gated; dt, B, C are linear in u_t.

    Parameters have the names, shapes and order of `mamba_ssm.Mamba`.
    """

    def __init__(self, width: int, size: int = 16, kernel: int = 4, expand: int = 2, rank: int | None = None) -> None:
        super().__init__()
        self.inner, self.size, self.kernel = expand * width, size, kernel
        self.rank = math.ceil(width / 16) if rank is None else rank
        self.in_proj = nn.Linear(width, 2 * self.inner, bias=False)
        self.conv1d = depthwise(self.inner, kernel)
        self.x_proj = nn.Linear(self.inner, self.rank + 2 * size, bias=False)
        self.dt_proj = nn.Linear(self.rank, self.inner)
        nn.init.uniform_(self.dt_proj.weight, -(self.rank**-0.5), self.rank**-0.5)
        self.dt_proj.bias.data.copy_(inverse_softplus(log_uniform(self.inner, SMALLEST_STEP, LARGEST_STEP)))
        self.A_log = nn.Parameter(torch.arange(1.0, size + 1.0).log().repeat(self.inner, 1))
        self.D = nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.in_proj(x).chunk(2, dim=-1)  # (batch, time, inner)
        u = convolve(self.conv1d, u)
        dt, B, C = self._selection(u)
        y = selective_scan(u, dt, -self.A_log.exp(), B, C, self.D)
        return self.out_proj(y * F.silu(gate))

    def initial_state(self, batch: int) -> MambaState:
        zeros = self.D.new_zeros
        return MambaState(zeros(batch, self.inner, self.kernel - 1), zeros(batch, self.inner, self.size))

    def step(self, x: Tensor, state: MambaState) -> tuple[Tensor, MambaState]:
        u, gate = self.in_proj(x).chunk(2, dim=-1)  # (batch, inner)
        u, window = convolve_step(self.conv1d, u, state.window)
        dt, B, C = self._selection(u)
        ssm = self._advance(state.ssm, u, dt, B)
        y = torch.einsum("bdn,bn->bd", ssm, C) + self.D * u
        return self.out_proj(y * F.silu(gate)), MambaState(window, ssm)

    def state_size(self, length: int) -> int:
        return self.inner * (self.size + self.kernel - 1)

    def _selection(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dt (..., inner), B (..., size), C (..., size)."""
        dt, B, C = self.x_proj(u).split([self.rank, self.size, self.size], dim=-1)
        return F.softplus(self.dt_proj(dt)), B, C

    def _advance(self, state: Tensor, u: Tensor, dt: Tensor, B: Tensor) -> Tensor:
        decay = (dt[..., None] * -self.A_log.exp()).exp()  # (batch, inner, size)
        return decay * state + (dt * u)[..., None] * B[:, None]


class Mamba(BlockModel):
    """`depth` residual blocks of Mamba with RMS norm and no feed-forward, as in the paper.

    size: numbers of state an inner channel (16 there); kernel: of the convolution; expand: inner / outer width.
    State: depth x expand x width x (size + kernel - 1) numbers, whatever the length. The convolution's k - 1 inputs
    count: output depends on them, and on nothing but them of what the convolution has seen. dropout, tied: as
    `SequenceModel` has them.
    """

    variants = ({}, {"size": 3}, {"size": 3, "kernel": 1}, {"size": 3, "tied": True})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        size: int = 16,
        kernel: int = 4,
        expand: int = 2,
        dropout: float = 0.0,
        tied: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        for name, value in (("width", width), ("size", size), ("kernel", kernel), ("expand", expand)):
            whole_number(value, name, 1)
        mixer = partial(MambaMixer, width, size, kernel, expand)
        super().__init__(mixer, vocabulary, width, depth, seed, rms=True, dropout=dropout, tied=tied)


def log_uniform(count: int, low: float, high: float) -> Tensor:
    """Random numbers whose logarithm is uniform between those of low and high."""
    return (torch.rand(count) * (math.log(high) - math.log(low)) + math.log(low)).exp()


def inverse_softplus(x: Tensor) -> Tensor:
    """y with ln(1 + e^y) = x, without overflow."""
    return x + torch.log(-torch.expm1(-x))
