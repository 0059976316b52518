"""Shares of attention, from times and weights that are known."""

import numpy as np
import pytest
import torch

from experiments.recall.inside.attention import LAGS, attention, shares
from lib.processes import CopyTask, DenoiseTask


def attended_to(task, inputs, places):
    """Times and weights (n, length, slots): `places(row, t)` gives {time: weight}."""
    rows, length = inputs.shape
    times = np.full((rows, length, length), -1)
    weights = np.zeros((rows, length, length))
    for row in range(rows):
        for t in range(length):
            for slot, (time, weight) in enumerate(places(row, t).items()):
                times[row, t, slot], weights[row, t, slot] = time, weight
    return times, weights


@pytest.mark.parametrize("task", [CopyTask(9, symbols=3, recall=3), DenoiseTask(9, symbols=3, recall=3)], ids=repr)
def test_who_looks_at_the_symbols_in_their_order_has_all_attention_there(task):
    inputs, _ = task.sample(5, 0)
    symbols = task.symbol_times(inputs)
    begin = int(task.recall_steps[0])

    def places(row, t):
        return {int(symbols[row, t - begin]): 1.0} if t >= begin else {t: 1.0}

    found = shares(*attended_to(task, inputs, places), task, inputs, None)
    assert found["on_symbols"] == 1.0
    assert np.array_equal(found["on_each_symbol"], np.eye(3))
    assert found["on_other_times"] < 0.6
    assert found["by_lag"][0] == pytest.approx(begin / task.length)
    assert found["set_at_cue"] is None
    assert found["map"].shape == (3, task.length)
    assert np.allclose(found["map"].sum(axis=1), 1.0)


def test_uniform_attention_has_the_share_of_the_symbols_among_all_times():
    task = DenoiseTask(9, symbols=3, recall=3)
    inputs, _ = task.sample(40, 0)
    found = shares(
        *attended_to(task, inputs, lambda row, t: dict.fromkeys(range(t + 1), 1 / (t + 1))), task, inputs, None
    )
    expected = np.mean([3 / (t + 1) for t in task.recall_steps])
    assert found["on_symbols"] == pytest.approx(expected)
    assert found["on_other_times"] == pytest.approx(expected)  # all times before the cue are as good as any
    lags = [sum(1 / (t + 1) for t in range(lag, task.length)) / task.length for lag in range(LAGS)]
    assert np.allclose(found["by_lag"], lags)


def test_the_share_of_the_set_counts_what_is_older_than_the_buffer():
    task = CopyTask(9, symbols=3, recall=3)  # the cue comes at time 11
    inputs, _ = task.sample(4, 0)

    def held(*times):
        def places(row, t):
            return {time: 0.1 for time in times if time <= t}

        return shares(*attended_to(task, inputs, places), task, inputs, 4)

    assert held(0, 1, 7, 8, 9, 10, 11)["set_at_cue"] == pytest.approx(2 / 3)  # 7 has left the buffer, 8 has not
    assert held(0, 1, 2, 8)["set_at_cue"] == 1.0
    assert held(3, 4, 5, 6)["set_at_cue"] == 0.0
    assert held(8, 9, 10)["set_at_cue"] is None  # nothing in the set


class Watched:
    """Attends to the state of this step, or where told."""

    def __init__(self, lag):
        self.lag = lag

    def attended(self, tokens):
        rows, length = tokens.shape
        times = (torch.arange(length) - self.lag).clamp(min=-1).expand(rows, -1)[..., None]
        return times, (times >= 0).float()


def test_means_over_groups_are_those_of_all_sequences():
    task = DenoiseTask(20, symbols=3, recall=3)
    inputs, _ = task.sample(21, 0)  # no multiple of a group
    found = attention(Watched(2), task, inputs, 1)
    assert found["by_lag"][2] == pytest.approx((task.length - 2) / task.length)
    assert sum(found["by_lag"]) == pytest.approx(found["by_lag"][2])
    times, weights = Watched(2).attended(torch.from_numpy(inputs))
    whole = shares(times.numpy(), weights.numpy().astype(float), task, inputs, 1)
    assert found["on_symbols"] == pytest.approx(whole["on_symbols"])
    assert np.allclose(np.array(found["map"]) / 1000, whole["map"], atol=6e-4)
    assert "map" not in attention(
        Watched(2), DenoiseTask(1000, recall=2), DenoiseTask(1000, recall=2).sample(2, 0)[0], 1
    )
