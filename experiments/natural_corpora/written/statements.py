"""Statements about what networks write, judged by the rules of `parts` and `relations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.natural_corpora.written.parts import ASKED, Asked
from experiments.natural_corpora.written.relations import RELATED, RELATIONS, REMARKS, Number, points, rank_correlation
from experiments.natural_corpora.written.runs import Network, Runs, WrittenRun, planned, written_runs
from experiments.natural_corpora.written.selection import Networks, Selection
from lib.information.intervals import UNKNOWN, Interval
from lib.report import provenance
from lib.report.claims import joined, undecided
from lib.report.records import Record
from lib.report.verdicts import UNMET, decide, judge
from lib.runs import store

Floats = npt.NDArray[np.float64]
EXPERIMENTS = {"character": "written-characters", "word": "written-words"}


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
        """Judge every part of a claim; nothing where nothing has run.

        What the paper says of networks larger than any that is planned is undecided, and so is a part that would differ
        and has a reason why that refutes nothing at our size (`Asked.smaller`).
        """
        for asked in ASKED[claim] if self.selection.found else ():
            networks, beside = asked.about(self.selection), asked.beside(self.selection)
            compared = f"{', '.join(map(str, networks))} beside {', '.join(map(str, beside))}" if beside else ""
            said: dict[str, Any] = {"part": f"{asked.part}, to plateau", "condition": "to plateau"}
            said["note"] = joined(asked.note, compared, asked.control(self.selection))
            if asked.optional and not networks:
                undecided(claim, reason=UNMET, sentence="no network of this width was trained here", **said)
                continue
            numbers = table(networks, lambda run, asked=asked: asked.number(run, self.selection))  # type: ignore[misc]
            plateau = self.selection.gate({**networks, **beside})
            low, high = asked.bounds
            if self.profile != "paper" and plateau.reached and refutes_nothing(asked, numbers):
                why = f"{asked.smaller}; it would differ: {told(asked, numbers)}"
                undecided(claim, reason=UNMET, sentence=why, **said)
                continue
            cases: Floats | Mapping[Network, Interval] = (
                intervals(networks, asked.interval) if asked.interval else numbers
            )
            judge(
                claim,
                cases,
                plateau=plateau,
                profile=self.profile,
                explanation=asked.explanation,
                at_least=low,
                at_most=high,
                gap=asked.gap,
                **said,
            )

    def judge_quality(self) -> None:
        """App. F and Sec. 5.2: does a longer range go with the better text, over all networks of a level?"""
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
                    remark=part in REMARKS,
                )
        if self.selection.found:
            undecided(
                "shen-quality",
                part="paragraphs of one topic go with the long range",
                reason=UNMET,
                sentence="no count here tells whether a paragraph keeps one topic",
            )
            undecided(
                "shen-quality",
                part="two or three coherent sentences go with the intermediate range",
                reason=UNMET,
                sentence="no count here tells whether sentences cohere",
            )


def refutes_nothing(asked: Asked, numbers: Floats) -> bool:
    """Would the part differ, on networks whose failure refutes nothing?"""
    low, high = asked.bounds
    return bool(asked.smaller and len(numbers)) and decide(list(numbers), low, high, asked.gap).found == "differs"


def told(asked: Asked, numbers: Floats) -> str:
    """What was measured, and what was asked for."""
    low, high = asked.bounds
    bounds = {"at least": low, "at most": high}
    wanted = " and ".join(f"{name} {bound:g}" for name, bound in bounds.items() if bound is not None)
    return f"{np.nanmin(numbers):.2g} to {np.nanmax(numbers):.2g}, asked for: {wanted}"


def intervals(networks: Networks, of: Callable[[WrittenRun], Interval]) -> dict[Network, Interval]:
    """By network the mean over its seeds, from the lowest to the highest end of their intervals.

    It lies within bounds if those of all seeds do, and outside on one side if all of them do. UNKNOWN without any.
    """
    found = dict.fromkeys(networks, UNKNOWN)
    for network, runs in networks.items():
        if each := [one for one in map(of, runs) if one.known]:
            values = tuple(one.value for one in each)
            ends = min(one.low for one in each), max(one.high for one in each)
            found[network] = Interval(float(np.mean(values)), *ends, by_seed=values, form=".2f")
    return found


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
