"""What a generated token costs: weights it meets, processor time by position, and a text that is read again."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.training import generate


class Rereading:
    """The same distribution without a cache: the state is the text itself, and all of it is read again for every token.

    model: anything with `vocabulary` and logits = model(tokens). A step costs one parallel pass over the text so far.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.vocabulary, self.training = model, model.vocabulary, False

    def initial_state(self, batch: int) -> Tensor:
        return torch.empty(batch, 0, dtype=torch.int64)

    def step(self, token: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        text = torch.cat([state.to(token.device), token[:, None]], dim=1)  # (batch, time)
        return self.model(text)[:, -1], text

    def state_size(self, length: int) -> int:
        return length

    def eval(self) -> Rereading:
        return self.train(False)

    def train(self, mode: bool = True) -> Rereading:
        self.model.train(mode)
        self.training = mode
        return self


class Clocked:
    """A model that notes the processor time of its thread before every step, and is otherwise as it was."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.times: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.times.append(time.thread_time())
        logits, after = self._model.step(token, state)
        return logits, after


def token_seconds(model: Any, batch: int, length: int, seed: int | np.random.Generator = 0) -> NDArray[np.float64]:
    """Processor seconds for each of the tokens 2 .. `length` of `batch` sequences generated together, (length - 1,).

    Time of the calling thread, so that other work on the machine counts little; with torch on one CPU thread that is
    all the time there is. Drawing the token counts too.
    """
    if torch.get_num_threads() != 1:
        raise ValueError(
            f"threads: one thread of torch can be timed, got {torch.get_num_threads()}; set_num_threads(1)"
        )
    steps = whole_number(length, "length", 2)
    clocked = Clocked(model)
    generate(clocked, batch, steps, seed, batch=batch)
    return np.diff([*clocked.times, time.thread_time()])


def matrix_sizes(model: Any) -> int:
    """Weights in the matrices that a token is multiplied with: the multiply-adds of a step that knows no past.

    Vectors and lookup tables do not count, nor do the decays and convolutions of state space models.
    """
    modules = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    recurrent = [p for name, p in model.named_parameters() if name.endswith(("weight_ih", "weight_hh"))]
    return int(sum(module.weight.numel() for module in modules) + sum(p.numel() for p in recurrent))
