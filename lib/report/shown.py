"""What a page shows of its checks: a line for one, a table for all that one cell has checked."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.report.catalogue import Claim
from lib.report.comparison import LISTED, allowed, recorded, size
from lib.report.page import link
from lib.report.records import plain

WORDS = {
    "holds": ("✓", "holds"),
    "reduced": ("◐", "holds at reduced scale"),
    "misprint": ("✎", "misprint"),
    "false": ("⊘", "false as stated"),
    "differs": ("✗", "differs"),
    "undecided": ("◇", "ran, undecided"),
    "fails": ("✗", "check fails"),
    "not yet": ("○", "not yet"),
}  # status -> symbol and word: never colour alone
COLUMNS = ("Part", "Verdict", "Found", "Asked for")
LONGEST_NOTE = 120  # characters that stand in a row of the table; longer ones are folded


@dataclass(frozen=True)
class Verdict:
    """The line under a check: HTML on a page, text in a terminal. ``facts``: what was compared, as it is recorded."""

    claim: Claim
    part: str
    outcome: str
    sentence: str
    condition: str = ""
    remark: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def anchor(self) -> str:
        return anchor(self.claim.id, self.part)

    @property
    def _beside(self) -> str:
        """The part, the condition of its trainings, and that it is a remark, as far as there is something to say."""
        return ", ".join(text for text in (self.part, self.manner) if text)

    @property
    def manner(self) -> str:
        """The condition of its trainings, which some parts are named by, and that it is a remark."""
        condition = "" if self.condition in self.part else self.condition
        return ", ".join(text for text in (condition, "a remark" if self.remark else "") if text)

    @property
    def word(self) -> str:
        """Its outcome, as HTML."""
        symbol, word = WORDS[self.outcome]
        return f'<span class="claim-word"><span aria-hidden="true">{symbol}</span> {word}</span>'

    @property
    def name(self) -> str:
        """The claim, leading to its place on the scorecard, as HTML."""
        address = link("book/scorecard", f"scorecard-{self.claim.id}")
        return f'<a href="{address}"><code>{self.claim.id}</code></a>'

    def __str__(self) -> str:
        symbol, word = WORDS[self.outcome]
        name = f"{self.claim.id} ({self._beside})" if self._beside else self.claim.id
        return f"{symbol} {word} · {name}: {self.sentence}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        part = f" ({html.escape(self._beside)})" if self._beside else ""
        return (
            f'<p class="claim-verdict claim-{self.outcome}" id="{self.anchor}">{self.word} '
            f"{self.name}{part}: {_with_errata(html.escape(self.sentence))}</p>"
        )


class Verdicts:
    """What one cell has checked: a single verdict as it is, several as a table with a row for each.

    A row shows what the line of its verdict says: long notes, and what an undecided part found, are folded.
    """

    def __init__(self, shown: Sequence[Verdict]) -> None:
        self.shown = tuple(shown)

    def __repr__(self) -> str:
        return "\n".join(map(str, self.shown))

    def _repr_html_(self) -> str:
        if len(self.shown) == 1:
            return self.shown[0]._repr_html_()
        several = len({verdict.claim.id for verdict in self.shown}) > 1
        count, first = f"{len(self.shown)} checks", self.shown[0]
        name, link_to = (count, count) if several else (f"{count} of {first.claim.id}", f"{count} of {first.name}")
        # Roles repeat what the elements say, because a phone shows rows as blocks and would forget it; and a table
        # that has one may have no link in its caption.
        heads = "".join(f'<th scope="col" role="columnheader">{column}</th>' for column in COLUMNS)
        rows = "".join(_row(verdict, several) for verdict in self.shown)
        return (
            f'<p class="claim-count">{link_to}</p><table class="claim-verdicts" role="table" aria-label="{name}">'
            f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead><tbody role="rowgroup">{rows}</tbody></table>'
        )


def _row(verdict: Verdict, named: bool) -> str:
    facts = plain(dict(verdict.facts))
    number = facts.get("erratum")
    told = [html.escape(verdict.part), f'<span class="claim-where">{verdict.manner}</span>' if verdict.manner else ""]
    erratum = "" if number is None else f' <span class="claim-note">{_with_errata(f"erratum {number}")}</span>'
    cells = {
        "Verdict": f"{verdict.word}{erratum}",
        "Found": _found(verdict, facts),
        "Asked for": _asked(facts),
    }
    part = " ".join(text for text in (verdict.name if named or not verdict.part else "", *told) if text)
    shown = "".join(f'<td role="cell" data-column="{name}">{text}</td>' for name, text in cells.items())
    row = f'<tr role="row" class="claim-{verdict.outcome}" id="{verdict.anchor}">'
    return f'{row}<th scope="row" role="rowheader">{part}</th>{shown}</tr>'


def _found(verdict: Verdict, facts: Mapping[str, Any]) -> str:
    """What was measured and how far off it is, with its note; of what decided nothing, why and what it found."""
    if verdict.outcome == "undecided":
        reason = str(facts.get("reason", ""))
        return _noted(html.escape(reason), verdict.sentence.removeprefix(f"{reason}: "), "what was found")
    measured, off = facts.get("measured"), facts.get("deviation")
    text = recorded(measured)
    if off and facts.get("tolerance") is not None:
        most = "at most " if size(measured) > 1 else ""
        text += f", off by {most}{float(off):.2g}"
    return _noted(html.escape(text), facts.get("note") or "", "note")


def _noted(text: str, note: str, name: str) -> str:
    """A note below a text, folded where it is long."""
    shown = _with_errata(html.escape(note))
    if len(note) <= LONGEST_NOTE:
        return text + (f'<span class="claim-note">{shown}</span>' if note else "")
    return f'{text}<details><summary>{name}</summary><span class="claim-note">{shown}</span></details>'


def _asked(facts: Mapping[str, Any]) -> str:
    """What the measured value was held against, the paper's own number, and what the printed form gives."""
    expected = recorded(facts.get("expected")) if size(facts.get("expected")) > LISTED else ""
    told = [html.escape(" ".join(text for text in (expected, allowed(facts)) if text))]
    for name, key in (("paper", "paper"), ("printed form", "printed")):
        if facts.get(key) is not None:
            told.append(f'<span class="claim-note">{name}: {html.escape(recorded(facts[key]))}</span>')
    return "".join(told)


def _with_errata(text: str) -> str:
    """Each erratum that is named with its number leads to it."""
    return re.sub(
        r"\b[Ee]rratum (\d+)", lambda one: f'<a href="{link("book/errata", f"erratum-{one[1]}")}">{one[0]}</a>', text
    )


def anchor(claim: str, part: str = "") -> str:
    """The HTML id of a verdict: ``claim-<id>``, and ``-<part>`` in lower case with hyphens."""
    slug = re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")
    return f"claim-{claim}-{slug}" if slug else f"claim-{claim}"
