"""How exactly a GPU multiplies matrices while a network is trained: a named choice, undone when training ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

PRECISIONS = ("float32", "tf32", "bfloat16")


def checked_precision(precision: str) -> str:
    """The name, or ValueError."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision: one of {', '.join(PRECISIONS)} is allowed, got {precision!r}")
    return precision


@contextlib.contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Products of float32 matrices, forward and backward, with full factors ("float32"), or with 11 bits of them.

    "tf32" and "bfloat16" allow torch to round the factors of products to TF32 where the hardware does that; weights,
    sums and everything else stay float32. cuDNN, which computes recurrent networks and convolutions, has a setting of
    its own, and rounds unless it is told not to. Raises ValueError for another precision.
    """
    before, cudnn_before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    full = checked_precision(precision) == "float32"
    torch.set_float32_matmul_precision("highest" if full else "high")
    torch.backends.cudnn.allow_tf32 = not full
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = cudnn_before


def forward_pass(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """What a forward pass goes through: autocast for "bfloat16", nothing for the others."""
    if checked_precision(precision) != "bfloat16":
        return contextlib.nullcontext()
    autocast: contextlib.AbstractContextManager[None] = torch.autocast(device.type, torch.bfloat16)
    return autocast
