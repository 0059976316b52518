"""The scans of Mamba and Mamba2 in plain torch.

The selective scan has a sequential form to read, and a chunked form for devices without a kernel. In Mamba2 one decay
for all channels of a head turns most of the scan into matrix products.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.kernels.threads import refuse_second_derivatives

CHUNK = 64  # times whose states are computed in parallel
SCALAR_CHUNK = 64  # tokens that are mixed by one matrix product; the state is carried from chunk to chunk


def sequential_selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The recurrence as it is written, one time after the other; shapes as in `selective_scan`. Any derivative."""
    outputs = []
    for u_t, delta_t, B_t, C_t in zip(*(x.unbind(1) for x in (u, delta, B, C)), strict=True):
        decay = (delta_t[..., None] * A).exp()  # (batch, channels, size)
        state = decay * state + (delta_t * u_t)[..., None] * B_t[:, None]
        outputs.append((state @ C_t[..., None])[..., 0] + D * u_t)
    return torch.stack(outputs, dim=1) if outputs else torch.zeros_like(u), state


def chunked_selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, state: Tensor, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """The same in log2(chunk) parallel steps a chunk; the states of a chunk are computed anew for the gradients.

    Memory: batch x channels x size x (some chunks + time / chunk) numbers. First derivatives only.
    """
    y, last = ChunkedScan.apply(u, delta, A, B, C, state, chunk)
    return y + D * u, last


class ChunkedScan(torch.autograd.Function):  # type: ignore[misc]
    """(u, delta, A, B, C, initial state, chunk) -> y without D u, and the last state."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        u, delta, A, B, C, state, chunk = arguments
        outputs, kept = [], []
        for u_k, delta_k, B_k, C_k in _chunks(chunk, u, delta, B, C):
            kept.append(state)
            y, state = _chunk(u_k, delta_k, A, B_k, C_k, state)
            outputs.append(y)
        ctx.save_for_backward(u, delta, A, B, C, *kept)
        ctx.chunk = chunk
        return torch.cat(outputs, dim=1) if outputs else torch.zeros_like(u), state.clone()

    @staticmethod
    def backward(ctx: Any, d_y: Tensor, d_state: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        u, delta, A, B, C, *kept = ctx.saved_tensors
        d_A, gradients = torch.zeros_like(A), []
        parts = list(zip(_chunks(ctx.chunk, u, delta, B, C, d_y), kept, strict=True))
        for (u_k, delta_k, B_k, C_k, d_y_k), state in reversed(parts):
            inputs = [x.detach().requires_grad_() for x in (u_k, delta_k, A, B_k, C_k, state)]
            with torch.enable_grad():
                results = _chunk(*inputs)
            d_u, d_delta, share, d_B, d_C, d_state = torch.autograd.grad(results, inputs, (d_y_k, d_state))
            d_A += share
            gradients.append((d_u, d_delta, d_B, d_C))
        if not gradients:
            return *(torch.zeros_like(x) for x in (u, delta, A, B, C)), d_state, None
        d_u, d_delta, d_B, d_C = (torch.cat(pieces[::-1], dim=1) for pieces in zip(*gradients, strict=True))
        return d_u, d_delta, d_A, d_B, d_C, d_state, None


def _chunks(chunk: int, *sequences: Tensor) -> list[tuple[Tensor, ...]]:
    """Pieces of all sequences, none if there is no time."""
    return list(zip(*(x.split(chunk, dim=1) for x in sequences), strict=True)) if sequences[0].shape[1] else []


def _chunk(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Maps s -> a s + x compose to (a' a) s + (a' x + x'): an associative rule, so that spans may double."""
    decay = (delta[..., None] * A).exp()  # (batch, time, channels, size)
    added = (delta * u)[..., None] * B[:, :, None]
    span = 1
    while span < u.shape[1]:  # decay, added: of the last `span` times up to this one
        added = torch.cat([added[:, :span], added[:, span:] + decay[:, span:] * added[:, :-span]], dim=1)
        decay = torch.cat([decay[:, :span], decay[:, span:] * decay[:, :-span]], dim=1)
        span *= 2
    states = decay * state[:, None] + added
    return (states @ C[..., None])[..., 0], states[:, -1]


def chunked_scalar_decay_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, chunk: int = SCALAR_CHUNK
) -> Tensor:
    """The scan of Mamba2 by matrix products; arguments as in `scalar_decay_scan`. Any derivative.

    Within a chunk it is attention with weights exp(delta_{j+1} A + ... + delta_i A) C_i . B_j; between chunks the state
    is carried on. Cost O(time x (chunk + size) x channels), memory O(time x heads x chunk).
    Source: Dao and Gu (2024), Sec. 6.
    """
    time = u.shape[1]
    if time == 0:
        return torch.zeros_like(u)
    chunk = min(chunk, time)
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


def mamba_ssm_function(module: str, name: str) -> Any:
    """A function of mamba-ssm, None if it is not there; a warning if mamba-ssm is installed and cannot be imported."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if importlib.util.find_spec("mamba_ssm") is not None:
            warnings.warn(f"mamba-ssm is installed and of no use, torch does its work: {error}", stacklevel=2)
        return None
