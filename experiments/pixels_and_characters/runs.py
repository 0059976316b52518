"""Records of networks that read pixels or characters, by network, and numbers of theirs seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lib.information.intervals import Interval, paired_mean, seed_mean
from lib.models.catalogue import NAMES
from lib.training.settings import FitSettings

Record = Mapping[str, Any]
PRINTED_RATES = {
    "pixels": {"orth_rnn": 0.0001, "exp_rnn": 0.0001, "lstm": 0.0002, "rel_rnn": 0.0003},
    "characters": {"orth_rnn": 0.001, "exp_rnn": 0.003, "lstm": 0.0002, "rel_rnn": 0.0003},
}
"""Of Tables 8 and 9; the other networks have none."""


@dataclass(frozen=True)
class ReadingRun:
    """One record."""

    parameters: Mapping[str, Any]
    seed: int
    result: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        return str(self.parameters["architecture"])

    @property
    def name(self) -> str:
        """What pages call the network."""
        return NAMES[self.architecture]

    @property
    def updates(self) -> int:
        """Those that were made."""
        return int(self.result["updates"])

    @property
    def rate(self) -> float:
        return FitSettings(**self.parameters["fit"]).learning_rate

    def inside(self, when: str) -> Mapping[str, Any]:
        """How attention is spread, "before" or "after" training; {} where it was not recorded."""
        found: Mapping[str, Any] = self.result.get(when, {})
        return found


@dataclass(frozen=True)
class PixelRun(ReadingRun):
    """Of images."""

    @property
    def order(self) -> str:
        return str(self.parameters["order"])

    @property
    def together(self) -> int:
        """Pixels at a step."""
        return int(self.parameters["together"])

    @property
    def shuffled(self) -> bool:
        """It was trained on labels of other images: a control."""
        return bool(self.parameters["labels"] == "shuffled")

    @property
    def accuracies(self) -> list[float]:
        """Share of right validation images after every epoch."""
        return list(self.result.get("accuracies", []))

    @property
    def last(self) -> float:
        """The last of them; NaN where the training did not come to the end of its epochs."""
        whole = len(self.accuracies) == FitSettings(**self.parameters["fit"]).epochs
        return self.accuracies[-1] if whole else np.nan

    @property
    def as_printed(self) -> bool:
        """Size, length and rate of the paper, where it prints them."""
        epochs = FitSettings(**self.parameters["fit"]).epochs
        sizes = (self.parameters["side"], self.parameters["width"]) == (28, 100)
        return sizes and epochs >= 40 and PRINTED_RATES["pixels"].get(self.architecture, self.rate) == self.rate


@dataclass(frozen=True)
class CharacterRun(ReadingRun):
    """Of texts."""

    @property
    def forgetful(self) -> bool:
        """State and memory were emptied before every character: a control."""
        return bool(self.parameters["memory"] == "steps")

    @property
    def bits(self) -> float:
        """Per character of the test text; NaN where the training diverged before its first evaluation."""
        return float(self.result.get("bits", np.nan))

    @property
    def floors(self) -> Mapping[str, float]:
        """Bits per character of counts of one, two and three characters of the same text."""
        found: Mapping[str, float] = self.result["floors"]
        return found

    @property
    def as_printed(self) -> bool:
        """Corpus, sizes, window, batch, epochs, clipping and rate of the paper, where it prints them.

        The authors' code halves the rate where validation does not improve, which is not asked for.
        """
        fit = FitSettings(**self.parameters["fit"])
        sizes = tuple(self.parameters[name] for name in ("corpus", "width", "embedding")) == ("ptb", 1024, 200)
        whole = self.parameters["window"] >= 125 and fit.batch == 128 and fit.epochs >= 100 and fit.clip is None
        return sizes and whole and PRINTED_RATES["characters"].get(self.architecture, self.rate) == self.rate


Kind = TypeVar("Kind", bound=ReadingRun)


def pixel_runs(records: Iterable[Record]) -> list[PixelRun]:
    """The records as runs, by network, order of pixels and seed; those of older versions are left out."""
    return _runs(records, PixelRun, lambda run: (run.architecture, run.order, run.together, run.shuffled, run.seed))


def character_runs(records: Iterable[Record]) -> list[CharacterRun]:
    """The same of texts, by network and seed."""
    return _runs(records, CharacterRun, lambda run: (run.architecture, run.forgetful, run.seed))


def readers_of(runs: Iterable[PixelRun], architecture: str, order: str, together: int = 1) -> list[PixelRun]:
    """Those of one network, trained on true labels."""
    wanted = (architecture, order, together, False)
    return [run for run in runs if (run.architecture, run.order, run.together, run.shuffled) == wanted]


def predictors_of(runs: Iterable[CharacterRun], architecture: str) -> list[CharacterRun]:
    """Those of one network whose state goes on."""
    return [run for run in runs if run.architecture == architecture and not run.forgetful]


def paired(first: Iterable[Kind], second: Iterable[Kind], number: Callable[[Kind], float]) -> Interval:
    """Mean of a number of the first minus that of the second, over the seeds that both have; unknown below two."""
    return paired_mean(*({run.seed: number(run) for run in some} for some in (first, second)))


def mean_of(runs: Sequence[Kind], number: Callable[[Kind], float]) -> Interval:
    """Mean over seeds of a number."""
    return seed_mean([number(run) for run in runs])


def _runs(records: Iterable[Record], kind: type[Kind], place: Callable[[Kind], Any]) -> list[Kind]:
    return sorted(
        (kind(one["parameters"], one["seed"], one["result"]) for one in records if not one.get("stale")), key=place
    )
