"""Next-word prediction on sentences of different lengths, word by word or prefix by prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.models.scoring import evaluating

EXAMPLES = ("sentences", "prefixes")
REDUCTIONS = ("mean", "sum")


class SentenceBatch(NamedTuple):
    tokens: Tensor  # (batch, time + 1), the end mark after the last word and behind it
    counts: Tensor  # (batch, time), one where the next token counts


class SentencePrediction:
    """-ln Q(w_t | w_<t) over t > given, the end of the sentence among them, in nats.

    sentences: sequences of ids 0 .. end - 1, at least `given` words each; end: the id of the end mark. given: words
    that are not predicted. examples: "sentences", a batch is of whole sentences; or "prefixes", a batch is of
    beginnings, each with the one word that follows. reduction: "mean" over all predictions of a batch, or "sum" over
    those of a sentence and mean over the batch. penalty: added to the loss in training, a function of the model.
    There is no early stopping to be had: `validation_loss` is the mean loss of a prediction on the training sentences
    themselves after the epoch, so that nothing held out decides anything. The order is drawn anew in every epoch from
    seed and epoch. Raises ValueError for sentences that are none, ids outside, or other choices.
    """

    def __init__(
        self,
        sentences: Sequence[ArrayLike],
        end: int,
        *,
        seed: int = 0,
        given: int = 1,
        examples: Literal["sentences", "prefixes"] = "sentences",
        reduction: Literal["mean", "sum"] = "mean",
        penalty: Callable[[Any], Tensor] | None = None,
    ) -> None:
        if examples not in EXAMPLES:
            raise ValueError(f"examples: {' or '.join(EXAMPLES)} is allowed, got {examples!r}")
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction: {' or '.join(REDUCTIONS)} is allowed, got {reduction!r}")
        self.tokens, lengths = closed_rows(sentences, whole_number(end, "end", 1))
        places = np.arange(self.tokens.shape[1] - 1)
        if int(lengths.min()) < whole_number(given, "given", 1):
            raise ValueError(f"given: 1 .. {int(lengths.min())} words, the shortest sentence, are allowed, got {given}")
        self.counts = ((places >= given - 1) & (places < lengths[:, None])).astype(np.float32)
        self.reduction = reduction
        self.seed, self.penalty = whole_number(seed, "seed", 0), penalty
        self.examples = np.argwhere(self.counts) if examples == "prefixes" else None

    def steps(self, batch: int) -> int:
        return -(-len(self.tokens if self.examples is None else self.examples) // batch)

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[SentenceBatch]:
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.tokens if self.examples is None else self.examples))
        for start in range(0, len(order), batch):
            yield self._batch(order[start : start + batch], device)

    def loss(self, model: Any, batch: SentenceBatch) -> Tensor:
        total = _total_loss(model, batch)
        loss = total / (batch.counts.sum() if self.reduction == "mean" else len(batch.tokens))
        return loss if self.penalty is None else loss + self.penalty(model)

    def validation_loss(self, model: Any, device: torch.device) -> float:
        everything = _to(self.tokens, self.counts, device)
        with evaluating(model):
            return float(_total_loss(model, everything) / everything.counts.sum())

    def _batch(self, chosen: NDArray[np.int64], device: torch.device) -> SentenceBatch:
        if self.examples is None:
            used = int(np.flatnonzero(self.counts[chosen].any(axis=0))[-1]) + 1
            return _to(self.tokens[chosen, : used + 1], self.counts[chosen, :used], device)
        rows, places = self.examples[chosen].T
        used = int(places.max()) + 1
        counts = np.zeros((len(rows), used), dtype=np.float32)
        counts[np.arange(len(rows)), places] = 1.0
        return _to(self.tokens[rows, : used + 1], counts, device)


def closed_rows(sentences: Sequence[ArrayLike], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids (n, longest + 1) with the end mark after each sentence and behind it, and the numbers of words (n,)."""
    rows = [np.asarray(sentence) for sentence in sentences]
    if not rows or any(row.ndim != 1 or row.size < 1 or row.dtype.kind not in "iu" for row in rows):
        raise ValueError("sentences: one or more sequences of one or more ids are allowed")
    low, high = min(int(row.min()) for row in rows), max(int(row.max()) for row in rows)
    if low < 0 or high >= end:
        raise ValueError(f"sentences: ids 0 .. {end - 1} are allowed, got {low} .. {high}")
    lengths = np.array([len(row) for row in rows])
    closed = np.full((len(rows), int(lengths.max()) + 1), end)
    for filled, row in zip(closed, rows, strict=True):
        filled[: len(row)] = row
    return closed, lengths


def _to(tokens: NDArray[np.int64], counts: NDArray[np.float32], device: torch.device) -> SentenceBatch:
    return SentenceBatch(torch.from_numpy(tokens).to(device), torch.from_numpy(counts).to(device))


def _total_loss(model: Any, batch: SentenceBatch) -> Tensor:
    logits = model(batch.tokens[:, :-1])  # (batch, time, vocabulary)
    losses = F.cross_entropy(logits.transpose(1, 2), batch.tokens[:, 1:], reduction="none")
    return (losses * batch.counts).sum()
