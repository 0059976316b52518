"""Draw sequences from a model, token after token; what a token costs in multiply-adds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm

from lib.checks import generator, plain_array, real_array, real_number, sum_tolerance, whole_number
from lib.models.scoring import evaluating


def generate(
    model: Any,
    n: int,
    length: int,
    seed: int | np.random.Generator,
    *,
    first: ArrayLike | None = None,
    temperature: float = 1.0,
    context: int | None = None,
    batch: int = 500,
    device: torch.device | str = "cpu",
    progress: bool = False,
) -> NDArray[Any]:
    """n sequences of `length` tokens by the stepwise form, x_t ~ Q(. | x_<t): whole numbers (n, length).

    first: distribution of the first token, (vocabulary,) probabilities, uniform by default (no begin-of-sequence
    token); or prompts, whole numbers (n, tokens). Each token is the quantile of one number of the seed's, so the size
    of the batches changes nothing but rounding. temperature: logits are divided by it; at tiny ones the
    likeliest token is drawn. context: for models that were
    trained on so many tokens, and not at later positions. Once it is full, the model reads the latest half of it anew
    as if nothing had come before; so every token beyond the first ones has seen between half of the context and all of
    it but one. Raises ValueError for other distributions and sizes, and for logits that name no distribution. Cost:
    `length` steps for each batch, and with a context as many tokens read once more.
    """
    rows, steps = whole_number(n, "n", 1), whole_number(length, "length", 1)
    if not real_number(temperature, "temperature") > 0.0:
        raise ValueError(f"temperature: numbers > 0 are allowed, got {temperature!r}")
    size = whole_number(batch, "batch", 1)
    uniform = generator(seed).random((rows, steps))
    half = None if context is None else whole_number(context, "context", 2) // 2
    prompts = _prompts(model.vocabulary, rows, steps, first, uniform)
    tokens = np.empty((rows, steps), dtype=np.uint8 if model.vocabulary <= 256 else np.int64)
    tokens[:, : prompts.shape[1]] = prompts
    starts = range(0, rows, size)
    total = len(starts) * steps
    with evaluating(model), tqdm(total=total, unit="step", desc="generating", disable=not progress) as bar:
        for start in starts:
            some = slice(start, start + size)
            places = range(0, steps, half or steps)
            for place in places:  # up to here all is written; what stands half a context before it is read again
                stop = min(steps, place + (half or steps))
                if stop > prompts.shape[1]:
                    seen = slice(max(0, place - (half or 0)), stop)
                    given = max(place, prompts.shape[1]) - seen.start
                    _continue(model, tokens[some, seen], uniform[some, seen], given, temperature, device, bar)
    return tokens


def multiply_adds(model: Any, positions: Iterable[int], device: torch.device | str = "cpu") -> list[int]:
    """Multiply-adds in the matrix products of one step of one sequence, after each number of tokens read before.

    Counted by torch while the model runs. Sums of products that are not a matrix product, such as a state that decays
    number by number, are not in it. device: where the model is. Cost: as many steps as the largest position.
    """
    from torch.utils.flop_counter import FlopCounterMode  # brings a compiler of kernels along where there is one

    wanted = [whole_number(position, "positions", 0) for position in positions]
    counts, state, asked = {}, model.initial_state(1), set(wanted)
    token = torch.zeros(1, dtype=torch.int64, device=device)
    with evaluating(model):
        for position in range(max(wanted, default=-1) + 1):
            with FlopCounterMode(display=False) if position in asked else nullcontext() as counter:
                _, state = model.step(token, state)
            if counter is not None:
                counts[position] = counter.get_total_flops() // 2  # a multiplication and an addition
    return [counts[position] for position in wanted]


def _continue(
    model: Any, tokens: NDArray[Any], uniform: NDArray[Any], given: int, temperature: float, device: Any, bar: Any
) -> None:
    """Fill in the columns of `tokens` from `given` >= 1 on."""
    state = model.initial_state(len(tokens))
    draws = torch.from_numpy(np.ascontiguousarray(uniform.T)).to(device)  # (steps, batch)
    known = torch.from_numpy(tokens[:, :given].astype(np.int64)).to(device)
    if given > 1:
        _, state = model.forward_from(known[:, :-1], state)
    token, drawn, sound = known[:, -1], [], draws.new_zeros(())
    for place in range(given, tokens.shape[1]):
        logits, state = model.step(token, state)
        bar.update()
        exact = logits.double()
        largest = exact.amax(dim=-1, keepdim=True)
        below_largest = exact - largest  # at most 0: no quotient overflows to +inf
        sound = sound + largest.sum()
        law = (below_largest / temperature).softmax(dim=-1).cumsum(dim=-1)  # (batch, vocabulary)
        token = torch.searchsorted(law, draws[place, :, None]).squeeze(1).clamp_(max=model.vocabulary - 1)
        drawn.append(token)
    bar.update()
    if not bool(sound.isfinite()):  # once, at the end: a GPU waits for nothing before
        raise ValueError("model: logits that are numbers, the largest of them finite, are needed, got NaN or infinity")
    if drawn:
        tokens[:, given:] = torch.stack(drawn, dim=1).cpu().numpy()


def _prompts(
    vocabulary: int, rows: int, steps: int, first: ArrayLike | None, uniform: NDArray[Any]
) -> NDArray[np.int64]:
    """The tokens that are there before the model says anything, (rows, given)."""
    given = np.full(vocabulary, 1.0 / vocabulary) if first is None else first
    law = plain_array(given, "first")
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
    law, found = real_array(given, "first"), ""
    if law.shape != (vocabulary,):
        found = f"shape {law.shape}"
    elif not np.all(law >= 0.0):  # NaN is none either
        found = str(law[~(law >= 0.0)][0])
    elif not abs(float(law.sum()) - 1.0) <= sum_tolerance(given, "first"):
        found = f"the sum {law.sum():.9g}"
    if found:
        raise ValueError(f"first: {vocabulary} probabilities that sum to one are allowed, got {found}")
    column = np.searchsorted(np.cumsum(law), uniform[:, 0])
    return np.minimum(column, vocabulary - 1)[:, None]
