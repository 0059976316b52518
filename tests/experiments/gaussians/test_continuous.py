"""Gaussian language models: steps equal the parallel form, states are counted, sizes are the published ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from experiments.gaussians.continuous import GaussianLanguageModel
from experiments.gaussians.sizes import LADDER, PUBLISHED, SIZES, gaussian_language_model
from experiments.gaussians.task import draw_tokens, log_densities
from lib.models import Mamba, Mamba2, Transformer
from lib.training.settings import forward_pass, matrix_products

COPIES, TIME = 5, 12
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {"longest": TIME}),
    "gpt2, sinusoids": ("gpt2", {"positions": "sinusoidal", "deviation": "softplus"}),
    "mamba": ("mamba", {"size": 3}),
    "mamba, learned positions": ("mamba", {"size": 3, "positions": "learned", "longest": TIME, "hidden": 6}),
    "mamba2": ("mamba2", {"size": 3, "head_width": 4}),
}
variants = pytest.mark.parametrize("variant", VARIANTS)


def build(variant: str, dtype: Any = torch.float64) -> GaussianLanguageModel:
    """A model that is not at its start, where it would predict N(0, 1) of everything."""
    architecture, options = VARIANTS[variant]
    model = GaussianLanguageModel(architecture, 8, 2, copies=COPIES, seed=3, **options).to(dtype)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        last = model.readout[-1].weight
        last.copy_(0.3 * torch.randn(last.shape, generator=random, dtype=dtype))
    return model


def tokens(batch: int = 3, time: int = TIME, dtype: Any = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((batch, time, COPIES))).to(dtype)


def stepped(model: GaussianLanguageModel, sequence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions by steps: BOS first."""
    state, token, laws = model.initial_state(len(sequence)), torch.zeros_like(sequence[:, 0]), []
    for following in sequence.unbind(1):
        law, state = model.step(token, state)
        laws.append(law)
        token = following
    means, deviations = (torch.stack(parts, dim=1) for parts in zip(*laws, strict=True))
    return means, deviations


@variants
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_parallel_form_equals_the_steps_from_bos(variant: str, dtype: Any, tolerance: float) -> None:
    model, sequence = build(variant, dtype), tokens(dtype=dtype)
    with torch.no_grad():
        parallel, steps = model.predictions(sequence), stepped(model, sequence)
    for found, expected in zip(steps, parallel, strict=True):
        assert found.shape == sequence.shape
        assert (found - expected).abs().max() < tolerance


@variants
def test_a_prediction_depends_on_all_tokens_before_it_and_on_no_other(variant: str) -> None:
    model, sequence = build(variant), tokens(batch=1).requires_grad_()
    place = 7
    means, deviations = model.predictions(sequence)
    (gradient,) = torch.autograd.grad((means[0, place] + deviations[0, place]).sum(), sequence)
    assert (gradient[0, :place] != 0).any(dim=1).all()
    assert (gradient[0, place:] == 0).all()


@variants
def test_the_state_holds_as_many_numbers_as_it_says(variant: str) -> None:
    model, sequence = build(variant), tokens(batch=1)
    state = model.initial_state(1)
    for length in range(TIME):
        held = sum(leaf.numel() for layer in state.layers for leaf in layer if isinstance(leaf, torch.Tensor))
        assert held == model.state_size(length)
        with torch.no_grad():
            _, state = model.step(sequence[:, length], state)


def test_scanned_states_are_those_that_are_quoted_for_mamba() -> None:
    quoted = {"50m": 196_608, "70m": 393_216, "130m": 589_824, "370m": 1_572_864, "790m": 2_359_296, "1.4b": 3_145_728}
    with torch.device("meta"):
        for name, size in quoted.items():
            model = gaussian_language_model(f"mamba-{name}")
            assert model.scanned_state_size(4096) == size
            assert model.state_size(4096) == size * (16 + 3) // 16  # and the convolutions' windows


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_have_about_the_parameters_of_their_names(name: str) -> None:
    known = {"gpt2": 124, "gpt2-medium": 355, "gpt2-large": 774, "mamba-1.4b": 1400}
    millions = known.get(name) or int(name.rpartition("-")[2].removesuffix("m"))
    with torch.device("meta"):
        model = gaussian_language_model(name, longest=1024)
    layers = sum(parameter.numel() for layer in model.layers for parameter in layer.parameters())
    words = 50280 * model.width  # the embedding of words, which is counted in the names
    assert (layers + words) / 1e6 == pytest.approx(millions, rel=0.1)


def test_every_step_of_the_ladder_can_be_built_and_mamba_and_mamba2_of_one_name_scan_as_much() -> None:
    with torch.device("meta"):
        models = {name: gaussian_language_model(name, longest=64) for name in LADDER}
    for name in ("2x32", "2x64", "4x64"):
        assert models[f"mamba-{name}"].scanned_state_size(64) == models[f"mamba2-{name}"].scanned_state_size(64)


