"""Tables, sentences and figures of the chapter: right for nothing, for a few networks and for all."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.recall import figures, tables
from experiments.recall.inside import figures as inner_figures
from experiments.recall.inside import tables as inner_tables
from lib.models.catalogue import NAMES
from tests.experiments.recall.fake_records import cell, gradients, runs

LSTM = [cell("lstm", 500, updates=15000, rate=rate) for rate in (0.0002, 0.001)]
REL = cell("rel_rnn", success=[3000, 3250, 3000])
FIRST = {"options": {"select": "first"}}


def row(table: str, name: str) -> list[str]:
    (found,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [part.strip() for part in found.split("|")[2:-1]]


def test_without_records_every_table_and_sentence_says_so() -> None:
    assert tables.answer([], []).count("not yet") >= 6 and "solved" not in tables.answer([], [])
    assert row(tables.table_of_accuracies([]), "LSTM")[3] == "not yet / 12"
    assert row(tables.table_of_accuracies([]), "MemRNN")[-1] == "not yet / OOM"
    assert set(row(tables.table_of_updates([], ["goru"]), "GORU")) == {"not yet"}
    assert row(tables.table_of_trainings([], ["sab"]), "SAB") == ["not yet"] * 5
    for table in (tables.table_of_choices([], []), tables.table_of_transfer([]), inner_tables.table_of_slopes([])):
        assert "not yet" in table


def test_an_answer_tells_solved_from_failed_and_from_missing() -> None:
    found = tables.answer(runs(REL, *LSTM, cell("exp_rnn", success=1500, seeds=2)), [])
    copied = found.splitlines()[0]
    solved, some, none, missing = copied.split(";")
    assert "RelRNN (T = 100)" in solved and "LSTM" not in solved and "expRNN" not in solved
    assert "LSTM (T = 500: 0 of 3 seeds)" in none and "expRNN (T = 100: 2 of 2 seeds)" in some
    assert "SAB" in missing and "RelRNN" not in missing


def test_numbers_stand_beside_the_printed_ones() -> None:
    everything = runs(REL, *LSTM, cell("exp_rnn", success=1500, seeds=1))
    table = tables.table_of_accuracies(everything)
    assert row(table, "RelRNN")[:2] == ["99.5 / 100", "not yet / 100"]
    assert row(table, "LSTM")[3] == "12.5 / 12"
    assert row(table, "expRNN")[0] == "99.5 (1 of 3 seeds) / 100"
    updates = tables.table_of_updates(everything, tables.COPIERS)
    assert row(updates, "RelRNN")[0] == "3000 to 3250"
    assert row(updates, "LSTM")[3] == "not in 15000 (0 of 3 seeds)"
    assert row(tables.table_of_tasks({"copy": everything, "denoise": []}, ["rel_rnn"], 100), "RelRNN") == [
        "3000 to 3250",
        "not yet",
    ]
    part = runs(cell("rel_rnn", success=[3000, None, 3250]))
    assert row(tables.table_of_updates(part, ["rel_rnn"]), "RelRNN")[0] == "3000 to 3250 (2 of 3 seeds)"


def test_a_diverged_training_has_no_number() -> None:
    assert tables.accuracy_told(runs(cell("lstm", updates=0))) == "diverged"


def test_lost_trainings_are_counted_and_left_out_of_the_mean() -> None:
    lost = {"validation_losses": [0.02, 9.0, 0.02, 7e17]}
    some = cell("orth_rnn", 1000, updates=1000, accuracy=[0.0, 0.676, 0.1], inside=[lost, {}, lost])
    assert tables.accuracy_told(runs(some)) == "67.6 (2 of 3 seeds lost)"
    assert tables.accuracy_told(runs(some[:2])) == "67.6 (2 of 3 seeds; 1 of 2 seeds lost)"
    assert tables.accuracy_told(runs(cell("orth_rnn", 1000, inside=lost))) == "diverged (3 of 3 seeds lost)"
    assert row(tables.table_of_accuracies(runs(some)), "orth-RNN")[4] == "67.6 (2 of 3 seeds lost) / 80"
    # negative control: a training that fell back within bounds is no lost one
    back = cell("orth_rnn", 1000, updates=1000, accuracy=0.3, inside={"validation_losses": [0.02, 0.001, 0.02, 0.02]})
    assert tables.accuracy_told(runs(back)) == "30.0"


def test_trainings_that_large_gradients_end_are_told_from_those_that_only_fail() -> None:
    stuck = cell("orth_rnn", 1000, updates=1000, inside={"validation_losses": [0.02, 9.0, 0.02, 7e17]})
    back = cell("orth_rnn", 300, updates=1000, inside={"validation_losses": [0.02, 99.0, 0.02, 0.01]})
    reason = "diverged: losses nan and nan in epoch 3, after a gradient of norm 4e+18"
    broken = cell("rel_rnn", 500, updates=500, inside={"reason": reason})
    told = tables.explosions(runs(stuck, back, broken, REL, LSTM[0])).splitlines()
    assert len(told) == 6 and not any("T = 300" in line for line in told)
    recipe = "rmsprop 0.0002 modrelu"
    assert told[0].endswith(f"orth-RNN, copy, T = 1000, {recipe}, seed 0: 750 updates; then loss 7e+17 nats per step")
    assert told[3].endswith(f"RelRNN, copy, T = 500, adam 0.001 tanh, seed 0: 500 updates; {reason}")
    half = cell("rel_rnn", 500, updates=500, rate=0.0005, inside={"reason": reason})
    both = tables.explosions(runs(broken, half)).splitlines()
    assert len(set(both)) == 6 and sum("adam 0.0005" in line for line in both) == 3
    assert tables.explosions(runs(back, REL)).startswith("No recorded training")


def test_every_training_has_a_line_with_its_recipe() -> None:
    lines = tables.table_of_trainings(runs(*LSTM, REL), ["lstm", "rel_rnn", "sab"]).splitlines()[2:]
    assert len(lines) == 4 and "adam 0.0002, as printed" in lines[0] and "as printed" not in lines[1]
    assert "0 of 3 seeds succeed; 3 of the others stand still" in lines[0]
    assert lines[2].endswith("3 of 3 seeds succeed |")
    back = cell("lstm", 500, updates=15000, falling=-0.5)
    assert "0 of the others stand still" in tables.table_of_trainings(runs(back), ["lstm"])


def test_first_come_solves_copy_and_not_denoise() -> None:
    copying = runs(REL, cell("rel_rnn", success=2000, **FIRST))
    denoised = cell("rel_rnn", task="denoise", success=5000)
    failing = cell("rel_rnn", task="denoise", updates=9000, accuracy=0.4, **FIRST)
    told = tables.choice(copying, runs(denoised, failing))
    assert told.endswith("on denoise screening learns in at most 5000 updates what first come has not learned in 9000.")
    printed = cell("rel_rnn", task="denoise", updates=15000, accuracy=0.4, rate=0.0002, **FIRST)
    waited = runs(denoised, cell("rel_rnn", task="denoise", updates=15000, accuracy=0.4, **FIRST), printed)
    told = tables.choice(copying, waited)
    assert told.endswith("copy does not tell screening from first come, and denoise does.")
    # negative controls: first come solves denoise too; screening does not; first come does not copy
    other = runs(denoised, cell("rel_rnn", task="denoise", success=5000, **FIRST))
    assert "denoise does not show a difference" in tables.choice(copying, other)
    assert "denoise does not show" in tables.choice(copying, runs(cell("rel_rnn", task="denoise"), failing))
    without = runs(REL, cell("rel_rnn", updates=4500, **FIRST))
    assert "not solved by what comes first" in tables.choice(without, runs(denoised, failing))
    # and nothing is concluded from two seeds, or from one task
    few = runs(denoised, failing[:2])
    assert "So" not in tables.choice(copying, few) and "So" not in tables.choice(copying, [])
    table = tables.table_of_choices(copying, runs(denoised, failing))
    assert row(table, "first come, never replaced") == ["20", "99.5; 3 of 3 seeds", "40.0; 0 of 3 seeds"]
    assert row(table, "replaced at random") == ["20", "not yet", "not yet"]


def test_every_control_of_the_sweeps_has_a_name() -> None:
    from experiments.recall.runs import RecallRun
    from lib.runs.definition import Experiment

    for name in ("kerg-copy", "kerg-denoise"):
        planned = [RecallRun(run.parameters, run.seed, {}) for run in Experiment(name).runs("laptop")]
        assert {run.variant for run in planned if run.architecture == "rel_rnn"} <= {*tables.RULES, *tables.SIZES}


def test_longer_delays_are_those_of_networks_that_learnt() -> None:
    def tested(right):
        return {"transfer": {"200": {"accuracy": right, "loss": 1.0}, "500": {"accuracy": None, "loss": None}}}

    table = tables.table_of_transfer(
        runs(
            cell("rel_rnn", success=3000, inside=[tested(0.5), tested(0.7), tested(0.6)]),
            cell("lstm", inside=tested(1)),
        )
    )
    assert row(table, "RelRNN") == ["100", "50 to 70", "–"] and "LSTM" not in table


def test_slopes_before_and_after_training() -> None:
    record = cell("rel_lstm", 400, options={"buffer": 15, "relevant": 3}, inside=gradients(lambda d: -0.02 * d, 420))
    assert row(inner_tables.table_of_slopes(runs(record)), "RelLSTM")[:4] == ["15", "3", "0.00", "-2.00"]
    other = cell("rel_lstm", 400, options={"buffer": 3, "relevant": 15}, inside=gradients(lambda d: -0.05 * d, 420))
    steeper = cell("lstm", 400, seeds=1, inside=gradients(lambda d: -0.04 * d, 420))
    control = cell("lstm", 400, inside=gradients(lambda d: -0.03 * d, 420))
    lines = inner_tables.table_of_slopes(runs(record, other, control, steeper)).splitlines()[2:]
    assert [[part.strip() for part in line.split("|")[1:6]] for line in lines] == [
        ["RelLSTM", "3", "15", "0.00", "-5.00"],
        ["RelLSTM", "15", "3", "0.00", "-2.00"],
        ["LSTM", "–", "–", "0.00", "-4.00 to -3.00"],
    ]
    told = inner_tables.answer([], runs(record, other)).splitlines()[-1]
    assert "untrained 0.0 (set of 3); trained -2.0 (set of 3)." in told
    _, axes = plt.subplots()
    inner_figures.draw_gradients(axes, runs(record), buffer=15)
    assert len(axes.get_lines()) == 3 and axes.get_legend().get_texts()[0].get_text() == "3"
    _, other = plt.subplots()
    inner_figures.draw_gradients(other, runs(record), relevant=15)
    assert not other.get_lines()
    plt.close("all")


def test_courses_are_losses_over_that_without_memory() -> None:
    _, axes = plt.subplots()
    figures.draw_courses(axes, runs(REL, cell("rel_rnn", 200, success=4000)))
    grey, first, *_ = axes.get_lines()
    assert len(axes.get_lines()) == 7 and set(grey.get_ydata()) == {1.0}
    assert first.get_xdata()[[0, -1]].tolist() == [250, 3000]
    assert first.get_ydata()[0] == pytest.approx(0.2 / (10 * np.log(8) / 120))
    _, lost = plt.subplots()
    figures.draw_courses(lost, runs(cell("orth_rnn", 1000, inside={"validation_losses": [0.02, 1e-4, 7e17]})))
    low, high = lost.get_ylim()
    assert low < 1e-4 / (10 * np.log(8) / 1020) and high == figures.HIGHEST, "one lost training hides no other"
    _, empty = plt.subplots()
    figures.draw_courses(empty, [])
    assert len(empty.get_lines()) == 1 and empty.texts[0].get_text() == "not yet recorded"
    plt.close("all")


def test_the_attention_that_is_shown_is_that_of_the_network_itself_at_the_shortest_delay() -> None:
    seen = {"attention": {"on_each_symbol": np.eye(10).tolist(), "by_lag": [0.5, 0.25]}}
    inside = {"before": seen, "after": seen}
    control = cell("rel_rnn", success=3000, inside=inside, **FIRST)
    assert inner_figures.watched(runs(control, REL)) == []
    (run,) = inner_figures.watched(runs(control, cell("rel_rnn", 200, success=3000, inside=inside)))
    assert (run.delay, run.seed, run.variant) == (200, 0, "") and run.name == NAMES["rel_rnn"]
    _, (above, below) = plt.subplots(1, 2)
    assert np.array_equal(inner_figures.draw_attention(above, run).get_array(), np.eye(10))
    assert above.get_xlabel().startswith("place of the symbol\n")
    inner_figures.draw_lags(below, run)
    assert [line.get_ydata().tolist() for line in below.get_lines()] == [[0.5, 0.25]] * 2
    plt.close("all")
