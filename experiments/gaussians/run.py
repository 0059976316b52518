"""Train one language model on hierarchical Gaussians, compare with the exact distribution (L2M, Sec. 6.1, App. E)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.gaussians.information import captured, entry, own_information, restarted
from experiments.gaussians.scores import GaussianScores, score
from experiments.gaussians.sizes import gaussian_language_model
from experiments.gaussians.task import GaussianPrediction
from lib.processes import HierarchicalGaussian
from lib.runs.training import RunParameters, trained
from lib.training.settings import checked_precision, matrix_products

EXACT_POSITIONS = 16  # recorded one by one; those after them in bins
MEASURED = 1  # number of the random stream that models are compared on
OWN = 2  # the stream of the model's own draws


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `model` may hold what FitSettings and the model accept."""

    size: str  # a key of experiments.gaussians.sizes.SIZES
    layers: int = Field(ge=2, le=6)  # of the process: sequences of 4^layers tokens
    family: str = "subvolume"
    coupling: str = "symmetric"
    copies: int = Field(64, ge=1)
    model: dict[str, Any] = Field(default_factory=dict)
    precision: str = "float32"
    epoch_steps: int = Field(ge=1)
    fit: dict[str, Any] = Field(default_factory=dict)
    validation: int = Field(32, ge=1)  # sequences
    measured: int = Field(128, ge=4)  # sequences that KL and NLL are averaged over
    drawn: int = Field(96, ge=6)  # sequences that the model draws itself
    data_seed: int = Field(0, ge=0)  # of validation and measurement, the same for all runs


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. No network is built."""
    chosen = Parameters.read(parameters, "gaussian_prediction")
    checked_precision(chosen.precision)
    HierarchicalGaussian(chosen.layers, chosen.family, chosen.coupling)
    with torch.device("meta"):  # shapes without numbers: the largest network has 5 GB of them
        gaussian_language_model(chosen.size, copies=chosen.copies, longest=4**chosen.layers, **chosen.model)
    return chosen.model_dump()


def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network on fresh sequences and compare its predictions with the exact ones on others.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns the course of training, KL
    and NLL in nats per number by position and on average, computed with full float32 products whatever the precision of
    training, and the bipartite information of `experiments.gaussians.information` in nats of all copies.
    """
    chosen = Parameters(**parameters)
    law = HierarchicalGaussian(chosen.layers, chosen.family, chosen.coupling)
    options = {"seed": np.random.default_rng([seed, 0]), **chosen.model}
    model = gaussian_language_model(chosen.size, copies=chosen.copies, longest=law.length, **options).to(device)
    task = GaussianPrediction(
        law,
        chosen.epoch_steps,
        copies=chosen.copies,
        validation=chosen.validation,
        seed=seed,
        validation_seed=chosen.data_seed,
        precision=chosen.precision,
    )
    with matrix_products(chosen.precision):
        course, result = trained(
            model,
            task,
            chosen.fit,
            folder,
            described={"parameters": chosen.model_dump(), "seed": seed},
            label=f"{chosen.size} at {law.length}, seed {seed}",
            progress=progress,
        )
    half = law.length // 2
    result |= {
        "length": law.length,
        "state_size": model.state_size(half),  # what meets the last token of the first half: BOS and half - 1 tokens
        "scanned_state_size": model.scanned_state_size(half),
        "data_share": task.data_share,
        "tokens_per_second": task.tokens_per_second,
    }
    if course.best_epoch:
        model.eval()
        with matrix_products("float32"):
            result |= _measure(model, law, chosen, seed, device)
    return result


def _measure(model: Any, law: HierarchicalGaussian, chosen: Parameters, seed: int, device: str) -> dict[str, Any]:
    measured, own = (_number(chosen.data_seed, MEASURED), _number(seed, OWN))
    rows = max(1, 2**14 // law.length)
    scores = score(
        model.predictions, law.on_device(device), chosen.measured, copies=chosen.copies, seed=measured, batch=rows
    )
    bounds = own_information(model, law, chosen.drawn, own, device)
    return {
        **curves(scores),
        **captured(scores, law),
        **restarted(model, law, chosen.drawn, measured + 1, device),
        "own_information_lower": entry(bounds.lower),
        "own_information_upper": entry(bounds.upper),
    }


def curves(scores: GaussianScores) -> dict[str, Any]:
    """KL, NLL, entropy in nats per number: averages with standard errors over sequences, and by bins of positions."""
    edges = position_bins(len(scores.entropies))
    bins = list(itertools.pairwise(edges))
    divergences = [scores.divergences[:, start:stop] for start, stop in bins]
    return {
        "average_divergence": scores.average_divergence,
        "average_divergence_error": scores.standard_error(scores.divergences),
        "average_cross_entropy": scores.average_cross_entropy,
        "average_loss": float(scores.losses.mean()),
        "average_entropy": float(scores.entropies.mean()),
        "untrained_divergence": float(0.5 * np.log(2.0 * np.pi * np.e) - scores.entropies.mean()),  # of N(0, 1)
        "first_positions": [int(start) + 1 for start, _ in bins],  # counted from 1
        "last_positions": [int(stop) for _, stop in bins],
        "divergence": [float(part.mean()) for part in divergences],
        "divergence_error": [scores.standard_error(part) for part in divergences],
        "cross_entropy": [float(scores.cross_entropies[:, start:stop].mean()) for start, stop in bins],
        "loss": [float(scores.losses[:, start:stop].mean()) for start, stop in bins],
        "entropy": [float(scores.entropies[start:stop].mean()) for start, stop in bins],
    }


def position_bins(length: int) -> NDArray[np.int64]:
    """Edges of bins of positions: the first 16 one by one, then two bins per octave, of whole rows of four positions.

    The four positions of a row are predicted unequally well, so that a bin with a part of a row would jump.
    """
    exact = min(length, EXACT_POSITIONS)
    octaves = np.log2(length / exact)
    later = exact * 2.0 ** (np.arange(1, round(2 * octaves) + 1) / 2)
    return np.concatenate([np.arange(exact + 1), 4 * np.round(later / 4).astype(np.int64)])


def _number(seed: int, stream: int) -> int:
    return int(np.random.SeedSequence([seed, stream]).generate_state(1)[0])
