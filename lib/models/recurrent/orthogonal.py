"""RNNs whose recurrent matrix starts orthogonal, free or held so: the ground on which Kerg et al. (2020) attend.

What all of that paper's cells have in common is here too: how matrices start, tokens as unit vectors, and the head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from lib.checks import truth_value, whole_number
from lib.models.base import Module, SequenceModel, seeded
from lib.models.kernels.screening.cell import (
    Rule,
    ScreeningState,
    Weights,
    initial_state,
    restarted,
    screening,
    screening_step,
)

ACTIVATIONS = ("tanh", "modrelu")
STARTS = ("henaff", "cayley", "orthogonal", "xavier")
INPUT_STARTS = ("xavier", "kaiming")


class OrthogonalLayer(Module):
    """h_t = phi(V h_{t-1} + U x_t + b), h_0 = 0; the output is h_t.

    activation: phi, "tanh" or "modrelu", sign(z) max(0, |z| + a) with a trained a, uniform in +-0.01 at first.
    start: of V, see `started`. input_start: of U, "xavier" or "kaiming" normal; b starts at zero. constrained: V stays
    orthogonal, V = V_0 exp(A) with A skew, 0 at first. Raises ValueError for another name.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        activation: str = "tanh",
        start: str = "henaff",
        input_start: str = "xavier",
        constrained: bool = False,
    ) -> None:
        super().__init__()
        refuse_unknown(activation=(activation, ACTIVATIONS), input_start=(input_start, INPUT_STARTS))
        self.width = whole_number(width, "width", 1)
        self.rule = Rule(activation)
        self.weight_hh = nn.Parameter(started(start, self.width))
        kernel = torch.empty(self.width, whole_number(inputs, "inputs", 1))
        begin = nn.init.xavier_normal_ if input_start == "xavier" else nn.init.kaiming_normal_
        self.weight_ih = nn.Parameter(begin(kernel))
        self.bias = nn.Parameter(torch.zeros(self.width))
        self.threshold = None
        if activation == "modrelu":
            self.threshold = nn.Parameter(torch.empty(self.width).uniform_(-0.01, 0.01))
        if truth_value(constrained, "constrained"):
            parametrizations.orthogonal(self, "weight_hh", orthogonal_map="matrix_exp")

    def weights(self) -> Weights:
        """Those of the recurrence; a constrained V is computed at each call."""
        return Weights(self.weight_hh, threshold=self.threshold)

    def forward(self, x: Tensor, nudge: Tensor | None = None) -> Tensor:
        """h, (batch, time, width), of x (batch, time, inputs).

        nudge: added to h, of its shape; the gradient of a loss by zeros there is that by h_t, along all paths.
        """
        return screening(self._driven(x), self.weights(), self.rule, nudge=nudge).hidden

    def initial_state(self, batch: int) -> ScreeningState:
        return initial_state(batch, self.weights(), self.rule)

    def step(self, x: Tensor, state: ScreeningState) -> tuple[Tensor, ScreeningState]:
        found = screening_step(self._driven(x), state, self.weights(), self.rule)
        return found.hidden, found.state

    def restart(self, state: ScreeningState, rows: Tensor) -> ScreeningState:
        """The state in which the sequences `rows`, (batch,) of bool, have read nothing yet."""
        return restarted(state, rows)

    def state_size(self, length: int) -> int:
        return self.width

    def _driven(self, x: Tensor) -> Tensor:
        return x @ self.weight_ih.T + self.bias


class UnitVectors(Module):
    """An embedding that is the identity: tokens become unit vectors, and nothing is trained."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(vocabulary), persistent=False)


class CellModel(SequenceModel):
    """Layers of a cell on unit vectors, or on a trained embedding of some size, and a linear head with normal weights.

    make: a layer for a number of inputs, called in the order of the layers; it gives parts x width numbers.
    seed: of all initial weights.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        make: Callable[[int], Module],
        embedding: int | None,
        seed: int | np.random.Generator,
        parts: int = 1,
    ) -> None:
        tokens = whole_number(vocabulary, "vocabulary", 1)
        size = tokens if embedding is None else whole_number(embedding, "embedding", 1)
        outputs = parts * whole_number(width, "width", 1)
        inputs = [size] + [outputs] * (whole_number(depth, "depth", 1) - 1)
        with seeded(seed):
            layers = [make(number) for number in inputs]
            super().__init__(vocabulary, size, layers, outputs)
            nn.init.xavier_normal_(self.head.weight)
            if embedding is None:
                self.embedding = UnitVectors(vocabulary)


