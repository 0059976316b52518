"""How far back a model listens, where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.ngram_rules.sensitivity import influence
from lib.models import create


class Remembers:
    """Next-token distribution that depends on the token `lag` places back, and on nothing else."""

    vocabulary, training = 4, False

    def __init__(self, lag: int) -> None:
        self.lag = lag

    def eval(self) -> None: ...

    def train(self, mode: bool) -> None: ...

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        law = torch.full((*tokens.shape, 4), 0.25, dtype=torch.float64)
        wanted = tokens[:, : tokens.shape[1] - self.lag]
        law[:, self.lag :] = 0.1 + 0.6 * torch.nn.functional.one_hot(wanted, 4).double()
        return law.log()


@pytest.mark.parametrize("lag", [0, 2, 4])
def test_only_the_token_that_matters_has_an_influence_and_it_is_exact(lag) -> None:
    sequences = np.random.default_rng(0).integers(4, size=(50, 6))
    mean, largest = influence(Remembers(lag), sequences, 1)
    for t in range(6):
        for k in range(6):
            expected = np.nan if k > t else 2 * 0.6 if k == lag else 0.0
            assert mean[t, k] == pytest.approx(expected, abs=1e-12, nan_ok=True)
            assert largest[t, k] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_network_with_a_window_does_not_listen_behind_it(window) -> None:
    model = create("relu_ssm", 6, 12, embedding=4, window=window, seed=3).double()
    sequences = np.random.default_rng(1).integers(6, size=(40, 8))
    mean, largest = influence(model, sequences, 2)
    inside = np.tril(np.ones((8, 8), dtype=bool))
    near = np.arange(8) < window
    assert np.all(mean[inside & near] > 1e-5)
    assert np.all(largest[inside & ~near] < 1e-12)


def test_it_is_what_replacing_one_token_at_a_time_gives() -> None:
    model = create("relu_rnn", 5, 7, embedding=3, seed=4).double()
    sequences = np.random.default_rng(2).integers(5, size=(3, 4))
    mean, largest = influence(model, sequences, 7)
    other = (sequences + np.random.default_rng(7).integers(1, 5, size=(3, 4))) % 5
    with torch.no_grad():
        for t in range(1, 5):
            for k in range(t):
                found = []
                for row, changed in zip(sequences, other, strict=True):
                    replaced = row[:t].copy()
                    replaced[t - 1 - k] = changed[t - 1 - k]
                    before, after = (model(torch.from_numpy(x)[None])[0, -1].softmax(-1) for x in (row[:t], replaced))
                    found.append(float((before - after).abs().sum()))
                assert mean[t - 1, k] == pytest.approx(np.mean(found)) and largest[t - 1, k] == pytest.approx(
                    max(found)
                )


def test_replaced_words_are_other_words_below_the_limit() -> None:
    class Spy(Remembers):
        seen: list[torch.Tensor]

        def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
            self.seen.append(tokens.clone())
            return super().__call__(tokens)

    spy = Spy(0)
    spy.seen = []
    sequences = np.random.default_rng(2).integers(3, size=(30, 4))
    influence(spy, sequences, 0, tokens=3)
    for place, changed in enumerate(spy.seen[1:]):
        different = changed.numpy() != sequences
        assert np.array_equal(different.sum(axis=0), [30 * (column == place) for column in range(4)])
        assert changed.max() < 3


def test_many_sequences_are_read_in_parts() -> None:
    sequences = np.random.default_rng(3).integers(4, size=(450, 3))
    assert influence(Remembers(1), sequences, 0)[0][2] == pytest.approx([0, 1.2, 0])


@pytest.mark.parametrize(
    ("sequences", "tokens"),
    [(np.zeros(4, int), None), (np.zeros((3, 2)), None), (np.zeros((3, 2), int), 1), (np.full((3, 2), 3), 3)],
)
def test_other_sequences_are_refused(sequences, tokens) -> None:
    with pytest.raises(ValueError):
        influence(Remembers(0), sequences, 0, tokens)
