"""The scorecard as HTML: a row per claim, its other checks folded under it, readable without colour and on a phone.

`scorecard.html` has the elements, this file what stands in them.

Recorded values are written as a table wants them: numbers to six digits, arrays by their number and their worst entry.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from lib.report.catalogue import PAPERS, Claim
from lib.report.comparison import LONGEST_TEXT, allowed, ours, recorded
from lib.report.findings import JudgedClaim, finding
from lib.report.page import link, macros
from lib.report.records import Record
from lib.report.shown import WORDS


class ScoredClaim(JudgedClaim, Protocol):
    """What is also said of the records of a claim: how many have its status, and if they are of older code."""

    @property
    def share(self) -> str: ...
    @property
    def older(self) -> str: ...


class Table:
    """All claims of one paper: those that were checked as a table, the others as a folded list."""

    def __init__(self, paper: str, rows: Sequence[ScoredClaim], text: str) -> None:
        self.paper, self.rows, self.text = paper, rows, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        checked = [row for row in self.rows if row.parts]
        waiting = [row for row in self.rows if not row.parts]
        return str(_template().claims(PAPERS.get(self.paper, self.paper), checked, waiting))


@dataclass(frozen=True, repr=False)
class Filters:
    """Choices of a paper, a verdict and a chapter, which leave the matching claims of all tables on the page.

    They also stand in the address: ``scorecard.html?verdict=false&paper=kerg2020``. Without a script all is shown.
    """

    rows: Sequence[ScoredClaim]
    text: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        papers = [(paper, PAPERS.get(paper, paper)) for paper in dict.fromkeys(row.claim.paper for row in self.rows)]
        statuses = [(status, WORDS[status][1]) for status, _ in shares(self.rows)]
        pages = {part["page"]: page_name(part) for row in self.rows for part in row.parts}
        script = Path(__file__).with_name("filters.js").read_text(encoding="utf-8")
        return str(_template().filters(papers, statuses, list(pages.items()), script))


@dataclass(frozen=True, repr=False)
class Counts:
    """How many claims have each status: a row per paper, one for all, one for those of older code; one for parts."""

    by_paper: Mapping[str, Mapping[str, int]]
    total: Mapping[str, int]
    older: Mapping[str, int]
    parts: Mapping[str, int]
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        statuses = counted(self.total)
        papers = [(PAPERS.get(paper, paper), _cells(found, statuses)) for paper, found in self.by_paper.items()]
        # what has not run has no part, and no record that could be old
        aged, parts = (_cells({**found, "not yet": "–"}, statuses) for found in (self.older, self.parts))
        told = rest_on_older(self.older)
        return str(_template().counts(statuses, papers, _cells(self.total, statuses), aged, told, parts))


def _cells(numbers: Mapping[str, int | str], statuses: Sequence[str]) -> list[int | str]:
    return [numbers[status] for status in statuses]


def shares(rows: Sequence[ScoredClaim]) -> list[tuple[str, int]]:
    """Which statuses these claims have, in the order of all statuses, and how many have each."""
    found = Counter(row.status for row in rows)
    return [(status, found[status]) for status in WORDS if found[status]]


@lru_cache(maxsize=1)
def _template() -> Any:
    facts = (finding, shares, link, paper_value, ours, allowed, origin, age, manner, page_name, speaks, told, run)
    given = {"words": WORDS, **{function.__name__: function for function in facts}}
    return macros(Path(__file__).with_name("scorecard.html"), given)


def page_name(record: Record) -> str:
    """The last part of a page's name, as words."""
    return str(record["page"]).rpartition("/")[2].replace("_", " ")


def manner(record: Record) -> str:
    """How the networks behind a part were trained, and that it is a remark."""
    condition = record.get("condition", "")
    told = "" if condition in record["part"] else condition  # some parts are named by it
    return ", ".join(filter(None, (told, "remark" if record.get("remark") else "")))


def speaks(record: Record) -> bool:
    """Whether the sentence of a check says more than its numbers: where it failed or decided nothing."""
    return record["outcome"] in ("fails", "undecided")


def told(record: Record) -> str:
    """What a check found, in short."""
    if speaks(record):
        return shortened(record["sentence"])
    note = f"; {shortened(record['note'])}" if record.get("note") else ""
    return f"{ours(record)} (allowed: {allowed(record)}){note}"


def run(record: Record) -> str:
    """Page, profile, day and code of a check."""
    name = page_name(record) if record["part"] else ""  # without a part it is the title already
    code = str(record.get("provenance", {}).get("code", "unknown"))[:7]
    facts = [name, record["profile"], origin(record), f"{'older ' if record.get('older') else ''}code {code}"]
    return ", ".join(fact for fact in facts if fact)


def paper_value(claim: Claim, record: Record | None = None) -> str:
    """The paper's own number: as recorded, else the printed form, else what a claim that differs was held against."""
    if record is None:
        return recorded(claim.paper_value)
    for key in ("paper", "printed"):
        if record.get(key) is not None:
            return recorded(record[key])
    if record["outcome"] == "differs":
        return recorded(record["expected"]) if record.get("expected") is not None else allowed(record)
    return recorded(claim.paper_value)


def shortened(text: str) -> str:
    """A note cut at a word if it is long: the page with the check has all of it."""
    return textwrap.shorten(text, LONGEST_TEXT, placeholder=" …")


def origin(record: Record) -> str:
    """Day and commit of a record."""
    made = record.get("provenance", {})
    return f"{str(made.get('date', ''))[:10]}, commit {made.get('commit', 'unknown')}"


def age(record: Record) -> str:
    """What the present code says of a part whose record is of older code, if it was run at a lower profile."""
    beside = record.get("beside")
    if not beside:
        return ""
    agrees = _side(beside) == _side(record)
    told = "agrees" if agrees else f"says: {WORDS[beside['outcome']][1]}"
    return f"the {beside['profile']} check of the present code {told}"


def _side(record: Record) -> str:
    # at another scale the same finding has another word
    return "holds" if record["outcome"] == "reduced" else str(record["outcome"])


def counted(statuses: Mapping[str, int]) -> list[str]:
    """The statuses to be counted: all, but that a check fails only where one does, for else there is no page."""
    return [status for status, number in statuses.items() if number or status != "fails"]


def rest_on_older(older: Mapping[str, int]) -> str:
    """How many claims, by status, rest on records of older code."""
    number = sum(older.values())
    return f"{number} {'rests' if number == 1 else 'rest'} on records of older code"
