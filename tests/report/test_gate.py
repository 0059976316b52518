"""The gate: by its definition, and with trainings that must not speak for an architecture and do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.information.intervals import Interval
from lib.report.gate import (
    Plateau,
    Training,
    all_ways,
    any_way,
    near_optimum,
    plateau_of,
    refuting,
    settled,
    usual_budget,
)
from lib.report.records import REASONS
from lib.report.verdicts import judge, judge_printed

UNCONVERGED, DISSENT, TOO_WIDE, _, UNMET = REASONS
NAN, INF = math.nan, math.inf
OPEN, SHUT = Plateau(True, "", "all is well"), Plateau(False, UNCONVERGED, "too short")
LOSSES = st.sampled_from([0.0, 0.05, 0.1, 0.11, 0.3, 1.0, 5.0, NAN])
SEEDS = st.lists(LOSSES, min_size=0, max_size=5)


@given(st.dictionaries(st.sampled_from("abc"), SEEDS, min_size=1), st.sampled_from([None, 0.5, 3.0]))
def test_near_the_optimum_is_its_definition(excess: dict[str, list[float]], effect: float | None) -> None:
    found = near_optimum(excess, effect=effect)
    bound = 0.1 if effect is None else max(0.1, 0.1 * effect)
    every = [loss for losses in excess.values() for loss in losses]
    if any(len(losses) < 3 for losses in excess.values()) or any(map(math.isnan, every)):
        assert (found.reached, found.reason) == (False, UNMET)
    elif all(loss <= bound for loss in every):
        assert (found.reached, found.reason) == (True, "")
    else:
        far = any(all(loss > bound for loss in losses) for losses in excess.values())
        assert (found.reached, found.reason) == (False, UNCONVERGED if far else DISSENT)
    assert found.sentence


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_those_at_a_plateau_alone_may_refute_what_is_said_of_all(networks: list[tuple[bool, bool]]) -> None:
    ways = [OPEN if reached else SHUT for reached, _ in networks]
    places, gate = refuting(ways, lambda passed: any(networks[place][1] for place in passed))
    if any(reached and against for reached, against in networks):
        assert places == [place for place, (reached, _) in enumerate(networks) if reached] and gate.reached
    else:  # what is not at a plateau never refutes
        assert places == list(range(len(networks))) and gate.reached == all(reached for reached, _ in networks)


@given(SEEDS, st.lists(LOSSES, max_size=3), st.dictionaries(st.sampled_from([1 / 3, 1.0, 3.0]), LOSSES),
       st.dictionaries(st.sampled_from(["slow modes"]), LOSSES), st.sampled_from([1.0, 1.1, 3.0, 60.0]))  # fmt: skip
def test_settled_is_its_definition(
    losses: list[float], doubled: list[float], rates: dict[float, float], others: dict[str, float], effect: float
) -> None:
    found = settled(losses, doubled=doubled, rates=rates, others=others, effect=effect)
    tried = {factor: loss for factor, loss in rates.items() if not math.isnan(loss)}
    known = len(losses) >= 3 and 0 < len(doubled) <= len(losses) and not any(map(math.isnan, [*losses, *doubled]))
    if not known or set(tried) != {1 / 3, 1.0, 3.0}:
        assert (found.reached, found.reason) == (False, UNMET)
        return
    pairs = zip(losses, doubled, strict=False)
    gains = [abs(one - two) for one, two in pairs] + [tried[1.0] - loss for loss in tried.values()]
    gains += [min(losses) - loss for loss in others.values() if not math.isnan(loss)]
    if max(gains) > 0.1 * effect:
        assert (found.reached, found.reason) == (False, UNCONVERGED)
    else:
        apart = max(losses) - min(losses) > 0.1 * effect
        assert (found.reached, found.reason) == (not apart, DISSENT if apart else "")


def test_a_larger_effect_allows_more_and_the_smallest_is_no_bound() -> None:
    assert not near_optimum({"a": [0.2, 0.3, 0.25]}).reached
    assert near_optimum({"a": [0.2, 0.3, 0.25]}, effect=3.0).reached
    assert near_optimum({"a": [0.05, 0.1, 0.0]}, effect=1e-9).reached  # a tenth of a nat per sequence is always enough
    assert near_optimum({"a": [-0.02, 0.01, 0.0]}).reached  # the optimum itself is known to some digits only


def test_of_several_ways_one_is_enough_and_of_several_networks_all_are_needed() -> None:
    other = Plateau(False, DISSENT, "seeds apart")
    assert any_way(SHUT, OPEN) is OPEN and any_way(SHUT, other) is other
    assert all_ways(OPEN, SHUT, other) is SHUT and all_ways(OPEN, OPEN) == OPEN
    for join in (any_way, all_ways):
        with pytest.raises(ValueError, match="at least one"):
            join()


# --- what must not pass: arguments of a way through the gate, and the reason that keeps them out

SETTLED: dict[str, Any] = {"losses": [1.0, 1.01, 1.02], "doubled": [1.0], "rates": {1 / 3: 1.1, 1: 1.0, 3: 1.2},
                           "effect": 0.5}  # fmt: skip
MUST_NOT_PASS: dict[str, tuple[Callable[..., Plateau], dict[str, Any], str]] = {
    "untrained": (near_optimum, {"excess": {"LSTM 8": [98.0, 97.0, 99.0]}}, UNCONVERGED),
    "a tenth of its budget": (near_optimum, {"excess": {"LSTM 8": [0.9, 1.1, 0.7]}}, UNCONVERGED),
    "one stuck seed among five": (near_optimum, {"excess": {"RNN 8": [0.05, 0.04, 0.9, 0.06, 0.05]}}, DISSENT),
    "one network of two": (near_optimum, {"excess": {"a": [0.01] * 3, "b": [0.4] * 3}}, UNCONVERGED),
    "two seeds": (near_optimum, {"excess": {"a": [0.01, 0.02]}}, UNMET),
    "no seeds": (near_optimum, {"excess": {"a": []}}, UNMET),
    "no optimum": (near_optimum, {"excess": {"a": [NAN, NAN, NAN]}}, UNMET),
    "better than the optimum": (near_optimum, {"excess": {"a": [0.01, -0.3, 0.02]}}, UNMET),
    "fewer seeds of one network": (near_optimum, {"excess": {"a": [0.01] * 5, "b": [0.01] * 2}}, UNMET),
    "still falling": (settled, SETTLED | {"doubled": [0.8]}, UNCONVERGED),
    "still falling, second seed": (settled, SETTLED | {"doubled": [1.0, 0.8]}, UNCONVERGED),
    "twice as long is worse": (settled, SETTLED | {"doubled": [1.2]}, UNCONVERGED),
    "twice as long is worse, second seed": (settled, SETTLED | {"doubled": [1.0, 1.2]}, UNCONVERGED),
    "another rate is better": (settled, SETTLED | {"rates": {1 / 3: 1.1, 1: 1.0, 3: 0.9}}, UNCONVERGED),
    "another start is better": (settled, SETTLED | {"others": {"slow modes": 0.7}}, UNCONVERGED),
    "one stuck seed": (settled, SETTLED | {"losses": [1.0, 1.01, 1.0, 1.4, 1.02]}, DISSENT),
    "no doubled run": (settled, SETTLED | {"doubled": []}, UNMET),
    "more doubled runs than seeds": (settled, SETTLED | {"doubled": [1.0] * 4}, UNMET),
    "a doubled run that failed": (settled, SETTLED | {"doubled": [NAN]}, UNMET),
    "one rate": (settled, SETTLED | {"rates": {1: 1.0}}, UNMET),
    "no larger rate": (settled, SETTLED | {"rates": {1 / 3: 1.1, 1: 1.0, 3: NAN}}, UNMET),
    "two settled seeds": (settled, SETTLED | {"losses": [1.0, 1.01]}, UNMET),
    "a seed that failed": (settled, SETTLED | {"losses": [1.0, NAN, 1.01]}, UNMET),
}


def passing_although_they_must_not(ways: dict[Callable[..., Plateau], Callable[..., Plateau]]) -> list[str]:
    """The cases that these ways let through, or keep out for another reason."""
    results = {name: (ways[way](**given), reason) for name, (way, given, reason) in MUST_NOT_PASS.items()}
    return [name for name, (found, reason) in results.items() if found.reached or found.reason != reason]


def test_what_must_not_pass_does_not() -> None:
    assert settled(**SETTLED).reached and near_optimum({"a": [0.01, 0.02, 0.03]}).reached
    assert passing_although_they_must_not({near_optimum: near_optimum, settled: settled}) == []


def test_a_longer_training_may_end_as_little_above_as_below_and_others_far_above() -> None:
    bound = 0.1 * SETTLED["effect"]
    for moved in (-1.1 * bound, -0.9 * bound, 0.9 * bound, 1.1 * bound):
        found = settled(**SETTLED | {"doubled": [1.0 + moved]})
        assert found.reached is (abs(moved) < bound)
        assert f"a longer training moves the loss by {moved:+.2g}, other rates gain 0," in found.sentence
        longer = [Training(1, 20, 0.01, 1.001 + moved, 1)]
        assert plateau_of({"a": [*trainings(other=1.1), *longer]}, effect=0.5).reached is (abs(moved) < bound)
    worse = {"rates": {1 / 3: 9.0, 1: 1.0, 3: 9.0}, "others": {"slow modes": 9.0}}
    assert settled(**SETTLED | worse).reached


def test_a_gate_that_lets_everything_through_or_gives_one_reason_for_all_is_found_out() -> None:
    for always in (OPEN, SHUT):
        lax = {near_optimum: lambda always=always, **_: always, settled: lambda always=always, **_: always}
        assert set(passing_although_they_must_not(lax)) >= {"two seeds", "one stuck seed", "no doubled run"}
    lax = dict.fromkeys([near_optimum, settled], lambda **_: OPEN)
    assert passing_although_they_must_not(lax) == list(MUST_NOT_PASS)


@pytest.mark.parametrize("values", [[0.0, 0.5, 0.9, 0.5], [3.0, 4.0, 5.0, 4.0]], ids=["would agree", "would differ"])
@pytest.mark.parametrize("case", MUST_NOT_PASS)
def test_trainings_that_do_not_pass_give_no_verdict_for_or_against(
    case: str, values: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    way, arguments, reason = MUST_NOT_PASS[case]
    asked: dict[str, Any] = {"part": "p", "explanation": "another law", "at_most": 1.0}
    free = judge("shen-fig1a", values, **asked, condition="as printed")
    gated = judge("shen-fig1a", values, **asked, condition="to plateau", plateau=way(**arguments))
    assert free in ("agrees", "differs") and gated == "undecided"
    recipe, architecture = capsys.readouterr().out.splitlines()
    assert "(p, as printed): " in recipe and "undecided" not in recipe
    assert architecture.startswith(f"◇ ran, undecided · shen-fig1a (p, to plateau): {reason}: ")
    assert f"the statement would {'agree' if free == 'agrees' else 'differ'}: " in architecture
    assert way(**arguments).sentence in architecture


def test_trainings_that_pass_give_the_verdict_of_the_numbers() -> None:
    plateau = settled(**SETTLED)
    asked: dict[str, Any] = {"part": "p", "explanation": "e", "at_most": 1.0, "condition": "to plateau"}
    assert judge("shen-fig1a", [0.0, 0.5, 0.9, 0.5], **asked, plateau=plateau) == "agrees"
    assert judge("shen-fig1a", [3.0, 4.0, 5.0, 4.0], **asked, plateau=plateau) == "differs"
    assert judge("shen-fig1a", [0.0, 0.5, 1.5, 0.5], **asked, plateau=plateau) == "undecided"


@pytest.mark.parametrize(
    "asked",
    [
        {"condition": "to plateau"},
        {"condition": "as printed", "plateau": OPEN},
        {"plateau": OPEN},
        {"condition": "for long", "plateau": OPEN},
        {"condition": "for long"},
    ],
)
def test_a_condition_without_its_plateau_or_the_other_way_round_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="condition"):
        judge("shen-fig1a", [0.0, 0.5, 0.9, 0.5], part="p", explanation="e", at_most=1.0, **asked)
    with pytest.raises(ValueError, match="condition"):
        judge_printed("l2m-tp-law", Interval(0.9, 0.8, 1.0), 0.91, part="x", widest=0.3, explanation="e", **asked)


@pytest.mark.parametrize(
    ("way", "given", "message"),
    [
        (near_optimum, {"excess": {}}, "at least one network"),
        (near_optimum, {"excess": {"a": [0.1, INF, 0.2]}}, "a: a finite number for every seed"),
        (near_optimum, {"excess": {"a": [[0.1, 0.2], [0.3]]}}, "a: a finite number for every seed"),  # two lengths
        (near_optimum, {"excess": {"a": [[0.1, 0.2, 0.1]] * 3}}, "a: a finite number for every seed"),
        (near_optimum, {"excess": {"a": 0.1}}, "a: a finite number for every seed"),
        (near_optimum, {"excess": {"a": [0.1] * 3}, "effect": 0.0}, "an effect above 0"),
        (near_optimum, {"excess": {"a": [0.1] * 3}, "effect": NAN}, "an effect above 0"),
        (settled, SETTLED | {"effect": -1.0}, "an effect above 0"),
        (settled, SETTLED | {"effect": INF}, "an effect above 0"),
        (settled, SETTLED | {"losses": [1.0, INF, 1.0]}, "losses: a finite number"),
        (settled, SETTLED | {"losses": [[1.0, 1.0], [1.0]]}, "losses: a finite number"),
        (settled, SETTLED | {"doubled": [-INF]}, "doubled: a finite number"),
        (settled, SETTLED | {"rates": {1 / 3: INF, 1: 1.0, 3: 1.1}}, "rates: a finite number"),
        (settled, SETTLED | {"rates": {1 / 3: 1.1, 1: 1.0, 3: -INF}}, "rates: a finite number"),
        (settled, SETTLED | {"others": {"slow modes": INF}}, "others: a finite number"),
    ],
)  # fmt: skip
def test_what_is_no_set_of_trainings_is_refused(way: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        way(**given)


def test_the_sentence_says_what_was_found_and_what_was_asked_for() -> None:
    found = near_optimum({"LSTM 8": np.array([0.31, 0.04, 0.05])}, effect=2.0)
    assert found.sentence == (
        "nats per sequence above the optimum: LSTM 8 0.04 to 0.31; asked for: at most 0.2 in every seed"
    )
    moved = settled(**SETTLED | {"doubled": [0.7], "others": {"slow modes": 0.9}})
    assert moved.sentence == (
        "a longer training moves the loss by -0.3, other rates gain 0, seeds span 0.02, slow modes gains 0.1; "
        "asked for: at most 0.05, a tenth of the effect"
    )


# --- recorded runs


def trainings(loss: float = 1.0, seeds: int = 3, doubled: float | None = None, other: float | None = None,
              version: int = 1) -> list[Training]:  # fmt: skip
    """Runs of one network; doubled: the loss at twice the budget of the second seed; other: that at other rates."""
    found = [Training(seed, 10, 0.01, loss + 0.001 * seed, version) for seed in range(seeds)]
    found += [] if doubled is None else [Training(1, 20, 0.01, doubled, version)]
    return found + ([] if other is None else [Training(0, 10, rate, other, version) for rate in (0.003, 0.03)])


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (trainings(doubled=1.001, other=1.1), ""),
        (trainings(doubled=1.001, other=0.8), UNCONVERGED),
        (trainings(doubled=0.8, other=1.1), UNCONVERGED),
        ([*trainings(doubled=1.001, other=1.1), Training(1, 160, 0.01, 0.8, 1)], UNCONVERGED),  # it fell on afterwards
        ([*trainings(doubled=1.001, other=1.1), Training(0, 40, 0.01, 0.8, 1)], UNCONVERGED),  # another seed
        ([*trainings(doubled=1.001, other=1.1), Training(0, 160, 0.03, 0.8, 1)], ""),  # another rate
        ([*trainings(doubled=1.001, other=1.1), Training(7, 160, 0.01, 0.8, 1)], ""),  # a seed that stands alone
        ([*trainings(doubled=1.001, other=1.1), Training(1, 15, 0.01, 0.8, 1)], ""),  # less than twice: of no rule
        ([*trainings(other=1.1), Training(1, 160, 0.01, 1.001, 1)], UNMET),  # none at twice
        (trainings(doubled=1.001), UNMET),
        (trainings(other=1.1), UNMET),
        (trainings(seeds=2, doubled=1.001, other=1.1), UNMET),
        ([*trainings(doubled=1.001, other=1.1), Training(3, 10, 0.01, 1.5, 1)], DISSENT),
        ([], UNMET),
    ],
)
def test_recorded_runs_have_settled_if_longer_and_other_ones_bring_nothing(runs: list[Training], reason: str) -> None:
    found = plateau_of({"a": runs}, effect=0.5)
    assert (found.reached, found.reason) == (not reason, reason)
    both = plateau_of({"b": trainings(doubled=1.001, other=1.1), "a": runs}, effect=0.5)
    assert (both.reached, both.reason) == (not reason, reason) and (not reason or both.sentence.startswith("a: "))


def test_recorded_runs_near_the_optimum_need_no_longer_ones() -> None:
    near, far = trainings(loss=0.01), trainings(loss=2.0)
    assert plateau_of({"a": near}, effect=0.5, optimum=True).reached
    assert plateau_of({"a": near}, effect=None, optimum=True).reached
    assert not plateau_of({"a": near}, effect=0.5).reached  # where the loss is no excess, a small one says nothing
    found = plateau_of({"a": near, "b": far}, effect=0.5, optimum=True)
    assert found.reason == UNCONVERGED and found.sentence.startswith("nats per sequence above the optimum: b 2 to 2")
    assert plateau_of({"a": near, "b": []}, effect=0.5, optimum=True).reason == UNMET
    small = trainings(loss=2.0, doubled=2.001, other=2.2)  # too small to come near, but at its own end
    assert plateau_of({"b": small}, effect=0.5, optimum=True).reached


def test_another_rate_is_judged_by_the_seeds_that_have_it() -> None:
    spread = [Training(seed, 10, 0.01, 1.0 + 0.01 * seed) for seed in range(4)]
    longer = [Training(3, 20, 0.01, 1.03)]
    rates = [Training(3, 10, 0.003, 1.2), Training(3, 10, 0.03, 0.97)]  # better than seed 3, and than all others
    assert not plateau_of({"a": spread + longer + rates}, effect=0.5).reached
    rates[1] = Training(3, 10, 0.03, 1.01)  # worse than seed 0, better than its own by less than a tenth of the effect
    assert plateau_of({"a": spread + longer + rates}, effect=0.5).reached
    rates[1] = Training(9, 10, 0.03, 1.01)  # of a seed that stands alone
    assert plateau_of({"a": spread + longer + rates}, effect=0.5).reason == UNMET


def test_a_training_that_diverged_is_no_whole_one() -> None:
    complete = trainings(doubled=1.001, other=1.1)
    lost = [run._replace(whole=run.epochs != 20) for run in complete]
    assert plateau_of({"a": complete}, effect=0.5).reached
    assert plateau_of({"a": lost}, effect=0.5).reason == UNMET  # what it reached by then, 1.001, is not its end
    assert plateau_of({"a": [*lost, Training(0, 20, 0.01, 1.001, 1)]}, effect=0.5).reached  # of another seed
    of_seeds = [run._replace(whole=run.seed != 2) for run in complete]
    assert plateau_of({"a": of_seeds}, effect=0.5).sentence == "a: 2 of 3 seeds have ended"
    fourth = [*complete, Training(9, 10, 0.01, 5.0, 1, False)]
    assert plateau_of({"a": fourth}, effect=0.5).sentence == "a: 3 of 4 seeds have ended"
    assert near_optimum({"a": [0.05, 0.06, np.nan, 0.04]}).sentence == "a: 3 of 4 seeds have a known excess"
    by_rate = [run._replace(whole=run.rate != 0.03) for run in complete]
    assert plateau_of({"a": by_rate}, effect=0.5).reached  # another rate that diverges is not the better one
    near = [run._replace(loss=0.01, whole=False) for run in complete]
    assert plateau_of({"a": near}, effect=0.5, optimum=True).reached


def test_effects_and_other_trainings_belong_to_their_network() -> None:
    one, two = trainings(doubled=1.001, other=1.1), trainings(loss=3.0, doubled=3.02, other=3.3)
    assert plateau_of({"a": one, "b": two}, effect={"a": 0.5, "b": 5.0}).reached
    assert plateau_of({"a": one, "b": two}, effect={"a": 0.5, "b": 0.05}).sentence.startswith("b: a longer training")
    assert plateau_of({"a": one, "b": two}, effect={"a": 0.5}).sentence == "b: there is no effect to compare with"
    beaten = plateau_of({"a": one, "b": two}, effect=0.5, others={"b": {"slow modes": 2.5}})
    assert beaten.reason == UNCONVERGED and "slow modes gains 0.5" in beaten.sentence


def test_the_usual_budget_is_that_of_most_runs_and_of_several_the_longest() -> None:
    assert usual_budget(trainings(seeds=3, doubled=1.0, other=1.0)) == (10, 0.01)
    assert usual_budget(trainings(seeds=1, doubled=1.0)) == (20, 0.01)
    with pytest.raises(ValueError, match="at least one training is needed"):
        usual_budget([])


def test_a_budget_that_is_not_the_usual_one_is_judged_by_itself() -> None:
    shorter = trainings(doubled=1.001, other=1.1)
    longer = [Training(seed, 20, 0.01, 1.0 + 0.001 * seed, 1) for seed in range(3)]
    runs = {"a": [*shorter, *longer[:1], longer[2]]}  # as many at both budgets: the longer ones are the usual ones
    assert plateau_of(runs, effect=0.5).reason == UNMET and plateau_of(runs, effect=0.5, budget=(10, 0.01)).reached
    assert plateau_of(runs, effect=0.5, budget=(20, 0.01)) == plateau_of(runs, effect=0.5)
    missing = plateau_of(runs, effect=0.5, budget=(40, 0.01))
    assert missing.reason == UNMET and missing.sentence == "a: 0 of 3 seeds have ended"
    beaten = {"a": [*runs["a"][:-2], *(run._replace(loss=0.5) for run in runs["a"][-2:])]}
    assert plateau_of(beaten, effect=0.5, budget=(10, 0.01)).reason == UNCONVERGED


def test_what_there_is_nothing_to_compare_with_is_undecided() -> None:
    assert plateau_of({}, effect=1.0) == Plateau(False, UNMET, "there is no network to judge")
    assert plateau_of({"a": trainings(doubled=1.0, other=1.1)}, effect=None).reason == UNMET


def test_records_of_several_versions_are_joined_by_no_gate() -> None:
    for networks in ({"a": trainings() + trainings(version=2)}, {"a": trainings(), "b": trainings(version=2)}):
        with pytest.raises(ValueError, match=r"records of several versions, got \[1, 2\]"):
            plateau_of(networks, effect=1.0)
