"""The scorecard as HTML: one table a paper, readable without colour, scrollable with the keyboard on a small screen."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lib.report.catalogue import PAPERS, Claim
from lib.report.claims import WORDS
from lib.report.comparison import show
from lib.report.page import link
from lib.report.records import Record

COLUMNS = ("Claim", "Verdict", "What was compared", "Paper", "Ours", "Allowed", "Run")


class ScoredClaim(Protocol):
    """A claim, its status, and the records that count for it."""

    @property
    def claim(self) -> Claim: ...
    @property
    def parts(self) -> tuple[Record, ...]: ...
    @property
    def status(self) -> str: ...


def verdict(status: str) -> str:
    """Symbol and word of a status, coloured by the style sheet as well."""
    symbol, word = WORDS[status]
    style = status.replace(" ", "-")
    return f'<span class="claim-word claim-{style}"><span aria-hidden="true">{symbol}</span> {word}</span>'


def recorded(value: Any) -> str:
    """A recorded value as text: numbers to six digits, a summarised array by shape and range, a mapping by entries."""
    if value is None:
        return ""
    if isinstance(value, dict) and "shape" in value:
        if "smallest" not in value:
            return f"array of shape {value['shape']}"
        return f"array of shape {value['shape']} in [{recorded(value['smallest'])}, {recorded(value['largest'])}]"
    if isinstance(value, dict):
        return "; ".join(f"{key} {recorded(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(f"[{recorded(entry)}]" if isinstance(entry, list) else recorded(entry) for entry in value)
    return show(value)


def allowed(record: Record) -> str:
    """What ``measured`` was held against: expected value and tolerance, the interval around it, or the bounds."""
    if record.get("tolerance") is not None:
        scale = " relative" if record.get("relative") else ""
        return f"{recorded(record['expected'])} ± {recorded(record['tolerance'])}{scale}"
    if record.get("within") is not None:
        return f"{recorded(record['expected'])} in [{recorded(record['within'])}]"
    bounds = [("≥", record.get("at_least")), ("≤", record.get("at_most"))]
    return ", ".join(f"{sign} {recorded(bound)}" for sign, bound in bounds if bound is not None)


def _paper_value(claim: Claim, record: Record | None) -> str:
    if record is not None:
        for key in ("paper", "printed"):
            if record.get(key) is not None:
                return recorded(record[key])
        if record["outcome"] == "differs" and record.get("expected") is not None:
            return recorded(record["expected"])
    return recorded(claim.paper_value)


def _run(record: Record) -> str:
    source = record.get("provenance", {})
    facts = [record["profile"], str(source.get("date", ""))[:10], f"code {source.get('code', 'unknown')}"]
    text = html.escape(", ".join(fact for fact in facts if fact))
    if not record["page"]:
        return text
    name = record["page"].rpartition("/")[2].replace("_", " ")
    address = link(record["page"], record["anchor"])
    return f'<a href="{address}">{html.escape(name)}</a><br>{text}'


class Table:
    """All claims of one paper."""

    def __init__(self, paper: str, rows: Sequence[ScoredClaim], text: str) -> None:
        self.paper, self.rows, self.text = paper, rows, text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
        bodies = "".join(self._claim(row) for row in self.rows)
        title = f"Claims of {PAPERS.get(self.paper, self.paper)}"
        return (
            f'<div class="scorecard-scroll" role="region" aria-label="{title}" tabindex="0">'
            f'<table class="scorecard"><caption>{title}</caption><thead><tr>{head}</tr></thead>{bodies}</table></div>'
        )

    def _claim(self, row: ScoredClaim) -> str:
        span = f' rowspan="{len(row.parts)}"' if len(row.parts) > 1 else ""
        scope = "rowgroup" if len(row.parts) > 1 else "row"
        claim = (
            f'<th scope="{scope}"{span} id="scorecard-{row.claim.id}"><code>{row.claim.id}</code> '
            f'<span class="claim-where">{html.escape(row.claim.where)}</span>'
            f'<span class="claim-statement">{html.escape(row.claim.statement)}</span></th>'
            f"<td{span}>{verdict(row.status)}</td>"
        )
        if not row.parts:
            must = f"A check has to compare: {html.escape(row.claim.must)}"
            value = html.escape(_paper_value(row.claim, None))
            cells = [f'{claim}<td class="claim-must">{must}</td><td>{value}</td><td></td><td></td><td></td>']
        else:
            cells = [self._part(row, part) for part in row.parts]
            cells[0] = claim + cells[0]
        return "<tbody>" + "".join(f"<tr>{cell}</tr>" for cell in cells) + "</tbody>"

    def _part(self, row: ScoredClaim, record: Record) -> str:
        title = html.escape(record["part"]) or "the claim"
        if len(row.parts) > 1:
            title = f"{verdict(record['outcome'])} {title}"
        number = record.get("erratum")
        if number:
            title += f' (<a href="{link("book/errata", f"erratum-{number}")}">erratum {number}</a>)'
        if record.get("note"):
            title += f'<span class="claim-note">{html.escape(record["note"])}</span>'
        values = (_paper_value(row.claim, record), recorded(record.get("measured")), allowed(record))
        cells = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        return f"<td>{title}</td>{cells}<td>{_run(record)}</td>"


class Counts:
    """How many claims have each status, a row per paper and one for all."""

    def __init__(self, by_paper: Mapping[str, Mapping[str, int]], total: Mapping[str, int]) -> None:
        self.by_paper, self.total = by_paper, total

    def __str__(self) -> str:
        return ", ".join(f"{number} {WORDS[status][1]}" for status, number in self.total.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{verdict(status)}</th>' for status in self.total)
        named = [*((PAPERS.get(paper, paper), found) for paper, found in self.by_paper.items()), ("all", self.total)]
        body = "".join(
            f'<tr><th scope="row">{name}</th>{"".join(f"<td>{number}</td>" for number in found.values())}</tr>'
            for name, found in named
        )
        return (
            '<div class="scorecard-scroll" role="region" aria-label="Claims by status" tabindex="0">'
            '<table class="scorecard-counts"><caption>Claims by status</caption>'
            f'<thead><tr><th scope="col">Paper</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )
