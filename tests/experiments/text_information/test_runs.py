"""Records of text reduced to what the chapter shows: names, curves, laws, tables, figures; also of partial grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.text_information import figures as text_figures
from experiments.text_information import tables as text_tables
from experiments.text_information.runs import (
    EXPERIMENT,
    PUBLISHED,
    Curve,
    TextRun,
    best,
    longest_trained,
    other_starts,
    plain,
    smallest_loss,
    text_runs,
    trained_here,
    trained_longer,
    variants,
)
from experiments.text_information.statements import change_by_correction, with_exponent
from lib.information.documents.growth import scaling_exponent
from lib.report.page import MISSING
from lib.runs import store
from tests.experiments.text_information.fake_records import grid, power, quality, record, world


@pytest.fixture(scope="module")
def runs() -> list[TextRun]:
    return longest_trained(text_runs(world()))


def one(**changes: Any) -> TextRun:
    """A run of the first network of the laptop's grid."""
    parameters = next(given for given in grid() if given["model"]["kind"] == "network")
    laws = {"direct": power(2, 0.4), "vclub": power(3, 0.4), "uncorrected": power(2, 0.4)}
    return text_runs([record(parameters, **{"laws": laws, **changes})])[0]


def test_every_run_of_the_laptop_has_a_name_of_its_own(runs: list[TextRun]) -> None:
    names = [run.name for run in runs]
    assert len(set(names)) == len(names) == len({run.network for run in text_runs(world())})
    assert {"LSTM of C. Brontë", "LSTM 256", "Mamba 2×128, byte pairs"} <= set(names)
    assert [run.variant for run in variants(runs)] == [
        "", "a paragraph on a line", "after a line break", "opening of 2"
    ]  # fmt: skip
    assert all(run.name.startswith("LSTM of C. Brontë") for run in variants(runs))


def test_of_a_network_the_longest_training_speaks() -> None:
    every = text_runs(world())
    several = trained_longer(every)
    smallest = [(run.epochs, run.rate, run.seed) for run in several if run.name == "LSTM 16"]
    assert smallest == sorted(set(smallest)) and {epochs for epochs, *_ in smallest} == {2, 8, 16, 32}
    kept = longest_trained(every)
    assert len(every) - len(kept) == len(several) - len({run.network for run in several}) > 0
    assert {(run.name, run.epochs) for run in kept} >= {("LSTM 16", 32), ("LSTM 64", 16)}
    assert longest_trained(kept) == kept and not trained_longer(kept)
    assert text_tables.budget_table(several).count("LSTM 64") == 3


def test_other_starts_are_trainings_that_differ_in_nothing_else() -> None:
    every = text_runs(world())
    starts = other_starts(every)
    assert [run.seed for run in starts] == [0, 1, 2]
    assert {(run.name, run.epochs, run.rate) for run in starts} == {
        ("LSTM 16", 16, 0.01)
    }  # of 8 epochs there are 3, too
    fewer = [run for run in every if (run.epochs, run.seed) != (16, 2)]
    assert {run.epochs for run in other_starts(fewer)} == {8}
    assert other_starts([run for run in every if run.seed == 0]) == other_starts([]) == []


def test_a_record_older_than_a_parameter_is_of_the_same_network() -> None:
    records = world()
    for older in records:
        model = older["parameters"]["model"]
        if model["kind"] == "network" and model["fit"].get("epochs", 2) == 2:
            del model["precision"]  # recorded before it was a parameter
    runs = text_runs(records)
    assert [run.network for run in runs] == [run.network for run in text_runs(world())]
    assert len(longest_trained(runs)) == len(longest_trained(text_runs(world())))


def test_variants_stay_out_of_comparisons(runs: list[TextRun]) -> None:
    assert len(plain(runs)) == len(runs) - 6  # three of a character LSTM, three of SmolLM2
    local = trained_here(runs)
    assert len(local) == 9 and all(run.characterwise and run.family != "pretrained" for run in local)


def test_the_best_model_is_that_with_the_smallest_loss_a_character(runs: list[TextRun]) -> None:
    chosen = best(runs)
    assert chosen.loss == min(run.loss for run in runs)
    assert {(run.family, run.characterwise) for run in smallest_loss(runs)} == {
        (run.family, run.characterwise) for run in plain(runs)
    }
    with pytest.raises(ValueError, match="at least one that is no variant"):
        best(run for run in runs if run.variant)


def test_losses_of_tokens_become_losses_of_characters(runs: list[TextRun]) -> None:
    pairs = next(run for run in runs if run.model.merges)
    assert pairs.loss == pytest.approx(quality(pairs.parameters)) and pairs.token_length > 2
    assert pairs.result["second_half_loss"] == pytest.approx(pairs.loss * pairs.token_length)


def test_the_law_is_fitted_from_sixteen_characters_on(runs: list[TextRun]) -> None:
    for run in runs:
        law, curve = run.law("vclub"), run.curve("vclub")
        assert law is not None and curve is not None
        assert law.lengths.min() * run.token_length >= 16 > law.lengths.min() * run.token_length / 2
        assert set(law.lengths) <= set(curve.lengths)


