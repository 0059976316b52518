"""The scorecard as HTML: a row per claim, its other checks folded under it, readable without colour and on a phone.

Recorded values are written as a table wants them: numbers to six digits, arrays by their number and their worst entry.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lib.report.catalogue import PAPERS, Claim
from lib.report.claims import WORDS
from lib.report.comparison import show
from lib.report.page import link
from lib.report.records import Record

COLUMNS = ("Claim", "Verdict", "Paper", "Ours", "Allowed", "Check")
LISTED = 3  # numbers that are written out; longer arrays are counted
LONGEST_TEXT = 90  # characters of a mapping or a note in a table


class ScoredClaim(Protocol):
    """A claim, its status, the records that count for it, which of them decides, and if they are of older code."""

    @property
    def claim(self) -> Claim: ...
    @property
    def parts(self) -> tuple[Record, ...]: ...
    @property
    def status(self) -> str: ...
    @property
    def decisive(self) -> Record: ...
    @property
    def share(self) -> str: ...
    @property
    def older(self) -> str: ...


def verdict(status: str) -> str:
    """Symbol and word of a status, coloured by the style sheet as well."""
    symbol, word = WORDS[status]
    style = status.replace(" ", "-")
    return f'<span class="claim-word claim-{style}"><span aria-hidden="true">{symbol}</span> {word}</span>'


def _older(text: str) -> str:
    return f'<span class="claim-older"><span aria-hidden="true">↺</span> {text}</span>' if text else ""


def _note(text: str) -> str:
    return f'<span class="claim-note">{html.escape(text)}</span>' if text else ""


def _named(claim: Claim) -> str:
    return (
        f'<code>{claim.id}</code> <span class="claim-where">{html.escape(claim.where)}</span>'
        f'<span class="claim-statement">{html.escape(claim.statement)}</span>'
    )


def _page_name(record: Record) -> str:
    return str(record["page"]).rpartition("/")[2].replace("_", " ")


def _check(record: Record) -> str:
    """The name of a check, leading to the place where it was made, its kind, and its erratum."""
    title = html.escape(record["part"] or _page_name(record) or "the claim")
    if record["page"]:
        title = f'<a href="{link(record["page"], record["anchor"] if record.get("on_page", True) else "")}">{title}</a>'
    title += f" [{manner(record)}]" if manner(record) else ""
    if number := record.get("erratum"):
        title += f' (<a href="{link("book/errata", f"erratum-{number}")}">erratum {number}</a>)'
    return title


def manner(record: Record) -> str:
    """How the networks behind a part were trained, and that it is a remark."""
    return ", ".join(filter(None, (record.get("condition"), "remark" if record.get("remark") else "")))


def _run(record: Record) -> str:
    name = _page_name(record) if record["part"] else ""  # without a part it is the title already
    code = str(record.get("provenance", {}).get("code", "unknown"))[:7]
    facts = [name, record["profile"], origin(record), f"{'older ' if record.get('older') else ''}code {code}"]
    return _note(", ".join(fact for fact in facts if fact)) + _note(age(record))


class Table:
    """All claims of one paper: those that were checked as a table, the others as a folded list."""

    def __init__(self, paper: str, rows: Sequence[ScoredClaim], text: str) -> None:
        self.paper, self.rows, self.text = paper, rows, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        checked = [row for row in self.rows if row.parts]
        waiting = [row for row in self.rows if not row.parts]
        return (_table(self.paper, checked) if checked else "") + (_not_yet(self.paper, waiting) if waiting else "")


# The roles repeat what the elements say, because a phone shows the rows as blocks and would forget it.
def _table(paper: str, rows: Sequence[ScoredClaim]) -> str:
    head = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in COLUMNS)
    title = f"Checked claims of {PAPERS.get(paper, paper)}"
    return (
        f'<div class="scorecard-scroll" role="region" aria-label="{title}" tabindex="0">'
        f'<table class="scorecard" role="table"><caption>{title}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f"{''.join(_claim(row) for row in rows)}</table></div>"
    )


def _claim(row: ScoredClaim) -> str:
    record = row.decisive
    # what a failing or undecided check has to say stands in its sentence, with its note
    spoken = record["outcome"] in ("fails", "undecided")
    reason = record.get("reason") or ""
    said = record["sentence"].removeprefix(f"{reason}: ") if spoken else record.get("note", "")
    values = (paper_value(row.claim, record), ours(record), allowed(record))
    cells = [
        verdict(row.status) + _note(reason) + _note(row.share) + _older(row.older),
        *map(html.escape, values),
        f"{_check(record)}{_note(said)}{_run(record)}",
    ]
    named = zip(COLUMNS[1:], cells, strict=True)
    body = "".join(f'<td role="cell" data-column="{name}">{cell}</td>' for name, cell in named)
    head = f'<th scope="row" role="rowheader" id="scorecard-{row.claim.id}">{_named(row.claim)}</th>'
    return f'<tbody role="rowgroup"><tr role="row">{head}{body}</tr>{_others(row)}</tbody>'


def _others(row: ScoredClaim) -> str:
    others = [part for part in row.parts if part is not row.decisive]
    if not others:
        return ""
    lines = "".join(f"<li>{_line(part, row.decisive)}</li>" for part in others)
    summary = f"{len(others)} more check{'s' if len(others) > 1 else ''} <span>of {row.claim.id}</span>"
    return (
        f'<tr role="row" class="claim-others"><td role="cell" colspan="{len(COLUMNS)}">'
        f"<details><summary>{summary}</summary><ul>{lines}</ul></details></td></tr>"
    )


def _line(record: Record, decisive: Record) -> str:
    if record["outcome"] in ("fails", "undecided"):
        told = shortened(record["sentence"])
    else:
        told = f"{ours(record)} (allowed: {allowed(record)})"
        if record.get("note"):
            told += f"; {shortened(record['note'])}"
    line = f"{verdict(record['outcome'])} {_check(record)}: {html.escape(told)}"
    if (record["page"], record["profile"]) != (decisive["page"], decisive["profile"]):
        where = f"{_page_name(record)}, {record['profile']}".removeprefix(", ")
        line += f' <span class="claim-where">[{where}]</span>'
    if record.get("older"):
        same = decisive.get("older") and origin(record) == origin(decisive)
        line += f" {_older('older code' if same else f'older code of {html.escape(origin(record))}')}"
        line += f' <span class="claim-where">{age(record)}</span>' if age(record) else ""
    return line


def _not_yet(paper: str, rows: Sequence[ScoredClaim]) -> str:
    lines = []
    for row in rows:
        value = paper_value(row.claim)
        value = f" Paper: {html.escape(value)}." if value else ""
        must = f'<span class="claim-note">A check has to compare: {html.escape(row.claim.must)}{value}</span>'
        lines.append(f'<li id="scorecard-{row.claim.id}">{_named(row.claim)}{must}</li>')
    count = f"{len(rows)} claim{'s' if len(rows) > 1 else ''} of {PAPERS.get(paper, paper)}"
    return (
        f'<details class="scorecard-waiting"><summary>{verdict("not yet")}: {count}</summary>'
        f"<ul>{''.join(lines)}</ul></details>"
    )


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
        head = "".join(f'<th scope="col">{verdict(status)}</th>' for status in statuses)
        papers = [(PAPERS.get(paper, paper), found) for paper, found in self.by_paper.items()]
        body = "".join(_row(name, [str(found[status]) for status in statuses]) for name, found in papers)
        whole = _row("all", [str(self.total[status]) for status in statuses], "scorecard-all")
        # what has not run has no part, and no record that could be old
        aged, parts = (
            ["–" if status == "not yet" else str(found[status]) for status in statuses]
            for found in (self.older, self.parts)
        )
        name = f"of which {_older(rest_on_older(self.older))}"
        return (
            '<div class="scorecard-scroll" role="region" aria-label="Claims by status" tabindex="0">'
            '<table class="scorecard-counts"><caption>Claims by status</caption>'
            f'<thead><tr><th scope="col">Paper</th>{head}</tr></thead>'
            f"<tbody>{body}{whole}{_row(name, aged, 'scorecard-older')}"
            f"{_row('parts of all claims', parts, 'scorecard-parts')}</tbody></table></div>"
        )


def _row(name: str, cells: Sequence[str], style: str = "") -> str:
    style = f' class="{style}"' if style else ""
    return f'<tr{style}><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def recorded(value: Any) -> str:
    """A recorded value in short.

    A number to six digits, up to three numbers one by one, a longer array as "10 values in [low, high]" whether it was
    recorded in full or as a summary, a mapping by its entries, or by its keys if that is long.
    """
    if value is None:
        return ""
    if isinstance(value, dict) and "shape" in value:
        return _counted(math.prod(value["shape"]), value.get("smallest"), value.get("largest"))
    if isinstance(value, dict):
        text = "; ".join(f"{key} {recorded(entry)}" for key, entry in value.items())
        return text if len(text) <= LONGEST_TEXT else f"{len(value)} entries: {', '.join(value)}"
    if not isinstance(value, list):
        return show(value)
    numbers = list(_flat(value))
    if len(numbers) <= LISTED:
        return ", ".join(recorded(number) for number in numbers)
    ordered = all(isinstance(number, int | float) for number in numbers)
    return _counted(len(numbers), *((min(numbers), max(numbers)) if ordered else ()))


def _counted(number: int, smallest: Any = None, largest: Any = None) -> str:
    if smallest is None or largest is None:
        return f"{number} values"
    if smallest == largest:
        return f"{number} values, all {float(smallest):.4g}"
    return f"{number} values in [{float(smallest):.4g}, {float(largest):.4g}]"


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _flat(entry)
    else:
        yield value


def _size(value: Any) -> int:
    return math.prod(value["shape"]) if isinstance(value, dict) and "shape" in value else len(list(_flat(value)))


def ours(record: Record) -> str:
    """What was measured; of an array that was held against another one, how many values and the largest deviation.

    Nothing for what is undecided: its sentence says what was found.
    """
    count = _size(record.get("measured"))
    if record.get("tolerance") is None or record.get("deviation") is None or count <= LISTED:
        return recorded(record.get("measured"))
    return f"{count} values, largest deviation {float(record['deviation']):.2g}"


def allowed(record: Record) -> str:
    """What ``measured`` was held against: expected value and tolerance, the interval around it, or the bounds."""
    expected = record.get("expected")
    if record.get("tolerance") is not None:
        scale = " relative" if record.get("relative") else ""
        centre = recorded(expected) if _size(expected) <= LISTED else ""
        return f"{centre} ± {float(record['tolerance']):.3g}{scale}".strip()
    if record.get("within") is not None:
        return _interval(record["within"], expected, record.get("confidence"))
    bounds = [("≥", record.get("at_least")), ("≤", record.get("at_most"))]
    return ", ".join(f"{sign} {recorded(bound)}" for sign, bound in bounds if bound is not None)


def _interval(within: Any, expected: Any, confidence: Any) -> str:
    sure = "" if confidence is None else f" ({100 * confidence:.6g} %)"
    if _size(within) == 2:
        return f"{recorded(expected)} in [{recorded(within)}]{sure}"
    return f"expected in each of {_size(within) // 2} intervals{sure}"


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
