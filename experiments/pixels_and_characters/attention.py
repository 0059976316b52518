"""How attention is spread: by lag, by its entropy, and how much of it goes to the few states that get most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
LAGS = 25  # the last states whose share of the attention is kept one by one
TOP = 10  # states of a sequence that get most attention
WATCHED_AT_A_TIME = 8  # sequences: full attention gives length x length weights for each


def spread(groups: Iterable[tuple[Whole, Floats]], keep_map: bool = False) -> dict[str, Any]:
    """Means over sequences; groups: of times attended to, -1 in an empty slot, and weights, both (n, length, slots).

    by_lag: share of all attention on the state of this step, the last one, and so on. entropy: mean over steps of
    -sum alpha ln alpha, nats. top: share of all attention on the ten states of the sequence that get most of it.
    uniform_entropy, uniform_top: what the last two would be if attention were equal on all filled slots. keep_map: the
    attention of the first sequence per mille, the last step last, each row up to its own step.
    """
    rows: list[list[Any]] = []
    result: dict[str, Any] = {}
    for times, weights in groups:
        if keep_map and not rows:
            result["map"] = heat_map(times[0], weights[0])
        filled = times >= 0
        equal = filled / np.maximum(1, filled.sum(axis=2, keepdims=True))
        for one, given, same in zip(times, weights, equal, strict=True):
            rows.append(
                [by_lag(one, given), entropy(given), top_share(one, given), entropy(same), top_share(one, same)]
            )
    names = ("by_lag", "entropy", "top", "uniform_entropy", "uniform_top")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        result[name] = np.mean(column, axis=0).tolist()
    return result


def by_lag(times: Whole, weights: Floats) -> Floats:
    """Share of the attention of one sequence, times and weights (length, slots), on the states 0, 1, .. steps ago."""
    lags = np.arange(len(times))[:, None] - times
    near = (times >= 0) & (lags < LAGS)
    return np.bincount(lags[near], weights[near], minlength=LAGS) / len(times)


def entropy(weights: Floats) -> float:
    """Mean over steps of -sum alpha ln alpha, nats; weights (length, slots), those of empty slots 0."""
    logarithms = np.log(np.where(weights > 0, weights, 1.0))
    return float(-(weights * logarithms).sum(axis=1).mean())


def top_share(times: Whole, weights: Floats, top: int = TOP) -> float:
    """Share of all attention of one sequence on the `top` states that get most of it over all steps."""
    filled = times >= 0
    received = np.bincount(times[filled], weights[filled])
    return float(np.sort(received)[-top:].sum() / received.sum())


def heat_map(times: Whole, weights: Floats) -> list[list[int]]:
    """Attention of one sequence per mille: at each step a row, of the states up to that step."""
    whole = np.zeros((len(times), len(times) + 1))  # the last column takes what is empty
    np.put_along_axis(whole, times, weights, axis=1)
    return [np.rint(1000 * row[: step + 1]).astype(int).tolist() for step, row in enumerate(whole[:, :-1])]
