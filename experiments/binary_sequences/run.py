"""One network on binary sequences with power-law information: train, generate, measure (Shen 2019, Sec. 4.2.1, 5.1)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.binary_sequences.law.orthant import sign_block_law
from lib.information import auto_mutual_information
from lib.models import create
from lib.models.scoring import sequence_probabilities
from lib.processes import PowerLawBinary
from lib.processes.discrete.tables import information_of_table
from lib.runs.training import RunParameters, trained
from lib.training import (
    FitSettings,
    LevenbergMarquardt,
    NextToken,
    fit,
    generate,
    position_losses,
    sequence_gradients,
)
from lib.training.settings import matrix_products

GROUPS = 10  # disjoint parts of the generated sequences, each measured alone: their spread is the sampling error


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the model accept."""

    architecture: str
    width: int = Field(ge=1)
    depth: int = Field(1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    length: int = Field(512, ge=8)  # of every sequence
    training: int = Field(10000, ge=1)  # sequences
    validation: int = Field(2000, ge=1)
    generated: int = Field(2000, ge=1)
    amplitude: float = 0.1  # A, nats
    exponent: float = 0.4  # gamma
    data_seed: int = Field(0, ge=0)
    short_block: int = Field(5, ge=2, le=7)  # symbols whose true distribution is computed
    enumerated: int = Field(12, ge=3, le=18)  # symbols whose distribution under the model is computed
    long: int = Field(0, ge=0)  # symbols of further sequences that show the tail beyond the length of training; 0: none
    long_generated: int = Field(2048, ge=1)
    starts: int = Field(1, ge=1)  # networks that are begun; the one with the smallest training loss goes on
    trial: int = Field(15, ge=1)  # steps of second order that each of them gets, if there are several


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built without its numbers."""
    chosen = Parameters.read(parameters, "binary_sequences")
    if chosen.starts > 1 and not FitSettings(**chosen.fit).newton:
        raise ValueError(f"starts: {chosen.starts} of them need steps of second order after them, got fit.newton 0")
    with torch.device("meta"):
        model = create(chosen.architecture, 2, chosen.width, chosen.depth, **chosen.options)
        if FitSettings(**chosen.fit).newton:
            sequence_gradients(model, torch.zeros(1, 2, dtype=torch.int64))
    return chosen.model_dump()


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network, draw sequences from its best epoch, and measure them.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns losses by epoch, two-point
    information of generated sequences at lags 1 .. length - 1, exact losses on short blocks beside the true entropies,
    and the exact two-point information of the model's own distribution on the first `enumerated` symbols beside its
    estimate; with `long`, the information of longer sequences as well, at about a dozen lags per octave.
    """
    chosen = Parameters(**parameters)
    training, validation = _data(chosen)
    task = NextToken(training, validation, seed=seed, vocabulary=2)
    described = {"parameters": chosen.model_dump(), "seed": seed}
    label = f"{chosen.architecture} {chosen.width}x{chosen.depth} seed {seed}"
    begun: dict[str, Any] = {}
    if chosen.starts == 1:
        model, settings = _network(chosen, seed, 0).to(device), chosen.fit
    else:
        tried = _begun(chosen, task, seed, folder, described, label, device, progress)
        losses, settings = [loss for loss, _ in tried], {**chosen.fit, "epochs": 0}
        model, begun = tried[int(np.argmin(losses))][1], {"losses_of_starts": losses}
    course, result = trained(model, task, settings, folder, described=described, label=label, progress=progress)
    if course.best_epoch:
        result |= begun | _measure(model, chosen, validation, seed, device)
    return result


def _network(chosen: Parameters, seed: int, number: int) -> Any:
    """The network of start `number`, counted from 0."""
    options = {"seed": np.random.default_rng([seed, 0, number] if number else [seed, 0]), **chosen.options}
    return create(chosen.architecture, 2, chosen.width, chosen.depth, **options)


def _begun(
    chosen: Parameters, task: NextToken, seed: int, folder: Path, described: Any, label: str, device: str, bar: bool
) -> list[tuple[float, Any]]:
    """Every start after the epochs and its trial: mean loss of a training sequence in nats, and the network."""
    settings, found = FitSettings(**{**chosen.fit, "newton": chosen.trial}), []
    for number in range(chosen.starts):
        model = _network(chosen, seed, number).to(device)
        place, name = folder / f"start-{number}.safetensors", f"{label} start {number}"
        fit(model, task, settings, checkpoint=place, configuration=described, label=name, progress=bar)
        found.append((LevenbergMarquardt(task.training).loss(model), model))
    return found


def _measure(model: Any, chosen: Parameters, validation: NDArray[Any], seed: int, device: str) -> dict[str, Any]:
    sequences = generate(model, chosen.generated, chosen.length, np.random.default_rng([seed, 1]), device=device)
    lags = np.arange(1, chosen.length)
    long = _measure_long(model, chosen, seed, device) if chosen.long else {}
    model = model.to("cpu")
    true_losses, model_losses = short_block_losses(model, chosen)
    losses = position_losses(model, validation)
    return {
        "information": auto_mutual_information(sequences, lags).tolist(),
        "group_lags": group_lags(chosen.length).tolist(),
        "information_by_group": [
            auto_mutual_information(group, group_lags(chosen.length)).tolist()
            for group in np.array_split(sequences, min(GROUPS, len(sequences)))
        ],
        "mean_symbol": float(sequences.mean()),
        "true_conditional_entropies": true_losses.tolist(),
        "exact_losses": model_losses.tolist(),
        "validation_loss_by_position": losses[np.unique(np.geomspace(1, len(losses), 24).astype(int)) - 1].tolist(),
        "enumerated_information": enumerated_information(model, chosen.enumerated).tolist(),
        "same_estimated": auto_mutual_information(
            sequences[:, : chosen.enumerated], np.arange(1, chosen.enumerated)
        ).tolist(),
        **long,
    }


def _measure_long(model: Any, chosen: Parameters, seed: int, device: str) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 3])
    sequences = generate(model, chosen.long_generated, chosen.long, rng, device=device)
    lags = group_lags(chosen.long, 96)
    groups = np.array_split(sequences, min(GROUPS, len(sequences)))
    return {
        "long_lags": lags.tolist(),
        "long_information": auto_mutual_information(sequences, lags).tolist(),
        "long_information_by_group": [auto_mutual_information(group, lags).tolist() for group in groups],
    }


