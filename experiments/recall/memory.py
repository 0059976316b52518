"""What a training has to keep for the way back through time, in bytes, and how that grows with the length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils import parametrize

from lib.models import create
from lib.processes import CopyTask


def bytes_by_delay(
    architecture: str, delays: list[int], *, width: int = 32, compiled: bool = False, **options: Any
) -> dict[int, int]:
    """Bytes that one sequence of the copy task leaves for the way back, at each delay; options: of the architecture.

    In the plain form, step by step by automatic differentiation, as the paper has it; or by the compiled loop.
    """
    found = {}
    for delay in delays:
        task = CopyTask(delay)
        model = create(architecture, task.vocabulary, width, 1, seed=0, **options)
        tokens = torch.from_numpy(task.sample(1, 0)[0])
        found[delay] = saved_bytes(model, tokens, compiled=compiled)
    return found


def saved_bytes(model: Any, tokens: torch.Tensor, *, compiled: bool = False) -> int:
    """Bytes of all memory that a forward pass over tokens (batch, time) keeps for its gradients, weights left out.

    Memory that several saved tensors share counts once. compiled: the parallel form; else the stepwise one.
    """
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage  # held, so that no other tensor gets its place meanwhile
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor), parametrize.cached():
        outputs = model(tokens) if compiled else _stepwise(model, tokens)
    total = sum(int(storage.nbytes()) for place, storage in kept.items() if place not in own)
    del outputs  # they hold the graph, and with it all that was kept
    return total


def last_exponent(sizes: Mapping[int, float]) -> float:
    """d ln(size) / d ln(delay) between the last two of the delays."""
    (short, small), (long, large) = sorted(sizes.items())[-2:]
    return math.log(large / small) / math.log(long / short)


def _stepwise(model: Any, tokens: torch.Tensor) -> list[torch.Tensor]:
    state, outputs = model.initial_state(len(tokens)), []
    for token in tokens.T:
        logits, state = model.step(token, state)
        outputs.append(logits)
    return outputs
