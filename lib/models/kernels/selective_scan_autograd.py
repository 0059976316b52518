"""The compiled selective scan as a function that torch differentiates, its work shared among threads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lib.models.kernels import scan_cpu as kernels
from lib.models.kernels.threads import refuse_second_derivatives, share


class CompiledScan(torch.autograd.Function):  # type: ignore[misc]
    """(u, delta, A, B, C, D, initial state, chunk, keep) -> y and the last state; keep: whether gradients will follow.

    Shapes as in `selective_scan`. There are first derivatives only; asking for a second one raises RuntimeError.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *inputs, initial, chunk, keep = arguments
        u, size = inputs[0], inputs[2].shape[1]
        batch, time, channels = u.shape
        kept = u.new_empty(batch, -(-time // chunk) if keep else 0, size, channels)
        y, state = u.new_empty(u.shape), _by_size(initial)
        filled = [x.numpy() for x in (y, kept, state)]
        share(kernels.forward, [*_arrays(inputs), chunk, *filled], batch * kernels.blocks(channels), u.numel() * size)
        ctx.save_for_backward(*inputs, kept)  # not copies of the inputs: torch then notices a change in place
        ctx.chunk = chunk
        return y, state.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, d_y: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *inputs, kept = ctx.saved_tensors
        u, B, size = inputs[0], inputs[3], inputs[2].shape[1]
        batch, _, channels = u.shape
        d_state, blocks = _by_size(d_last), kernels.blocks(channels)
        d_u, d_delta = u.new_empty(u.shape), u.new_empty(u.shape)
        d_A, d_D = u.new_empty(batch, size, channels), u.new_empty(batch, channels)
        d_B, d_C = (u.new_empty(batch, blocks, *B.shape[1:]) for _ in range(2))
        filled = [x.numpy() for x in (kept, d_y.contiguous(), d_state, d_u, d_delta, d_A, d_B, d_C, d_D)]
        share(kernels.backward, [*_arrays(inputs), ctx.chunk, *filled], batch * blocks, u.numel() * size)
        return d_u, d_delta, d_A.sum(0).T, d_B.sum(1), d_C.sum(1), d_D.sum(0), d_state.transpose(1, 2), None, None


def _arrays(inputs: list[Tensor]) -> list[Any]:
    """u, delta, A, B, C, D as the kernels want them."""
    u, delta, A, B, C, D = (x.detach() for x in inputs)
    return [x.contiguous().numpy() for x in (u, delta, A.T, B, C, D)]


def _by_size(state: Tensor) -> Tensor:
    """A copy, (batch, channels, size) -> (batch, size, channels)."""
    return state.detach().transpose(1, 2).clone(memory_format=torch.contiguous_format)
