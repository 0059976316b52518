"""The scorecard: what became of every claim, from records of checks alone."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lib import ROOT
from lib.report import records as record_files
from lib.report.catalogue import Claim, catalogue
from lib.report.findings import Finding, Listed, finding
from lib.report.page import show_on_page
from lib.report.records import OUTCOMES, PROFILES, Record
from lib.report.scorecard.page import Counts, Filters, Table, age, counted, manner, origin, rest_on_older
from lib.report.shown import WORDS
from lib.runs import provenance

COMMITTED = ROOT / "results" / "claims"
STATUSES = tuple(WORDS)  # in the order in which they are counted
VERBS = {  # of one part and of several
    "holds": ("holds", "hold"),  # all but remarks
    "reduced": ("holds at reduced scale", "hold at reduced scale"),
    "misprint": ("has a misprint", "have a misprint"),
    "false": ("is false as stated", "are false as stated"),
    "differs": ("differs", "differ"),
    "undecided": ("is undecided", "are undecided"),
    "fails": ("fails", "fail"),
}


@dataclass(frozen=True)
class Row:
    """One claim and the records that count for it, one per part."""

    claim: Claim
    parts: tuple[Record, ...]

    @property
    def status(self) -> str:
        """The worst outcome over the parts, in the order of ``records.OUTCOMES``; over remarks only if all are."""
        if not self.parts:
            return "not yet"
        return max((str(part["outcome"]) for part in self._counting), key=OUTCOMES.index)

    @property
    def _counting(self) -> list[Record]:
        """The parts of the claim itself, and the remarks whose check fails: the book contradicts itself there."""
        said = [part for part in self.parts if not part.get("remark") or part["outcome"] == "fails"]
        return said or list(self.parts)

    @property
    def _worst(self) -> list[Record]:
        return [part for part in self._counting if part["outcome"] == self.status]

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
        """How many parts, remarks among them, have the claim's status, as in "3 of 8 parts differ"; nothing if all."""
        count, total = sum(part["outcome"] == self.status for part in self.parts), len(self.parts)
        return "" if count == total else f"{count} of {total} parts {VERBS[self.status][count > 1]}"

    @property
    def older(self) -> str:
        """Which records are of older code: "older code" if all, else as in "3 of 8 parts of older code", or nothing."""
        count, total = sum(bool(part.get("older")) for part in self.parts), len(self.parts)
        return "" if not count else "older code" if count == total else f"{count} of {total} parts of older code"


@lru_cache(maxsize=16)
def current_codes(pages: frozenset[str]) -> dict[str, str]:
    """The code that a check on each page would be recorded with now, looked up once per process."""
    return provenance.code_versions(pages)


def load_records(folders: Iterable[Path] | None = None) -> list[Record]:
    """The committed records of ``results/claims`` and those in ``folders``.

    Default for ``folders``: the build under way, from the environment variable ``BOOK_RECORDS_DIR`` (folders separated
    as in ``PATH``). A missing folder holds no records. ``on_page`` says if the pages of ``folders`` hold the check;
    a check recorded earlier is not on a page that was made without the corpus it needs, and one that failed is on none.
    ``older`` says that another code than the present one of its page made the record. Records of a page that is no
    longer there do not count.
    """
    if folders is None:
        folders = [Path(name) for name in os.environ.get("BOOK_RECORDS_DIR", "").split(os.pathsep) if name]
    live = record_files.load(folders)
    places = {(record["page"], record["anchor"]) for record in live if record["outcome"] != "fails"}
    every = [one for one in (*record_files.load([COMMITTED]), *live) if (ROOT / f"{one['page']}.md").exists()]
    now = current_codes(frozenset(record["page"] for record in every))
    return [
        record
        | {
            "on_page": (record["page"], record["anchor"]) in places and record["outcome"] != "fails",
            "older": record["provenance"]["code"] != now[record["page"]],
        }
        for record in every
    ]


def counting(records: Iterable[Record]) -> dict[tuple[str, str, str], Record]:
    """For each (claim, part, page) the record that counts.

    Of one profile that is the latest of the present code, without any the latest; of several profiles the highest,
    unless a check fails: no record of another profile hides that. If what counts is of older code, ``beside`` is the
    record of the present code at the highest of the lower profiles that have one.
    """
    found: dict[tuple[str, str, str], dict[str, Record]] = defaultdict(dict)
    for record in records:
        by_profile = found[record["claim"], record["part"], record["page"]]
        last = by_profile.get(record["profile"])
        if last is None or _freshness(record) >= _freshness(last):
            by_profile[record["profile"]] = record
    return {key: _deciding(by_profile) for key, by_profile in found.items()}


