"""The size of a history state, stated and counted, of the book's models and of objects from elsewhere."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from lib.models import ARCHITECTURES, LSTM, VanillaRNN, create
from lib.report import claims
from lib.theory.history import canonical_correlations, counted_history_state_size, history_state_size
from tests.models.test_interface import VARIANTS, build

LENGTHS = [1, 2, 3, 4, 5, 17]
OPTIONS: dict[str, dict[str, Any]] = {
    "sliding_window": {"window": 64},
    "sparse": {"stride": 16, "window": 16},
    "diagonal_ssm": {"size": 16},
    "mamba2": {"size": 16, "head_width": 8},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_stated_size_is_the_counted_one(variant: str) -> None:
    model = build(variant)
    for length in LENGTHS:
        assert history_state_size(model, length) == counted_history_state_size(model, length)


def test_sizes_of_long_histories_are_those_of_the_formulas() -> None:
    width, depth, length = 32, 3, 100_000
    sizes = {
        name: history_state_size(create(name, 2, width, depth, **OPTIONS.get(name, {})), length)
        for name in ARCHITECTURES
    }
    assert sizes == {
        "rnn": depth * width,
        "lstm": depth * 2 * width,
        "transformer": depth * 2 * width * length,
        "sliding_window": depth * 2 * width * 63,
        "sparse": depth * 2 * width * (15 + (length - 15) // 16),
        "linear_attention": depth * width * (width // 4 + 1),
        "diagonal_ssm": depth * width * 16,
        "mamba": depth * 2 * width * (16 + 3),
        "mamba2": depth * (2 * width * 16 + (2 * width + 2 * 16) * 3),
        "ttt_linear": depth * width * (width // 4),
        "relu_ssm": depth * width,
        "relu_rnn": depth * width,
        "orth_rnn": depth * width,
        "exp_rnn": depth * width,
        "mem_rnn": depth * (width + length * (2 * width + 1)),
        "mem_lstm": depth * (2 * width + length * (2 * width + 1)),
        "rel_rnn": depth * (width + 20 * (2 * width + 1)),
        "rel_lstm": depth * (2 * width + 20 * (2 * width + 1)),
        "sab": depth * (2 * width + (1 + length // 2) * (width + 1)),
        "goru": depth * width,
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_precision_is_no_dimension(dtype: Any) -> None:
    model = LSTM(2, 5).to(dtype)
    assert history_state_size(model, 3) == counted_history_state_size(model, 3) == 10


def test_a_state_that_is_trained_is_counted() -> None:
    class Learned(NumpyRNN):
        def initial_state(self, batch: int) -> Any:
            return torch.zeros(batch, 7, requires_grad=True)

        def step(self, token: Any, state: Any) -> tuple[Any, Any]:
            return None, state

    assert history_state_size(Learned(), 3) == 7


class NumpyRNN:
    """An object from elsewhere: NumPy, its state a bare array."""

    def initial_state(self, batch: int) -> Any:
        return np.zeros((batch, 7))

    def step(self, token: Any, state: Any) -> tuple[Any, Any]:
        return state[:, :2], np.tanh(state + token[:, None])


class Cache(NumpyRNN):
    """A cache in a dictionary of lists, with a counter."""

    def initial_state(self, batch: int) -> Any:
        return {"keys": [], "values": [], "position": 0}

    def step(self, token: Any, state: Any) -> tuple[Any, Any]:
        new = np.ones((token.shape[0], 3)) * token[:, None]
        longer = {name: [*state[name], new] for name in ("keys", "values")}
        return None, longer | {"position": state["position"] + 1}


@dataclass
class Mixed:
    wave: Any
    counter: Any
    tokens: Any
    nothing: None = None


class Mixture(NumpyRNN):
    """Complex numbers, a counter in an array, and a window of two tokens."""

    def initial_state(self, batch: int) -> Any:
        return Mixed(np.zeros((batch, 3), complex), np.zeros(batch, int), np.zeros((batch, 2), int))

    def step(self, token: Any, state: Any) -> tuple[Any, Any]:
        window = np.concatenate([state.tokens[:, 1:], token[:, None]], axis=1)
        return None, Mixed(state.wave * 1j + 1, state.counter + 1, window)


class Parity(NumpyRNN):
    """A finite automaton: the same after all zeros and after an even number of ones, so two histories do not do."""

    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, dtype=torch.int64)

    def step(self, token: Any, state: Any) -> tuple[Any, Any]:
        return None, (state + token) % 2


@pytest.mark.parametrize(
    ("model", "length", "expected"),
    [
        (NumpyRNN(), 1, 7),
        (NumpyRNN(), 100_000, 7),
        (Cache(), 1, 6),
        (Cache(), 40, 240),
        (Mixture(), 1, 3 * 2 + 2),
        (Mixture(), 9, 3 * 2 + 2),
        (Parity(), 4, 1),
        (Parity(), 5, 1),
    ],
)
def test_objects_that_state_no_size_are_counted(model: Any, length: int, expected: int) -> None:
    assert history_state_size(model, length) == expected


def test_torch_modules_whose_state_starts_empty_are_given_tensors() -> None:
    class Empty(torch.nn.Module):
        def initial_state(self, batch: int) -> Any:
            return ()

        def step(self, token: Any, state: Any) -> tuple[Any, Any]:
            return None, (*state, torch.nn.functional.one_hot(token, 2).double())

    assert history_state_size(Empty(), 6) == 12


def test_stated_sizes_are_not_counted_again() -> None:
    class Liar(NumpyRNN):
        def state_size(self, length: int) -> int:
            return 3

    assert (history_state_size(Liar(), 5), counted_history_state_size(Liar(), 5)) == (3, 7)


@pytest.mark.parametrize("length", [0, -1, 2.5, "3", None, True])
def test_lengths_below_one_are_refused(length: Any) -> None:
    for size in (history_state_size, counted_history_state_size):
        with pytest.raises(ValueError, match="length"):
            size(NumpyRNN(), length)


@pytest.mark.parametrize("model", [object(), torch.nn.Linear(2, 2), None, NumpyRNN, "rnn"])
def test_objects_without_the_interface_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="initial_state"):
        history_state_size(model, 3)


def test_sizes_and_states_that_are_none_are_refused() -> None:
    class Strange(NumpyRNN):
        def initial_state(self, batch: int) -> Any:
            return "memory"

        def step(self, token: Any, state: Any) -> tuple[Any, Any]:
            return None, state

    class Half(NumpyRNN):
        def state_size(self, length: int) -> float:
            return 2.5

    with pytest.raises(ValueError, match="state"):
        history_state_size(Strange(), 2)
    with pytest.raises(ValueError, match="state_size"):
        history_state_size(Half(), 2)


def test_theory_does_not_import_torch() -> None:
    code = "import sys; import lib.theory.history, lib.theory.history; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_state_that_does_not_grow_fails_the_condition() -> None:
    def growth(name: str) -> float:
        model = create(name, 2, 8)
        return float(np.log10(history_state_size(model, 100_000) / history_state_size(model, 10_000)))

    claims.check("l2m-thm54", growth("transformer"), at_least=0.76)
    for name in ("rnn", "mamba", "sliding_window"):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-thm54", growth(name), at_least=0.76)


def test_other_counts_of_parameters_fail_the_claim() -> None:
    def parameters(width: int) -> int:
        return sum(p.numel() for p in VanillaRNN(2, width).parameters())

    claims.check("shen-params", parameters(32), 1190, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-params", parameters(33), 1190, 0)


def test_a_size_below_nothing_and_groups_that_share_a_variable_are_refused() -> None:
    class Less(NumpyRNN):
        def state_size(self, length: int) -> int:
            return -3

    with pytest.raises(ValueError, match="state_size: "):
        history_state_size(Less(), 4)
    covariance = np.eye(3) + 0.2
    for second, message in (
        ([1], "share no variable are allowed, both have"),
        ([-2], "share no variable are allowed, both have"),
        ([3], "indices of a covariance"),
        ([[2]], "a row of indices each"),
        ([], "a row of indices each"),
    ):
        with pytest.raises(ValueError, match=message):
            canonical_correlations(covariance, [0, 1], second)
    covariance[0, 1] += 1e-6
    for wrong in (covariance, covariance[:2], np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="covariance: "):
            canonical_correlations(wrong, [0], [1])
