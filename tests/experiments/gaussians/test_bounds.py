"""What no further training can change: bounds that hold every outcome, and decide only what all of these agree on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.gaussians.statements import clock
from experiments.gaussians.statements.bounds import SURE, Range, judge_ranges, share_left
from experiments.gaussians.statements.length import plateau, relative
from lib.report.gate import Plateau
from lib.report.verdicts import UNCONVERGED
from tests.experiments.gaussians.test_clock import BAD, GOOD, by_clock, verdicts, world

LATE = Plateau(False, UNCONVERGED, "twice the budget gains")
SHARES = arrays(np.float64, 3, elements=st.floats(0, 1))


def drawn(data: st.DataObject) -> tuple[Range, np.ndarray]:
    """A range as the gate leaves it, and what further training may end at."""
    reached, better, left = data.draw(SHARES), data.draw(SHARES), data.draw(SHARES)
    if data.draw(st.booleans()):
        return known(reached), reached
    most = np.array([reached, reached * better])
    return Range(reached, 0 * most, most), most[1] * left


def known(values: np.ndarray) -> Range:
    return Range(values, np.array([values, values]), np.array([values, values]))


def open_to(values: np.ndarray) -> Range:
    """Reached without a plateau, by every seed with the same budget."""
    return Range(values, np.zeros((2, 3)), np.array([values, values]))


@given(st.data())
def test_a_difference_holds_whatever_further_training_leaves_of_either_side(data: st.DataObject) -> None:
    (one, ended), (other, also) = drawn(data), drawn(data)
    for found, true in ((one - other, ended - also), ((one - other) - (other - one), 2 * (ended - also))):
        assert np.all(found.low <= true + 1e-12) and np.all(true <= found.high + 1e-12)
        assert np.all(found.low[0] <= found.measured) and np.all(found.measured <= found.high[0])
    outer = (one - other).outer
    assert outer.low - 1e-12 <= np.mean(ended - also) <= outer.high + 1e-12


@given(st.data(), st.floats(-0.5, 0.5))
def test_a_verdict_without_a_plateau_is_that_of_every_outcome(data: st.DataObject, bound: float) -> None:
    (one, ended), (other, also) = drawn(data), drawn(data)
    said = judge_ranges("l2m-fig4", {"it": one - other}, plateau=LATE, part="p", explanation="e", profile="laptop",
                        at_least=bound, condition="to plateau", remark=True)  # fmt: skip
    mean = float(np.mean(ended - also))
    assert said == "undecided" or (said == "agrees") is (mean >= bound)


def test_what_zero_and_the_best_training_disagree_on_is_left_to_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = (np.array([level, 1.01 * level, 0.99 * level]) for level in (0.1, 0.7))

    def said(case: Range, gate: Plateau = LATE, **bounds: float) -> str:
        return judge_ranges("l2m-fig4", {"it": case}, plateau=gate, part="p", explanation="e", profile="laptop",
                            note="share", condition="to plateau", remark=True, **bounds)  # fmt: skip

    assert said(open_to(bad), at_most=0.5) == "undecided"  # it may still learn
    assert UNCONVERGED in capsys.readouterr().out
    assert said(known(bad), at_most=0.5) == said(open_to(bad), Plateau(True, "", ""), at_most=0.5) == "differs"
    assert said(open_to(good), at_most=0.5) == "agrees"
    assert f"share; {SURE}" in capsys.readouterr().out
    assert said(open_to(bad) - known(bad), at_least=0.25) == "differs"
    assert said(known(bad) - open_to(bad), at_least=0.25) == "undecided"
    assert said(known(np.append(good[:2], np.nan)), at_most=0.5) == "undecided"  # a seed is missing
    assert judge_ranges("l2m-fig4", {}, plateau=LATE, part="p", explanation="e", profile="laptop", at_most=1.0,
                        condition="to plateau") == "undecided"  # fmt: skip


def test_a_network_that_passes_the_gate_is_where_it_is_and_another_between_zero_and_its_best_training() -> None:
    blind, told = clock.network(clock.GPT2, "none"), clock.network(clock.GPT2, "learned")
    ended = share_left(world(by_clock), blind, 256, 3)
    assert np.array_equal(ended.low, ended.high) and np.array_equal(ended.low, [ended.measured] * 2)
    assert ended.measured == pytest.approx(BAD[256], rel=0.02)
    runs = [run for run in world(by_clock, gain=1.3) if run.parameters["copies"] == clock.COPIES]
    for model, level in ((blind, BAD[256]), (told, GOOD[256])):
        late = share_left(runs, model, 256, 3)
        assert not plateau(runs, [model], [256]).reached
        assert np.array_equal(late.low, np.zeros((2, 3))) and late.measured == pytest.approx(level, rel=0.02)
        assert np.array_equal(late.high[0], late.measured)
        best = min(relative(run) for run in runs if (run.model, run.length, run.seed) == (model, 256, 0))
        assert late.high[1, 0] == best == pytest.approx(level / 1.3, rel=0.02)  # that seed was trained twice as long
        assert np.all(late.high[1, 1:] <= late.measured[1:]) and late.high[1, 1:] == pytest.approx(level, rel=0.02)
        # one seed alone that went further makes the mean smaller, and its interval wider: the first row stands
        assert late.outer.high == pytest.approx(level, rel=0.03) and late.outer.low == 0
    few = share_left([run for run in runs if run.seed < 2], told, 256, 3)
    assert np.isnan([few.measured[2], *few.low[:, 2], *few.high[:, 2]]).all()
    assert np.isnan(share_left([], told, 256, 3).outer.value)


def test_trainings_that_had_not_ended_decide_what_they_cannot_undo_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = verdicts(clock.judge_lengths, world(by_clock, gain=1.3), capsys)
    assert said["GPT2: flat in L"] == said["GPT2: it has learned, at every length"] == "reduced"
    for name in ("Mamba", "Mamba2"):
        assert said[f"the same clock, learned: {name} degrades as L grows"] == "differs"
    del said["GPT2: flat in L"], said["GPT2: it has learned, at every length"]
    assert [part for part, how in said.items() if how != "undecided"] == [
        f"the same clock, learned: {name} degrades as L grows" for name in ("Mamba", "Mamba2")
    ]
