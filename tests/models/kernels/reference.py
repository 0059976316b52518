"""Problems for the selective scan, and everything that a way to solve them gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lib.models.kernels.scan import selective_scan

NAMES = ("u", "delta", "A", "B", "C", "D", "initial_state")


def arguments(batch: int, time: int, channels: int, size: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    shapes = [(batch, time, channels)] * 2 + [(channels, size)] + [(batch, time, size)] * 2
    u, delta, A, B, C = (random.standard_normal(shape) for shape in shapes)
    D, state = random.standard_normal(channels), random.standard_normal((batch, channels, size))
    given = (u, 0.5 * np.abs(delta), -np.abs(A) * 3, B, C, D, state)
    return [torch.from_numpy(x).to(dtype).requires_grad_() for x in given]


def outputs_and_gradients(scan: Any, inputs: Any, **options: Any) -> list[torch.Tensor]:
    """y, last state, and the gradients of a fixed random combination of both."""
    y, state = scan(*inputs, **options)
    random = np.random.default_rng(9)
    weights = [torch.from_numpy(random.standard_normal(x.shape)).to(x.dtype) for x in (y, state)]
    total = (y * weights[0]).sum() + (state * weights[1]).sum()
    gradients = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    return [y.detach(), state.detach(), *gradients]


def ours(*inputs: Any, **options: Any) -> Any:
    return selective_scan(*inputs, return_state=True, **options)
