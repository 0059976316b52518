"""Networks with a ReLU: a linear state space model that ends in one, and an RNN that steps through one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.base import Module, SequenceModel, seeded
from lib.models.kernels.recurrent import rnn
from lib.models.recurrent.basic import RecurrentLayer

TRANSITIONS = ("uniform", "orthogonal", "zero")


class HiddenState(NamedTuple):
    hidden: Tensor  # (batch, width)


class LinearStateLayer(Module):
    """h_t = A h_{t-1} + B x_t; the output is relu(h_t + b).

    initial: how A starts. "uniform" in +-1/sqrt(width), whose eigenvalues fill a disc of radius 1/sqrt(3); or
    "orthogonal", all eigenvalues on the unit circle; or "zero". window: if given, A is block strictly lower triangular
    with that many blocks, so that A^window = 0 whatever its entries; the last block is read by the output alone and is
    carried for nothing.
    """

    def __init__(self, inputs: int, width: int, initial: str = "uniform", window: int | None = None) -> None:
        super().__init__()
        if initial not in TRANSITIONS:
            raise ValueError(f"initial: one of {', '.join(TRANSITIONS)} is allowed, got {initial!r}")
        self.width = width
        self.weight_hh = nn.Parameter(_transition(width, initial))
        self.input_matrix = nn.Parameter(nn.init.uniform_(torch.empty(width, inputs), -(inputs**-0.5), inputs**-0.5))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mask", None if window is None else _block_mask(width, window), persistent=False)

    @property
    def transition(self) -> Tensor:
        """A, (width, width)."""
        return self.weight_hh if self.mask is None else self.weight_hh * self.mask

    def states(self, x: Tensor) -> Tensor:
        """h_1 .. h_T, (batch, time, width), of inputs (batch, time, inputs)."""
        driven = x @ self.input_matrix.T
        return _LinearRecurrence.apply(driven, self.transition)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.states(x) + self.bias)

    def initial_state(self, batch: int) -> HiddenState:
        return HiddenState(self.bias.new_zeros(batch, self.width))

    def step(self, x: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState]:
        hidden = state.hidden @ self.transition.T + x @ self.input_matrix.T
        return F.relu(hidden + self.bias), HiddenState(hidden)

    def state_size(self, length: int) -> int:
        return self.width


class _LinearRecurrence(torch.autograd.Function):  # type: ignore[misc]
    """h_t = A h_{t-1} + u_t with h_0 = 0: (batch, time, width), (width, width) -> (batch, time, width).

    Backward: g_t = dL/dh_t + A^T g_{t+1} is dL/du_t, and dL/dA = sum_t g_t h_{t-1}^T, one product over batch and time.
    Recording each step instead costs twice the time.
    """

    @staticmethod
    def forward(context: object, driven: Tensor, transition: Tensor) -> Tensor:
        hidden = list(driven.unbind(1))
        for time in range(1, len(hidden)):
            hidden[time] = torch.addmm(hidden[time], hidden[time - 1], transition.T)
        states = torch.stack(hidden, dim=1)
        context.save_for_backward(states, transition)  # type: ignore[attr-defined]
        return states

    @staticmethod
    def backward(context: object, gradient: Tensor) -> tuple[Tensor, Tensor]:
        states, transition = context.saved_tensors  # type: ignore[attr-defined]
        reached = list(gradient.unbind(1))
        for time in range(len(reached) - 2, -1, -1):
            reached[time] = torch.addmm(reached[time], reached[time + 1], transition)
        driven = torch.stack(reached, dim=1)
        return driven, driven[:, 1:].flatten(0, 1).T @ states[:, :-1].flatten(0, 1)


class ReluSSM(SequenceModel):
    """y_t = C relu(h_t + b), h_t = A h_{t-1} + B x_t and a trained embedding (Nandakumar, Qu, Mi and Liu, Def. 3.6).

    State: h, width numbers per layer; the definition has one layer, more are stacked. embedding: its size. initial,
    window: of A, as in `LinearStateLayer`. Embeddings start normal, B and C uniform in +-1/sqrt(inputs), as torch
    starts an embedding and a linear map, b at zero. Raises ValueError for another initial or window.
    """

    variants = ({}, {"window": 3, "initial": "orthogonal"})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int = 64,
        initial: str = "uniform",
        window: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        with seeded(seed):
            layers = [
                LinearStateLayer(inputs, width, initial, window) for inputs in _input_sizes(width, depth, embedding)
            ]
            super().__init__(vocabulary, embedding, layers, width)
            self.head = nn.Linear(width, vocabulary, bias=False)


class ReluRNNLayer(RecurrentLayer):
    """h_t = relu(A h_{t-1} + B x_t + b); the output is h_t. Everything starts uniform in +-1/sqrt(width)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)

    @property
    def transition(self) -> Tensor:
        """A, (width, width)."""
        return self.weight_hh

    @property
    def input_matrix(self) -> Tensor:
        """B, (width, inputs)."""
        return self.weight_ih

    def forward(self, x: Tensor) -> Tensor:
        return rnn(x, self.weight_ih, self.weight_hh, self.bias, self._zeros(x.shape[0]), "relu")

    def initial_state(self, batch: int) -> HiddenState:
        return HiddenState(self._zeros(batch))

    def step(self, x: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState]:
        hidden = F.relu(x @ self.weight_ih.T + state.hidden @ self.weight_hh.T + self.bias)
        return hidden, HiddenState(hidden)

    def state_size(self, length: int) -> int:
        return self.width


class ReluRNN(SequenceModel):
    """y_t = C h_t + c with h_t = relu(A h_{t-1} + B x_t + b) and a trained embedding (Nandakumar et al., Def. A.5).

    State: h, width numbers per layer; the definition has one. embedding: its size. Weights start as torch's do.
    """

    def __init__(
        self, vocabulary: int, width: int, depth: int = 1, *, embedding: int = 64, seed: int | np.random.Generator = 0
    ) -> None:
        with seeded(seed):
            layers = [ReluRNNLayer(inputs, width) for inputs in _input_sizes(width, depth, embedding)]
            super().__init__(vocabulary, embedding, layers, width)
            self.head = nn.Linear(width, vocabulary)


def _transition(width: int, initial: str) -> Tensor:
    matrix = torch.zeros(width, width)
    if initial == "uniform":
        return nn.init.uniform_(matrix, -(width**-0.5), width**-0.5)
    return nn.init.orthogonal_(matrix) if initial == "orthogonal" else matrix


def _block_mask(width: int, window: int) -> Tensor:
    """Ones where the block of the row comes after that of the column; blocks as even as they can be."""
    if whole_number(window, "window", 1) > width:
        raise ValueError(f"window: 1 .. width = {width} is allowed, got {window}")
    block = torch.arange(width) * window // width
    return (block[:, None] > block).to(torch.get_default_dtype())


def _input_sizes(width: int, depth: int, embedding: int) -> list[int]:
    """Input size of every layer."""
    layers = whole_number(depth, "depth", 1)
    return [whole_number(embedding, "embedding", 1), *[whole_number(width, "width", 1)] * (layers - 1)]
