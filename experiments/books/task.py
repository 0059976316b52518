"""Windows of long documents: fresh ones for every step of training, fixed ones to be scored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.models.scoring import evaluating
from lib.training.tasks import moved, sequences_of_tokens

CELLS = 2**25  # logits held at a time while windows are scored


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
            yield moved(self.tokens[drawn[:, None] + np.arange(self.length)], device)
        self.seconds += time.perf_counter() - started
        self.trained += self.epoch_steps * batch * (self.length - 1)

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        logits = model(batch[:, :-1])  # (batch, length - 1, vocabulary)
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(window_losses(model, self.validation, device=device).mean())

    @property
    def tokens_per_second(self) -> float:
        """Tokens trained on per second of wall time; 0 before the first epoch in this process."""
        return self.trained / self.seconds if self.seconds else 0.0


def window_losses(model: Any, windows: ArrayLike, *, device: torch.device | str = "cpu") -> NDArray[np.float64]:
    """-ln Q(w_t | w_<t) in nats for every window and t = 2 .. length: shape (n, length - 1). One parallel pass.

    windows: tokens (n, length).
    """
    data = sequences_of_tokens(windows, "windows", None)
    rows = max(1, CELLS // (data.shape[1] * int(model.vocabulary)))
    found = []
    with evaluating(model):
        for start in range(0, len(data), rows):
            tokens = torch.from_numpy(data[start : start + rows]).to(device).long()
            logits = model(tokens[:, :-1]).transpose(1, 2)
            found.append(F.cross_entropy(logits, tokens[:, 1:], reduction="none").double().cpu().numpy())
    return np.concatenate(found)
