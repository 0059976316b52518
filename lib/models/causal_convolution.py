"""The short causal convolution of Mamba: over time in parallel, or over a window of past inputs in a step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def depthwise(channels: int, kernel: int) -> Any:
    """A convolution of every channel by itself, padded so that its first `time` outputs are causal."""
    return nn.Conv1d(channels, channels, kernel, groups=channels, padding=kernel - 1)


def convolve(layer: Any, x: Tensor) -> Tensor:
    """y_t = b + sum_{i=0}^{k-1} w_i x_{t-k+1+i}, (batch, time, channels) -> the same shape."""
    return layer(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)


def convolve_step(layer: Any, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
    """The same at one time: x (batch, channels), window (batch, channels, k - 1) of the inputs before it.

    Returns y and the next window. The input of now is no part of the state: k - 1 past inputs are enough.
    """
    inputs = torch.cat([window, x[..., None]], dim=-1)  # (batch, channels, k)
    return (inputs * layer.weight[:, 0]).sum(dim=-1) + layer.bias, inputs[..., 1:]
