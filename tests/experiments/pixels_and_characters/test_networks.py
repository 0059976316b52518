"""Networks read on where they stopped, tell classes from their last state, and their attention is measured rightly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.pixels_and_characters.attention import spread
from experiments.pixels_and_characters.networks import LAYERS, READERS, PixelClassifier, read_on, reader

OPTIONS = {"rel_rnn": {"buffer": 3, "relevant": 2}}


def step_by_step(model, tokens, carried):
    """Logits and state, by the stepwise form of the layer from the state before, its memory empty at first."""
    layer, logits = model.layers[0], []
    state = layer.initial_state(len(tokens))
    if carried is not None:
        state = state._replace(**{part: getattr(carried, part) for part in state._fields if part in ("hidden", "cell")})
    for token in tokens.T:
        out, state = layer.step(model.embedding(token), state)
        logits.append(model.head(out))
    return torch.stack(logits, dim=1), state


@pytest.mark.parametrize("name", READERS)
def test_windows_are_read_on_as_step_by_step_with_an_empty_memory(name):
    model = reader(name, 7, 8, 5, 3, **OPTIONS.get(name, {}))
    tokens = torch.from_numpy(np.random.default_rng(0).integers(7, size=(3, 30)))
    carried, state = None, None
    for start in (0, 10, 20):
        window = tokens[:, start : start + 10]
        found = read_on(model, window, carried)
        logits, state = step_by_step(model, window, state)
        assert torch.allclose(found.logits, logits, atol=1e-5)
        carried = found.carried
        assert torch.allclose(carried[0], state.hidden, atol=1e-5) and not carried[0].requires_grad
    fresh = read_on(model, tokens[:, 20:])  # without what was carried it is another function
    assert not torch.allclose(found.logits, fresh.logits, atol=1e-4)


@pytest.mark.parametrize("name", READERS)
def test_the_future_is_not_read(name):
    model = reader(name, 7, 8, 5, 3, **OPTIONS.get(name, {}))
    tokens = torch.from_numpy(np.random.default_rng(1).integers(7, size=(2, 12)))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 7
    assert torch.allclose(read_on(model, tokens).logits[:, :8], read_on(model, changed).logits[:, :8], atol=1e-6)


@pytest.mark.parametrize("name", ["rel_rnn", "mem_rnn"])
def test_times_and_weights_are_those_of_the_layer(name):
    model = reader(name, 7, 8, 5, 3, **OPTIONS.get(name, {}))
    tokens = torch.from_numpy(np.random.default_rng(2).integers(7, size=(2, 15)))
    found = read_on(model, tokens, trace=True)
    times, weights = model.layers[0].attended(model.embedding(tokens))
    assert (found.times == times).all() and torch.allclose(found.weights, weights)


@pytest.mark.parametrize("name", LAYERS)
def test_a_class_is_told_from_the_last_state_of_all_pixels(name):
    model = PixelClassifier(name, 2, 6, seed=0)
    x = torch.rand(4, 9, 2)
    assert model(x).shape == (4, 10)
    for step in (0, 8):
        changed = x.clone()
        changed[:, step] += 1.0
        assert not torch.allclose(model(x), model(changed))
    state = model.initial_state(4)
    for one in x.unbind(1):
        logits, state = model.step(one, state)
    assert torch.allclose(logits, model(x), atol=1e-5)
    assert len(model.slow_parameters()) == (name == "exp_rnn")
    assert len({float(PixelClassifier(name, 2, 6, seed=seed)(x).detach().sum()) for seed in (0, 0, 1)}) == 2


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ValueError, match=r"architecture: one of lstm, rnn, .*got 'gru'"):
        PixelClassifier("gru", 1, 4)
    with pytest.raises(ValueError, match=r"rel_rnn: .*colour"):
        PixelClassifier("rel_rnn", 1, 4, colour=1)
    with pytest.raises(ValueError, match=r"architecture: one of lstm, orth_rnn.*got 'mamba'"):
        reader("mamba", 7, 8, 5, 0)


# --- attention ---


def every_state(weights):
    """Times and weights of full attention, (1, length, length)."""
    length = len(weights)
    times = np.where(np.tri(length) > 0, np.arange(length), -1)
    return times[None], np.where(times >= 0, weights, 0.0)[None]


def test_equal_attention_is_as_it_would_be():
    weights = np.tri(30) / np.arange(1, 31)[:, None]
    found = spread([every_state(weights)])
    assert found["entropy"] == pytest.approx(np.log(np.arange(1, 31)).mean())
    assert found["uniform_entropy"] == pytest.approx(found["entropy"])
    assert found["top"] == pytest.approx(found["uniform_top"]) == pytest.approx(weights[:, :10].sum() / 30)
    assert found["by_lag"][:2] == pytest.approx([weights.diagonal().sum() / 30, (weights.diagonal(-1)).sum() / 30])


def test_attention_to_one_state_has_no_entropy_and_one_top():
    weights = np.zeros((30, 30))
    weights[:, 0] = 1.0
    found = spread([every_state(weights)], keep_map=True)
    assert found["entropy"] == 0 and found["top"] == 1 > found["uniform_top"]
    assert found["map"][0] == [1000] and found["map"][3] == [1000, 0, 0, 0]
    last = spread([every_state(np.eye(30))])
    assert last["by_lag"] == [1.0] + [0.0] * 24 and last["top"] == pytest.approx(10 / 30)


def test_groups_count_by_their_sequences():
    one, other = every_state(np.eye(12)), every_state(np.tri(12) / np.arange(1, 13)[:, None])
    both = spread([one, other])
    assert both["entropy"] == pytest.approx((spread([one])["entropy"] + spread([other])["entropy"]) / 2)
    assert "map" not in both
