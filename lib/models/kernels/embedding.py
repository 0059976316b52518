"""Vectors of tokens, with a gradient that is one compiled pass: torch's goes through an operation for every token."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor

from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives


def token_vectors(tokens: Tensor, weight: Tensor) -> Tensor:
    """weight[tokens], (..., size), of whole numbers (...,) and weight (vocabulary, size).

    On the CPU in float32 or float64 with the compiled gradient, to the last bit that of torch, whose order of sums it
    has: tokens one after the other. It has first derivatives only. Cost O(tokens x size).
    """
    if weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64):
        vectors: Tensor = CompiledEmbedding.apply(tokens, weight)
        return vectors
    return F.embedding(tokens, weight)


def refuse_unknown(tokens: Tensor | int, vocabulary: int) -> None:
    """Raise ValueError for tokens, or the largest token, outside 0 .. vocabulary - 1; tokens of a GPU are not read."""
    if isinstance(tokens, int) or tokens.device.type == "cpu":
        least, largest = (0, tokens) if isinstance(tokens, int) else (int(end) for end in tokens.aminmax())
        if least < 0 or largest >= vocabulary:
            raise ValueError(f"tokens: 0 .. {vocabulary - 1} are in the vocabulary, got {least} .. {largest}")


class CompiledEmbedding(torch.autograd.Function):  # type: ignore[misc]
    """(tokens, weight) -> vectors."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape = weight.shape
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        refuse_second_derivatives()
        (tokens,) = ctx.saved_tensors
        total = gradient.new_zeros(ctx.shape)
        _add_at(*numpy_arrays(tokens.reshape(-1), gradient.reshape(-1, gradient.shape[-1]), total))
        return None, total


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_at(tokens: Any, lines: Any, total: Any) -> None:
    """total[tokens[n]] += lines[n] for every n in turn."""
    for n in range(tokens.size):
        row = total[tokens[n]]
        for c in range(lines.shape[1]):
            row[c] += lines[n, c]
