"""Is the state all that a model remembers, and does it use all of it? Asked of the model's behaviour, not its code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.models.base import State


def state_leak(model: Any, past: Tensor, other_past: Tensor, future: Tensor) -> float:
    """How far logits of the future move when everything but the state is exchanged: 0 if the state is all there is.

    The model reads `past` and goes on with `future`. The state after `past` is then given to the same object after it
    has read `other_past`, and to a fresh copy that has read nothing; both go on with `future`. Whatever memory lies
    outside the state differs in them. past, other_past (batch, any time), future (batch, time): tokens. Returns the
    largest difference of a logit.
    """
    fresh = copy.deepcopy(model)
    with torch.no_grad():
        state = read(model, past)
        saved = changed(state, torch.clone)
        expected = continued(model, future, state)
        read(model, other_past)
        elsewhere = [continued(other, future, changed(saved, torch.clone)) for other in (model, fresh)]
    return max(float((logits - expected).abs().max()) for logits in elsewhere)


def state_influence(model: Any, past: Tensor, future: Tensor, size: float = 0.1) -> NDArray[np.float64]:
    """Largest change of a logit over the future when one number of the state is moved by `size`, for each of them.

    Real and imaginary parts are numbers of their own. Zero means that the number is carried for nothing. past and
    future (time,): tokens. Returns as many values as the state has numbers. Cost: a batch of as many sequences.
    """
    with torch.no_grad():
        state = read(model, past[None])
        numbers = sum(_as_real(leaf).numel() for part in state.layers for leaf in part if isinstance(leaf, Tensor))
        rows = numbers + 1  # in the last one nothing is moved
        first = 0

        def moved(leaf: Tensor) -> Tensor:
            nonlocal first
            real = _as_real(leaf).expand(rows, *_as_real(leaf).shape[1:]).contiguous()
            count = real[0].numel()
            own = torch.arange(count, device=real.device)
            real.view(rows, count)[first + own, own] += size
            first += count
            return torch.view_as_complex(real) if leaf.is_complex() else real

        logits = continued(model, future.expand(rows, -1), changed(state, moved))
        return np.asarray((logits[:-1] - logits[-1]).abs().amax(dim=(1, 2)).double().cpu().numpy())


def read(model: Any, tokens: Tensor) -> State:
    """The state after tokens (batch, time)."""
    state: State = model.initial_state(tokens.shape[0])
    for token in tokens.T:
        _, state = model.step(token, state)
    return state


def continued(model: Any, tokens: Tensor, state: State) -> Tensor:
    """Logits (batch, time, vocabulary) of tokens (batch, time) read from a state on."""
    logits = []
    for token in tokens.T:
        out, state = model.step(token, state)
        logits.append(out)
    return torch.stack(logits, dim=1)


def changed(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """The state with every tensor replaced, counters as they are."""
    parts = (type(part)(*(change(x) if isinstance(x, Tensor) else x for x in part)) for part in state.layers)
    return State(tuple(parts), state.position)


def _as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x
