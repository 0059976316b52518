"""How far back a model listens: what happens to its next-token law when one earlier token is another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lib.processes.checks import generator, whole_number

Floats = NDArray[np.float64]
BATCH = 1000  # sequences read at once


def influence(
    model: Any, sequences: ArrayLike, back: int, seed: int | np.random.Generator, tokens: int | None = None
) -> tuple[Floats, Floats]:
    """Change of the law of the next token when the token k places back is replaced, for k = 0 .. back - 1.

        || Q(. | w_1 .. w_{t-k} .. w_t) - Q(. | w_1 .. w' .. w_t) ||_1        (in [0, 2])

    k = 0 is the last token read. sequences: ids (n, t), t > back - 1; the replacement w' is drawn for every sequence
    and k, uniform over the other ids below `tokens` (default: the model's vocabulary). Returns means over sequences
    (back,) and the largest changes (back,). Raises ValueError for shorter sequences or fewer than two tokens.
    Cost back + 1 parallel passes.
    """
    read = np.asarray(sequences)
    steps = whole_number(back, "back", 1)
    if read.ndim != 2 or read.dtype.kind not in "iu" or not len(read) or read.shape[1] < steps:
        raise ValueError(f"sequences: ids (n, t >= {steps}) are allowed, got {read.dtype} of shape {read.shape}")
    size = whole_number(model.vocabulary if tokens is None else tokens, "tokens", 2)
    random = generator(seed)
    law = _laws(model, read)
    changes = np.empty((steps, len(read)))
    for k in range(steps):
        other = read.copy()
        column = read.shape[1] - 1 - k
        other[:, column] = (read[:, column] + random.integers(1, size, size=len(read))) % size
        changes[k] = np.abs(_laws(model, other) - law).sum(axis=1)
    return changes.mean(axis=1), changes.max(axis=1)


def _laws(model: Any, sequences: NDArray[Any]) -> Floats:
    """Q(next | sequence), (n, vocabulary), in float64."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = [
            model(torch.from_numpy(part.astype(np.int64)))[:, -1].double().softmax(dim=-1).numpy()
            for part in np.array_split(sequences, -(-len(sequences) // BATCH))
        ]
    model.train(was_training)
    return np.concatenate(found)
