"""Sequences that a Gaussian language model draws, and how probable it finds given ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.gaussians.scores import normal_loss
from lib.checks import whole_number


def draw_tokens(
    model: Any, n: int, length: int, seed: int, device: torch.device | str = "cpu", batch: int | None = None
) -> Tensor:
    """n sequences (n, length, copies) from the model's own law, token by token, each given those before it.

    model: step, initial_state and copies as `GaussianLanguageModel` has them. batch: sequences drawn together, all by
    default. The same numbers for the same seed, batch and device. Raises ValueError for n, length or batch below 1 and
    a bad seed. Cost `length` steps of n rows.
    """
    rows, steps = whole_number(n, "n", 1), whole_number(length, "length", 1)
    random = torch.Generator(device).manual_seed(whole_number(seed, "seed", 0))
    kind = next(iter(model.parameters())).dtype
    tokens = torch.zeros(rows, steps + 1, model.copies, dtype=kind, device=device)  # BOS first
    with torch.no_grad():
        for part in tokens.split(rows if batch is None else whole_number(batch, "batch", 1)):  # views: filled in place
            state = model.initial_state(len(part))
            for place in range(steps):
                (means, deviations), state = model.step(part[:, place], state)
                noise = torch.randn(means.shape, generator=random, dtype=kind, device=device)
                part[:, place + 1] = means + deviations * noise
    return tokens[:, 1:].clone()


def log_densities(model: Any, tokens: Tensor, batch: int = 16) -> NDArray[np.float64]:
    """ln q(w_i | w_<i) of every token, all its numbers together, nats: (n, length, copies) -> (n, length).

    Cost of one parallel pass.
    """
    found = []
    with torch.no_grad():
        for part in tokens.split(whole_number(batch, "batch", 1)):
            means, deviations = (value.double() for value in model.predictions(part))
            found.append(-normal_loss(part.double(), means, deviations).sum(dim=-1))
    return np.asarray(torch.cat(found).cpu().numpy())
