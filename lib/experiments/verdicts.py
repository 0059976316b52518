"""What becomes of a statement that agrees, differs or is undecided: a check, or a line that says so."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lib.report import claims
from lib.report.page import show_on_page

FEWEST_SEEDS = 3  # on which a statement about trained networks is decided


@dataclass(frozen=True)
class Unresolved:
    """The line on the page for a statement that these runs neither carry nor refute; it is recorded nowhere."""

    claim: str
    part: str
    sentence: str

    def __str__(self) -> str:
        return f"○ not resolved · {self.claim} ({self.part}): {self.sentence}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (
            '<p class="claim-verdict"><span class="claim-word"><span aria-hidden="true">○</span> not resolved</span> '
            f"<code>{html.escape(self.claim)}</code> ({html.escape(self.part)}): {html.escape(self.sentence)}</p>"
        )


class Interval(Protocol):
    """A number with the ends of its interval; its text is what a verdict says of it."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def not_resolved(claim: str, part: str, why: str, note: str = "") -> None:
    """A line for a statement that was not measured well enough for any verdict."""
    show_on_page(Unresolved(claim, part, joined(why, note)))


def record_verdict(
    claim: str,
    found: str,
    *measured: Any,
    part: str,
    told: str,
    explanation: str,
    agrees: str = "reduced",
    note: str = "",
    paper: Any = None,
    **comparison: Any,
) -> None:
    """Record a statement that was found to be one of "agrees", "differs" and "unresolved".

    measured, comparison: what `claims.check` compares. agrees: its outcome if the statement agrees; a difference is
    recorded as "differs", with `explanation`. What is unresolved is no check, and gets the line `told`. note: said in
    every case. Raises ClaimFailed if the comparison contradicts `found`.
    """
    if found == "unresolved":
        not_resolved(claim, part, told, note)
        return
    outcome, why = (agrees, "") if found == "agrees" else ("differs", explanation)
    claims.check(claim, *measured, part=part, outcome=outcome, note=joined(note, why), paper=paper, **comparison)


def judge_cases(
    claim: str,
    cases: Mapping[Any, Interval],
    agreement: Callable[..., str],
    *,
    part: str,
    explanation: str,
    agrees: str = "reduced",
    at_least: float | None = None,
    at_most: float | None = None,
    note: str = "",
    paper: Any = None,
) -> None:
    """Check that numbers lie within bounds by the rule `agreement`(list of cases, bounds), and record the verdict.

    What is compared is the ends of the intervals of the cases that decide. Without cases, as when runs are not recorded
    or cannot be compared, a statement is not resolved.
    """
    bounds = {name: bound for name, bound in (("at_least", at_least), ("at_most", at_most)) if bound is not None}
    told = "; ".join(f"{name}: {case}" for name, case in cases.items())
    found = agreement(list(cases.values()), **bounds) if cases else "unresolved"
    if found == "unresolved":
        not_resolved(claim, part, f"{told or 'nothing to compare'}; asked for: {asked(at_least, at_most)}", note)
        return
    deciding = [case for case in cases.values() if agreement([case], **bounds) == found]
    record_verdict(
        claim,
        found,
        [[case.low, case.high] for case in deciding],
        part=part,
        told=told,
        explanation=explanation,
        agrees=agrees,
        note=joined("ends of 95 % intervals", note, told),
        paper=paper,
        **bounds,
    )


def asked(at_least: float | None = None, at_most: float | None = None) -> str:
    """The bounds in words."""
    bounds: Sequence[tuple[str, float | None]] = (("at least", at_least), ("at most", at_most))
    return " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)


def joined(*texts: str) -> str:
    """The texts that say something."""
    return "; ".join(text for text in texts if text)
