"""The claims about Gaussian language models, judged as the chapters do, in worlds where they hold and fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from experiments.gaussians.baselines import canonical_information, linear_state_information
from experiments.gaussians.information import captured_information, information_by_position, restart_error
from experiments.gaussians.runs import GaussianRun, Model, of_models, plan_of, trained_runs
from experiments.gaussians.statements.collapse import COLLAPSE, LENGTH, STATE, advantage_over, cells_of, per_seed
from experiments.gaussians.statements.length import equal_early_losses, judge_means, plateau, slopes_of
from lib.information import bipartite_mutual_information, gaussian_mutual_information
from lib.information.intervals import seed_mean
from lib.processes import HierarchicalGaussian
from lib.report import claims
from lib.report.verdicts import DISSENT, UNCONVERGED, UNMET
from lib.theory.gaussian_predictor import GaussianPredictor
from tests.experiments.gaussians.fake_records import COPIES, SIZES, grid, numbers, parameters, record

PLAN = plan_of("laptop")
GPT2, GPT2_LARGE = Model("gpt2-2x32"), Model("gpt2-2x64")
SMALL, LARGE = Model("mamba-2x32"), Model("mamba-4x64")
LAW = HierarchicalGaussian(3)
MATRIX, HALF = LAW.covariance(), 32
EXPONENTS = {GPT2: 0.02, GPT2_LARGE: -0.05, SMALL: 0.5, Model("mamba-2x64"): 0.4, LARGE: 0.3}


def slopes(noise: float = 0.02, **changed: float) -> dict[Model, np.ndarray]:
    """Slopes in a world where models have the exponents above, but for some by size, with underscores."""
    exponents = {model.size: value for model, value in EXPONENTS.items()}
    exponents |= {"mamba2-2x32": 0.5, "mamba2-2x64": 0.3}
    exponents |= {size.replace("_", "-"): value for size, value in changed.items()}

    def law(size: str, layers: int) -> Any:
        return lambda places: 0.01 * 4.0 ** (exponents[size] * layers)

    return slopes_of(of_models(trained_runs(grid(law, noise=noise))), PLAN)


def says(values: Any, **bounds: float) -> str:
    return judge_means("l2m-fig4", {"it": values}, part="p", explanation="e", **bounds)


def refused(claim: str, values: Any, **bounds: float) -> None:
    """The check itself refuses what the chapter would record as agreement."""
    mean = seed_mean(values)
    with pytest.raises(claims.ClaimFailed):
        claims.check(claim, [mean.low, mean.high], outcome="reduced", **bounds)


def test_a_flat_gpt2_is_told_from_one_that_rises_or_falls() -> None:
    flat = {"at_least": -0.25, "at_most": 0.25}
    assert says(slopes()[GPT2], **flat) == says(slopes()[GPT2_LARGE], **flat) == "agrees"
    for exponent in (0.4, -0.4):
        wrong = slopes(gpt2_2x32=exponent)[GPT2]
        assert says(wrong, **flat) == "differs"
        refused("l2m-fig4", wrong, **flat)
    assert says(slopes(gpt2_2x32=0.25)[GPT2], **flat) == "undecided"
    assert says(slopes(noise=2.0)[GPT2], **flat) == "undecided"  # scattered seeds


def test_a_gpt2_that_has_learned_nothing_refuses_that_it_has() -> None:
    def share(kl: float) -> np.ndarray:
        runs = trained_runs(grid(lambda size, layers: lambda places: kl, ("gpt2-2x32",), (3,)))
        return np.array([run.average / run.result["untrained_divergence"] for run in runs])

    assert says(share(0.05), at_most=0.5) == "agrees"
    assert says(share(0.19), at_most=0.5) == "differs"
    refused("l2m-fig4", share(0.19), at_most=0.5)


def test_a_small_mamba_that_is_as_flat_as_gpt2_refuses_that_it_degrades() -> None:
    assert says(slopes()[SMALL], at_least=0.25) == "agrees"
    wrong = slopes(mamba_2x32=0.05)
    assert says(wrong[SMALL], at_least=0.25) == "differs"
    refused("l2m-fig4", wrong[SMALL], at_least=0.25)
    assert says(slopes()[SMALL] - slopes()[GPT2], at_least=0) == "agrees"
    steep = slopes(gpt2_2x32=0.8)
    refused("l2m-fig4", steep[SMALL] - steep[GPT2], at_least=0)


def test_larger_models_that_degrade_more_refuse_that_they_degrade_less() -> None:
    found = slopes()
    assert says(found[SMALL] - found[LARGE], at_least=0) == "agrees"
    wrong = slopes(mamba_4x64=0.7)
    assert says(wrong[SMALL] - wrong[LARGE], at_least=0) == "differs"
    refused("l2m-fig4", wrong[SMALL] - wrong[LARGE], at_least=0)
    equal = slopes(mamba_4x64=0.5)
    assert says(equal[SMALL] - equal[LARGE], at_least=0) == "undecided"


# --- the gate: verdicts on an architecture need trainings that had reached a plateau


def powers(scale: float) -> Callable[[str, int], Any]:
    """KL that falls or rises as above, with every model this far from the exact distribution."""
    exponents = {model.size: value for model, value in EXPONENTS.items()} | {"mamba2-2x32": 0.5, "mamba2-2x64": 0.3}
    return lambda size, layers: lambda places: scale * 4.0 ** (exponents[size] * layers)


def stopped(scale: float, after: float) -> list[dict[str, Any]]:
    """The same trainings, ended when this share of their budget was spent: KL is still that of the first steps."""
    left = 0.25 * np.exp(-20.0 * after)  # what N(0, 1) misses, forgotten at a rate
    law = powers(scale)
    return grid(lambda size, layers: lambda places: law(size, layers)(places) + left)


def longer(records: list[dict[str, Any]], gain: float = 1.0, other: float = 2.0) -> list[dict[str, Any]]:
    """Beside the first seed of each: twice its budget, KL less by a factor `gain`; other rates, more by `other`."""
    found = list(records)
    for one in (one for one in records if one["seed"] == 0):
        size, layers = one["parameters"]["size"], one["parameters"]["layers"]
        kl, fit = one["result"]["average_divergence"], parameters(size, layers)["fit"]
        for changed, factor in (({"epochs": 60}, 1 / gain), ({"learning_rate": 0.001}, other),
                                ({"learning_rate": 0.009}, other)):  # fmt: skip
            found.append(record(size, layers, lambda at, level=factor * kl: level, 0, fit=fit | changed))
    return found


def gated(records: list[dict[str, Any]], *models: Model, **bounds: float) -> str:
    runs = trained_runs(records)
    usual = [
        run for run in runs if run.parameters["fit"] == parameters(run.model.size, run.parameters["layers"])["fit"]
    ]
    values = slopes_of(of_models(usual), PLAN)
    gate = plateau(runs, models, PLAN.lengths)
    return judge_means("l2m-fig4", {model: values[model] for model in models}, part="p", explanation="e",
                       condition="to plateau", plateau=gate, **bounds)  # fmt: skip


def test_models_near_the_exact_law_get_a_verdict_and_the_same_stopped_early_get_none() -> None:
    near = grid(powers(1e-8))
    assert gated(near, SMALL, at_least=0.25) == "agrees" and gated(near, SMALL, at_most=0.25) == "differs"
    for share in (0.1, 0.0):  # a tenth of the budget, and none
        early = stopped(1e-8, share)
        assert gated(early, SMALL, at_least=0.25) == gated(early, SMALL, at_most=0.25) == "undecided"
        assert plateau(trained_runs(early), [SMALL], PLAN.lengths).reason == UNCONVERGED
    assert plateau(trained_runs(stopped(1e-8, 1.0)), [SMALL], PLAN.lengths).reached


def test_models_that_are_too_small_to_come_near_need_a_longer_training_that_brings_nothing() -> None:
    small = grid(powers(0.01), noise=0.002)
    assert gated(small, SMALL, GPT2, at_least=0.25) == "undecided"
    assert gated(longer(small), SMALL, at_least=0.25) == "agrees"
    assert gated(longer(small), SMALL, at_most=0.25) == "differs"
    assert gated(longer(small, gain=2.0), SMALL, at_least=0.25) == "undecided"
    assert gated(longer(small, other=0.5), SMALL, at_least=0.25) == "undecided"
    ways = [plateau(trained_runs(world), [SMALL], PLAN.lengths) for world in (longer(small), longer(small, gain=2.0))]
    assert [way.reason for way in ways] == ["", UNCONVERGED]


def test_a_stuck_seed_and_missing_runs_give_no_verdict() -> None:
    near = grid(powers(1e-8), seeds=5)
    runs = trained_runs(near)
    worst = [run for run in runs if (run.model, run.length, run.seed) != (SMALL, 256, 4)]
    stuck = trained_runs([record("mamba-2x32", 4, lambda at: 0.1, 4)])
    assert plateau([*worst, *stuck], [SMALL], PLAN.lengths).reason == DISSENT
    assert plateau(worst, [SMALL], PLAN.lengths).reached  # four seeds are left
    few = [run for run in runs if run.model != SMALL or run.seed < 2]
    assert plateau(few, [SMALL], PLAN.lengths).reason == UNMET
    assert plateau(few, [GPT2], PLAN.lengths).reached
    assert plateau(few, [SMALL, GPT2], PLAN.lengths).reason == UNMET
    assert plateau([], [SMALL], PLAN.lengths).reason == plateau(runs, [], PLAN.lengths).reason == UNMET


def test_runs_of_several_versions_pass_no_gate() -> None:
    first, *rest = trained_runs(grid(powers(1e-8), sizes=("mamba-2x32",)))
    other = GaussianRun(first.model, first.length, first.seed, first.parameters, first.result, version=2)
    with pytest.raises(ValueError, match=r"several versions, got \[0, 2\]"):
        plateau([other, *rest], [SMALL], PLAN.lengths)


def test_lengths_that_are_missing_leave_the_slopes_unresolved() -> None:
    records = grid(lambda size, layers: lambda places: 0.1, ("mamba-2x32",), (3, 4))
    found = slopes_of(of_models(trained_runs(records)), PLAN)
    assert says(found[SMALL], at_least=0.25) == "undecided"
    assert says(found[GPT2], at_least=-0.25, at_most=0.25) == "undecided"


def late(size: str, seed: int, excess: float) -> dict[str, Any]:
    early = 0.01 + 0.003 * SIZES.index(size) * (1 + 0.1 * seed)

    def law(places: np.ndarray) -> np.ndarray:
        return np.where(places <= 16, early, early * np.exp(excess * size.startswith("mamba") + 0.02 * seed))

    return record(size, 5, law, seed)


def test_late_loss_above_gpt2s_is_refused_where_it_only_is_worse_everywhere() -> None:
    sizes = ("gpt2-2x32", "gpt2-2x64", "mamba-2x32", "mamba-2x64")

    def excess(planted: float) -> np.ndarray:
        models = of_models(trained_runs(late(size, seed, planted) for size in sizes for seed in range(3)))
        return equal_early_losses(models, "gpt2", 1024, 3, lambda run: run.early)[SMALL].values

    assert says(excess(0.4), at_least=0) == "agrees"
    assert says(excess(-0.4), at_least=0) == "differs"
    refused("l2m-fig4", excess(-0.4), at_least=0)
    # a larger late KL that comes with a larger early one is no excess
    assert abs(seed_mean(excess(0.0)).value) < 0.02


def mamba(law: Callable[[float, int, int], float], noise: float = 0.05) -> Any:
    """Cells of a world: law(information, state, length) is the KL."""

    def world(size: str, layers: int) -> Any:
        information = COPIES * HierarchicalGaussian(layers).bipartite_mutual_information()
        kl = law(information, numbers(size, layers)["state_size"], 4**layers)
        return lambda places: kl

    return cells_of(of_models(trained_runs(grid(world, SIZES[2:5], noise=noise))), 3)


def test_a_collapse_is_told_from_kl_that_depends_on_length_or_state_alone() -> None:
    true = mamba(lambda information, state, length: (information / state) ** 0.6)
    assert says(per_seed(true, COLLAPSE), at_least=0.75) == "agrees"
    assert says(advantage_over(true, COLLAPSE, LENGTH), at_least=0) == "agrees"
    assert says(advantage_over(true, COLLAPSE, STATE), at_least=0) == "agrees"
    length = mamba(lambda information, state, length: 1e-3 * length**0.5)
    state = mamba(lambda information, state, length: 30 * state**-0.8)
    for wrong, name in ((length, LENGTH), (state, STATE)):
        assert says(advantage_over(wrong, COLLAPSE, name), at_least=0) == "differs"
        refused("l2m-collapse", advantage_over(wrong, COLLAPSE, name), at_least=0)
    assert says(per_seed(state, COLLAPSE), at_least=0.75) == "differs"
    refused("l2m-collapse", per_seed(state, COLLAPSE), at_least=0.75)
    falling = mamba(lambda information, state, length: (information / state) ** -0.6)
    assert says(per_seed(falling, COLLAPSE), at_least=0.75) == "differs"
    refused("l2m-collapse", per_seed(falling, COLLAPSE), at_least=0.75)


def test_sizes_that_lie_apart_are_no_collapse_although_each_is_a_power_law() -> None:
    apart = mamba(lambda information, state, length: information**0.6 * np.sin(state) ** 2)
    assert says(per_seed(apart, COLLAPSE), at_least=0.75) == "differs"
    refused("l2m-collapse", per_seed(apart, COLLAPSE), at_least=0.75)


@pytest.mark.parametrize("profile", ["laptop", "paper"])
def test_the_outcome_of_a_judgement_is_that_of_the_check(profile: str, capsys: pytest.CaptureFixture) -> None:
    def judge(part: str, **cases: list[float]) -> None:
        judge_means("l2m-fig4", cases, at_least=0.25, part=part, profile=profile, explanation="too flat")

    judge("p", small=[0.5, 0.52, 0.51], other=[0.4, 0.41, 0.42])
    judge("q", small=[0.5, 0.52, 0.51], other=[0.1, 0.11, 0.12])
    judge("r", small=[0.5, 0.52, 0.51], other=[0.1, 0.31, 0.52])
    judge("s", small=[0.5, 0.52])
    judge("t")
    first, second, third, fourth, fifth = capsys.readouterr().out.splitlines()
    assert ("at reduced scale" in first) is (profile == "laptop") and "holds" in first
    assert "differs" in second and "too flat" in second
    assert all("ran, undecided" in line for line in (third, fourth, fifth)) and "nothing to compare" in fifth
    reasons = ("interval too wide", "precondition not met", "precondition not met")
    assert all(f"): {reason}: " in line for line, reason in zip((third, fourth, fifth), reasons, strict=True))


def test_nll_minus_entropy_is_not_kl_with_the_likelihood_of_the_numbers_that_came() -> None:
    runs = trained_runs(grid(lambda size, layers: lambda places: 0.1, SIZES[:2], (3,)))
    kl = [run.average for run in runs]
    entropies = [run.result["average_entropy"] for run in runs]
    claims.check("l2m-kl", np.subtract([run.result["average_cross_entropy"] for run in runs], entropies), kl, 2e-6)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-kl", np.subtract([run.result["average_loss"] for run in runs], entropies), kl, 2e-6)


def sums_of(x: np.ndarray, model: GaussianPredictor, law: GaussianPredictor) -> np.ndarray:
    """NLL and divergence of every row, summed over positions and written out."""
    means, exact = x @ model.weights.T, x @ law.weights.T
    spread, true = model.variances, law.variances
    nll = 0.5 * (np.log(2 * np.pi * spread) + (x - means) ** 2 / spread)
    kl = 0.5 * (np.log(spread / true) + (true + (means - exact) ** 2) / spread - 1)
    return np.stack([nll.sum(axis=1), kl.sum(axis=1)])


def scatter_of(model: GaussianPredictor, law: GaussianPredictor) -> np.ndarray:
    """Variances of both, exact: a fourth moment of three normal numbers is a sum over a grid of 5^3 points."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    noise = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    share = np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1).reshape(-1, 3), axis=1)
    values = sums_of(noise @ np.linalg.cholesky(law.covariance()).T, model, law)
    share = share / share.sum()
    means = values @ share
    return np.asarray((values - means[:, None]) ** 2 @ share)


