"""Verdicts: what becomes of a statement that agrees, differs or is undecided.

Of trained networks, by a rule that no single seed can flip; of a measured number, by its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lib.report import claims
from lib.report.records import REASONS

UNCONVERGED, DISSENT, TOO_WIDE, UNMET = REASONS  # why what ran decides nothing
FEWEST_SEEDS = 3  # on which a statement about trained networks is decided


class Interval(Protocol):
    """A number with the ends of its interval; its text is what a verdict says of it."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def not_resolved(claim: str, part: str, why: str, note: str = "", *, reason: str, paper: Any = None) -> None:
    """Record a statement that was not measured well enough for a verdict as undecided; reason: one of those above."""
    claims.undecided(claim, part=part, reason=reason, sentence=why, note=note, paper=paper)


def record_verdict(
    claim: str,
    found: str,
    *measured: Any,
    part: str,
    told: str,
    explanation: str,
    agrees: str = "reduced",
    reason: str = "",
    note: str = "",
    paper: Any = None,
    **comparison: Any,
) -> None:
    """Record a statement that was found to be one of "agrees", "differs" and "unresolved".

    measured, comparison: what `claims.check` compares. agrees: its outcome if the statement agrees; a difference is
    recorded as "differs", with `explanation`. What is unresolved is recorded as "undecided", with `told` and its
    `reason`. note: said in every case. Raises ClaimFailed if the comparison contradicts `found`, and ValueError for
    what is unresolved without a reason.
    """
    if found == "unresolved":
        not_resolved(claim, part, told, note, reason=reason, paper=paper)
        return
    outcome, why = (agrees, "") if found == "agrees" else ("differs", explanation)
    claims.check(claim, *measured, part=part, outcome=outcome, note=joined(note, why), paper=paper, **comparison)


def judge_cases(
    claim: str,
    cases: Mapping[Any, Interval],
    agreement: Callable[..., str],
    why_unresolved: Callable[..., str],
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

    What is compared is the ends of the intervals of the cases that decide. What is not resolved is recorded as
    undecided, by the reason `why_unresolved`(list of cases, bounds) where there are cases. Without any, as when runs
    are not recorded or cannot be compared, a precondition is not met.
    """
    given: dict[str, Any] = {"at_least": at_least, "at_most": at_most}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    told = "; ".join(f"{name}: {case}" for name, case in cases.items())
    found = agreement(list(cases.values()), **bounds) if cases else "unresolved"
    if found == "unresolved":
        reason = why_unresolved(list(cases.values()), **bounds) if cases else UNMET
        why = f"{told or 'nothing to compare'}; asked for: {asked(at_least, at_most)}"
        not_resolved(claim, part, why, note, reason=reason, paper=paper)
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


def agreement(
    values: npt.ArrayLike, at_least: float | None = None, at_most: float | None = None, gap: float = 0.0
) -> str:
    """One of "agrees", "differs" and "unresolved".

    values: (cases, seeds + 1), the last column that of the best seed, NaN where a run is missing; a statement about one
    case has one row. It agrees if every value lies within the bounds, differs if in some case every value lies outside
    by more than `gap`. Otherwise, and if a case has fewer than three seeds, it is unresolved.
    Raises ValueError without bounds or cases.
    """
    excess, known = _excess(values, at_least, at_most)
    enough = known.sum(axis=1) >= FEWEST_SEEDS + 1
    if np.all(enough) and np.all(excess[known] <= 0):
        return "agrees"
    if np.any(enough & np.all((excess > gap) | ~known, axis=1)):
        return "differs"
    return "unresolved"


def why_unresolved(
    values: npt.ArrayLike, at_least: float | None = None, at_most: float | None = None, gap: float = 0.0
) -> str:
    """The reason that `agreement` decides nothing about these values.

    A precondition is not met where a case has fewer than three seeds. Seeds disagree where those of a case lie on
    different sides. Else all seeds of a case lie in the gap between agreement and difference: too wide for them.
    """
    excess, known = _excess(values, at_least, at_most)
    if np.any(known.sum(axis=1) < FEWEST_SEEDS + 1):
        return UNMET
    sides = (excess > 0).astype(int) + (excess > gap)
    alike = all(np.ptp(side[there]) == 0 for side, there in zip(sides, known, strict=True))
    return TOO_WIDE if alike else DISSENT


def _excess(
    values: npt.ArrayLike, at_least: float | None, at_most: float | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """How far outside the bounds values lie, and which there are; both (cases, seeds + 1)."""
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if at_least is None and at_most is None:
        raise ValueError("at_least or at_most is needed")
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"values: (cases, seeds + 1) are needed, got shape {np.shape(values)}")
    excess = np.full(table.shape, -np.inf)
    if at_least is not None:
        excess = np.maximum(excess, at_least - table)
    if at_most is not None:
        excess = np.maximum(excess, table - at_most)
    return excess, ~np.isnan(table)


def judge(
    claim: str,
    values: npt.ArrayLike,
    *,
    part: str,
    profile: str,
    at_least: float | None = None,
    at_most: float | None = None,
    gap: float = 0.0,
    note: str = "",
    explanation: str,
    paper: Any = None,
) -> None:
    """Check a claim by the rule of `agreement`.

    Agreement is recorded as "holds" at profile paper, else as "reduced"; a difference as "differs", with `explanation`;
    what is not resolved as undecided, for the reason of `why_unresolved`. note: said in every case.
    """
    found = agreement(values, at_least, at_most, gap)
    table = np.asarray(values, dtype=np.float64)
    known = table[~np.isnan(table)]
    deciding = _failing(table, at_least, at_most, gap) if found == "differs" else table
    record_verdict(
        claim,
        found,
        deciding[~np.isnan(deciding)],
        at_least=at_least,
        at_most=at_most,
        part=part,
        told=_told(known, at_least, at_most),
        explanation=explanation,
        agrees="holds" if profile == "paper" else "reduced",
        reason=why_unresolved(values, at_least, at_most, gap) if found == "unresolved" else "",
        note=note,
        paper=paper,
    )


def _failing(table: Any, at_least: float | None, at_most: float | None, gap: float) -> npt.NDArray[np.float64]:
    """The cases that fail in every seed."""
    rows = np.atleast_2d(table)
    return np.array([row for row in rows if agreement(row, at_least, at_most, gap) == "differs"])


def _told(known: npt.NDArray[np.float64], at_least: float | None, at_most: float | None) -> str:
    ends = f"{known.size} values in [{known.min():.4g}, {known.max():.4g}]" if known.size else "no values"
    return f"{ends}, asked for: {asked(at_least, at_most)} in every seed, or outside in every seed of a case"


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
