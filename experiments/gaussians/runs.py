"""Records of Gaussian language models, sorted by model, length and seed, and reduced to what the chapters show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.gaussians.sizes import SIZES
from lib.models import catalogue
from lib.runs.definition import Experiment
from lib.training.settings import FitSettings

EXPERIMENT = "l2m-fig4"
NAMES = catalogue.NAMES | {"gpt2": "GPT2"}
EARLY = 16  # positions, which have the same distribution at every length from 64 on
PUBLISHED_STEPS, PUBLISHED_BATCH = 500_000, 4  # L2M (2025), App. E
_ORDER = {name: place for place, name in enumerate(SIZES)}

Record = Mapping[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """What was trained, but for length and seed. size: a key of SIZES; variant: what differs from it, "" if nothing."""

    size: str
    variant: str = ""

    @property
    def architecture(self) -> str:
        return SIZES[self.size].architecture

    @property
    def look(self) -> str:
        """The architecture whose look it has in figures: GPT2 is a Transformer."""
        return "transformer" if self.architecture == "gpt2" else self.architecture

    @property
    def name(self) -> str:
        """As in "Mamba 2×32" (layers, width), or "Mamba-130m" of the published ones."""
        family, _, rest = self.size.partition("-")
        short = rest.replace("x", "×")
        return NAMES[family] + (f" {short}" if "×" in short else f"-{rest}" if rest else "")

    def __str__(self) -> str:
        return f"{self.name}, {self.variant}" if self.variant else self.name


@dataclass(frozen=True)
class GaussianRun:
    """One record: a model trained on sequences of one length."""

    model: Model
    length: int
    seed: int
    parameters: Record
    result: Record
    version: int = 0  # of the experiment

    @property
    def measured(self) -> bool:
        """False for a training that diverged in its first epoch and left nothing to measure."""
        return self.result.get("average_divergence") is not None

    def mean(self, first: int = 1, last: int | None = None, curve: str = "divergence") -> float:
        """Mean over the positions first .. last, counted from 1, of a curve that is recorded in bins.

        curve: "divergence" (E.36), "cross_entropy" (E.38), "loss" or "entropy", nats per number. Raises ValueError
        where a bin would have to be cut.
        """
        starts, stops = (np.array(self.result[name]) for name in ("first_positions", "last_positions"))
        stop = self.length if last is None else last
        if first not in starts or stop not in stops or first > stop:
            raise ValueError(f"positions: bins of length {self.length} cannot be cut at {first} .. {stop}")
        inside = (starts >= first) & (stops <= stop)
        values = np.array(self.result[curve], dtype=np.float64)
        return float(np.average(values[inside], weights=(stops - starts + 1)[inside]))

    @property
    def average(self) -> float:
        """E.37, nats per number."""
        return float(self.result["average_divergence"])

    @property
    def early(self) -> float:
        """KL on the first EARLY positions, nats per number."""
        return self.mean(1, EARLY)

    @property
    def late(self) -> float:
        """KL on the second half of the positions: what the first half could have told is in it."""
        return self.mean(self.length // 2 + 1)

    @property
    def information(self) -> float:
        """True bipartite information of all copies, nats."""
        return float(self.result["true_information"])

    def state(self, scanned: bool = False) -> int:
        """Numbers in the state that meets the last token of the first half; scanned: without convolution windows."""
        return int(self.result["scanned_state_size" if scanned else "state_size"])

    @property
    def steps(self) -> int:
        """Updates that were made."""
        return len(self.result["training_losses"]) * int(self.parameters["epoch_steps"])

    @property
    def tokens(self) -> int:
        """Tokens that were trained on."""
        return self.steps * FitSettings(**self.parameters["fit"]).batch * self.length

    def estimate(self, name: str) -> tuple[float, float]:
        """An information in nats of all copies and its standard error."""
        entry = self.result[name]
        return float(entry["value"]), float(entry["standard_error"])

    def gain(self, share: float) -> float:
        """ln of the validation loss when `share` of the epochs were still to come, over the smallest loss.

        0.1 means that this last part of the training lowered it by a tenth. NaN if there were too few epochs.
        """
        losses = np.array(self.result["validation_losses"], dtype=np.float64)
        before = losses.size - max(1, round(share * losses.size))
        return math.log(losses[before - 1] / losses.min()) if before >= 1 else math.nan


@dataclass(frozen=True)
class Plan:
    """What a profile of the experiment asks for: lengths, seeds, and the models without variants by architecture."""

    lengths: list[int]
    seeds: int
    models: dict[str, list[Model]]

    def smallest(self, architecture: str) -> Model:
        """By the order of `experiments.gaussians.sizes.SIZES`, which is that of the state within an architecture."""
        return self.models[architecture][0]

    def largest(self, architecture: str) -> Model:
        """The other end of it."""
        return self.models[architecture][-1]

    @property
    def every(self) -> list[Model]:
        return [model for models in self.models.values() for model in models]


def plan_of(profile: str) -> Plan:
    """Read off the grid, whose runs are not checked for that. Raises ValueError for an unknown profile."""
    profiles = Experiment(EXPERIMENT).profiles
    if profile not in profiles:
        raise ValueError(f"profile: one of {', '.join(profiles)} is allowed, got {profile!r}")
    grid = [(np.atleast_1d(entry["size"]), np.atleast_1d(entry["layers"])) for entry in profiles[profile]["grid"]]
    sizes = sorted({str(size) for names, _ in grid for size in names}, key=lambda size: _ORDER[size])
    models: dict[str, list[Model]] = {}
    for size in sizes:
        models.setdefault(SIZES[size].architecture, []).append(Model(size))
    lengths = sorted({4 ** int(number) for _, layers in grid for number in layers})
    return Plan(lengths, int(profiles[profile]["seeds"]), models)


def published_tokens(length: int) -> int:
    """Tokens that the paper trained on at this length."""
    return PUBLISHED_STEPS * PUBLISHED_BATCH * length


def trained_runs(records: Iterable[Record]) -> list[GaussianRun]:
    """The records as runs: sizes from small to large within their architecture, then by variant, length and seed."""
    runs = [
        GaussianRun(
            model_of(record["parameters"]),
            4 ** int(record["parameters"]["layers"]),
            int(record["seed"]),
            record["parameters"],
            record["result"],
            record.get("version", 0),
        )
        for record in records
    ]
    return sorted(runs, key=lambda run: (_ORDER[run.model.size], _numbered(run.model.variant), run.length, run.seed))


def _numbered(words: str) -> str:
    """So that state size 4 comes before 16."""
    return re.sub(r"\d+", lambda found: found[0].zfill(6), words)


def model_of(parameters: Record) -> Model:
    """Which model parameters are of: changes of the model and another precision than float32 make a variant."""
    changes = sorted(parameters["model"].items())
    words = [f"state size {value}" if key == "size" else f"{value} {key}" for key, value in changes]
    words = [word.replace("none positions", "no positions") for word in words]
    if parameters["precision"] != "float32":
        words.append(parameters["precision"])
    return Model(parameters["size"], ", ".join(words))


Runs = Sequence[GaussianRun]
Lengths = Mapping[int, Runs]
Models = Mapping[Model, Lengths]


def of_models(
    runs: Iterable[GaussianRun], architecture: str | None = None, variant: str | None = ""
) -> dict[Model, dict[int, list[GaussianRun]]]:
    """Runs with something to measure, by model and length, in the order of `runs`; None: every one."""
    found: dict[Model, dict[int, list[GaussianRun]]] = {}
    for run in runs:
        wanted = architecture in (None, run.model.architecture) and variant in (None, run.model.variant)
        if run.measured and wanted:
            found.setdefault(run.model, {}).setdefault(run.length, []).append(run)
    return found


def by_seed(by_length: Lengths, number: Callable[[GaussianRun], float], lengths: Sequence[int], seeds: int) -> Floats:
    """A number of every run of one model: (lengths, seeds), NaN where a run is missing."""
    found = np.full((len(lengths), seeds), np.nan)
    for row, length in zip(found, lengths, strict=True):
        for run in by_length.get(length, ()):
            row[run.seed] = number(run)
    return found
