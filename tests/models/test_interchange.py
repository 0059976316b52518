"""Weights go to transformers and back: equal outputs, equal gradients; names and shapes of mamba-ssm."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from lib.models import Mamba, Mamba2, SequenceModel, VanillaRNN
from lib.models.interchange import configuration, export_weights, import_weights, names

VOCABULARY = 5
MODELS: dict[str, Any] = {
    "mamba": lambda: Mamba(VOCABULARY, 12, 2, size=3, seed=1),
    "mamba, other sizes": lambda: Mamba(VOCABULARY, 20, 1, size=5, kernel=3, expand=3, seed=2),
    "mamba2": lambda: Mamba2(VOCABULARY, 12, 2, size=3, head_width=8, seed=1),
    "mamba2, other sizes": lambda: Mamba2(VOCABULARY, 8, 1, size=6, kernel=3, expand=1, head_width=4, seed=2),
}


class TorchInDouble:
    """torch, whose float32 is float64."""

    float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@pytest.fixture
def in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers rounds to float32 inside its layers; to compare in float64, these casts are lifted."""
    for name in ("mamba", "mamba2"):
        module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        monkeypatch.setattr(module, "torch", TorchInDouble())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def theirs_like(model: SequenceModel, dtype: Any = torch.float32) -> Any:
    import transformers  # seconds, which only who runs these tests waits for

    if isinstance(model, Mamba):
        made = transformers.MambaForCausalLM(transformers.MambaConfig(**configuration(model)))
    else:
        made = transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**configuration(model)))
    return made.to(dtype).train()


def tokens(batch: int, time: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(VOCABULARY, size=(batch, time)))


