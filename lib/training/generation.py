"""Draw sequences from a model, token after token.

What a generated token costs: multiply-adds counted in the running model, and processor time by position.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from tqdm.auto import tqdm

from lib.checks import generator, real_number, whole_number


def generate(
    model: Any,
    n: int,
    length: int,
    seed: int | np.random.Generator,
    *,
    first: ArrayLike | None = None,
    temperature: float = 1.0,
    batch: int = 500,
    device: torch.device | str = "cpu",
    progress: bool = False,
) -> NDArray[Any]:
    """n sequences of `length` tokens by the stepwise form, x_t ~ Q(. | x_<t): whole numbers (n, length).

    first: law of the first token, (vocabulary,) probabilities, uniform by default (no begin-of-sequence token);
    or prompts, whole numbers (n, tokens). Each token is the quantile of one number of the seed's, so the size of the
    batches changes nothing but rounding. temperature: logits are divided by it. Raises ValueError for other laws and
    sizes. Cost: `length` steps for each batch.
    """
    rows, steps = whole_number(n, "n", 1), whole_number(length, "length", 1)
    if not real_number(temperature, "temperature") > 0.0:
        raise ValueError(f"temperature: numbers > 0 are allowed, got {temperature!r}")
    size = whole_number(batch, "batch", 1)
    uniform = generator(seed).random((rows, steps))
    prompts = _prompts(model.vocabulary, rows, steps, first, uniform)
    tokens = np.empty((rows, steps), dtype=np.uint8 if model.vocabulary <= 256 else np.int64)
    tokens[:, : prompts.shape[1]] = prompts
    was_training = model.training
    model.eval()
    starts = range(0, rows, size)
    with torch.no_grad(), tqdm(total=len(starts) * steps, unit="step", desc="generating", disable=not progress) as bar:
        for start in starts:
            some = slice(start, start + size)
            _continue(model, tokens[some], uniform[some], prompts.shape[1], temperature, device, bar)
    model.train(was_training)
    return tokens


def _continue(
    model: Any, tokens: NDArray[Any], uniform: NDArray[Any], given: int, temperature: float, device: Any, bar: Any
) -> None:
    """Fill in the columns of `tokens` from `given` on."""
    state = model.initial_state(len(tokens))
    draws = torch.from_numpy(np.ascontiguousarray(uniform.T)).to(device)  # (steps, batch)
    token = torch.from_numpy(tokens[:, 0].astype(np.int64)).to(device)
    drawn = []
    for place in range(1, tokens.shape[1]):
        logits, state = model.step(token, state)
        bar.update()
        if place < given:
            token = torch.from_numpy(tokens[:, place].astype(np.int64)).to(device)
            continue
        law = (logits.double() / temperature).softmax(dim=-1).cumsum(dim=-1)  # (batch, vocabulary)
        token = torch.searchsorted(law, draws[place, :, None]).squeeze(1).clamp_(max=model.vocabulary - 1)
        drawn.append(token)
    bar.update()
    if drawn:
        tokens[:, given:] = torch.stack(drawn, dim=1).cpu().numpy()


def _prompts(
    vocabulary: int, rows: int, steps: int, first: ArrayLike | None, uniform: NDArray[Any]
) -> NDArray[np.int64]:
    """The tokens that are there before the model says anything, (rows, given)."""
    law = np.full(vocabulary, 1.0 / vocabulary) if first is None else np.asarray(first)
    if law.ndim == 2:
        if law.dtype.kind not in "iu" or law.shape[0] != rows or not 1 <= law.shape[1] <= steps:
            raise ValueError(
                f"first: whole numbers of shape ({rows}, 1 .. {steps}) are allowed as prompts, "
                f"got {law.dtype} of {law.shape}"
            )
        if law.min() < 0 or law.max() >= vocabulary:
            raise ValueError(
                f"first: tokens 0 .. {vocabulary - 1} are in the vocabulary, got {law.min()} .. {law.max()}"
            )
        return law.astype(np.int64)
    if law.shape != (vocabulary,) or not np.all(law >= 0.0) or abs(float(law.sum()) - 1.0) > 1e-9:
        raise ValueError(f"first: {vocabulary} probabilities that sum to one are allowed, got shape {law.shape}")
    column = np.searchsorted(np.cumsum(law), uniform[:, 0])
    return np.minimum(column, vocabulary - 1)[:, None]


class Rereading:
    """The same law without a cache: the state is the text itself, and all of it is read again for every token.

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


def multiply_adds(model: Any, positions: Iterable[int], device: torch.device | str = "cpu") -> list[int]:
    """Multiply-adds in the matrix products of one step of one sequence, after each number of tokens read before.

    Counted by torch while the model runs. Sums of products that are not a matrix product, such as a state that decays
    number by number, are not in it. device: where the model is. Cost: as many steps as the largest position.
    """
    wanted = [whole_number(position, "positions", 0) for position in positions]
    counts, state = {}, model.initial_state(1)
    token = torch.zeros(1, dtype=torch.int64, device=device)
    with torch.no_grad():
        for position in range(max(wanted, default=-1) + 1):
            with FlopCounterMode(display=False) if position in wanted else nullcontext() as counter:
                _, state = model.step(token, state)
            if counter is not None:
                counts[position] = counter.get_total_flops() // 2  # a multiplication and an addition
    return [counts[position] for position in wanted]


def matrix_sizes(model: Any) -> int:
    """Weights in the matrices that a token is multiplied with: the multiply-adds of a step that knows no past.

    Vectors and lookup tables do not count, nor do the decays and convolutions of state space models.
    """
    modules = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    recurrent = [p for name, p in model.named_parameters() if name.endswith(("weight_ih", "weight_hh"))]
    return int(sum(module.weight.numel() for module in modules) + sum(p.numel() for p in recurrent))
