"""Mamba and Mamba2 under autocast: their large maps may be rounded, the recurrence keeps the type of its weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.kernels.convolution import convolve
from lib.models.kernels.scalar_decay_scan import scalar_decay_scan
from lib.models.kernels.scan import selective_scan
from lib.models.state_space.mamba import MambaMixer
from lib.models.state_space.mamba2 import Mamba2Mixer


class MambaFloat32Scan(MambaMixer):
    """A `MambaMixer` whose parallel form computes all between its first and last map in the type of its weights.

    Without autocast it is the very same function. Rounding errors of a decay multiply along the sequence.
    """

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.in_proj(x).chunk(2, dim=-1)  # (batch, time, inner)
        with torch.autocast(x.device.type, enabled=False):
            u = convolve(self.conv1d, u.to(self.D.dtype))
            dt, B, C = self._selection(u)
            y = selective_scan(u, dt, -self.A_log.exp(), B, C, self.D)
            mixed = y * F.silu(gate.to(self.D.dtype))
        return self.out_proj(mixed)


class Mamba2Float32Scan(Mamba2Mixer):
    """A `Mamba2Mixer` in the same way."""

    def forward(self, x: Tensor) -> Tensor:
        projected = self._project(x)
        with torch.autocast(x.device.type, enabled=False):
            gate, mixed, dt = (part.to(self.D.dtype) for part in projected)
            u, dt, B, C = self._selection(convolve(self.conv1d, mixed), dt)
            y = scalar_decay_scan(u, dt, -self.A_log.exp(), B, C, self.D)
        return self._out(y, gate)
