"""Records of networks that recall facts, sorted by network and length, and reduced to what the chapter shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.models.catalogue import NAMES
from lib.processes import SantaFeProcess
from lib.report.gate import SHARE, Plateau, Training, all_ways, plateau_of, usual_budget
from lib.training.loop import has_diverged
from lib.training.settings import FitSettings

EXPERIMENT = "book-recall"
ORDER = ("transformer", "sliding_window", "mamba2", "mamba", "linear_attention", "lstm")
USUAL_SIZE = 16  # numbers of state an inner channel of Mamba and Mamba2
Record = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Network:
    """What was trained, but for length, budget and seed. size: numbers of state a channel, 0 where there are none."""

    place: int  # in ORDER
    size: int = 0

    @property
    def architecture(self) -> str:
        return ORDER[self.place]

    @property
    def name(self) -> str:
        return NAMES[self.architecture] + (f", size {self.size}" if self.size else "")


@dataclass(frozen=True)
class FactRun:
    """One record."""

    network: Network
    seed: int
    parameters: Record
    result: Record
    version: int = 0  # of the experiment

    @property
    def pairs(self) -> int:
        return int(self.parameters["pairs"])

    @property
    def source(self) -> SantaFeProcess:
        return SantaFeProcess(*(self.parameters[name] for name in ("exponent", "topics", "values")))

    @property
    def measured(self) -> bool:
        """False for a training that diverged and left nothing to measure, or a network that has no loss any more."""
        return None not in self.result.get("loss_by_pair", [None])

    @cached_property
    def excess(self) -> float:
        """Mean loss above the optimum of the very documents it was tested on, nats per pair."""
        return float(np.mean(self.result["loss_by_pair"]) - np.mean(self.result["optimum_by_pair"]))

    @property
    def share(self) -> float:
        """Share of what can be recalled that is: 1 - excess / what a perfect memory saves, of the very documents."""
        saved = float(np.log(self.parameters["values"]) - np.mean(self.result["optimum_by_pair"]))
        return 1.0 - self.excess / saved

    @cached_property
    def training(self) -> Training:
        """Its budget, and the excess of a document, nats; NaN if nothing was measured."""
        fit = FitSettings(**self.parameters["fit"])
        loss = self.excess * self.pairs if self.measured else np.nan
        return Training(self.seed, fit.epochs, fit.learning_rate, loss, self.version, not self.diverged)

    @property
    def updates(self) -> int:
        """That were planned, of all epochs."""
        return self.training.epochs * int(self.parameters["updates"])

    @property
    def diverged(self) -> bool:
        """Its last loss was no finite number; what is measured is then of the best epoch before that."""
        return has_diverged(self.result.get("reason", ""))

    @cached_property
    def recalled(self) -> NDArray[np.float64]:
        """1 - loss / ln V of facts mentioned before, by rank of the key and age of the mention; NaN where none is."""
        losses, facts = (np.array(self.result[name], dtype=np.float64) for name in ("by_rank_and_age", "facts"))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(1.0 - losses / facts / np.log(self.source.values))

    @property
    def recalled_of_rarest(self) -> float:
        """The same of all ages together, in the last bin of ranks."""
        losses, facts = (np.array(self.result[name], dtype=np.float64)[-1] for name in ("by_rank_and_age", "facts"))
        return float(1.0 - losses.sum() / facts.sum() / np.log(self.source.values))

    @property
    def part_of_rarest(self) -> float:
        """Share of the known facts that are about keys of that bin."""
        facts = np.array(self.result["facts"], dtype=np.float64)
        return float(facts[-1].sum() / facts.sum())

    @cached_property
    def forgotten(self) -> float:
        """Share of the excess on known facts that is due to their age, as `share_by_age` counts it."""
        return share_by_age(self.result["by_rank_and_age"], self.result["facts"])


Runs = Sequence[FactRun]


def share_by_age(losses: ArrayLike, facts: ArrayLike) -> float:
    """Share of losses on known facts, nats, that is due to the age of the last mention, beyond the first pair.

    losses, facts: (ranks, ages), sums and counts by rank of the key and age. For every bin of ranks the loss at the
    youngest age, of facts of the pair before, is what is lacking whatever the age: these keys were never learned. What
    older mentions cost above that is forgetting; below it counts as 0. NaN where nothing is lost. Too large where keys
    are lacking, since within a bin older mentions are of rarer keys. Too small where facts are forgotten within one
    pair, which counts as never learned: a memory that loses each fact with chance 1/2 at every pair has 0.42 at 128
    pairs. So it is an upper value only where facts about frequent keys are there one pair after.
    """
    lost, counts = np.asarray(losses, dtype=np.float64), np.asarray(facts, dtype=np.float64)
    young = counts[:, 0] > 0
    rates = lost[young, 0] / counts[young, 0]
    above = np.maximum(lost[young] - rates[:, None] * counts[young], 0.0).sum()
    total = lost[young].sum()
    return float(above / total) if total > 0 else np.nan


def fact_runs(records: Iterable[Record]) -> list[FactRun]:
    """The records as runs, by length, network and seed; those of older versions are left out."""
    found = []
    for one in records:
        if one.get("stale"):
            continue
        parameters = one["parameters"]
        kind = parameters["architecture"]
        size = int(parameters["options"].get("size", USUAL_SIZE)) if kind in ("mamba", "mamba2") else 0
        network = Network(ORDER.index(kind), size)
        found.append(FactRun(network, one["seed"], parameters, one["result"], int(one.get("version", 0))))
    return sorted(found, key=lambda run: (run.pairs, run.network, run.seed))


def lengths(runs: Iterable[FactRun]) -> list[int]:
    """All numbers of pairs that there are, the smallest first."""
    return sorted({run.pairs for run in runs})


def networks(runs: Iterable[FactRun]) -> list[Network]:
    """All networks that there are."""
    return sorted({run.network for run in runs})


def deciding(runs: Iterable[FactRun], network: Network, pairs: int) -> Runs:
    """The measured runs of a network at one length with its usual budget and rate; those that only the gate needs stay
    out."""
    own = [run for run in runs if (run.network, run.pairs) == (network, pairs) and run.measured]
    if not own:
        return []
    usual = usual_budget([run.training for run in own])
    return [run for run in own if (run.training.epochs, run.training.rate) == usual]


def settled_in_kind(runs: Iterable[FactRun], network: Network, pairs: int) -> Plateau:
    """Is the share that is lost by age (`forgotten`) the same, to a tenth, in longer and other trainings and seeds?

    Of other rates the gate counts what they lower. A share is no loss: what is not lost by age may not change either.
    Nor does another rate count whose loss is larger by more than `plateau` lets a training change: it learned less. (So
    since it was known that a share is no better for being smaller, which closed this gate to rates that learn little.)
    """
    everything = [run for run in runs if run.measured]
    own = [run for run in everything if (run.network, run.pairs) == (network, pairs)]
    usual = {run.seed: run for run in deciding(everything, network, pairs)}
    worst = max((run.training.loss for run in usual.values()), default=0.0) + SHARE * _effect(everything, pairs)
    name = f"{network.name}, {pairs} pairs, share"

    def lost_by_age(run: FactRun) -> float:
        one = usual.get(run.seed, run)
        return (one if run.training.loss > worst and run.training.rate != one.training.rate else run).forgotten

    shares = [run.training._replace(loss=lost_by_age(run)) for run in own]
    others = [run.training._replace(loss=1.0 - lost_by_age(run)) for run in own]
    return all_ways(
        plateau_of({f"{name} lost by age": shares}, effect=1.0),
        plateau_of({f"{name} lost otherwise": others}, effect=1.0),
    )


def plateau(runs: Iterable[FactRun], cells: Iterable[tuple[Network, int]]) -> Plateau:
    """Had these networks at these lengths reached what they can?

    The loss is the excess of a document, nats. The effect that decides is the range of the mean excess over all
    networks at that length, so that a network at a tenth of it is as good as perfect.
    """
    everything = [run for run in runs if run.measured]
    trainings, effects = {}, {}
    for network, pairs in cells:
        name = f"{network.name}, {pairs} pairs"
        trainings[name] = [run.training for run in everything if (run.network, run.pairs) == (network, pairs)]
        effects[name] = _effect(everything, pairs)
    known = {name: effect for name, effect in effects.items() if effect > 0}
    return plateau_of(trainings, effect=known, optimum=True)


def _effect(runs: Sequence[FactRun], pairs: int) -> float:
    """Range of the mean excess of a document over all networks at this length, nats; 0 without any."""
    means = [
        np.mean([run.training.loss for run in some])
        for network in networks(runs)
        if (some := deciding(runs, network, pairs))
    ]
    return float(np.ptp(means)) if means else 0.0