def moved(model: SequenceModel) -> SequenceModel:
    """Away from initial values at which several parameters are all equal; but the head's bias stays zero."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "head.bias":
                parameter += 0.1 * torch.randn(parameter.shape, generator=random, dtype=parameter.dtype)
    return model


def compare(model: SequenceModel, theirs: Any, tolerance: float) -> None:
    sequence = tokens(2, 70)  # more than one chunk
    ours_out, theirs_out = model(sequence), theirs(sequence, use_cache=False).logits
    torch.testing.assert_close(ours_out, theirs_out, rtol=tolerance, atol=tolerance)
    weights = torch.randn(ours_out.shape, generator=torch.Generator().manual_seed(1), dtype=ours_out.dtype) / 140
    (ours_out * weights).sum().backward()
    (theirs_out * weights).sum().backward()
    ours_parameters, theirs_parameters = dict(model.named_parameters()), dict(theirs.named_parameters())
    assert set(names(model).values()) == set(theirs_parameters)
    for ours, other in names(model).items():
        first, second = ours_parameters[ours].grad, theirs_parameters[other].grad
        assert first is not None and float(first.abs().max()) > 0
        torch.testing.assert_close(
            first, second, rtol=tolerance, atol=tolerance, msg=lambda text, n=ours: f"{n}: {text}"
        )


@pytest.mark.parametrize("name", MODELS)
def test_our_weights_give_transformers_our_outputs_and_gradients(name: str) -> None:
    model = moved(MODELS[name]())
    theirs = theirs_like(model)
    theirs.load_state_dict(export_weights(model), strict=True)
    compare(model, theirs, 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_in_double_precision_they_agree_to_ten_digits(name: str, in_double: None) -> None:
    model = moved(MODELS[name]().double())
    theirs = theirs_like(model, torch.float64)
    theirs.load_state_dict(export_weights(model), strict=True)
    compare(model, theirs, 1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_transformers_give_us_their_outputs_and_gradients(name: str) -> None:
    model = MODELS[name]()
    torch.manual_seed(0)
    theirs = theirs_like(model)
    before = model(tokens(1, 8))
    import_weights(model, theirs.state_dict())
    assert not torch.allclose(before, model(tokens(1, 8)))
    compare(model, theirs, 1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layout", ["transformers", "mamba_ssm"])
def test_weights_come_back_as_they_went(name: str, layout: str) -> None:
    model, other = moved(MODELS[name]()), MODELS[name]()
    import_weights(other, export_weights(model, layout))
    for first, second in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(first, second)


def test_a_wrong_weight_is_seen_in_the_comparison() -> None:
    model = moved(MODELS["mamba"]())
    theirs = theirs_like(model)
    weights = export_weights(model)
    weights["backbone.layers.1.mixer.A_log"][3, 1] += 0.05
    theirs.load_state_dict(weights)
    with pytest.raises(AssertionError, match="not close"):
        compare(model, theirs, 1e-5)


def test_a_backbone_alone_leaves_the_head_as_it_was() -> None:
    model = moved(MODELS["mamba"]())
    theirs = theirs_like(model).backbone
    head = model.head.weight.detach().clone()
    import_weights(model, theirs.state_dict())
    assert torch.equal(model.head.weight, head)
    with torch.no_grad():
        hidden = theirs(tokens(2, 9), use_cache=False).last_hidden_state
        torch.testing.assert_close(model(tokens(2, 9)), hidden @ head.T + model.head.bias, rtol=1e-5, atol=1e-5)


def test_names_and_shapes_are_those_of_the_models_of_mamba_ssm() -> None:
    exported = export_weights(Mamba(VOCABULARY, 20, 1, size=3), "mamba_ssm")
    assert {name: tuple(weight.shape) for name, weight in exported.items()} == {
        "backbone.embedding.weight": (5, 20),
        "backbone.layers.0.norm.weight": (20,),
        "backbone.layers.0.mixer.A_log": (40, 3),
        "backbone.layers.0.mixer.D": (40,),
        "backbone.layers.0.mixer.in_proj.weight": (80, 20),
        "backbone.layers.0.mixer.conv1d.weight": (40, 1, 4),
        "backbone.layers.0.mixer.conv1d.bias": (40,),
        "backbone.layers.0.mixer.x_proj.weight": (8, 40),
        "backbone.layers.0.mixer.dt_proj.weight": (40, 2),
        "backbone.layers.0.mixer.dt_proj.bias": (40,),
        "backbone.layers.0.mixer.out_proj.weight": (20, 40),
        "backbone.norm_f.weight": (20,),
        "lm_head.weight": (5, 20),
    }
    second = export_weights(Mamba2(VOCABULARY, 6, 1, size=3, head_width=4), "mamba_ssm")
    mixer = {name.rpartition("mixer.")[2]: tuple(weight.shape) for name, weight in second.items() if "mixer" in name}
    assert mixer == {
        "dt_bias": (3,),
        "A_log": (3,),
        "D": (3,),
        "in_proj.weight": (2 * 12 + 2 * 3 + 3, 6),
        "conv1d.weight": (12 + 2 * 3, 1, 4),
        "conv1d.bias": (18,),
        "norm.weight": (12,),
        "out_proj.weight": (6, 12),
    }
    assert configuration(Mamba(7, 20, 2, size=3), "mamba_ssm") == {
        "d_model": 20,
        "n_layer": 2,
        "vocab_size": 7,
        "ssm_cfg": {"layer": "Mamba1", "d_state": 3, "d_conv": 4, "expand": 2, "dt_rank": 2},
        "rms_norm": True,
        "pad_vocab_size_multiple": 1,
        "tie_embeddings": False,
    }
    assert configuration(Mamba2(7, 6, size=3, head_width=4), "mamba_ssm")["ssm_cfg"] == {
        "layer": "Mamba2",
        "d_state": 3,
        "d_conv": 4,
        "expand": 2,
        "headdim": 4,
        "ngroups": 1,
    }


def test_a_vocabulary_that_was_rounded_up_is_cut_back() -> None:
    model = moved(MODELS["mamba"]())
    weights = export_weights(model, "mamba_ssm")
    for name in ("backbone.embedding.weight", "lm_head.weight"):
        weights[name] = torch.cat([weights[name], torch.ones(3, 12)])
    other = MODELS["mamba"]()
    import_weights(other, weights)
    assert torch.equal(other.embedding.weight, model.embedding.weight)
    assert torch.equal(other.head.weight, model.head.weight)


def test_what_does_not_fit_is_refused_before_anything_is_changed() -> None:
    model = MODELS["mamba"]()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    good = export_weights(moved(MODELS["mamba"]()))
    fewer = {name: weight for name, weight in good.items() if "layers.1.mixer.D" not in name}
    for weights, message in (
        (fewer, "missing: backbone.layers.1.mixer.D"),
        (good | {"backbone.layers.2.norm.weight": torch.ones(12)}, "unknown: backbone.layers.2"),
        (good | {"lm_head.weight": torch.ones(4, 12)}, r"lm_head.weight of shape \(5, 12\)"),
        (good | {"backbone.layers.1.mixer.D": torch.ones(23)}, r"mixer.D of shape \(24,\)"),
        (export_weights(MODELS["mamba2"]()), "unknown: backbone.layers.0.mixer.dt_bias"),
        (good | {"lm_head.weight": torch.ones(505, 12)}, r"lm_head.weight of shape \(5, 12\)"),  # no rounding up
        (good | {"lm_head.weight": torch.ones(5, 12, dtype=torch.complex64)}, "real floating-point"),
        ({name: weight.numpy() for name, weight in good.items()}, "tensors of real floating-point"),
        (None, "tensors of real floating-point"),
    ):
        with pytest.raises(ValueError, match=message):
            import_weights(model, weights)
    for parameter, kept in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, kept)
    with pytest.raises(ValueError, match="VanillaRNN"):
        export_weights(VanillaRNN(2, 3))
    with pytest.raises(ValueError, match="jax"):
        names(model, "jax")
    with torch.no_grad():
        model.head.bias[0] = 1.0
    with pytest.raises(ValueError, match="bias"):
        export_weights(model)


def test_a_tied_head_goes_to_transformers_and_back() -> None:
    model = moved(Mamba(VOCABULARY, 8, 2, size=4, tied=True, seed=1))
    assert configuration(model)["tie_word_embeddings"] and configuration(model, "mamba_ssm")["tie_embeddings"]
    theirs = theirs_like(model)
    theirs.load_state_dict(export_weights(model), strict=True)
    compare(model, theirs, 1e-5)
    other = Mamba(VOCABULARY, 8, 2, size=4, tied=True, seed=2)
    for layout in ("transformers", "mamba_ssm"):
        weights = export_weights(model, layout)
        import_weights(other, weights)
        assert torch.equal(other(tokens(1, 9)), model(tokens(1, 9)))
        weights["lm_head.weight"] = weights["lm_head.weight"] + 1
        with pytest.raises(ValueError, match="equal to the embedding"):
            import_weights(other, weights)
    untied = configuration(MODELS["mamba"]())
    assert not untied["tie_word_embeddings"]
