"""The scan of Mamba2, whose channels of a head share one decay: one function, and the fastest way on each device.

| way       | for                         | memory for the gradients                         |
|-----------|-----------------------------|--------------------------------------------------|
| compiled  | CPU                         | batch x channels x time x (1 + size / chunk)     |
| mamba-ssm | CUDA, where it is installed | batch x channels x time                          |
| chunked   | all else, any derivative    | batch x heads x time x chunk                     |
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from lib.models.kernels.scan import compiled as kernels
from lib.models.kernels.scan.plain import SCALAR_CHUNK, chunked_scalar_decay_scan, mamba_ssm_function
from lib.models.kernels.scan.selective import CHUNK
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives, share

KERNEL_TYPES = (torch.float32, torch.float64)


def scalar_decay_scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """S_t = exp(delta_t A) S_{t-1} + delta_t u_t B_t^T,  y_t = S_t C_t + D u_t, in every head, from S_0 = 0.

    u, y: (batch, time, heads, head width). delta: (batch, time, heads). A, D: (heads,). B, C: (batch, time, size),
    shared by the heads. First derivatives with respect to all arguments. Cost O(batch x time x channels x size) on a
    CPU; memory linear in time, see the table above. On CUDA by mamba-ssm where it is installed, if torch may round the
    factors of products to TF32, as mamba-ssm does (`torch.set_float32_matmul_precision`). Source: Dao and Gu (2024).
    """
    if u.device.type == "cpu" and all(x.dtype == u.dtype for x in (delta, A, B, C, D)) and u.dtype in KERNEL_TYPES:
        return compiled_scalar_decay_scan(u, delta, A, B, C, D)
    rounded = u.device.type == "cuda" and u.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    if rounded and (kernel := _mamba_ssm_kernel()) is not None:
        return fused_scalar_decay_scan(kernel, u, delta, A, B, C, D, SCALAR_CHUNK)
    return chunked_scalar_decay_scan(u, delta, A, B, C, D)


def compiled_scalar_decay_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, chunk: int = CHUNK
) -> Tensor:
    """The same by compiled loops over channels; chunk: times between two states that are kept for the gradients."""
    heads, width = u.shape[2:]
    steps = delta[..., None].expand(u.shape).flatten(2)
    rates, skip = (x[:, None].expand(heads, width).flatten() for x in (A, D))
    inputs = (u.flatten(2), steps, rates, B, C, skip)
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    y: Tensor = CompiledScalarScan.apply(*inputs, chunk, differentiable)
    return y.unflatten(2, (heads, width))


def fused_scalar_decay_scan(
    kernel: Any, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, chunk: int
) -> Tensor:
    """The same by `mamba_chunk_scan_combined` of mamba-ssm, whose B and C have an axis of groups of heads."""
    y: Tensor = kernel(u, delta, A, B[:, :, None], C[:, :, None], chunk_size=chunk, D=D)
    return y


@functools.cache
def _mamba_ssm_kernel() -> Any:
    return mamba_ssm_function("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")


class CompiledScalarScan(torch.autograd.Function):  # type: ignore[misc]
    """(u, delta, A, B, C, D, chunk, keep) -> y; keep: whether gradients will follow.

    u, delta, y: (batch, time, channels). A, D: (channels,). B, C: (batch, time, size). There are first derivatives
    only; asking for a second one raises RuntimeError.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *inputs, chunk, keep = arguments
        u, size = inputs[0], inputs[3].shape[2]
        batch, time, channels = u.shape
        kept, y = u.new_empty(batch, -(-time // chunk) if keep else 0, size, channels), u.new_empty(u.shape)
        filled = numpy_arrays(y, kept)
        share(
            kernels.scalar_forward,
            [*numpy_arrays(*inputs), chunk, *filled],
            batch * kernels.blocks(channels),
            u.numel() * size,
        )
        ctx.save_for_backward(*inputs, kept)
        ctx.chunk = chunk
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *inputs, kept = ctx.saved_tensors
        u, B = inputs[0], inputs[3]
        batch, _, channels = u.shape
        d_u, d_delta = u.new_empty(u.shape), u.new_empty(u.shape)
        d_A, d_D = u.new_empty(batch, channels), u.new_empty(batch, channels)
        d_B, d_C = (u.new_empty(batch, kernels.blocks(channels), *B.shape[1:]) for _ in range(2))
        filled = numpy_arrays(kept, d_y, d_u, d_delta, d_A, d_B, d_C, d_D)
        pieces, work = batch * kernels.blocks(channels), u.numel() * B.shape[2]
        share(kernels.scalar_backward, [*numpy_arrays(*inputs), ctx.chunk, *filled], pieces, work)
        return d_u, d_delta, d_A.sum(0), d_B.sum(1), d_C.sum(1), d_D.sum(0), None, None
