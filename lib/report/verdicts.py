"""Verdicts: one rule that turns numbers into "agrees", "differs" or "undecided", and what is recorded of it.

No single seed can flip a verdict on trained networks, and no interval that reaches across a bound decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.information.intervals import Interval
from lib.report import claims
from lib.report.gate import Plateau
from lib.report.records import REASONS

UNCONVERGED, DISSENT, TOO_WIDE, DISCORD, UNMET = REASONS  # why what ran decides nothing
FEWEST_SEEDS = 3  # on which a statement about trained networks is decided
INSIDE, OUTSIDE = 0, 2  # where a number lies; 1 in the gap, negative below the bounds


@dataclass(frozen=True)
class Decision:
    """found: "agrees", "differs" or "undecided"; reason: of the last; deciding: the rows that carry the others."""

    found: str
    reason: str = ""
    deciding: tuple[int, ...] = ()


def decide(
    rows: Sequence[npt.ArrayLike],
    at_least: float | None = None,
    at_most: float | None = None,
    gap: float = 0.0,
    *,
    fewest: int = FEWEST_SEEDS + 1,
    intervals: bool = False,
    exceptions: int = 0,
) -> Decision:
    """Do the numbers of every row lie within the bounds?

    rows: one for each case that a statement speaks of, by default its seeds and the best of them; NaN where a run is
    missing. A row is complete with at least `fewest` numbers. The statement agrees if all rows are complete and all
    numbers inside, and differs if all numbers of some complete row are outside by more than `gap`.

    intervals: rows begin with the ends of an interval, and all between these counts too. So only a row that is outside
    on one side differs.

    exceptions: of a statement that is "almost always" true, so many complete rows need not be inside; and it differs
    only if more than these are outside.

    Undecided is, in this order: what has a row that is not complete, a precondition; of intervals, what has one that is
    neither inside nor outside, as too wide; what has a row whose numbers are on different sides, as seeds that
    disagree. Else all numbers of a row lie in the gap: too wide for them. Raises ValueError without rows or bounds, and
    for exceptions that leave no row to judge.
    """
    if at_least is None and at_most is None:
        raise ValueError("at_least or at_most is needed")
    low, high = (-np.inf if at_least is None else at_least), (np.inf if at_most is None else at_most)
    if not (low <= high and 0.0 <= gap < np.inf):
        raise ValueError(f"at_least <= at_most and gap >= 0 are needed, got {at_least}, {at_most} and {gap}")
    if not len(rows) or fewest < 1:
        raise ValueError(f"at least one row, and one number in it, is needed, got {len(rows)} and {fewest}")
    if not 0 <= exceptions < len(rows):
        raise ValueError(f"exceptions: 0 to {len(rows) - 1}, one less than the rows, is allowed, got {exceptions}")
    known = [_known(np.asarray(row, dtype=np.float64)) for row in rows]
    sides = [_sides(row, low, high, gap) if intervals else np.abs(_sides(row, low, high, gap)) for row in known]
    complete = [len(row) >= fewest for row in known]
    inside = [place for place, row in enumerate(sides) if np.all(row == INSIDE)]
    if all(complete) and len(inside) >= len(rows) - exceptions:
        return Decision("agrees", deciding=tuple(inside))
    outside = [place for place, row in enumerate(sides) if complete[place] and _settled(row) and abs(row[0]) == OUTSIDE]
    if len(outside) > exceptions:
        return Decision("differs", deciding=tuple(outside))
    if not all(complete):
        return Decision("undecided", UNMET)
    if intervals and not all(_settled(row[:2]) for row in sides):
        return Decision("undecided", TOO_WIDE)
    return Decision("undecided", TOO_WIDE if all(np.ptp(row) == 0 for row in sides) else DISSENT)


def _sides(row: npt.NDArray[np.float64], low: float, high: float, gap: float) -> npt.NDArray[np.int64]:
    above = (row > high).astype(np.int64) + (row > high + gap)
    return above - (row < low) - (row < low - gap)


def _settled(sides: npt.NDArray[np.int64]) -> bool:
    """All are inside, or all outside on one side."""
    return bool(np.all(sides == sides[0])) and abs(int(sides[0])) in (INSIDE, OUTSIDE)


def judge(
    claim: str,
    cases: npt.ArrayLike | Interval | Mapping[Any, Interval],
    *,
    part: str,
    explanation: str,
    at_least: float | None = None,
    at_most: float | None = None,
    gap: float = 0.0,
    fewest: int = FEWEST_SEEDS,
    every_seed: bool = False,
    exceptions: int = 0,
    reason: str = "",
    profile: str = "",
    note: str = "",
    paper: Any = None,
    condition: str = "",
    plateau: Plateau | None = None,
    remark: bool = False,
) -> str:
    """Check that numbers lie within bounds by the rule of `decide`, record what is found, and return it.

    cases: numbers (cases, seeds + 1), the last column that of the best seed, or one number; or an interval; or several
    by name, none where there is nothing to compare, a precondition not met. fewest: seeds that a case needs, 0 for what
    has none. every_seed: beside the ends of an interval, the numbers of its seeds have to lie on the same side.
    exceptions: as in `decide`. reason: one of ``records.REASONS``, in the place of that of `decide` where the numbers
    decide nothing and the caller knows more of them.

    Agreement is recorded as "holds" at profile paper, else as "reduced"; a difference as "differs", with `explanation`.
    note: said in every case. paper, condition, remark: as in `claims.check`. A statement about an architecture, "to
    plateau", needs the `plateau` of its trainings; where that was not reached, neither agreement nor difference counts,
    and the reason is that of the gate. Raises ValueError for a plateau without that condition, or the reverse, and for
    an unknown reason.
    """
    _refuse_ungated(claim, part, condition, plateau)
    if reason not in ("", *REASONS):
        raise ValueError(f"{claim} ({part}): unknown reason {reason!r}, known: {', '.join(REASONS)}")
    bounds = {"at_least": at_least, "at_most": at_most}
    wanted = " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in bounds.items() if bound is not None)
    agrees = "holds" if profile == "paper" else "reduced"
    measured: Any
    if isinstance(cases, Interval | Mapping):
        named = cases if isinstance(cases, Mapping) else {"": cases}
        told = "; ".join(f"{name}: {case}" if name else _told(case) for name, case in named.items())
        rows = [_row(case, fewest, every_seed) for case in named.values()]
        decision = Decision("undecided", UNMET)
        if rows:
            decision = decide(rows, at_least, at_most, gap, fewest=2, intervals=True, exceptions=exceptions)
        why = f"{told or 'nothing to compare'}; asked for: {wanted}"
        if isinstance(cases, Mapping) and decision.deciding:
            note = claims.joined("ends of 95 % intervals", note, told)
        measured = [list(rows[place][:2]) for place in decision.deciding]
        measured = measured if isinstance(cases, Mapping) else [end for ends in measured for end in ends]
    else:
        table = np.atleast_2d(np.asarray(cases, dtype=np.float64))
        seeds, of_best = _of_seeds(table) if fewest else (table, "")
        rows = list(table) if table.size else []
        decision = decide(rows, at_least, at_most, gap, fewest=fewest + 1, exceptions=exceptions)
        few = sum(len(_known(row)) <= fewest for row in table)
        unmet = decision.reason == UNMET and reason in ("", UNMET)
        who = f"{few} of {len(table)} cases {'has' if few == 1 else 'have'}" if len(table) > 1 else "the case has"
        why = f"{who} too few seeds with a number, " if unmet else ""
        asked = " in every seed, or outside in every seed of a case" if fewest else ""
        if exceptions:
            asked = f" in every seed of all cases but {exceptions}, or outside in every seed of {exceptions + 1}"
        why += f"{_range(seeds)}{of_best}, asked for: {wanted}{asked}"
        measured = _known(seeds[list(decision.deciding)]) if np.ndim(cases) else cases
        note = claims.joined(note, of_best.removeprefix(", ")) if decision.found != "undecided" else note
    if exceptions and decision.found == "agrees":
        left = len(rows) - len(decision.deciding)
        note = claims.joined(note, f"{left} of {len(rows)} cases do not, {exceptions} may")
    if reason and decision.found == "undecided":
        decision = Decision("undecided", reason)
    said = {"part": part, "paper": paper, "condition": condition, "remark": remark}
    return _record(claim, decision, measured, said, agrees, explanation, why, note, plateau, **bounds)


def judge_printed(
    claim: str,
    measured: Interval,
    printed: float,
    *,
    part: str,
    widest: float,
    explanation: str,
    note: str = "",
    paper: Any = None,
    condition: str = "",
    plateau: Plateau | None = None,
    remark: bool = False,
) -> str:
    """Check that a printed number lies within an interval; record what is found, and return it.

    It agrees if the interval contains it and is no wider than `widest`, recorded as "reduced" (another corpus). It
    differs, with `explanation`, if not. A wider one that contains it, or none, is undecided. The others: as in `judge`.
    """
    _refuse_ungated(claim, part, condition, plateau)
    if not measured.known:
        decision, why = Decision("undecided", UNMET), _told(measured)
    else:
        decision = decide([[printed]], *measured.ends, fewest=1)
        if decision.found == "agrees" and measured.high - measured.low > widest:
            decision = Decision("undecided", TOO_WIDE)
        low, high = measured.ends
        wide = f", wider than {widest:g}" if high - low > widest else ""
        why = f"{measured.value:.3g} with interval [{low:.3g}, {high:.3g}]{wide}, against {printed:g}"
    compared: dict[str, Any] = {"expected": printed, "within": measured.ends}
    said = {"part": part, "paper": paper, "condition": condition, "remark": remark}
    return _record(claim, decision, measured.value, said, "reduced", explanation, why, note, plateau, **compared)


def _refuse_ungated(claim: str, part: str, condition: str, plateau: Plateau | None) -> None:
    if (condition == "to plateau") is (plateau is None):
        raise ValueError(
            f"{claim} ({part}): condition 'to plateau' and the plateau of its trainings belong together, given "
            f"condition={condition!r}, plateau={plateau!r}"
        )


def _record(
    claim: str,
    decision: Decision,
    measured: Any,
    said: dict[str, Any],
    agrees: str,
    explanation: str,
    why: str,
    note: str,
    plateau: Plateau | None,
    **comparison: Any,
) -> str:
    """What counts in the end. `claims.check` raises ClaimFailed if the comparison contradicts what was found."""
    if plateau is not None and not plateau.reached:
        found = "would agree" if decision.found == "agrees" else f"would be {decision.found}"
        found = "would differ" if decision.found == "differs" else found
        sentence = f"{plateau.sentence}. On these trainings the statement {found}: {why}"
        claims.undecided(claim, reason=plateau.reason, sentence=sentence, note=note, **said)
        return "undecided"
    if decision.found == "undecided":
        claims.undecided(claim, reason=decision.reason, sentence=why, note=note, **said)
        return "undecided"
    outcome, told = (agrees, note) if decision.found == "agrees" else ("differs", claims.joined(note, explanation))
    claims.check(claim, measured, outcome=outcome, note=told, **said, **comparison)
    return decision.found


def _row(case: Interval, fewest: int, every_seed: bool) -> tuple[float, ...]:
    """The numbers of a case that have to lie within the bounds; none where it has no interval or too few seeds."""
    if len(case.by_seed) < fewest or not case.known:
        return ()
    return (*case.ends, *case.by_seed) if every_seed else case.ends


def _known(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return numbers[~np.isnan(numbers)]


def _of_seeds(table: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], str]:
    """The numbers of seeds, and what to say if those of the best are among them.

    The last column, of the best seed, is left out where it repeats one that stands there. The best seed of each of two
    networks has a ratio that is no seed's, and so has a slope over several.
    """
    own, last = table[:, :-1], table[:, -1:]
    if table.shape[1] > 1 and np.all(np.isnan(last[:, 0]) | (own == last).any(axis=1)):
        return own, ""
    return table, ", the last of each case that of the best seeds" if table.shape[1] > 1 else ""


def _range(numbers: npt.NDArray[np.float64]) -> str:
    known = _known(numbers)
    if known.size < 2:
        return f"{known[0]:.4g}" if known.size else "no values"
    return f"{known.size} values in [{known.min():.4g}, {known.max():.4g}]"


def _told(case: Interval) -> str:
    return str(case) if case.known else "no value with an interval"
