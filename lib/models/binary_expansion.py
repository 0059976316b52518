"""One real number that remembers everything: the model behind the counter-example to Theorem 5.2."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lib.models.base import State
from lib.processes.checks import whole_number

CERTAIN = 1000.0  # a logit beyond which the other token has probability zero in float64


class Expansion(NamedTuple):
    number: Tensor  # (batch,), in (-1, 1)


class BinaryExpansionCopier:
    """Reads `half` fair bits into one number and then writes them down again: no network, the same interface.

    Bit x_i is the i-th digit of z = sum_i (2 x_i - 1) 2^-i; the bits of the future are read off z. State: z, one real
    number, and the position. It captures half ln 2 nats: the size of the state says nothing, unless precision is
    finite. float64 has room for 52 bits. Raises ValueError for another half.
    """

    vocabulary = 2

    def __init__(self, half: int) -> None:
        self.half = whole_number(half, "half", 1)
        if half > 52:
            raise ValueError(f"half: at most 52 digits fit into float64, got {half}")

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
