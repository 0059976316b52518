"""States of networks: what layers make of them, and whether a part of one is that of a layer."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

GROWS = -1
Shapes = list[tuple[tuple[int, ...], bool]]


class State(NamedTuple):
    """All that later output may depend on."""

    layers: tuple[Any, ...]  # one named tuple of tensors for every layer, each with the batch as first axis
    position: int | None  # tokens read so far, in models whose positions are marked; the same for all histories


def read(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    """What a layer makes of x (batch, time, width) from a state, and the state after it; by steps if it cannot else."""
    from_state = getattr(layer, "forward_from", None)
    found: tuple[Tensor, Any] = stepped(layer, x, state) if from_state is None else from_state(x, state)
    return found


def stepped(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Step by step: what a layer makes of x (batch, time, width), a network of tokens (batch, time); and the state."""
    outputs = []
    for now in x.unbind(dim=1):
        out, state = layer.step(now, state)
        outputs.append(out)
    return torch.stack(outputs, dim=1), state


def shapes_of(layer: Any, start: Any) -> Shapes:
    """Of every tensor of a layer's state: its shape without the batch, `GROWS` where it may get longer; if complex.

    start: initial_state of the layer. Memory that grows starts with nothing or one entry, on its shortest axis.
    """
    shapes = _shapes(start)
    if layer.state_size(2**40) == layer.state_size(0):
        return shapes
    return [
        (tuple(GROWS if axis == shape.index(min(shape)) and size <= 1 else size for axis, size in enumerate(shape)), i)
        for shape, i in shapes
    ]


def is_like(layer: Any, part: Any, wanted: Shapes) -> bool:
    """Whether a part of a state has the shapes and numbers of the layer's; wanted: its `shapes_of`. Precision is free.

    Every step of a network comes by: a layer whose state does not grow costs one comparison.
    """
    found = _shapes(part)
    if found == wanted:
        return True
    if len(found) != len(wanted):
        return False
    numbers = 0
    for (shape, i), (due, j) in zip(found, wanted, strict=True):
        if i != j or len(shape) != len(due):
            return False
        entries = 1 + i
        for size, allowed in zip(shape, due, strict=True):
            if allowed not in (size, GROWS):
                return False
            entries *= size
        numbers += entries
    return numbers == int(layer.state_size(sum(leaf for leaf in part if isinstance(leaf, int))))


def _shapes(part: Any) -> Shapes:
    return [(leaf.shape[1:], leaf.is_complex()) for leaf in part if isinstance(leaf, Tensor)]
