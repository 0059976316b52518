"""Which trainings on binary sequences may speak for an architecture, and what their tails say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.binary_sequences.figures import draw_courses
from experiments.binary_sequences.plateaus import SYMBOLS, Trainings, best_starts, gate, lengthened, missing, trainings
from experiments.binary_sequences.run import group_lags
from experiments.binary_sequences.runs import Network, TrainedRun
from experiments.binary_sequences.seed_tables import Laws
from experiments.binary_sequences.tables import beginning_table, budget_table, excess_table, gate_table
from lib.information.intervals import Interval
from lib.report.gate import Training
from lib.report.verdicts import judge
from tests.experiments.binary_sequences.fake_records import Curve, exponential, power_law, record

OPTIMUM = Interval(0.499, 0.4989, 0.4991)
PLAN = {"learning_rate": 0.01, "epochs": 30, "batch": 25}
RNN = Network("rnn", 8)


def trained(
    excess: Sequence[float], seeds: Sequence[int] | None = None, width: int = 8, **changes: Any
) -> list[dict[str, Any]]:
    """Records whose best losses lie so many nats per sequence above the optimum."""
    start = changes.pop("start", None)
    options = {"start": start, "longest": 300} if start else {}
    return [
        record(
            exponential(20),
            width=width,
            seed=seed,
            loss=OPTIMUM.value + nats / SYMBOLS,
            options=options,
            fit=PLAN | changes,
        )
        for seed, nats in zip(seeds or range(len(excess)), excess, strict=True)
    ]


def settled(
    excess: float = 0.5, longer: float = 0.49, slower: float = 0.52, faster: float = 0.51
) -> list[dict[str, Any]]:
    """Five seeds above what passes by itself, with everything that the gate asks for."""
    return [
        *trained([excess + 0.005 * seed for seed in range(5)]),
        *trained([longer], epochs=60),
        *trained([slower], learning_rate=0.0033),
        *trained([faster], learning_rate=0.03),
    ]


def verdict_of(records: list[dict[str, Any]]) -> tuple[bool, str]:
    way = gate(trainings(records), [RNN], OPTIMUM)
    return way.reached, way.reason


def test_networks_at_the_optimum_pass_and_those_that_nothing_improves_do_too() -> None:
    assert verdict_of(trained([0.02, 0.05, 0.09])) == (True, "")
    assert verdict_of(settled()) == (True, "")


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (trained([170.0, 171.0, 169.0, 170.0, 172.0]), "precondition not met"),  # untrained, with nothing beside it
        (settled(excess=5.0, longer=0.5, slower=6.0, faster=4.0), "not converged"),  # a tenth of the budget
        (settled(longer=0.3), "not converged"),
        (settled(faster=0.3), "not converged"),
        (settled(slower=0.3), "not converged"),
        (settled() + trained([0.2, 0.2, 0.2], start="slow"), "not converged"),  # another start is better
        (trained([0.5, 0.5, 0.5, 0.5, 0.9], range(5)) + settled()[5:], "seeds disagree"),  # one stuck seed
        (trained([0.02, 0.02]), "precondition not met"),  # two seeds
        (settled()[:5], "precondition not met"),
        ([], "precondition not met"),
    ],
)
def test_what_did_not_end_decides_nothing(
    records: list[dict[str, Any]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict_of(records) == (False, reason)
    said: list[dict[str, Any]] = []
    monkeypatch.setattr("lib.report.claims.undecided", lambda claim, **told: said.append(told))
    plateau = gate(trainings(records), [RNN], OPTIMUM)
    for numbers in ([1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]):  # whichever way they point
        found = judge(
            "shen-fig1a",
            numbers,
            at_most=0,
            part="p",
            explanation="e",
            profile="laptop",
            condition="to plateau",
            plateau=plateau,
        )
        assert found == "undecided"
    assert [told["reason"] for told in said] == [reason, reason]


def test_the_sentence_says_what_is_missing_and_names_no_other_bound() -> None:
    few = gate(trainings(trained([2.8, 2.75, 2.79])), [RNN], OPTIMUM)
    assert few.sentence == "RNN 8, nats per sequence: no run at twice the budget stands beside these seeds"
    assert gate(trainings(trained([0.2, 0.02, 0.02])), [RNN], OPTIMUM).reached is False
    assert gate({}, [RNN], OPTIMUM).sentence == "RNN 8: no training is recorded"
    assert gate({}, [], OPTIMUM).reason == "precondition not met"


def test_the_budget_is_that_of_most_seeds_and_the_better_start_counts() -> None:
    found = trainings(settled() + trained([0.2, 0.3, 0.25], start="slow") + trained([0.1, 0.1, 0.1], width=2))
    assert [run.seed for run in found[RNN].seeds] == [0, 1, 2, 3, 4]
    chosen = best_starts(found, "rnn")
    assert list(chosen) == [Network("rnn", 2), Network("rnn", 8, 1, "slow")]
    assert missing("rnn", "width", 4, chosen) == [Network("rnn", 4)] and not missing("rnn", "width", 8, chosen)
    assert "| to plateau | RNN 8, slow | 3 | 3 | 0.2 to 0.3 |" in excess_table(
        {"to plateau": {"rnn": chosen}}, OPTIMUM.value
    )
    assert "no, seeds disagree" in gate_table({RNN: gate(found, [RNN], OPTIMUM)}) or "no, not converged" in gate_table(
        {RNN: gate(found, [RNN], OPTIMUM)}
    )


def test_of_two_methods_the_better_one_counts_whatever_its_number_of_passes() -> None:
    first, newton = settled(), {"epochs": 6, "newton": 9}
    better, worse, few = (trained([0.5 + away + 0.005 * seed for seed in range(seeds)], **newton)
                          for away, seeds in ((-0.2, 5), (0.2, 5), (-0.2, 2)))  # fmt: skip
    assert [run.second_order for run in trainings(first + better)[RNN].seeds] == [True] * 5
    assert [run.second_order for run in trainings(first + worse)[RNN].seeds] == [False] * 5
    assert [run.second_order for run in trainings(first + few)[RNN].seeds] == [False] * 5
    assert verdict_of(first + worse) == verdict_of(first + few) == (True, "")  # nothing of the others is mixed in
    assert verdict_of(first + better) == (False, "precondition not met")  # no run at twice that budget
    ended = [*trained([0.305], epochs=12, newton=18), *trained([0.32], learning_rate=0.0033, **newton),
             *trained([0.31], learning_rate=0.03, **newton)]  # fmt: skip
    assert verdict_of(first + better + ended) == (True, "")
    assert verdict_of(first[5:] + few) == verdict_of([*first[5:], *few][::-1])  # neither has three seeds: all count


def test_a_table_tells_where_steps_of_second_order_began_and_what_they_left() -> None:
    late, early = (trained([left] * 3, epochs=epochs, newton=9) for left, epochs in ((0.3, 6), (0.02, 3)))
    for one in late:
        one["result"]["training_losses"] = [OPTIMUM.value + 1.25 / SYMBOLS]
    few, adam = trained([0.1, 0.1], epochs=4, newton=9), trained([0.1] * 5)
    told = beginning_table(trainings(late + early + few + adam)[RNN], OPTIMUM.value).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in told]
    assert [row[:4] for row in cells] == [["3", "0.01", "9", "3"], ["6", "0.01", "9", "3"]]
    assert [row[5] for row in cells] == ["0.02", "0.3"] and cells[1][6] == "1.25"


def test_a_longer_budget_stands_beside_the_longest_that_is_at_most_half_of_it_at_the_same_rate() -> None:
    beside = [*trained([0.2], epochs=15), *trained([0.4], epochs=59), *trained([0.1], epochs=120, learning_rate=0.03)]
    found = trainings([*trained([0.5, 0.6, 0.7]), *trained([0.3, 0.2], seeds=[0, 2], epochs=60), *beside])
    pairs = lengthened(found[RNN])
    assert pairs is not None and pairs[0] == (30, 60)
    assert [(short.seed, long.seed) for short, long in pairs[1]] == [(0, 0), (2, 2)]
    (row,) = budget_table(found, OPTIMUM.value).splitlines()[2:]
    assert "| 30\u00a0→\u00a060 | 2 | 0.5 → 0.3, 0.7 → 0.2 |" in row and row.count("20 → 20") == 2
    for alone in (trained([0.5, 0.6, 0.7]), trained([0.5, 0.6, 0.7]) + trained([0.1], seeds=[3], epochs=60)):
        assert lengthened(trainings(alone)[RNN]) is None and not budget_table(trainings(alone), 0.5).splitlines()[2:]
    assert lengthened(Trainings({})) is None


def with_tail(curve: Curve, noise: float = 0.01, last: int = 4096) -> TrainedRun:
    made = record(exponential(20))
    lags = group_lags(last, 96)
    scatter = np.exp(noise * np.random.default_rng(0).standard_normal((10, 1)))
    made["result"] |= {
        "long_lags": lags.tolist(),
        "long_information": curve(lags).tolist(),
        "long_information_by_group": (curve(lags) * scatter).tolist(),
    }
    return TrainedRun(RNN, 0, made["result"])


def test_the_tail_tells_the_laws_apart_whatever_came_before_it() -> None:
    def bends(lags: np.ndarray) -> np.ndarray:  # a power law for two decades, then an exponential
        return 0.1 * lags**-0.4 * np.exp(-np.maximum(lags - 300, 0) / 80)

    assert with_tail(exponential(60)).tail_sign == -1
    assert with_tail(exponential(60)).tail_length == pytest.approx(60)
    assert with_tail(bends).tail_length == pytest.approx(80, rel=0.1)
    assert with_tail(power_law(1.2)).tail_sign == 1
    assert with_tail(bends).tail_sign == -1
    assert with_tail(power_law(0.4)).tail_sign == 1
    assert np.isnan(with_tail(power_law(0.2)).tail_sign)  # never below a hundredth of a nat
    assert np.isnan(TrainedRun(RNN, 0, record(exponential(20))["result"]).tail_sign)  # nothing longer was generated
    table = Laws("rnn", [8, 16], tail=True)({"rnn": {RNN: [with_tail(exponential(60))]}}, 1)
    assert table[0].tolist() == [-1, -1] and np.isnan(table[1]).all()


def test_the_tail_ends_where_the_groups_no_longer_agree() -> None:
    run = with_tail(exponential(60))
    curve = np.array(run.result["long_information"])
    noise = 1e-4 * np.random.default_rng(1).standard_normal((10, curve.size))
    noisy = TrainedRun(RNN, 0, run.result | {"long_information_by_group": (curve + noise).tolist()})
    resolved = np.count_nonzero(curve > 4 * 1e-4 / np.sqrt(10))
    assert run.tail_points.start == noisy.tail_points.start == np.count_nonzero(curve >= 1e-2)
    assert abs(noisy.tail_points.stop - resolved) <= 3 < run.tail_points.stop - resolved
    assert noisy.tail_sign == -1
    blurred = TrainedRun(RNN, 0, run.result | {"long_information_by_group": (curve * (1 + 1e5 * noise)).tolist()})
    assert blurred.tail == () and np.isnan(blurred.tail_sign)


def test_a_comparison_without_power_counts_for_nothing() -> None:
    sharp, blurred = (trainings([record(power_law(), noise=noise, fit=PLAN)])[RNN].seeds for noise in (0.01, 1.0))
    laws = Laws("rnn", [8], widest=0.5)
    assert laws({"rnn": {RNN: sharp}}, 1)[0, 0] == 1
    assert np.isnan(laws({"rnn": {RNN: blurred}}, 1)[0, 0])


def test_courses_are_told_apart_by_their_method_and_never_rise() -> None:
    plain = TrainedRun(RNN, 0, {"validation_losses": [0.7, 0.8, 0.6], "training_seconds": 6.0})
    second = TrainedRun(RNN, 1, {"validation_losses": [0.7, 0.55], "training_seconds": 2.0}, steps=1)
    tried = Trainings({Training(0, 3, 0.1, 0.6): plain, Training(1, 2, 0.1, 0.55): second})
    figure, axes = plt.subplots()
    draw_courses(axes, tried, 0.5)
    lines = {line.get_label(): line for line in axes.get_lines()[:2]}
    assert list(lines) == ["Adam", "Adam, then second order"]
    assert np.allclose(lines["Adam"].get_xdata(), [2, 4, 6])
    assert np.allclose(lines["Adam"].get_ydata(), np.array([0.2, 0.2, 0.1]) * 511)
    assert np.allclose(lines["Adam, then second order"].get_ydata(), np.array([0.2, 0.05]) * 511)
    plt.close(figure)
