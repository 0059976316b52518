"""Every architecture: the parallel form equals the steps, the state has the size it says, seeds keep to themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

import lib.models
from lib import ROOT
from lib.models import ARCHITECTURES, LSTM, SequenceModel, Transformer, VanillaRNN, create
from lib.models.attention.patterns import FixedStride, Full, Pattern, Strided, Window
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.models.base import sinusoids
from lib.models.recurrent.orthogonal import AttendingModel

VARIANTS: dict[str, tuple[str, Mapping[str, Any]]] = {
    " ".join([name, *(f"{option}={value}" for option, value in options.items())]): (name, options)
    for name, model in ARCHITECTURES.items()
    for options in model.variants
}
VOCABULARY, WIDTH, DEPTH = 5, 8, 2


def build(variant: str, dtype: Any = torch.float64, seed: int = 3) -> SequenceModel:
    name, options = VARIANTS[variant]
    return create(name, VOCABULARY, WIDTH, DEPTH, seed=seed, **options).to(dtype)


def tokens(batch: int, time: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(VOCABULARY, size=(batch, time)))


def stepped(model: SequenceModel, sequence: torch.Tensor) -> torch.Tensor:
    state, logits = model.initial_state(sequence.shape[0]), []
    for token in sequence.T:
        out, state = model.step(token, state)
        logits.append(out)
    return torch.stack(logits, dim=1)


def numbers(leaf: Any) -> int:
    """Real numbers of one row, counted without the code under test."""
    return 0 if isinstance(leaf, int) else int(np.prod(leaf.shape[1:])) * (2 if leaf.is_complex() else 1)


def test_every_architecture_of_the_catalogue_is_tested_with_its_variants() -> None:
    tested = [name for name, _ in VARIANTS.values()]
    assert set(tested) == set(ARCHITECTURES)
    assert all(tested.count(name) == len(model.variants) for name, model in ARCHITECTURES.items())
    assert {"lstm forget_bias=1.0", "mamba size=3 kernel=1"} <= set(VARIANTS)


def test_names_come_without_networks_and_a_network_when_it_is_asked_for() -> None:
    code = "import sys; from lib.models import catalogue; assert list(catalogue.ARCHITECTURES) == list(catalogue.NAMES)"
    code += "; assert 'torch' not in sys.modules; from lib.models import LSTM; assert 'torch' in sys.modules"
    code += "; assert catalogue.ARCHITECTURES['lstm'] is LSTM; assert 'lib.models.state_space' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="no attribute 'GRU'"):
        lib.models.GRU  # noqa: B018
    assert all(getattr(lib.models, name) is not None for name in lib.models.__all__)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_parallel_and_stepwise_forms_are_equal(variant: str, dtype: Any, tolerance: float) -> None:
    model, sequence = build(variant, dtype), tokens(3, 70)  # more than one chunk of Mamba2
    with torch.no_grad():
        parallel = model(sequence)
        difference = float((parallel - stepped(model, sequence)).abs().max())
    assert parallel.shape == (3, 70, VOCABULARY)
    assert parallel.dtype == dtype
    assert difference < tolerance * max(1.0, float(parallel.abs().max()))  # orthogonal networks have logits of hundreds


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_forms_have_equal_gradients(variant: str) -> None:
    model, sequence = build(variant), tokens(2, 9)
    parameters = list(model.parameters())
    parallel = torch.autograd.grad(model(sequence).square().sum(), parameters)
    steps = torch.autograd.grad(stepped(model, sequence).square().sum(), parameters)
    for first, second in zip(parallel, steps, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_depend_on_no_later_token(variant: str) -> None:
    model, sequence = build(variant), tokens(1, 12)
    other = sequence.clone()
    other[:, 7:] = (other[:, 7:] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = model(sequence), model(other)
    torch.testing.assert_close(before[:, :7], after[:, :7], rtol=0, atol=1e-12)
    assert float((before[:, 7:] - after[:, 7:]).abs().max()) > 1e-6


@pytest.mark.parametrize("variant", VARIANTS)
def test_state_size_is_the_number_of_numbers_in_the_state(variant: str) -> None:
    model, sequence = build(variant), tokens(2, 40)
    state = model.initial_state(2)
    assert model.state_size(0) == sum(numbers(leaf) for part in state.layers for leaf in part)
    for length, token in enumerate(sequence.T, start=1):
        with torch.no_grad():
            _, state = model.step(token, state)
        assert model.state_size(length) == sum(numbers(leaf) for part in state.layers for leaf in part)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_leaves_the_state_it_was_given_as_it_was(variant: str) -> None:
    model, sequence = build(variant), tokens(2, 7)
    with torch.no_grad():
        state = model.initial_state(2)
        for token in sequence.T:
            before = [leaf.clone() if torch.is_tensor(leaf) else leaf for part in state.layers for leaf in part]
            _, following = model.step(token, state)
            after = [leaf for part in state.layers for leaf in part]
            assert all(torch.equal(a, b) if torch.is_tensor(a) else a == b for a, b in zip(before, after, strict=True))
            state = following


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_state_of_another_batch_is_refused(variant: str) -> None:
    model, sequence = build(variant), tokens(3, 2)
    for rows, others in ((1, 3), (3, 1), (2, 3)):
        started = model.initial_state(rows)
        for state in (started, model.step(sequence[:rows, 0], started)[1]):
            for form, given in ((model.step, sequence[:others, 1]), (model.forward_from, sequence[:others])):
                with pytest.raises(ValueError, match=f"tokens of {others} sequences and a state of {rows}"):
                    form(given, state)
    with pytest.raises(ValueError, match="state: one of initial_state or of a step"):
        model.step(sequence[:, 0], None)


def test_numpy_numbers_are_sizes() -> None:
    for name in ARCHITECTURES:
        model = create(name, np.int64(5), np.int64(64), np.int64(1))
        assert model(tokens(1, 3)).shape == (1, 3, 5)
    first, second = (create("transformer", 5, 8, feed_forward=size) for size in (np.int64(4), 4))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("name", [name for name, model in ARCHITECTURES.items() if issubclass(model, AttendingModel)])
def test_layers_that_are_not_there_attend_to_nothing(name: str) -> None:
    model = create(name, VOCABULARY, WIDTH, DEPTH)
    first, last = (model.attended(tokens(1, 5), layer) for layer in (0, 1))
    for layer, same in ((-2, first), (-1, last), (np.int64(1), last)):
        assert all(torch.equal(a, b) for a, b in zip(model.attended(tokens(1, 5), layer), same, strict=True))
    for layer in (5, -3, 2, 0.0, None, True):
        with pytest.raises(ValueError, match="layer"):
            model.attended(tokens(1, 5), layer)


def test_learned_positions_go_on_where_the_state_ends() -> None:
    model, sequence = LearnedPositionTransformer(VOCABULARY, WIDTH, DEPTH, longest=9).double(), tokens(2, 9)
    first, state = model.forward_from(sequence[:, :4], model.initial_state(2))
    second, state = model.forward_from(sequence[:, 4:8], state)
    third, state = model.step(sequence[:, 8], state)
    found = torch.cat([first, second, third[:, None]], dim=1)
    torch.testing.assert_close(found, model(sequence), rtol=0, atol=1e-12)
    for form, given in ((model.step, sequence[:, 0]), (model.forward_from, sequence[:, :1])):
        with pytest.raises(ValueError, match="9 positions are learned, got 10"):
            form(given, state)
    with pytest.raises(ValueError, match="tokens of 1 sequences and a state of 2"):
        model.step(sequence[:1, 0], model.initial_state(2))


@pytest.mark.parametrize("variant", VARIANTS)
def test_initial_weights_follow_the_seed_and_leave_the_global_generator_alone(variant: str) -> None:
    before = torch.random.get_rng_state()
    first, again, other = build(variant), build(variant), build(variant, seed=4)
    assert torch.equal(before, torch.random.get_rng_state())
    weights = [torch.cat([p.flatten() for p in model.parameters()]) for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_numpy_generator_is_a_seed_and_moves_on() -> None:
    generator = np.random.default_rng(0)
    first, second = (VanillaRNN(2, 3, seed=generator).layers[0].weight_ih for _ in range(2))
    assert not torch.equal(first, second)


def test_parameter_counts_are_those_of_shen() -> None:
    def trainable(model: SequenceModel) -> int:
        return sum(p.numel() for p in model.parameters() if p.requires_grad)

    assert trainable(VanillaRNN(2, 32)) == 1190
    assert trainable(LSTM(2, 4)) == 126
    two_biases = torch.nn.RNN(2, 32)  # torch's own layer has a second bias and would miss the number
    assert sum(p.numel() for p in two_biases.parameters()) + 4 + 66 == 1190 + 32


def test_recurrent_weights_start_as_in_keras() -> None:
    for layer in VanillaRNN(2, 6, 2).double().layers:
        torch.testing.assert_close(layer.weight_hh @ layer.weight_hh.T, torch.eye(6).double(), rtol=0, atol=1e-6)
    lstm = LSTM(2, 6)
    kernel, recurrent = lstm.layers[0].weight_ih.detach(), lstm.layers[0].weight_hh.detach()
    torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(6), rtol=0, atol=1e-5)
    limit = np.sqrt(6 / (2 + 4 * 6))  # Glorot: all gates are one kernel
    assert 0.8 * limit < float(kernel.abs().max()) <= limit
    assert float(lstm.embedding.weight.detach().abs().max()) <= 0.05
    assert not lstm.layers[0].bias.any()
    assert LSTM(2, 3, forget_bias=1.0).layers[0].bias.tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 6


@pytest.mark.parametrize("pattern", [Full(), Window(1), Window(4), FixedStride(3, 4), FixedStride(1, 1), Strided(3, 2)])
def test_kept_positions_are_those_that_some_later_position_attends_to(pattern: Pattern) -> None:
    for length in range(30):
        later = np.arange(length, length + 60)[:, None]
        needed = np.flatnonzero(pattern.attends(later, np.arange(length)).any(axis=0))
        np.testing.assert_array_equal(pattern.kept(length), needed)
        assert pattern.kept_count(length) == needed.size
        assert pattern.attends(length, length)


def test_sinusoids_are_sines_and_cosines_of_falling_rate() -> None:
    like = torch.zeros(5, dtype=torch.float64)
    for position in (0, 3, 100000):
        waves = sinusoids(torch.tensor(position), like).numpy()
        angles = [position / 10000 ** (2 * (i // 2) / 5) for i in range(5)]
        expected = [np.cos(a) if i % 2 else np.sin(a) for i, a in enumerate(angles)]
        np.testing.assert_allclose(waves, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("perceptron", 2, 8), "perceptron"),
        (("rnn", 0, 8), "vocabulary"),
        (("rnn", 2, 0), "width"),
        (("rnn", 2, 8, 0), "depth"),
        ((["rnn"], 2, 8), "architecture"),
        (("diagonal_ssm", 2, 0), "width"),
        (("diagonal_ssm", 2, -8), "width"),
        (("goru", 2, 7.5), "width"),
        (("mamba", 2, 8, 0), "depth"),
        (("transformer", 2, 6), "heads = 4"),
        (("ttt_linear", 2, 6), "heads = 4"),
    ],
)
def test_bad_sizes_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(*arguments)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_option_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: options .*seed are allowed, got 'forget'$") as refused:
        create(name, 5, 8, forget=1.0)
    named = {option for options in ARCHITECTURES[name].variants for option in options}
    assert named <= set(str(refused.value).removeprefix(f"{name}: options ").partition(" are ")[0].split(", "))


@pytest.mark.parametrize("width", [None, "a", 2.5, 0])
@pytest.mark.parametrize("name", ["transformer", "sliding_window", "sparse", "linear_attention", "ttt_linear"])
def test_a_width_that_is_no_size_is_refused_by_name(name: str, width: Any) -> None:
    with pytest.raises(ValueError, match=r"^width: a whole number of at least 1 is allowed"):
        ARCHITECTURES[name](5, width)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rnn", {"heads": 2}, "heads"),
        *((name, {"tied": "no"}, "tied: True or False is allowed") for name in ("lstm", "transformer", "mamba")),
        ("lstm", {"embedding": None, "tied": None}, "tied: True or False is allowed"),
        ("rnn", {"seed": -1}, "seed"),
        ("transformer", {"placement": "middle"}, "placement"),
        ("transformer", {"feed_forward": -1}, "feed_forward"),
        ("transformer", {"feed_forward": True}, "feed_forward"),
        *(("lstm", {"dropout": value}, "dropout: a") for value in ("a", None, float("nan"), 1.0, -0.1)),
        *(("lstm", {"forget_bias": value}, "forget_bias: a finite real") for value in ("a", None, float("nan"), [1])),
        ("diagonal_ssm", {"spectrum": "real", "size": 0}, "size"),
        ("diagonal_ssm", {"spectrum": "real", "size": -1}, "size"),
        ("diagonal_ssm", {"spectrum": "real", "size": 10**30}, "diagonal_ssm"),
        ("sliding_window", {"window": 0}, "window"),
        ("sparse", {"pattern": "dense"}, "pattern"),
        ("sparse", {"stride": 0}, "stride"),
        ("diagonal_ssm", {"size": 3}, "even"),
        ("diagonal_ssm", {"spectrum": "blue"}, "spectrum"),
        ("mamba", {"size": 0}, "size"),
        ("mamba2", {"head_width": 7}, "head_width"),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(name, 2, 8, **options)


def test_tokens_outside_the_vocabulary_or_of_another_shape_are_refused() -> None:
    model = Transformer(3, 8)
    for wrong in (torch.tensor([[0, 3]]), torch.tensor([[-1, 0]])):
        with pytest.raises(ValueError, match=r"0 \.\. 2"):
            model(wrong)
    for wrong in (torch.tensor([0, 1]), torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, 2)):
        with pytest.raises(ValueError, match="batch, time"):
            model(wrong)
    for array in (np.zeros((1, 3), int), [[0, 1]], None):
        with pytest.raises(ValueError, match=r"a tensor of whole numbers \(batch, time\)"):
            model(array)
        with pytest.raises(ValueError, match="a tensor of whole numbers"):
            model.step(array, model.initial_state(1))
    with pytest.raises(ValueError, match="batch"):
        model.step(torch.tensor([[0]]), model.initial_state(1))
    with pytest.raises(ValueError, match="batch"):
        model.initial_state(0)
    with pytest.raises(ValueError, match="length"):
        model.state_size(-1)


def test_a_state_of_another_network_is_refused() -> None:
    given = {name: create(name, 3, 8).initial_state(2) for name in ("rnn", "lstm", "transformer", "mem_lstm", "mamba")}
    given["wide"], given["deep"] = create("lstm", 3, 16).initial_state(2), create("lstm", 3, 8, 2).initial_state(2)
    token, refused = torch.zeros(2, dtype=torch.int64), "state: one of this network or of its like"
    for name, others in (("goru", {"lstm", "transformer"}), ("lstm", set(given) - {"lstm"}), ("mem_rnn", {"mem_lstm"})):
        model = create(name, 3, 8)
        for other in others:
            for form, tokens_read in ((model.step, token), (model.forward_from, token[:, None])):
                with pytest.raises(ValueError, match=refused):
                    form(tokens_read, given[other])
    with pytest.raises(ValueError, match=refused):
        create("transformer", 3, 8).step(token, given["transformer"]._replace(position=None))
    with pytest.raises(ValueError, match=refused):
        LearnedPositionTransformer(3, 8).step(token, given["rnn"])


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("transformer", {"heads": 2}, {"heads": 4}),
        ("mamba", {"size": 16, "kernel": 4}, {"size": 17, "kernel": 3}),
        ("mamba", {"size": 3, "expand": 2}, {"size": 9, "expand": 1}),
        ("mamba2", {"size": 4, "head_width": 4}, {"size": 4, "head_width": 8}),
        ("diagonal_ssm", {"size": 6}, {"size": 6, "spectrum": "real"}),
        ("rel_rnn", {"buffer": 3, "relevant": 2}, {"buffer": 2, "relevant": 3}),
    ],
)
def test_a_state_of_as_many_numbers_in_other_shapes_is_refused(
    name: str, one: dict[str, Any], other: dict[str, Any], started: bool
) -> None:
    given, model, token = create(name, 7, 8, **one), create(name, 7, 8, **other), torch.tensor([1, 2])
    state = given.initial_state(2)
    if started:
        state = given.step(token, state)[1]
        assert given.step(token, state)[0].shape == (2, 7)
    for form, tokens_read in ((model.step, token), (model.forward_from, token[:, None])):
        with pytest.raises(ValueError, match="state: one of this network or of its like"):
            form(tokens_read, state)


def test_mamba2_has_heads_at_every_width() -> None:
    for width, heads in ((32, 1), (64, 2), (48, 3), (8, 1), (5, 5)):
        assert create("mamba2", 2, width).layers[0].mixer.heads == heads
