"""Training on one long text: its order is kept, and what a network remembers goes from window to window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import plain_array, real_number, whole_number
from lib.models.kernels.embedding import refuse_unknown
from lib.models.scoring import evaluating
from lib.training.checkpoint import CheckpointError
from lib.training.tasks import RESETS, mean_loss, sequences_of_tokens


class Window(NamedTuple):
    """One batch: the next tokens of every row, the last of which is only predicted."""

    tokens: Tensor  # (rows, window + 1)
    fresh: bool  # whether the state before it is to be that of no token


class Reading(Protocol):
    """How a network goes on with a text."""

    def empty(self, model: Any, rows: int) -> Any:
        """The state of `rows` rows that have read nothing: tuples of tensors, in tuples."""
        ...

    def on(self, model: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (rows, time, vocabulary) of the tokens after these (rows, time), and the state after them."""
        ...


class Onwards:
    """By the parallel form of `SequenceModel` from a state; all that the state holds is carried."""

    def empty(self, model: Any, rows: int) -> Any:
        return empty_state(model, rows)

    def on(self, model: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, after = model.forward_from(tokens, state)
        return logits, after


ONWARDS = Onwards()


class CarriedText:
    """Predict the next token of a text that is read in order, with truncated backpropagation through time.

    training: whole numbers (length,). A batch of n is n rows, the text cut into n pieces of equal length; an update
    reads the next `window` tokens of every row, from the state that the window before left, through which no gradient
    goes. State zero begins every pass over the rows, and any window with probability `reset`, drawn from the seed and
    the number of the update (Shen 2019, App. E.1.2). updates: how many make an epoch, one pass by default; passes go on
    where an epoch ended. validation: a text of its own, read once from state zero in as many rows. What is left of a
    text behind the last whole window of its rows is not read. reading: how a network goes on, by `Onwards` from all of
    its state. Loss in nats per token. Raises ValueError for other arrays, for a text too short for one window, and, in
    training, for a network whose state grows with what it has read: it is trained on windows, by `NextToken`.
    """

    def __init__(
        self,
        training: ArrayLike,
        validation: ArrayLike,
        *,
        window: int,
        reset: float = 0.0,
        updates: int | None = None,
        seed: int = 0,
        vocabulary: int | None = None,
        reading: Reading = ONWARDS,
    ) -> None:
        self.reading = reading
        self.training = sequences_of_tokens(plain_array(training, "training")[None], "training", vocabulary)[0]
        self.validation = sequences_of_tokens(plain_array(validation, "validation")[None], "validation", vocabulary)[0]
        self._largest = int(self.training.max())
        self.window, self.seed = whole_number(window, "window", 1), whole_number(seed, "seed", 0)
        if not 0.0 <= real_number(reset, "reset") <= 1.0:
            raise ValueError(f"reset: a probability is allowed, got {reset!r}")
        self.reset, self.updates = reset, None if updates is None else whole_number(updates, "updates", 1)
        self._state: Any = None
        self._rows = 1

    def steps(self, batch: int) -> int:
        self._rows = whole_number(batch, "batch", 1)
        _rows_of(self.validation, batch, self.window, "validation")
        return self._windows(batch) if self.updates is None else self.updates

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Window]:
        steps, rows, windows = self.steps(batch), self._cut(batch), self._windows(batch)
        for step in range(epoch * steps, (epoch + 1) * steps):
            place = step % windows
            start = place * self.window
            tokens = torch.from_numpy(rows[:, start : start + self.window + 1]).to(device)
            yield Window(tokens.long(), place == 0 or self.is_reset(step))

    def is_reset(self, step: int) -> bool:
        """Whether chance resets the state before update number `step`, from 0."""
        return bool(np.random.default_rng([self.seed, step, RESETS]).random() < self.reset)

    def loss(self, model: Any, batch: Window) -> Tensor:
        if batch.fresh or self._state is None:
            self._state = self.reading.empty(model, len(batch.tokens))
        logits, after = self.reading.on(model, batch.tokens[:, :-1], self._state)
        refuse_unknown(self._largest, logits.shape[-1])
        # In one piece, as a checkpoint gives it back: products of a strided view may round differently.
        self._state = changed(after, lambda part: part.detach().contiguous())
        return mean_loss(logits, batch.tokens[:, 1:])

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return text_loss(
            model, self.validation, rows=self._rows, window=self.window, device=device, reading=self.reading
        )

    def carried(self) -> dict[str, Tensor]:
        counts = [torch.tensor(count, dtype=torch.int64) for count in counts_of(self._state)]
        kept = {f"{number:04d}": tensor for number, tensor in enumerate(tensors_of(self._state))}
        return kept | {f"count.{number:04d}": count for number, count in enumerate(counts)}

    def carry_on(self, model: Any, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        # Cloned, so that they lie in memory as a fresh start's do: products of unaligned numbers may round differently.
        if not tensors:
            self._state = None
            return
        names, empty = sorted(tensors), self.reading.empty(model, self._rows)
        counts = [int(tensors[name]) for name in names if name.startswith("count.")]
        parts = [tensors[name].to(device).clone() for name in names if not name.startswith("count.")]
        if (len(parts), len(counts)) != (len(tensors_of(empty)), len(counts_of(empty))):
            raise CheckpointError(f"checkpoint: the state of another {type(model).__name__}; remove it to start again")
        left, numbers = iter(parts), iter(counts)
        self._state = changed(empty, lambda _: next(left), lambda _: next(numbers))

    def _cut(self, batch: int) -> NDArray[Any]:
        return _rows_of(self.training, batch, self.window, "training")

    def _windows(self, batch: int) -> int:
        return int(self._cut(batch).shape[1] - 1) // self.window


def text_loss(
    model: Any,
    text: ArrayLike,
    *,
    rows: int,
    window: int = 100,
    device: torch.device | str = "cpu",
    reading: Reading = ONWARDS,
) -> float:
    """Mean of -ln Q(x_t | x_<t) over a text (length,) cut into `rows` pieces, nats per token, the state carried along.

    window: tokens that are read at once. Pieces are of whole windows, and what is left of the text behind the last one
    is not scored. With `Onwards`, windows that leave pieces of the same length differ in nothing but memory.
    """
    tokens = sequences_of_tokens(plain_array(text, "text")[None], "text", None)[0]
    pieces = _rows_of(tokens, whole_number(rows, "rows", 1), whole_number(window, "window", 1), "text")
    total, count, largest = torch.zeros((), dtype=torch.float64, device=device), 0, int(tokens.max())
    with evaluating(model):
        state = reading.empty(model, rows)
        for start in range(0, pieces.shape[1] - window, window):
            batch = torch.from_numpy(pieces[:, start : start + window + 1]).to(device).long()
            logits, state = reading.on(model, batch[:, :-1], state)
            refuse_unknown(largest, logits.shape[-1])
            total += mean_loss(logits, batch[:, 1:]).double()
            count += 1
    return float(total) / count


def empty_state(model: Any, rows: int) -> Any:
    """The state of `rows` rows before the first token; ValueError for a model whose state has no largest size."""
    if model.state_size(10**6) != model.state_size(2 * 10**6):
        raise ValueError(f"model: one whose state stays of one size can be carried on, got {type(model).__name__}")
    return model.initial_state(rows)


def changed(state: Any, change: Callable[[Tensor], Tensor], count: Callable[[int], int] = int) -> Any:
    """A state, tuples in tuples, with every tensor of it changed, and every count; in the order in which they stand."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, int):
        return count(state)
    if not isinstance(state, tuple):
        return state
    parts = [changed(one, change, count) for one in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def tensors_of(state: Any) -> list[Tensor]:
    """The tensors of a state, in the order in which they stand."""
    if isinstance(state, Tensor):
        return [state]
    return [tensor for one in state for tensor in tensors_of(one)] if isinstance(state, tuple) else []


def counts_of(state: Any) -> list[int]:
    """The counts of a state, of tokens read or of entries written, in the order in which they stand."""
    if isinstance(state, int):
        return [state]
    return [count for one in state for count in counts_of(one)] if isinstance(state, tuple) else []


def _rows_of(text: NDArray[Any], rows: int, window: int, name: str) -> NDArray[Any]:
    """The text as `rows` rows (rows, a multiple of window, and one token more), each going on where the last ended."""
    length = (len(text) - 1) // rows // window * window
    if length == 0:
        raise ValueError(
            f"{name}: {rows} rows of {window} + 1 tokens, {rows * window + 1}, are needed, got {len(text)}"
        )
    starts = np.arange(rows)[:, None] * length
    return np.asarray(text[starts + np.arange(length + 1)])
