"""Statements about networks on binary sequences, each judged as the paper trains and trained to a plateau."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.binary_sequences.law.optimum import recorded_optimum
from experiments.binary_sequences.plateaus import Trainings, best_starts, gate, missing, trainings
from experiments.binary_sequences.runs import Axis, Floats, Network, Networks, Runs, of_network, trained_runs
from experiments.binary_sequences.seed_tables import Laws
from lib.information.intervals import Interval
from lib.report import provenance
from lib.report.claims import joined
from lib.report.gate import Plateau, all_ways, refuting
from lib.report.verdicts import DISSENT, Decision, decide, judge
from lib.runs import store
from lib.runs.definition import Experiment

PRINTED, FORGET, BEFORE, PLATEAU = "as printed", "as printed with forget bias 1", "normalised before", "to plateau"
"""The second is another reading of what is printed of LSTMs: biases start "at zero", or as Keras starts them. The third
has Transformers that are normalised before each layer, where the implementation that the paper names does so after."""
VARIANTS = {
    PRINTED: {"transformer": "placement post"},
    FORGET: {"lstm": "forget bias 1.0", "transformer": "placement post"},
}  # of an architecture, if a condition has another than the family of `binary-printed`
THERE = {"agrees": "the statement holds in every seed", "undecided": "it is undecided too"}
CAPPED = "lengths near that of the data, beyond which the window lets none grow"
SHOWN = {"agrees": "it holds", "differs": "it does not", "undecided": "open"}
Numbers = Callable[[Mapping[str, Networks], int], Floats]
"""From networks by architecture and the number of seeds to one row for each case: (cases, seeds + 1)."""


def recorded(names: Sequence[str], deep: Mapping[str, int] | None = None) -> Statements:
    """What is recorded of these architectures under both conditions, with a note of the runs on the page."""
    records = {}
    for name in ("binary-printed", "binary-plateau"):
        profile, all_of, _ = store.recorded(name)
        records[name] = [record for record in all_of if record["parameters"]["architecture"] in names]
        planned = sum(run.parameters["architecture"] in names for run in Experiment(name).runs(profile))
        provenance.recorded_runs(profile, records[name], planned)
    printed, found = trained_runs(records["binary-printed"]), trainings(records["binary-plateau"])
    return Statements(printed, found, recorded_optimum(), names, profile, deep or {})


@dataclass(frozen=True)
class Statements:
    """Recorded runs of `binary-printed` and `binary-plateau`, and how a statement about them is judged.

    found: all trainings to a plateau. optimum: nats per symbol. names: architectures. deep: the width of the networks
    whose depth is varied, by architecture.
    """

    printed: Runs
    found: Mapping[Network, Trainings]
    optimum: Interval
    names: Sequence[str]
    profile: str
    deep: Mapping[str, int] = field(default_factory=dict)

    def networks(self, condition: str, axis: Axis = "width") -> dict[str, dict[Network, Runs]]:
        """By architecture, along one axis: one layer of every width, or one width with every depth.

        Trained to a plateau, a network is that of its better start.
        """
        chosen: dict[str, dict[Network, Runs]] = {}
        for name in self.names:
            width = self.deep.get(name, 8)
            if condition == PLATEAU:
                chosen[name] = best_starts(self.found, name, axis, width)
            else:
                variant = VARIANTS.get(condition, {}).get(name, "")
                sizes: dict[str, Any] = {} if axis == "width" else {"width": width, "depth": None}
                chosen[name] = dict(of_network(self.printed, name, variant=variant, **sizes))
        return chosen

    def gate(self, name: str, sizes: Sequence[int], axis: Axis = "width", *, lengths: bool = False) -> Plateau:
        """Were the networks of these sizes trained to a plateau? A size that has not run is a precondition not met.

        lengths: for what is said of correlation lengths.
        """
        there = self.networks(PLATEAU, axis)[name]
        wanted = [network for network in there if getattr(network, axis) in sizes]
        for size in sizes:
            wanted += missing(name, axis, size, there, self.deep.get(name, 8))
        return gate(self.found, wanted, self.optimum, lengths=lengths)

    def say(
        self,
        claim: str,
        statement: str,
        numbers: Numbers,
        names: Sequence[str],
        sizes: Sequence[int] | Mapping[str, Sequence[int]],
        axis: Axis = "width",
        *,
        explanation: str,
        conditions: Sequence[str] | None = None,
        lengths: bool = False,
        capped: bool = False,
        **asked: Any,
    ) -> None:
        """Judge one statement under each condition; asked: bounds, exceptions, note, paper, remark as for `judge`.

        conditions: by default as printed and to plateau, and of LSTMs as printed by either reading; what one reading
        alone refutes is a remark. What Transformers say that are normalised before each layer is a remark, made where
        all sizes were trained so. Where seeds disagree as printed, the note tells what the best one says alone; where
        the numbers are `Laws` and name none, the reason is theirs.
        sizes: of the networks that it speaks of, for all architectures or by architecture. Where the numbers have a row
        for every size, a statement about all of them agrees if all trainings reached a plateau, but differs already if
        those that did refute it; else it is told what those say that did. lengths: it speaks of correlation lengths.
        capped: of lengths that to a plateau are near that of the data, beyond which the window lets none grow; there
        it is a remark.
        """
        usual: tuple[str, ...] = (PRINTED, PLATEAU)
        for reading, architecture in ((FORGET, "lstm"), (BEFORE, "transformer")):
            usual = (PRINTED, reading, PLATEAU) if architecture in names else usual
        for condition in usual if conditions is None else conditions:
            networks = self.networks(condition, axis)
            seeds = max([2, *(run.seed for name in names for runs in networks[name].values() for run in runs)]) + 1
            rows, plateau = np.atleast_2d(numbers(networks, seeds)), None
            by_size = [] if isinstance(sizes, Mapping) or not len(rows) == len(sizes) > 1 else list(sizes)
            if condition == PLATEAU:
                own = sizes if isinstance(sizes, Mapping) else dict.fromkeys(names, sizes)
                plateau = all_ways(*(self.gate(name, own[name], axis, lengths=lengths) for name in names))
                if not plateau.reached and by_size:
                    rows, plateau, by_size = self._by_size(rows, names, by_size, axis, asked, lengths)
            trained = {PLATEAU: PLATEAU, BEFORE: ""}.get(condition, PRINTED)
            given: dict[str, Any] = {"part": f"{statement}, {condition}", "condition": trained, "plateau": plateau}
            note = asked.get("note", "")
            if capped and condition == PLATEAU:
                note = joined(note, CAPPED)
                given |= {"remark": True, "note": note}
            if condition == BEFORE:
                if np.isnan(rows).all(axis=1).any():
                    continue  # not trained at every size
                given["remark"] = True
            elif condition != PLATEAU and FORGET in usual:
                other = np.atleast_2d(numbers(self.networks(FORGET if condition == PRINTED else PRINTED, axis), seeds))
                here, there = (decide(list(some), **_bounds(asked)).found for some in (rows, other))
                alone = here == "differs" and there != "differs"
                given["remark"] = asked.get("remark", False) or alone
            decision = decide(list(rows), **_bounds(asked))
            if isinstance(numbers, Laws) and decision.found == "undecided":
                given["reason"], told = numbers.reason(networks, seeds, decision.reason)
                given["note"] = joined(note, told)
            if decision.found == "differs" and by_size:
                given["note"] = joined(note, f"at {axis} {', '.join(str(by_size[row]) for row in decision.deciding)}")
            if decision.found == "agrees" and by_size:  # some may be exceptions
                apart = [str(size) for row, size in enumerate(by_size) if row not in decision.deciding]
                given["note"] = joined(note, f"not at {axis} {', '.join(apart)}" if apart else "")
            if condition != PLATEAU and decision == Decision("undecided", DISSENT):
                shown = decide([row[-1:] for row in rows], **_bounds(asked), fewest=1).found
                told = f"the seed of smallest validation loss, as the paper shows it: {SHOWN[shown]}"
                given["note"] = joined(note, told)
            judge(claim, rows, profile=self.profile, explanation=explanation, **{**asked, **given})

    def _by_size(
        self,
        rows: Floats,
        names: Sequence[str],
        sizes: Sequence[int],
        axis: Axis,
        asked: Mapping[str, Any],
        lengths: bool,
    ) -> tuple[Floats, Plateau, list[int]]:
        """Where not all trainings reached a plateau: those rows that did, if they alone refute the statement; else all
        rows, and which sizes did, with what they say; and the sizes of the rows.
        """
        ways = [all_ways(*(self.gate(name, [size], axis, lengths=lengths) for name in names)) for size in sizes]

        def found(places: list[int]) -> str:
            alone = len(places) > asked.get("exceptions", 0)  # fewer refute nothing
            return decide(list(rows[places]), **_bounds(asked)).found if alone else "undecided"

        places, first = refuting(ways, lambda passed: found(passed) == "differs")
        if first.reached:
            return rows[places], first, [sizes[place] for place in places]
        passed = [place for place, way in enumerate(ways) if way.reached]
        missed = [f"{axis} {size}: {way.reason}" for size, way in zip(sizes, ways, strict=True) if not way.reached]
        told = [first.sentence, f"no plateau at {'; '.join(missed)}"]
        if passed:
            told += [f"one at {axis} {', '.join(str(sizes[place]) for place in passed)}, where {THERE[found(passed)]}"]
        return rows, replace(first, sentence="; ".join(told)), list(sizes)


def _bounds(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {key: asked[key] for key in ("at_least", "at_most", "gap", "exceptions") if key in asked}
