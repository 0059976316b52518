"""Records of copy and denoise, sorted by network and delay, and what may be said of how each training ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lib.models.catalogue import NAMES
from lib.report.gate import Plateau
from lib.report.verdicts import UNCONVERGED, UNMET
from lib.training.loop import SUCCESSES, has_diverged
from lib.training.settings import FitSettings

Record = Mapping[str, Any]
SEEDS = 3  # at least, of every training that something is said about
LONGER = 3  # times the updates of the slowest network that succeeds, before another may be said to fail
RUNAWAY = 100.0  # times the loss without memory: no network that works is ever there
STILL = 0.01  # of the loss: who stands still has the same smallest one in both halves of the updates, but for this
SUCCESS = 0.99  # accuracy, which `SUCCESSES` evaluations in a row have to reach
COMMON_RATE = 0.001  # who is said to fail has had this one too
BEYOND = ("transformer", "sliding_window", "mamba")  # on the same tasks, not in the paper
USUAL: dict[str, Any] = {"buffer": 10, "relevant": 10, "select": "screening"}


class Recipe(NamedTuple):
    """How a network is trained, as Tables 6 and 7 say it."""

    optimizer: str
    rate: float
    activation: str = ""  # of the recurrence; "" where there is no choice

    def __str__(self) -> str:
        """As in "rmsprop 0.0002 modrelu"."""
        return f"{self.optimizer} {self.rate:g} {self.activation}".strip()


MODRELU = Recipe("rmsprop", 0.0002, "modrelu")
PRINTED = {
    ("copy", "lstm"): Recipe("adam", 0.0002),
    ("copy", "orth_rnn"): MODRELU,
    ("copy", "exp_rnn"): MODRELU,
    ("copy", "rel_rnn"): Recipe("adam", 0.0002, "tanh"),
    ("denoise", "lstm"): Recipe("adam", 0.0002),
    ("denoise", "orth_rnn"): MODRELU,
    ("denoise", "exp_rnn"): MODRELU,
    ("denoise", "rel_rnn"): MODRELU,
    ("denoise", "goru"): Recipe("rmsprop", 0.001),
}
"""The recipes that are printed; the others have none."""


@dataclass(frozen=True)
class RecallRun:
    """One record. Accuracies are those on the 1000 fixed sequences that training is ended by, none of which it saw."""

    parameters: Mapping[str, Any]
    seed: int
    result: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        return str(self.parameters["architecture"])

    @property
    def name(self) -> str:
        """What pages call the network."""
        return NAMES[self.architecture] + (f", {self.variant}" if self.variant else "")

    @property
    def task(self) -> str:
        return str(self.parameters["task"])

    @property
    def delay(self) -> int:
        return int(self.parameters["delay"])

    @property
    def variant(self) -> str:
        """What memory and labels have that is not usual, "" if nothing: a control."""
        options = self.parameters["options"]
        told = [f"{key} {options[key]}" for key, usual in USUAL.items() if options.get(key, usual) != usual]
        labels = self.parameters["labels"]
        return ", ".join(told + ([f"labels {labels}"] if labels != "true" else []))

    @property
    def recipe(self) -> Recipe:
        settings = FitSettings(**self.parameters["fit"])
        activation = self.parameters["options"].get("activation", "tanh")
        plain = self.architecture in ("orth_rnn", "exp_rnn", "mem_rnn", "rel_rnn")
        return Recipe(settings.optimizer, settings.learning_rate, activation if plain else "")

    @property
    def as_printed(self) -> bool:
        return self.recipe == PRINTED.get((self.task, self.architecture))

    @property
    def trained_on(self) -> bool:
        """Success would not have ended it."""
        return FitSettings(**self.parameters["fit"]).success is None

    @property
    def succeeded(self) -> bool:
        """It ended by success or, where that ends nothing, with as many evaluations of such accuracy."""
        if self.trained_on:
            lately = self.result.get("accuracies", [])[-SUCCESSES:]
            return len(lately) == SUCCESSES and min(lately) >= SUCCESS
        return self.result["updates_to_success"] is not None

    @property
    def updates(self) -> int:
        """Those that were made."""
        return int(self.result["updates"])

    @property
    def accuracy(self) -> float:
        """Share of right symbols at the end of training; NaN where it diverged before the first evaluation."""
        return float(self.result["accuracies"][-1]) if self.result.get("accuracies") else np.nan

    @property
    def improvement(self) -> float:
        """Share of the smallest validation loss of the first half of the updates that the last half gained.

        Negative where the loss never came back to it.
        """
        losses = np.array(self.result["validation_losses"], dtype=np.float64)
        half = len(losses) // 2
        if not half:
            return np.nan
        return float(1.0 - losses[half:].min() / losses[:half].min())

    @property
    def still(self) -> bool:
        """It had stopped improving, had not fallen back from what it had reached, and was not lost."""
        return abs(self.improvement) < STILL and self.lost_after is None

    @property
    def diverged(self) -> bool:
        """Its last loss was no finite number."""
        return has_diverged(self.result.get("reason", ""))

    @property
    def lost_after(self) -> int | None:
        """Updates after which its loss was out of bounds, or no number, for good; None where it never was."""
        losses = np.array(self.result["validation_losses"], dtype=np.float64)
        bounded = np.flatnonzero(losses <= RUNAWAY * self.result["baseline_loss"])
        kept = int(bounded[-1]) + 1 if bounded.size else 0
        return kept * int(self.parameters["updates"]) if self.diverged or kept < len(losses) else None

    def inside(self, when: str) -> Mapping[str, Any]:
        """Attention and gradients, "before" or "after" training; {} where they were not recorded."""
        found: Mapping[str, Any] = self.result.get(when, {})
        return found


Runs = Sequence[RecallRun]


def recall_runs(records: Iterable[Record]) -> list[RecallRun]:
    """The records as runs, by network, variant, delay, recipe and seed; those of older versions are left out."""
    runs = [RecallRun(one["parameters"], one["seed"], one["result"]) for one in records if not one.get("stale")]
    return sorted(runs, key=lambda run: (run.architecture, run.variant, run.delay, run.recipe, run.seed))


def of_network(runs: Iterable[RecallRun], architecture: str, delay: int | None = None, variant: str = "") -> Runs:
    """Those of one network, at one delay or at all."""
    return [
        run for run in runs if (run.architecture, run.variant) == (architecture, variant) and delay in (None, run.delay)
    ]


def delays(runs: Iterable[RecallRun]) -> list[int]:
    """All delays that there are, from the shortest."""
    return sorted({run.delay for run in runs})


def by_recipe(runs: Iterable[RecallRun]) -> dict[Recipe, Runs]:
    """Runs of one network at one delay, by how it was trained."""
    found: dict[Recipe, list[RecallRun]] = {}
    for run in runs:
        found.setdefault(run.recipe, []).append(run)
    return dict(found)


def best_recipe(runs: Iterable[RecallRun]) -> Runs:
    """The runs of one network at one delay with the recipe by which the largest share succeeds; none where none is.

    Where shares are equal, that with the larger mean accuracy; then the printed one. Where every seed succeeds, and
    accuracies say only where training was ended, the printed one, and else that with the fewest updates.
    """
    tried = by_recipe(runs).values()

    def worth(some: Runs) -> tuple[float, float, bool, float]:
        accuracies = [0.0 if np.isnan(run.accuracy) else run.accuracy for run in some]
        whole = all(run.succeeded for run in some)
        share, right = float(np.mean([run.succeeded for run in some])), 1.0 if whole else float(np.mean(accuracies))
        return share, right, some[0].as_printed, -float(np.mean([run.updates for run in some]))

    return max(tried, key=worth, default=[])


def slowest_success(runs: Iterable[RecallRun], delay: int) -> int | None:
    """Updates of the slowest seed of the slowest network of which all seeds succeed at this delay; None if none does.

    Each network of the paper counts with its best recipe; variants are controls and do not count.
    """
    there = [run for run in runs if run.delay == delay and not run.variant and run.architecture not in BEYOND]
    found = []
    for architecture in sorted({run.architecture for run in there}):
        best = best_recipe(of_network(there, architecture, delay))
        if len(best) >= SEEDS and all(run.succeeded for run in best):
            found.append(max(run.updates for run in best))
    return max(found, default=None)


def failure(runs: Iterable[RecallRun], architecture: str, delay: int, variant: str = "") -> Plateau:
    """May it be said that this network fails at this delay? runs: of all networks on one task.

    It may if at the printed rate, where there is one, and at 0.001 as well, no seed of at least three succeeds, each
    had at least three times the updates of the slowest network that succeeds, and its smallest loss in the last half of
    them is within 1 % of that in the first half. Else it did not succeed within as many updates, and no more can be
    said. A training that fell back from what it had reached has not ended. One that large gradients have ended or
    frozen had no such half: it says nothing of what the network can learn.
    """
    everything = list(runs)
    own = of_network(everything, architecture, delay, variant)
    name = f"{own[0].name}, T = {delay}" if own else f"{NAMES[architecture]}, T = {delay}"
    printed = PRINTED.get((own[0].task, architecture)) if own else None
    wanted = {COMMON_RATE} | ({printed.rate} if printed else set())
    for rate in sorted(wanted):
        seeds = [run for run in own if run.recipe.rate == rate]
        if len(seeds) < SEEDS:
            return Plateau(False, UNMET, f"{name}: {len(seeds)} of {SEEDS} seeds at rate {rate:g}")
        if any(run.succeeded for run in seeds):
            return Plateau(False, UNCONVERGED, f"{name}: it succeeds at rate {rate:g}")
    slowest = slowest_success(everything, delay)
    if slowest is None:
        return Plateau(False, UNMET, f"{name}: no other network succeeds there, which would say how long to wait")
    fewest = min(run.updates for run in own)
    if fewest < LONGER * slowest:
        return Plateau(False, UNCONVERGED, f"{name}: not within {fewest} updates, and {LONGER * slowest} are asked for")
    if moving := [run for run in own if not run.still]:
        return Plateau(False, UNCONVERGED, f"{name}: not within {fewest} updates, and {_unsettled(moving)}")
    return Plateau(True, "", f"{name}: fails, in {fewest} updates and more at rates {sorted(wanted)}")


def ended(runs: Iterable[RecallRun], cells: Iterable[tuple[str, int]], variant: str = "") -> Plateau:
    """The gate of statements on what networks can do: each (architecture, delay) succeeds in every seed, or fails.

    A cell succeeds if its best recipe does. Success is the optimum but for a hundredth; for failures see `failure`.
    """
    everything, told = list(runs), []
    for architecture, delay in cells:
        best = best_recipe(of_network(everything, architecture, delay, variant))
        if len(best) >= SEEDS and all(run.succeeded for run in best):
            told.append(
                f"{best[0].name}, T = {delay}: {min(r.updates for r in best)} to {max(r.updates for r in best)}"
            )
            continue
        if any(run.succeeded for run in best):
            right = sum(run.succeeded for run in best)
            return Plateau(False, UNCONVERGED, f"{best[0].name}, T = {delay}: {right} of {len(best)} seeds succeed")
        found = failure(everything, architecture, delay, variant)
        if not found.reached:
            return found
        told.append(found.sentence)
    return Plateau(
        bool(told), "" if told else UNMET, f"updates: {'; '.join(told)}" if told else "no training is recorded"
    )


def settled(runs: Runs) -> Plateau:
    """The gate of statements on what is inside trained networks: every training succeeded, or had stopped improving."""
    moving = [run for run in runs if not (run.succeeded or run.still)]
    if moving:
        sentence = f"{len(moving)} of {len(runs)} trainings neither succeeded nor stood still"
        return Plateau(False, UNCONVERGED, f"{sentence}; {_unsettled(moving)}")
    return Plateau(bool(runs), "" if runs else UNMET, f"{len(runs)} trainings succeeded or stood still")


def _unsettled(runs: Runs) -> str:
    """Why trainings that did not succeed say nothing: how many were lost or fell back, and how far the others fell."""
    kept = [run.improvement for run in runs if run.lost_after is None]
    falls = [share for share in kept if share >= STILL]
    lost, back = len(runs) - len(kept), sum(share <= -STILL for share in kept)
    short = len(kept) - len(falls) - back
    told = [f"{lost} of them lost to large gradients"] if lost else []
    told += [f"{back} of them had fallen back"] if back else []
    told += [f"{short} of them with too few evaluations"] if short else []
    told += [f"the loss still fell by {max(falls):.1%} in the last half"] if falls else []
    return ", ".join(told)
