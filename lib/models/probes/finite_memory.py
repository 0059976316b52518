"""A model whose state is rounded after every token, so that it has finitely many states."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lib.checks import whole_number
from lib.models.base import State
from lib.models.probes.behaviour import changed


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

        return changed(state, middle)
