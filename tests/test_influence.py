"""How far back a model listens, where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.models import create
from lib.models.influence import influence


class Remembers:
    """Next-token law that depends on the token `lag` places back, and on nothing else."""

    vocabulary, training = 4, False

    def __init__(self, lag: int) -> None:
        self.lag = lag

    def eval(self) -> None: ...

    def train(self, mode: bool) -> None: ...

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        wanted = tokens[:, -1 - self.lag]
        law = torch.full((len(tokens), 4), 0.1, dtype=torch.float64)
        law[torch.arange(len(tokens)), wanted] = 0.7
        return law.log()[:, None]


@pytest.mark.parametrize("lag", [0, 2, 4])
def test_only_the_token_that_matters_has_an_influence_and_it_is_exact(lag) -> None:
    sequences = np.random.default_rng(0).integers(4, size=(50, 6))
    mean, largest = influence(Remembers(lag), sequences, 5, 1)
    expected = np.where(np.arange(5) == lag, 2 * 0.6, 0.0)
    assert mean == pytest.approx(expected, abs=1e-12) and largest == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_network_with_a_window_does_not_listen_behind_it(window) -> None:
    model = create("relu_ssm", 6, 12, embedding=4, window=window, seed=3).double()
    sequences = np.random.default_rng(1).integers(6, size=(40, 8))
    mean, largest = influence(model, sequences, 8, 2)
    assert np.all(mean[:window] > 1e-4)
    assert np.all(largest[window:] < 1e-12)


def test_replaced_words_are_other_words_below_the_limit() -> None:
    class Spy(Remembers):
        seen: list[torch.Tensor]

        def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
            self.seen.append(tokens.clone())
            return super().__call__(tokens)

    spy = Spy(0)
    spy.seen = []
    sequences = np.random.default_rng(2).integers(3, size=(30, 4))
    influence(spy, sequences, 4, 0, tokens=3)
    for k, changed in enumerate(spy.seen[1:]):
        different = changed.numpy() != sequences
        assert np.array_equal(different.sum(axis=0), [30 * (column == 3 - k) for column in range(4)])
        assert changed.max() < 3


def test_many_sequences_are_read_in_parts() -> None:
    sequences = np.random.default_rng(3).integers(4, size=(2500, 3))
    assert influence(Remembers(1), sequences, 3, 0)[0] == pytest.approx([0, 1.2, 0])


@pytest.mark.parametrize(
    ("sequences", "back", "tokens"),
    [
        (np.zeros((3, 2), int), 3, None),
        (np.zeros(4, int), 1, None),
        (np.zeros((3, 2)), 1, None),
        (np.zeros((3, 2), int), 1, 1),
    ],
)
def test_other_sequences_are_refused(sequences, back, tokens) -> None:
    with pytest.raises(ValueError):
        influence(Remembers(0), sequences, back, 0, tokens)
