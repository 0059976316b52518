"""What a network attends to while it recalls: shares of its attention on the symbols, and what its memory holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lib.processes.discrete.recall import RecallTask

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
LAGS = 25  # the last states whose share of the attention is kept one by one
LARGEST_MAP = 1500  # numbers
GROUP = 8  # sequences that are watched at a time: full attention gives length x length weights for each


def attention(model: Any, task: RecallTask, inputs: Whole, buffer: int | None, device: str = "cpu") -> dict[str, Any]:
    """Shares of the attention of `model` on inputs (n, length), means over sequences, all between 0 and 1.

    on_symbols: of the attention at the steps of recall, that on the times of the symbols. on_other_times: that on as
    many times drawn at random before the cue, what nobody looks for. on_each_symbol: (recall, recall), at each step of
    recall on each symbol. by_lag: of all attention, that on the state of this step, of the last one, and so on. set_at_
    cue: share of the relevant set that symbol times occupy when the cue comes; None without a set, which is what is
    older than `buffer` steps. map: attention per mille at each step of recall on each time, where that is small enough.
    """
    found, sizes = [], []
    for start in range(0, len(inputs), GROUP):
        rows = inputs[start : start + GROUP]
        times, weights = model.attended(torch.from_numpy(rows).to(device))
        found.append(shares(times.cpu().numpy(), weights.double().cpu().numpy(), task, rows, buffer, start))
        sizes.append(len(rows))
    result: dict[str, Any] = {}
    for name, first in found[0].items():
        mean = None if first is None else np.average([one[name] for one in found], axis=0, weights=sizes)
        if name != "map":
            result[name] = None if mean is None else mean.tolist()
        elif mean is not None and mean.size <= LARGEST_MAP:
            result[name] = np.rint(1000 * mean).astype(int).tolist()
    return result


def shares(
    times: Whole, weights: Floats, task: RecallTask, inputs: Whole, buffer: int | None, seed: int = 0
) -> dict[str, Any]:
    """The numbers of `attention` from the times attended to and their weights, both (n, length, slots); -1 is empty."""
    rows, length = inputs.shape
    symbols = task.symbol_times(inputs)  # (n, recall)
    whole = np.zeros((rows, task.recall, length + 1))  # an empty slot has time -1: the last place, which is none
    np.put_along_axis(whole, times[:, task.recall_steps], weights[:, task.recall_steps], axis=2)
    whole = whole[:, :, :length]
    on_each = np.take_along_axis(whole, symbols[:, None], axis=2)  # (n, step, symbol)
    random = np.random.default_rng([seed, 0, 6]).random((rows, task.cue_time)).argsort(axis=1)[:, : task.recall]
    lags = np.arange(length)[:, None] - times
    near = (times >= 0) & (lags < LAGS)
    return {
        "on_symbols": on_each.sum(axis=2).mean(),
        "on_other_times": np.take_along_axis(whole, random[:, None], axis=2).sum(axis=2).mean(),
        "on_each_symbol": on_each.mean(axis=0),
        "by_lag": np.bincount(lags[near], weights[near], minlength=LAGS) / (rows * length),
        "set_at_cue": None if buffer is None else _share_of_set(times[:, task.cue_time], symbols, task, buffer),
        "map": whole.mean(axis=0),
    }


def _share_of_set(times: Whole, symbols: Whole, task: RecallTask, buffer: int) -> float | None:
    """Share of the filled slots of the relevant set (times older than the buffer) that hold symbol times."""
    inside = (times >= 0) & (times <= task.cue_time - buffer)
    if not inside.any():
        return None
    right = inside & (times[:, :, None] == symbols[:, None]).any(axis=2)
    return float(np.mean(right.sum(axis=1) / np.maximum(1, inside.sum(axis=1))))
