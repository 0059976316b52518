"""How RNN and LSTM start: the distributions of weights and biases, and that the plain start is as it always was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

from lib.models import LSTM, VanillaRNN, create
from lib.models.base import seeded

WIDE, LONGEST = 600, 300


def plain_weights(gates: int, vocabulary: int, width: int, depth: int, forget_bias: float, seed: int) -> list[Any]:
    """Every draw in its order: layers, embedding and head as torch makes them, then head and embedding anew."""
    with seeded(seed):
        layers = []
        for inputs in [2, *[width] * (depth - 1)]:
            kernel = nn.init.xavier_uniform_(torch.empty(gates * width, inputs))
            bias = torch.zeros(gates * width)
            recurrence = nn.init.orthogonal_(torch.empty(gates * width, width))
            if gates == 4:
                bias[width : 2 * width] = forget_bias
            layers += [kernel, recurrence, bias]
        embedding, head = nn.Embedding(vocabulary, 2), nn.Linear(width, vocabulary)
        nn.init.xavier_uniform_(head.weight)
        nn.init.uniform_(embedding.weight, -0.05, 0.05)
    return [embedding.weight, *layers, head.weight, torch.zeros(vocabulary)]


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("lstm", 4)])
def test_the_plain_start_is_every_draw_in_its_old_order(kind: str, gates: int) -> None:
    for width, depth, seed in ((8, 1, 0), (5, 3, 7)):
        for options in ({}, {"start": "keras"}):
            found = list(create(kind, 3, width, depth, seed=seed, **options).parameters())
            expected = plain_weights(gates, 3, width, depth, 0.0, seed)
            assert len(found) == len(expected)
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        other = plain_weights(gates, 3, width, depth, 0.0, seed + 1)
        assert not torch.equal(found[1], other[1])


def test_a_forget_bias_belongs_to_the_plain_start() -> None:
    found = list(create("lstm", 2, 4, 2, forget_bias=1.0).parameters())
    expected = plain_weights(4, 2, 4, 2, 1.0, 0)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def chrono_biases(seed: int = 0, longest: int = LONGEST) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Biases of input and forget gates, and all others."""
    layer = LSTM(2, WIDE, start="chrono", longest=longest, seed=seed).layers[0]
    enter, forget, *others = layer.bias.detach().double().numpy().reshape(4, WIDE)
    return enter, forget, np.concatenate(others)


@pytest.fixture(scope="module")
def wide_chrono() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return chrono_biases()


def test_chrono_draws_forget_biases_as_logarithms_of_uniform_times(wide_chrono: Any) -> None:
    enter, forget, others = wide_chrono
    np.testing.assert_array_equal(enter, -forget)
    assert not others.any()
    times = np.exp(forget)
    assert 1 <= times.min() * (1 + 1e-6) and times.max() <= (LONGEST - 1) * (1 + 1e-6)
    assert kstest((times - 1) / (LONGEST - 2), "uniform").pvalue > 1e-3
    # A forget gate at sigmoid(b) keeps a share of 1 - 1/(1 + u) a step: it forgets within 1 + u steps.
    np.testing.assert_allclose(1 / (1 - 1 / (1 + np.exp(-forget))), 1 + times, rtol=1e-6)
    log_uniform = np.exp(np.random.default_rng(0).uniform(0, np.log(LONGEST - 1), WIDE))
    assert kstest((log_uniform - 1) / (LONGEST - 2), "uniform").pvalue < 1e-9  # the check tells another distribution


def test_slow_units_are_leaky_with_time_constants_uniform_in_their_logarithm() -> None:
    slow, plain = (
        VanillaRNN(2, WIDE, seed=3, **options).layers[0] for options in ({"start": "slow", "longest": LONGEST}, {})
    )
    leaks = 1 - slow.weight_hh.detach().double().diagonal().numpy()
    assert not (slow.weight_hh - torch.diag(slow.weight_hh.diagonal())).any()
    assert not slow.bias.any()
    assert leaks.max() <= 1 and leaks.min() >= 1 / LONGEST * (1 - 1e-4)
    assert kstest(-np.log(leaks) / np.log(LONGEST), "uniform").pvalue > 1e-3
    uniform = np.random.default_rng(0).uniform(1, LONGEST, WIDE)
    assert kstest(np.log(uniform) / np.log(LONGEST), "uniform").pvalue < 1e-9
    ratio = (slow.weight_ih / plain.weight_ih).detach().double().numpy()
    np.testing.assert_allclose(ratio, np.repeat(0.3 * np.sqrt(leaks)[:, None], 2, axis=1), rtol=1e-4)


@pytest.mark.parametrize(("kind", "start"), [("rnn", "slow"), ("lstm", "chrono")])
def test_other_starts_follow_the_seed_hold_in_every_layer_and_only_change_what_they_say(kind: str, start: str) -> None:
    def weights(seed: int, **options: Any) -> list[Any]:
        return list(create(kind, 2, 6, 3, seed=seed, **options).parameters())

    first, again, other = (weights(seed, start=start, longest=50) for seed in (1, 1, 2))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not any(torch.equal(one, two) for one, two in zip(first[:-1], other[:-1], strict=True) if one.any())
    model = create(kind, 2, 6, 3, seed=1, start=start, longest=50)
    drawn = [layer.weight_hh.diagonal() if kind == "rnn" else layer.bias[6:12] for layer in model.layers]
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[1], drawn[2])
    if kind == "lstm":
        plain = weights(1)
        assert all(torch.equal(one, two) for one, two in zip(first[1:3], plain[1:3], strict=True))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("rnn", {"start": "chrono"}, "keras or slow"),
        ("lstm", {"start": "slow"}, "keras or chrono"),
        ("rnn", {"start": "slow"}, "longest"),
        ("lstm", {"start": "chrono"}, "longest"),
        ("rnn", {"longest": 10}, "longest"),
        ("lstm", {"start": "keras", "longest": 10}, "longest"),
        ("lstm", {"start": "chrono", "longest": 1}, "longest"),
        ("rnn", {"start": "slow", "longest": 2.5}, "longest"),
        ("lstm", {"start": "chrono", "longest": 10, "forget_bias": 1.0}, "forget_bias"),
    ],
)
def test_starts_that_make_no_sense_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(kind, 2, 4, **options)
    assert create(kind, 2, 4, start={"rnn": "slow", "lstm": "chrono"}[kind], longest=2).layers