class AttendingModel(CellModel):
    """A `CellModel` whose layers have `attended`."""

    def attended(self, tokens: Tensor, layer: int = -1) -> tuple[Tensor, Tensor]:
        """What states of a layer, the last by default, attended to while `tokens` (batch, time) were read.

        0-based times, -1 for an empty slot, and weights, 0 there; both (batch, time, slots): the buffer, of `time`
        slots if it holds all states, and after it the relevant set. Raises ValueError for a layer that is not there.
        """
        x, depth = self._embed(tokens, 2), len(self.layers)
        place = whole_number(layer, "layer", -depth)
        if place >= depth:
            raise ValueError(f"layer: {-depth} .. {depth - 1} are allowed, got {layer!r}")
        *below, asked = list(self.layers)[: place % depth + 1]
        with torch.no_grad():
            for lower in below:
                x = lower(x)
        times, weights = asked.attended(x)
        return times, weights


class OrthRNN(CellModel):
    """orth-RNN of Kerg et al. (2020): h_t = phi(V h_{t-1} + U x_t + b), V orthogonal at first and trained freely.

    State: h of every layer, depth x width numbers. embedding: tokens are unit vectors, or have a trained embedding of
    this size. activation, start, input_start: see `OrthogonalLayer`. Head Xavier normal. seed: int or numpy Generator.
    """

    variants = ({}, {"activation": "modrelu", "start": "cayley", "input_start": "kaiming"}, {"embedding": 3})
    constrained = False

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        activation: str = "tanh",
        start: str = "henaff",
        input_start: str = "xavier",
        seed: int | np.random.Generator = 0,
    ) -> None:
        def make(inputs: int) -> Module:
            return OrthogonalLayer(
                inputs,
                width,
                activation=activation,
                start=start,
                input_start=input_start,
                constrained=self.constrained,
            )

        super().__init__(vocabulary, width, depth, make, embedding, seed)


class ExpRNN(OrthRNN):
    """expRNN: as `OrthRNN` with V = V_0 exp(A), A skew, orthogonal for good (Lezcano-Casado, Martinez-Rubio 2019).

    A starts at 0, and V_0 as `start` says; it must be orthogonal, which "xavier" is not: ValueError. Options, state and
    head: as of `OrthRNN`. One exponential of a matrix, O(width^3), for each forward pass and each step.
    """

    constrained = True

    def __init__(self, vocabulary: int, width: int, depth: int = 1, *, start: str = "henaff", **options: Any) -> None:
        allowed = tuple(name for name in STARTS if name != "xavier")
        refuse_unknown(start=(start, allowed))
        super().__init__(vocabulary, width, depth, start=start, **options)

    def slow_parameters(self) -> list[nn.Parameter]:
        """A of every layer: the authors of expRNN give it a tenth of the rate of the others."""
        return [layer.parametrizations.weight_hh.original for layer in self.layers]


def started(start: str, width: int) -> Tensor:
    """A recurrent matrix (width, width), from torch's generator.

    "henaff": exp of blocks ((0, a), (-a, 0)), a uniform in -pi .. 0: rotations by a, and an odd width leaves the last
    unit as it is (Henaff, Szlam, LeCun 2016). "cayley": the same with a = -sqrt((1 - cos u) / (1 + cos u)), u uniform
    in 0 .. pi/2, numbers meant for a Cayley transform (Helfrich, Willmott, Ye 2018) that Kerg et al. put into the
    exponential. "orthogonal": uniform; "xavier": normal. Raises ValueError for another name.
    """
    refuse_unknown(start=(start, STARTS))
    matrix = torch.eye(width)
    if start == "orthogonal":
        return nn.init.orthogonal_(matrix)
    if start == "xavier":
        return nn.init.xavier_normal_(matrix)
    share = torch.rand(width // 2)
    angles = -math.pi * share if start == "henaff" else -torch.tan(math.pi / 4 * share)
    even = torch.arange(0, width - 1, 2)
    matrix[even, even], matrix[even + 1, even + 1] = angles.cos(), angles.cos()
    matrix[even, even + 1], matrix[even + 1, even] = angles.sin(), -angles.sin()
    return matrix


def refuse_unknown(**options: tuple[str, tuple[str, ...]]) -> None:
    """Raise ValueError for an option whose value is not among the allowed names."""
    for name, (value, allowed) in options.items():
        if value not in allowed:
            raise ValueError(f"{name}: one of {', '.join(allowed)} is allowed, got {value!r}")
