"""Statements about Gaussian language models: slopes, intervals over seeds, equal early loss, collapse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.gaussians import tables
from experiments.gaussians.runs import EARLY, Model, by_seed, of_models, plan_of, trained_runs
from experiments.gaussians.statements import collapse
from experiments.gaussians.statements.clock import EXPLAINED
from experiments.gaussians.statements.collapse import COLLAPSE, LENGTH, STATE, cells_of, predicted, rising
from experiments.gaussians.statements.length import (
    equal_early_loss,
    equal_early_losses,
    length_slopes,
    slopes_of,
)
from lib.information.intervals import seed_mean
from lib.processes import HierarchicalGaussian
from tests.experiments.gaussians.fake_records import COPIES, SIZES, grid, numbers, record, runs_at


@given(st.floats(-1, 1), st.floats(0.001, 10))
def test_a_power_law_of_the_length_has_its_exponent_as_slope(exponent: float, scale: float) -> None:
    lengths = [64, 256, 1024]
    values = scale * np.array(lengths, dtype=float)[:, None] ** (exponent + np.array([0, 0.1, -0.2]))
    assert np.allclose(length_slopes(values, lengths), exponent + np.array([0, 0.1, -0.2]), atol=1e-9)
    assert np.isnan(length_slopes(np.where(np.arange(3) == 1, np.nan, values), lengths))[1]


def test_slopes_of_models_are_those_of_their_laws_and_nan_where_a_length_is_missing() -> None:
    plan = plan_of("laptop")
    law = lambda size, layers: lambda places: 0.01 * 4.0 ** (layers * (0.1 * SIZES.index(size)))  # noqa: E731
    models = of_models(trained_runs(grid(law, noise=0.0)))
    slopes = slopes_of(models, plan)
    for size in SIZES:
        assert np.allclose(slopes[Model(size)], 0.1 * SIZES.index(size))
    late = slopes_of(models, plan, lambda run: run.late**2)
    assert np.allclose(late[Model("mamba-2x32")], 0.4)
    part = slopes_of(of_models(trained_runs(grid(law, layers=(3, 5), noise=0.0))), plan)
    assert all(np.isnan(values).all() for values in part.values())
    rows = by_seed(models[Model("gpt2-2x32")], lambda run: run.seed, [64, 16], 4)
    assert np.array_equal(rows, [[0, 1, 2, np.nan], [np.nan] * 4], equal_nan=True)
    with pytest.raises(ValueError, match="lengths >= 2"):
        length_slopes(np.ones((1, 3)), [64])


def early_and_late(excess: float, exponent: float, early: float, seed: int, noise: float = 0.0):
    """A curve of KL: `early` on 16 positions, early^exponent e^excess / 10 on the second half."""
    factor = np.exp(noise * np.random.default_rng([seed, int(1e6 * early)]).standard_normal())
    late = 0.1 * early**exponent * np.exp(excess) * factor
    return lambda places: np.where(places <= EARLY, early, late)


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.5])
def test_the_excess_at_equal_early_loss_is_the_planted_one(exponent: float) -> None:
    def runs(size: str, early: float, excess: float, noise: float = 0.0):
        return runs_at(size, lambda seed: early_and_late(excess, exponent, early * 1.02**seed, seed, noise))

    reference = runs("gpt2-2x32", 0.02, 0) + runs("gpt2-2x64", 0.012, 0)
    small, large = runs("mamba-2x32", 0.03, 0.7), runs("mamba-2x64", 0.015, 0.2)
    found = equal_early_loss(small, small + large, reference, 3)
    # one line for small and large: their own excesses tilt it, which the pooled exponent has to bear
    straight = equal_early_loss(small, small, reference, 3)
    assert np.allclose(straight.values, 0.7, atol=1e-6) and straight.exponent == pytest.approx(exponent, abs=1e-6)
    assert straight.gap == pytest.approx(np.log(0.03 * 1.02 / (0.02 * 1.02**2)), abs=1e-9) and straight.comparable
    assert found.exponent != pytest.approx(exponent, abs=0.01)
    far = equal_early_loss(runs("mamba-2x32", 0.09, 0.7), small, reference, 3)
    assert far.gap > np.log(2) and not far.comparable
    noisy = equal_early_loss(runs("mamba-2x32", 0.03, 0.7, 0.05), small, reference, 3)
    assert noisy.values.std() > 1e-3
    mean = seed_mean(noisy.values)
    assert mean.low - 0.1 < 0.7 < mean.high + 0.1
    with pytest.raises(ValueError, match="at least one run"):
        equal_early_loss([], small, reference, 3)


def test_one_seed_alone_has_an_excess_but_no_interval() -> None:
    runs = [runs_at(size, lambda seed, e=early: early_and_late(0, 1, e, 0), 1) for size, early in
            (("gpt2-2x32", 0.02), ("gpt2-2x64", 0.012), ("mamba-2x32", 0.02))]  # fmt: skip
    found = equal_early_loss(runs[2], runs[2], runs[0] + runs[1], 3)
    assert found.values[0] == pytest.approx(0, abs=1e-9) and np.isnan(found.values[1:]).all()


def test_excesses_compare_within_a_family_and_without_variants_of_it() -> None:
    laws = {"gpt2-2x32": (0.02, 0), "gpt2-2x64": (0.012, 0), "mamba-2x32": (0.03, 0.5), "mamba-2x64": (0.015, 0.5)}
    records = [record(size, 3, early_and_late(excess, 1.2, early * 1.02**seed, seed), seed)
               for size, (early, excess) in laws.items() for seed in range(3)]  # fmt: skip
    changed = {"positions": "learned"}
    records += [record("mamba-2x64", 3, early_and_late(-0.3, 1.2, 0.014 * 1.02**seed, seed), seed, model=changed)
                for seed in range(3)]  # fmt: skip
    found = equal_early_losses(of_models(trained_runs(records), variant=None), "gpt2", 64, 3, lambda run: run.early)
    assert set(found) == {Model("mamba-2x32"), Model("mamba-2x64"), Model("mamba-2x64", "learned positions")}
    for model, losses in found.items():
        assert np.allclose(losses.values, -0.3 if model.variant else 0.5, atol=1e-6)
    assert equal_early_losses(of_models(trained_runs(records)), "gpt2", 256, 3, lambda run: run.early) == {}


def nearest_rising(x: np.ndarray, y: np.ndarray) -> dict[float, float]:
    """By x, the rising curve nearest to points: at each place the largest, over starts, of the least mean onwards."""
    places = np.unique(x)
    inside = lambda first, last: y[(x >= places[first]) & (x <= places[last])].mean()  # noqa: E731
    last = range(len(places))
    return {
        float(place): max(min(inside(first, end) for end in last[k:]) for first in last[: k + 1])
        for k, place in enumerate(places)
    }


@given(st.integers(4, 10), st.integers(0, 1000), st.booleans())
@settings(max_examples=40)
def test_cells_are_read_off_the_nearest_rising_curve_through_the_others(n: int, seed: int, ties: bool) -> None:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(2, n))
    x = np.round(2 * x) / 2 if ties else x
    x[0] += 7.0  # no constant, and an end to read beyond
    of_curve, of_mean = 0.0, 0.0
    for place in range(n):
        others = np.arange(n) != place
        curve = nearest_rising(x[others], y[others])
        known, found = rising(x[others], y[others])
        assert dict(zip(known.tolist(), found.tolist(), strict=True)) == pytest.approx(curve)
        below, above = [at for at in curve if at <= x[place]], [at for at in curve if at >= x[place]]
        one, other = max(below, default=min(curve)), min(above, default=max(curve))
        share = (x[place] - one) / (other - one) if one < x[place] < other else 0.0
        ends = curve[one if below else other], curve[other if above else one]
        of_curve += (y[place] - (1 - share) * ends[0] - share * ends[1]) ** 2
        of_mean += (y[place] - y[others].mean()) ** 2
    found = predicted(x, y)
    assert found.explained == pytest.approx(1 - of_curve / of_mean, rel=1e-6, abs=1e-9)
    assert found.scatter == pytest.approx(np.sqrt(of_curve / n), rel=1e-6)


def test_a_curve_of_any_rising_shape_explains_and_one_that_falls_does_not() -> None:
    x = np.linspace(0, 1, 12)
    for shape in (x, np.exp(4 * x), np.maximum(x, 0.5), np.tanh(9 * (x - 0.5)), np.where(x < 0.5, 0.0, 1.0)):
        assert predicted(x, shape).explained > 0.75 and predicted(x, -shape).explained < 1e-9
    with pytest.raises(ValueError, match="n >= 1"):
        rising([], [])
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        rising([1, 2], [1, 2, 3])


def test_prediction_is_refused_for_too_few_cells_and_for_a_constant() -> None:
    with pytest.raises(ValueError, match="n >= 4"):
        predicted([1, 2, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="constant"):
        predicted([1, 1, 1, 1], [1, 2, 3, 4])
    assert predicted(np.arange(5), [1, 1.001, 1, 0.999, 1]).explained < 0.5
    assert np.isnan(predicted(np.arange(4), [1, np.nan, 2, 3]).explained)


def mamba_cells(power_of_information: float, power_of_state: float, noise: float = 0.02) -> collapse.Cells:
    def law(size: str, layers: int):
        information = COPIES * HierarchicalGaussian(layers).bipartite_mutual_information()
        return lambda places: (
            0.3 * information**power_of_information / numbers(size, layers)["state_size"] ** power_of_state
        )

    return cells_of(of_models(trained_runs(grid(law, SIZES[2:5], noise=noise))), 3)


def test_a_planted_collapse_is_explained_by_true_states_alone() -> None:
    cells = mamba_cells(0.5, 0.5)
    assert len(cells) == 9
    explained = collapse.per_seed(cells, COLLAPSE)
    assert (explained > 0.9).all()
    wrong = list(collapse.exchanged_states(cells))
    assert len(wrong) == 5 and max(wrong) < 0.9
    assert (collapse.advantage_over(cells, COLLAPSE, LENGTH) > 0.5).all()
    assert (collapse.advantage_over(cells, LENGTH, COLLAPSE) < -0.5).all()
    assert collapse.order_agreement(cells, COLLAPSE) > 0.9
    assert collapse.chance(cells, COLLAPSE, 200) < 0.02
    assert collapse.chance(mamba_cells(0, 0), COLLAPSE, 200) > 0.02


def test_the_floor_hides_what_lies_below_it_and_a_collapse_above_it_is_still_one() -> None:
    law = lambda size, layers: lambda places: 0.3 * (size == "mamba-2x32" and layers == 5) + 1e-4 * layers**9  # noqa: E731
    models = of_models(trained_runs(grid(law, SIZES[2:5], noise=0.5)))
    above = cells_of(models, 3, floor=1e4)
    assert np.array_equal(above.kl, np.full((9, 3), np.log(1e4)))
    assert np.isnan(collapse.per_seed(above, COLLAPSE)).all()  # nothing to explain
    whole = cells_of(models, 3)
    half = float(np.exp(np.median(whole.kl)))
    assert np.array_equal(cells_of(models, 3, floor=half).kl, np.maximum(whole.kl, np.log(half)))
    planted = mamba_cells(0.5, 0.5)
    cut = collapse.Cells(planted.keys, np.maximum(planted.kl, np.median(planted.kl)), planted.variables)
    assert (collapse.per_seed(cut, COLLAPSE) > EXPLAINED).all()


def test_the_curve_of_some_cells_foretells_others_or_does_not() -> None:
    cells = mamba_cells(0.5, 0.5)
    order = np.argsort(cells.variables[COLLAPSE])
    known, held = order[::2], order[1::2]

    def part(places: np.ndarray, factor: float = 1.0) -> collapse.Cells:
        variables = {name: values[places] for name, values in cells.variables.items()}
        return collapse.Cells([cells.keys[k] for k in places], np.log(factor) + cells.kl[places], variables)

    assert (collapse.foretold(part(known), part(held), COLLAPSE) > 0.9).all()
    assert (collapse.foretold(part(known), part(held, 5.0), COLLAPSE) < 0.75).all()
    missing = part(held)
    missing.kl[0, 1] = np.nan
    assert np.isnan(collapse.foretold(part(known), missing, COLLAPSE)).tolist() == [False, True, False]
    assert np.isnan(collapse.foretold(part(known), cells_of({}, 3), COLLAPSE)).all()
    assert np.isnan(collapse.foretold(cells_of({}, 3), part(held), COLLAPSE)).all()


def test_lengths_or_states_alone_are_told_from_a_collapse() -> None:
    length, state = mamba_cells(0.8, 0), mamba_cells(0, 0.8)
    assert (collapse.advantage_over(length, COLLAPSE, LENGTH) < 0).all()
    assert (collapse.advantage_over(state, COLLAPSE, STATE) < 0).all()
    assert (collapse.per_seed(length, LENGTH) > 0.9).all()
    assert (collapse.per_seed(state, STATE) > 0.9).all()


def test_a_grid_with_one_size_or_few_cells_decides_nothing() -> None:
    law = lambda size, layers: lambda places: 0.1 * layers  # noqa: E731
    one = cells_of(of_models(trained_runs(grid(law, ("mamba-2x32",)))), 3)
    assert not collapse.decidable(one) and np.isnan(collapse.per_seed(one, COLLAPSE)).all()
    nothing = cells_of({}, 3)
    assert not collapse.decidable(nothing) and len(nothing) == 0
    assert "too few" in tables.collapse_table(nothing, 5, 0)
