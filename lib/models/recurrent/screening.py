"""Recurrent cells that attend to all their past states, or to a buffer and a few screened ones (Kerg et al. 2020)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import Module
from lib.models.kernels.screening.cell import (
    NEVER,
    Rule,
    ScreeningState,
    Weights,
    initial_state,
    restarted,
    screening,
    screening_step,
)
from lib.models.recurrent.orthogonal import AttendingModel, OrthogonalLayer, refuse_unknown

CELLS = ("rnn", "lstm")
COMBINATIONS = {"sum": (1.0, 1.0), "mean": (0.5, 0.5)}  # shares of h_t and c_t in s_t
SELECTIONS = ("screening", "first", "random", "oracle")
TIMELESS = ("screening", "first")  # those that do not depend on when a sequence began


class ScreeningLayer(Module):
    """h_t = phi(V s_{t-1} + U x_t + b), or an LSTM fed with s_{t-1}; s_t = f(h_t, c_t); the output is h_t.

    c_t = sum_i alpha_{i,t} h_i with alpha the softmax of v . tanh(W_a s_{t-1} + U_a h_i) over the states attended to,
    which are the last `buffer` ones, h_t first, and `relevant` older ones; s_0 = 0. What is kept longer than the
    buffer is said in `lib.models.kernels.screening.cell`. The cell of an LSTM is its own, not a mixture.

    cell: "rnn" or "lstm"; an LSTM has normal Xavier kernels over state and input together, biases uniform in
    +-1/sqrt(inputs + width) and no options of V. activation, start, input_start: of an RNN, as in `OrthogonalLayer`.
    W_a, U_a start uniform in +-1/sqrt(width), v Xavier normal. buffer: None for all states. combine: f, "mean"
    (h + c) / 2 or "sum" h + c.
    select: "screening" by accumulated weights; or, with as many states attended to, "first": those that come first
    stay; "random": all that have left the buffer are as likely to be kept, by numbers drawn for a sequence's place in
    the batch and a time from one that is stored with the weights; "oracle": those of the 0-based times `oracle`.
    Raises ValueError for unknown names, buffer < 1, relevant < 0, and oracle times that are missing, not different,
    more than `relevant`, or given with another `select`.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        cell: str = "rnn",
        buffer: int | None = 10,
        relevant: int = 10,
        combine: str = "mean",
        activation: str = "tanh",
        start: str = "henaff",
        input_start: str = "xavier",
        select: str = "screening",
        oracle: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(cell=(cell, CELLS), combine=(combine, tuple(COMBINATIONS)), select=(select, SELECTIONS))
        places = None if buffer is None else whole_number(buffer, "buffer", 1)
        kept = whole_number(relevant, "relevant", 0)
        if places is None and kept:
            raise ValueError(f"relevant: 0 is allowed where the buffer holds all states, got {relevant}")
        self.width, self.select, self.oracle = width, select, _oracle(select, oracle, kept)
        self.rule = Rule("lstm" if cell == "lstm" else activation, places, kept, *COMBINATIONS[combine])
        if cell == "lstm":
            kernel = [nn.init.xavier_normal_(torch.empty(width, inputs + width)) for _ in range(4)]
            bound = (inputs + width) ** -0.5
            self.weight_ih = nn.Parameter(torch.cat([gate[:, :inputs] for gate in kernel]))
            self.weight_hh = nn.Parameter(torch.cat([gate[:, inputs:] for gate in kernel]))
            self.bias = nn.Parameter(torch.empty(4 * width).uniform_(-bound, bound))
            self.threshold = None
        else:
            plain = OrthogonalLayer(inputs, width, activation=activation, start=start, input_start=input_start)
            self.weight_ih, self.weight_hh, self.bias = plain.weight_ih, plain.weight_hh, plain.bias
            self.threshold = plain.threshold
        bound = width**-0.5
        self.weight_query = nn.Parameter(torch.empty(width, width).uniform_(-bound, bound))  # W_a
        self.weight_key = nn.Parameter(torch.empty(width, width).uniform_(-bound, bound))  # U_a
        self.weight_score = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, width))[0])  # v
        # Stored with the weights: which states are kept by chance must not change when a network is read again.
        self.register_buffer("lottery", torch.randint(2**31, ()) if select == "random" else None)

    def weights(self) -> Weights:
        """Those of the recurrence and of the alignment."""
        return Weights(self.weight_hh, self.weight_query, self.weight_key, self.weight_score, self.threshold)

    def forward(self, x: Tensor, nudge: Tensor | None = None) -> Tensor:
        """h, (batch, time, width), of x (batch, time, inputs).

        nudge: added to h, of its shape; the gradient of a loss by zeros there is that by h_t, along all paths.
        """
        priorities = self._priorities(x.shape[0], 0, x.shape[1])
        return screening(self._driven(x), self.weights(), self.rule, priorities=priorities, nudge=nudge).hidden

    def initial_state(self, batch: int) -> ScreeningState:
        return initial_state(batch, self.weights(), self.rule)

    def step(self, x: Tensor, state: ScreeningState) -> tuple[Tensor, ScreeningState]:
        priorities = self._priorities(x.shape[0], state.steps, state.steps + 1)
        priority = None if priorities is None else priorities[:, 0]
        found = screening_step(self._driven(x), state, self.weights(), self.rule, priority)
        return found.hidden, found.state

    def restart(self, state: ScreeningState, rows: Tensor) -> ScreeningState:
        """The state in which the sequences `rows`, (batch,) of bool, have read nothing yet.

        Raises ValueError where states are selected by their times, of which all sequences of a batch have one count.
        """
        if self.select not in TIMELESS:
            allowed = " or ".join(map(repr, TIMELESS))
            raise ValueError(f"select: {allowed} is allowed where sequences start anew, got {self.select!r}")
        return restarted(state, rows)

    def state_size(self, length: int) -> int:
        """s, the cell of an LSTM, and for each place h_i, U_a h_i and a score."""
        places = self.rule.relevant + (length if self.rule.buffer is None else self.rule.buffer)
        return self.width * (2 if self.rule.cell == "lstm" else 1) + places * (2 * self.width + 1)

    def attended(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """0-based times attended to, -1 for an empty slot, and their weights, 0 there; both (batch, time, slots).

        Slots: first those of the buffer, of which there are as many as times if it holds all states, then the relevant
        set. Not differentiable. x: (batch, time, inputs).
        """
        batch, time, _ = x.shape
        places = time if self.rule.buffer is None else self.rule.buffer
        with torch.no_grad():
            priorities = self._priorities(batch, 0, time)
            found = screening(self._driven(x), self.weights(), self.rule, priorities=priorities, trace=True)
        t, slot = torch.arange(time, device=x.device)[:, None], torch.arange(places, device=x.device)
        buffered = (t - (t - slot) % places).clamp(min=-1)
        times = torch.cat([buffered.expand(batch, -1, -1), found.relevant.long()], dim=2)
        last, chosen = found.weights.split([found.weights.shape[2] - self.rule.relevant, self.rule.relevant], dim=2)
        return times, torch.cat([F.pad(last, (0, places - last.shape[2])), chosen], dim=2)

    def _driven(self, x: Tensor) -> Tensor:
        return x @ self.weight_ih.T + self.bias

    def _priorities(self, batch: int, start: int, stop: int) -> Tensor | None:
        """(batch, stop - start), or None for weights as scores; see `screening`."""
        if self.select == "screening" or not self.rule.relevant:
            return None
        if self.select == "first":
            return self.bias.new_zeros(batch, stop - start)
        times = torch.arange(start, stop, device=self.bias.device)
        if self.select == "oracle":
            wanted = (times[:, None] == torch.tensor(self.oracle, device=times.device)).any(dim=1)
            return torch.where(wanted, 0.0, NEVER).to(self.bias.dtype).expand(batch, -1)
        rows = torch.arange(batch, device=times.device)[:, None]
        return (_mixed(_mixed(self.lottery + rows * 0x9E3779B1) + times * 0x85EBCA6B) / 2**32).to(self.bias.dtype)


class _Screening(AttendingModel):
    """Screening layers with these options, on unit vectors or an embedding."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int,
        embedding: int | None,
        seed: int | np.random.Generator,
        options: dict[str, Any],
    ) -> None:
        make = functools.partial(ScreeningLayer, width=width, **options)
        super().__init__(vocabulary, width, depth, make, embedding, seed)


class MemRNN(_Screening):
    """MemRNN of Kerg et al. (2020): an RNN that attends to all its past states.

    State: s of every layer, and of every token read h, U_a h and one number; it grows with the length. embedding:
    tokens are unit vectors, or have a trained embedding of this size. Other options: see `ScreeningLayer`.
    """

    variants = ({}, {"combine": "sum"}, {"activation": "modrelu", "start": "cayley"})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        combine: str = "mean",
        activation: str = "tanh",
        start: str = "henaff",
        input_start: str = "xavier",
        seed: int | np.random.Generator = 0,
    ) -> None:
        options: dict[str, Any] = {"buffer": None, "relevant": 0, "combine": combine}
        options |= {"activation": activation, "start": start, "input_start": input_start}
        super().__init__(vocabulary, width, depth, embedding, seed, options)


class RelRNN(_Screening):
    """RelRNN of Kerg et al. (2020): an RNN that attends to its last states and to those that screening keeps.

    State: s of every layer, and of every place h, U_a h and one number, whatever the length. embedding: as in `MemRNN`.
    Other options: see `ScreeningLayer`.
    """

    variants = (
        {},
        {"buffer": 3, "relevant": 2, "combine": "sum"},
        {"buffer": 1, "relevant": 0, "activation": "modrelu"},
        {"buffer": 2, "relevant": 3, "select": "first"},
        {"buffer": 4, "relevant": 3, "select": "random"},
        {"buffer": 2, "relevant": 3, "select": "oracle", "oracle": (0, 3)},
    )

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        buffer: int = 10,
        relevant: int = 10,
        combine: str = "mean",
        activation: str = "tanh",
        start: str = "henaff",
        input_start: str = "xavier",
        select: str = "screening",
        oracle: Sequence[int] | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        options: dict[str, Any] = {"buffer": whole_number(buffer, "buffer", 1), "relevant": relevant}
        options |= {"combine": combine, "activation": activation, "start": start, "input_start": input_start}
        options |= {"select": select, "oracle": oracle}
        super().__init__(vocabulary, width, depth, embedding, seed, options)


class MemLSTM(_Screening):
    """MemLSTM of Kerg et al. (2020): an LSTM fed with s_{t-1} that attends to all its past states; see `MemRNN`."""

    variants = ({}, {"combine": "sum", "embedding": 3})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        combine: str = "mean",
        seed: int | np.random.Generator = 0,
    ) -> None:
        options: dict[str, Any] = {"cell": "lstm", "buffer": None, "relevant": 0, "combine": combine}
        super().__init__(vocabulary, width, depth, embedding, seed, options)


class RelLSTM(_Screening):
    """RelLSTM of Kerg et al. (2020): an LSTM fed with s_{t-1} that attends to what `RelRNN` does."""

    variants = ({}, {"buffer": 3, "relevant": 2, "combine": "sum"})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        buffer: int = 10,
        relevant: int = 10,
        combine: str = "mean",
        select: str = "screening",
        oracle: Sequence[int] | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        options: dict[str, Any] = {"cell": "lstm", "buffer": whole_number(buffer, "buffer", 1), "relevant": relevant}
        options |= {"combine": combine, "select": select, "oracle": oracle}
        super().__init__(vocabulary, width, depth, embedding, seed, options)


def _oracle(select: str, oracle: Sequence[int] | None, relevant: int) -> list[int]:
    """The times, in order."""
    if select != "oracle":
        if oracle is not None:
            raise ValueError(f"oracle: belongs to select 'oracle'; leave it out with {select!r}, got {oracle!r}")
        return []
    allowed = f"oracle: at most relevant = {relevant} different 0-based times are allowed"
    if oracle is None or isinstance(oracle, int | str):
        raise ValueError(f"{allowed}, got {oracle!r}")
    times = sorted({whole_number(time, "oracle", 0) for time in oracle})
    if len(times) != len(oracle) or len(times) > relevant or not times:
        raise ValueError(f"{allowed}, got {list(oracle)}")
    return times


def _mixed(numbers: Tensor) -> Tensor:
    """Whole numbers 0 .. 2^32 - 1 that look drawn at random, one for each whole number: multiply and fold, twice."""
    mixed = numbers & 0xFFFFFFFF
    for _ in range(2):
        mixed = ((mixed >> 16) ^ mixed) * 0x45D9F3B & 0xFFFFFFFF
    return (mixed >> 16) ^ mixed
