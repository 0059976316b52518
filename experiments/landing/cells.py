"""Cells of the table of architectures: each says what a checked claim or a computation lets it say, and links to it.

Outcome decides the words. A part that nobody has checked, or with an outcome that a cell has no words for, is an error:
a table that went on would say more than the book knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lib.report import scorecard
from lib.report.records import OUTCOMES, Record
from lib.report.shown import WORDS
from lib.runs import store

Evidence = Mapping[tuple[str, str], Record]
"""The record that counts for each part of each claim, by claim and part."""
Told = str | Callable[[Record], str]
"""Words of a cell, or what makes them of the record."""
AGREES = ("holds", "reduced")


@dataclass(frozen=True)
class Statement:
    """One statement in a cell: its words, the record behind it if there is one, else the page that computes it."""

    text: str
    record: Record | None = None
    page: str = ""

    @property
    def outcome(self) -> str:
        return "" if self.record is None else str(self.record["outcome"])

    def __str__(self) -> str:
        if self.record is None:
            return self.text
        symbol, _ = WORDS[self.outcome]
        source = f"{self.record['claim']}, {self.record['part']}"
        return f"{self.text} [{symbol} {source}{'; older code' if self.record.get('older') else ''}]"


class Cell(Protocol):
    """What a cell says of the evidence."""

    def say(self, evidence: Evidence) -> Statement: ...


def record_of(evidence: Evidence, claim: str, part: str) -> Record:
    """The record of a part. Raises ValueError, with the parts that are recorded, for none, and for one of two pages."""
    if (claim, part) not in evidence:
        known = ", ".join(repr(name) for of, name in evidence if of == claim)
        raise ValueError(f"no record of {claim}, part {part!r}; recorded: {known or 'no part of it'}")
    record = evidence[claim, part]
    if "also" in record:
        raise ValueError(
            f"{claim}, part {part!r} was checked on {record['page']} and {record['also']}: which is meant?"
        )
    return record


@dataclass(frozen=True)
class Judged:
    """What a part of a claim lets a cell say: words by outcome.

    An undecided part without words of its own asks those of one that holds, and says that they are undecided; one that
    fails says so. `say` raises ValueError for a part without a record and for any other outcome without words.
    """

    claim: str
    part: str
    words: Mapping[str, Told]

    def say(self, evidence: Evidence) -> Statement:
        record = record_of(evidence, self.claim, self.part)
        outcome = str(record["outcome"])
        told = self.words.get(outcome)
        if told is None and outcome == "undecided":
            asked = self.words.get("holds")
            told = f"{asked}? undecided" if isinstance(asked, str) else "undecided"
        elif told is None and outcome == "fails":
            told = WORDS["fails"][1]
        if told is None:
            known = ", ".join(self.words)
            raise ValueError(f"{self.claim}, part {self.part!r}: outcomes {known} have words, recorded is {outcome!r}")
        return Statement(told if isinstance(told, str) else told(record), record)


@dataclass(frozen=True)
class Plain:
    """What no part of a claim decides: words, and the page that says or computes the same."""

    text: str
    page: str = ""

    def say(self, evidence: Evidence) -> Statement:
        return Statement(self.text, page=self.page)


@dataclass(frozen=True)
class Trained:
    """How many trainings of an architecture are recorded, where no claim is made about them.

    recorded: by architecture, counted by whoever has read the runs.
    """

    architecture: str
    recorded: Mapping[str, int]
    page: str

    def say(self, evidence: Evidence) -> Statement:
        count = self.recorded.get(self.architecture, 0)
        return Statement(f"{count} trainings, no claim" if count else "no training recorded", page=self.page)


def by_outcome(agrees: Told, differs: Told | None = None) -> dict[str, Told]:
    """The same words for what holds at full and at reduced scale, others for what differs or is false."""
    words: dict[str, Told] = dict.fromkeys(AGREES, agrees)
    return words if differs is None else words | dict.fromkeys(("differs", "false"), differs)


def counting_evidence(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """The records that count, by claim and part; `also` names another page that has checked the same part."""
    found: dict[tuple[str, str], Record] = {}
    for (claim, part, page), record in scorecard.counting(records).items():
        before = found.get((claim, part))
        found[claim, part] = record if before is None else before | {"also": page}
    return found


def trainings(experiments: Sequence[str], architecture: Callable[[Mapping[str, Any]], str]) -> dict[str, int]:
    """Recorded trainings of each architecture in these experiments; architecture: of the parameters of a run."""
    counts: dict[str, int] = {}
    for experiment in experiments:
        for record in store.so_far(experiment)[1]:
            name = architecture(record["parameters"])
            counts[name] = counts.get(name, 0) + 1
    return counts


@dataclass(frozen=True)
class Grade:
    """What a row rests on: how many parts of claims by outcome, how many of older code, how many cells have no part."""

    outcomes: Mapping[str, int]
    older: int
    without: int

    def __str__(self) -> str:
        told = [f"{count} {WORDS[outcome][1]}" for outcome, count in self.outcomes.items()]
        told += [f"{self.older} of older code"] if self.older else []
        return ", ".join([*told, self.missing])

    @property
    def missing(self) -> str:
        """How many cells no claim is behind, in words."""
        return f"{self.without} cell{'' if self.without == 1 else 's'} without a claim"


def grade(cells: Iterable[Sequence[Statement]]) -> Grade:
    """Of the cells of a row. A part that stands behind several cells counts once."""
    cells = list(cells)
    parts = {(s.record["claim"], s.record["part"]): s.record for cell in cells for s in cell if s.record is not None}
    counts = {name: sum(record["outcome"] == name for record in parts.values()) for name in OUTCOMES}
    without = sum(all(statement.record is None for statement in cell) for cell in cells)
    older = sum(bool(record.get("older")) for record in parts.values())
    return Grade({name: count for name, count in counts.items() if count}, older, without)
