"""The short causal convolution of Mamba and its activation: over time in parallel, or over a window in a step."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.models.kernels import convolution_cpu as kernels
from lib.models.kernels.threads import refuse_second_derivatives, share


def depthwise(channels: int, kernel: int) -> Any:
    """A convolution of every channel by itself, padded so that its first `time` outputs are causal."""
    return nn.Conv1d(channels, channels, kernel, groups=channels, padding=kernel - 1)


def convolve(layer: Any, x: Tensor) -> Tensor:
    """y_t = silu(b + sum_{i=0}^{k-1} w_i x_{t-k+1+i}), (batch, time, channels) -> the same shape.

    On the CPU by a compiled loop over neighbouring channels, which has first derivatives only: torch's own convolution
    of single channels goes through each of them by itself.
    """
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        y: Tensor = CompiledConvolution.apply(x, layer.weight, layer.bias)
        return y
    return F.silu(layer(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))


def convolve_step(layer: Any, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
    """The same at one time: x (batch, channels), window (batch, channels, k - 1) of the inputs before it.

    Returns y and the next window. The input of now is no part of the state: k - 1 past inputs are enough.
    """
    inputs = torch.cat([window, x[..., None]], dim=-1)  # (batch, channels, k)
    return F.silu((inputs * layer.weight[:, 0]).sum(dim=-1) + layer.bias), inputs[..., 1:]


class CompiledConvolution(torch.autograd.Function):  # type: ignore[misc]
    """(x, weight (channels, 1, k), bias) -> y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = x.new_empty(x.shape)
        batch, _, channels = x.shape
        share(kernels.forward, [*_arrays(x, weight, bias), y.numpy()], batch * kernels.blocks(channels), 4 * x.numel())
        ctx.save_for_backward(x, weight, bias)
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        refuse_second_derivatives()
        x, weight, bias = ctx.saved_tensors
        batch, _, channels = x.shape
        d_x, d_bias = x.new_empty(x.shape), x.new_empty(batch, channels)
        d_weight = x.new_empty(batch, weight.shape[-1], channels)
        filled = [tensor.numpy() for tensor in (d_y.contiguous(), d_x, d_weight, d_bias)]
        share(kernels.backward, [*_arrays(x, weight, bias), *filled], batch * kernels.blocks(channels), 8 * x.numel())
        return d_x, d_weight.sum(0).T[:, None], d_bias.sum(0)


def _arrays(x: Tensor, weight: Tensor, bias: Tensor) -> list[Any]:
    return [tensor.detach().contiguous().numpy() for tensor in (x, weight[:, 0].T, bias)]
