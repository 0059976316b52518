"""Records of networks that learned an n-gram language, found by how they differ from their family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from experiments.ngram_rules.run import check
from lib.runs.definition import Experiment, merged
from lib.training.settings import FitSettings

EXPERIMENT = "ngram-sgd"
NETWORKS = ("relu_ssm", "relu_rnn", "lstm", "transformer", "mamba")
RECORDED_ONLY = {"inside"}  # decides what is written down, not what is trained

Record = Mapping[str, Any]
Floats = NDArray[np.float64]
Prompts = Literal["held out", "prompts", "new prompts"]
Writer = Literal["network", "counter", "counter with back-off"]
COUNTERS: tuple[Writer, ...] = ("counter", "counter with back-off")
Measure = Literal["greedy", "sampled", "greedy_unseen", "sampled_unseen"]


def differences(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What sets a run apart from its family, by name; what is inside `fit` and `options` as "fit.batch" and so on."""
    usual = _flat(_family(parameters["architecture"]))
    given = _flat(parameters)
    return {
        name: value
        for name, value in given.items()
        if name not in RECORDED_ONLY | {"architecture"} and usual.get(name) != value
    }


def of_family(records: Iterable[Record], architecture: str, **different: Any) -> list[Record]:
    """Records of a family that differ from it in just these respects, by seed; dots are written as double underscores.

    One record per seed, the one in which more is written down.

    >>> of_family(records, "relu_ssm", fit__batch=4)
    """
    asked = {name.replace("__", "."): value for name, value in different.items()}
    found: dict[int, Record] = {}
    for record in records:
        parameters = record["parameters"]
        if parameters["architecture"] == architecture and differences(parameters) == asked:
            seed = int(record["seed"])
            if seed not in found or parameters["inside"]:
                found[seed] = record
    return [found[seed] for seed in sorted(found)]


def along(records: Iterable[Record], architecture: str, axis: str, **different: Any) -> dict[Any, list[Record]]:
    """Such records by the value of one more respect, in its order; the family's own value is among them."""
    every, found = list(records), {}
    usual = _flat(_family(architecture))[axis]
    own_kind = [record["parameters"] for record in every if record["parameters"]["architecture"] == architecture]
    values = {differences(parameters).get(axis, usual) for parameters in own_kind}
    for value in sorted(values):
        own = {} if value == usual else {axis.replace(".", "__"): value}
        if rows := of_family(every, architecture, **different, **own):
            found[value] = rows
    return found


def rates(
    records: Iterable[Record], measure: Measure = "greedy", writer: Writer = "network", prompts: Prompts = "held out"
) -> Floats:
    """One completion rate for each record; NaN where there is no such prompt, or training diverged at once."""
    return np.array([np.nan if (rate := _rate(r, measure, writer, prompts)) is None else rate for r in records])


def divergence(records: Iterable[Record], after: int = 3) -> Floats:
    """Mean of D(P || Q) over the words that follow at least `after` words, nats per word, for each record.

    Depths count alike. Infinite where Q excludes a word that can follow; NaN where training diverged at once.
    """
    found = []
    for record in records:
        curve = record["result"].get("divergence_by_depth")
        found.append(np.nan if curve is None else np.mean([np.inf if d is None else d for d in curve[after - 1 :]]))
    return np.array(found, dtype=np.float64)


def measured(records: Iterable[Record], *path: str) -> Floats:
    """One entry of the results, by its names from the outside in, for each record: (records, ...).

    >>> measured(records, "transition", "outside")
    """
    found = []
    for record in records:
        entry: Any = record["result"]
        for name in path:
            entry = entry[name]
        found.append(entry)
    return np.array(found, dtype=np.float64)


def share_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a probability from so many successes in so many trials.

    Raises ValueError unless 0 <= successes <= trials and trials >= 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes: 0 .. trials >= 1 are allowed, got {successes} of {trials}")
    interval = binomtest(successes, trials).proportion_ci(level, "exact")
    return float(interval.low), float(interval.high)


def _rate(record: Record, measure: str, writer: str, prompts: str) -> float | None:
    done = record["result"].get(writer)
    return None if done is None else done[prompts][measure]


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every choice by its own name, settings of the fit with their defaults."""
    nested = {"fit": FitSettings(**parameters["fit"]).model_dump(), "options": parameters["options"]}
    plain = {name: value for name, value in parameters.items() if name not in nested}
    return plain | {f"{name}.{key}": value for name, inner in nested.items() for key, value in inner.items()}


@cache
def _family(architecture: str) -> dict[str, Any]:
    experiment = Experiment(EXPERIMENT)
    for family in experiment.families.values():
        if family["architecture"] == architecture:
            return check(merged(experiment.defaults, family))
    raise ValueError(f"architecture: one that {EXPERIMENT} has a family of is allowed, got {architecture!r}")
