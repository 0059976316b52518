"""A rehearsal of the GPU on machines without one: whatever may run there meets no tensor of the CPU on its way.

First without numbers, on torch's `meta` device, then with numbers on a device that stands in for a GPU
(`tests/stand_in_device.py`) and has to give what the CPU gives, although other kernels compute it. Training is
rehearsed in `tests/test_training_on_device.py`, experiments in `tests/test_experiments_on_device.py`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numba.core.registry import CPUDispatcher

from experiments.books.task import window_losses
from experiments.gaussians.continuous import LAYERS
from experiments.gaussians.scores import score
from experiments.gaussians.task import draw_tokens, log_densities
from experiments.history_states.behaviour import BinaryExpansionCopier, QuantisedState, state_influence, state_leak
from experiments.history_states.cost import Rereading
from experiments.ngram_rules.languages import agreement_language
from experiments.ngram_rules.sensitivity import influence
from experiments.ngram_rules.writing import write
from lib.models import ARCHITECTURES, create
from lib.models.pretrained import LanguageModel
from lib.models.recurrent.attentive import AttentiveRNN
from lib.models.scoring import NetworkScorer, sequence_probabilities
from lib.processes import HierarchicalGaussian
from lib.theory import attentive_rnn_gradient, history_state_size
from lib.training import generate, multiply_adds, position_losses
from tests.models.rehearsed_networks import (
    NETWORKS,
    NUMBERS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    exercise,
    gaussian_network,
    networks,
    tokens_in_rows,
)
from tests.models.stand_in_device import DEVICE, autocast_on_device, held, stand_in_device

CPU = torch.device("cpu")
GAUSSIAN = HierarchicalGaussian(2)


def test_networks_and_their_options_are_found_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"transformer, placement post", "transformer, feed_forward 0", "sparse, pattern strided"}
    wanted |= {"rel_rnn, select random", "rel_rnn, activation modrelu", "sab, aligned True", "orth_rnn, embedding 1"}
    wanted |= {"mamba, kernel 1", "diagonal_ssm, spectrum real", "relu_ssm, initial zero", "relu_ssm, window 1"}
    wanted |= {"transformer, tied True", "mamba, tied True"}
    assert wanted | set(ARCHITECTURES) <= set(NETWORKS)

    def unheard_of(vocabulary: int, width: int, depth: int = 1, *, mode: str = "slow", seed: int = 0) -> Any:
        if mode not in ("slow", "swift", "silent"):
            raise ValueError(f"mode: one of slow, swift, silent is allowed, got {mode!r}")
        return create("rnn", vocabulary, width, depth, seed=seed)

    monkeypatch.setitem(ARCHITECTURES, "new", unheard_of)
    assert {"new", "new, mode swift", "new, mode silent"} <= set(networks())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_without_numbers(name: str) -> None:
    network = NETWORKS[name]
    with autocast_on_device():
        found = exercise(network.make().double().to(DEVICE), network.inputs[:, :2].to(DEVICE))
    assert found and all(x.device == DEVICE for x in found)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_on_the_device_is_that_of_the_cpu(name: str) -> None:
    network = NETWORKS[name]
    expected = exercise(network.make().double(), network.inputs)
    with stand_in_device() as waiting, no_compiled_loops():
        found = exercise(network.make().double().to(DEVICE), network.inputs.to(DEVICE))
        assert waiting.reads == 0
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(held(one), other, rtol=1e-9, atol=1e-10)


@contextlib.contextmanager
def no_compiled_loops() -> Iterator[None]:
    """Loops that Numba compiled for networks raise: they read the memory of the CPU."""

    def refused(*arguments: Any) -> None:
        raise AssertionError("a compiled loop was called")

    with pytest.MonkeyPatch.context() as patch:
        for module in [value for name, value in sys.modules.items() if name.startswith("lib.models")]:
            for name, value in vars(module).copy().items():
                if isinstance(value, CPUDispatcher):
                    patch.setattr(module, name, refused)
        yield


def test_on_the_cpu_compiled_loops_are_called() -> None:
    called, many = set(), TOKENS.repeat(4, 1)  # an LSTM of few sequences is left to torch
    for name in ARCHITECTURES:
        try:
            with no_compiled_loops():
                create(name, VOCABULARY, WIDTH)(many)
        except AssertionError:
            called.add(name)
    assert called >= {"transformer", "sliding_window", "mamba", "mamba2", "rnn", "lstm", "relu_rnn"}
    assert called >= {"orth_rnn", "exp_rnn", "mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm", "sab", "goru"}
    assert not called & {"linear_attention", "relu_ssm"}


def test_scans_and_attention_longer_than_a_chunk_agree() -> None:
    sequence = torch.from_numpy(np.random.default_rng(2).integers(VOCABULARY, size=(1, 150)))
    for name in ("mamba", "mamba2", "transformer", "linear_attention", "ttt_linear"):
        model = create(name, VOCABULARY, WIDTH).double()
        expected = model(sequence).detach()
        with stand_in_device():
            found = model.to(DEVICE)(sequence.to(DEVICE))
            torch.testing.assert_close(held(found.detach()), expected, rtol=1e-9, atol=1e-10)


def on_both(make: Callable[[], Any], ask: Callable[[Any, torch.device], Any]) -> None:
    """What is asked of a model gives the same on both devices, as numbers of the CPU."""
    expected = ask(make(), CPU)
    with stand_in_device():
        model = make()
        found = ask(model.to(DEVICE) if isinstance(model, torch.nn.Module) else model, DEVICE)
    assert isinstance(found, type(expected))
    for one, other in zip(found, expected, strict=True) if isinstance(expected, tuple | list) else [(found, expected)]:
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sequences_are_drawn_on_the_device(architecture: str) -> None:
    def make() -> Any:
        return create(architecture, VOCABULARY, WIDTH, seed=7).double()

    on_both(make, lambda model, device: generate(model, 3, 12, 0, device=device, batch=2))
    prompts = tokens_in_rows(3, 4).astype(np.int64)
    on_both(make, lambda model, device: generate(model, 3, 9, 0, first=prompts, temperature=0.5, device=device))


def window_model() -> Any:
    return create("sliding_window", VOCABULARY, 8, 2, window=3, seed=8).double()


ASKED: dict[str, Callable[[Any, torch.device], Any]] = {
    "position_losses": lambda model, device: position_losses(model, tokens_in_rows(5), batch=2, device=device),
    "window_losses": lambda model, device: window_losses(model, tokens_in_rows(5), device=device),
    "scores": lambda model, device: NetworkScorer(model, device=device).log_probabilities(tokens_in_rows(4)),
    "scores after a start": lambda model, device: NetworkScorer(model, [1, 2], device=device, cells=70)
    .log_probabilities(tokens_in_rows(4)),
    "enumeration": lambda model, device: sequence_probabilities(model, 4, device=device),
    "influence": lambda model, device: influence(model, tokens_in_rows(4), 0, device=device),
    "state_influence": lambda model, device: state_influence(model, TOKENS[0].to(device), TOKENS[1].to(device)),
    "state_leak": lambda model, device: state_leak(model, *(x.to(device) for x in (TOKENS, TOKENS.flip(1), TOKENS))),
    "state size": lambda model, device: history_state_size(model, 6),
    "multiply-adds": lambda model, device: multiply_adds(model, [0, 3], device=device),
    "reading again": lambda model, device: generate(Rereading(model), 2, 6, 0, device=device),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_trained_network_is_measured_on_the_device(name: str) -> None:
    on_both(window_model, ASKED[name])
    on_both(lambda: create("diagonal_ssm", VOCABULARY, 4, size=2, seed=8).double(), ASKED[name])


def test_states_that_are_rounded_or_one_number_go_where_the_tokens_are() -> None:
    on_both(
        lambda: create("lstm", 2, 3, seed=8).double(),
        lambda model, device: sequence_probabilities(QuantisedState(model, 3), 6, device=device),
    )
    on_both(lambda: BinaryExpansionCopier(3), lambda model, device: sequence_probabilities(model, 6, device=device))


@pytest.mark.parametrize("architecture", LAYERS)
def test_gaussians_are_drawn_and_scored_on_the_device(architecture: str) -> None:
    def make() -> Any:
        return gaussian_network(architecture, GAUSSIAN.length).double()

    def drawn(model: Any, device: torch.device) -> Any:
        tokens = draw_tokens(model, 3, GAUSSIAN.length, 1, device, batch=2)
        return tokens.cpu().numpy(), log_densities(model, tokens, 2)

    def scored(model: Any, device: torch.device) -> Any:
        law = GAUSSIAN.on_device(device, torch.float64)
        found = score(model.predictions, law, 3, copies=3, batch=2)
        means, variances = law.conditionals(law.sample_tokens(2, 3))
        noise = law.from_noise(torch.ones(GAUSSIAN.length, 2, dtype=torch.float64))
        return (found.divergences, found.losses, found.entropies, means.cpu(), variances.cpu(), noise.cpu())

    on_both(make, drawn)
    on_both(make, scored)


def test_gradients_of_an_attentive_network_are_those_of_the_cpu() -> None:
    on_both(
        lambda: AttentiveRNN(3, 4, combination="gated", seed=1),
        lambda model, device: attentive_rnn_gradient(model, NUMBERS[0].to(device), 2, 3),
    )


def test_a_network_writes_the_same_words_on_the_device() -> None:
    language = agreement_language()
    prompt = " ".join(language.sentences()[0][:3])

    def make() -> Any:
        return create("lstm", len(language.words) + 1, 6, seed=2).double()

    expected = [write(make(), language, prompt, seed, 12) for seed in (None, 0)]
    with stand_in_device():
        assert [write(make().to(DEVICE), language, prompt, seed, 12, device=DEVICE) for seed in (None, 0)] == expected


def test_a_language_model_of_transformers_scores_on_the_device() -> None:
    transformers = pytest.importorskip("transformers", reason="reads models that others have trained")

    class Tokenizer:
        bos_token_id = 0

        def __len__(self) -> int:
            return 8

    def scored(model: Any, device: torch.device) -> Any:
        reader = LanguageModel(model, Tokenizer(), device=device, check_sentence=False)
        return reader.log_probabilities(tokens_in_rows(3).astype(np.int64))

    def make() -> Any:
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                          num_attention_heads=2, max_position_embeddings=16)  # fmt: skip
        return transformers.LlamaForCausalLM(config).double()

    on_both(make, scored)