def traced(model: GaussianPredictor, law: GaussianPredictor) -> np.ndarray:
    """The same as 2 tr (A S A S), as in the chapter."""
    matrix, found = law.covariance(), []
    for target in (np.eye(law.length), law.weights):
        rows = (target - model.weights) / np.sqrt(model.variances)[:, None]
        form = 0.5 * rows.T @ rows @ matrix
        found.append(2 * np.trace(form @ form))
    return np.array(found)


def test_the_divergence_scatters_less_than_the_likelihood_but_not_for_every_model() -> None:
    law = GaussianPredictor([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [1, 1, 0.01])
    close = GaussianPredictor(0.9 * law.weights, law.variances)
    far = GaussianPredictor([[0, 0, 0], [1, 0, 0], [0, 0, 0]], [100, 3, 1])
    blind = GaussianPredictor(np.zeros((3, 3)), np.ones(3))
    for model in (close, far, blind):
        np.testing.assert_allclose(traced(model, law), scatter_of(model, law), rtol=1e-9)
    near = traced(close, law)
    claims.check("l2m-variance", near[0] / near[1], at_least=1.0)
    wrong = traced(far, law)
    claims.check("l2m-variance", wrong[0] / wrong[1], at_least=1.0, outcome="differs", remark=True, note="a limit")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-variance", wrong[0] / wrong[1], at_least=1.0)
    np.testing.assert_allclose(traced(law, law), [1.5, 0.0], atol=1e-12)


def test_at_every_position_the_divergence_is_the_mean_of_the_likelihood_given_the_past() -> None:
    model = GaussianPredictor.windowed(MATRIX, 4)
    exact = GaussianPredictor.from_covariance(MATRIX)
    ratios = []
    for place in range(LAW.length):
        found = []
        for target in (np.eye(LAW.length)[place], exact.weights[place]):
            row = (target - model.weights[place]) / np.sqrt(model.variances[place])
            found.append(0.5 * (row @ MATRIX @ row) ** 2)
        ratios.append(found[0] - found[1])
    claims.check("l2m-variance", ratios, at_least=0.0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-variance", [-one for one in ratios], at_least=0.0)


def windows() -> dict[str, np.ndarray]:
    """Captured, held and own information of exact windows 1, 2, 4, ... as in the chapter."""
    gains, after = information_by_position(MATRIX), np.arange(HALF, 2 * HALF)
    found: dict[str, list[float]] = {"window": [], "captured": [], "held": [], "own": []}
    for window in (1, 2, 4, 8, 16, 32):
        predictor = GaussianPredictor.windowed(MATRIX, window)
        kept = gains - predictor.divergences(MATRIX)[HALF:]
        found["window"].append(window)
        found["captured"].append(np.maximum(kept, 0).sum())
        found["held"].append(gaussian_mutual_information(MATRIX, np.arange(HALF - window, HALF), after))
        found["own"].append(bipartite_mutual_information(predictor.covariance()))
    return {name: np.array(values) for name, values in found.items()}


def test_the_chain_of_windows_is_refused_with_bounds_of_smaller_states() -> None:
    found = windows()
    best = linear_state_information(3, 1, found["window"])
    claims.check("l2m-thm52", found["captured"], at_most=found["held"] + 1e-12)
    claims.check("l2m-thm52", found["held"], at_most=best + 1e-9)
    claims.check("l2m-thm52", found["own"], found["captured"], 1e-9)
    with pytest.raises(claims.ClaimFailed):  # a state a quarter as large
        claims.check("l2m-thm52", found["captured"][2:], at_most=found["held"][:-2] + 1e-12)
    smallest_first = np.cumsum(canonical_information(3)[::-1])[found["window"] - 1]
    with pytest.raises(claims.ClaimFailed):  # the wrong canonical pairs
        claims.check("l2m-thm52", found["held"], at_most=smallest_first + 1e-9)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", found["own"], 0.9 * found["captured"], 1e-9)


def test_captured_information_from_a_sample_is_refused_for_another_window() -> None:
    x = LAW.sample(128, 0)
    means, variances = LAW.conditionals(x)
    predictor, gains = GaussianPredictor.windowed(MATRIX, 16), information_by_position(MATRIX)
    ratio = np.log(variances / predictor.variances)
    kl = 0.5 * (np.expm1(ratio) - ratio + (x @ predictor.weights.T - means) ** 2 / predictor.variances)
    found = captured_information(kl[:, HALF:], gains).captured
    exact = dict(zip(windows()["window"], windows()["captured"], strict=True))
    claims.check("l2m-thm52", found.value, exact[16], 4 * found.standard_error)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", found.value, exact[32], 4 * found.standard_error)


def test_trained_models_exceed_a_bound_that_forgets_the_copies_or_the_state() -> None:
    runs = trained_runs(grid(lambda size, layers: lambda places: 0.01, SIZES[:3]))
    captured = np.array([run.estimate("captured_information")[0] for run in runs])
    there = np.array([run.information for run in runs])
    room = 32 * np.log(2) * np.array([run.state() + COPIES for run in runs])
    claims.check("l2m-thm52", captured, at_most=there)
    claims.check("l2m-thm52", captured, at_most=room)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", captured, at_most=there / COPIES)  # of one copy
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", captured, at_most=np.full(len(runs), np.log(2) * COPIES))  # the token alone


def test_the_error_of_starting_afresh_is_refused_with_another_sign_or_left_out() -> None:
    first, second = MATRIX[:HALF, :HALF], MATRIX[HALF:, HALF:]
    joint = GaussianPredictor.from_covariance(MATRIX)
    afresh = GaussianPredictor.from_covariance(first).cross_entropies(second).sum()
    measured = afresh - joint.cross_entropies(MATRIX)[HALF:].sum() - information_by_position(MATRIX).sum()
    claims.check("l2m-direct", measured, restart_error(LAW, 1), 1e-10)
    other = restart_error(HierarchicalGaussian(2), 1)
    for wrong in (0.0, -measured, other, 1.01 * measured):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-direct", measured, wrong, 1e-10)
    # a model's estimate minus its net information is a divergence; with the sign of the other term it is not
    runs = trained_runs(grid(lambda size, layers: lambda places: 0.05, SIZES[:2], (3, 4)))
    both = np.array([[run.estimate(name)[0] for name in ("restarted_direct", "net_information")] for run in runs])
    claims.check("l2m-direct", (both[:, 0] - both[:, 1]) / 0.57, at_least=-4)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-direct", (both[:, 0] - [run.information for run in runs]) / 0.57, at_least=-4)
