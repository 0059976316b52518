"""GORU, the gated orthogonal recurrent unit, as its authors released it (Jing et al. 2017, arXiv 1706.02761)."""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import Module
from lib.models.kernels.screening.cell import Rule, Weights, screening
from lib.models.recurrent.basic import RNNState
from lib.models.recurrent.orthogonal import CellModel


class GatedOrthogonalLayer(Module):
    """r = sigmoid(U_r x + W_r h + b_r), g = sigmoid(U_g x + W_g h + b_g), h' = g h + (1 - g) c; the output is h'.

    c = sign(z) max(0, |z| + b_c) with z = r * (Q h) + U_c x. Q is orthogonal, log2 width layers of rotations of pairs
    of units as in a fast Fourier transform, first those half a width apart, last neighbours: width / 2 angles each.
    Kernels start uniform in +-0.01, angles uniform in +-3.14, b_r at 2, b_c at 0.01, b_g uniform in +-sqrt(3 / width),
    which is what TensorFlow does where nothing is said. Raises ValueError unless the width is a power of 2.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width = whole_number(width, "width", 1)
        if width & (width - 1):
            raise ValueError(f"width: a power of 2 is allowed, got {width}")
        self.weight_ih = nn.Parameter(torch.empty(3 * width, inputs).uniform_(-0.01, 0.01))  # of r, g, c
        self.weight_hh = nn.Parameter(torch.empty(2 * width, width).uniform_(-0.01, 0.01))  # of r, g
        self.bias = nn.Parameter(torch.cat([torch.full((width,), 2.0), torch.empty(width).uniform_(-1, 1)]))
        self.bias.data[width:] *= (3 / width) ** 0.5
        self.threshold = nn.Parameter(torch.full((width,), 0.01))
        layers = width.bit_length() - 1
        self.angles = nn.Parameter(torch.empty(layers, width // 2).uniform_(-3.14, 3.14))

    def rotation(self) -> Tensor:
        """Q, (width, width)."""
        rotated = torch.eye(self.width, dtype=self.angles.dtype, device=self.angles.device)  # rows: images of units
        for number, angles in enumerate(self.angles):
            pairs = rotated.unflatten(1, (2**number, 2, -1))  # blocks, the halves of each, units of a half
            cosine, sine = (f(angles).view(2**number, -1) for f in (torch.cos, torch.sin))
            first, second = pairs[:, :, 0], pairs[:, :, 1]
            turned = torch.stack([cosine * first - sine * second, cosine * second + sine * first], dim=2)
            rotated = turned.flatten(1)
        return rotated.T

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """h', (batch, time, width), of x (batch, time, inputs); hidden: (batch, width), before it, zeros if None.

        From zeros one loop over time, compiled for the CPU, with first derivatives only; else step by step.
        """
        driven, weights, outputs = self._driven(x), self._weights(), []
        if hidden is None and driven.device.type == "cpu" and driven.dtype in (torch.float32, torch.float64):
            return screening(driven, Weights(weights, threshold=self.threshold), Rule("gated")).hidden
        hidden = driven.new_zeros(x.shape[0], self.width) if hidden is None else hidden
        for one in driven.unbind(1):
            hidden = self._next(one, hidden, weights)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    def initial_state(self, batch: int) -> RNNState:
        return RNNState(self.threshold.new_zeros(batch, self.width))

    def step(self, x: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        hidden = self._next(self._driven(x), state.hidden, self._weights())
        return hidden, RNNState(hidden)

    def state_size(self, length: int) -> int:
        return self.width

    def _driven(self, x: Tensor) -> Tensor:
        return x @ self.weight_ih.T + F.pad(self.bias, (0, self.width))

    def _weights(self) -> Tensor:
        """W_r, W_g and Q below each other: one product at each step."""
        return torch.cat([self.weight_hh, self.rotation()])

    def _next(self, driven: Tensor, hidden: Tensor, weights: Tensor) -> Tensor:
        r, g, turned = (hidden @ weights.T).split(self.width, dim=1)
        of_r, of_g, of_c = driven.split(self.width, dim=1)
        gate = torch.sigmoid(of_g + g)
        z = torch.sigmoid(of_r + r) * turned + of_c
        return gate * hidden + (1 - gate) * (z.sign() * F.relu(z.abs() + self.threshold))


class GORU(CellModel):
    """GORU of Jing et al. (2017): an RNN with gates and an orthogonal matrix of rotations.

    State: h of every layer, depth x width numbers. embedding: tokens are unit vectors, or have a trained embedding of
    this size. Weights start as in `GatedOrthogonalLayer`. Raises ValueError unless the width is a power of 2.
    """

    variants = ({}, {"embedding": 3})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        make = functools.partial(GatedOrthogonalLayer, width=width)
        super().__init__(vocabulary, width, depth, make, embedding, seed)
