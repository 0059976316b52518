"""Lemma A.4: biases that make ReLU features triangular, in several orders, and the output weights that follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Array = NDArray[np.float64]
Order = NDArray[np.intp]


def natural_order(hidden: Array) -> tuple[Array, Order, Order]:
    """Biases as in the proof of Lemma A.4: neuron 1 keeps its largest value, neuron 2 the largest that is left, ...

    hidden (N, N): value of each sequence (row) in each neuron (column), distinct in each column. Returns b (N,) and
    the order: neuron `neurons[k]` is silent for all of `sequences[k + 1:]`, so that the features relu(hidden + b),
    rows and columns in this order, are upper triangular. The bias is minus the second largest value: the widest margin
    the proof allows. Cost O(N^2).
    """
    count = len(hidden)
    left = np.ones(count, dtype=bool)
    b = np.empty(count)
    sequences = np.empty(count, dtype=np.intp)
    for neuron in range(count):
        rows = np.flatnonzero(left)
        values = hidden[rows, neuron]
        if len(rows) > 1:
            last, top = np.argpartition(values, -2)[-2:]
            b[neuron] = -values[last]
        else:
            top = 0
            b[neuron] = np.ptp(hidden[:, neuron]) / 2 - values[0] if count > 1 else 1 - values[0]
        sequences[neuron] = rows[top]
        left[rows[top]] = False
    return b, sequences, np.arange(count)


def gap_order(hidden: Array) -> tuple[Array, Order, Order]:
    """The same, but always next the neuron in which the largest remaining value stands out most from the second.

    Gaps are measured in standard deviations of the neuron. Returns as `natural_order`. Cost O(N^2 ln N).
    """
    count = len(hidden)
    if count == 1:
        return natural_order(hidden)
    descending = np.argsort(-hidden, axis=0, kind="stable")
    spread = hidden.std(axis=0)
    columns = np.arange(count)
    first, second = np.zeros(count, dtype=np.intp), np.ones(count, dtype=np.intp)  # places in `descending`
    left, free = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    b = np.empty(count)
    sequences, neurons = np.empty(count, dtype=np.intp), np.empty(count, dtype=np.intp)
    for step in range(count - 1):
        best, next_best = hidden[descending[first, columns], columns], hidden[descending[second, columns], columns]
        neuron = int(np.argmax(np.where(free, (best - next_best) / spread, -1.0)))
        chosen = descending[first[neuron], neuron]
        b[neuron], sequences[step], neurons[step] = -next_best[neuron], chosen, neuron
        left[chosen], free[neuron] = False, False
        first = np.where(descending[first, columns] == chosen, second, first)
        behind = np.flatnonzero((second <= first) | ~left[descending[np.minimum(second, count - 1), columns]])
        while len(behind):
            second[behind] += 1
            behind = behind[second[behind] < count]
            behind = behind[~left[descending[second[behind], behind]]]
        second = np.minimum(second, count - 1)
    neuron, chosen = int(np.flatnonzero(free)[0]), int(np.flatnonzero(left)[0])
    b[neuron], sequences[-1], neurons[-1] = spread[neuron] - hidden[chosen, neuron], chosen, neuron
    return b, sequences, neurons


def triangular_weights(
    features: Array, outputs: Array, sequences: Order, neurons: Order, refinements: int = 2
) -> Array:
    """C^T (N, p) with features @ C^T = outputs by back substitution, refined with the residual.

    features (N, N), upper triangular up to rounding in the order of `natural_order` or `gap_order`.
    Cost O(N^2 p), against O(N^3 + N^2 p) of a dense solve.
    """
    ordered = np.ascontiguousarray(features[np.ix_(sequences, neurons)])
    wanted = outputs[sequences]
    weights = solve_triangular(ordered, wanted, lower=False, check_finite=False)
    for _ in range(refinements):
        weights += solve_triangular(ordered, wanted - ordered @ weights, lower=False, check_finite=False)
    result: Array = np.empty_like(weights)
    result[neurons] = weights
    return np.asarray(result)
