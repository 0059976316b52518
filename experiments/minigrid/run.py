"""One agent in one pair of grid worlds: trained in the small one, tested in both (Kerg et al. 2020, Table 4)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from experiments.minigrid.acting import returns_of
from experiments.minigrid.agent import Agent, Memory
from experiments.minigrid.environments import PAIRS, Rule, World
from experiments.minigrid.ppo import Course, Settings, train
from lib.runs.training import RunParameters
from lib.training.checkpoint import save_checkpoint
from lib.training.settings import matrix_products

PARTS = 50  # of a course: so many numbers are recorded at most


class Parameters(RunParameters):
    """What a run needs to know besides its seed."""

    task: str  # of PAIRS
    layer: Literal["lstm", "mem_lstm", "rel_lstm"]
    width: int = Field(64, ge=1)  # cells of the LSTM
    buffer: int = Field(5, ge=1)  # last states that rel_lstm attends to
    relevant: int = Field(5, ge=0)  # older ones
    memory: Memory = "episodes"  # when it is emptied, see Agent
    rule: Rule = "around"  # of GoToObject, see World
    frames: int = Field(ge=0)  # of the training; 0 for an agent that has learned nothing
    episodes: int = Field(200, ge=2)  # of each test
    ppo: Settings = Settings.model_validate({})


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built once, and dropped."""
    chosen = Parameters.read(parameters, "kerg-minigrid")
    if chosen.task not in PAIRS:
        raise ValueError(f"task: one of {', '.join(PAIRS)} is allowed, got {chosen.task!r}")
    if chosen.rule != "around" and chosen.task != "GoToObject":
        raise ValueError(f"rule: of GoToObject it can be chosen, got {chosen.rule!r} with {chosen.task!r}")
    _agent(chosen, 0)
    return chosen.model_dump()


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one agent and test it in the world where it learned and in the larger one, on the same episodes for all.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns the course of the training
    in at most 50 parts (frames at the end of each, mean return and share of successes of the episodes that ended in
    it, null without any), and mean, standard error and share of successes of both tests.
    """
    chosen = Parameters(**parameters)
    agent = _agent(chosen, seed).to(device)
    pair = PAIRS[chosen.task]
    described = {"parameters": chosen.model_dump(), "seed": seed}
    per_update = chosen.ppo.processes * chosen.ppo.frames
    course = train(
        agent,
        functools.partial(World, pair.train.name, chosen.rule),
        chosen.ppo,
        -(-chosen.frames // per_update),
        seed,
        checkpoint=folder / "checkpoint.safetensors",
        configuration=described,
        label=f"{chosen.task} {chosen.layer} seed {seed}",
        progress=progress,
    )
    weights = {name: tensor.float() for name, tensor in agent.state_dict().items()}
    save_checkpoint(folder / "model.safetensors", weights, {}, described)
    tests = {}
    for name, place in (("train", pair.train), ("test", pair.test)):
        make = functools.partial(World, place.name, chosen.rule)
        tests[name] = summary(returns_of(agent, make, chosen.episodes, 0))
    return {
        "parameter_count": sum(parameter.numel() for parameter in agent.parameters()),
        "updates": len(course.episodes),
        **in_parts(course, per_update),
        "tests": tests,
        "training_seconds": course.seconds,
    }


def in_parts(course: Course, per_update: int, parts: int = PARTS) -> dict[str, list[float | None]]:
    """The course in at most so many parts of nearly as many updates: frames, mean_return and success_rate of each."""
    edges = np.unique(np.linspace(0, len(course.episodes), min(parts, len(course.episodes)) + 1).astype(int))
    pairs = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    def mean(sums: Sequence[float], start: int, stop: int) -> float | None:
        episodes = sum(course.episodes[start:stop])
        return sum(sums[start:stop]) / episodes if episodes else None

    return {
        "frames": [float(stop * per_update) for _, stop in pairs],
        "mean_return": [mean(course.returns, *pair) for pair in pairs],
        "success_rate": [mean(course.successes, *pair) for pair in pairs],
    }


def summary(returns: NDArray[np.float64]) -> dict[str, float]:
    """Mean return of the episodes, its standard error, and the share that succeeded."""
    return {
        "mean_return": float(returns.mean()),
        "standard_error": float(returns.std(ddof=1) / np.sqrt(len(returns))),
        "success_rate": float((returns > 0).mean()),
    }


def _agent(chosen: Parameters, seed: int) -> Agent:
    return Agent(
        chosen.layer,
        chosen.width,
        buffer=chosen.buffer,
        relevant=chosen.relevant,
        memory=chosen.memory,
        seed=np.random.default_rng([seed, 0]),
    )
