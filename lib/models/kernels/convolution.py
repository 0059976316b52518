"""Causal depthwise convolution over time: one function, in torch and compiled for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor, nn

from lib.models.kernels.exponential import ANY_ORDER, fast_exp
from lib.models.kernels.lanes import copy
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives, share

BLOCK = 128  # channels of a piece


def depthwise(channels: int, kernel: int) -> Any:
    """A convolution of every channel by itself, padded so that its first `time` outputs are causal."""
    return nn.Conv1d(channels, channels, kernel, groups=channels, padding=kernel - 1)


def convolve(layer: Any, x: Tensor) -> Tensor:
    """y_t = silu(b + sum_{i=0}^{k-1} w_i x_{t-k+1+i}), (batch, time, channels) -> the same shape.

    On the CPU by a compiled loop over neighbouring channels, which has first derivatives only: torch's own convolution
    of single channels goes through each of them by itself. Raises ValueError for another shape.
    """
    if x.ndim != 3 or x.shape[2] != layer.weight.shape[0]:
        raise ValueError(f"x: (batch, time, {layer.weight.shape[0]}) is allowed, got shape {tuple(x.shape)}")
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
        share(forward, numpy_arrays(x, weight[:, 0].T, bias, y), batch * blocks(channels), 4 * x.numel())
        ctx.save_for_backward(x, weight, bias)
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        refuse_second_derivatives()
        x, weight, bias = ctx.saved_tensors
        batch, _, channels = x.shape
        d_x, d_bias = x.new_empty(x.shape), x.new_empty(batch, channels)
        d_weight = x.new_empty(batch, weight.shape[-1], channels)
        arrays = numpy_arrays(x, weight[:, 0].T, bias, d_y, d_x, d_weight, d_bias)
        share(backward, arrays, batch * blocks(channels), 8 * x.numel())
        return d_x, d_weight.sum(0).T[:, None], d_bias.sum(0)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def blocks(channels: int) -> int:
    """How many pieces one sequence has."""
    return (channels + BLOCK - 1) // BLOCK


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def forward(x: Any, weight: Any, bias: Any, y: Any, piece: int) -> None:
    """Fill in y of one piece."""
    b, start, stop = _place(piece, x.shape[2])
    w, shift = weight[:, start:stop].copy(), bias[start:stop].copy()
    total, one = np.empty_like(shift), x.dtype.type(1)
    for t in range(x.shape[1]):
        _convolve(x, w, shift, b, t, start, stop, total)
        y_t = y[b, t, start:stop]
        for c in range(total.size):
            y_t[c] = total[c] / (one + fast_exp(-total[c]))


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backward(x: Any, weight: Any, bias: Any, d_y: Any, d_x: Any, d_weight: Any, d_bias: Any, piece: int) -> None:
    """Fill in the gradients of one piece; d_weight (batch, k, channels) and d_bias (batch, channels) are shares."""
    b, start, stop = _place(piece, x.shape[2])
    w, shift = weight[:, start:stop].copy(), bias[start:stop].copy()
    total, d_w, d_shift = np.empty_like(shift), np.zeros_like(w), np.zeros_like(shift)
    d_x[b, :, start:stop] = 0
    one = x.dtype.type(1)
    for t in range(x.shape[1]):
        _convolve(x, w, shift, b, t, start, stop, total)
        dy_t = d_y[b, t, start:stop]
        for c in range(total.size):
            gate = one / (one + fast_exp(-total[c]))
            total[c] = dy_t[c] * gate * (one + total[c] * (one - gate))  # from here on its gradient
            d_shift[c] += total[c]
        for i in range(max(0, w.shape[0] - 1 - t), w.shape[0]):
            past = t - w.shape[0] + 1 + i
            x_t, dx_t, w_i, dw_i = x[b, past, start:stop], d_x[b, past, start:stop], w[i], d_w[i]
            for c in range(total.size):
                dx_t[c] += w_i[c] * total[c]
                dw_i[c] += x_t[c] * total[c]
    for i in range(w.shape[0]):
        copy(d_w[i], d_weight[b, i, start:stop])
    copy(d_shift, d_bias[b, start:stop])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _convolve(x: Any, w: Any, shift: Any, b: int, t: int, start: int, stop: int, total: Any) -> None:
    """total = shift + sum_i w_i x_{t-k+1+i}."""
    copy(shift, total)
    for i in range(max(0, w.shape[0] - 1 - t), w.shape[0]):
        x_t, w_i = x[b, t - w.shape[0] + 1 + i, start:stop], w[i]
        for c in range(total.size):
            total[c] += w_i[c] * x_t[c]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _place(piece: int, channels: int) -> tuple[int, int, int]:
    """Row, first channel and the one after the last."""
    row, block = divmod(piece, blocks(channels))
    return row, block * BLOCK, min((block + 1) * BLOCK, channels)
