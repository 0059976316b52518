"""Networks that read numbers and tell a class at the end, and networks that read a text on where they stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.pixels_and_characters.images import CLASSES
from lib.checks import whole_number
from lib.models import create
from lib.models.base import Module, SequenceModel, seeded
from lib.models.kernels.recurrent import lstm
from lib.models.kernels.screening.cell import Rule, Screened, screening
from lib.models.recurrent.basic import LSTMLayer
from lib.models.recurrent.gated_orthogonal import GatedOrthogonalLayer
from lib.models.recurrent.orthogonal import OrthogonalLayer
from lib.models.recurrent.screening import ScreeningLayer

LAYERS: dict[str, Callable[..., Module]] = {
    "lstm": LSTMLayer,
    "rnn": lambda *sizes, **options: OrthogonalLayer(*sizes, **{"start": "xavier"} | options),
    "orth_rnn": OrthogonalLayer,
    "exp_rnn": lambda *sizes, **options: OrthogonalLayer(*sizes, constrained=True, **options),
    "mem_rnn": lambda *sizes, **options: ScreeningLayer(*sizes, buffer=None, relevant=0, **options),
    "rel_rnn": ScreeningLayer,
}
"""Of each network that reads numbers, the layer, whose matrix U is the only map of the inputs."""

READERS = ("lstm", "orth_rnn", "exp_rnn", "goru", "rel_rnn", "mem_rnn")
"""Networks that read characters."""

Carried = tuple[Tensor, ...]
"""What goes from one window to the next: s, or h, of all sequences, (batch, width); and c of an LSTM."""


class PixelClassifier(Module):
    """Logits of the classes after the last step: head(h_T), of x (batch, time, inputs).

    Stepwise: state = model.initial_state(batch), then logits, state = model.step(x, state) with x (batch, inputs).
    architecture: a key of LAYERS; options: of its layer. "rnn" is orth-RNN with V Xavier normal at first. The head is
    Xavier normal, its bias 0. Raises ValueError for other names and sizes.
    """

    def __init__(
        self, architecture: str, inputs: int, width: int, *, seed: int | np.random.Generator = 0, **options: Any
    ) -> None:
        super().__init__()
        if architecture not in LAYERS:
            raise ValueError(f"architecture: one of {', '.join(LAYERS)} is allowed, got {architecture!r}")
        sizes = whole_number(inputs, "inputs", 1), whole_number(width, "width", 1)
        with seeded(seed):
            try:
                self.layer = LAYERS[architecture](*sizes, **options)
            except TypeError as error:
                raise ValueError(f"{architecture}: {error}") from error
            self.head = nn.Linear(width, CLASSES)
            nn.init.xavier_normal_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        self.slow = architecture == "exp_rnn"
        self.copies = inputs  # numbers of a step, as other networks that read numbers call them

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(x)[:, -1])
        return logits

    def initial_state(self, batch: int) -> Any:
        return self.layer.initial_state(whole_number(batch, "batch", 1))

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (batch, classes) if x (batch, inputs) were the last step, and the state that has read it."""
        hidden, after = self.layer.step(x, state)
        return self.head(hidden), after

    def slow_parameters(self) -> list[nn.Parameter]:
        """A of an orthogonal V = V_0 exp(A)."""
        return [self.layer.parametrizations.weight_hh.original] if self.slow else []


class Read(NamedTuple):
    logits: Tensor  # (batch, time, vocabulary)
    carried: Carried  # detached
    times: Tensor | None = None  # attended to, (batch, time, slots), -1 in an empty one
    weights: Tensor | None = None  # of the attention, of the same shape


def reader(
    architecture: str, vocabulary: int, width: int, embedding: int, seed: int | np.random.Generator, **options: Any
) -> SequenceModel:
    """A network of one layer on a trained embedding. Raises ValueError for one that `read_on` does not know."""
    if architecture not in READERS:
        raise ValueError(f"architecture: one of {', '.join(READERS)} is allowed, got {architecture!r}")
    return create(architecture, vocabulary, width, 1, embedding=embedding, seed=seed, **options)


def no_state(model: Any, rows: int) -> Carried:
    """What is carried before the first token."""
    layer = model.layers[0]
    zeros = model.head.weight.new_zeros(rows, layer.width)
    return (zeros, zeros) if isinstance(layer, LSTMLayer) else (zeros,)


def read_on(model: Any, tokens: Tensor, carried: Carried | None = None, *, trace: bool = False) -> Read:
    """Read a window of tokens (batch, time) from where the last one left the state; memory is empty at its start.

    carried: as the last window gave it, None for zeros. An RNN takes V s_0 as an input at its first step; what it
    attends to there does not depend on s_0, for there is one state. trace: whether times and weights are asked for.
    """
    layer, x = model.layers[0], model.embedding(tokens)
    start = carried or no_state(model, len(x))
    times, weights = None, None
    if isinstance(layer, LSTMLayer):
        out, cell = lstm(x, layer.weight_ih, layer.weight_hh, layer.bias, *start)
        after: Carried = (out[:, -1], cell)
    elif isinstance(layer, GatedOrthogonalLayer):
        out = layer(x, start[0])
        after = (out[:, -1],)
    else:
        driven, all_weights = x @ layer.weight_ih.T + layer.bias, layer.weights()
        if carried:
            driven = driven + F.pad((carried[0] @ all_weights.recurrent.T)[:, None], (0, 0, 0, x.shape[1] - 1))
        found = screening(driven, all_weights, layer.rule, trace=True)
        out, after = found.hidden, (last_state(found, layer.rule),)
        if trace and layer.rule.buffer != 0:
            times, weights = attended_times(found, layer.rule), found.weights
    logits = model.head(model.norm(out))
    return Read(logits, tuple(one.detach() for one in after), times, weights)


def attended_times(found: Screened, rule: Rule) -> Tensor:
    """0-based times of the slots of `found.weights`, -1 for an empty one."""
    batch, time, slots = found.weights.shape
    places = slots - rule.relevant
    t, slot = (torch.arange(size, device=found.weights.device) for size in (time, places))
    buffered = (t[:, None] - (t[:, None] - slot) % places).clamp(min=-1)
    return torch.cat([buffered.expand(batch, -1, -1), found.relevant.long()], dim=2)


def last_state(found: Screened, rule: Rule) -> Tensor:
    """s_T = own h_T + other c_T, (batch, width); h_T without attention."""
    hidden = found.hidden.detach()
    if rule.buffer == 0:
        return hidden[:, -1]
    times, weights = attended_times(found, rule)[:, -1], found.weights[:, -1]
    rows = torch.arange(len(hidden), device=hidden.device)[:, None]
    context = (weights[..., None] * hidden[rows, times.clamp(min=0)]).sum(dim=1)
    return rule.own * hidden[:, -1] + rule.other * context
