"""Statements about networks on binary sequences: both conditions, the gate, and what one size alone can refute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.binary_sequences.plateaus import SYMBOLS, trainings
from experiments.binary_sequences.runs import trained_runs
from experiments.binary_sequences.seed_tables import Laws, factor_off_law, length_table, ratio_to_law
from experiments.binary_sequences.statements import Statements
from lib.information.intervals import Interval
from lib.processes import PowerLawBinary
from tests.experiments.binary_sequences.fake_records import Curve, exponential, power_law, record

OPTIMUM = Interval(0.499, 0.4989, 0.4991)
CODE = {"at_most": -1, "gap": 1.5, "explanation": "the power law is nearer"}


def trained(curve: Curve, width: int = 8, excess: float = 0.05, seeds: int = 3, **changes: Any) -> list[dict[str, Any]]:
    loss = OPTIMUM.value + excess / SYMBOLS
    return [record(curve, width=width, seed=seed, loss=loss, **changes) for seed in range(seeds)]


def verdicts(
    printed: list[dict[str, Any]], found: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], **changes: Any
) -> list[str]:
    """What is said of "every width: exponential" of RNNs of widths 8 and 16, as printed and to plateau."""
    statements = Statements(trained_runs(printed), trainings(found), OPTIMUM, ("rnn", "lstm"), "laptop")
    statements.say(
        "shen-fig1a",
        "every width: exponential",
        Laws("rnn", [8, 16]),
        ["rnn"],
        [8, 16],
        **CODE | changes,
    )
    said = capsys.readouterr().out.splitlines()
    assert "as printed" in said[0] and "to plateau" in said[-1]
    return [next(word for word in ("undecided", "reduced", "differs") if word in line) for line in said]


BENT, STRAIGHT = exponential(30), power_law()


def both(lags: np.ndarray) -> np.ndarray:
    """Nearer to an exponential if all lags count alike, nearer to a power law if short ones count most."""
    return 0.1 * lags**-0.45 * np.exp(-lags / 150)


def test_each_condition_has_a_verdict_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    short = trained(BENT, 8) + trained(BENT, 16)
    assert verdicts(short, short, capsys) == ["reduced", "reduced"]
    assert verdicts(short, trained(STRAIGHT, 8) + trained(STRAIGHT, 16), capsys) == ["reduced", "differs"]
    assert verdicts(short, [], capsys) == ["reduced", "undecided"]


def test_what_the_window_decides_is_a_remark_to_a_plateau_alone(capsys: pytest.CaptureFixture[str]) -> None:
    runs = trained(BENT, 8) + trained(BENT, 16)
    statements = Statements(trained_runs(runs), trainings(runs), OPTIMUM, ("rnn",), "laptop")
    for capped in (False, True):
        statements.say("shen-fig1a", "a", Laws("rnn", [8, 16]), ["rnn"], [8, 16], capped=capped, **CODE)
        printed, plateau = capsys.readouterr().out.splitlines()
        assert ("a remark" in plateau and "the window lets none grow" in plateau) == capped
        assert "a remark" not in printed and "window" not in printed


def lines_of(laws: Laws, capsys: pytest.CaptureFixture[str], *runs: dict[str, Any], **asked: Any) -> str:
    """What is said as printed of one statement about laws."""
    statements = Statements(trained_runs(runs), {}, OPTIMUM, (laws.architecture,), "laptop")
    named: dict[str, Any] = {"conditions": ["as printed"], **CODE, **asked}
    statements.say("shen-fig1a", "a", laws, [laws.architecture], laws.sizes, laws.axis, **named)
    return capsys.readouterr().out


def test_laws_that_contradict_each_other_are_no_interval_that_is_too_wide(capsys: pytest.CaptureFixture[str]) -> None:
    laws, sharp = Laws("rnn", [8, 16]), trained(both, 8) + trained(BENT, 16)
    said = lines_of(laws, capsys, *sharp)
    assert "comparisons disagree: 6 values in [-1, 0]" in said
    assert "in 3 of 6 runs the two comparisons name different laws" in said
    said = lines_of(laws, capsys, *trained(both, 8, noise=1.0), *trained(BENT, 16))
    assert "interval too wide: 6 values in [-1, 0]" in said and "the two comparisons" not in said
    mixed = [record(curve, seed=seed) for seed, curve in enumerate([BENT, both, both])] + trained(BENT, 16)
    assert "seeds disagree" in lines_of(laws, capsys, *mixed)
    assert "precondition not met" in lines_of(laws, capsys, *trained(both, 8))
    tailed = trained(BENT)
    for one in tailed:
        lags = np.array(one["result"]["group_lags"])
        groups = both(lags) / 10 / lags**0.25 * np.exp(0.01 * np.random.default_rng(0).standard_normal((10, 1)))
        one["result"] |= {"long_lags": lags.tolist(), "long_information": groups.mean(axis=0).tolist()}
        one["result"]["long_information_by_group"] = groups.tolist()
    assert "comparisons disagree" in lines_of(Laws("rnn", [8], tail=True), capsys, *tailed)
    assert "differs" not in lines_of(laws, capsys, *sharp, at_most=0, at_least=0)


@pytest.mark.parametrize(
    ("curve", "by_lags", "by_precision"),
    [(both, "reduced", "differs"), (BENT, "reduced", "reduced"), (STRAIGHT, "differs", "differs")],
)
def test_a_weighting_can_be_judged_by_itself(
    curve: Curve, by_lags: str, by_precision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = trained(curve, 8) + trained(BENT, 16)
    assert by_lags in lines_of(Laws("rnn", [8, 16], weighting="lags"), capsys, *runs)
    assert by_precision in lines_of(Laws("rnn", [8, 16], weighting="precision"), capsys, *runs)
    wide = trained(both, 8, noise=1.0) + trained(BENT, 16)
    assert "seeds disagree" in lines_of(Laws("rnn", [8, 16], weighting="lags"), capsys, *wide)


def test_runs_left_out_for_the_width_of_their_intervals_are_not_missing(capsys: pytest.CaptureFixture[str]) -> None:
    laws, neither = Laws("rnn", [8], widest=0.5), {"at_least": 0, "at_most": 0, "gap": 0.0}
    blurred = trained(STRAIGHT, noise=10.0)
    said = lines_of(laws, capsys, *blurred, **neither)
    assert "interval too wide" in said and "in 3 of 3 runs an interval is wider than 0.5" in said
    assert "too few seeds" not in said
    assert "precondition not met: the case has too few" in lines_of(laws, capsys, *blurred[:2], **neither)
    assert "differs" in lines_of(laws, capsys, *trained(STRAIGHT), **neither)
    assert "reduced" in lines_of(laws, capsys, *trained(both), **neither)


def test_almost_always_allows_one_size_to_be_otherwise_and_no_second(capsys: pytest.CaptureFixture[str]) -> None:
    law, sizes = PowerLawBinary(512).mutual_information(np.arange(1, 512)), [4, 8, 16]

    def times(factor: float) -> Curve:
        return lambda lags: factor * law[lags - 1]

    def said(*factors: float | list[float], excess: float = 0.05, to: str = "as printed") -> str:
        kind: dict[str, Any] = {"architecture": "lstm"}
        runs: list[dict[str, Any]] = []
        for width, own in zip(sizes, factors, strict=True):
            each = own if isinstance(own, list) else [own] * 3
            far = excess if width == 16 else 0.05
            runs += [trained(times(factor), width, far, **kind)[seed] for seed, factor in enumerate(each)]
        printed, found = (trained_runs(runs), {}) if to == "as printed" else ([], trainings(runs))
        Statements(printed, found, OPTIMUM, ("lstm",), "laptop").say(
            "shen-fig3a", "a", lambda nets, seeds: ratio_to_law(nets["lstm"], sizes, seeds, law, 1, 256), ["lstm"],
            sizes, conditions=[to], at_most=1, exceptions=1, explanation="not smaller",
        )  # fmt: skip
        return capsys.readouterr().out

    assert "reduced" in said(0.9, 0.9, 0.9) and "not at" not in said(0.9, 0.9, 0.9)
    assert "reduced" in said(0.9, 1.1, 0.9) and "not at width 8" in said(0.9, 1.1, 0.9)
    assert "reduced" in said(0.9, [0.9, 1.1, 0.9], 0.9)
    assert "differs" in said(0.9, 1.1, 1.1) and "at width 8, 16" in said(0.9, 1.1, 1.1)
    assert "undecided" in said(0.9, 1.1, [0.9, 1.1, 0.9])
    told = said(0.9, [0.9, 1.1, 0.9], [0.9, 1.1, 0.9])
    assert "seeds disagree" in told and "in every seed of all cases but 1, or outside in every seed of 2" in told
    plateau = "to plateau"
    assert "differs" in said(1.1, 1.1, 0.9, excess=2.0, to=plateau)  # two that count refute it
    assert "undecided" in said(0.9, 1.1, 1.1, excess=2.0, to=plateau)  # one alone does not
    assert "undecided" in said(0.9, 1.1, 0.9, excess=2.0, to=plateau)
    assert "reduced" in said(0.9, 1.1, 0.9, to=plateau)


def test_one_size_at_its_plateau_refutes_a_statement_about_all_and_confirms_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bent, far = trained(BENT, 8), trained(STRAIGHT, 16, excess=2.0)
    assert verdicts(bent, trained(STRAIGHT, 8) + far, capsys)[1] == "differs"
    assert verdicts(bent, trained(STRAIGHT, 8), capsys)[1] == "differs"  # width 16 has not run
    assert verdicts(bent, bent + trained(BENT, 16, excess=2.0), capsys)[1] == "undecided"
    assert verdicts(bent, bent, capsys)[1] == "undecided"


def test_an_undecided_statement_tells_what_the_sizes_say_that_reached_a_plateau(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(*found: list[dict[str, Any]]) -> str:
        statements = Statements([], trainings([run for runs in found for run in runs]), OPTIMUM, ("rnn",), "laptop")
        statements.say("shen-fig1a", "a", Laws("rnn", [8, 16]), ["rnn"], [8, 16], conditions=["to plateau"], **CODE)
        return capsys.readouterr().out

    far = trained(BENT, 16, excess=2.0)
    assert "no plateau at width 16: precondition not met; one at width 8, where the statement holds in every seed" in (
        said(trained(BENT, 8), far)
    )
    disagreeing = [record(curve, seed=seed, loss=OPTIMUM.value) for seed, curve in enumerate([BENT, STRAIGHT, BENT])]
    assert "one at width 8, where it is undecided too" in said(disagreeing, far)
    assert "at width 8; " in said(trained(STRAIGHT, 8), far)  # which one differs
    assert "at width 16; " in said(trained(BENT, 8), trained(STRAIGHT, 16))
    assert "at width" not in said(trained(BENT, 8), trained(BENT, 16))
    none = said(trained(BENT, 8, excess=2.0), far)
    assert "no plateau at width 8: precondition not met; width 16:" in none and "where" not in none


def test_a_statement_about_lstms_as_printed_is_refuted_only_by_both_readings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind: dict[str, Any] = {
        "architecture": "lstm",
        "fit": {"optimizer": "rmsprop", "learning_rate": 0.005, "clip": 0.25},
    }

    def said(zero: Curve, one: Curve) -> list[tuple[str, bool]]:
        runs = trained(zero, 8, **kind) + trained(one, 8, **kind, options={"forget_bias": 1.0})
        statements = Statements(trained_runs(runs), {}, OPTIMUM, ("lstm",), "laptop")
        numbers = Laws("lstm", [8])
        statements.say("shen-fig1b", "a", numbers, ["lstm"], [8], **CODE)
        lines = capsys.readouterr().out.splitlines()
        assert "a, as printed" in lines[0] and "a, as printed with forget bias 1" in lines[1] and "plateau" in lines[2]
        return [(next(word for word in ("reduced", "differs") if word in line), "remark" in line) for line in lines[:2]]

    assert said(BENT, BENT) == [("reduced", False)] * 2
    assert said(STRAIGHT, STRAIGHT) == [("differs", False)] * 2
    assert said(STRAIGHT, BENT) == [("differs", True), ("reduced", False)]
    assert said(BENT, STRAIGHT) == [("reduced", False), ("differs", True)]


def test_transformers_normalised_before_make_a_remark_and_those_of_the_named_implementation_the_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind: dict[str, Any] = {"architecture": "transformer", "fit": {"learning_rate": 0.0002, "clip": 5.0}}

    def said(after: list[Any], before: list[Any]) -> list[str]:
        runs = Statements(trained_runs(after + before), {}, OPTIMUM, ("transformer",), "laptop")
        numbers = Laws("transformer", [8])
        runs.say("shen-fig3a", "a", numbers, ["transformer"], [8], **CODE)
        return capsys.readouterr().out.splitlines()

    after = trained(BENT, 8, **kind, options={"placement": "post"})
    lines = said(after, trained(STRAIGHT, 8, **kind))
    assert "reduced" in lines[0] and "as printed" in lines[0] and "remark" not in lines[0]
    assert "differs" in lines[1] and "a, normalised before" in lines[1] and "remark" in lines[1]
    assert len(said(after, [])) == len(lines) - 1  # nothing is said of networks that were not trained
    first = said([], trained(STRAIGHT, 8, **kind))[0]
    assert "undecided" in first and "precondition not met" in first


@pytest.mark.parametrize(("best", "word"), [(0, "it holds"), (1, "it does not")])
def test_where_seeds_disagree_as_printed_the_note_tells_what_the_best_says(
    best: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = [BENT, STRAIGHT, BENT]
    losses = [OPTIMUM.value + 0.01 * (seed != best) for seed in range(3)]
    fit = {"optimizer": "rmsprop", "learning_rate": 0.001, "clip": 0.25}
    runs = [record(curve, seed=seed, loss=losses[seed], fit=fit) for seed, curve in enumerate(curves)]
    numbers = Laws("rnn", [8])
    statements = Statements(trained_runs(runs), {}, OPTIMUM, ("rnn",), "laptop")
    statements.say("shen-fig1a", "a", numbers, ["rnn"], [8], conditions=["as printed"], **CODE)
    assert f"as the paper shows it: {word}" in capsys.readouterr().out


def test_what_did_not_reach_a_plateau_refutes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    far = trained(STRAIGHT, 8, excess=2.0)
    assert verdicts(far, far + trained(BENT, 16), capsys)[1] == "undecided"
    mixed = [record(curve, seed=seed, loss=OPTIMUM.value) for seed, curve in enumerate([BENT, STRAIGHT, STRAIGHT])]
    assert verdicts(mixed, mixed + trained(BENT, 16), capsys)[1] == "undecided"  # seeds disagree


@pytest.mark.parametrize(
    ("length", "excess", "kind", "word"),
    [
        (30, 0.01, {"width": 8}, "reduced"),  # nearer to the optimum, and as long
        (32, 0.01, {"width": 8}, "reduced"),  # less than a tenth longer
        (36, 0.01, {"width": 8}, "undecided"),
        (36, 0.01, {"width": 8, "options": {"start": "slow", "longest": 300}}, "undecided"),  # from another start
        (36, 0.08, {"width": 8}, "reduced"),  # not nearer
        (36, 0.01, {"width": 32}, "reduced"),  # larger
        (36, 0.01, {"width": 8, "depth": 2}, "reduced"),  # deeper
        (36, 0.01, {"width": 8, "architecture": "lstm"}, "reduced"),
    ],
)
def test_a_length_counts_if_no_smaller_network_is_nearer_to_the_optimum_and_longer(
    length: float, excess: float, kind: dict[str, Any], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = trained(BENT, 16) + trained(exponential(length), excess=excess, **kind)
    statements = Statements([], trainings(runs), OPTIMUM, ("rnn",), "laptop")

    def said(lengths: bool) -> str:
        statements.say(
            "shen-fig1c", "a", lambda nets, seeds: length_table(nets["rnn"], [16], seeds), ["rnn"], [16],
            conditions=["to plateau"], at_most=35, explanation="longer", lengths=lengths,
        )  # fmt: skip
        return capsys.readouterr().out

    assert word in said(lengths=True) and "reduced" in said(lengths=False)
    assert word == "reduced" or "which is smaller, has a smaller loss and 1.2" in said(lengths=True)


def test_of_several_lengths_those_that_count_refute_and_the_others_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    def said(small: float, large: float, bound: float) -> str:
        runs = trained(exponential(small), 8, excess=0.01) + trained(exponential(large), 16)
        statements = Statements([], trainings(runs), OPTIMUM, ("rnn",), "laptop")
        statements.say(
            "shen-fig1c", "a", lambda nets, seeds: length_table(nets["rnn"], [8, 16], seeds), ["rnn"], [8, 16],
            conditions=["to plateau"], at_least=bound, explanation="shorter", lengths=True,
        )  # fmt: skip
        return capsys.readouterr().out

    assert "undecided" in said(60, 30, 40)  # width 16 alone is too short, and it can be longer
    assert "differs" in said(60, 30, 80) and "at width 8" in said(60, 30, 80)
    assert "differs" in said(32, 30, 40) and "reduced" in said(60, 60, 40)


def test_a_statement_about_two_architectures_asks_each_for_its_own_size(capsys: pytest.CaptureFixture[str]) -> None:
    small = trained(BENT, 4, architecture="lstm") + trained(BENT, 32, architecture="rnn")
    others = trained(BENT, 32, architecture="lstm", excess=2.0) + trained(BENT, 4, architecture="rnn", excess=2.0)
    statements = Statements([], trainings(small + others), OPTIMUM, ("rnn", "lstm"), "laptop")

    def said(sizes: Any) -> str:
        statements.say(
            "shen-fig1c", "a", lambda nets, seeds: np.ones((1, seeds + 1)), ["rnn", "lstm"], sizes,
            conditions=["to plateau"], at_least=1, explanation="it is shorter",
        )  # fmt: skip
        return capsys.readouterr().out

    assert "reduced" in said({"lstm": [4], "rnn": [32]})
    assert "undecided" in said([4, 32]) and "undecided" in said({"lstm": [32], "rnn": [32]})


def test_a_size_of_no_run_is_a_precondition_that_is_not_met() -> None:
    statements = Statements([], trainings(trained(BENT, 8)), OPTIMUM, ("rnn", "mamba"), "laptop", {"mamba": 16})
    assert statements.gate("rnn", [8]).reached
    assert statements.gate("rnn", [8, 16]).reason == "precondition not met"
    assert statements.gate("mamba", [2], "depth").sentence == "Mamba 16×2: no training is recorded"


def test_depths_are_those_of_the_width_that_is_asked_for() -> None:
    deep = trained(BENT, 8, depth=2) + trained(BENT, 16, depth=2) + trained(BENT, 16)
    runs = Statements(trained_runs(deep), trainings(deep), OPTIMUM, ("rnn",), "laptop", {"rnn": 16})
    for condition in ("as printed", "to plateau"):
        assert [str(network) for network in runs.networks(condition, "depth")["rnn"]] == ["16", "16×2"]
        assert [str(network) for network in runs.networks(condition)["rnn"]] == ["16"]


def test_deeper_transformers_hold_only_as_power_laws_of_the_magnitude_of_the_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    law = PowerLawBinary(512).mutual_information(np.arange(1, 512))

    def said(two: Curve, three: Curve, excess: float = 0.05) -> list[str]:
        kind: dict[str, Any] = {"architecture": "transformer", "fit": {"learning_rate": 0.03}}
        found = trained(two, 16, excess, depth=2, **kind) + trained(three, 16, excess, depth=3, **kind)
        runs = Statements([], trainings(found), OPTIMUM, ("transformer",), "laptop", {"transformer": 16})
        asked: dict[str, Any] = {"axis": "depth", "conditions": ["to plateau"], "explanation": "e"}
        one, deep = ["transformer"], [2, 3]

        def factors(networks: Any, seeds: int) -> Any:
            return factor_off_law(networks["transformer"], deep, seeds, law, 256, "depth")

        runs.say("shen-fig3a", "law", Laws("transformer", deep, "depth"), one, deep, at_least=1, gap=1.5, **asked)
        runs.say("shen-fig3a", "size", factors, one, deep, at_most=1.25, **asked)
        lines = capsys.readouterr().out.splitlines()
        return [next(word for word in ("undecided", "reduced", "differs") if word in line) for line in lines]

    def data(lags: np.ndarray) -> np.ndarray:
        return law[np.asarray(lags) - 1]

    assert said(data, data) == ["reduced", "reduced"]
    assert said(data, BENT) == ["differs", "differs"]
    assert said(data, lambda lags: 2 * data(lags)) == ["reduced", "differs"]
    assert said(data, data, excess=2.0) == ["undecided", "undecided"]
