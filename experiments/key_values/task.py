"""Documents of facts: k_1 z_1 k_2 z_2 ..., where a key keeps its value as long as the document lasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.models.scoring import evaluating
from lib.processes import SantaFeProcess
from lib.training.tasks import FIXED, FRESH, moved

ROWS = 100  # documents scored at once


class KeyValues:
    """Tell the value behind every key: mean of -ln Q(z_t | k_1 z_1 .. k_t) over pairs t = 1 .. pairs, nats per pair.

    source: a `SantaFeProcess`; its topics are the keys, what it says of them the values. A document of `pairs` pairs is
    2 pairs - 1 tokens long, the last value is predicted alone. Tokens 0 .. values - 1 are values, those behind them
    keys, the likeliest first. Keys are not predicted: they are independent of everything, and their entropy is known.
    Batches depend on seed, epoch and number alone, so that a resumed run sees what it would have; the `validation`
    documents are the same for every seed and network. Raises ValueError for sizes below one.
    """

    def __init__(
        self, source: SantaFeProcess, pairs: int, *, updates: int = 100, validation: int = 200, seed: int = 0
    ) -> None:
        self.source, self.pairs = source, whole_number(pairs, "pairs", 1)
        self.updates, self.seed = whole_number(updates, "updates", 1), whole_number(seed, "seed", 0)
        self.validation = self.documents(
            whole_number(validation, "validation", 1), np.random.default_rng([0, 0, FIXED])
        )

    @property
    def vocabulary(self) -> int:
        return self.source.values + self.source.topics

    def documents(self, n: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Tokens (n, 2 pairs) of n documents."""
        keys, values = np.divmod(self.source.sample(n, self.pairs, random).astype(np.int64), self.source.values)
        return np.stack([keys + self.source.values, values], axis=2).reshape(n, 2 * self.pairs)

    def steps(self, batch: int) -> int:
        return self.updates

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
        """Documents (batch, 2 pairs)."""
        random = np.random.default_rng([self.seed, epoch, FRESH])
        for _ in range(self.updates):
            yield moved(self.documents(batch, random), device)

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        return _losses(model, batch, self.source.values).mean()

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(value_losses(model, self.validation, self.source.values, device=device).mean())


def value_losses(
    model: Any, documents: NDArray[np.int64], values: int, *, device: torch.device | str = "cpu"
) -> NDArray[np.float64]:
    """-ln Q(z_t | k_1 z_1 .. k_t) of every pair, nats, (n, pairs), for documents (n, 2 pairs). One parallel pass."""
    with evaluating(model):
        pieces = (torch.from_numpy(documents[start : start + ROWS]) for start in range(0, len(documents), ROWS))
        found = [_losses(model, piece.to(device), values).double().cpu().numpy() for piece in pieces]
    return np.concatenate(found)


def _losses(model: Any, documents: Tensor, values: int) -> Tensor:
    """The same, in the type of the model: (n, pairs)."""
    logits = model(documents[:, :-1])[:, ::2, :values]
    return F.cross_entropy(logits.transpose(1, 2), documents[:, 1::2], reduction="none")
