"""What the networks are trained on: classes of images, and a text that goes on from window to window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from experiments.pixels_and_characters.images import SCRAMBLED, Floats, Whole, in_steps
from experiments.pixels_and_characters.networks import Carried, read_on
from lib.checks import whole_number
from lib.training.tasks import FIXED, Evaluation, sequences_of_tokens

GROUP = 100  # sequences that are evaluated at a time
MEMORIES = ("windows", "steps")


class Pixels(NamedTuple):
    """Images as numbers, and their classes."""

    values: Floats  # (n, pixels), row by row
    labels: Whole  # (n,)


class PixelClasses:
    """Tell the class of an image when all its pixels were read: mean of -ln Q(class | pixels), nats an image.

    training, validation: images; an epoch is one pass over the first, in an order drawn from seed and epoch. order: of
    the pixels, see `in_steps`; without one they are shuffled for each image, anew in every epoch of training. together:
    pixels at a step. Raises ValueError where there is no image.
    """

    def __init__(
        self, training: Pixels, validation: Pixels, *, order: Whole | None, together: int = 1, seed: int = 0
    ) -> None:
        if not len(training.labels) or not len(validation.labels):
            raise ValueError("images: at least one to train on and one to validate by is needed")
        self.training, self.order, self.together = training, order, together
        self.seed = whole_number(seed, "seed", 0)
        self.validation = in_steps(validation.values, order, together, [0, 0, FIXED])
        self.classes = validation.labels

    def steps(self, batch: int) -> int:
        return -(-len(self.training.labels) // batch)

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        """Numbers (batch, steps, together) and classes (batch,)."""
        rows = np.random.default_rng([self.seed, epoch]).permutation(len(self.training.labels))
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            given = [self.seed, epoch, start, SCRAMBLED]
            values = in_steps(self.training.values[some], self.order, self.together, given)
            yield torch.from_numpy(values).to(device), torch.from_numpy(self.training.labels[some]).to(device)

    def loss(self, model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return self.evaluation(model, device).loss

    def evaluation(self, model: Any, device: torch.device) -> Evaluation:
        return class_scores(model, self.validation, self.classes, device)


def class_scores(model: Any, values: Floats, classes: Whole, device: torch.device | str = "cpu") -> Evaluation:
    """Mean of -ln Q(class), nats, and the share of images whose likeliest class is right; values (n, steps, inputs)."""
    total, right, was_training = 0.0, 0, model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(values), GROUP):
            wanted = torch.from_numpy(classes[start : start + GROUP]).to(device)
            logits = model(torch.from_numpy(values[start : start + GROUP]).to(device))
            total += float(F.cross_entropy(logits, wanted, reduction="sum"))
            right += int((logits.argmax(dim=1) == wanted).sum())
    model.train(was_training)
    return Evaluation(total / len(values), right / len(values))


class CarriedText:
    """Predict every character from those before it: mean of -ln Q(w_t | window, state), nats a character.

    The text is cut into as many streams as there are sequences in a batch, and each is read window by window: the
    state goes on, memory is emptied at the start of every window. memory "steps", a control: state and memory are
    emptied before every character. An epoch is `updates` windows, which go on where the epoch before stopped, from zero
    states, and begin anew at the end of a stream; so a resumed training reads what it would have read. The text is
    turned so that it begins at a place drawn from the seed. Raises ValueError for windows longer than a stream.
    """

    def __init__(
        self,
        training: ArrayLike,
        validation: ArrayLike,
        *,
        window: int,
        updates: int,
        vocabulary: int,
        batch: int,
        memory: str = "windows",
        seed: int = 0,
    ) -> None:
        if memory not in MEMORIES:
            raise ValueError(f"memory: one of {', '.join(MEMORIES)} is allowed, got {memory!r}")
        self.window, self.memory = whole_number(window, "window", 1), memory
        self.updates, self.seed = whole_number(updates, "updates", 1), whole_number(seed, "seed", 0)
        whole, self.validation = (
            sequences_of_tokens(np.atleast_2d(np.asarray(text)), name, vocabulary)[0]
            for text, name in ((training, "training"), (validation, "validation"))
        )
        self.training = np.roll(whole, -int(np.random.default_rng([self.seed, FIXED]).integers(whole.size)))
        self.streams = whole_number(batch, "batch", 1)
        for text in (self.training, self.validation):
            streams_of(text, self.streams, self.window)
        self.carried: Carried | None = None

    def steps(self, batch: int) -> int:
        return self.updates

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
        """Windows (batch, window + 1), the last character of which is only predicted."""
        streams = streams_of(self.training, batch, self.window)
        windows = (streams.shape[1] - 1) // self.window
        self.carried = None
        for number in range(epoch * self.updates, (epoch + 1) * self.updates):
            start = number % windows * self.window
            self.carried = self.carried if start else None
            yield torch.from_numpy(streams[:, start : start + self.window + 1]).to(device).long()

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        logits, self.carried = read_window(model, batch[:, :-1], self.carried, self.memory)
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return text_loss(model, self.validation, self.streams, self.window, self.memory, device)


def read_window(model: Any, tokens: Tensor, carried: Carried | None, memory: str) -> tuple[Tensor, Carried | None]:
    """Logits (batch, time, vocabulary) after each token of a window, and what is carried on: nothing with "steps"."""
    if memory == "steps":
        return read_on(model, tokens.reshape(-1, 1)).logits.reshape(*tokens.shape, -1), None
    found = read_on(model, tokens, carried)
    return found.logits, found.carried


def streams_of(text: NDArray[Any], count: int, window: int) -> NDArray[Any]:
    """The text as `count` streams of equal length, (count, length), the rest left out.

    Raises ValueError unless a window and the character after it fit into a stream.
    """
    length = text.size // count
    if length <= window:
        raise ValueError(
            f"window: at most {max(0, length - 1)} characters are allowed, as {count} streams of a text of "
            f"{text.size} have {length}; got {window}"
        )
    return text[: count * length].reshape(count, length)


def text_loss(
    model: Any, text: NDArray[Any], streams: int, window: int, memory: str, device: torch.device | str = "cpu"
) -> float:
    """Mean of -ln Q(w_t | window, state) over a text that is read as in `CarriedText`, nats a character."""
    rows, carried, total, count = streams_of(text, streams, window), None, 0.0, 0
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, rows.shape[1] - window, window):
            tokens = torch.from_numpy(rows[:, start : start + window + 1]).to(device).long()
            logits, carried = read_window(model, tokens[:, :-1], carried, memory)
            total += float(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum"))
            count += tokens[:, 1:].numel()
    model.train(was_training)
    return total / count