def test_a_planted_exponent_is_found_whatever_happens_below_sixteen_characters() -> None:
    bent = {"vclub": lambda lengths: 3 * lengths**0.4 + np.where(lengths < 16, 50.0, 0.0)}
    law = one(laws=bent).law("vclub")
    assert law is not None and law.interval[0] <= 0.4 <= law.interval[1] and abs(law.exponent - 0.4) < 0.02
    assert law.exponent == scaling_exponent(law.lengths, law.values[None].repeat(3, axis=0)).exponent


def test_an_estimate_that_is_not_positive_has_no_exponent() -> None:
    run = one(laws={"direct": lambda lengths: lengths - 40.0, "vclub": power(3, 0.4)})
    assert run.law("direct") is None and run.law("vclub") is not None
    assert run.curve("uncorrected") is None and change_by_correction(run)[1] == []
    with pytest.raises(ValueError, match="one of direct, vclub, uncorrected"):
        run.curve("nearest")


def test_intervals_of_means_grow_as_documents_scatter() -> None:
    widths = []
    for noise in (0.02, 0.2):
        curve = one(noise=noise).curve("vclub")
        assert curve is not None
        widths.append(np.diff(curve.intervals, axis=1).mean())
        assert np.all(curve.intervals[:, 0] < curve.means) and np.all(curve.means < curve.intervals[:, 1])
    assert widths[1] > 5 * widths[0]


def test_lengths_can_be_left_out_of_a_curve() -> None:
    curve = Curve(np.array([4.0, 8, 16]), np.ones(3), np.ones((6, 3)))
    assert curve.beyond(8).lengths.tolist() == [8, 16] and curve.beyond(9).by_group.shape == (6, 1)
    assert curve.beyond(9).fit is None


def test_the_published_laws_go_through_the_points_of_the_figure() -> None:
    for law in PUBLISHED:
        lengths = 2.0 ** np.arange(2, 2 + len(law.points))
        np.testing.assert_allclose(law.predict(lengths), law.points, rtol=0.17)
        if len(law.points) == 10:  # all of them can be seen
            slope = np.polyfit(np.log(lengths), np.log(law.points), 1)[0]
            assert abs(slope - law.exponent) < 0.02


def test_positions_without_a_law_are_left_out_of_the_loss() -> None:
    run = one()
    places, losses = run.loss_by_position()
    assert places[0] == 1
    hidden = {**run.result, "loss_by_position": [None, *run.result["loss_by_position"][1:]]}
    places, after = TextRun(run.model, "", 0, run.parameters, hidden).loss_by_position()
    assert places[0] == 2 and np.array_equal(after, losses[1:])


def test_the_cost_of_a_foreign_block_is_what_separates_the_two_estimators() -> None:
    run = one()
    cost, (low, high) = run.foreign_cost(), (run.curve("uncorrected"), run.curve("vclub"))
    assert cost is not None and low is not None and high is not None
    assert np.allclose(low.means + cost.means, high.means) and np.allclose(cost.by_group.mean(axis=0), cost.means)
    alone = [piece for piece in run.result["estimates"] if piece["estimator"] != "uncorrected"]
    assert TextRun(run.model, "", 0, run.parameters, {**run.result, "estimates": alone}).foreign_cost() is None


def parts() -> list[list[dict[str, Any]]]:
    everything = world()
    return [everything, everything[:1], everything[7:9], everything[-2:], everything[4:5]]


@pytest.mark.parametrize("records", parts(), ids=["all", "one pretrained", "two networks", "byte pairs", "a variant"])
def test_tables_and_figures_need_no_complete_grid(records: list[dict[str, Any]]) -> None:
    found = longest_trained(text_runs(records))
    tables = [
        text_tables.model_table(found),
        text_tables.information_table(found),
        text_tables.split_table(found, "vclub"),
        text_tables.change_table({run.name: change_by_correction(run) for run in found}),
        text_tables.foreign_table(found),
    ]
    for table in tables:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == 1 and len(lines) == 2 + len(found)
    figure, axes = plt.subplots(2, 3)
    text_figures.draw_losses(axes[0, 0], found)
    text_figures.draw_information(axes[0, 1], found, "vclub")
    text_figures.draw_quality(axes[0, 2], plain(found), "direct")
    text_figures.draw_splits(axes[1, 0], found[0], "vclub")
    text_figures.draw_correction(axes[1, 1], axes[1, 2], found)
    text_figures.show_legend(axes[0, 0])
    figure.canvas.draw()
    plt.close(figure)


LENGTHS = (4, 8, 16, 32, 64)
SUBSETS = st.sets(st.sampled_from(LENGTHS), min_size=1).map(sorted)


def estimated(lengths: Mapping[str, Sequence[int]], place: int = 0) -> TextRun:
    """By estimator, a run with estimates at these L alone: each a number of its own."""
    estimates = []
    for key, own in sorted(lengths.items()):
        means = [100 * place + 10 * LENGTHS.index(at) + len(key) for at in own]
        estimates.append(
            {"estimator": key, "ratio": 2, "lengths": list(own), "means": means, "by_group": [means] * 6}
        )  # fmt: skip
    run = one()
    return TextRun(run.model, f"{place}", place, run.parameters, {**run.result, "estimates": estimates})


