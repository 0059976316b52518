"""The exact law of a small model: the probability of every sequence, step by step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lib.processes.checks import whole_number

LARGEST_TABLE = 2**20  # sequences


def sequence_probabilities(
    model: Any, length: int, first: ArrayLike | None = None, *, device: torch.device | str = "cpu"
) -> NDArray[np.float64]:
    """P(x_1 ... x_j) prod_{t>j} Q(x_t | x_1 ... x_{t-1}) of all K^L sequences, shape (K,) * L.

    model: Q, anything with `vocabulary`, initial_state(batch) and step(token, state). first: P, the law of the first
    j tokens, shape (K,) * j; by default one token, uniform. device: where the model is. Raises ValueError for
    length < j, more than 2^20 sequences, or a law that is none. Cost L steps of a batch of K^L.
    """
    symbols, steps = model.vocabulary, whole_number(length, "length", 1)
    if symbols**steps > LARGEST_TABLE:
        raise ValueError(f"length: at most 2^20 sequences can be enumerated, got {symbols}^{steps}")
    law = np.full(symbols, 1.0 / symbols) if first is None else np.asarray(first, dtype=np.float64)
    given = law.ndim
    if (
        law.shape != (symbols,) * given
        or not 1 <= given <= steps
        or not np.all(law >= 0.0)
        or abs(law.sum() - 1) > 1e-9
    ):
        raise ValueError(f"first: probabilities of 1 to {steps} tokens, shape ({symbols},) * j, got shape {law.shape}")
    sequences = torch.from_numpy(np.indices((symbols,) * steps).reshape(steps, -1)).to(device)  # (length, K^length)
    logarithm = torch.zeros(sequences.shape[1], dtype=torch.float64, device=device)
    state = model.initial_state(sequences.shape[1])
    with torch.no_grad():
        for place, (token, following) in enumerate(itertools.pairwise(sequences), start=1):
            logits, state = model.step(token, state)
            if place >= given:
                conditional = logits.double().log_softmax(dim=-1)  # (K^length, K)
                logarithm += conditional.gather(1, following[:, None])[:, 0]
    law = law.reshape(law.shape + (1,) * (steps - given))
    return np.asarray(law * np.exp(logarithm.cpu().numpy()).reshape((symbols,) * steps))
