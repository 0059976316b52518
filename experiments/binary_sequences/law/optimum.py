"""The smallest loss that any predictor can have on the validation sequences: ln p under their true distribution.

By a particle filter, whose estimates of the probabilities of sequences have no bias; their logarithms have one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import logsumexp

from experiments.binary_sequences.law.likelihood import log_likelihood
from experiments.binary_sequences.run import sampled
from lib.information.intervals import Interval, jackknife
from lib.processes import PowerLawBinary
from lib.runs import store
from lib.runs.training import RunParameters

EXPERIMENT = "binary-optimum"


class Parameters(RunParameters):
    """Sequences as in binary_sequences, and how many particles follow each."""

    length: int = Field(512, ge=8)
    training: int = Field(10000, ge=1)  # drawn before the validation sequences, from the same stream
    validation: int = Field(2000, ge=1)
    amplitude: float = 0.1  # A, nats
    exponent: float = 0.4  # gamma
    data_seed: int = Field(0, ge=0)
    particles: int = Field(ge=1)


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run, such as an amplitude that no process has."""
    chosen = Parameters.read(parameters, "binary_optimum")
    PowerLawBinary(chosen.length, chosen.amplitude, chosen.exponent)
    return chosen.model_dump()


def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Follow every validation sequence with particles.

    Returns the estimate of ln p(x_2 .. x_n | x_1) of every sequence in nats, and -ln p(x_t | x_1 .. x_{t-1}) on average
    over them: over t = 2 .. n as well, and at some t. On average an estimate of ln p is too small by half its variance.
    """
    chosen = Parameters(**parameters)
    process = PowerLawBinary(chosen.length, chosen.amplitude, chosen.exponent)
    correlation = np.asarray(process.correlation(np.arange(chosen.length)))
    _, validation = sampled(
        chosen.length, chosen.amplitude, chosen.exponent, chosen.training, chosen.validation, chosen.data_seed
    )
    found = log_likelihood(validation, correlation, chosen.particles, seed)[:, 1:]
    losses = -found.mean(axis=0)
    places = np.unique(np.geomspace(1, len(losses), 24).astype(int))
    return {
        "log_likelihood": found.sum(axis=1).tolist(),
        "loss": float(losses.mean()),
        "places": (places + 1).tolist(),
        "loss_by_position": losses[places - 1].tolist(),
    }


def combined(records: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Mean loss, nats per symbol, with the estimates of k = 1 .. g seeds averaged before the logarithm, (g,).

    Every choice of k of the g seeds counts; the bias falls as 1/k. Raises ValueError as `optimum`.
    """
    logs, symbols = _by_seed(records)
    choices = [itertools.combinations(range(len(logs)), k) for k in range(1, len(logs) + 1)]
    return np.array([np.mean([_loss(logs[list(seeds)], symbols) for seeds in each]) for each in choices])


def optimum(records: Sequence[Mapping[str, Any]]) -> Interval:
    """The smallest mean loss, nats per symbol, with the 95 % interval of what the filter leaves open.

    With f_k the loss by k of the g seeds, g f_g - (g - 1) mean f_{g-1} has no bias of order 1/g (Quenouille's
    jackknife); the interval is that of the same number with one seed left out. The sequences are as given: what other
    sequences would give is no part of it. Raises ValueError for less than three seeds, a seed that is there twice, and
    records of several questions.
    """
    logs, symbols = _by_seed(records)
    others = [np.delete(logs, seed, axis=0) for seed in range(len(logs))]
    return jackknife(_unbiased(logs, symbols), [_unbiased(each, symbols) for each in others])


def recorded_optimum() -> Interval:
    """`optimum` of the recorded runs: those of one question that have the most seeds, of several the most particles."""
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for record in store.recorded(EXPERIMENT)[1]:
        groups.setdefault(record["parameters"]["particles"], []).append(record)
    return optimum(groups[max(groups, key=lambda particles: (len(groups[particles]), particles))])


def _unbiased(logs: NDArray[np.float64], symbols: int) -> float:
    seeds = len(logs)
    fewer = np.mean([_loss(np.delete(logs, seed, axis=0), symbols) for seed in range(seeds)])
    return float(seeds * _loss(logs, symbols) - (seeds - 1) * fewer)


def _loss(logs: NDArray[np.float64], symbols: int) -> float:
    return float(-np.mean(logsumexp(logs, axis=0) - np.log(len(logs))) / symbols)


def _by_seed(records: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.float64], int]:
    seeds, parameters = [record["seed"] for record in records], [dict(record["parameters"]) for record in records]
    if len(set(seeds)) < max(3, len(seeds)):
        raise ValueError(f"records: three different seeds or more are needed, got {seeds}")
    if any(each != parameters[0] for each in parameters):
        raise ValueError("records: those of one question are needed, got several with different parameters")
    return np.array([record["result"]["log_likelihood"] for record in records]), parameters[0]["length"] - 1
