"""Vanilla RNN and LSTM with the parameters of Keras: one bias per gate, Glorot kernels, orthogonal recurrence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lib.checks import real_number, whole_number
from lib.models.base import Module, SequenceModel, seeded
from lib.models.kernels.recurrent import lstm, rnn

PLAIN = "keras"  # the start that both networks have, and the default
SLOW_GAIN = 0.3  # of the inputs of slow modes


class RNNState(NamedTuple):
    hidden: Tensor  # (batch, width)


class LSTMState(NamedTuple):
    hidden: Tensor  # (batch, width)
    cell: Tensor  # (batch, width)


class RecurrentLayer(Module):
    """Weights of `gates` gates, stacked as torch stacks them: (gates width, inputs) and (gates width, width)."""

    gates = 1

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight_ih = nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.gates * width, inputs)))
        self.weight_hh = nn.Parameter(nn.init.orthogonal_(torch.empty(self.gates * width, width)))
        self.bias = nn.Parameter(torch.zeros(self.gates * width))

    def _zeros(self, batch: int) -> Tensor:
        return self.bias.new_zeros(batch, self.width)


class RNNLayer(RecurrentLayer):
    """h_t = tanh(W x_t + U h_{t-1} + b); the output is h_t."""

    def forward(self, x: Tensor) -> Tensor:
        return rnn(x, self.weight_ih, self.weight_hh, self.bias, self._zeros(x.shape[0]))

    def forward_from(self, x: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        out = rnn(x, self.weight_ih, self.weight_hh, self.bias, state.hidden)
        return out, RNNState(out[:, -1])

    def start_slow(self, longest: int) -> None:
        """U = diag(1 - 1/tau) with ln tau uniform in 0 .. ln longest, and the rows of W times 0.3 / sqrt(tau)."""
        with torch.no_grad():
            tau = float(longest) ** torch.rand(self.width)
            self.weight_hh.copy_(torch.diag(1 - 1 / tau))
            self.weight_ih.mul_(SLOW_GAIN / tau.sqrt()[:, None])  # a mode sums about tau inputs: its variance stays

    def initial_state(self, batch: int) -> RNNState:
        return RNNState(self._zeros(batch))

    def step(self, x: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        hidden = torch.tanh(x @ self.weight_ih.T + state.hidden @ self.weight_hh.T + self.bias)
        return hidden, RNNState(hidden)

    def state_size(self, length: int) -> int:
        return self.width


class LSTMLayer(RecurrentLayer):
    """c_t = f c_{t-1} + i tanh(g),  h_t = o tanh(c_t); i, f, o are sigmoids, and i, f, g, o see x_t and h_{t-1}."""

    gates = 4

    def __init__(self, inputs: int, width: int, forget_bias: float = 0.0) -> None:
        super().__init__(inputs, width)
        nn.init.constant_(self.bias.data[width : 2 * width], forget_bias)

    def start_chrono(self, longest: int) -> None:
        """b_f = ln u with u uniform in 1 .. longest - 1, and b_i = -b_f."""
        with torch.no_grad():
            forget = torch.empty(self.width).uniform_(1, longest - 1).log()
            self.bias[: 2 * self.width] = torch.cat([-forget, forget])

    def forward(self, x: Tensor) -> Tensor:
        zeros = self._zeros(x.shape[0])
        return lstm(x, self.weight_ih, self.weight_hh, self.bias, zeros, zeros)[0]

    def forward_from(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        out, last = lstm(x, self.weight_ih, self.weight_hh, self.bias, state.hidden, state.cell)
        return out, LSTMState(out[:, -1], last)

    def initial_state(self, batch: int) -> LSTMState:
        return LSTMState(self._zeros(batch), self._zeros(batch))

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        gates = x @ self.weight_ih.T + state.hidden @ self.weight_hh.T + self.bias  # (batch, 4 width)
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = f.sigmoid() * state.cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        return hidden, LSTMState(hidden, cell)

    def state_size(self, length: int) -> int:
        return 2 * self.width


class VanillaRNN(SequenceModel):
    """Elman network on an embedding of size 2, as in Shen (2019), App. E.1.1: `depth` layers of `width` neurons.

    State: h of every layer, depth x width numbers. seed: int or numpy Generator, of the initial weights.
    Embeddings start uniform in +-0.05, kernels Glorot uniform, recurrence orthogonal, biases zero: start "keras". With
    "slow" every unit of every layer is a leaky mode of its own that forgets within tau steps, ln tau uniform in
    0 .. ln `longest`: U = diag(1 - 1/tau), and the rows of the kernel are multiplied by 0.3 / sqrt(tau). The
    distribution of tau and the gain are choices of this book, the units those of a leaky RNN (Tallec and Ollivier
    2018). Raises ValueError for another start, and for a `longest` that is missing, below 2, or given with "keras".
    """

    variants = ({}, {"start": "slow", "longest": 20})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int = 2,
        start: str = PLAIN,
        longest: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        times = _longest(start, "slow", longest)
        with seeded(seed):
            layers = [RNNLayer(inputs, width) for inputs in _sizes(width, depth, embedding)]
            if times is not None:
                for layer in layers:
                    layer.start_slow(times)
            super().__init__(vocabulary, embedding, layers, width)
            nn.init.uniform_(self.embedding.weight, -0.05, 0.05)


class LSTM(SequenceModel):
    """LSTM on an embedding of size 2, as in Shen (2019), App. E.1.1: `depth` layers of `width` cells.

    State: h and c of every layer, 2 x depth x width numbers. Initial weights as in `VanillaRNN`, with start "keras".
    forget_bias: 0 is what the paper says (biases start at zero); Keras itself starts the bias of the forget gate at 1.
    With start "chrono" every cell of every layer remembers for a time of its own, up to `longest` steps: b_f = ln u
    with u uniform in 1 .. longest - 1, b_i = -b_f, all other biases zero (Tallec and Ollivier 2018, Can recurrent
    neural networks warp time?).
    embedding: its size, or None for `width`, as `tied` needs it. embedding_start: "uniform", or "orthogonal", with
    orthonormal columns or rows (Shen 2019, App. E.1.2). dropout, tied: as `SequenceModel` has them.
    Raises ValueError for another start, for a `longest` that is missing, below 2, or given with "keras", and for a
    forget_bias beside "chrono".
    """

    variants = (
        {},
        {"forget_bias": 1.0},
        {"start": "chrono", "longest": 20},
        {"embedding": None, "tied": True},
        {"embedding": 5, "embedding_start": "orthogonal"},
    )

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = 2,
        embedding_start: str = "uniform",
        dropout: float = 0.0,
        tied: bool = False,
        forget_bias: float = 0.0,
        start: str = PLAIN,
        longest: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        times, forget = _longest(start, "chrono", longest), real_number(forget_bias, "forget_bias")
        if times is not None and forget != 0:
            raise ValueError(f"forget_bias: start 'chrono' draws it; leave it out, got {forget_bias}")
        if embedding_start not in ("uniform", "orthogonal"):
            raise ValueError(f"embedding_start: uniform or orthogonal is allowed, got {embedding_start!r}")
        size = width if embedding is None else embedding
        with seeded(seed):
            layers = [LSTMLayer(inputs, width, forget) for inputs in _sizes(width, depth, size)]
            if times is not None:
                for layer in layers:
                    layer.start_chrono(times)
            super().__init__(vocabulary, size, layers, width, dropout=dropout, tied=tied)
            if embedding_start == "orthogonal":
                nn.init.orthogonal_(self.embedding.weight)
            elif not tied:
                nn.init.uniform_(self.embedding.weight, -0.05, 0.05)


def _sizes(width: int, depth: int, embedding: int) -> list[int]:
    """Input size of every layer."""
    whole_number(width, "width", 1)
    return [whole_number(embedding, "embedding", 1)] + [width] * (whole_number(depth, "depth", 1) - 1)


def _longest(start: str, other: str, longest: int | None) -> int | None:
    """The longest time of the other start, None for the plain one."""
    if start not in (PLAIN, other):
        raise ValueError(f"start: {PLAIN} or {other} is allowed, got {start!r}")
    if start == PLAIN:
        if longest is not None:
            raise ValueError(f"longest: belongs to start {other!r}; leave it out with {start!r}, got {longest}")
        return None
    if longest is None:
        raise ValueError(f"longest: start {other!r} needs the longest time to remember, in tokens")
    return whole_number(longest, "longest", 2)
