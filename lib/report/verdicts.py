"""What becomes of a statement that agrees, differs or is undecided: a check, or a record that says why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

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
