"""Records of agents, reduced to what the chapter shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.information.intervals import Interval, paired_mean, seed_mean
from lib.runs.store import Store, so_far

EXPERIMENT = "kerg-minigrid"
NAMES = {"lstm": "LSTM", "mem_lstm": "MemLSTM", "rel_lstm": "RelLSTM"}
PLACES = ("train", "test")  # of a pair: where the agent learned, and the larger one
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Trained:
    """What was trained, but for the seed."""

    task: str
    layer: str
    memory: str = "episodes"

    def __str__(self) -> str:
        how = {"episodes": "", "released": ", as released", "steps": " without memory"}
        return f"{NAMES[self.layer]}{how.get(self.memory, f', memory {self.memory}')}"


@dataclass(frozen=True)
class AgentRun:
    """One record."""

    trained: Trained
    seed: int
    result: Record

    def mean(self, place: str) -> float:
        """Mean return of the episodes in this place."""
        return float(self.result["tests"][place]["mean_return"])


def agent_runs(records: Iterable[Record]) -> dict[Trained, list[AgentRun]]:
    """The records by what was trained, seeds in order."""
    found: dict[Trained, list[AgentRun]] = {}
    for record in sorted(records, key=lambda record: record["seed"]):
        chosen = record["parameters"]
        trained = Trained(chosen["task"], chosen["layer"], chosen["memory"])
        found.setdefault(trained, []).append(AgentRun(trained, record["seed"], record["result"]))
    return found


def mean_return(runs: Sequence[AgentRun], place: str) -> Interval:
    """Over seeds."""
    return seed_mean([run.mean(place) for run in runs])


def difference(first: Sequence[AgentRun], second: Sequence[AgentRun], place: str) -> Interval:
    """Mean return of the first less that of the second, in the seeds that both have."""
    return paired_mean(*({run.seed: run.mean(place) for run in some} for some in (first, second)))


def finished() -> tuple[str, list[dict[str, Any]], int]:
    """The profile of which the largest share is recorded, laptop if there is nothing, its records, and its size."""
    return so_far(EXPERIMENT, store=Store())
