"""The selective scan, the recurrence of Mamba: one function, and the fastest way to compute it on each device.

| way        | for                         | memory for the gradients                         |
|------------|-----------------------------|--------------------------------------------------|
| compiled   | CPU                         | batch x channels x time x (1 + size / chunk)     |
| mamba-ssm  | CUDA, where it is installed | batch x channels x time                          |
| chunked    | CUDA without it             | batch x channels x size x (chunk + time / chunk) |
| sequential | reading, and as a reference | batch x channels x size x time                   |
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from typing import Any, Literal, overload

import torch
from torch import Tensor

from lib.models.selective_scan_autograd import CompiledScan
from lib.models.selective_scan_torch import chunked_selective_scan
from lib.processes.checks import whole_number

CHUNK = 32  # times between two kept states on the CPU: the states of 32 times stay in a second-level cache
LARGEST_FUSED_SIZE = 256  # states of a channel in the kernel of mamba-ssm


@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    initial_state: Tensor | None = None,
    *,
    return_state: Literal[False] = False,
    chunk: int = CHUNK,
) -> Tensor: ...


@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    initial_state: Tensor | None = None,
    *,
    return_state: Literal[True],
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]: ...


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    initial_state: Tensor | None = None,
    *,
    return_state: bool = False,
    chunk: int = CHUNK,
) -> Tensor | tuple[Tensor, Tensor]:
    """s_t = exp(delta_t A) s_{t-1} + delta_t B_t u_t,  y_t = C_t . s_t + D u_t, in every channel by itself.

    u, delta: (batch, time, channels). A: (channels, size). B, C: (batch, time, size), shared by the channels.
    D: (channels,), zero if None. initial_state: (batch, channels, size), zero if None. All float32 or all float64, on
    one device. chunk: times between two states that are kept for the gradients, on the CPU; the result does not depend
    on it.

    Returns y (batch, time, channels), and with return_state also the state after the last time (batch, channels, size).
    First derivatives with respect to all arguments. Raises ValueError for other shapes, types or devices.
    Cost O(batch x time x channels x size), forward and backward; memory linear in time, see the table above.
    Source: Gu and Dao (2023), Sec. 3.2, with the input map delta_t B_t of their code in place of the exact one.
    """
    _check(u, delta, A, B, C, D, initial_state)
    every = whole_number(chunk, "chunk", 1)
    skip = u.new_zeros(u.shape[2]) if D is None else D
    state = u.new_zeros(u.shape[0], *A.shape) if initial_state is None else initial_state
    inputs = (u, delta, A, B, C, skip)
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (*inputs, state))
    way = choose_way(u, A.shape[1], initial_state is None, differentiable and return_state)
    if way == "compiled":
        y, state = CompiledScan.apply(*inputs, state, every, differentiable)
    elif way == "mamba-ssm":
        y, state = fused_selective_scan(_mamba_ssm_kernel(), *inputs)
    else:
        y, state = chunked_selective_scan(*inputs, state)
    return (y, state) if return_state else y


def choose_way(u: Tensor, size: int, from_zero: bool, through_last_state: bool) -> str:
    """ "compiled", "mamba-ssm" or "chunked": mamba-ssm starts from zero, and its last state passes no gradient."""
    if u.device.type == "cpu":
        return "compiled"
    fits = u.dtype == torch.float32 and size <= LARGEST_FUSED_SIZE and u.shape[1] > 0
    fits = fits and from_zero and not through_last_state
    return "mamba-ssm" if u.device.type == "cuda" and fits and _mamba_ssm_kernel() is not None else "chunked"


def fused_selective_scan(
    kernel: Any, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor
) -> tuple[Tensor, Tensor]:
    """The scan by `selective_scan_fn` of mamba-ssm, whose tensors have time as last axis.

    It reads four numbers at a time, so that every row must begin at a multiple of 16 bytes. Where time is already the
    last axis in memory, as behind a convolution, a part of longer rows would not.
    """
    u, delta, B, C = (x.transpose(1, 2).contiguous() for x in (u, delta, B, C))
    y, state = kernel(u, delta, A, B, C, D, return_last_state=True)
    return y.transpose(1, 2), state


@functools.cache
def _mamba_ssm_kernel() -> Any:
    return mamba_ssm_function("mamba_ssm.ops.selective_scan_interface", "selective_scan_fn")


def mamba_ssm_function(module: str, name: str) -> Any:
    """A function of mamba-ssm, None if it is not there; a warning if mamba-ssm is installed and cannot be imported."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if importlib.util.find_spec("mamba_ssm") is not None:
            warnings.warn(f"mamba-ssm is installed and of no use, torch does its work: {error}", stacklevel=2)
        return None


def _check(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None, initial_state: Tensor | None
) -> None:
    if u.ndim != 3 or A.ndim != 2:
        raise ValueError(
            "u: shape (batch, time, channels) and A: shape (channels, size) are allowed, "
            f"got {tuple(u.shape)} and {tuple(A.shape)}"
        )
    if u.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"u: float32 or float64 is allowed, got {u.dtype}")
    (batch, time, channels), size = u.shape, A.shape[1]
    due = {
        "delta": (delta, (batch, time, channels)),
        "A": (A, (channels, size)),
        "B": (B, (batch, time, size)),
        "C": (C, (batch, time, size)),
        "D": (D, (channels,)),
        "initial_state": (initial_state, (batch, channels, size)),
    }
    for name, (given, shape) in due.items():
        if given is not None and (given.shape, given.dtype, given.device) != (shape, u.dtype, u.device):
            raise ValueError(
                f"{name}: {u.dtype} of shape {shape} on {u.device}, as u and A have it, is allowed, "
                f"got {given.dtype} of shape {tuple(given.shape)} on {given.device}"
            )
