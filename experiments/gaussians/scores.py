"""How far a model's next-token distribution is from the exact one: KL and NLL by position (L2M, E.35-E.39)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number
from lib.processes.gaussian.on_device import HierarchicalGaussianOnDevice

LOG_2PI = math.log(2.0 * math.pi)
Floats = NDArray[np.float64]


def normal_divergence(means: Tensor, variances: Tensor, model_means: Tensor, model_deviations: Tensor) -> Tensor:
    """KL(p || q) of normals p = N(mu, v) and q = N(m, s^2), entry by entry, in nats.

    KL = 1/2 [expm1(r) - r + (m - mu)^2 / s^2],  r = ln(v / s^2): Eq. E.35, ln(s / sigma) + (v + (m - mu)^2) / (2 s^2)
    - 1/2, in terms that are not negative. Arguments broadcast.
    """
    ratio = variances.log() - 2.0 * model_deviations.log()
    return 0.5 * (torch.expm1(ratio) - ratio + ((model_means - means) / model_deviations) ** 2)


def normal_cross_entropy(means: Tensor, variances: Tensor, model_means: Tensor, model_deviations: Tensor) -> Tensor:
    """-E_p ln q = ln s + 1/2 ln(2 pi) + (v + (m - mu)^2) / (2 s^2), entry by entry, in nats: Eq. E.38 given the past.

    It is the mean of -ln q(x) over x ~ p(. | past), without the noise of one x. Arguments as in `normal_divergence`.
    """
    spread = variances + (model_means - means) ** 2
    return model_deviations.log() + 0.5 * (LOG_2PI + spread / model_deviations**2)


def normal_loss(values: Tensor, model_means: Tensor, model_deviations: Tensor) -> Tensor:
    """-ln q(x), entry by entry, in nats."""
    return model_deviations.log() + 0.5 * (LOG_2PI + ((values - model_means) / model_deviations) ** 2)


@dataclass(frozen=True)
class GaussianScores:
    """What a model makes of sequences whose distribution is known, in nats per number: means over the copies, float64.

    A token has `copies` numbers, so that a token's KL (E.36) is `copies` times this one. divergences: KL given the
    past; cross_entropies: -E_p ln q given the past; losses: -ln q of the number that came; each (sequences,
    length). entropies: H_p(x_i | x_<i), (length,). NLL - entropy = KL holds for each entry of cross_entropies.
    """

    divergences: Floats
    cross_entropies: Floats
    losses: Floats
    entropies: Floats
    copies: int

    @property
    def average_divergence(self) -> float:
        """E.37 over copies: what training minimises (E.35)."""
        return float(self.divergences.mean())

    @property
    def average_cross_entropy(self) -> float:
        """E.39 over copies."""
        return float(self.cross_entropies.mean())

    def standard_error(self, values: Floats) -> float:
        """Of the mean of `values` (sequences, ...) over sequences, which are independent."""
        rows = values.reshape(len(values), -1).mean(axis=1)
        return float(rows.std(ddof=1) / math.sqrt(len(rows)))


def score(
    predict: Callable[[Tensor], Any],
    law: HierarchicalGaussianOnDevice,
    sequences: int,
    *,
    copies: int = 64,
    seed: int = 0,
    batch: int = 4,
) -> GaussianScores:
    """Scores on fresh sequences of `law`, made on its device, of the same noise for the same seed and batch.

    predict: tokens (n, length, copies) -> means and standard deviations of each given those before it. Raises
    ValueError for less than two sequences. Cost of one parallel pass.
    """
    count, rows = whole_number(sequences, "sequences", 2), whole_number(batch, "batch", 1)
    draw = law.generator(seed)
    variances = law.variances.double()[:, None]
    found: list[Tensor] = []
    with torch.no_grad():
        for start in range(0, count, rows):
            tokens, means = law.sample_tokens_with_means(min(rows, count - start), copies, draw)
            model_means, deviations = (part.double() for part in predict(tokens))
            arguments = (means.double(), variances, model_means, deviations)
            parts = (
                normal_divergence(*arguments),
                normal_cross_entropy(*arguments),
                normal_loss(tokens.double(), model_means, deviations),
            )
            found.append(torch.stack([part.mean(dim=-1) for part in parts]))  # (3, rows, length)
    divergences, cross_entropies, losses = torch.cat(found, dim=1).cpu().numpy()
    entropies = 0.5 * (LOG_2PI + 1.0 + variances[:, 0].log()).cpu().numpy()
    return GaussianScores(divergences, cross_entropies, losses, entropies, copies)
