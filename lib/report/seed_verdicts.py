"""A verdict on a statement about trained networks that no single seed can flip."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lib.report.verdicts import DISSENT, FEWEST_SEEDS, TOO_WIDE, UNMET, asked, record_verdict


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
