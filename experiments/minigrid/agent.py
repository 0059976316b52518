"""The agent of Kerg et al. (2020) for grid worlds: convolutions, a recurrent layer, two heads, and how it forgets."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from experiments.minigrid.environments import ACTIONS
from lib.checks import whole_number
from lib.models.base import Module, seeded
from lib.models.kernels.screening.cell import NO_BUFFERED
from lib.models.recurrent.basic import LSTMLayer
from lib.models.recurrent.screening import ScreeningLayer

Memory = Literal["episodes", "steps", "never", "released"]
"""When the memory is emptied; see `Agent`."""
MEMORIES: tuple[str, ...] = get_args(Memory)
LAYERS = ("lstm", "mem_lstm", "rel_lstm")
FEATURES = 64  # numbers that the convolutions make of an image
SHORT = ("hidden", "cell")  # fields of a state that every LSTM has; all others are of its attention


class Agent(Module):
    """Logits of the actions and a value of what is seen: heads(layer(convolutions(image))).

    Convolutions 3 -> 16, ReLU, the largest of 2 x 2, 16 -> 32, ReLU, 32 -> 64, ReLU, all of 2 x 2 cells, on the
    integers of the image as they are; both heads have 64 hidden units of tanh. Rows of their maps start with norm 1,
    biases at 0; in the authors' code those of the layer too. layer: an LSTM of `width` cells, alone, or one that
    attends to all its states ("mem_lstm"), or to the last `buffer` and to `relevant` older ones that screening keeps
    ("rel_lstm"); see `ScreeningLayer`.

    memory: "episodes", emptied for a sequence where its episode begins; as controls "steps", emptied before every step,
    and "never". "released" is what the authors' public code does: when acting, what attention reads is emptied before
    every step for all sequences, and only h and c live through an episode; when learning, it is emptied where a window
    begins alone. Where an episode ends within one, "rel_lstm" reads on as if it had not: its s_t and its cell are those
    that it made itself; "mem_lstm" gets h = 0 in s_t = (h + c) / 2 and an empty cell. Without attention that is
    "episodes".
    """

    def __init__(
        self,
        layer: str = "lstm",
        width: int = 64,
        *,
        buffer: int = 5,
        relevant: int = 5,
        memory: Memory = "episodes",
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__()
        if memory not in MEMORIES:
            raise ValueError(f"memory: one of {', '.join(MEMORIES)} is allowed, got {memory!r}")
        self.memory = memory
        with seeded(seed):
            self.convolutions = nn.Sequential(
                nn.Conv2d(3, 16, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 2), nn.ReLU(),
                nn.Conv2d(32, FEATURES, 2), nn.ReLU(), nn.Flatten(),
            )  # fmt: skip
            self.layer = _layer(layer, whole_number(width, "width", 1), buffer, relevant)
            self.actor, self.critic = _head(width, len(ACTIONS)), _head(width, 1)

    def initial_state(self, batch: int) -> Any:
        return self.layer.initial_state(whole_number(batch, "batch", 1))

    def step(self, images: Tensor, begins: Tensor, state: Any) -> tuple[Tensor, Tensor, Any]:
        """When acting: logits (batch, actions), values (batch,) and the state after images (batch, 7, 7, 3).

        begins: (batch,), whether an episode begins with this image.
        """
        output, after = self.layer.step(self._seen(images), self._forgotten(state, begins))
        return self.actor(output), self.critic(output)[:, 0], after

    @property
    def device(self) -> torch.device:
        found: torch.device = self.actor[0].weight.device
        return found

    def window(self, images: Tensor, begins: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """When learning: logits (time, batch, actions) and values (time, batch) of images (time, batch, 7, 7, 3)."""
        outputs: list[Tensor] = []
        for seen, begin in zip(self._seen(images.flatten(0, 1)).unflatten(0, begins.shape), begins, strict=True):
            output, state = self.layer.step(seen, self._forgotten(state, begin, inside=bool(outputs)))
            outputs.append(output)
        stacked = torch.stack(outputs)
        return self.actor(stacked), self.critic(stacked)[..., 0]

    def _seen(self, images: Tensor) -> Tensor:
        found: Tensor = self.convolutions(images.permute(0, 3, 1, 2).to(self.actor[0].weight.dtype))
        return found

    def _forgotten(self, state: Any, begins: Tensor, inside: bool = False) -> Any:
        """inside: not acting, but learning from a step of a window that is not its first."""
        if self.memory == "episodes":
            return emptied(self.layer, state, begins)
        if self.memory == "steps":
            return emptied(self.layer, state, torch.ones_like(begins))
        if self.memory == "released":
            if inside and isinstance(self.layer, ScreeningLayer):
                return state if self.layer.rule.relevant else _without_last(self.layer, state, begins)
            long = tuple(name for name in state._fields if name not in SHORT)
            return emptied(self.layer, emptied(self.layer, state, torch.ones_like(begins), keep=SHORT), begins, long)
        return state


def _without_last(layer: ScreeningLayer, state: Any, rows: Tensor) -> Any:
    """The state of an LSTM that attends to all its states, in these sequences with h = 0 in s and an empty cell."""
    some, last = rows[:, None], layer.rule.own * state.buffer[:, -1]
    hidden = torch.where(some, state.hidden - last, state.hidden)
    return state._replace(hidden=hidden, cell=state.cell.masked_fill(some, 0.0))


def emptied(layer: Any, state: Any, rows: Tensor, keep: tuple[str, ...] = ()) -> Any:
    """The state with the rows of the initial state in these sequences, but for the fields that are kept.

    state: a named tuple of tensors with the sequences as first axis; what is no tensor is the same for all of them. In
    a memory that grows the places of these rows become empty, and those that are empty in all rows, from the oldest
    on, are given up.
    """
    if not bool(rows.any()):
        return state
    first, fields = layer.initial_state(len(rows)), {}
    for name, now in state._asdict().items():
        if isinstance(now, Tensor) and name not in keep:
            anew = getattr(first, name)
            if anew.shape != now.shape:
                anew = torch.full_like(now, NO_BUFFERED if name == "scores" else 0)
            fields[name] = torch.where(rows.view(-1, *[1] * (now.ndim - 1)), anew, now)
    after = state._replace(**fields)
    if "scores" not in fields or first.scores.shape == after.scores.shape:
        return after
    used = (after.scores > NO_BUFFERED).any(dim=0)
    oldest = int(used.long().argmax()) if bool(used.any()) else len(used)
    grown = {name: getattr(after, name)[:, oldest:] for name in ("buffer", "buffer_keys", "scores")}
    return after._replace(**grown, steps=after.steps - oldest)


def _layer(name: str, width: int, buffer: int, relevant: int) -> Any:
    if name not in LAYERS:
        raise ValueError(f"layer: one of {', '.join(LAYERS)} is allowed, got {name!r}")
    if name == "lstm":
        return LSTMLayer(FEATURES, width)
    places = {"buffer": None, "relevant": 0} if name == "mem_lstm" else {"buffer": buffer, "relevant": relevant}
    return ScreeningLayer(FEATURES, width, cell="lstm", **places)


def _head(width: int, outputs: int) -> Any:
    head = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, outputs))
    for linear in (head[0], head[2]):
        nn.init.normal_(linear.weight)
        with torch.no_grad():
            linear.weight /= linear.weight.norm(dim=1, keepdim=True)
        nn.init.zeros_(linear.bias)
    return head
