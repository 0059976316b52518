"""Memory or clock: what the rules say in worlds where the clock decides, the memory does, or nothing does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from experiments.gaussians import run as gaussian_run
from experiments.gaussians import tables
from experiments.gaussians.baselines import baselines
from experiments.gaussians.runs import GaussianRun, trained_runs
from experiments.gaussians.statements import clock
from experiments.gaussians.statements.length import plateau, relative
from experiments.gaussians.statements.words import budget_text, clock_or_state, copies_ignored, learned_with_epochs
from lib.report.shown import WORDS
from lib.report.verdicts import UNCONVERGED, UNMET
from lib.runs.definition import Experiment
from tests.experiments.gaussians.fake_records import Share, clock_records, numbers

BAD = {16: 0.05, 64: 0.5, 256: 0.75}
GOOD = {16: 0.01, 64: 0.05, 256: 0.15}
FLATTER = "GPT2: flatter than an exact window of 128 tokens"


def by_clock(size: str, positions: str, state: int, length: int, copies: int) -> float:
    """A world in which the clock alone decides: what has none is bad, whatever its memory."""
    return (GOOD if positions == "learned" else BAD)[length]


def by_memory(size: str, positions: str, state: int, length: int, copies: int) -> float:
    """A world in which the memory alone decides: GPT2 is good, and the others by the room of their state."""
    if size.startswith("gpt2"):
        return GOOD[length]
    return min(0.95, 0.9 * GOOD[length] + 0.35 / clock.room(copies, length, state or 16))


def by_architecture(size: str, positions: str, state: int, length: int, copies: int) -> float:
    """The published figure and no more: GPT2 is flat, the others rise, larger ones less, whatever the clock."""
    if size.startswith("gpt2"):
        return GOOD[length]
    return BAD[length] * (1.2 if state == 1 else 0.8 if size.endswith("2x64") else 1)


def world(share: Share, **how: float) -> list[GaussianRun]:
    return trained_runs(clock_records(share, **how))


def verdicts(judge: Any, runs: Iterable[GaussianRun], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Outcome by part, as the page would show it."""
    capsys.readouterr()
    judge(list(runs), "laptop")
    words = {word: status for status, (_, word) in WORDS.items()}
    found = {}
    for line in capsys.readouterr().out.splitlines():
        told = re.match(r". (.+?) · l2m-[\w]+ \((.+?), to plateau.*?\): ", line)
        assert told, line
        found[told[2]] = words[told[1]]
    return found


@pytest.fixture(scope="module")
def clocked() -> list[GaussianRun]:
    return world(by_clock)


@pytest.fixture(scope="module")
def remembered() -> list[GaussianRun]:
    return world(by_memory)


