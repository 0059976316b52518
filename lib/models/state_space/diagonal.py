"""State space models with a diagonal transition (S4D): a convolution in parallel, a recurrence in steps."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import BlockModel, Module, glorot_linear

SPECTRA = ("complex", "real")
SMALLEST_STEP, LARGEST_STEP = 1e-3, 1e-1  # of the initial time steps, as in Gu et al. (2022)


class DiagonalState(NamedTuple):
    modes: Tensor  # (batch, width, modes), complex or real


class DiagonalMixer(Module):
    """s_t = exp(dt a) s_{t-1} + (exp(dt a) - 1)/a u_t,  y_t = Re(c . s_t) + D u_t, in every channel by itself.

    a < 0 or Re a < 0: real modes start at -1, -2, ...; complex ones at -1/2 + i pi n, one of each conjugate pair, so
    that state_size = 2 x (size / 2) real numbers make the `size` modes of a channel. Modes are in float32 at least,
    whatever the type of the parameters: torch has no complex numbers of bfloat16, and no FFT of them.
    """

    def __init__(self, width: int, size: int, spectrum: str) -> None:
        super().__init__()
        if spectrum not in SPECTRA:
            raise ValueError(f"spectrum: {' or '.join(SPECTRA)} is allowed, got {spectrum!r}")
        width, size = whole_number(width, "width", 1), whole_number(size, "size", 1)
        if spectrum == "complex" and size % 2:
            raise ValueError(f"size: an even number is allowed with complex modes, got {size}")
        self.width, self.size, self.complex = width, size, spectrum == "complex"
        modes = size // 2 if self.complex else size
        order = torch.arange(modes, dtype=torch.get_default_dtype()).expand(width, modes)
        low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
        self.log_dt = nn.Parameter(torch.rand(width) * (high - low) + low)
        self.log_decay = nn.Parameter(torch.full((width, modes), 0.5).log() if self.complex else (order + 1.0).log())
        if self.complex:
            self.frequency = nn.Parameter(math.pi * order.clone())
        self.C = nn.Parameter(torch.randn(width, modes, 2 if self.complex else 1) * (2.0 / size) ** 0.5)
        self.D = nn.Parameter(torch.ones(width))
        self.out_proj = glorot_linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        time = x.shape[1]
        transition, gain, readout = self._discrete()
        powers = transition[..., None] ** torch.arange(time, device=x.device)  # (width, modes, time)
        kernel = _real(torch.einsum("dn,dnt->dt", readout * gain, powers))  # (width, time)
        # Zero padding to twice the length makes the circular convolution of the FFT a causal one.
        product = torch.fft.rfft(x.to(kernel.dtype), 2 * time, dim=1) * torch.fft.rfft(kernel.T, 2 * time, dim=0)
        y = torch.fft.irfft(product, 2 * time, dim=1)[:, :time].to(x.dtype)  # (batch, time, width)
        return self.out_proj(F.gelu(y + self.D * x))

    def initial_state(self, batch: int) -> DiagonalState:
        transition, _, _ = self._discrete()
        return DiagonalState(transition.new_zeros(batch, *transition.shape))

    def step(self, x: Tensor, state: DiagonalState) -> tuple[Tensor, DiagonalState]:
        transition, gain, readout = self._discrete()
        modes = transition * state.modes + gain * x[..., None]  # (batch, width, modes)
        y = _real((readout * modes).sum(dim=-1)).to(x.dtype)
        return self.out_proj(F.gelu(y + self.D * x)), DiagonalState(modes)

    def state_size(self, length: int) -> int:
        return self.width * self.size

    def _discrete(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transition, input gain (zero-order hold) and readout, each (width, modes)."""
        wide = torch.promote_types(self.log_dt.dtype, torch.float32)
        decay, C = -self.log_decay.to(wide).exp(), self.C.to(wide)
        rate = torch.complex(decay, self.frequency.to(wide)) if self.complex else decay
        transition = (self.log_dt.to(wide).exp()[:, None] * rate).exp()
        readout = 2.0 * torch.view_as_complex(C) if self.complex else C[..., 0]
        return transition, (transition - 1.0) / rate, readout


def _real(x: Tensor) -> Tensor:
    return x.real if x.is_complex() else x


class DiagonalSSM(BlockModel):
    """S4D (Gu et al. 2022): `depth` residual blocks of a diagonal state space model, a nonlinearity and a linear map.

    size: modes a channel, even if spectrum = "complex", where conjugate pairs share one complex number; or "real".
    State: depth x width x size real numbers, whatever the length. The parallel form costs O(time log time).
    """

    variants = ({}, {"size": 6}, {"size": 5, "spectrum": "real"})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        size: int = 16,
        spectrum: str = "complex",
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(partial(DiagonalMixer, width, size, spectrum), vocabulary, width, depth, seed)
