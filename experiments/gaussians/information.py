"""Bipartite information that a trained Gaussian language model captures, and that of the sequences it draws itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.gaussians.scores import GaussianScores
from experiments.gaussians.task import draw_tokens, log_densities
from lib.information.gaussian import (
    OwnInformation,
    captured_information,
    information_by_position,
    own_information_bounds,
)
from lib.information.model_estimates import ModelEstimate, direct_estimate
from lib.processes import HierarchicalGaussian
from lib.theory.gaussian_predictor import GaussianPredictor

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)  # of the true covariance in the reference law
DRAWN_TOGETHER = 2**16  # tokens; keys and values of all of them are in memory
SCORED_TOGETHER = 2**14
Floats = NDArray[np.float64]


def captured(scores: GaussianScores, law: HierarchicalGaussian) -> dict[str, Any]:
    """`net` and `captured` of `lib.information.gaussian` at the middle of the sequence, nats of all copies together."""
    half = law.length // 2
    gains = scores.copies * information_by_position(law.covariance(), half)
    found = captured_information(scores.copies * scores.divergences[:, half:], gains)
    return {
        "true_information": found.information,
        "net_information": entry(found.net),
        "captured_information": entry(found.captured),
    }


def restarted(model: Any, law: HierarchicalGaussian, n: int, seed: int, device: str) -> dict[str, Any]:
    """Eq. 6 as one would use it on text: ln q(y) of the model started afresh at the second half, on n true sequences.

    Where the two halves have different laws this is no estimate of I even at q = p: see `restart_error`.
    """
    half = law.length // 2
    on_device = law.on_device(device)
    tokens = on_device.sample_tokens(n, model.copies, seed)
    rows = max(1, SCORED_TOGETHER // law.length)
    together = log_densities(model, tokens, rows)[:, half:].sum(axis=1)
    alone = log_densities(model, tokens[:, half:].contiguous(), rows).sum(axis=1)
    return {
        "restarted_direct": entry(direct_estimate(together, alone)),
        "restart_error": restart_error(law, model.copies),
    }


def restart_error(law: HierarchicalGaussian, copies: int) -> float:
    """KL(p_Y || p_X), nats: how much too much the restarted direct estimator finds with the exact law as model."""
    half, matrix = law.length // 2, law.covariance()
    return copies * float(
        GaussianPredictor.from_covariance(matrix[:half, :half]).divergences(matrix[half:, half:]).sum()
    )


def own_information(model: Any, law: HierarchicalGaussian, n: int, seed: int, device: str) -> OwnInformation:
    """Bounds of I_q(X; Y) from n sequences that the model draws; a third each to fit, to choose and to average.

    The reference law has independent copies of one covariance: the true one mixed with that of the model's draws (if
    there are enough of them) or with that of independent numbers, which is the untrained model's. The mixture is the
    one, with a share of SHARES, under which other draws are most probable. Raises ValueError for n < 6. Cost `length`
    steps of n rows, and O(length^3) for each mixture.
    """
    if n < 6:
        raise ValueError(f"n: at least 6 sequences are allowed, got {n!r}")
    half = law.length // 2
    tokens = draw_tokens(model, n, law.length, seed, device, max(1, DRAWN_TOGETHER // law.length))
    columns = tokens.double().cpu().numpy().transpose(0, 2, 1)  # (n, copies, length)
    to_fit, to_choose, averaged = (np.array(part) for part in np.array_split(np.arange(n), 3))
    reference = _reference(columns[to_fit], columns[to_choose], law.covariance())
    second = GaussianPredictor.from_covariance(reference.covariance()[half:, half:])
    measured = tokens[torch.from_numpy(averaged).to(tokens.device)]
    log_q = log_densities(model, measured, max(1, SCORED_TOGETHER // law.length))
    used = columns[averaged]
    return own_information_bounds(
        log_q[:, :half].sum(axis=1),
        log_q[:, half:].sum(axis=1),
        _log_density(reference, used),
        _log_density(second, used[:, :, half:]),
    )


def _reference(fitted: Floats, chosen: Floats, truth: Floats) -> GaussianPredictor:
    rows = fitted.reshape(-1, fitted.shape[-1])
    others = [np.eye(len(truth))]
    if len(rows) > 2 * len(truth):
        others.append(rows.T @ rows / len(rows))
    mixtures = [truth, *((1 - share) * other + share * truth for other in others for share in SHARES)]
    laws = [GaussianPredictor.from_covariance(mixture) for mixture in mixtures]
    return laws[int(np.argmax([_log_density(law, chosen).mean() for law in laws]))]


def _log_density(law: GaussianPredictor, columns: Floats) -> Floats:
    """(n, copies, length) -> (n,), all copies together."""
    rows = law.log_densities(columns.reshape(-1, columns.shape[-1])).sum(axis=1)
    return np.asarray(rows.reshape(columns.shape[:2]).sum(axis=1))


def entry(estimate: ModelEstimate) -> dict[str, float]:
    """As a record holds it."""
    return {"value": estimate.value, "standard_error": estimate.standard_error}
