"""Verdicts on a measured number with an interval: agrees, differs, or too uncertain to say."""

from __future__ import annotations

from typing import Any

from lib.report.verdicts import TOO_WIDE, record_verdict


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
    that holds it says nothing, and is recorded as undecided.
    """
    low, high = interval
    inside = low <= expected <= high
    found = "differs" if not inside else "unresolved" if high - low > widest else "agrees"
    record_verdict(
        claim,
        found,
        value,
        expected,
        within=interval,
        part=part,
        told=f"{value:.3g} with interval [{low:.3g}, {high:.3g}], wider than {widest:g}, against {expected:g}",
        explanation=explanation,
        reason=TOO_WIDE,
        note=note,
        paper=paper,
    )
    return found


def judge_bound(
    claim: str, value: float, *, at_most: float, part: str, explanation: str, note: str = "", paper: Any = None
) -> str:
    """Check a number against an upper bound; recorded as "reduced", or as "differs" with `explanation`."""
    found = "agrees" if value <= at_most else "differs"
    record_verdict(
        claim, found, value, at_most=at_most, part=part, told="", explanation=explanation, note=note, paper=paper
    )
    return found
