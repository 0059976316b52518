"""Statements about what networks write, judged by the rules of `parts` and `relations`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.natural_corpora.written.parts import ASKED
from experiments.natural_corpora.written.relations import RELATIONS, Number, points, rank_correlation
from experiments.natural_corpora.written.runs import Network, Runs, planned, written_runs
from experiments.natural_corpora.written.selection import Networks, Selection
from lib.report import provenance
from lib.report.records import Record
from lib.report.verdicts import judge
from lib.runs import store

Floats = npt.NDArray[np.float64]
EXPERIMENTS = {"character": "written-characters", "word": "written-words"}
RELATED = 0.5  # rank correlation between the range of information and a measure of quality


def recorded() -> Statements:
    """What is recorded at both levels, nothing if nothing is."""
    found: dict[Network, Runs] = {}
    about: frozenset[Network] = frozenset()
    runs = [store.so_far(name) for name in EXPERIMENTS.values()]
    for name, (profile, records, _) in zip(EXPERIMENTS.values(), runs, strict=True):
        found |= written_runs(records)
        about |= planned(name, profile)
    profile = "paper" if {profile for profile, _, _ in runs} == {"paper"} else "laptop"
    return Statements(Selection(found, about), profile, runs)


@dataclass(frozen=True)
class Statements:
    """What has run, and how statements about it are judged."""

    selection: Selection
    profile: str = "laptop"
    runs: Sequence[tuple[str, Sequence[Record], int]] = ()  # of each level: profile, records, how many are planned

    def show_runs(self) -> None:
        """Show on the page where the recorded runs come from."""
        for profile, records, number in self.runs:
            if records:
                provenance.recorded_runs(profile, records, number)

    def judge(self, claim: str) -> None:
        """Judge every part of a claim; nothing where nothing has run."""
        if not self.selection.found:
            return
        for asked in ASKED[claim]:
            networks = asked.about(self.selection)
            if asked.optional and not networks:
                continue
            judge(
                claim,
                table(networks, lambda run, asked=asked: asked.number(run, self.selection)),  # type: ignore[misc]
                part=f"{asked.part}, to plateau",
                condition="to plateau",
                plateau=self.selection.gate({**networks, **asked.beside(self.selection)}),
                profile=self.profile,
                explanation=asked.explanation,
                note=asked.note,
                at_least=asked.bounds[0],
                at_most=asked.bounds[1],
            )

    def judge_quality(self) -> None:
        """App. F: does a longer range go with the better text, over all networks of a level?"""
        for level in EXPERIMENTS if self.selection.found else ():
            for part, pair in RELATIONS.items():
                judge(
                    "shen-quality",
                    rank_correlation(points(self.selection.of_level(level), pair)),
                    part=f"{part}, {level}s",
                    at_least=RELATED,
                    explanation="the networks are not in that order",
                    fewest=0,
                    profile=self.profile,
                    note="rank correlation over networks",
                )


def table(networks: Networks, number: Number) -> Floats:
    """A row for every network: its seeds, NaN where one is missing, and the seed with the smallest loss."""
    seeds = max([3, *(run.seed + 1 for runs in networks.values() for run in runs)])
    rows = np.full((len(networks), seeds + 1), np.nan)
    for row, runs in zip(rows, networks.values(), strict=True):
        for run in runs:
            row[run.seed] = number(run)
        if runs:
            row[-1] = number(min(runs, key=lambda run: run.loss))
    return rows
