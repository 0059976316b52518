"""Records of text as language models see it, sorted by model and reduced to what a chapter shows of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.text_information.models import NEUTRAL, Model
from experiments.text_information.run import Parameters
from lib.information.documents.growth import ScalingFit, resampled_means, scaling_exponent
from lib.models.catalogue import NAMES
from lib.training import FitSettings

EXPERIMENT = "text-information"
ESTIMATORS = {"direct": "direct", "vclub": "vCLUB", "uncorrected": "direct, uncorrected",
              "own": "direct, less what a foreign text gains"}  # fmt: skip
FROM = 16  # characters: exponents are fitted from there on, about four tokens of the paper
REPLICATES, BLOCK = 1000, 2  # of the bootstrap; documents drawn together, neighbours serve each other as strangers
AUTHORS = {"charlotte_bronte": "C. Brontë", "darwin": "Darwin", "shakespeare": "Shakespeare",
           "zora_neale_hurston": "Hurston"}  # fmt: skip
LONGEST = 2048  # tokens of the windows of SmolLM2
OPENING = {"character_lstm": 6, "smollm2": 2, "network": 2}  # tokens corrected, where nothing else is said

Record = Mapping[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """An estimate at every length of one split."""

    lengths: Floats  # (n,), L in tokens
    means: Floats  # (n,), nats
    by_group: Floats  # (groups, n), means of documents, or of groups of neighbouring ones

    @cached_property
    def resampled(self) -> Floats:
        """Means of documents drawn with replacement, (replicates, n); the same draws for the same number of groups."""
        return resampled_means(self.by_group, replicates=REPLICATES, block=min(BLOCK, len(self.by_group) // 3), seed=0)

    @cached_property
    def intervals(self) -> Floats:
        """95 % interval of every mean, (n, 2)."""
        return np.quantile(self.resampled, [0.025, 0.975], axis=0).T

    @property
    def local_exponents(self) -> Floats:
        """From each length to the next, (n - 1,); NaN where an estimate is not positive."""
        means = self.by_group.mean(axis=0)
        logarithms = np.log(np.where(means > 0, means, math.nan))
        return np.asarray(np.diff(logarithms) / np.diff(np.log(self.lengths)))

    def beyond(self, first: float, last: float = math.inf) -> Curve:
        """The lengths from `first` tokens on, up to `last`."""
        kept = (self.lengths >= first - 1e-9) & (self.lengths <= last + 1e-9)
        return Curve(self.lengths[kept], self.means[kept], self.by_group[:, kept])

    @cached_property
    def fit(self) -> ScalingFit | None:
        """A L^beta; None for fewer than three lengths, and where some estimate is not positive."""
        if self.lengths.size < 3 or not np.all(self.by_group.mean(axis=0) > 0):
            return None
        block = min(BLOCK, len(self.by_group) // 3)
        return scaling_exponent(self.lengths, self.by_group, replicates=REPLICATES, block=block, seed=0)


@dataclass(frozen=True)
class TextRun:
    """One record: what one model makes of the documents."""

    model: Model
    variant: str  # what is done otherwise than for the others of its kind, "" if nothing
    seed: int
    parameters: Record
    result: Record
    version: int = 0  # of the experiment

    @property
    def name(self) -> str:
        """As in "Mamba 2×128, byte pairs"."""
        model = self.model
        if model.kind == "smollm2":
            plain = "SmolLM2-135M"
        elif model.kind == "character_lstm":
            plain = f"LSTM of {AUTHORS.get(model.name, model.name)}"
        else:
            size = f"{model.width}" if model.depth == 1 else f"{model.depth}×{model.width}"
            plain = f"{NAMES[model.architecture]} {size}"
            plain += ", byte pairs" if model.merges else ""
        return f"{plain}, {self.variant}" if self.variant else plain

    @property
    def family(self) -> str:
        """Architecture of a network trained here; "pretrained" otherwise."""
        return self.model.architecture if self.model.kind == "network" else "pretrained"

    @property
    def network(self) -> str:
        """What is asked and of which network, but not how that was trained; older records lack younger parameters."""
        return json.dumps(Parameters(**self.parameters).model_dump(exclude={"model": {"fit"}}), sort_keys=True)

    @property
    def epochs(self) -> int:
        """Passes of the training, as planned; 0 for a model that others have trained."""
        return FitSettings(**self.model.fit).epochs if self.model.kind == "network" else 0

    @property
    def rate(self) -> float:
        """Learning rate of the training; 0 for a model that others have trained."""
        return FitSettings(**self.model.fit).learning_rate if self.model.kind == "network" else 0.0

    @property
    def characterwise(self) -> bool:
        return self.model.kind != "smollm2" and not self.model.merges

    @property
    def token_length(self) -> float:
        """Characters per token, on average."""
        return float(self.result["characters_per_token"])

    @property
    def loss(self) -> float:
        """Nats per character over the second half of the windows, where the model has read much."""
        return float(self.result["second_half_loss"]) / self.token_length

    def curve(self, estimator: str, ratio: int = 2) -> Curve | None:
        """The estimate at L = 2, 3 or 4 times the first block; None if it was not made or is not finite.

        Raises ValueError for an unknown estimator.
        """
        if estimator not in ESTIMATORS:
            raise ValueError(f"estimator: one of {', '.join(ESTIMATORS)} is allowed, got {estimator!r}")
        return self._own(ratio) if estimator == "own" else self._curves.get((estimator, ratio))

    def _own(self, ratio: int) -> Curve | None:
        """The direct estimate, plus the foreign cost at lengths where its mean is negative; None without both.

        Then a text of another document helps too, and what it gains is not what X tells of its own Y.
        """
        direct, cost = self.curve("direct", ratio), self.foreign_cost(ratio)
        if direct is None or cost is None or not np.array_equal(direct.lengths, cost.lengths):
            return None
        helped = cost.by_group.mean(axis=0) < 0
        parts = ((direct.means, cost.means), (direct.by_group, cost.by_group))
        return Curve(direct.lengths, *(estimate + np.where(helped, foreign, 0.0) for estimate, foreign in parts))

    def foreign_cost(self, ratio: int = 2) -> Curve | None:
        """vCLUB minus the uncorrected direct estimate: mean of ln q(Y) - ln q(Y'|X), nats; None without both."""
        direct, vclub = self.curve("uncorrected", ratio), self.curve("vclub", ratio)
        if direct is None or vclub is None or not np.array_equal(direct.lengths, vclub.lengths):
            return None
        return Curve(vclub.lengths, vclub.means - direct.means, vclub.by_group - direct.by_group)

    def law(self, estimator: str, ratio: int = 2) -> ScalingFit | None:
        """The power law from FROM characters on; None where there is none."""
        if (estimator, ratio) not in self._laws:
            curve = self.curve(estimator, ratio)
            self._laws[estimator, ratio] = None if curve is None else curve.beyond(FROM / self.token_length).fit
        return self._laws[estimator, ratio]

    @cached_property
    def _curves(self) -> dict[tuple[str, int], Curve]:
        found = {}
        for entry in self.result["estimates"]:
            arrays = (np.array(entry[key], dtype=np.float64) for key in ("lengths", "means", "by_group"))
            curve = Curve(*arrays)
            if curve.lengths.size and np.all(np.isfinite(curve.by_group)):
                found[entry["estimator"], entry["ratio"]] = curve
        return found

    @cached_property
    def _laws(self) -> dict[tuple[str, int], ScalingFit | None]:
        return {}

    def loss_by_position(self) -> tuple[Floats, Floats]:
        """Positions from 1, and nats per token there, without positions of which the model has no distribution."""
        places, losses = (np.array(self.result[key], dtype=np.float64) for key in ("positions", "loss_by_position"))
        known = np.isfinite(losses)
        return places[known], losses[known]


def text_runs(records: Iterable[Record]) -> list[TextRun]:
    """The records as runs: pretrained first, then by family, tokens, size and seed; variants after what they vary."""
    runs = []
    for record in records:
        parameters = record["parameters"]
        model = Model(**parameters["model"])
        facts = (variant_of(parameters), record["seed"], parameters, record["result"], record.get("version", 0))
        runs.append(TextRun(model, *facts))
    return sorted(runs, key=_order)


def variant_of(parameters: Record) -> str:
    """What a run does otherwise than the others of its kind, in words."""
    model = Model(**parameters["model"])
    found = []
    if model.kind == "character_lstm" and model.columns != 70:
        found.append("a paragraph on a line" if model.columns is None else f"lines of {model.columns}")
    if model.kind == "character_lstm" and model.start != NEUTRAL:
        known = {None: "no beginning", "\n": "after a line break"}
        found.append(known.get(model.start, "another beginning"))
    if model.kind == "smollm2" and model.start not in (None, NEUTRAL, "<|endoftext|>"):
        found.append("after an instruction marker" if model.start == "<|im_start|>" else "after another token")
    if parameters["opening"] != OPENING[model.kind]:
        found.append(f"opening of {parameters['opening']}")
    if model.kind != "network" and parameters["corpus"] == "sotu":
        found.append("on the speeches")
    if model.kind == "smollm2" and parameters["longest"] < LONGEST:
        found.append(f"windows of {parameters['longest']}")
    if parameters["starts"] != "sentence":
        found.append("windows anywhere")
    return ", ".join(found)


def plain(runs: Iterable[TextRun]) -> list[TextRun]:
    """Those that are no variants."""
    return [run for run in runs if not run.variant]


def longest_trained(runs: Sequence[TextRun]) -> list[TextRun]:
    """Of a network that was trained for several numbers of epochs the longest training; all others as they are."""
    most: dict[str, int] = {}
    for run in runs:
        most[run.network] = max(most.get(run.network, 0), run.epochs)
    return [run for run in runs if run.epochs == most[run.network]]


def trained_longer(runs: Sequence[TextRun]) -> list[TextRun]:
    """All trainings of networks that were trained for several numbers of epochs, the shortest first."""
    budgets: dict[str, set[int]] = {}
    for run in runs:
        budgets.setdefault(run.network, set()).add(run.epochs)
    names = [run.network for run in runs]
    several = [run for run in runs if len(budgets[run.network]) > 1]
    return sorted(several, key=lambda run: (names.index(run.network), run.epochs, run.rate, run.seed))


def other_starts(runs: Sequence[TextRun]) -> list[TextRun]:
    """Trainings that differ in nothing but their start: of all such the most, of as many the longest; [] for none."""
    alike: dict[tuple[str, int, float], list[TextRun]] = {}
    for run in runs:
        alike.setdefault((run.network, run.epochs, run.rate), []).append(run)
    most = max(alike.values(), key=lambda group: (len(group), group[0].epochs), default=[])
    return most if len(most) > 1 else []


def trained_here(runs: Iterable[TextRun]) -> list[TextRun]:
    """Networks that read single characters and were trained on the other books."""
    return [run for run in plain(runs) if run.model.kind == "network" and run.characterwise]


def variants(runs: Sequence[TextRun]) -> list[TextRun]:
    """The model of which there are variants, and these; an empty list without any."""
    names = {run.model.name for run in runs if run.variant and run.model.kind == "character_lstm"}
    return [run for run in runs if run.model.kind == "character_lstm" and run.model.name in names]


def best(runs: Iterable[TextRun]) -> TextRun:
    """The smallest loss per character among those that are no variants. Raises ValueError without any."""
    known = [run for run in plain(runs) if math.isfinite(run.loss)]
    if not known:
        raise ValueError("runs: at least one that is no variant is needed, got none; are they recorded?")
    return min(known, key=lambda run: run.loss)


def smallest_loss(runs: Iterable[TextRun]) -> list[TextRun]:
    """The best of every family and kind of token, in the order of `runs`."""
    chosen: dict[tuple[str, bool], TextRun] = {}
    for run in plain(runs):
        key = (run.family, run.characterwise)
        if key not in chosen or run.loss < chosen[key].loss:
            chosen[key] = run
    return list(chosen.values())


@dataclass(frozen=True)
class Published:
    """A power law A L^beta of Fig. 2, L in tokens of LLaMA 3.1, and points read off the figure (about 2 %)."""

    text: str
    estimator: str
    amplitude: float
    exponent: float
    points: tuple[float, ...]  # nats at L = 4, 8, 16, ...

    @property
    def lengths(self) -> Floats:
        """Of the points, tokens."""
        return np.asarray(4.0 * 2.0 ** np.arange(len(self.points)))

    def predict(self, lengths: ArrayLike) -> Floats:
        """Nats."""
        return np.asarray(self.amplitude * np.asarray(lengths, dtype=np.float64) ** self.exponent)


PUBLISHED = (
    Published("PG19", "direct", 2.27, 0.76, (6.30, 11.0, 19.2, 31.5, 52.1)),
    Published("PG19", "vclub", 3.26, 0.71, (8.81, 14.4, 23.5, 37.9, 61.9, 98.0, 163, 263, 445, 763)),
    Published("Wikipedia", "direct", 4.50, 0.66, (9.64, 19.1, 31.6, 47.5, 71.8, 107)),
    Published("Wikipedia", "vclub", 7.01, 0.60, (14.6, 25.1, 41.8, 59.7, 86.5, 126, 185, 285, 460, 748)),
)  # fmt: skip


def _order(run: TextRun) -> tuple[Any, ...]:
    model = run.model
    kinds = ("character_lstm", "smollm2", "network")
    return (
        kinds.index(model.kind), model.merges, model.architecture, model.depth * model.width, model.name,
        bool(run.variant), run.variant, run.seed,
    )  # fmt: skip
