"""The selective scan, the recurrence of Mamba: one function, and the fastest way to compute it on each device.

| way        | for                         | memory for the gradients                         |
|------------|-----------------------------|--------------------------------------------------|
| compiled   | CPU                         | batch x channels x time x (1 + size / chunk)     |
| mamba-ssm  | CUDA, where it is installed | batch x channels x time                          |
| chunked    | CUDA without it             | batch x channels x size x (chunk + time / chunk) |
| sequential | reading, and as a reference | batch x channels x size x time                   |

Torch differentiates the compiled way as a function whose work is shared among threads.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, overload

import torch
from torch import Tensor

from lib.checks import truth_value, whole_number
from lib.models.kernels.scan import compiled as kernels
from lib.models.kernels.scan.plain import chunked_selective_scan, mamba_ssm_function
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives, share

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
    every, both = whole_number(chunk, "chunk", 1), truth_value(return_state, "return_state")
    skip = u.new_zeros(u.shape[2]) if D is None else D
    state = u.new_zeros(u.shape[0], *A.shape) if initial_state is None else initial_state
    inputs = (u, delta, A, B, C, skip)
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (*inputs, state))
    way = choose_way(u, A.shape[1], initial_state is None, differentiable and both)
    if way == "compiled":
        y, state = CompiledScan.apply(*inputs, state, every, differentiable)
    elif way == "mamba-ssm":
        y, state = fused_selective_scan(_mamba_ssm_kernel(), *inputs)
    else:
        y, state = chunked_selective_scan(*inputs, state)
    return (y, state) if both else y


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


class CompiledScan(torch.autograd.Function):  # type: ignore[misc]
    """(u, delta, A, B, C, D, initial state, chunk, keep) -> y and the last state; keep: whether gradients will follow.

    Shapes as in `selective_scan`, but A may be (channels, 1), a rate for all places of a channel. There are first
    derivatives only; asking for a second one raises RuntimeError.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *inputs, initial, chunk, keep = arguments
        u, size = inputs[0], inputs[3].shape[2]
        batch, time, channels = u.shape
        chunk = min(chunk, max(1, time))  # backward holds the states of a whole chunk
        kept = u.new_empty(batch, -(-time // chunk) if keep else 0, size, channels)
        y, state = u.new_empty(u.shape), _by_size(initial)
        filled = numpy_arrays(y, kept, state)
        share(kernels.forward, [*_arrays(inputs), chunk, *filled], batch * kernels.blocks(channels), u.numel() * size)
        ctx.save_for_backward(*inputs, kept)  # not copies of the inputs: torch then notices a change in place
        ctx.chunk = chunk
        return y, state.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, d_y: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *inputs, kept = ctx.saved_tensors
        u, A, B = inputs[0], inputs[2], inputs[3]
        batch, _, channels = u.shape
        d_state, blocks = _by_size(d_last), kernels.blocks(channels)
        d_u, d_delta = u.new_empty(u.shape), u.new_empty(u.shape)
        d_A, d_D = u.new_empty(batch, A.shape[1], channels), u.new_empty(batch, channels)
        d_B, d_C = (u.new_empty(batch, blocks, *B.shape[1:]) for _ in range(2))
        filled = numpy_arrays(kept, d_y, d_state, d_u, d_delta, d_A, d_B, d_C, d_D)
        share(kernels.backward, [*_arrays(inputs), ctx.chunk, *filled], batch * blocks, u.numel() * B.shape[2])
        return d_u, d_delta, d_A.sum(0).T, d_B.sum(1), d_C.sum(1), d_D.sum(0), d_state.transpose(1, 2), None, None


def _arrays(inputs: list[Tensor]) -> list[Any]:
    """u, delta, A, B, C, D as the kernels want them."""
    u, delta, A, B, C, D = inputs
    return numpy_arrays(u, delta, A.T, B, C, D)


def _by_size(state: Tensor) -> Tensor:
    """A copy, (batch, channels, size) -> (batch, size, channels)."""
    return state.detach().transpose(1, 2).clone(memory_format=torch.contiguous_format)
