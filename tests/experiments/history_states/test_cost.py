"""What a generated token costs: counts in running models, the same without a cache, and the chapter's claim checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.history_states.cost import Clocked, Rereading, matrix_sizes, token_seconds
from lib.models import SequenceModel, create
from lib.report import claims
from lib.training import generate, multiply_adds

OPTIONS = {"sliding_window": {"window": 5}, "mamba2": {"size": 4, "head_width": 4}}
FIXED = ["rnn", "lstm", "linear_attention", "mamba", "mamba2", "diagonal_ssm"]
POSITIONS = [0, 1, 2, 3, 4, 5, 6, 20]


def build(name: str, depth: int = 2, width: int = 8) -> SequenceModel:
    return create(name, 3, width, depth, seed=0, **OPTIONS.get(name, {}))


def multiplied(name: str, keys: list[int], depth: int = 2, width: int = 8) -> list[int]:
    """Multiply-adds written out by hand: every matrix once, and two products with each key in each layer."""
    layer = 3 * width * width + width * width + 2 * 4 * width * width
    recurrent = {"rnn": 1, "lstm": 4}.get(name, 0) * ((2 * width + width * width) + (depth - 1) * 2 * width * width)
    weights = (recurrent or depth * layer) + 3 * width
    return [weights + 2 * depth * width * count for count in keys]


@pytest.mark.parametrize("depth", [1, 2])
def test_counted_multiply_adds_are_those_of_the_equations(depth: int) -> None:
    read = {
        "rnn": [0] * len(POSITIONS),
        "lstm": [0] * len(POSITIONS),
        "transformer": [position + 1 for position in POSITIONS],
        "sliding_window": [min(position + 1, 5) for position in POSITIONS],
    }
    for name, keys in read.items():
        counted = multiply_adds(build(name, depth), POSITIONS)
        assert counted == multiplied(name, keys, depth)
        claims.check("shen-cost", counted, multiplied(name, keys, depth), 0)
    with pytest.raises(claims.ClaimFailed):  # the cache without the key of the token itself
        claims.check("shen-cost", multiply_adds(build("transformer", depth), POSITIONS), multiplied("", POSITIONS), 0)


def test_a_transformers_token_costs_its_weights_and_its_state() -> None:
    model = build("transformer")
    for position, count in zip(POSITIONS, multiply_adds(model, POSITIONS), strict=True):
        assert count == matrix_sizes(model) + model.state_size(position + 1)


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_state_has_a_fixed_cost(name: str) -> None:
    counts = multiply_adds(build(name), POSITIONS)
    assert len(set(counts)) == 1
    assert counts[0] > 0


def test_reading_again_is_the_same_law() -> None:
    for name in ("transformer", "lstm", "mamba"):
        model = build(name).double()
        again = Rereading(model)
        assert np.array_equal(generate(model, 6, 30, 0), generate(again, 6, 30, 0))
        _, state = again.step(torch.tensor([1, 2]), again.initial_state(2))
        _, state = again.step(torch.tensor([0, 1]), state)
        assert state.tolist() == [[1, 0], [2, 1]]
        assert again.state_size(2) == state.shape[1]


def test_a_clock_changes_no_token_and_ticks_once_a_token() -> None:
    model = build("transformer")
    clocked = Clocked(model)
    assert np.array_equal(generate(model, 3, 20, 1), generate(clocked, 3, 20, 1))
    assert len(clocked.times) == 19
    assert clocked.times == sorted(clocked.times)


def test_times_are_one_a_token_and_need_one_thread() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        seconds = token_seconds(build("rnn"), 2, 9)
        assert seconds.shape == (8,)
        assert np.all(seconds > 0)
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="one thread"):
            token_seconds(build("rnn"), 2, 9)
    finally:
        torch.set_num_threads(threads)
    with pytest.raises(ValueError, match="positions"):
        multiply_adds(build("rnn"), [-1])


def test_counts_of_whole_texts_are_the_sums_of_the_equations() -> None:
    """C(L) as the chapter prints it; the exponents of the claim are those of the polynomials, not of the clock."""
    depth, width, window = 2, 8, 5
    steps = np.arange(1, 30)  # L - 1
    past = np.minimum(steps, window)
    keys = {
        "rnn": 0 * steps,
        "transformer": steps * (steps + 1) // 2,
        "sliding_window": past * (past + 1) // 2 + (steps - past) * window,
    }
    for name, read in keys.items():
        counted = np.cumsum(multiply_adds(build(name, depth), steps - 1))
        derived = multiplied(name, [0], depth)[0] * steps + 2 * depth * width * read
        claims.check("shen-cost", counted, derived, 0)
    counted = np.cumsum(multiply_adds(build("transformer", depth), steps - 1))
    weights = multiplied("", [0], depth)[0]
    with pytest.raises(claims.ClaimFailed):  # a cache that is read only up to the window
        claims.check("shen-cost", counted, weights * steps + 2 * depth * width * keys["sliding_window"], 0)
    again = weights * steps * (steps + 1) / 2 + depth * width * steps * (steps + 1) * (steps + 2) / 3
    claims.check("shen-cost", counted.cumsum(), again, 0)
    with pytest.raises(claims.ClaimFailed):  # the text read again, and still counted as if from a cache
        claims.check("shen-cost", counted, again, 0)


def test_claim_checks_fail_for_exponents_that_change_places() -> None:
    lengths = np.array([2000, 4000, 8000])
    counted = np.linspace(0, lengths[-1] - 1, 9).astype(int)

    def exponents(name: str) -> np.ndarray:
        """Local ones of the work for a whole text, the last of two doublings."""
        counts = multiply_adds(build(name), counted.tolist())
        assert len(set(np.diff(counts) / np.diff(counted))) == 1  # on one line, as all between them are
        every = np.interp(np.arange(lengths[-1]), counted, counts)
        work = np.cumsum(every)[lengths - 1]
        return np.asarray(np.diff(np.log(work)) / np.log(2))[-1:]

    cached, fixed = exponents("transformer"), exponents("rnn")
    claims.check("shen-cost", cached, [2.0], 0.1)
    claims.check("shen-cost", fixed, [1.0], 1e-3)
    for measured, wrong in ((cached, 1.0), (cached, 3.0), (fixed, 2.0)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-cost", measured, [wrong], 0.1)
