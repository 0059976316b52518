"""Verdicts on a measured number with an interval: agrees, differs, or too uncertain to say."""

from __future__ import annotations

from typing import Any

from lib.experiments.seed_verdicts import Unresolved
from lib.report import claims
from lib.report.page import show_on_page


def judge_interval(
    claim: str,
    value: float,
    interval: tuple[float, float],
    expected: float,
    *,
    part: str,
    widest: float,
    explanation: str,
    note: str = "",
    paper: Any = None,
) -> str:
    """Check a published number against a 95 % interval; returns "agrees", "differs" or "unresolved".

    It differs if the interval does not hold `expected`, which is recorded with `explanation`. It agrees if the interval
    holds it and is no wider than `widest`, recorded as "reduced": another corpus than the paper's. A wider interval
    that holds it says nothing, and gets a line that says so.
    """
    low, high = interval
    inside = low <= expected <= high
    if inside and high - low > widest:
        told = f"{value:.3g} with interval [{low:.3g}, {high:.3g}], wider than {widest:g}, against {expected:g}"
        show_on_page(Unresolved(claim, part, told + (f"; {note}" if note else "")))
        return "unresolved"
    claims.check(
        claim,
        value,
        expected,
        within=interval,
        part=part,
        outcome="reduced" if inside else "differs",
        note="; ".join(text for text in (note, "" if inside else explanation) if text),
        paper=paper,
    )
    return "agrees" if inside else "differs"


def judge_bound(
    claim: str, value: float, *, at_most: float, part: str, explanation: str, note: str = "", paper: Any = None
) -> str:
    """Check a number against an upper bound; recorded as "reduced", or as "differs" with `explanation`."""
    inside = value <= at_most
    claims.check(
        claim,
        value,
        at_most=at_most,
        part=part,
        outcome="reduced" if inside else "differs",
        note="; ".join(text for text in (note, "" if inside else explanation) if text),
        paper=paper,
    )
    return "agrees" if inside else "differs"


def not_resolved(claim: str, part: str, why: str) -> None:
    """A line for a statement that was not measured well enough for any verdict."""
    show_on_page(Unresolved(claim, part, why))
