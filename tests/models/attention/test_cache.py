"""The cache of keys and values: never changed, however it is shared, and seldom copied."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from experiments.history_states.behaviour import read
from lib.models import SequenceModel, create
from lib.models.attention.patterns import Full, KeyValueCache, Room, Strided, Window, extended
from lib.models.states import stepped
from lib.training.text import changed

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("transformer", {}),
    "window": ("sliding_window", {"window": 6}),
    "window of one": ("sliding_window", {"window": 1}),
    "columns": ("sparse", {"stride": 4, "window": 3}),
    "strided": ("sparse", {"stride": 4, "window": 3, "pattern": "strided"}),
}


def build(variant: str) -> SequenceModel:
    name, options = MODELS[variant]
    return create(name, 3, 8, 2, seed=1, **options).double()


def tokens(batch: int, time: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(3, size=(batch, time)))


@pytest.mark.parametrize("variant", MODELS)
def test_every_earlier_state_can_be_continued_again_and_again(variant: str) -> None:
    """All states of one reading are kept; then each goes on in two ways, in a shuffled order."""
    model, past = build(variant), tokens(2, 40)
    futures = [tokens(2, 5, seed) for seed in (1, 2)]
    with torch.no_grad():
        states = [model.initial_state(2)]
        for token in past.T:
            states.append(model.step(token, states[-1])[1])
        copies = [changed(state, torch.clone) for state in states]
        order = np.random.default_rng(0).permutation(41)
        for place, future in itertools.product(order.tolist(), futures):
            whole = model(torch.cat([past[:, :place], future], dim=1))[:, place:]
            torch.testing.assert_close(stepped(model, future, states[place])[0], whole, rtol=0, atol=1e-10)
        for state, saved in zip(states, copies, strict=True):
            for a, b in zip(state.layers, saved.layers, strict=True):
                assert torch.equal(a.keys, b.keys)
                assert torch.equal(a.values, b.values)


@pytest.mark.parametrize("variant", MODELS)
def test_states_with_and_without_gradients_are_interchangeable(variant: str) -> None:
    model, past, future = build(variant), tokens(2, 20), tokens(2, 10, seed=1)
    whole = model(torch.cat([past, future], dim=1))[:, 20:]
    with torch.inference_mode():
        inferred = read(model, past)
    with torch.no_grad():
        plain = read(model, past)
        torch.testing.assert_close(stepped(model, future, inferred)[0], whole, rtol=0, atol=1e-10)
    with torch.inference_mode():
        torch.testing.assert_close(stepped(model, future, plain)[0], whole, rtol=0, atol=1e-10)
    logits = stepped(model, future, plain)[0]  # differentiated from here on
    torch.testing.assert_close(logits, whole, rtol=0, atol=1e-10)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(logits.sum(), list(model.parameters())))


def test_a_copied_state_goes_on_by_itself() -> None:
    model, past, future = build("full"), tokens(1, 20), tokens(1, 10, seed=1)
    with torch.no_grad():
        state = read(model, past)
        twin = copy.deepcopy(state)
        first = stepped(model, tokens(1, 10, seed=2), state)[0]
        second = stepped(model, future, twin)[0]
        whole = model(torch.cat([past, future], dim=1))[:, 20:]
    torch.testing.assert_close(second, whole, rtol=0, atol=1e-10)
    assert float((first - second).abs().max()) > 1e-3


@pytest.mark.parametrize(("pattern", "growing"), [(Full(), True), (Strided(3, 2), True), (Window(50), False)])
def test_positions_are_copied_a_few_times_each_and_not_at_every_token(
    pattern: Any, growing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []
    write = Room.write

    def counted(room: Room, keys: torch.Tensor, values: torch.Tensor) -> None:
        moved.append(keys.shape[2])
        write(room, keys, values)

    monkeypatch.setattr(Room, "write", counted)
    row, length = torch.zeros(1, 1, 1, 1), 2000
    cache = KeyValueCache(row[:, :, :0], row[:, :, :0], 0)
    with torch.no_grad():
        for _ in range(length):
            _, _, cache = extended(cache, row, row, pattern)
    assert cache.keys.shape[2] == pattern.kept_count(length)
    assert sum(moved) < 7 * length  # a quarter more room each time: 1 + 1 + 4/5 + (4/5)^2 + ... at most
    capacity = cache.room.capacity
    assert capacity <= 1.25 * length + 9 if growing else capacity <= 1.25 * 50 + 9


def test_later_states_share_memory_until_two_want_the_same_place() -> None:
    row = torch.zeros(1, 1, 1, 2)
    with torch.no_grad():
        cache = KeyValueCache(row[:, :, :0], row[:, :, :0], 0)
        _, _, first = extended(cache, row, row, Full())
        _, _, second = extended(first, row + 1, row, Full())
        _, _, other = extended(first, row + 2, row, Full())
    assert second.keys.data_ptr() == first.keys.data_ptr()
    assert other.keys.data_ptr() != first.keys.data_ptr()
    assert second.keys[0, 0, :, 0].tolist() == [0, 1]
    assert other.keys[0, 0, :, 0].tolist() == [0, 2]
