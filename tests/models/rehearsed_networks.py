"""Every network of the book with every choice it offers, small, and all that each of them computes.

Architectures and their options are read from the catalogue and from the networks themselves: a new one is rehearsed
without being listed here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.gaussians.continuous import DEVIATIONS, LAYERS, POSITIONS, GaussianLanguageModel
from lib.models import ARCHITECTURES, create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.models.pretrained.character_lstm import lstm_of_basic_cells
from lib.models.recurrent.attentive import ACTIVATIONS, ATTENTION, COMBINATIONS, AttentiveRNN
from tests.models.pretrained.test_pretrained import basic_cells

VOCABULARY, WIDTH, BATCH, TIME = 5, 32, 2, 7
TOKENS = torch.from_numpy(np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TIME)))
NUMBERS = torch.from_numpy(np.random.default_rng(1).standard_normal((BATCH, TIME, 3)))


class Network(NamedTuple):
    make: Callable[[], Any]
    inputs: Tensor


def other_choices(architecture: str) -> Iterator[dict[str, Any]]:
    """Options of a network, each with what it may be besides its default: every name, the smallest number or flag."""
    for name, option in inspect.signature(ARCHITECTURES[architecture]).parameters.items():
        if option.kind != option.KEYWORD_ONLY or name == "seed" or isinstance(option.default, float):
            continue
        named, numbers = isinstance(option.default, str), (0, 1, 2)
        if isinstance(option.default, bool):
            numbers = (not option.default,)
        allowed = [
            {name: value}
            for value in (named_choices(architecture, name) if named else numbers)
            if value != option.default and refusal(architecture, {name: value}) is None
        ]
        yield from allowed if named else allowed[:1]


def named_choices(architecture: str, option: str) -> list[str]:
    """What an option may be, as the error for something else says it."""
    error = refusal(architecture, {option: "?"})
    found = re.fullmatch(rf"{option}: (?:one of )?(.+) (?:is|are) allowed, got '\?'", str(error))
    return re.split(", | or ", found[1]) if found else []


def refusal(architecture: str, options: dict[str, Any]) -> ValueError | None:
    try:
        create(architecture, VOCABULARY, WIDTH, **options)
    except ValueError as error:
        return error
    return None


def networks() -> dict[str, Network]:
    found = {}
    for name in ARCHITECTURES:
        for options in ({}, *other_choices(name)):
            written = "".join(f", {option} {value}" for option, value in options.items())

            def make(name: str = name, options: dict[str, Any] = options) -> Any:
                return create(name, VOCABULARY, WIDTH, 2, seed=1, **options)

            found[name + written] = Network(make, TOKENS)
    found["learned positions"] = Network(lambda: LearnedPositionTransformer(VOCABULARY, 8, 2, longest=TIME), TOKENS)
    found["cells of TensorFlow"] = Network(lambda: lstm_of_basic_cells(basic_cells(VOCABULARY), VOCABULARY), TOKENS)
    gaussians: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in LAYERS]
    gaussians += [("mamba", {"positions": positions}) for positions in POSITIONS if positions != "none"]
    gaussians += [("gpt2", {"deviation": deviation}) for deviation in DEVIATIONS if deviation != "exponential"]
    for name, options in gaussians:

        def gaussian(name: str = name, options: dict[str, Any] = options) -> Any:
            return gaussian_network(name, TIME, **options)

        found["gaussian " + ", ".join([name, *options.values()])] = Network(gaussian, NUMBERS)
    attentive: list[dict[str, Any]] = [{"attention": attention} for attention in ATTENTION]
    attentive += [{"activation": activation} for activation in ACTIVATIONS if activation != "tanh"]
    attentive += [{"combination": combination} for combination in COMBINATIONS if combination != "sum"]
    attentive += [{"attended": [[1], [1], [2, 3], [], [1, 5], [6], [2]]}]
    for options in attentive:

        def attending(options: dict[str, Any] = options) -> Any:
            return AttentiveRNN(3, 4, seed=1, **options)

        found["attentive rnn, " + " ".join(f"{name} {value}" for name, value in options.items())] = Network(
            attending, NUMBERS
        )
    return found


def gaussian_network(architecture: str, longest: int, **options: Any) -> Any:
    """One whose last map does not start at zero, which would hide all before it."""
    model = GaussianLanguageModel(architecture, WIDTH, copies=3, longest=longest, seed=1, **options)
    weight = model.readout[-1].weight
    with torch.no_grad():
        weight.copy_(torch.from_numpy(0.1 * np.random.default_rng(6).standard_normal(weight.shape)))
    return model


def tokens_in_rows(rows: int, length: int = TIME, seed: int = 4) -> Any:
    return np.random.default_rng(seed).integers(VOCABULARY, size=(rows, length), dtype=np.uint8)


def exercise(model: Any, inputs: Tensor) -> list[Tensor]:
    """All that a network computes: outputs of both forms, with and without gradients, and the gradients."""
    parameters = list(model.parameters())

    def outputs(found: Any) -> list[Tensor]:
        return list(found) if isinstance(found, tuple) else [found]

    def with_gradients(found: list[Tensor]) -> list[Tensor]:
        total = torch.stack([part.square().sum() for part in found]).sum()
        return [part.detach() for part in found] + list(
            torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
        )

    def steps() -> list[Tensor]:
        state, found = model.initial_state(len(inputs)), []
        for place in range(inputs.shape[1]):
            out, state = model.step(inputs[:, place], state)
            found += outputs(out)
        return found

    everything = with_gradients(outputs(model(inputs)))
    if hasattr(model, "step"):
        everything += with_gradients(steps())
        with torch.no_grad():
            everything += steps()
    return everything


NETWORKS = networks()
