"""The scan of Mamba2: one decay for all channels of a head turns most of it into matrix products."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.selective_scan import mamba_ssm_function

CHUNK = 64  # tokens that are mixed by one matrix product; the state is carried from chunk to chunk


def scalar_decay_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, *, chunk: int = CHUNK
) -> Tensor:
    """S_t = exp(delta_t A) S_{t-1} + delta_t u_t B_t^T,  y_t = S_t C_t + D u_t, in every head, from S_0 = 0.

    u, y: (batch, time, heads, head width). delta: (batch, time, heads). A, D: (heads,). B, C: (batch, time, size),
    shared by the heads. Within a chunk it is attention with weights exp(delta_{j+1} A + ... + delta_i A) C_i . B_j;
    between chunks the state is carried on. Cost O(time x (chunk + size) x channels), memory O(time x heads x chunk).
    On CUDA by mamba-ssm where it is installed, if torch may round the factors of products to TF32, as mamba-ssm does
    (`torch.set_float32_matmul_precision`). Source: Dao and Gu (2024), Sec. 6.
    """
    rounded = u.device.type == "cuda" and u.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    if rounded and (kernel := _mamba_ssm_kernel()) is not None:
        return fused_scalar_decay_scan(kernel, u, delta, A, B, C, D, chunk)
    time = u.shape[1]
    chunks = -(-time // chunk)

    def cut(x: Tensor) -> Tensor:  # empty times at the end neither decay nor add
        return F.pad(x, [0, 0] * (x.ndim - 2) + [0, chunks * chunk - time]).unflatten(1, (chunks, chunk))

    inputs = cut(delta[..., None] * u).transpose(2, 3)  # (batch, chunks, heads, chunk, head width)
    B_k, C_k = cut(B)[:, :, None], cut(C)[:, :, None]  # (batch, chunks, 1, chunk, size)
    log_decay = cut(delta * A).cumsum(dim=2).transpose(2, 3)  # (batch, chunks, heads, chunk), from the chunk's start
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=u.device).triu(1)
    gaps = (log_decay[..., :, None] - log_decay[..., None, :]).masked_fill(later, -torch.inf)
    decays = gaps.exp()  # of what time j left, seen at time i >= j: (batch, chunks, heads, chunk, chunk)
    within = (C_k @ B_k.transpose(-2, -1) * decays) @ inputs
    whole = log_decay[..., -1:]
    left = ((whole - log_decay).exp()[..., None] * inputs).transpose(-2, -1) @ B_k  # (..., head width, size)
    state, before = left.new_zeros(left[:, 0].shape), []
    for decay, added in zip(whole.exp()[..., None].unbind(1), left.unbind(1), strict=True):
        before.append(state)
        state = decay * state + added
    carried = log_decay.exp()[..., None] * (C_k @ torch.stack(before, dim=1).transpose(-2, -1))
    y = (within + carried).transpose(2, 3).flatten(1, 2)[:, :time]  # (batch, time, heads, head width)
    return y + D[:, None] * u


def fused_scalar_decay_scan(
    kernel: Any, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, chunk: int
) -> Tensor:
    """The same by `mamba_chunk_scan_combined` of mamba-ssm, whose B and C have an axis of groups of heads."""
    y: Tensor = kernel(u, delta, A, B[:, :, None], C[:, :, None], chunk_size=chunk, D=D)
    return y


@functools.cache
def _mamba_ssm_kernel() -> Any:
    return mamba_ssm_function("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")