def _freshness(record: Record) -> tuple[bool, str]:
    return not record.get("older"), str(record.get("provenance", {}).get("date", ""))


def _deciding(by_profile: dict[str, Record]) -> Record:
    falling = sorted(by_profile.values(), key=lambda record: -PROFILES.index(record["profile"]))
    failing = [record for record in falling if record["outcome"] == "fails"]
    if failing:
        return failing[0]
    best, *lower = falling
    beside = next((record for record in lower if not record.get("older")), None)
    return best | {"beside": beside} if best.get("older") and beside else best


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


def part_counts(shown: Sequence[Row]) -> dict[str, int]:
    """How many parts of these claims, remarks among them, have each status."""
    found = Counter(str(part["outcome"]) for row in shown for part in row.parts)
    return {status: found[status] for status in STATUSES}


def text_table(records: Iterable[Record], paper: str | None = None) -> str:
    """The scorecard for a terminal: a line per claim, a line per part, and the counts."""
    return _text(rows(records, paper))


def _text(shown: Sequence[Row]) -> str:
    word_width = max(len(word) for _, word in WORDS.values())
    name_width = max(len(row.claim.id) for row in shown)
    lines = []
    for row in shown:
        symbol, word = WORDS[row.status]
        told = "; ".join(text for text in (row.share, row.older) if text)
        told = f" ({told})" if told else ""
        lines.append(f"{symbol} {word:<{word_width}}  {row.claim.id:<{name_width}}  {row.claim.where}{told}")
        for part in row.parts:
            named = " ".join(filter(None, (part["part"], f"[{manner(part)}]" if manner(part) else "")))
            title = f"{named}: " if named else ""
            facts = [part["profile"]]
            if part.get("older"):
                facts += [f"older code of {origin(part)}", *filter(None, [age(part)])]
            symbol, word = WORDS[part["outcome"]]
            lines.append(f"    {symbol} {title}{part['sentence']} [{', '.join(facts)}]")
    return "\n".join([*lines, "", tally(shown)])


def tally(shown: Sequence[Row]) -> str:
    """Counts by status: a line of parts, and one of claims, which says how many rest on records of older code."""
    whole, parts = counts(shown), part_counts(shown)
    del parts["not yet"]  # which is said of what has no part
    of_parts, of_claims = (
        " · ".join(f"{found[status]} {WORDS[status][1]}" for status in counted(found)) for found in (parts, whole)
    )
    told = f"{len(shown)} claims: {of_claims}; of which {rest_on_older(counts(_of_older_code(shown)))}"
    return f"{sum(parts.values())} parts: {of_parts}\n{told}"


def _of_older_code(shown: Sequence[Row]) -> list[Row]:
    return [row for row in shown if row.older]


def show(paper: str) -> None:
    """Show the table of one paper on the page."""
    shown = rows(load_records(), paper)
    show_on_page(Table(paper, shown, _text(shown)))


def show_filters() -> None:
    """Show choices of a paper, a verdict and a chapter, for the tables of the page."""
    show_on_page(Filters(rows(load_records())))


def show_counts() -> None:
    """Show how many claims have each status, paper by paper, how many rest on older code, and the same of parts."""
    everything = rows(load_records())
    papers = dict.fromkeys(row.claim.paper for row in everything)
    by_paper = {paper: counts([row for row in everything if row.claim.paper == paper]) for paper in papers}
    older = counts(_of_older_code(everything))
    show_on_page(Counts(by_paper, counts(everything), older, part_counts(everything), tally(everything)))


def findings(claims: Sequence[str], among: Iterable[Row] | None = None) -> list[Finding]:
    """What was found of these claims, in their order. Raises ``ValueError`` for an unknown claim."""
    known = {row.claim.id: row for row in (rows(load_records()) if among is None else among)}
    unknown = [claim for claim in claims if claim not in known]
    if unknown:
        raise ValueError(f"unknown claims {', '.join(unknown)}; all claims are in book/claims/*.yml")
    return [finding(known[claim]) for claim in claims]


def show_findings(*claims: str) -> None:
    """Show what was found of these claims, a line each."""
    show_on_page(Listed(findings(claims)))
