"""Causal softmax attention, to the whole past or a window of it, by the fastest form there is for the device."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.models.kernels import attention_cpu as kernels
from lib.models.kernels.threads import numpy_arrays, share

WIDEST = 8  # of a head, for the compiled kernels; at 16 the matrix products of torch are as fast


def causal_attention(projected: Tensor, heads: int, window: int | None = None) -> Tensor:
    """y_t = sum_j softmax_j(q_t . k_j / sqrt(head width)) v_j over j <= t, t - j < window: L2M (2025), Eq. C.26.

    projected (batch, time, 3 width): queries, keys, values, each with its heads side by side. Returns (batch, time,
    width). window: none if None. On the CPU heads up to `WIDEST` go through compiled loops, which have first
    derivatives only; all else is torch's. Memory grows linearly in time; with torch and a window, a mask of time^2
    bits besides, shared by all sequences. Cost O(batch x time x min(time, window) x width). Raises ValueError for
    columns that are no multiple of 3 heads and a window below 1.
    """
    if heads < 1:
        raise ValueError(f"heads: at least 1 is allowed, got {heads!r}")
    if projected.ndim != 3 or projected.shape[2] % (3 * heads):
        shape = tuple(projected.shape)
        raise ValueError(f"projected: (batch, time, a multiple of 3 heads = {3 * heads}) is allowed, got shape {shape}")
    if window is not None and window < 1:
        raise ValueError(f"window: at least 1, or None, is allowed, got {window!r}")
    _, time, columns = projected.shape
    width = columns // (3 * heads)
    if projected.device.type == "cpu" and width <= WIDEST and projected.dtype in (torch.float32, torch.float64):
        mixed: Tensor = CompiledAttention.apply(projected, heads, min(window or time, time))
        return mixed
    mask = None
    if window is not None:
        place = torch.arange(time, device=projected.device)
        distance = place[:, None] - place
        mask = (distance >= 0) & (distance < window)
    return torch_attention(projected, heads, mask)


def torch_attention(projected: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """The same by torch's kernels. mask (time, time): which key each query attends to; all up to its own if None."""
    q, k, v = split_heads(projected, heads)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return mixed.transpose(1, 2).flatten(2)


def split_heads(projected: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, time, 3 width) -> queries, keys, values, each (batch, heads, time, head width)."""
    q, k, v = projected.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return q, k, v


class CompiledAttention(torch.autograd.Function):  # type: ignore[misc]
    """(projected, heads, window) -> mixed. There are first derivatives only; a second one raises RuntimeError."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, heads: int, window: int) -> Tensor:
        batch, time, columns = projected.shape
        out = projected.new_empty(batch, time, columns // 3)
        log_sum = projected.new_empty(batch, heads, time)
        ctx.heads, ctx.window = heads, window
        _run(kernels.forward, projected, heads, window, [out, log_sum])
        ctx.save_for_backward(projected, out, log_sum)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        projected, out, log_sum = ctx.saved_tensors
        d_projected = torch.empty_like(projected, memory_format=torch.contiguous_format)
        _run(kernels.backward, projected, ctx.heads, ctx.window, [out, log_sum, d_out, d_projected])
        return d_projected, None, None


def _run(kernel: Any, projected: Tensor, heads: int, window: int, others: list[Tensor]) -> None:
    """Call the kernel for every head of every sequence."""
    batch, time, columns = projected.shape
    first, *arrays = numpy_arrays(projected, *others)
    unit = (0,) * (columns // (3 * heads))
    share(kernel, [first, heads, window, unit, *arrays], batch * heads, batch * time * window * columns)
