"""What a network is trained on: batches, their loss, and the loss that decides when to stop.

Of long documents there are windows: fresh ones for every step of training, fixed ones to be scored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import whole_number

CELLS = 2**25  # logits held at a time while windows are scored


class Task(Protocol):
    """Anything `fit` can train on. An epoch is whatever the task calls one."""

    def steps(self, batch: int) -> int:
        """Updates an epoch."""
        ...

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Any]:
        """The batches of one epoch; the same for the same arguments, so that a resumed run sees what it would have."""
        ...

    def loss(self, model: Any, batch: Any) -> Tensor:
        """Scalar to minimise, mean nats a prediction."""
        ...

    def validation_loss(self, model: Any, device: torch.device) -> float:
        """Mean nats a prediction on data that are not trained on."""
        ...


class NextToken:
    """Predict every token from those before it: mean of -ln Q(x_t | x_<t) over t >= 2, in nats.

    training, validation: whole numbers (n, length), two or more tokens long. The first token is given, not
    predicted: there is no begin-of-sequence token. The order of rows is drawn anew in every epoch from seed and epoch.
    Raises ValueError for other arrays and for tokens outside the vocabulary, if that is given.
    """

    def __init__(
        self, training: ArrayLike, validation: ArrayLike, *, seed: int = 0, vocabulary: int | None = None
    ) -> None:
        self.training = sequences_of_tokens(training, "training", vocabulary)
        self.validation = sequences_of_tokens(validation, "validation", vocabulary)
        self.seed = whole_number(seed, "seed", 0)

    def steps(self, batch: int) -> int:
        return -(-len(self.training) // batch)

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.training))
        for start in range(0, len(order), batch):
            yield torch.from_numpy(self.training[order[start : start + batch]]).to(device)

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        tokens = batch.long()
        logits = model(tokens[:, :-1])  # (batch, time - 1, vocabulary)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(position_losses(model, self.validation, device=device).mean())


def position_losses(
    model: Any, sequences: ArrayLike, *, batch: int = 250, device: torch.device | str = "cpu"
) -> NDArray[np.float64]:
    """Mean over sequences of -ln Q(x_t | x_<t), nats, for t = 2 .. length: shape (length - 1,), float64.

    sequences: tokens (n, length). Cost one parallel pass.
    """
    data = sequences_of_tokens(sequences, "sequences", None)
    total = torch.zeros(data.shape[1] - 1, dtype=torch.float64, device=device)
    training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(data), batch):
            tokens = torch.from_numpy(data[start : start + batch]).to(device).long()
            logits = model(tokens[:, :-1])
            total += F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").double().sum(dim=0)
    model.train(training)
    return np.asarray(total.cpu().numpy() / len(data))


def sequences_of_tokens(given: ArrayLike, name: str, vocabulary: int | None) -> NDArray[Any]:
    """The array (n, length) in a type torch can hold, or ValueError."""
    array = np.asarray(given)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: whole numbers of shape (n >= 1, length >= 2) are allowed, got {array.dtype} of {array.shape}"
        )
    low, high = int(array.min()), int(array.max())
    if low < 0 or (vocabulary is not None and high >= vocabulary):
        raise ValueError(
            f"{name}: tokens 0 .. {'' if vocabulary is None else vocabulary - 1} are allowed, got {low} .. {high}"
        )
    return array if array.dtype == np.uint8 else array.astype(np.int64)


class DocumentWindows:
    """Predict every token of a window from those before it: mean of -ln Q(w_t | w_<t), t = 2 .. length, nats.

    documents: arrays of tokens. allowed: for each the places where a window may start; a window is drawn uniformly
    among all that leave room for `length` tokens, whatever the document. validation: windows (n, length), fixed.
    epoch_steps: updates that count as one epoch. The batch of a step is drawn from (seed, epoch, step) alone, so that
    a resumed run goes on with the data it would have seen.
    Raises ValueError for lengths below 2, tokens outside the vocabulary, and if no document has room.
    """

    def __init__(
        self,
        documents: Sequence[ArrayLike],
        allowed: Sequence[ArrayLike],
        validation: ArrayLike,
        *,
        length: int,
        epoch_steps: int,
        vocabulary: int,
        seed: int = 0,
    ) -> None:
        self.length = whole_number(length, "length", 2)
        self.epoch_steps = whole_number(epoch_steps, "epoch_steps", 1)
        self.seed = whole_number(seed, "seed", 0)
        arrays = [np.asarray(document) for document in documents]
        if not arrays:
            raise ValueError("documents: at least one is needed, got none")
        self.tokens = sequences_of_tokens(np.concatenate(arrays)[None], "documents", vocabulary)[0]
        begins = np.cumsum([0, *(array.size for array in arrays[:-1])])
        self.starts = np.concatenate(
            [
                begin + np.asarray(places, dtype=np.int64)[np.asarray(places) + self.length <= array.size]
                for begin, array, places in zip(begins, arrays, allowed, strict=True)
            ]
        )
        if not self.starts.size:
            longest = max(array.size for array in arrays)
            raise ValueError(
                f"length: no document has room for a window of {self.length} tokens at an allowed start; "
                f"the longest of {len(arrays)} has {longest} tokens"
            )
        self.validation = sequences_of_tokens(validation, "validation", vocabulary)
        self.seconds = 0.0  # of wall time in epochs, validation left out
        self.trained = 0  # tokens in that time

    def steps(self, batch: int) -> int:
        return self.epoch_steps

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
        """Windows (batch, length)."""
        started = time.perf_counter()
        for step in range(self.epoch_steps):
            drawn = np.random.default_rng([self.seed, epoch, step]).choice(self.starts, batch)
            yield torch.from_numpy(self.tokens[drawn[:, None] + np.arange(self.length)]).to(device)
        self.seconds += time.perf_counter() - started
        self.trained += self.epoch_steps * batch * (self.length - 1)

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        logits = model(batch[:, :-1])  # (batch, length - 1, vocabulary)
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(window_losses(model, self.validation, device=device).mean())

    @property
    def tokens_per_second(self) -> float:
        """Tokens trained on per second of wall time; 0 before the first epoch."""
        return self.trained / self.seconds if self.seconds else 0.0


def window_losses(model: Any, windows: ArrayLike, *, device: torch.device | str = "cpu") -> NDArray[np.float64]:
    """-ln Q(w_t | w_<t) in nats for every window and t = 2 .. length: shape (n, length - 1). One parallel pass.

    windows: tokens (n, length).
    """
    data = sequences_of_tokens(windows, "windows", None)
    rows = max(1, CELLS // (data.shape[1] * int(model.vocabulary)))
    found = []
    training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(data), rows):
            tokens = torch.from_numpy(data[start : start + rows]).to(device).long()
            logits = model(tokens[:, :-1]).transpose(1, 2)
            found.append(F.cross_entropy(logits, tokens[:, 1:], reduction="none").double().cpu().numpy())
    model.train(training)
    return np.concatenate(found)
