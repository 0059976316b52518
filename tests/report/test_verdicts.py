"""One rule for verdicts: no single seed decides, nor an interval across a bound; each case with one that fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.information.intervals import UNKNOWN, Interval
from lib.report import claims
from lib.report.gate import Plateau
from lib.report.verdicts import DISCORD, DISSENT, TOO_WIDE, UNCONVERGED, UNMET, Decision, decide, judge, judge_printed

NAN = math.nan
NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, NAN])
ROWS = st.lists(st.lists(NUMBERS, min_size=4, max_size=5), min_size=1, max_size=3)
BOUNDS = st.sampled_from([{"at_least": 0.0}, {"at_most": 0.0}, {"at_least": -0.5, "at_most": 0.5}])
GAPS = st.sampled_from([0.0, 0.5, 1.0])


def says(values: Any, **bounds: float) -> str:
    return decide(np.atleast_2d(values), **bounds).found


def by_definition(
    rows: list[list[float]], low: float, high: float, gap: float, fewest: int, intervals: bool, exceptions: int = 0
) -> str:
    """The rule, number by number."""
    there = [[number for number in row if not math.isnan(number)] for row in rows]
    complete = [row for row in there if len(row) >= fewest]
    inside = [row for row in complete if all(low <= number <= high for number in row)]
    if len(complete) == len(rows) and len(rows) - len(inside) <= exceptions:
        return "agrees"
    refuting = 0
    for row in complete:
        below, above = [number < low - gap for number in row], [number > high + gap for number in row]
        apart = [one or other for one, other in zip(below, above, strict=True)]
        refuting += all(below) or all(above) or (all(apart) and not intervals)
    return "differs" if refuting > exceptions else "undecided"


@given(ROWS, BOUNDS, GAPS, st.integers(2, 4), st.booleans(), st.integers(0, 2))
def test_the_rule_is_its_definition(
    rows: list[list[float]], bounds: dict[str, float], gap: float, fewest: int, intervals: bool, exceptions: int
) -> None:
    low, high = bounds.get("at_least", -math.inf), bounds.get("at_most", math.inf)
    exceptions = min(exceptions, len(rows) - 1)
    found = decide(rows, **bounds, gap=gap, fewest=fewest, intervals=intervals, exceptions=exceptions)
    assert found.found == by_definition(rows, low, high, gap, fewest, intervals, exceptions)
    alone = [by_definition([row], low, high, gap, fewest, intervals) for row in rows]
    assert bool(found.reason) == (found.found == "undecided") == (not found.deciding)
    if found.deciding:
        assert found.deciding == tuple(place for place, one in enumerate(alone) if one == found.found)
    else:
        assert (found.reason == UNMET) == any(np.count_nonzero(~np.isnan(row)) < fewest for row in rows)


def test_agreement_needs_every_seed_and_difference_needs_every_seed_of_a_case() -> None:
    assert says([1, 2, 3, 3], at_least=1) == "agrees"
    assert says([1, 2, 0.9, 2], at_least=1) == "undecided"
    assert says([0.1, 0.2, 0.9, 0.1], at_least=1) == "differs"
    assert says([0.1, 0.2, 0.9, 0.1], at_least=1, gap=0.5) == "undecided"
    assert says([[1, 2, 3, 3], [0, 0, 5, 5]], at_least=1) == "undecided"
    assert says([[1, 2, 3, 3], [0, 0, 0.5, 0]], at_least=1) == "differs"
    assert says([[1, 2, 3, 3], [2, NAN, 3, 3]], at_least=1) == "undecided"  # two seeds only
    assert says([[1, 2, 3, 3], [NAN, NAN, NAN, NAN]], at_least=1) == "undecided"
    assert says([[1, 2, 3, NAN, 3]], at_least=1) == "agrees"
    assert says([NAN, NAN, NAN, NAN], at_most=1) == "undecided"
    assert says([-1, 5, 1, 1], at_least=0, at_most=4) == "undecided"
    assert says([-1, 5, 6, 5], at_least=0, at_most=4) == "differs"
    with pytest.raises(ValueError, match="needed"):
        says([1, 2, 3])
    with pytest.raises(ValueError, match="needed"):
        decide([], at_most=1)


def test_almost_always_leaves_room_for_one_and_is_refuted_by_two() -> None:
    below, above, both = [1, 2, 3, 3], [8, 9, 9, 9], [1, 9, 3, 3]

    def almost(*rows: list[float]) -> Decision:
        return decide(rows, at_most=5, exceptions=1)

    assert almost(below, below, above) == Decision("agrees", deciding=(0, 1))
    assert almost(below, both, below) == Decision("agrees", deciding=(0, 2))
    assert almost(above, below, above) == Decision("differs", deciding=(0, 2))
    assert almost(above, both, below) == almost(both, both, below) == Decision("undecided", DISSENT)
    assert almost(below, below, [1, 2, NAN, 2]) == Decision("undecided", UNMET)  # no exception: it has not run
    assert almost(above, below, [8, 9, NAN, 9]).found == "undecided"
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"0 to 2, one less than the rows, is allowed, got {wrong}"):
            decide([below, below, above], at_most=5, exceptions=wrong)


def test_a_case_that_may_lie_outside_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, Any] = {"part": "x", "explanation": "e", "at_most": 5, "profile": "laptop"}
    assert judge("l2m-fig5", [[3.0] * 4, [9.0] * 4], exceptions=1, **said) == "agrees"
    assert "1 of 2 cases do not, 1 may" in capsys.readouterr().out
    assert judge("l2m-fig5", [[3.0] * 4, [3.0] * 4], **said) == "agrees"
    assert "cases do not" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "bounds",
    [{"at_least": 2, "at_most": 1}, {"at_most": NAN}, {"at_least": 0, "gap": -1.0}, {"at_least": 0, "gap": NAN}],
)
def test_bounds_that_nothing_can_lie_within_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at_least <= at_most and gap >= 0 are needed"):
        decide([[1.5] * 4], **bounds)


@pytest.mark.parametrize(
    ("reason", "values", "bounds"),
    [
        (DISSENT, [1, 2, 0.9, 2], {"at_least": 1}),
        (DISSENT, [-1, 5, 1, 1], {"at_least": 0, "at_most": 4}),
        (DISSENT, [[1, 2, 3, 3], [0, 0, 5, 5]], {"at_least": 1}),
        (DISSENT, [[-1, -1, 0, -1]], {"at_most": -1, "gap": 1.5}),  # three name a law, the fourth names none
        (TOO_WIDE, [0, 0, 0, 0], {"at_most": -1, "gap": 1.5}),  # all alike: no fit tells the laws apart
        (TOO_WIDE, [[-1, -1, -1, -1], [0, 0, 0, 0]], {"at_most": -1, "gap": 1.5}),
        (UNMET, [1, 2, NAN, 2], {"at_least": 1}),
        (UNMET, [[1, 2, 3, 3], [NAN, NAN, NAN, NAN]], {"at_least": 1}),
        (UNMET, [[1, 2, 0.9, 3], [2, NAN, 3, 3]], {"at_least": 1}),
    ],
)
def test_the_reason_of_no_verdict_is_the_one_that_kept_it_from_being_given(
    reason: str, values: Any, bounds: dict[str, float]
) -> None:
    assert decide(np.atleast_2d(values), **bounds) == Decision("undecided", reason)


def test_a_judgement_is_recorded_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict] = []
    left_open: list[dict] = []
    monkeypatch.setattr(claims, "check", lambda claim, measured, **rest: said.append({"measured": measured, **rest}))
    monkeypatch.setattr(claims, "undecided", lambda claim, **rest: left_open.append({"claim": claim, **rest}))
    common = {"part": "p", "explanation": "too few epochs", "at_most": 1.0}
    judge("shen-fig1a", [0.0, 0.5, 1.0, 0.5], profile="laptop", **common)
    judge("shen-fig1a", [0.0, 0.5, 1.0, 0.5], profile="paper", **common)
    judge("shen-fig1a", [[0, 0, 0, 0], [2, 3, 4, 2]], profile="laptop", **common)
    judge("shen-fig1a", [0.0, 3.0, 4.0, 4.0], profile="laptop", **common)
    assert [one["outcome"] for one in said] == ["reduced", "holds", "differs"]
    assert np.array_equal(said[2]["measured"], [2, 3, 4]) and said[2]["note"] == "too few epochs"
    assert left_open == [{
        "claim": "shen-fig1a", "part": "p", "reason": "seeds disagree", "note": "", "paper": None,
            "condition": "", "remark": False,
        "sentence": "3 values in [0, 4], asked for: at most 1 in every seed, or outside in every seed of a case",
    }]  # fmt: skip
    judge("shen-fig1a", 1.5, part="p", explanation="", at_most=1.0, gap=1.0, fewest=0)
    assert left_open[1]["sentence"] == "1.5, asked for: at most 1"  # a number has no seeds


def verdict(*cases: Interval, part: str = "p", **asked: Any) -> str:
    """Of intervals; the check behind it raises if its outcome does not fit the numbers."""
    named = {str(number): case for number, case in enumerate(cases)}
    return judge("l2m-fig5", named, part=part, explanation="the other way round", **asked)


def around(value: float, reach: float = 0.1, seeds: int = 3) -> Interval:
    return Interval(value, value - reach, value + reach, by_seed=(value,) * seeds)


def test_an_interval_lies_inside_or_outside_or_decides_nothing() -> None:
    inside, outside, across = around(1.0), around(-1.0), around(0.05)
    assert verdict(inside, inside, at_least=0) == "agrees"
    assert verdict(inside, across, at_least=0) == "undecided"
    assert verdict(inside, outside, at_least=0) == "differs"
    assert verdict(inside, at_most=0) == "differs"
    assert verdict(inside, at_least=0, at_most=2) == "agrees"
    assert verdict(around(1.0, 3.0), at_least=0, at_most=2) == "undecided"  # across both
    assert verdict(around(1.0, seeds=2), at_least=0) == verdict(around(-1.0, seeds=2), at_least=0) == "undecided"
    assert verdict(inside, Interval(1, NAN, NAN, by_seed=(1,)), at_least=0) == "undecided"
    assert verdict(around(0.2, seeds=0), at_least=0.4, fewest=0) == "differs"
    assert verdict(around(0.2, seeds=0), at_least=0.4, gap=0.4, fewest=0) == "undecided"
    with pytest.raises(ValueError, match="needed"):
        verdict(inside)


CASES = [
    Interval(0.3, 0.2, 0.4, by_seed=(0.25, 0.3, 0.35)),
    Interval(0.2, 0.1, 0.3, by_seed=(0.1, 0.2, 0.3)),
]
ONE_OFF = Interval(0.2, 0.1, 0.3, by_seed=(0.3, 0.4, -0.01))
TWO_SEEDS = Interval(0.3, 0.2, 0.4, by_seed=(0.25, 0.3))
WIDE = Interval(0.3, -0.1, 0.7, by_seed=(0.25, 0.3, 0.35))


def test_no_single_seed_decides() -> None:
    assert verdict(*CASES, at_least=0, every_seed=True) == "agrees"
    assert verdict(*CASES, at_most=0, every_seed=True) == "differs"
    assert verdict(*CASES, ONE_OFF, at_least=0, every_seed=True) == "undecided"
    assert verdict(*CASES, ONE_OFF, at_least=0) == "agrees"  # by the interval alone
    assert verdict(ONE_OFF, at_most=0, every_seed=True) == "undecided"
    assert verdict(TWO_SEEDS, at_least=0, every_seed=True) == "undecided"
    assert verdict(TWO_SEEDS, at_most=0, every_seed=True) == "undecided"
    assert verdict(*CASES, UNKNOWN, at_least=0, every_seed=True) == "undecided"
    assert verdict(CASES[0], UNKNOWN, at_most=0, every_seed=True) == "differs"
    assert verdict(WIDE, at_least=0, every_seed=True) == "undecided"
    with pytest.raises(ValueError):
        verdict(*CASES, every_seed=True)


def test_a_verdict_that_the_numbers_do_not_carry_raises() -> None:
    ends = [[case.low, case.high] for case in CASES]
    claims.check("l2m-fig5", ends, at_least=0, part="x", outcome="reduced")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-fig5", ends, at_least=0.15, part="x", outcome="reduced")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-fig5", ends, at_least=0, part="x", outcome="differs", note="it would agree")


def test_what_decides_nothing_is_recorded_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def reason(*cases: Interval, **bounds: float) -> str:
        verdict(*cases, every_seed=True, **bounds)
        line = capsys.readouterr().out
        assert line.startswith("◇ ran, undecided · l2m-fig5 (p): ")
        return line.split("(p): ")[1].split(":")[0]

    two_seeds = Interval(0.3, -0.2, 0.4, by_seed=(0.25, 0.3))
    assert reason(at_least=0) == UNMET
    assert reason(*CASES, ONE_OFF, at_least=0) == reason(ONE_OFF, at_most=0) == DISSENT
    assert reason(*CASES, WIDE, at_least=0) == reason(WIDE, ONE_OFF, at_most=0) == TOO_WIDE
    assert reason(*CASES, two_seeds, at_least=0) == reason(WIDE, UNKNOWN, at_least=0) == UNMET


def test_who_knows_more_of_the_numbers_gives_the_reason_and_changes_no_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(values: list[float], reason: str) -> str:
        judge("l2m-fig5", values, part="p", at_most=-1, gap=1.5, explanation="e", reason=reason)
        return capsys.readouterr().out

    assert "undecided · l2m-fig5 (p): comparisons disagree: 3 values in [0, 0]" in said([0, 0, 0, 0], DISCORD)
    assert "(p): interval too wide: 3 values in [0, 0]" in said([0, 0, 0, 0], "")
    for values, word in (([-1, -1, -1, -1], "reduced"), ([1, 1, 1, 1], "differs")):
        assert word in said(values, DISCORD) and said(values, DISCORD) == said(values, "")
    missing = "the case has too few seeds with a number, 2 values in"
    assert f"{UNMET}: {missing}" in said([-1, NAN, -1, -1], "")
    assert f"{TOO_WIDE}: 2 values" in said([-1, NAN, -1, -1], TOO_WIDE)
    with pytest.raises(ValueError, match="unknown reason 'tired', known: not converged, seeds disagree"):
        said([-1, -1, -1, -1], "tired")


def test_a_printed_number_lies_in_a_narrow_interval_or_outside_or_it_stays_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule = {"part": "x", "widest": 0.3, "explanation": "because"}
    assert judge_printed("l2m-tp-law", Interval(0.9, 0.8, 1.0), 0.91, **rule) == "agrees"
    assert judge_printed("l2m-tp-law", Interval(1.2, 1.1, 1.3), 0.91, **rule) == "differs"
    assert judge_printed("l2m-tp-law", Interval(0.9, 0.5, 1.3), 0.91, **rule) == "undecided"
    assert judge_printed("l2m-tp-law", UNKNOWN, 0.91, **rule) == "undecided"
    wide, unknown = [line for line in capsys.readouterr().out.splitlines() if "undecided" in line]
    assert "interval too wide: 0.9 with interval [0.5, 1.3], wider than 0.3, against 0.91" in wide
    assert unknown == "◇ ran, undecided · l2m-tp-law (x): precondition not met: no value with an interval"
    with pytest.raises(ValueError, match="note"):
        judge_printed("l2m-tp-law", Interval(1.2, 1.1, 1.3), 0.91, part="x", widest=0.3, explanation="")


def test_a_number_that_was_measured_once_agrees_or_differs() -> None:
    rule = {"part": "x", "explanation": "because", "at_most": 0.2, "fewest": 0}
    assert judge("l2m-tp-law", 0.1, **rule) == "agrees"
    assert judge("l2m-tp-law", 0.3, **rule) == "differs"
    assert judge("l2m-tp-law", NAN, **rule) == "undecided"
    assert judge("l2m-tp-law", 0.1, **{**rule, "fewest": 3}) == "undecided"


# --- trained networks


def test_a_verdict_carries_its_condition_and_that_it_is_a_remark(capsys: pytest.CaptureFixture[str]) -> None:
    plateau = Plateau(True, "", "near the optimum")
    common: dict[str, Any] = {"part": "p", "explanation": "e"}
    for condition, gate in (("as printed", None), ("to plateau", plateau), ("", None)):
        asked = common | {"condition": condition, "plateau": gate, "remark": True}
        judge("l2m-fig4", [0.0, 0.5, 1.0, 0.5], at_most=1.0, **asked)
        judge("l2m-fig4", [0.0, 0.5, 2.0, 0.5], at_most=1.0, **asked)
        judge_printed("l2m-fig4", Interval(0.9, 0.8, 1.0), 0.91, widest=0.3, **asked)
        told = ", ".join(filter(None, ("p", condition, "a remark")))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3 and all(f"l2m-fig4 ({told}): " in line for line in lines)
        assert [line[0] for line in lines] == ["◐", "◇", "◐"]


def test_a_printed_number_is_gated_too(capsys: pytest.CaptureFixture[str]) -> None:
    shut = Plateau(False, UNCONVERGED, "the loss still falls")
    rule: dict[str, Any] = {"part": "x", "widest": 0.3, "explanation": "because", "condition": "to plateau"}
    for value, would in ((0.91, "would agree"), (1.5, "would differ")):
        assert judge_printed("l2m-fig4", Interval(0.9, 0.8, 1.0), value, plateau=shut, **rule) == "undecided"
        line = capsys.readouterr().out
        assert f"(x, to plateau): {UNCONVERGED}: the loss still falls. On these trainings the statement {would}" in line
        assert "wider" not in line  # than allowed it is not
    wide = Interval(0.9, 0.5, 1.3)
    assert judge_printed("l2m-fig4", wide, 0.91, plateau=shut, **rule) == "undecided"
    assert f"{UNCONVERGED}: " in capsys.readouterr().out  # what was not trained to its end is not a question of width


def test_a_number_of_the_best_seeds_that_is_no_seeds_own_is_told_and_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the ratio of two networks, each by its best seed; where it repeats a seed it is not counted twice."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "lib.report.claims.check", lambda claim, measured, **more: said.append({"of": measured, **more})
    )
    common: dict[str, Any] = {"part": "p", "explanation": "e", "at_least": 2.0}
    judge("l2m-fig5", [[4, 5, 6, 0.5]], gap=0.5, **common)
    told = "seeds disagree: 4 values in [0.5, 6], the last of each case that of the best seeds, asked for: at least 2"
    assert told in capsys.readouterr().out
    judge("l2m-fig5", [[4, 5, 6, 3], [4, 5, 6, 6]], **common)
    judge("l2m-fig5", [[4, 5, 6, 6], [2, 3, 4, 3]], **common)
    assert said[0]["of"].tolist() == [4, 5, 6, 3, 4, 5, 6, 6] and "the best seeds" in said[0]["note"]
    assert said[1]["of"].tolist() == [4, 5, 6, 2, 3, 4] and said[1]["note"] == ""
