"""Networks after several budgets: rungs, pairs that are alike early, and what the judged statements make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.books import figures, ladder
from experiments.books.contrasts import judge_contrasts
from experiments.books.runs import BookRun, Network, at_equal_tokens, of_networks, usual_budget
from experiments.books.statements import NEAR, Comparisons
from lib.report.verdicts import UNCONVERGED, UNMET
from tests.experiments.books.fake_records import falling, runs_of

BUDGETS, RATE = (3, 6, 12, 24), ladder.RATE
TOKENS = ("1.2", "2.5", "4.9", "9.8")  # millions, in 200 steps of 2048 an epoch
Law = Callable[[int], Any]


def trained(law: Law, architecture: str, budgets: tuple[int, ...] = BUDGETS, seeds: int = 3) -> list[BookRun]:
    """Runs after every budget, law(epochs) by tokens seen, and at a third of the rate after the third of them."""
    depth, marked = (2, {"positions": "rotary"}) if architecture == "transformer" else (4, {})
    fits = [{"epochs": epochs, "learning_rate": RATE, "batch": 2} for epochs in budgets]
    other = {"epochs": budgets[2], "learning_rate": RATE / 3, "batch": 2}
    runs = [
        run
        for fit in fits
        for run in runs_of(law(fit["epochs"]), architecture, depth, seeds=seeds, noise=0.0005, fit=fit, **marked)
    ]
    return [*runs, *runs_of(falling(7.0, 0.0), architecture, depth, seeds=1, fit=other, **marked)]


def both(gain: float, apart: float = 0.0) -> list[BookRun]:
    """A Transformer that gains more per factor e than the Mamba, alike early but for `apart`, with twice its tokens."""
    middle = np.log(40.0)

    def law(level: float, slope: float) -> Any:
        return falling(level + slope * middle, -slope)

    transformer = trained(lambda epochs: law(4.5 - 0.1 * np.log2(epochs) + apart, 0.05 + gain), "transformer")
    return transformer + trained(lambda epochs: law(4.5 - 0.1 * np.log2(2 * epochs), 0.05), "mamba")


def ladders(runs: list[BookRun]) -> list[dict[Network, list[BookRun]]]:
    return [ladder.rungs(runs, network) for network in (ladder.ROTARY, ladder.MAMBA)]


def test_rungs_are_budgets_at_one_rate_shortest_first():
    steps = ladders(both(0.02))
    assert [str(rung) for rung in steps[0]][:2] == [
        "Transformer 2×64, rotary positions, 1.2 million tokens",
        "Transformer 2×64, rotary positions, 2.5 million tokens",
    ]
    assert [str(rung) for rung in steps[1]] == [f"Mamba 4×64, {tokens} million tokens" for tokens in TOKENS]
    assert all(len(runs) == 3 and runs[0].network == rung for of in steps for rung, runs in of.items())
    assert ladder.rungs([], ladder.MAMBA) == {} == ladder.rungs(both(0.02), Network("lstm", 1, 64))


def test_pairs_that_are_alike_early_are_found_and_others_are_left_out():
    steps = ladders(both(0.02))
    found = [(one.variant.split(", ")[-1], other.variant) for one, other in ladder.equal_early(*steps)]
    assert found == [(f"{one} million tokens", f"{half} million tokens") for half, one in pairwise(TOKENS)]
    assert len(ladder.equal_tokens(*steps)) == len(BUDGETS)
    assert ladder.equal_early(*ladders(both(0.02, apart=NEAR + 0.02))) != ladder.equal_early(*steps)
    few = [run for run in both(0.02) if run.seed < 2]
    assert (
        ladder.equal_early(*ladders(few)) == [] == ladder.equal_early({}, steps[1]) == ladder.equal_early(steps[0], {})
    )


@pytest.mark.parametrize(("gain", "outcome"), [(0.02, "agrees"), (-0.02, "differs"), (0.0, "undecided")])
def test_the_gain_at_equal_early_loss_is_judged_by_all_pairs(gain: float, outcome: str):
    steps = ladders(both(gain))
    compared = Comparisons(steps[0] | steps[1], 300)
    cases = compared.of("gain", ladder.equal_early(*steps))
    assert len(cases) == 3
    assert judge_contrasts("l2m-fig5", cases, part="a", at_least=0, explanation="Mamba gains") == outcome
    for case in cases.values():
        assert case.low - 0.01 < gain * np.log(np.exp(np.log(np.arange(513, 1025)).mean()) / 37) < case.high + 0.01


def test_what_is_compared_has_equal_tokens_and_the_gate_sees_all_trainings():
    runs = both(0.02) + runs_of(falling(4.0, -0.1), "lstm", 1, fit={"epochs": 7, "batch": 2})
    more = runs + runs_of(falling(4.0, -0.1), "mamba", 8, fit={"epochs": 12, "learning_rate": RATE, "batch": 2})
    assert usual_budget(more) == (12, RATE) != usual_budget(runs)  # of equal numbers the longest counts
    kept = at_equal_tokens(more)
    assert {run.budget[0] for run in kept if run.network in (ladder.ROTARY, ladder.MAMBA)} == {12}
    assert {run.budget[0] for run in kept if run.network.architecture == "lstm"} == {7}  # it has no other
    compared, pair = Comparisons(of_networks(more, variant=None), 200), [(ladder.ROTARY, ladder.MAMBA)]
    assert all(len(compared.networks[network]) == 3 for network in pair[0])
    assert compared.plateau("late", pair).reason == UNMET  # no larger rate
    faster = [
        replace(run, parameters={**run.parameters, "fit": {**run.parameters["fit"], "learning_rate": 3 * RATE}})
        for run in more
        if run.budget == (12, RATE / 3)
    ]
    gate = ladder.faster([*more, *faster], 200, 0).plateau("late", pair)
    assert gate.reason == UNCONVERGED and "a longer training moves the loss by -0.1" in gate.sentence
    with pytest.raises(ValueError, match="at least one"):
        usual_budget([])
    assert at_equal_tokens([]) == []
    slow = runs_of(falling(4.0, -0.1), "mamba", 4, fit={"epochs": 12, "learning_rate": RATE / 9, "batch": 2}, seeds=12)
    assert usual_budget([*more, *slow]) == (12, RATE / 9)
    assert {run.budget for run in ladder.faster([*more, *slow], 200, 0).networks[ladder.MAMBA]} == {(12, RATE)}


def test_tables_and_the_figure_have_a_line_for_every_rung():
    steps = ladders(both(0.02))
    compared = Comparisons(steps[0] | steps[1], 100)
    text = ladder.rung_table(compared)
    assert len(text.splitlines()) == 2 + 2 * len(BUDGETS) and all(f"{tokens} million" in text for tokens in TOKENS)
    assert len(ladder.gain_table(compared, ladder.equal_tokens(*steps)).splitlines()) == 2 + len(BUDGETS)
    figure, axes = plt.subplots()
    figures.draw_equal_early(axes, [*steps, {}])
    assert sorted(len(line.get_xdata()) for line in axes.lines) == [4, 4, 12, 12]
    plt.close(figure)


def test_runs_of_more_windows_a_step_are_rungs_by_their_tokens():
    longer = {"epochs": 6, "learning_rate": RATE, "batch": 8}  # as many epochs as others, four times the tokens
    runs = [*both(0.02), *runs_of(falling(3.0, -0.2), "mamba", 4, seeds=3, fit=longer)]
    steps = ladders(runs)
    assert [len(each) for each in steps[1].values()] == [3, 3, 3, 6]  # 6 epochs of 8 windows are 24 of 2
    assert [rung.variant for rung in steps[1]] == [f"{tokens} million tokens" for tokens in TOKENS]
    assert [one.variant.split(", ")[-1] for one, _ in ladder.equal_tokens(*steps)] == [one.variant for one in steps[1]]
