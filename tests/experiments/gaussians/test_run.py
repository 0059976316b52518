"""Training on hierarchical Gaussians: KL and NLL against the exact values, fresh data that come again, information."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from experiments.gaussians import information as gaussian_information
from experiments.gaussians import run as gaussian_run
from experiments.gaussians.continuous import GaussianLanguageModel, IndependentNormals
from experiments.gaussians.information import captured_information, information_by_position, own_information_bounds
from experiments.gaussians.scores import normal_cross_entropy, normal_divergence, normal_loss, score
from experiments.gaussians.sizes import PUBLISHED, gaussian_language_model
from experiments.gaussians.task import GaussianPrediction
from lib.information import bipartite_mutual_information, gaussian_mutual_information
from lib.processes import HierarchicalGaussian
from lib.report import claims
from lib.runs.definition import Experiment
from lib.theory.gaussian_predictor import GaussianPredictor
from lib.theory.model_error import gaussian_error_terms
from lib.training import FitSettings, fit

CPU = torch.device("cpu")
LAW = HierarchicalGaussian(2)
SETTINGS = {
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "batch": 4,
    "epochs": 3,
    "patience": None,
}


class LinearModel(torch.nn.Module):
    """A Gaussian distribution, the same for every copy, that predicts as a language model does."""

    def __init__(self, predictor: GaussianPredictor, copies: int) -> None:
        super().__init__()
        self.copies = copies
        self.weights = torch.nn.Parameter(torch.from_numpy(predictor.weights))
        self.sd = torch.nn.Parameter(torch.from_numpy(np.sqrt(predictor.variances)))

    def predictions(self, tokens: torch.Tensor) -> IndependentNormals:
        length = tokens.shape[1]
        means = torch.einsum("ij,njc->nic", self.weights[:length, :length], tokens)
        return IndependentNormals(means, self.sd[:length, None].expand_as(tokens))

    def initial_state(self, batch: int) -> torch.Tensor:
        return torch.zeros(batch, 0, self.copies, dtype=torch.float64)  # tokens read so far, BOS left out

    def step(self, token: torch.Tensor, state: torch.Tensor | None) -> Any:
        """BOS is all zero, and the first token that is read."""
        read = state if not token.any() and state.shape[1] == 0 else torch.cat([state, token[:, None]], dim=1)
        place = read.shape[1]
        means = torch.einsum("j,njc->nc", self.weights[place, :place], read)
        return IndependentNormals(means, self.sd[place].expand_as(means)), read


def normals(seed: int = 0) -> list[torch.Tensor]:
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=(7, 3)), random.uniform(0.2, 2, (7, 1))]
    return [torch.from_numpy(a) for a in (*arrays, random.normal(size=(7, 3)), random.uniform(0.2, 2, (7, 3)))]


def test_kl_is_that_of_torch_distributions_and_of_the_printed_equation() -> None:
    means, variances, model_means, deviations = normals()
    found = normal_divergence(means, variances, model_means, deviations)
    expected = kl_divergence(Normal(means, variances.sqrt().expand(7, 3)), Normal(model_means, deviations))
    assert (found - expected).abs().max() < 1e-13
    spread = variances + (model_means - means) ** 2
    printed = (deviations / variances.sqrt()).log() + spread / (2 * deviations**2) - 0.5  # E.35
    assert (found - printed).abs().max() < 1e-13
    swapped = normal_divergence(model_means, deviations**2, means, variances.sqrt())
    assert (swapped - expected).abs().max() > 0.1  # the direction matters


def test_a_tiny_kl_keeps_its_digits() -> None:
    one = torch.ones((), dtype=torch.float64)
    for change in (1e-4, 1e-6):
        found = normal_divergence(0 * one, one, 0 * one, one + change)
        assert float(found) == pytest.approx(change**2, rel=3 * change)  # r = -2 change: 1/2 (e^r - 1 - r) = change^2
        assert float(normal_divergence(0 * one, one, change * one, one)) == pytest.approx(change**2 / 2, rel=1e-12)


def test_expected_nll_is_the_mean_of_sampled_nll() -> None:
    means, variances, model_means, deviations = normals(1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)  # exact for polynomials of degree 15
    total = sum(
        weight * normal_loss(means + variances.sqrt() * node, model_means, deviations)
        for node, weight in zip(nodes, weights / np.sqrt(2 * np.pi), strict=True)
    )
    assert (normal_cross_entropy(means, variances, model_means, deviations) - total).abs().max() < 1e-12


@pytest.mark.parametrize("family", ["subvolume", "critical"])
def test_nll_minus_entropy_is_kl_at_every_position(family: str) -> None:
    law = HierarchicalGaussian(2, family)
    model = LinearModel(GaussianPredictor.windowed(law.covariance(), 3), 5)
    scores = score(model.predictions, law.on_device("cpu", torch.float64), 9, copies=5)
    assert np.abs(scores.cross_entropies - scores.entropies - scores.divergences).max() < 1e-14
    assert scores.average_cross_entropy - scores.entropies.mean() == pytest.approx(scores.average_divergence, abs=1e-14)
    claims.check("l2m-kl", scores.cross_entropies - scores.entropies, scores.divergences, 1e-13)
    with pytest.raises(claims.ClaimFailed):  # with the entropy of another distribution
        wrong = HierarchicalGaussian(2, "critical" if family == "subvolume" else "subvolume").conditional_variances()
        entropies = 0.5 * np.log(2 * np.pi * np.e * wrong)
        claims.check("l2m-kl", scores.cross_entropies - entropies, scores.divergences, 1e-13)


def test_the_exact_conditionals_have_no_kl_and_their_nll_is_the_entropy() -> None:
    exact = LAW.on_device("cpu", torch.float64)
    scores = score(lambda x: (exact.conditionals(x)[0], exact.conditionals(x)[1].sqrt()), exact, 2000, copies=4)
    assert np.abs(scores.divergences).max() < 1e-28
    assert np.abs(scores.cross_entropies - scores.entropies).max() < 1e-13
    assert scores.entropies.sum() == pytest.approx(LAW.entropy(), rel=1e-12)
    error = scores.standard_error(scores.losses)
    assert abs(scores.losses.mean() - scores.entropies.mean()) < 4 * error < 0.02
    single = LAW.on_device("cpu")  # float32: rounding of means of order one, squared
    scores = score(lambda x: (single.conditionals(x)[0], single.conditionals(x)[1].sqrt()), single, 50, copies=4)
    assert 0 <= scores.divergences.max() < 1e-11


def test_position_wise_kl_of_a_linear_model_is_the_one_in_closed_form() -> None:
    predictor = GaussianPredictor.windowed(LAW.covariance(), 3)
    scores = score(LinearModel(predictor, 8).predictions, LAW.on_device("cpu", torch.float64), 800, copies=8, seed=2)
    exact = predictor.divergences(LAW.covariance())
    error = scores.divergences.std(axis=0, ddof=1) / np.sqrt(800)
    assert (np.abs(scores.divergences.mean(axis=0) - exact) < 4.5 * error + 1e-12).all()
    assert not (np.abs(scores.divergences.mean(axis=0) - 1.3 * exact) < 4.5 * error + 1e-12).all()


def test_a_batch_depends_on_seed_epoch_and_step_alone_and_no_two_are_equal() -> None:
    def drawn(seed: int, epoch: int) -> list[torch.Tensor]:
        return [tokens for tokens, _ in GaussianPrediction(LAW, 3, copies=2, seed=seed).batches(4, epoch, CPU)]

    first = drawn(0, 1)
    assert all(torch.equal(a, b) for a, b in zip(first, drawn(0, 1), strict=True))
    others = [*first, *drawn(0, 0), *drawn(1, 1)]
    assert len({float(tokens[0, 0, 0]) for tokens in others}) == len(others) == 9
    before = torch.random.get_rng_state()
    drawn(0, 0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_means_of_a_batch_are_the_exact_conditionals() -> None:
    ((tokens, means),) = GaussianPrediction(LAW, 1, copies=3).batches(2, 0, CPU)
    expected, _ = LAW.conditionals(tokens.double().numpy(), axis=1)
    assert np.abs(means.numpy() - expected).max() < 1e-6


def test_the_loss_is_the_mean_kl_and_validation_is_the_same_every_time() -> None:
    model = LinearModel(GaussianPredictor.windowed(LAW.covariance(), 2), 3).float()
    task = GaussianPrediction(LAW, 1, copies=3, validation=9)
    ((tokens, means),) = task.batches(5, 0, CPU)
    law = Normal(means, torch.from_numpy(np.sqrt(LAW.conditional_variances())).float()[:, None].expand_as(means))
    expected = kl_divergence(law, Normal(*model.predictions(tokens))).mean()
    assert task.loss(model, (tokens, means)).detach().item() == pytest.approx(expected.detach().item(), rel=1e-5)
    values = {
        task.validation_loss(model, CPU),
        GaussianPrediction(LAW, 7, copies=3, validation=9, seed=5).validation_loss(model, CPU),
    }
    assert len(values) == 1


def test_the_share_of_time_for_data_is_measured() -> None:
    task = GaussianPrediction(LAW, 4, copies=2)
    assert task.data_share == task.tokens_per_second == 0.0
    for _ in task.batches(8, 0, CPU):
        pass
    assert 0.0 < task.data_share <= 1.0
    assert task.tokens == 4 * 8 * LAW.length
    assert task.tokens_per_second == task.tokens / task.seconds


def small_model(seed: int = 0) -> GaussianLanguageModel:
    return GaussianLanguageModel("gpt2", 16, 1, copies=2, longest=LAW.length, seed=seed)


def test_training_lowers_kl_below_that_of_independent_numbers() -> None:
    task = GaussianPrediction(LAW, 30, copies=2, validation=64)
    untrained = -0.5 * float(np.log(LAW.conditional_variances()).mean())
    model = small_model()
    assert task.validation_loss(model, CPU) == pytest.approx(untrained, rel=0.05)
    course = fit(model, task, FitSettings(**{**SETTINGS, "learning_rate": 0.01, "batch": 32}), progress=False)
    assert course.validation_losses[-1] < 0.6 * untrained
    assert course.validation_losses[-1] > 0


def test_a_run_in_two_parts_sees_the_same_data_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    class Interrupted(GaussianPrediction):
        def batches(self, batch: int, epoch: int, device: torch.device) -> Any:
            if epoch == 2:
                raise KeyboardInterrupt
            return super().batches(batch, epoch, device)

    arguments = {"copies": 2, "validation": 3, "seed": 4}
    settings = FitSettings(**SETTINGS)
    whole, resumed = small_model(1), small_model(2)
    course = fit(whole, GaussianPrediction(LAW, 5, **arguments), settings, progress=False)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        fit(small_model(1), Interrupted(LAW, 5, **arguments), settings, checkpoint=path, progress=False)
    again = fit(resumed, GaussianPrediction(LAW, 5, **arguments), settings, checkpoint=path, progress=False)
    assert again.validation_losses == course.validation_losses
    assert again.training_losses == course.training_losses
    for mine, its in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_gains_of_positions_are_conditional_informations_and_add_up() -> None:
    matrix = LAW.covariance()
    gains = information_by_position(matrix)
    assert gains.sum() == pytest.approx(bipartite_mutual_information(matrix), rel=1e-12)
    assert gains.sum() == pytest.approx(LAW.bipartite_mutual_information(), rel=1e-12)
    for count in (1, 5):
        part = gaussian_mutual_information(matrix, np.arange(8), np.arange(8, 8 + count))
        assert gains[:count].sum() == pytest.approx(part, rel=1e-10)
    assert information_by_position(matrix, 3).sum() == pytest.approx(LAW.bipartite_mutual_information(3), rel=1e-12)


@pytest.mark.parametrize("window", [0, 1, 3, 5, 15])
def test_captured_information_lies_between_the_net_one_and_what_the_state_has(window: int) -> None:
    # the state of this model after the first half is the last `window` numbers of it
    matrix = LAW.covariance()
    predictor = GaussianPredictor.windowed(matrix, window)
    gains, exact = information_by_position(matrix), predictor.divergences(matrix)[8:]
    state = np.arange(max(0, 8 - window), 8)
    held = gaussian_mutual_information(matrix, state, np.arange(8, 16)) if window else 0.0
    net, captured = float((gains - exact).sum()), float(np.maximum(gains - exact, 0).sum())
    assert net <= captured + 1e-12 <= held + 2e-12 <= LAW.bipartite_mutual_information() + 1e-9
    scores = score(LinearModel(predictor, 4).predictions, LAW.on_device("cpu", torch.float64), 400, copies=4)
    found = gaussian_information.captured(scores, LAW)
    for name, value in (("net_information", net), ("captured_information", captured)):
        measured = found[name]
        assert abs(measured["value"] - 4 * value) < 4.5 * measured["standard_error"] + 0.01
    assert found["true_information"] == pytest.approx(4 * LAW.bipartite_mutual_information(), rel=1e-12)


def test_captured_information_of_a_wrong_model_exceeds_no_bound_and_the_net_one_may_be_negative() -> None:
    n, gains = 4000, np.full(6, 0.1)
    random = np.random.default_rng(0)
    values = random.exponential(np.array([0.01, 0.5, 2.0, 0.1, 0.099, 0.02]), (n, 6))
    found = captured_information(values, gains)
    expected = float(np.maximum(gains - [0.01, 0.5, 2.0, 0.1, 0.099, 0.02], 0).sum())
    assert found.net.value < 0 < found.captured.value
    assert abs(found.captured.value - expected) < 4.5 * found.captured.standard_error + 0.002
    # negative control: positions chosen on the very sequences that are counted would gain from noise
    noise = random.normal(0.1, 1.0, (4, 20_000))
    assert abs(captured_information(noise, np.full(20_000, 0.1)).captured.value) < 4 * np.sqrt(20_000)
    assert np.maximum(0.1 - noise.mean(axis=0), 0).sum() > 10 * np.sqrt(20_000)


@pytest.mark.parametrize("window", [1, 4, 15])
def test_the_own_information_of_a_linear_model_lies_between_its_bounds(window: int) -> None:
    matrix = LAW.covariance()
    predictor = GaussianPredictor.windowed(matrix, window)
    own = bipartite_mutual_information(predictor.covariance())
    drawn = np.random.default_rng(1).standard_normal((20_000, 16)) @ np.linalg.cholesky(predictor.covariance()).T
    log_q = predictor.log_densities(drawn)
    half = [log_q[:, :8].sum(1), log_q[:, 8:].sum(1)]

    def bounds(reference: np.ndarray) -> Any:
        second = GaussianPredictor.from_covariance(reference[8:, 8:]).log_densities(drawn[:, 8:]).sum(1)
        return own_information_bounds(*half, LAW_log(reference, drawn), second)

    found = bounds(matrix)  # the true distribution as reference
    assert found.lower.value - 4 * found.lower.standard_error < own < found.upper.value + 4 * found.upper.standard_error
    gap = float(GaussianPredictor.from_covariance(matrix).divergences(predictor.covariance()).sum())  # KL(q || p)
    noise = found.lower.standard_error + found.upper.standard_error
    assert abs(found.upper.value - found.lower.value - gap) < 4 * noise
    tight = bounds(predictor.covariance())  # its own distribution: both are the information
    assert abs(tight.lower.value - own) < 4 * tight.lower.standard_error
    assert abs(tight.upper.value - tight.lower.value) < 1e-10


def LAW_log(covariance: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return GaussianPredictor.from_covariance(covariance).log_densities(rows).sum(axis=1)


def test_the_experiment_finds_the_own_information_of_a_linear_model_and_the_error_of_starting_afresh() -> None:
    matrix = LAW.covariance()
    predictor = GaussianPredictor.windowed(matrix, 2)
    model = LinearModel(predictor, 4)
    bounds = gaussian_information.own_information(model, LAW, 3000, 0, "cpu")
    own = 4 * bipartite_mutual_information(predictor.covariance())
    assert (
        bounds.lower.value - 4 * bounds.lower.standard_error
        < own
        < bounds.upper.value + 4 * bounds.upper.standard_error
    )
    assert bounds.upper.value - bounds.lower.value < 0.25  # the reference is fitted: nearly the model's own
    terms = gaussian_error_terms(matrix, matrix, marginal=matrix[:8, :8])
    assert gaussian_information.restart_error(LAW, 4) == pytest.approx(4 * terms.marginal, rel=1e-9)
    exact = LinearModel(GaussianPredictor.from_covariance(matrix), 4).float()
    found = gaussian_information.restarted(exact, LAW, 4000, 0, "cpu")
    estimate, expected = found["restarted_direct"], 4 * terms.direct
    assert abs(estimate["value"] - expected) < 4.5 * estimate["standard_error"]


def test_an_untrained_model_captures_nothing_and_draws_halves_without_information() -> None:
    model = small_model()
    bounds = gaussian_information.own_information(model, LAW, 60, 0, "cpu")
    assert abs(bounds.lower.value) < 1e-4 and abs(bounds.upper.value) < 1e-4
    scores = score(model.predictions, LAW.on_device("cpu"), 200, copies=2)
    found = gaussian_information.captured(scores, LAW)
    # all it misses of the whole distribution is more than what the halves share
    assert found["net_information"]["value"] < 0
    assert found["captured_information"]["value"] < 0.3 * found["true_information"]


def test_bins_cover_all_positions_in_whole_rows() -> None:
    for length in (16, 64, 256, 1024, 4096):
        edges = gaussian_run.position_bins(length)
        assert edges[0] == 0 and edges[-1] == length
        assert (np.diff(edges) > 0).all()
        assert (edges[16:] % 4 == 0).all()
        assert list(edges[:17]) == list(range(17))


TINY = {"size": "mamba-2x32", "layers": 2, "copies": 2, "epoch_steps": 2, "validation": 3, "measured": 6, "drawn": 6}


def test_a_run_of_the_experiment_agrees_with_itself(tmp_path: Path) -> None:
    parameters = gaussian_run.check({**TINY, "fit": {**SETTINGS, "epochs": 2}})
    result = gaussian_run.run(parameters, 0, tmp_path)
    json.dumps(result, allow_nan=False)
    widths = np.subtract(result["last_positions"], result["first_positions"]) + 1
    assert widths.sum() == result["length"] == 16
    assert np.average(result["divergence"], weights=widths) == pytest.approx(result["average_divergence"], rel=1e-10)
    excess = np.subtract(result["cross_entropy"], result["entropy"])
    assert np.abs(excess - result["divergence"]).max() < 1e-13
    assert result["average_cross_entropy"] - result["average_entropy"] == pytest.approx(result["average_divergence"])
    assert result["true_information"] == pytest.approx(2 * LAW.bipartite_mutual_information(), rel=1e-9)
    assert result["state_size"] == 2 * 64 * 19 and result["scanned_state_size"] == 2 * 64 * 16
    untrained = -0.5 * float(np.log(LAW.conditional_variances()).mean())
    assert result["untrained_divergence"] == pytest.approx(untrained, rel=1e-6)
    again = gaussian_run.run(parameters, 0, tmp_path / "again")
    timed = {"training_seconds", "data_share", "tokens_per_second"}
    assert {k: v for k, v in again.items() if k not in timed} == {k: v for k, v in result.items() if k not in timed}


def test_every_profile_of_the_experiment_can_run_and_the_paper_one_has_all_published_sizes() -> None:
    experiment = Experiment("l2m-fig4")
    for named in (experiment, Experiment("l2m-clock")):
        for profile in named.profiles:
            sizes = {run.parameters["size"].partition("-")[0] for run in named.runs(profile)}
            assert sizes == {"gpt2", "mamba", "mamba2"}
    grid = experiment.profiles["paper"]["grid"]
    named = {size for entry in grid for size in np.atleast_1d(entry["size"])}
    assert named == set(PUBLISHED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "mamba-7b"}, "size"),
        ({"layers": 1}, "layers"),
        ({"copies": 0}, "copies"),
        ({"precision": "fp16"}, "precision"),
        ({"family": "marginal"}, "family"),
        ({"fit": {"batc": 4}}, "no such setting"),
        ({"model": {"heads": 2}}, "heads"),
        ({"steps": 5}, "steps"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_they_start(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gaussian_run.check({**TINY, **change})


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="epoch_steps"):
        GaussianPrediction(LAW, 0)
    with pytest.raises(ValueError, match="precision"):
        GaussianPrediction(LAW, 1, precision="double")
    with pytest.raises(ValueError, match="sequences"):
        score(gaussian_language_model("mamba-2x32").predictions, LAW.on_device("cpu"), 1)
    with pytest.raises(ValueError, match="shapes"):
        captured_information(np.zeros((5, 3)), np.zeros(4))
    with pytest.raises(ValueError, match="n >= 4"):
        captured_information(np.zeros((3, 4)), np.zeros(4))
    with pytest.raises(ValueError, match="finite"):
        captured_information(np.full((5, 3), np.nan), np.zeros(3))
    with pytest.raises(ValueError, match="split"):
        information_by_position(np.eye(4), 4)
    with pytest.raises(ValueError, match="positive definite"):
        information_by_position(np.ones((4, 4)))
    with pytest.raises(ValueError, match="n: at least 6"):
        gaussian_information.own_information(None, LAW, 5, 0, "cpu")
