"""What functions of compiled loops have in common: arrays, threads that share the work, first derivatives only."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

SMALL_WORK = 1 << 17  # operations below which waking a thread costs more than it saves


def numpy_arrays(*tensors: Tensor) -> list[Any]:
    """Contiguous arrays in the memory of the tensors; of one that is not contiguous, a copy, so none to be filled."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def share(kernel: Callable[..., None], arguments: list[Any], pieces: int, operations: int) -> None:
    """Call kernel(*arguments, piece) for every piece, on as many threads as torch would use.

    The kernel must release the interpreter's lock, and pieces must not write to the same place. Which thread takes
    which piece is left to chance; the result is not. Called from many threads at once, each call has its own pieces.
    """
    remaining = iter(range(pieces))  # a thread that is done with one piece takes the next

    def work() -> None:
        for piece in remaining:
            kernel(*arguments, piece)

    helpers = min(torch.get_num_threads(), pieces) - 1 if operations > SMALL_WORK else 0
    waiting = [_pool(helpers).submit(work) for _ in range(helpers)]
    work()
    for helper in waiting:
        helper.result()


def refuse_second_derivatives() -> None:
    """Raise RuntimeError in a backward pass that is itself to be differentiated: torch would take it for a constant."""
    if torch.is_grad_enabled():
        raise RuntimeError("compiled loops have first derivatives only: create_graph is not allowed")


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="compiled-loops")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
