"""Vanilla RNN and LSTM with the parameters of Keras: one bias a gate, Glorot kernels, orthogonal recurrence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import Module, SequenceModel, seeded
from lib.models.kernels.recurrent import lstm, rnn


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

    def forward(self, x: Tensor) -> Tensor:
        zeros = self._zeros(x.shape[0])
        return lstm(x, self.weight_ih, self.weight_hh, self.bias, zeros, zeros)[0]

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
    Embeddings start uniform in +-0.05, kernels Glorot uniform, recurrence orthogonal, biases zero.
    """

    def __init__(
        self, vocabulary: int, width: int, depth: int = 1, *, embedding: int = 2, seed: int | np.random.Generator = 0
    ) -> None:
        with seeded(seed):
            sizes = _sizes(width, depth, embedding)
            layers = [RNNLayer(inputs, width) for inputs in sizes]
            super().__init__(vocabulary, embedding, layers, width)
            nn.init.uniform_(self.embedding.weight, -0.05, 0.05)


class LSTM(SequenceModel):
    """LSTM on an embedding of size 2, as in Shen (2019), App. E.1.1: `depth` layers of `width` cells.

    State: h and c of every layer, 2 x depth x width numbers. Initial weights as in `VanillaRNN`. forget_bias: 0 is
    what the paper says (biases start at zero); Keras itself starts the bias of the forget gate at 1.
    """

    variants = ({}, {"forget_bias": 1.0})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int = 2,
        forget_bias: float = 0.0,
        seed: int | np.random.Generator = 0,
    ) -> None:
        with seeded(seed):
            layers = [LSTMLayer(inputs, width, forget_bias) for inputs in _sizes(width, depth, embedding)]
            super().__init__(vocabulary, embedding, layers, width)
            nn.init.uniform_(self.embedding.weight, -0.05, 0.05)


def _sizes(width: int, depth: int, embedding: int) -> list[int]:
    """Input size of every layer."""
    whole_number(width, "width", 1)
    return [whole_number(embedding, "embedding", 1)] + [width] * (whole_number(depth, "depth", 1) - 1)
