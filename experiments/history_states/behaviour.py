"""Is the state all that a model remembers, and does it use all of it? Asked of the model's behaviour, not its code.

How much a state can hold: a state rounded after every token, and one real number that remembers everything.

The first has finitely many states; the second is the model behind the counter-example to D.31-D.33 of L2M (2025).
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.models.states import State, stepped
from lib.training.text import changed

CERTAIN = 1000.0  # a logit beyond which the other token has probability zero in float64


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
        expected = stepped(model, future, state)[0]
        read(model, other_past)
        elsewhere = [stepped(other, future, changed(saved, torch.clone))[0] for other in (model, fresh)]
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

        logits = stepped(model, future.expand(rows, -1), changed(state, moved))[0]
        return np.asarray((logits[:-1] - logits[-1]).abs().amax(dim=(1, 2)).double().cpu().numpy())


def read(model: Any, tokens: Tensor) -> State:
    """The state after tokens (batch, time)."""
    state: State = model.initial_state(tokens.shape[0])
    for token in tokens.T:
        _, state = model.step(token, state)
    return state


def _as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


class QuantisedState:
    """The model, its state rounded to `bits` a number: the middles of 2^bits equal cells of [-1, 1].

    Then the state is one of 2^(bits x dim), and Theorem 5.2 of L2M (2025) is exact with C = bits ln 2; logits see the
    present token before it is rounded, which is the ln K of the theorem. Made for states in [-1, 1], such as those of
    a tanh; numbers beyond go to the outermost cell. Only the stepwise form exists. Raises ValueError for bits < 1.
    """

    def __init__(self, model: Any, bits: int) -> None:
        self.model, self.bits = model, whole_number(bits, "bits", 1)
        self.vocabulary = model.vocabulary

    def initial_state(self, batch: int) -> State:
        return self._rounded(self.model.initial_state(batch))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        logits, after = self.model.step(token, state)
        return logits, self._rounded(after)

    def state_size(self, length: int) -> int:
        return int(self.model.state_size(length))

    def _rounded(self, state: State) -> State:
        cells = 2**self.bits

        def middle(x: Tensor) -> Tensor:
            return 2.0 * (((x + 1.0) * (cells / 2)).floor().clamp(0, cells - 1) + 0.5) / cells - 1.0

        rounded: State = changed(state, middle)
        return rounded


class Expansion(NamedTuple):
    number: Tensor  # (batch,), in (-1, 1)


class BinaryExpansionCopier:
    """Reads `half` fair bits into one number and then writes them down again: no network, the same interface.

    Bit x_i is the i-th digit of z = sum_i (2 x_i - 1) 2^-i; the bits of the future are read off z. State: z, one real
    number, and the position. It captures half ln 2 nats: the size of the state says nothing, unless precision is
    finite. float64 has room for 53 bits, of which 52 can be read off z + 1. Raises ValueError for another half.
    """

    vocabulary = 2

    def __init__(self, half: int) -> None:
        self.half = whole_number(half, "half", 1)
        if half > 52:
            raise ValueError(f"half: at most 52 digits can be read off z + 1 in float64, got {half}")

    def initial_state(self, batch: int) -> State:
        return State((Expansion(torch.zeros(whole_number(batch, "batch", 1), dtype=torch.float64)),), 0)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        assert state.position is not None
        number, read = state.layers[0].number.to(token.device), state.position + 1
        if read <= self.half:
            number = number + (2.0 * token - 1.0) * 2.0**-read
        if read < self.half:
            sign = torch.zeros_like(number)  # the next bit is fair
        else:
            sign = 2.0 * self._digit(number, read - self.half + 1) - 1.0
        return CERTAIN * torch.stack([-sign, sign], dim=-1), State((Expansion(number),), read)

    def state_size(self, length: int) -> int:
        return 1

    def _digit(self, number: Tensor, place: int) -> Tensor:
        """0 or 1: (z + 1) / 2 = 0.x_1 x_2 x_3 ... and half a digit more in binary."""
        return ((number + 1.0) * 2.0 ** (place - 1)).floor().remainder(2.0)
