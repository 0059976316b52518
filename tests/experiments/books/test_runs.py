"""Networks on books: comparisons on the same windows, crossings, verdicts, each with a case in which it fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.books import figures, tables
from experiments.books.contrasts import (
    contrast,
    crossing,
    crossing_of,
    curves_of,
    judge_contrasts,
    resampled,
)
from experiments.books.run import position_bins
from experiments.books.runs import (
    EARLY,
    LATE,
    PUBLISHED,
    Network,
    counted_tables,
    matched,
    network_of,
    of_networks,
    planned,
    roles,
    trained_runs,
)
from experiments.books.statements import Comparisons, ideal_gain, nearest_early, neighbours, printed_order, ranges
from lib.information.intervals import Interval
from lib.models import create
from lib.report import claims
from lib.report.verdicts import UNCONVERGED, UNMET
from tests.experiments.books.fake_records import as_in_the_paper, diverged, falling, laptop, runs_of

PLAN = planned("laptop")
PAIRS = matched(PLAN)


def upside_down(parameters: dict[str, Any]) -> Any:
    """Everything the other way round: larger networks worse, Mamba ahead late only."""
    law = as_in_the_paper(parameters)
    return lambda seen: 9.0 - law(seen)


@pytest.fixture(scope="module")
def paper_like() -> Comparisons:
    return Comparisons(of_networks(trained_runs(laptop(as_in_the_paper)), variant=None), 400)


@pytest.fixture(scope="module")
def reverse() -> Comparisons:
    return Comparisons(of_networks(trained_runs(laptop(upside_down)), variant=None), 400)


def test_the_plan_has_three_matched_sizes_and_a_network_for_every_line_of_the_table():
    assert [(str(first), str(second)) for first, second in PAIRS] == [
        ("Transformer 2×32", "Mamba 4×32"),
        ("Transformer 2×64", "Mamba 4×64"),
        ("Transformer 4×64", "Mamba 8×64"),
    ]
    assert set(roles(PLAN)) == set(PUBLISHED)
    assert str(roles(PLAN)["Mamba-790M"]) == "Mamba 8×64" and str(roles(PLAN)["GPT2"]) == "Transformer 2×32"
    assert [network.variant for network in PLAN if network.variant] == ["learned positions", "rotary positions"]
    assert len(matched(planned("paper"))) == 3  # GPT2, GPT2-medium, and the size for the text


def test_options_that_no_family_has_make_a_variant():
    parameters = {"architecture": "mamba2", "depth": 4, "width": 64, "options": {"size": 16, "head_width": 32}}
    assert network_of(parameters) == Network("mamba2", 4, 64)
    assert network_of({**parameters, "options": {"size": 8, "head_width": 32}}).variant == "size 8"


def test_a_training_that_diverged_is_left_out():
    runs = trained_runs([diverged()])
    assert not runs[0].measured and of_networks(runs) == {}


def test_half_of_the_context_fills_half_of_a_transformers_state_and_all_of_any_other():
    for architecture, share in (("transformer", 0.5), ("mamba", 1.0), ("lstm", 1.0)):
        model = create(architecture, 20, 32, 2)
        run = trained_runs([diverged()])[0]
        whole = {**run.result, "state_size": model.state_size(1024)}
        run = replace(run, network=Network(architecture, 2, 32), result=whole)
        assert run.state_between_halves == model.state_size(512) == share * model.state_size(1024)


def test_positions_are_weighted_by_the_widths_of_their_bins():
    runs = runs_of(falling(5.0, -0.1), noise=0.0)
    curves = curves_of(runs)
    seen = np.arange(1, 1025)
    exact = curves.values.mean(axis=(0, 1))
    np.testing.assert_allclose(curves.weights() @ exact, runs[0].mean, atol=1e-5)
    flat = curves_of(runs_of(lambda at: np.asarray(at, dtype=float), noise=0.0))
    offset = flat.mean[-1] - (725 + 1024) / 2
    for first, last in ((17, 64), (513, 1024), (1, 1024)):
        np.testing.assert_allclose(
            flat.weights(first, last) @ flat.mean - offset, seen[first - 1 : last].mean(), atol=0.2
        )
    with pytest.raises(ValueError, match="cut"):
        curves.weights(20, 64)
    early, late, whole = ranges(runs)
    assert np.isclose(early.sum(), 1) and np.isclose(late.sum(), 1) and np.isclose(whole.sum(), 1)
    assert EARLY[1] < LATE[0] and EARLY[0] - 1 in position_bins(1024)


def test_contrasts_are_the_planted_differences_and_far_sharper_than_the_books():
    first, second = runs_of(falling(5.0, -0.10)), runs_of(falling(4.9, -0.08), "mamba", 4)
    found = contrast(lambda a, b: (b - a) @ curves_of(first).weights(), [first, second], replicates=500)
    seen = np.arange(1, 1025)
    planted = np.mean(-0.1 + 0.02 * np.log(seen))
    assert found.low < planted < found.high
    assert found.high - found.low < 0.02 < first[0].result["mean_nll_error"]
    assert len(found.by_seed) == 3


def test_the_bootstrap_has_the_variance_of_means_over_books_and_seeds():
    runs = runs_of(falling(5.0, -0.1), noise=0.05)
    values = curves_of(runs).values[:, :, 5]
    drawn = resampled([curves_of(runs)], 20000, 0)[0][:, 5]
    books = values.mean(axis=0).var(ddof=1) / values.shape[1]
    seeds = values.mean(axis=1).var(ddof=1) / values.shape[0]
    np.testing.assert_allclose(drawn.mean(), values.mean(), atol=0.005)
    assert 0.9 * (books + seeds) < drawn.var() < 1.2 * (books + seeds)


def test_the_crossing_is_where_the_planted_lines_meet():
    first, second = runs_of(falling(5.0, -0.10)), runs_of(falling(5.0 - 0.02 * np.log(150.0), -0.08), "mamba", 4)
    found = crossing_of(first, second, replicates=500)
    assert found.low < 150 < found.high and abs(np.log(found.value / 150)) < 0.3
    assert found.within > 0.95
    curves = curves_of(first)
    places = np.sqrt(curves.first * curves.last)
    assert math.isinf(float(crossing(-1.0 + 0.01 * np.log(places), curves)))
    assert float(crossing(1.0 + 0.01 * np.log(places), curves)) == 0
    assert math.isnan(float(crossing(np.log(100.0) - np.log(places), curves)))
    assert float(crossing(0.0 * places + 0.1, curves)) == 0
    np.testing.assert_allclose(float(crossing(np.log(places) - np.log(100.0), curves)), 100.0)
    shifted = runs_of(falling(5.0 - 0.02 * np.log(600.0), -0.08), "mamba", 4)
    assert not crossing_of(first, shifted, replicates=500).low < 150  # a wrong place is seen


def test_networks_on_other_windows_are_not_compared():
    first = runs_of(falling(5.0, -0.1))
    for change in ({"data_seed": 1}, {"test": 8}, {"merges": 512}):
        with pytest.raises(ValueError, match="same windows"):
            contrast(lambda a, b: (b - a).mean(axis=-1), [first, runs_of(falling(5.0, -0.1), "mamba", **change)])
    with pytest.raises(ValueError, match="at least one"):
        curves_of([])


def test_a_perfect_predictor_gains_what_the_entropies_say():
    amplitude, beta = 2.27, 0.76
    scale = amplitude / (2 ** (1 - beta) - 1)
    entropy = scale * np.arange(0, 1100.0) ** beta
    losses = np.diff(entropy)  # losses[t] follows t tokens
    np.testing.assert_allclose(
        ideal_gain(amplitude, beta, (17, 64), (513, 1024)), losses[17:65].mean() - losses[513:1025].mean()
    )
    halves = 2 * scale * 512**beta - scale * 1024**beta
    np.testing.assert_allclose(halves, amplitude * 1024**beta)
    for exponent, early in ((1.0, (17, 64)), (0.0, (17, 64)), (0.5, (64, 17))):
        with pytest.raises(ValueError, match="allowed"):
            ideal_gain(amplitude, exponent, early, (513, 1024))


def verdict(cases: dict[str, Interval], part: str, **bounds: Any) -> str:
    """What the page would say; the check behind it raises if its outcome does not fit the numbers."""
    return judge_contrasts("l2m-fig5", cases, part=part, explanation="the other way round", **bounds)


STATEMENTS: list[tuple[str, dict[str, float], Any]] = [
    ("gain", {"at_least": 0}, PAIRS),
    ("crossed", {"at_least": 0}, PAIRS),
    ("mean", {"at_least": 0}, PAIRS),
    ("mean", {"at_least": 0}, neighbours(PLAN, "transformer")),
    ("mean", {"at_least": 0}, neighbours(PLAN, "mamba")),
    ("early", {"at_most": 0}, [(roles(PLAN)["GPT2-medium"], roles(PLAN)["Mamba-790M"])]),
    ("gain", {"at_least": 0}, [(roles(PLAN)["GPT2-medium"], roles(PLAN)["Mamba-790M"])]),
]


@pytest.mark.parametrize(("kind", "bounds", "pairs"), STATEMENTS)
def test_every_statement_agrees_with_its_own_law_and_differs_from_the_opposite(
    kind: str, bounds: dict[str, float], pairs: Any, paper_like: Comparisons, reverse: Comparisons
):
    assert verdict(paper_like.of(kind, pairs), "a", **bounds) == "agrees"
    assert verdict(reverse.of(kind, pairs), "b", **bounds) == "differs"
    cases = paper_like.of(kind, pairs)
    ends = [[case.low, case.high] for case in cases.values()]
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-fig5", ends, part="c", outcome="differs", note="wrong", **bounds)


def trained_on(records: list[dict[str, Any]], gain: float, other: float = 1.0) -> Comparisons:
    """The records beside others of first seeds: lower by `gain` after twice the budget, by -`other` at other rates."""
    found = list(records)
    for one in (one for one in records if one["seed"] == 0):
        fit, losses = one["parameters"]["fit"], np.array(one["result"]["validation_losses"])
        changes = (
            ({"epochs": 2 * fit["epochs"]}, gain),
            *(({"learning_rate": fit["learning_rate"] * factor}, -other) for factor in (1 / 3, 3)),
        )
        for changed, lower in changes:
            result = one["result"] | {"validation_losses": (losses - lower).tolist()}
            found.append(one | {"parameters": one["parameters"] | {"fit": fit | changed}, "result": result})
    return Comparisons(of_networks(trained_runs(found)), replicates=200)


@pytest.mark.parametrize(("law", "would"), [(as_in_the_paper, "agrees"), (upside_down, "differs")])
def test_architectures_get_a_verdict_after_trainings_to_a_plateau_alone(law: Any, would: str):
    records = laptop(law, noise=0.0005)  # seeds within a tenth of the planted difference
    plain = Comparisons(of_networks(trained_runs(records)), replicates=200)
    cases = plain.of("mean", PAIRS)
    assert verdict(cases, "a", at_least=0, condition="as printed") == would

    def gated(compared: Comparisons) -> tuple[str, str]:
        gate = compared.plateau("mean", PAIRS)
        return verdict(cases, "a", at_least=0, condition="to plateau", plateau=gate), gate.reason

    assert gated(trained_on(records, gain=0.0)) == (would, "")
    assert gated(trained_on(records, gain=0.5)) == ("undecided", UNCONVERGED)  # as after a tenth of the budget
    assert gated(trained_on(records, gain=0.0, other=-0.5)) == ("undecided", UNCONVERGED)
    assert gated(plain) == ("undecided", UNMET)  # nobody trained for longer


def test_networks_that_are_missing_and_records_of_two_versions_pass_no_gate(paper_like: Comparisons):
    assert paper_like.plateau("mean", []).reason == UNMET
    assert Comparisons({}, 200).plateau("mean", PAIRS).reason == UNMET
    network, *_ = paper_like.networks
    mixed = {network: [replace(run, version=run.seed % 2) for run in paper_like.networks[network]]}
    with pytest.raises(ValueError, match="several versions"):
        Comparisons(mixed, 200).plateau("mean", [(network, network)])


def test_early_losses_are_comparable_only_if_they_are_near(paper_like: Comparisons):
    cases = paper_like.of("early", PAIRS)
    assert verdict(cases, at_least=-0.2, at_most=0.2, part="a") == "agrees"
    assert verdict(cases, at_least=-0.001, at_most=0.001, part="b") == "differs"


def test_equal_curves_resolve_nothing():
    same = Comparisons(of_networks(trained_runs(laptop(lambda parameters: falling(5.0, -0.1), noise=0.01))), 400)
    for kind in ("gain", "crossed"):
        assert verdict(same.of(kind, PAIRS), at_least=0, part=kind) != "agrees"


def test_runs_that_are_missing_leave_statements_open(paper_like: Comparisons):
    networks = {network: runs for network, runs in paper_like.networks.items() if network.depth != 8}
    part = Comparisons(networks, 200)
    assert verdict(part.of("gain", PAIRS), at_least=0, part="x") == "undecided"
    assert len(printed_order(roles(PLAN), part)) == 6
    one = Comparisons({network: runs[:1] for network, runs in networks.items()}, 200)
    assert verdict(one.of("gain", PAIRS[:1]), at_least=0, part="y") == "undecided"


def test_the_printed_order_is_recognised_and_so_is_its_reverse(paper_like: Comparisons, reverse: Comparisons):
    ordered = printed_order(roles(PLAN), paper_like)
    assert len(ordered) == 10 and all(printed > 0 for _, _, printed, _, _ in ordered)
    words = {(first, second): word for first, second, _, _, word in ordered}
    assert words["GPT2-medium", "GPT2"] == words["Mamba-370M", "Mamba-130M"] == words["GPT2", "Mamba-130M"] == "agrees"
    turned = {(first, second): word for first, second, _, _, word in printed_order(roles(PLAN), reverse)}
    assert turned["GPT2-medium", "GPT2"] == "reversed"


def test_the_nearest_pair_is_that_of_nearest_early_loss():
    networks = of_networks(
        [
            *runs_of(falling(5.0, -0.1), "transformer", 2),
            *runs_of(falling(4.6, -0.1), "transformer", 4),
            *runs_of(falling(4.61, -0.1), "mamba", 4),
            *runs_of(falling(4.2, -0.1), "mamba", 8),
        ]
    )
    found = nearest_early(networks)
    assert found is not None and [network.depth for network in found] == [4, 4]
    assert nearest_early({}) is None


def test_tables_and_figures_work_with_the_whole_grid_and_with_a_part_of_it(paper_like: Comparisons):
    for networks in (paper_like.networks, dict(list(paper_like.networks.items())[:3])):
        compare = Comparisons(networks, 100)
        there = [pair for pair in PAIRS if all(one in networks for one in pair)]
        crossings = {pair: crossing_of(*(networks[one] for one in pair), replicates=100) for pair in there}
        runs = [run for group in networks.values() for run in group]
        texts = [
            tables.setting_table(runs),
            tables.network_table(networks, compare),
            tables.published_table(networks, roles(PLAN)),
            tables.order_table(printed_order(roles(PLAN), compare)),
            tables.pair_table(PAIRS, compare, crossings),
        ]
        for text in texts:
            assert len({line.count("|") for line in text.splitlines()}) == 1
        assert "| 20,000 |" in texts[1]
        for run in runs[1::2]:  # stopped behind their last epoch, so that they have no speed
            run.result["tokens_per_second"] = 0.0
        assert "| 20,000 |" in tables.network_table(networks, compare)
        figure, panels = plt.subplots(1, 3)
        figures.draw_positions(panels[:2], networks, (("transformer",), ("mamba", "mamba2", "lstm")))
        figures.draw_differences(panels, networks, PAIRS, crossings, 50, 0)
        figures.draw_sizes(panels[:2], networks)
        figures.draw_courses(panels[2], networks)
        plt.close(figure)
    with pytest.raises(ValueError, match="at least one"):
        tables.setting_table([])


def test_networks_stand_among_tables_of_counts_by_their_loss(paper_like: Comparisons):
    edges = position_bins(1024)
    records = [
        {
            "result": {
                "counted_tokens": tokens,
                "nll": [[7.0 - k - shift] * (edges.size - 1) for k in range(3)],
                "mean_nll": [7.0 - k - shift for k in range(3)],
                "first_seen": (edges[:-1] + 1).tolist(),
                "last_seen": edges[1:].tolist(),
            }
        }
        for tokens, shift in ((8_000_000, 0.25), (4_000_000, 0.0))
    ]
    few, many = counted_tables(records)
    assert (few.tokens, many.tokens) == (4_000_000, 8_000_000) and few.means.tolist() == [7.0, 6.0, 5.0]
    rows = [line.split("|")[1:-1] for line in tables.ladder_table(paper_like.networks, [few, many]).splitlines()]
    losses = [float(row[2]) for row in rows[2:]]
    assert len(losses) == 6 + len(paper_like.networks) and losses == sorted(losses, reverse=True)
    own = {row[0].strip(" *"): float(row[2]) for row in rows[2:] if "**" in row[0]}
    for network, runs in paper_like.networks.items():
        assert np.isclose(own[f"{network}"], np.mean([run.mean for run in runs]), atol=5e-4)
    figure, axes = plt.subplots()
    figures.draw_counted([axes], few, (1, 2))
    assert [line.get_ydata()[0] for line in axes.lines] == [6.0, 5.0]
    plt.close(figure)
