"""Records of Gaussian language models: positions, exact lines, tables and figures."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.gaussians import figures as gaussian_figures
from experiments.gaussians import tables as gaussian_tables
from experiments.gaussians.baselines import (
    baselines,
    canonical_information,
    in_bins,
    linear_state_information,
    numbers_needed,
)
from experiments.gaussians.runs import EARLY, Model, of_models, plan_of, published_tokens, trained_runs
from experiments.gaussians.sizes import SIZES as EVERY_SIZE
from experiments.gaussians.statements.collapse import cells_of
from lib.processes import HierarchicalGaussian
from tests.experiments.gaussians.fake_records import COPIES, SIZES, diverged, grid, numbers, record

RNG = np.random.default_rng(0)


def test_a_mean_over_positions_is_that_of_the_positions_whatever_the_bins() -> None:
    curve = RNG.uniform(0.01, 1, 256)
    (run,) = trained_runs([record("mamba-2x32", 4, lambda places: curve[places - 1])])
    assert run.average == pytest.approx(curve.mean(), rel=1e-12)
    assert run.mean() == pytest.approx(curve.mean(), rel=1e-12)
    assert run.early == pytest.approx(curve[:EARLY].mean(), rel=1e-12)
    assert run.late == pytest.approx(curve[128:].mean(), rel=1e-12)
    assert run.mean(17, 64, "cross_entropy") - run.mean(17, 64, "entropy") == pytest.approx(curve[16:64].mean())
    for first, last in ((1, 18), (18, 256), (5, 2), (0, 16)):
        with pytest.raises(ValueError, match="cannot be cut"):
            run.mean(first, last)


def test_the_first_positions_have_the_same_law_at_every_length() -> None:
    laws = {layers: HierarchicalGaussian(layers).covariance() for layers in (3, 4, 5)}
    for layers, longer in ((3, 4), (4, 5), (3, 5)):
        length = 4**layers
        shared = 2 * length // 3 + 1  # 43 of 64, 171 of 256
        assert shared > EARLY
        assert np.abs(laws[layers][:shared, :shared] - laws[longer][:shared, :shared]).max() < 1e-12
        difference = np.abs(laws[layers] - laws[longer][:length, :length])[: shared + 1, : shared + 1]
        assert difference.max() > 1e-6  # and no further


def test_models_are_named_ordered_and_told_from_their_variants() -> None:
    records = [
        record(size, layers, lambda places: 0.1, seed)
        for size in reversed(SIZES)
        for layers in (4, 3)
        for seed in (1, 0)
    ]
    records += [record("mamba-2x64", 3, lambda places: 0.05, model={"positions": "learned"}), diverged()]
    runs = trained_runs(records)
    plain = of_models(runs)
    assert [str(model) for model in plain][:3] == ["GPT2 2×32", "GPT2 2×64", "Mamba 2×32"]
    assert list(plain) == [Model(size) for size in SIZES]
    assert [(run.length, run.seed) for run in runs[:4]] == [(64, 0), (64, 1), (256, 0), (256, 1)]
    assert list(plain[Model("mamba-2x32")]) == [64, 256]  # the diverged one is left out
    changed = of_models(runs, "mamba", "learned positions")
    assert [str(model) for model in changed] == ["Mamba 2×64, learned positions"]
    assert len(of_models(runs, variant=None)) == len(SIZES) + 1
    assert [str(Model(size)) for size in ("gpt2", "gpt2-medium", "mamba2-130m")] == [
        "GPT2",
        "GPT2-medium",
        "Mamba2-130m",
    ]
    assert {Model(size).architecture for size in EVERY_SIZE} == {"gpt2", "mamba", "mamba2"}


def test_a_run_knows_its_steps_tokens_state_and_late_gain() -> None:
    (run,) = trained_runs([record("mamba-2x32", 4, lambda places: 0.1)])
    assert run.steps == 30 * 150 and run.tokens == run.steps * 2048
    assert run.state() == 2 * 64 * 19 and run.state(scanned=True) == 2 * 64 * 16
    assert run.information == pytest.approx(COPIES * HierarchicalGaussian(4).bipartite_mutual_information())
    losses = np.array(run.result["validation_losses"])
    assert run.gain(0.5) == pytest.approx(np.log(losses[14] / losses[-1]))
    assert run.gain(0.2) == pytest.approx(np.log(losses[23] / losses[-1]))
    assert run.gain(0.2) < run.gain(0.5)
    assert np.isnan(run.gain(1.0))
    assert published_tokens(256) == 500_000 * 1024


def test_the_plan_is_that_of_the_grid() -> None:
    plan = plan_of("laptop")
    assert plan.lengths == [64, 256, 1024] and plan.seeds >= 3
    assert plan.smallest("mamba") == Model("mamba-2x32") and plan.largest("mamba") == Model("mamba-4x64")
    sizes = [numbers(model.size, 3)["scanned_state_size"] for model in plan.models["mamba"]]
    assert sizes == sorted(sizes)
    assert [model.size for model in plan_of("paper").models["gpt2"]] == ["gpt2", "gpt2-medium", "gpt2-large"]
    with pytest.raises(ValueError, match="profile"):
        plan_of("desktop")


def test_the_exact_lines_are_what_they_say() -> None:
    lines, law = baselines(3, windows=(1, 4, 16)), HierarchicalGaussian(3)
    assert lines.information == pytest.approx(law.bipartite_mutual_information(), rel=1e-10)
    assert lines.halves[:32].max() == 0
    prior = 0.5 * (1 / law.conditional_variances() * 0 + np.log(1 / law.conditional_variances()))
    assert np.allclose(lines.independent, prior)  # E KL(N(mu, v) || N(0, 1)) = -1/2 ln v, as E mu^2 = 1 - v
    for window, curve in lines.windows.items():
        assert np.abs(curve[: window + 1]).max() < 1e-12 and (curve[window + 1 :] >= -1e-15).all()
        assert (curve <= lines.independent + 1e-12).all()
    assert lines.windows[1].mean() > lines.windows[4].mean() > lines.windows[16].mean()
    assert list(lines.curves()) == ["nothing", "its own half", "last 4 tokens", "last 16 tokens"]
    (run,) = trained_runs([record("mamba-2x32", 3, lambda places: lines.independent[places - 1])])
    assert np.allclose(in_bins(lines.independent, run), run.result["divergence"])


def test_the_best_linear_state_has_all_information_at_full_rank_and_shares_it_among_copies() -> None:
    total = HierarchicalGaussian(3).bipartite_mutual_information()
    found = linear_state_information(3, 1, np.arange(33))
    assert found[0] == 0 and found[-1] == pytest.approx(total, rel=1e-9)
    assert (np.diff(found) >= -1e-12).all() and (np.diff(found, 2) <= 1e-9).all()
    assert np.allclose(np.diff(found), canonical_information(3))
    assert np.allclose(linear_state_information(3, 8, 8 * np.arange(33)), 8 * found)
    shares = np.cumsum(canonical_information(3)) / total
    for share in (0.5, 0.99, 1.0):
        needed = numbers_needed(3, share)
        assert shares[needed - 1] >= share * (1 - 1e-12) and (needed == 1 or shares[needed - 2] < share)
    for wrong in (0.0, 1.5, -0.1, np.nan, "all"):
        with pytest.raises(ValueError, match="share"):
            numbers_needed(2, wrong)  # type: ignore[arg-type]
    for copies, sizes in ((0, [1]), (1.5, [1]), (1, ["a"]), (1, [-1]), (1, [np.nan])):
        with pytest.raises(ValueError, match=r"copies|sizes"):
            linear_state_information(2, copies, sizes)  # type: ignore[arg-type, list-item]


def test_tables_have_a_row_for_every_model_and_figures_are_drawn_from_part_of_a_grid() -> None:
    law = lambda size, layers: lambda places: 0.05 * np.sqrt(places / 64)  # noqa: E731
    records = grid(law, ("gpt2-2x32", "mamba-2x32", "mamba-2x64"), (2, 3), seeds=2)[:-3]
    every = of_models(trained_runs(records))
    lengths = [16, 64]
    tables = [
        gaussian_tables.model_table(every, lengths),
        gaussian_tables.training_table(every, lengths),
        gaussian_tables.information_table(every, 16),
        gaussian_tables.share_table(every, lengths),
        gaussian_tables.single_seed_table(every, [16, 64, 256]),
    ]
    for text in tables:
        lines = text.splitlines()
        assert len(lines) == 2 + 3 and len({line.count("|") for line in lines}) == 1
    assert gaussian_tables.restarted_table(every, lengths).count("\n") == 1 + 5
    lines = [baselines(2), baselines(3)]
    curves = {"none": cells_of({}, 2), "learned": cells_of(every, 2)}
    for draw in (
        lambda panels: gaussian_figures.draw_courses(panels, every, lengths),
        lambda panels: gaussian_figures.draw_averages(panels, every, lines, lambda run: run.average, "KL"),
        lambda panels: gaussian_figures.draw_collapse(
            panels, {"none": {8: {}}, "learned": {8: every, 16: every}}, curves, 0.06
        ),
        lambda panels: gaussian_figures.draw_clocks(panels, {"none": {}, "learned": every}, lines),
        lambda panels: gaussian_figures.draw_information(panels, every, lengths),
        lambda panels: gaussian_figures.draw_restarted(panels[0], every, lengths),
    ):
        figure, panels = plt.subplots(1, 2)
        draw(panels)
        figure.canvas.draw()
        assert any(axes.lines for axes in panels)
        plt.close(figure)
    plt.close(gaussian_figures.draw_positions(every, lengths))


def test_models_in_one_figure_look_different() -> None:
    models = [Model(size) for size in SIZES] + [Model("mamba-2x64", "learned positions")]
    looks = [(style["color"], style["linestyle"], style["marker"]) for style in gaussian_figures.styles_of(models)]
    assert len(set(looks)) == len(models)
    assert len({marker for _, _, marker in looks}) == len(models)
