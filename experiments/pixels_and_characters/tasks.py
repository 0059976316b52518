"""What the networks are trained on: classes of images; and how they read a text from window to window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from experiments.pixels_and_characters.images import SCRAMBLED, Floats, Whole, in_steps
from experiments.pixels_and_characters.networks import Carried, no_state, read_on
from lib.checks import whole_number
from lib.models.scoring import evaluating
from lib.training.tasks import FIXED, Evaluation, moved

GROUP = 100  # sequences that are evaluated at a time
MEMORIES = ("windows", "steps")


class Pixels(NamedTuple):
    """Images as numbers, and their classes."""

    values: Floats  # (n, pixels), row by row
    labels: Whole  # (n,)


class PixelClasses:
    """Tell the class of an image when all its pixels were read: mean of -ln Q(class | pixels), nats per image.

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
            yield moved(values, device), moved(self.training.labels[some], device)

    def loss(self, model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return self.evaluation(model, device).loss

    def evaluation(self, model: Any, device: torch.device) -> Evaluation:
        return class_scores(model, self.validation, self.classes, device)


def class_scores(model: Any, values: Floats, classes: Whole, device: torch.device | str = "cpu") -> Evaluation:
    """Mean of -ln Q(class), nats, and the share of images whose likeliest class is right; values (n, steps, inputs)."""
    total, right = 0.0, 0
    with evaluating(model):
        for start in range(0, len(values), GROUP):
            wanted = torch.from_numpy(classes[start : start + GROUP]).to(device)
            logits = model(torch.from_numpy(values[start : start + GROUP]).to(device))
            total += float(F.cross_entropy(logits, wanted, reduction="sum"))
            right += int((logits.argmax(dim=1) == wanted).sum())
    return Evaluation(total / len(values), right / len(values))


class WindowReading:
    """The state goes on from window to window, memory is emptied at the start of each, as in the authors' code, which
    carries the hidden state h_T where this carries s_T, the mean with what was attended to.

    memory "steps", a control: state and memory are emptied before every character, and nothing is carried. Raises
    ValueError for another memory.
    """

    def __init__(self, memory: str = "windows") -> None:
        if memory not in MEMORIES:
            raise ValueError(f"memory: one of {', '.join(MEMORIES)} is allowed, got {memory!r}")
        self.memory = memory

    def empty(self, model: Any, rows: int) -> Carried:
        return no_state(model, rows) if self.memory == "windows" else ()

    def on(self, model: Any, tokens: Tensor, state: Carried) -> tuple[Tensor, Carried]:
        if self.memory == "steps":
            return read_on(model, tokens.reshape(-1, 1)).logits.reshape(*tokens.shape, -1), ()
        found = read_on(model, tokens, state)
        return found.logits, found.carried


def turned(text: NDArray[Any], seed: int) -> NDArray[Any]:
    """The text from a place on that is drawn from the seed, and what stood before it behind its end."""
    return np.roll(text, -int(np.random.default_rng([seed, FIXED]).integers(text.size)))