def group_lags(length: int, number: int = 48) -> NDArray[np.int64]:
    """At most `number` lags from 1 to length - 1, evenly spaced in their logarithm where that leaves whole numbers."""
    return np.unique(np.geomspace(1, length - 1, number).round().astype(np.int64))


def short_block_losses(model: Any, chosen: Parameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """H(x_t | x_<t) of the true distribution, E[-ln Q(x_t | x_<t)] under it, nats, t = 2 .. short_block, both exact."""
    process = PowerLawBinary(chosen.length, chosen.amplitude, chosen.exponent)
    law = sign_block_law(process.correlation(np.arange(1, chosen.short_block)))
    prefixes = [law.sum(axis=tuple(range(t, law.ndim))) for t in range(1, law.ndim + 1)]
    uniform_first = sequence_probabilities(model, chosen.short_block)
    models = [uniform_first.sum(axis=tuple(range(t, law.ndim))) for t in range(1, law.ndim + 1)]
    true = [-float(np.sum(p * np.log(p / q[..., None]))) for q, p in itertools.pairwise(prefixes)]
    cross = [
        -float(np.sum(p * np.log(late / early[..., None])))
        for p, early, late in zip(prefixes[1:], models[:-1], models[1:], strict=True)
    ]
    return np.array(true), np.array(cross)


def enumerated_information(model: Any, symbols: int) -> NDArray[np.float64]:
    """Exact two-point information of the model's first `symbols` symbols at lags 1 .. symbols - 1, nats.

    Pairs at all places are pooled, as `auto_mutual_information` pools them. Cost `symbols` steps of 2^symbols rows.
    """
    law = sequence_probabilities(model, symbols)
    information = []
    for lag in range(1, symbols):
        pairs = np.zeros((2, 2))
        for place in range(symbols - lag):
            dropped = tuple(axis for axis in range(symbols) if axis not in (place, place + lag))
            pairs += law.sum(axis=dropped)
        information.append(information_of_table(pairs / pairs.sum()))
    return np.array(information)


@lru_cache(maxsize=2)
def sampled(length: int, amplitude: float, exponent: float, training: int, validation: int, seed: int) -> Any:
    """Training and validation sequences, drawn one after the other from one stream."""
    process = PowerLawBinary(length, amplitude, exponent)
    rng = np.random.default_rng([seed, 2])
    return process.sample(training, rng), process.sample(validation, rng)


def _data(chosen: Parameters) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Training and validation sequences; the same for all networks of one sweep."""
    data: tuple[NDArray[np.uint8], NDArray[np.uint8]] = sampled(
        chosen.length, chosen.amplitude, chosen.exponent, chosen.training, chosen.validation, chosen.data_seed
    )
    return data
