"""How long runs will take, from those of the same experiment that are recorded, and which of them fit into a time."""

from __future__ import annotations

import heapq
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from lib.runs.definition import Experiment, Run
from lib.runs.store import Store

RIDGE = 0.1  # holds back a slope that few records show
NO_SIZES = ("learning_rate", "clip", "alpha", "epsilon", "weight_decay", "success")  # an update takes as long with any


def dotted(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Parameters of one level: those inside others get names with dots, and also stand there whole."""
    found: dict[str, Any] = {}
    for key, value in parameters.items():
        found[f"{prefix}{key}"] = value
        if isinstance(value, Mapping):
            found |= dotted(value, f"{prefix}{key}.")
    return found


def seconds_of(record: Mapping[str, Any]) -> float:
    """Of a run, with those trained before it was interrupted: its provenance has those of the last start alone.

    Of a run with several starts that was interrupted after these, only its last training counts.
    """
    return float(max(record["provenance"]["seconds"], record.get("result", {}).get("training_seconds") or 0.0))


def forecast(runs: Sequence[Run], records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds that each of the runs will take, by identity; NaN where nothing is recorded.

    ln t is taken to be linear in the logarithms of sizes and in which of the named choices is taken, fitted by ridge
    regression to the recorded seconds, and scaled so that the forecasts of the recorded runs add up to what these took.
    Left out in turn, a setting of this book is met within a factor of 1.1 to 2.5 (median, by experiment) on the machine
    of the records. Cost: O(n p^2) for n records of p parameters.
    """
    if not runs or not records:
        return {run.identity: math.nan for run in runs}
    known = np.log([max(seconds_of(record), 1e-3) for record in records])
    table = _design([dotted(record["parameters"]) for record in records] + [dotted(run.parameters) for run in runs])
    old, new = table[: len(records)], table[len(records) :]
    centre = old.mean(axis=0)
    slopes = np.linalg.solve(
        (old - centre).T @ (old - centre) + RIDGE * np.eye(old.shape[1]), (old - centre).T @ (known - known.mean())
    )
    fitted = np.exp((old - centre) @ slopes)
    scale = np.exp(known).sum() / fitted.sum()  # logarithms are fitted, and times are to add up
    expected = np.exp((new - centre) @ slopes) * scale
    return {run.identity: float(seconds) for run, seconds in zip(runs, expected, strict=True)}


def strange(runs: Sequence[Run], records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Identities of the runs of which `forecast` can say little: a size is more than twice the largest recorded one, or
    a choice is not recorded at all (but for those inside others, as variants of a network). All where nothing is.
    """
    old = [dotted(record["parameters"]) for record in records]
    found = set()
    for run in runs:
        for name, value in dotted(run.parameters).items():
            if name.rpartition(".")[2] in NO_SIZES:
                continue
            known = [setting.get(name) for setting in old]
            if isinstance(value, Mapping) or value in known:
                continue
            sizes = [float(size) for size in known if _is_size(size)]
            if value > 2 * max(sizes) if _is_size(value) and sizes else "." not in name:
                found.add(run.identity)
    return found


def records_of(experiment: Experiment, store: Store, device: str = "") -> list[dict[str, Any]]:
    """All that the store has of an experiment, whatever the profile; of one device if it is named: "cpu" or "cuda"."""
    known = {run.identity: run for profile in experiment.profiles for run in experiment.runs(profile)}
    records = store.records(known.values())
    on = ["cuda" if "peak_gpu_memory_MB" in record["provenance"] else "cpu" for record in records]
    return [record for record, place in zip(records, on, strict=True) if device in ("", place)]


def _is_size(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _design(settings: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.float64]:
    """A column for the logarithm of each size, and one for each value of what is no size."""
    columns = [np.zeros(len(settings))]
    for name in sorted({name for setting in settings for name in setting}):
        values = [setting.get(name) for setting in settings]
        if all(map(_is_size, values)):
            numbers = np.array(values, dtype=np.float64)
            columns.append(np.log(numbers) if numbers.min() > 0 else np.log1p(numbers))
        elif not any(isinstance(value, Mapping) for value in values):
            told = [json.dumps(value, default=str) for value in values]
            columns += [np.array([text == kind for text in told], dtype=np.float64) for kind in sorted(set(told))]
    return np.array(columns).T


def within(runs: Sequence[Run], costs: Mapping[str, float], budget: float, workers: int = 1) -> list[Run]:
    """The runs that fit into `budget` seconds on so many workers, settings that need the least first.

    A statement needs all seeds of a setting, so a setting is taken as a whole or not at all, and the cheapest ones
    complete the most statements; where there is not room for a single one, some of its seeds are taken. Each run goes
    to the worker that has the least, if it ends there in time: workers do not share a run. Raises ValueError where
    nothing is recorded to forecast from, and if not even one run fits.
    """
    if any(map(math.isnan, costs.values())):
        what = "no such run of this experiment, on such a device, is recorded to forecast from"
        raise ValueError(f"budget: {what}; start without a budget")
    taken: list[Run] = []
    loads = [0.0] * workers
    in_order = cheapest_settings_first(runs, costs)
    for _, setting in itertools.groupby(in_order, _setting):
        members = list(setting)
        placed, after = _placed(members, costs, budget, loads)
        if len(placed) == len(members):
            taken, loads = taken + placed, after
    taken = taken or _placed(in_order, costs, budget, loads)[0]
    if runs and not taken:
        shortest = in_words(min(costs[run.identity] for run in runs))
        raise ValueError(f"budget: about {shortest} is needed for the shortest run, got {in_words(budget)}")
    return taken


def makespan(costs: Iterable[float], workers: int) -> float:
    """Seconds until the last run ends if each goes to the first worker that is free, longest first; NaN if one is.

    Workers do not share a run: with more of them than runs it is the longest run. O(n log n).
    """
    in_order = sorted(costs, reverse=True)
    if any(map(math.isnan, in_order)):
        return math.nan
    loads = [0.0] * workers
    for seconds in in_order:
        heapq.heapreplace(loads, loads[0] + seconds)
    return max(loads)


def _placed(
    runs: Sequence[Run], costs: Mapping[str, float], budget: float, loads: Sequence[float]
) -> tuple[list[Run], list[float]]:
    """Those of the runs that end in time beside what workers have to do already, and what these have then."""
    found, left = list[Run](), list(loads)
    for run in runs:
        least = left.index(min(left))
        if left[least] + costs[run.identity] <= budget:
            left[least] += costs[run.identity]
            found.append(run)
    return found, left


def _setting(run: Run) -> str:
    return json.dumps(run.parameters, sort_keys=True, default=str)


def cheapest_settings_first(runs: Sequence[Run], costs: Mapping[str, float]) -> list[Run]:
    """Seeds of a setting together, and what needs the least first: the order in which one worker decides the most
    before it is stopped. As given where nothing is recorded.
    """
    settings: dict[str, list[Run]] = {}
    for run in runs:
        settings.setdefault(_setting(run), []).append(run)

    def cost(members: list[Run]) -> float:
        total = sum(costs[run.identity] for run in members)
        return 0.0 if math.isnan(total) else total

    return [run for members in sorted(settings.values(), key=cost) for run in members]


def longest_first(runs: Sequence[Run], costs: Mapping[str, float]) -> list[Run]:
    """The order in which several workers end together; as given where nothing is recorded."""
    return sorted(runs, key=lambda run: 0.0 if math.isnan(costs[run.identity]) else -costs[run.identity])


def duration(text: str) -> float:
    """Seconds of "2h", "90m", "1h30m" or "45s". Raises ValueError for anything else, and for nothing."""
    match = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    found = (
        sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if found <= 0:
        raise ValueError(f"budget: a time such as 2h, 90m or 1h30m is allowed, got {text!r}")
    return found


def in_words(seconds: float) -> str:
    """A time as it is said: "3 h 40 min", "12 min", "40 s"."""
    if math.isnan(seconds):
        return "an unknown time"
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass
class Clock:
    """What is left of a sweep: the forecast, corrected by how long the runs took that have ended."""

    costs: Mapping[str, float]  # forecast seconds by identity of the run
    workers: int = 1
    took: dict[str, float] = field(default_factory=dict)  # seconds, of those that have ended

    def enter(self, identity: str, took: float | None) -> None:
        """A run has ended after so many seconds; None if that is not known."""
        self.took[identity] = self.costs[identity] if took is None else took

    def left(self) -> float:
        """Seconds until the last run ends, by `makespan`, if those under way began now; NaN without a forecast."""
        expected = sum(self.costs[identity] for identity in self.took)
        pace = sum(self.took.values()) / expected if expected else 1.0
        rest = [seconds for identity, seconds in self.costs.items() if identity not in self.took]
        return makespan(rest, self.workers) * pace
