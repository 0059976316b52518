"""How far back a model listens: what happens to its next-token law when one earlier token is another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, whole_number

Floats = NDArray[np.float64]
BATCH = 200  # sequences read at once


def influence(
    model: Any,
    sequences: ArrayLike,
    seed: int | np.random.Generator,
    tokens: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Floats, Floats]:
    """Change of the law of the next token when the token k places back is replaced, at every place t and for every k.

        || Q(. | w_1 .. w_{t-k} .. w_t) - Q(. | w_1 .. w' .. w_t) ||_1        (in [0, 2])

    k = 0 is the last token read. sequences: ids (n, T) below `tokens` (default: the model's vocabulary); the
    replacement w' of each is drawn uniformly from the other ids. device: where the model is. Returns means over
    sequences and the largest changes, each (T, T): row t - 1, column k, NaN for k >= t. Raises ValueError for other ids
    and fewer than two tokens. Cost T + 1 parallel passes: one replaced token answers for every later place at once.
    """
    read, size = np.asarray(sequences), whole_number(model.vocabulary if tokens is None else tokens, "tokens", 2)
    if read.ndim != 2 or read.dtype.kind not in "iu" or not read.size or read.min() < 0 or read.max() >= size:
        raise ValueError(f"sequences: ids 0 .. {size - 1} of shape (n, T) are allowed, got {read.dtype} {read.shape}")
    other = (read + generator(seed).integers(1, size, size=read.shape)) % size
    laws, length = _laws(model, read, device), read.shape[1]
    mean, largest = np.full((2, length, length), np.nan)
    for place in range(length):
        changed = read.copy()
        changed[:, place] = other[:, place]
        distance = np.abs(_laws(model, changed, device) - laws)[:, place:].sum(axis=2)  # (n, T - place)
        later = np.arange(place, length)
        mean[later, later - place] = distance.mean(axis=0)
        largest[later, later - place] = distance.max(axis=0)
    return mean, largest


def _laws(model: Any, sequences: NDArray[Any], device: torch.device | str) -> Floats:
    """Q(next | first t tokens), (n, T, vocabulary), in float64."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = [
            model(torch.from_numpy(part.astype(np.int64)).to(device)).double().softmax(dim=-1).cpu().numpy()
            for part in np.array_split(sequences, -(-len(sequences) // BATCH))
        ]
    model.train(was_training)
    return np.concatenate(found)
