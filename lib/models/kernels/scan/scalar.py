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

from lib.models.kernels.scan.plain import SCALAR_CHUNK, chunked_scalar_decay_scan, mamba_ssm_function
from lib.models.kernels.scan.selective import CHUNK, CompiledScan

KERNEL_TYPES = (torch.float32, torch.float64)


def scalar_decay_scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """S_t = exp(delta_t A) S_{t-1} + delta_t u_t B_t^T,  y_t = S_t C_t + D u_t, in every head, from S_0 = 0.

    u, y: (batch, time, heads, head width). delta: (batch, time, heads). A, D: (heads,). B, C: (batch, time, size),
    shared by the heads. First derivatives with respect to all arguments. Cost O(batch x time x channels x size) on a
    CPU; memory linear in time, see the table above. On CUDA by mamba-ssm where it is installed, if torch may round the
    factors of products to TF32, as mamba-ssm does (`torch.set_float32_matmul_precision`). Raises ValueError for other
    shapes or devices. Source: Dao and Gu (2024).
    """
    _check(u, delta, A, B, C, D)
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
    inputs = (u.flatten(2), steps, rates[:, None], B, C, skip)  # one rate for all places of a channel
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    y: Tensor = CompiledScan.apply(*inputs, u.new_zeros(len(u), heads * width, B.shape[2]), chunk, differentiable)[0]
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


def _check(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> None:
    if u.ndim != 4 or B.ndim != 3:
        raise ValueError(
            "u: shape (batch, time, heads, head width) and B: shape (batch, time, size) are allowed, "
            f"got {tuple(u.shape)} and {tuple(B.shape)}"
        )
    batch, time, heads, _ = u.shape
    both = (batch, time, B.shape[2])
    due = {
        "delta": (delta, (batch, time, heads)),
        "A": (A, (heads,)),
        "B": (B, both),
        "C": (C, both),
        "D": (D, (heads,)),
    }
    for name, (given, shape) in due.items():
        if (given.shape, given.device) != (shape, u.device):
            raise ValueError(
                f"{name}: shape {shape} on {u.device}, as u and B have it, is allowed, "
                f"got {tuple(given.shape)} on {given.device}"
            )