@pytest.mark.parametrize(
    ("architecture", "book"),
    [
        ("gpt2", lambda: Transformer(1, 8, 2)),
        ("mamba", lambda: Mamba(1, 8, 2, size=16)),
        ("mamba2", lambda: Mamba2(1, 8, 2, size=64, head_width=4)),
    ],
)
def test_the_layers_are_those_of_the_book(architecture: str, book: Any) -> None:
    options = {"gpt2": {"longest": 64}, "mamba2": {"head_width": 4}}.get(architecture, {})
    ours, theirs = GaussianLanguageModel(architecture, 8, 2, copies=COPIES, **options), book()
    ours.layers.load_state_dict(theirs.layers.state_dict())
    x = y = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 70, 8), dtype=np.float32))
    for mine, its in zip(ours.layers, theirs.layers, strict=True):
        x, y = mine(x), its(y)
    assert torch.equal(x, y)


@variants
def test_an_untrained_model_says_standard_normal(variant: str) -> None:
    architecture, options = VARIANTS[variant]
    law = GaussianLanguageModel(architecture, 8, 2, copies=COPIES, **options).predictions(tokens(dtype=torch.float32))
    assert (law.means == 0).all()
    assert (law.deviations - 1).abs().max() < 1e-6


def test_the_same_seed_makes_the_same_weights_and_leaves_torchs_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (gaussian_language_model("mamba-2x32", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    flat = [torch.cat([p.flatten() for p in model.parameters()]) for model in (first, again, other)]
    assert torch.equal(flat[0], flat[1])
    assert not torch.equal(flat[0], flat[2])


def test_what_a_model_draws_has_the_law_that_it_predicts() -> None:
    # -ln q of its own draws averages to the entropy that q states: 1/2 ln(2 pi e s^2), step by step
    model = build("mamba")
    drawn = draw_tokens(model, 4000, 4, seed=0)
    with torch.no_grad():
        deviations = model.predictions(drawn).deviations
    entropies = (deviations.log() + 0.5 * np.log(2 * np.pi * np.e)).sum(-1)
    losses = -log_densities(model, drawn, 1000)
    error = 4 * np.sqrt(COPIES / 2 / len(drawn))  # standard deviation of z^2 / 2 is sqrt(1/2)
    assert np.abs((losses - entropies.numpy()).mean(axis=0)).max() < error
    assert np.abs((losses - 1.1 * entropies.numpy()).mean(axis=0)).max() > error
    assert torch.equal(drawn, draw_tokens(model, 4000, 4, seed=0))
    assert drawn.shape == (4000, 4, COPIES)


@pytest.mark.parametrize("variant", ["gpt2", "mamba", "mamba2"])
def test_under_autocast_the_answer_is_float32_and_near(variant: str) -> None:
    model, sequence = build(variant, torch.float32), tokens(dtype=torch.float32)
    with torch.no_grad():
        exact = model.predictions(sequence)
        with forward_pass("bfloat16", torch.device("cpu")):
            rounded = model.predictions(sequence)
        with forward_pass("float32", torch.device("cpu")):
            assert torch.equal(model.predictions(sequence).means, exact.means)
    assert rounded.means.dtype == torch.float32
    assert 0 < (rounded.means - exact.means).abs().mean() < 0.02 * exact.means.abs().mean()


def test_a_precision_is_undone_behind_its_training() -> None:
    before = torch.get_float32_matmul_precision()
    for precision, inside in (("float32", "highest"), ("tf32", "high"), ("bfloat16", "high")):
        with pytest.raises(KeyError), matrix_products(precision):
            assert torch.get_float32_matmul_precision() == inside
            raise KeyError
        assert torch.get_float32_matmul_precision() == before
    with pytest.raises(ValueError, match="precision"), matrix_products("fp16"):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"architecture": "lstm"}, "architecture"),
        ({"architecture": "gpt2"}, "longest"),
        ({"positions": "rotary"}, "positions"),
        ({"deviation": "relu"}, "deviation"),
        ({"copies": 0}, "copies"),
        ({"depth": 0}, "depth"),
        ({"hidden": -1}, "hidden"),
        ({"heads": 2}, "mamba: "),
        ({"architecture": "gpt2", "longest": 8, "heads": 3}, "width"),
        ({"architecture": "mamba2", "head_width": 5}, "head_width"),
    ],
)
def test_models_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianLanguageModel(**{"architecture": "mamba", "width": 8, "depth": 1, **arguments})


def test_an_unknown_size_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="mamba-130m"):
        gaussian_language_model("mamba-7b")
    assert set(SIZES) == set(LADDER) | set(PUBLISHED)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(2, 3, COPIES + 1), "shape"),
        (torch.zeros(2, COPIES), "shape"),
        (torch.zeros(2, 3, COPIES, dtype=torch.int64), "int64"),
        (torch.zeros(2, TIME + 1, COPIES), "positions"),
    ],
)
def test_tokens_that_cannot_be_read_are_refused(given: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("gpt2", torch.float32).predictions(given)
