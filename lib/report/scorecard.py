"""The scorecard: what became of every claim, from records of checks alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lib import ROOT
from lib.report import records as record_files
from lib.report.catalogue import Claim, catalogue
from lib.report.claims import OUTCOMES, WORDS
from lib.report.page import show_on_page
from lib.report.records import PROFILES, Record
from lib.report.scorecard_html import Counts, Table

COMMITTED = ROOT / "results" / "claims"
STATUSES = (*OUTCOMES, "not yet")  # from good to bad, and unknown
VERBS = {  # of one part and of several; parts that hold are never fewer than all
    "reduced": ("holds at reduced scale", "hold at reduced scale"),
    "corrected": ("is corrected", "are corrected"),
    "differs": ("differs", "differ"),
}


@dataclass(frozen=True)
class Row:
    """One claim and the records that count for it, one per part."""

    claim: Claim
    parts: tuple[Record, ...]

    @property
    def status(self) -> str:
        """The worst outcome over the parts: one part that differs makes the claim differ."""
        if not self.parts:
            return "not yet"
        return max((str(part["outcome"]) for part in self.parts), key=OUTCOMES.index)

    @property
    def _worst(self) -> list[Record]:
        return [part for part in self.parts if part["outcome"] == self.status]

    @property
    def decisive(self) -> Record:
        """The part that gives the claim its status; of several, the first with a value of the paper, else the first.

        Raises ``ValueError`` if no part was checked.
        """
        if not self.parts:
            raise ValueError(f"{self.claim.id} was not checked: no part decides")
        return next((part for part in self._worst if part.get("paper") is not None), self._worst[0])

    @property
    def share(self) -> str:
        """How many parts have the claim's status, as in "3 of 8 parts differ"; nothing if all have."""
        count, total = len(self._worst), len(self.parts)
        return "" if count == total else f"{count} of {total} parts {VERBS[self.status][count > 1]}"


def load_records(folders: Iterable[Path] | None = None) -> list[Record]:
    """The committed records of ``results/claims`` and those in ``folders``.

    Default for ``folders``: the build under way, from the environment variable ``BOOK_RECORDS_DIR`` (folders separated
    as in ``PATH``). A missing folder holds no records. ``on_page`` says if the pages of ``folders`` hold the check;
    a check recorded earlier is not on a page that was made without the corpus it needs.
    """
    if folders is None:
        folders = [Path(name) for name in os.environ.get("BOOK_RECORDS_DIR", "").split(os.pathsep) if name]
    live = record_files.load(folders)
    places = {(record["page"], record["anchor"]) for record in live}
    kept = record_files.load([COMMITTED])
    return [record | {"on_page": (record["page"], record["anchor"]) in places} for record in (*kept, *live)]


def counting(records: Iterable[Record]) -> dict[tuple[str, str, str], Record]:
    """For each (claim, part, page) the record that counts: of the highest profile, and of those the latest."""
    best: dict[tuple[str, str, str], Record] = {}
    for record in records:
        key = (record["claim"], record["part"], record["page"])
        if key not in best or _rank(record) >= _rank(best[key]):
            best[key] = record
    return best


def _rank(record: Record) -> tuple[int, str]:
    return PROFILES.index(record["profile"]), str(record.get("provenance", {}).get("date", ""))


def rows(records: Iterable[Record], paper: str | None = None) -> list[Row]:
    """One row per claim of the catalogue, in its order; with ``paper``, only the claims of that paper.

    Raises ``ValueError`` for an unknown paper and for records of claims that the catalogue does not have.
    """
    claims = catalogue()
    known = list(dict.fromkeys(claim.paper for claim in claims.values()))
    if paper is not None and paper not in known:
        raise ValueError(f"unknown paper {paper!r}, known: {', '.join(known)}")
    parts: dict[str, list[Record]] = {name: [] for name in claims}
    for (name, _, page), record in counting(records).items():
        if name not in parts:
            raise ValueError(f"a record of page {page!r} names the unknown claim {name!r}")
        parts[name].append(record)
    return [Row(claim, tuple(parts[name])) for name, claim in claims.items() if paper in (None, claim.paper)]


def counts(shown: Sequence[Row]) -> dict[str, int]:
    """How many claims have each status, every status named."""
    found = Counter(row.status for row in shown)
    return {status: found[status] for status in STATUSES}


def text_table(records: Iterable[Record], paper: str | None = None) -> str:
    """The scorecard for a terminal: a line per claim, a line per part where there are several, and the counts."""
    shown = rows(records, paper)
    word_width = max(len(word) for _, word in WORDS.values())
    name_width = max(len(row.claim.id) for row in shown)
    lines = []
    for row in shown:
        symbol, word = WORDS[row.status]
        share = f" ({row.share})" if row.share else ""
        lines.append(f"{symbol} {word:<{word_width}}  {row.claim.id:<{name_width}}  {row.claim.where}{share}")
        for part in row.parts:
            title = f"{part['part']}: " if part["part"] else ""
            lines.append(f"    {WORDS[part['outcome']][0]} {title}{part['sentence']} [{part['profile']}]")
    total = ", ".join(f"{number} {WORDS[status][1]}" for status, number in counts(shown).items())
    return "\n".join([*lines, "", f"{len(shown)} claims: {total}"])


def show(paper: str) -> None:
    """Show the table of one paper on the page."""
    show_on_page(Table(paper, rows(load_records(), paper), text_table(load_records(), paper)))


def show_counts() -> None:
    """Show how many of all claims have each status, paper by paper."""
    everything = rows(load_records())
    papers = dict.fromkeys(row.claim.paper for row in everything)
    by_paper = {paper: counts([row for row in everything if row.claim.paper == paper]) for paper in papers}
    show_on_page(Counts(by_paper, counts(everything)))
