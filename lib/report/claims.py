"""Check a claim where it is made: compare, record, refuse to go on if it fails, show what was found.

>>> check("shen-eq46", measured, expected, tolerance=1e-12, part="orthant probability")

What ran and decides nothing is recorded too, by `undecided`.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

from lib import sources
from lib.report import records
from lib.report.catalogue import find
from lib.report.comparison import Comparison, inside_bounds, inside_interval, show, within_tolerance
from lib.report.page import running_shell, show_together
from lib.report.shown import Verdict, Verdicts
from lib.runs import provenance

STATED = ("holds", "reduced", "misprint", "false", "differs")  # what a chapter may say that a check shows


class ClaimFailed(AssertionError):
    """A checked claim did not come out as the chapter says it does."""


def check(
    claim: str,
    measured: Any,
    expected: Any = None,
    tolerance: float | None = None,
    *,
    relative: bool = False,
    within: Any = None,
    at_least: Any = None,
    at_most: Any = None,
    part: str = "",
    outcome: str = "holds",
    printed: Any = None,
    erratum: int | None = None,
    paper: Any = None,
    note: str = "",
    confidence: float = 0.95,
    condition: str = "",
    remark: bool = False,
) -> None:
    """Compare ``measured`` with what the claim says, record the outcome, show it.

    Exactly one comparison, of scalars or arrays:

    - ``expected``, ``tolerance``: ``max |measured - expected| <= tolerance``
      (``relative``: times ``|expected|``);
    - ``expected``, ``within=(low, high)`` or array of pairs: the measured interval, of this ``confidence``, contains
      ``expected``;
    - ``at_least`` and/or ``at_most``: bounds on ``measured``.

    ``outcome`` says what agreement means:

    - ``"holds"``, or ``"reduced"``: holds at reduced scale;
    - ``"misprint"``: a factor, an index, a reading; the result stands. ``erratum`` is its number in the errata;
      ``printed``, the value of the printed form in the place of ``expected`` (under a bound: of ``measured``), must not
      agree;
    - ``"false"``: false as stated. Given ``printed``, what survives is compared and the printed form must not agree, as
      for a misprint; without it the comparison is with the printed statement, a counterexample must fail it, and
      ``note`` says what survives. ``erratum`` is its number in the errata;
    - ``"differs"``: the comparison with the paper must fail, and ``note`` says why.

    ``condition`` says of what is about trained networks if they were trained ``"as printed"``, for a verdict on the
    recipe, or ``"to plateau"``, for one on the architecture. A ``remark`` stands beside the claim: it is counted among
    the parts, and the claim does not fail with it. ``paper`` is the paper's own number, for the scorecard. A check that
    fails is recorded as ``"fails"`` before it raises. What decides nothing is no check: see `undecided`.
    Raises ``ClaimFailed`` (an ``AssertionError``) if the outcome is not the stated one, ``ValueError`` for an
    unknown claim or outcome, NaN, empty arrays, a comparison that is incomplete or cannot fail, or a part of a claim
    that this execution of the page has already recorded.
    """
    entry = find(claim)
    _refuse_unclear(outcome, printed, erratum, note)
    _refuse_unknown(condition)
    compared = compare(measured, expected, tolerance, relative, within, at_least, at_most, confidence)
    problem, told = "", compared.text
    against = outcome == "differs" or (outcome == "false" and printed is None)
    if compared.agrees is against:
        said = "to differ" if outcome == "differs" else "to be false"
        problem = f"agrees with the paper, but is said {said}" if compared.agrees else "does not hold"
    elif printed is not None:
        if expected is None:
            wrong = compare(printed, None, tolerance, relative, within, at_least, at_most, confidence)
        else:
            wrong = compare(measured, printed, tolerance, relative, within, at_least, at_most, confidence)
        if wrong.agrees:
            problem, told = f"needs no erratum {erratum}, the printed form agrees too", wrong.text
    arguments = {
        "measured": measured,
        "expected": expected,
        "tolerance": tolerance,
        "relative": relative,
        "within": within,
        "confidence": None if within is None else confidence,
        "at_least": at_least,
        "at_most": at_most,
        "deviation": compared.deviation,
        "printed": printed,
        "erratum": erratum,
        "paper": paper,
        "note": note,
        "condition": condition,
        "remark": remark,
    }
    if problem:
        name = f"{claim} ({part})" if part else claim
        failure = ClaimFailed(f"{name} {problem}: {told}. Claim: {entry.statement}")
        try:
            sentence = joined(f"{problem}: {told}", note)
            _record(Verdict(entry, part, "fails", sentence, condition, remark, arguments | {"stated": outcome}))
        except (OSError, ValueError) as error:
            raise failure from error
        raise failure
    if printed is not None:
        told += f"; printed form gives {show(printed)} (erratum {erratum})"
    elif erratum is not None:
        told += f" (erratum {erratum})"
    verdict = Verdict(entry, part, outcome, joined(told, note), condition, remark, arguments)
    _record(verdict)
    show_together(verdict, Verdicts)


def undecided(
    claim: str,
    *,
    part: str,
    reason: str,
    sentence: str,
    note: str = "",
    paper: Any = None,
    condition: str = "",
    remark: bool = False,
) -> None:
    """Record and show that something ran for a part of a claim and decides nothing.

    ``reason`` is one of "not converged", "seeds disagree", "interval too wide", "comparisons disagree" (two of the same
    data, each of which decides, name different things) and "precondition not met"; ``sentence`` says what was found and
    what was asked for; ``note``, ``paper``, ``condition`` and ``remark`` are those of `check`.
    Raises ``ValueError`` for an unknown claim, reason or condition, and without a part or a sentence.
    """
    entry = find(claim)
    if reason not in records.REASONS:
        raise ValueError(f"unknown reason {reason!r}, known: {', '.join(records.REASONS)}")
    if not part or not sentence:
        raise ValueError(f"{claim}: a part and a sentence are needed, given part={part!r}, sentence={sentence!r}")
    _refuse_unknown(condition)
    told = {"reason": reason, "paper": paper, "note": note, "condition": condition, "remark": remark}
    verdict = Verdict(entry, part, "undecided", joined(f"{reason}: {sentence}", note), condition, remark, told)
    _record(verdict)
    show_together(verdict, Verdicts)


def joined(*texts: str) -> str:
    """The texts that are not empty, as one."""
    return "; ".join(text for text in texts if text)


def compare(
    measured: Any,
    expected: Any,
    tolerance: float | None,
    relative: bool,
    within: Any,
    at_least: Any,
    at_most: Any,
    confidence: float = 0.95,
) -> Comparison:
    """The one comparison that the arguments describe; ``ValueError`` if they describe none or several."""
    bounded = at_least is not None or at_most is not None
    if [tolerance is not None, within is not None, bounded].count(True) != 1:
        raise ValueError(
            "exactly one comparison: expected with tolerance, expected with within, or at_least/at_most; "
            f"given tolerance={tolerance!r}, within={show(within)}, "
            f"at_least={show(at_least)}, at_most={show(at_most)}"
        )
    if bounded:
        if expected is not None or relative:
            raise ValueError("bounds compare measured alone: leave out expected and relative")
        return inside_bounds(measured, at_least, at_most)
    if expected is None:
        raise ValueError("tolerance and within need expected")
    if tolerance is not None:
        return within_tolerance(measured, expected, tolerance, relative)
    if relative:
        raise ValueError("relative belongs to tolerance")
    return inside_interval(measured, expected, within, confidence)


def _refuse_unclear(outcome: str, printed: Any, erratum: int | None, note: str) -> None:
    if outcome not in STATED:
        raise ValueError(f"unknown outcome {outcome!r}, known: {', '.join(STATED)}")
    if outcome == "misprint":
        if printed is None or not isinstance(erratum, int):
            raise ValueError("outcome 'misprint' needs erratum=number and printed=value of the printed form")
    elif outcome == "false":
        if not isinstance(erratum, int) or (printed is None and not note):
            raise ValueError(
                "outcome 'false' needs erratum=number, and printed=value of the printed form or a note of what survives"
            )
    elif printed is not None or erratum is not None:
        raise ValueError(f"printed and erratum belong to outcomes 'misprint' and 'false', given outcome {outcome!r}")
    if outcome == "differs" and not note:
        raise ValueError("outcome 'differs' needs a note that explains the difference")


def _refuse_unknown(condition: str) -> None:
    if condition not in records.CONDITIONS:
        allowed = ", ".join(repr(known) for known in records.CONDITIONS)
        raise ValueError(f"unknown condition {condition!r}, allowed: {allowed}")


def _record(verdict: Verdict) -> None:
    path = os.environ.get("BOOK_RECORDS")
    if not path:
        return
    origin = provenance.collect() | {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        "seed": _notebook_seed(),
    }
    page = sources.current_page()
    made = records.read(Path(path)) if Path(path).exists() else ()
    if any((one["claim"], one["part"], one["page"]) == (verdict.claim.id, verdict.part, page) for one in made):
        raise ValueError(
            f"page {page!r} has two checks of {verdict.claim.id} with the same part {verdict.part!r}; only the last "
            "would count, so give each a name of its own"
        )
    told = {
        "claim": verdict.claim.id,
        "part": verdict.part,
        "outcome": verdict.outcome,
        "sentence": verdict.sentence,
        "profile": records.profile(),
        "page": page,
        "anchor": verdict.anchor,
        "provenance": origin,
    }
    records.append(Path(path), records.plain({**told, **verdict.facts}))


def _notebook_seed() -> Any:
    shell = running_shell()
    seed = shell.user_ns.get("seed") if shell else None
    return seed if isinstance(seed, int) else None