def cells_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]


def misplaced(cells: list[list[str]], runs: list[TextRun]) -> list[tuple[str, str]]:
    """Rows, by model and estimator, that do not say at every L of the head what the run has there, or nothing."""
    head, _, *rows = cells
    estimates = {(run.name, text_tables.ESTIMATORS[piece["estimator"]]): piece for run in runs
                 for piece in run.result["estimates"]}  # fmt: skip
    assert [tuple(row[:2]) for row in rows] == list(estimates)
    wrong = []
    for row, (name, piece) in zip(rows, estimates.items(), strict=True):
        there = {f"$L$ = {at}": mean for at, mean in zip(piece["lengths"], piece["means"], strict=True)}
        told = {at: cell for at, cell in zip(head[2:-1], row[2:-1], strict=True) if cell != MISSING}
        if told.keys() != there.keys() or any(float(told[at].split()[0]) != there[at] for at in there):
            wrong.append(name)
    return wrong


@given(st.lists(st.fixed_dictionaries({}, optional={"direct": SUBSETS, "vclub": SUBSETS}), max_size=3))
@settings(max_examples=25, deadline=None)
def test_every_estimate_stands_below_its_own_length_whatever_lengths_other_rows_have(
    drawn: list[dict[str, list[int]]],
) -> None:
    found = [estimated(lengths, place) for place, lengths in enumerate(drawn)]
    table = text_tables.largest_table(found)
    if not any(drawn):
        assert table == "Neither estimate is there."
        return
    everywhere = sorted({at for lengths in drawn for own in lengths.values() for at in own})
    cells = cells_of(table)
    assert cells[0][2:-1] == [f"$L$ = {at}" for at in everywhere]
    assert misplaced(cells, found) == []


def test_estimates_below_another_length_are_found_out() -> None:
    found = [estimated({"direct": LENGTHS, "vclub": LENGTHS[2:]}), estimated({"vclub": LENGTHS[:2]}, 1)]
    cells = cells_of(text_tables.largest_table(found))
    assert misplaced(cells, found) == [] and [row.count(MISSING) for row in cells[2:]] == [0, 2, 4]
    filled = [cells[0], cells[1]]  # a table that does not know which lengths a row lacks
    for row in cells[2:]:
        known = [cell for cell in row[2:-1] if cell != MISSING]
        filled.append([*row[:2], *known, *[MISSING] * (len(LENGTHS) - len(known)), row[-1]])
    assert misplaced(filled, found) == [(found[0].name, "vCLUB")]


def test_growth_is_told_by_kind_of_model_and_a_later_fit_by_whether_it_holds_what_is_printed() -> None:
    found = [one(laws={"direct": power(2, 0.4), "vclub": power(3, beta)}, noise=0.0) for beta in (0.2, 0.4)]
    curve = found[0].curve("direct")
    assert curve is not None
    grown = curve.beyond(16 / found[0].token_length).lengths
    direct, least = ((grown[-1] / grown[0]) ** beta for beta in (0.4, 0.2))
    row = text_tables.growth_table(found).splitlines()[-1]
    assert f"| {direct:.1f} | {least:.1f} to {direct:.1f} |" in row
    below = one(laws={"direct": lambda lengths: 3 - lengths, "vclub": power(3, 0.2)}, noise=0.0)
    assert "1 not positive" in text_tables.growth_table([below])
    assert with_exponent([*found, below], "direct") == found and len(with_exponent([below], "vclub")) == 1
    assert text_tables.from_later(found[0], "direct", 0.4).startswith("from L = 8 tokens on 0.40")
    assert text_tables.from_later(one(), "direct", 0.76).endswith("does not contain 0.76")
    assert text_tables.from_later(one(), "direct", 0.4).endswith("which contains 0.4")
    assert text_tables.from_later(below, "direct", 0.4) == "no exponent from L = 8 tokens on"


def test_a_family_has_one_colour_in_every_figure(runs: list[TextRun]) -> None:
    def drawn(chosen: list[TextRun]) -> dict[str, set[str]]:
        _, axes = plt.subplots()
        text_figures.draw_losses(axes, chosen)
        colours: dict[str, set[str]] = {run.family: set() for run in chosen}
        for run, line in zip(chosen, axes.lines, strict=True):
            colours[run.family].add(line.get_color())
        plt.close("all")
        return colours

    some, every = drawn(runs[8:]), drawn(runs)
    assert all(len(colours) == 1 and colours == every[family] for family, colours in some.items())
    assert len(set.union(*every.values())) == len(every)


def test_without_records_the_command_that_makes_them_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(store.Store, "records", lambda self, asked: [])
    with pytest.raises(ValueError, match=r"no runs of text-information.*python -m lib sweep text-information"):
        store.recorded(EXPERIMENT)