def test_where_the_clock_decides_the_published_figure_is_there_and_vanishes_with_the_same_clock(
    clocked: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    said = verdicts(clock.judge_lengths, clocked, capsys)
    assert said["GPT2: flat in L"] == said["GPT2: it has learned, at every length"] == "reduced"
    assert said["small Mamba and Mamba2: degrade as L grows"] == "reduced"
    assert said["small Mamba: degrades more than GPT2"] == said["small Mamba2: degrades more than GPT2"] == "reduced"
    assert said["Mamba: a larger state degrades less"] == "differs"  # it is the same
    for name in ("Mamba", "Mamba2"):  # twice the width, which decides nothing where it is the same
        assert said[f"{name}: a larger network degrades less"] == "undecided"
    assert said["the same clock, none: GPT2 is flat in L"] == "differs"
    for name in ("Mamba", "Mamba2"):
        assert said[f"the same clock, learned: {name} degrades as L grows"] == "differs"
        for words in ("none", "learned"):
            assert said[f"the same clock, {words}: {name} degrades more than GPT2"] == "differs"


def test_where_the_architecture_decides_it_does_so_with_every_clock(capsys: pytest.CaptureFixture[str]) -> None:
    said = verdicts(clock.judge_lengths, world(by_architecture), capsys)
    assert said.pop(FLATTER) == "differs"  # it rises by 0.14
    assert set(said.values()) == {"reduced"}


def test_gpt2_is_flatter_than_an_exact_window_or_is_not(
    clocked: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    assert clock.exact_rise(clock.WINDOW) == pytest.approx(0.061, abs=0.001) and clock.exact_rise(256) == 0
    exact = {window: clock.exact_rise(window) for window in (2, 4, 32, 64)}
    assert all(0 < rise < clock.DEGRADES for rise in exact.values())  # all of them are "flat"
    assert verdicts(clock.judge_lengths, clocked, capsys)[FLATTER] == "differs"
    flat = world(lambda size, positions, state, length, copies: 0.05)
    assert verdicts(clock.judge_lengths, flat, capsys)[FLATTER] == "reduced"
    late = world(by_clock, gain=1.3)
    assert verdicts(clock.judge_lengths, late, capsys)[FLATTER] == "undecided"


def test_gpt2_is_flat_in_the_position_or_rises_along_the_sequence(
    clocked: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    part = "GPT2: flat in the position"
    assert verdicts(clock.judge_late, clocked, capsys)[part] == "reduced"

    def forgetful(run: GaussianRun) -> GaussianRun:
        places = np.array(run.result["first_positions"])
        result = {**run.result, "divergence": list(np.where(places > 16, 4.0, 1.0) * run.result["divergence"])}
        return GaussianRun(run.model, run.length, run.seed, run.parameters, result, run.version)

    assert verdicts(clock.judge_late, [forgetful(run) for run in clocked], capsys)[part] == "differs"
    nothing = world(lambda *_: 1.0, noise=0.0)[0]
    alone = baselines(round(np.log(nothing.length) / np.log(4)), windows=()).independent
    early, late = alone[:16].mean(), alone[nothing.length // 2 :].mean()
    assert clock.rise_along(nothing) == pytest.approx(alone.mean() / late - alone.mean() / early, rel=1e-6)


def test_a_gpt2_that_rises_and_a_mamba_that_is_flat_differ(capsys: pytest.CaptureFixture[str]) -> None:
    turned = world(lambda size, positions, state, length, copies: _turned(size, length))
    said = verdicts(clock.judge_lengths, turned, capsys)
    assert said["GPT2: flat in L"] == said["GPT2: it has learned, at every length"] == "differs"
    assert said["small Mamba and Mamba2: degrade as L grows"] == "differs"
    assert said["small Mamba: degrades more than GPT2"] == "differs"


def _turned(size: str, length: int) -> float:
    return (BAD if size.startswith("gpt2") else GOOD)[length]


def test_a_training_that_twice_the_budget_or_another_rate_would_better_decides_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for how in ({"gain": 1.3}, {"worse": 0.7}, {"noise": 0.3}):
        said = verdicts(clock.judge_lengths, world(by_clock, **how), capsys)
        assert said["small Mamba and Mamba2: degrade as L grows"] == "undecided"
        assert said["the same clock, none: GPT2 is flat in L"] == "undecided"
    blind = [clock.network(clock.MAMBA, "none")]
    late = plateau(world(by_clock, gain=1.3), blind, clock.LENGTHS)
    assert late.reason == UNCONVERGED and plateau(world(by_clock), blind, clock.LENGTHS).reached


@pytest.mark.parametrize(("state", "found"), [(1, "undecided"), (16, "reduced")])
def test_a_comparison_is_not_decided_by_less_than_training_may_change(
    state: int, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fall by 0.02 of the KL of N(0, 1) is little beside a range of 0.7, and much beside a difference of 0.08.

    One of the larger state makes the difference larger, and so leaves the answer as it is.
    """

    def share(size: str, positions: str, numbers: int, length: int, copies: int) -> float:
        return by_clock(size, positions, numbers, length, copies) + 0.08 * (numbers == 1 and length == 256)

    model = clock.network(clock.MAMBA, "none", state)
    part, runs = "Mamba: a larger state degrades less", world(share)
    assert verdicts(clock.judge_lengths, runs, capsys)[part] == "reduced"
    there = [
        run for run in runs if run.model == model and run.length == 256 and run.parameters["copies"] == clock.COPIES
    ]
    longest = max(run.parameters["fit"]["epochs"] for run in there)
    assert any(run.parameters["fit"]["epochs"] < longest for run in there)

    def falling(run: GaussianRun) -> GaussianRun:
        if run not in there or run.parameters["fit"]["epochs"] < longest:
            return run
        lower = run.average - 0.02 * run.result["untrained_divergence"]
        result = {**run.result, "average_divergence": lower}
        return GaussianRun(run.model, run.length, run.seed, run.parameters, result, run.version)

    changed = [falling(run) for run in runs]
    assert plateau(changed, [model], [16, 256]).reached
    assert not plateau(changed, [model], [16, 256], effect=0.08).reached
    assert verdicts(clock.judge_lengths, changed, capsys)[part] == found


def test_no_record_and_a_part_of_them_decide_nothing_and_say_what_is_missing(
    clocked: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    few = [run for run in clocked if run.length != 256 and run.seed < 2]
    for runs in ([], few):
        for judge in (clock.judge_lengths, clock.judge_late, clock.judge_states, clock.judge_collapse):
            assert set(verdicts(judge, runs, capsys).values()) == {"undecided"}
    assert clock.missing(clocked, "laptop") == ""
    assert "GPT2 2×32, no positions at 256" in clock.missing(few, "laptop")
    assert clock.missing([], "laptop") == "every network"
    assert tables.clock_table([]) == "These runs are not recorded yet."
    assert "not met" in tables.clock_table(few) and tables.room_table([]).count("\n") == 1 + len(clock.SMALLER)


def test_lines_that_mix_budgets_and_what_the_clock_moves_are_told(clocked: list[GaussianRun]) -> None:
    told = budget_text(clocked)
    sized = [("Mamba 2×32", 1), ("Mamba 2×32", 16), ("Mamba 2×64", 16), ("Mamba2 2×64", 16)]  # 80 epochs at 256
    longer = "; ".join(f"{name}, no positions, state size {state}" for name, state in sized)
    assert f"not the same at all lengths: {longer}. At L = 256" in told
    assert "reached by 6 of 9 networks with no clock, 0 of 1 networks with sinusoids" in told
    assert "reached by 0 of 9 networks with no clock" in budget_text(world(by_clock, worse=0.7))
    fewer = [run for run in clocked if run.length != 256 or run.parameters["fit"]["epochs"] < 80]
    assert "are the same at all lengths that are" in budget_text(fewer)
    short = [run for run in clocked if run.length != 64 or run.parameters["fit"]["epochs"] != 40]
    assert "are not the same at all lengths: GPT2 2×32" in budget_text(short)
    assert "16: 40, 0.01; 64: 20, 0.01; 256: 40, 0.01" in tables.clock_table(short)
    assert "for GPT2 by 0.70. The clock moves the line of every" in clock_or_state(clocked)
    assert "The clock does not move the line of every" in clock_or_state(world(by_architecture))
    assert "when all these" in clock_or_state([run for run in clocked if run.length != 256])


def test_what_longer_training_learns_is_told_by_epochs_at_the_rate_that_is_shown(clocked: list[GaussianRun]) -> None:
    small = clock.network(clock.MAMBA, "none", 1)
    told = learned_with_epochs(clocked, small, 16)
    assert "at L = 16 and rate 0.03, not learned 0.050 (one seed) after 20 epochs, 0.050 to 0.050 after 40" in told
    assert told.endswith("(one seed) after 80 epochs.")
    halved = world(by_clock, gain=2.0)
    assert "to 0.050 after 40 epochs, 0.025 (one seed) after 80 epochs." in learned_with_epochs(halved, small, 16)
    assert learned_with_epochs([run for run in clocked if run.length != 16], small, 16) == ""


def test_the_state_orders_kl_and_leaves_the_floor_where_it_is_too_small_only_if_memory_decides(
    clocked: list[GaussianRun], remembered: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    order = "learned positions, {}: a larger state, a smaller KL"
    leaves, stays = (
        "learned positions, Mamba: too small a state leaves the floor",
        "learned positions, Mamba: a state with room stays on the floor",
    )
    said = verdicts(clock.judge_states, remembered, capsys)
    assert said[order.format("Mamba")] == said[order.format("Mamba2")] == said[leaves] == "reduced"
    assert said[stays] == "differs"  # at 1.45 times what is needed this world is above it
    cut = world(lambda *cell: 0.1 + 0.3 * (clock.room(cell[4], cell[3], cell[2] or 16) < 1))
    assert verdicts(clock.judge_states, cut, capsys)[stays] == "reduced"
    said = verdicts(clock.judge_states, clocked, capsys)
    assert said[order.format("Mamba")] == said[leaves] == "differs" and said[stays] == "reduced"
    against = world(lambda *cell: 0.1 + 0.01 * (cell[2] or 0))
    assert verdicts(clock.judge_states, against, capsys)[order.format("Mamba")] == "differs"


def test_one_curve_for_all_sizes_is_told_from_kl_that_follows_the_length_alone(
    clocked: list[GaussianRun], capsys: pytest.CaptureFixture[str]
) -> None:
    serves = f"Mamba, learned positions: the curve of {clock.COPIES} copies serves {clock.TWICE}"
    said = verdicts(clock.judge_collapse, world(lambda *cell: 2.5 * information_over_state(*cell)), capsys)
    assert set(said.values()) == {"reduced"} and serves in said
    said = verdicts(clock.judge_collapse, clocked, capsys)
    assert {said[part] for part in said if "better than length alone" in part} == {"differs"}
    assert "cannot be told from zero" not in copies_ignored(world(lambda *cell: 2.5 * information_over_state(*cell)))
    blind = world(lambda *cell: 2.5 * information_over_state(*cell[:4], clock.COPIES))  # copies do not matter
    assert "the same states at 8 copies, as if copies did not matter, 1.00 [1.00, 1.00]" in copies_ignored(blind)
    assert copies_ignored([]) == ""
    apart = world(lambda *cell: (0.3 if cell[4] > clock.COPIES else 2.5) * information_over_state(*cell))
    said = verdicts(clock.judge_collapse, apart, capsys)
    assert said.pop(serves) == "differs" and set(said.values()) == {"reduced"}


@pytest.mark.parametrize(("state", "serves"), [(16, "reduced"), (1, "undecided")])
def test_of_twice_as_many_copies_a_cell_that_still_falls_may_not_change_the_answer(
    state: int, serves: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The largest state is near the floor, where little can change; the smallest lies far from it."""

    def falling(run: GaussianRun) -> GaussianRun:
        asked, fit = run.parameters, run.parameters["fit"]
        longer = {16: 640, 1: 160}[state]
        if (asked["copies"], asked["model"].get("size"), fit["epochs"]) != (clock.TWICE, state, longer):
            return run
        result = {**run.result, "average_divergence": run.average / 3}
        return GaussianRun(run.model, run.length, run.seed, run.parameters, result, run.version)

    def share(size: str, positions: str, numbers: int, length: int, copies: int) -> float:
        x = (2 * information_over_state(size, positions, numbers, length, copies)) ** 2
        return min(0.9, 0.03 * (x / 0.17) ** 2) if x > 0.17 else 0.02  # on the floor, and a curve that leaves it

    runs = world(share)
    part = f"Mamba, learned positions: the curve of {clock.COPIES} copies serves {clock.TWICE}"
    assert verdicts(clock.judge_collapse, runs, capsys)[part] == "reduced"
    of = [clock.network(clock.MAMBA, "learned", state)]
    changed = [falling(run) for run in runs]
    wide = [run for run in changed if run.parameters["copies"] == clock.TWICE]
    assert not plateau(wide, of, [256], floor=clock.floor_of_kl()).reached
    assert verdicts(clock.judge_collapse, changed, capsys)[part] == serves
    unsettled = world(share, gain=3.0)  # nor is the curve itself
    assert verdicts(clock.judge_collapse, unsettled, capsys)[part] == "undecided"


def test_a_small_divergence_off_the_floor_that_twice_the_budget_lowers_decides_nothing_about_logarithms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lowered(run: GaussianRun) -> GaussianRun:
        if run.parameters["fit"]["epochs"] < 80 or (run.model.size, run.length) != (clock.MAMBA, min(clock.LENGTHS)):
            return run
        result = {**run.result, "average_divergence": run.average / 1.5}
        return GaussianRun(run.model, run.length, run.seed, run.parameters, result, run.version)

    def both(scale: float) -> tuple[list[GaussianRun], list[GaussianRun]]:
        runs = world(lambda *cell: scale * information_over_state(*cell))
        return runs, [lowered(run) for run in runs]

    of, least = [clock.network(clock.MAMBA, "none", state) for state in clock.STATES], clock.floor_of_kl()
    usual, changed = both(2.5)
    for some, reached in ((usual, True), (changed, False)):
        assert plateau(some, of, clock.LENGTHS).reached  # nats do not tell
        assert plateau(some, of, clock.LENGTHS, floor=least).reached is reached
    assert set(verdicts(clock.judge_collapse, changed, capsys).values()) == {"undecided"}
    wider = 10 * float(np.log(max(run.average for run in usual) / least))  # where more is compared, more may move
    assert plateau(changed, of, clock.LENGTHS, floor=least, effect=wider).reached
    for some in both(0.01):  # on the floor, however far below, with every seed; two seeds are too few
        assert "on the floor" in plateau(some, of, clock.LENGTHS, floor=least).sentence
        assert plateau([run for run in some if run.seed < 2], of, clock.LENGTHS, floor=least).reason == UNMET


def information_over_state(size: str, positions: str, state: int, length: int, copies: int) -> float:
    """A world with the collapse: KL is a power of information over the numbers of the state."""
    if size.startswith("gpt2"):
        return 0.1
    layers = round(np.log(length) / np.log(4))
    information = copies * clock.numbers_needed(layers)  # grows with L much as the information does
    return float(0.5 * (information / numbers(size, layers, copies, (("size", state),))["state_size"]) ** 0.5)


def test_late_kl_at_equal_early_kl_is_compared_with_learned_positions(capsys: pytest.CaptureFixture[str]) -> None:
    def bent(factor: float) -> list[GaussianRun]:
        runs = []
        for run in world(by_clock):
            result = dict(run.result)
            late = np.array(result["first_positions"]) > 16
            up = factor if run.model.architecture != "gpt2" else 1.0
            result["divergence"] = list(np.where(late, up, 1.0) * np.array(result["divergence"]) * (1 + 0.05 * late * (
                "64" in run.model.size)))  # fmt: skip
            runs.append(GaussianRun(run.model, run.length, run.seed, run.parameters, result, run.version))
        return runs

    part = "the same clock, learned: late KL of Mamba above GPT2's at equal early KL"
    assert verdicts(clock.judge_late, bent(1.5), capsys)[part] == "reduced"
    assert verdicts(clock.judge_late, bent(0.6), capsys)[part] == "differs"


def test_the_room_of_a_state_is_that_of_the_real_network_and_lies_on_both_sides_of_what_is_needed() -> None:
    runs = world(by_memory)
    table = tables.capacity_table(runs).splitlines()
    assert len(table) == 2 + 3 * 3 + 3  # the lengths and states of 8 copies, and the states of 16
    assert "| 0.25 |" in table[2] and all(float(line.split("|")[5]) <= 1.001 for line in table[2:])
    for copies, length, state in clock.SMALLER:
        layers = round(np.log(length) / np.log(4))
        assert numbers(clock.MAMBA, layers, copies, (("size", state),))["scanned_state_size"] == clock.CHANNELS * state
    assert tables.room_table(runs).count("0.25 |") == 1
    rooms = [clock.room(*cell) for cell in clock.SMALLER]
    assert min(rooms) < 0.5 < 1 <= sorted(rooms)[2] and max(rooms) > 10


def test_runs_for_the_gate_are_no_seeds_and_rises_ignore_a_common_factor_of_both_kl(
    clocked: list[GaussianRun],
) -> None:
    for by_length in clock.with_clock(clocked, "learned").values():
        for runs in by_length.values():
            assert len({run.seed for run in runs}) == len(runs) <= clock.SEEDS
            assert {run.parameters["fit"]["epochs"] for run in runs} == {40}
    one = clock.network(clock.GPT2, "none")
    found = clock.rises(clock.with_clock(clocked, "none"), [one])[one]
    assert found == pytest.approx(BAD[256] - BAD[16], abs=0.01)
    untrained = world(lambda *_: 1.0, noise=0.0)
    assert relative(untrained[0]) == pytest.approx(1.0)
    assert clock.rises(clock.with_clock(untrained, "none"), [one])[one] == pytest.approx(0.0, abs=1e-6)


def test_every_network_of_the_rules_is_planned_with_its_seeds_and_what_the_gate_asks_for() -> None:
    runs = world(by_clock)
    assert not clock.missing(runs, "laptop")
    judged = [clock.network(size, way) for size in clock.WIDTHS for way in ("none", "learned")]
    judged += [clock.network(clock.MAMBA, way, state) for way in ("none", "learned") for state in clock.STATES]
    judged += [clock.network(clock.MAMBA2, "none"), clock.network(clock.MAMBA2, "learned")]
    judged += [clock.network(clock.MAMBA2, "learned", clock.STATES[0])]
    for model in judged:
        gate = plateau([run for run in runs if run.parameters["copies"] == clock.COPIES], [model], clock.LENGTHS)
        assert gate.reached, gate.sentence
    wide = [run for run in runs if run.parameters["copies"] == 16]
    states = [clock.network(clock.MAMBA, "learned", state) for state in clock.STATES]
    assert plateau(wide, states, [256]).reached and plateau(wide, states, [64]).reason == UNMET


def test_every_run_of_every_profile_can_start_and_the_paper_one_runs_at_tiny_size(tmp_path: Any) -> None:
    experiment = Experiment(clock.EXPERIMENT)
    last: Any = None
    for profile in experiment.profiles:
        for run in experiment.runs(profile):
            if (asked := (run.parameters["size"], run.parameters["layers"], run.parameters["model"])) != last:
                gaussian_run.check(run.parameters)
            last = asked
    torch.set_num_threads(1)
    tiny = {"mamba-130m": "mamba-2x32", "mamba2-130m": "mamba2-2x32", "gpt2": "gpt2-2x32"}
    few = {"layers": 2, "copies": 2, "epoch_steps": 1, "validation": 2, "measured": 4, "drawn": 6}
    for name, size in tiny.items():
        asked = next(run.parameters for run in experiment.runs("paper") if run.parameters["size"] == name)
        chosen = {**asked, **few, "size": size, "fit": {**asked["fit"], "epochs": 1, "warm_up": 1}}
        result = gaussian_run.run(chosen, 0, tmp_path / size)
        assert np.isfinite(result["average_divergence"])
