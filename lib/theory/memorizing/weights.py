"""Lemma A.4: the biases and output weights with which ReLU features memorise, found in three ways.

Triangular features: biases in one of several orders, and the output weights that follow.

Ramps over one line: one shared functional, and output weights by divided differences. All neurons but order - 1 read
the same number z of a window. With thresholds at the sorted values, y as a function of z is the piecewise linear
interpolant of the data, and its weights are changes of slope: O(N p) in place of O(N^3).

Registers: exact zeros, by neurons that hold the last inputs, and one-hot neurons for all other sequences. (order - 1) m
neurons form a shift register, so A is strictly block triangular: its powers, and with them everything older than the
window, are exact zeros in floating point. The register's own features are linear (their biases keep them active) and
answer for as many sequences; every other sequence has a neuron that fires for it alone. Ordered so, the features are
[[1, R], [0, S]] with S square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from lib.theory.memorizing.transition import (
    FINE_READ_BITS,
    READ_BITS,
    Array,
    Transition,
    dyadic,
    shared_transition,
    transition,
)
from lib.theory.memorizing.winner import separators

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


def sorted_transition(
    windows: Array, generator: np.random.Generator, draws: int = 100
) -> tuple[Transition, Array, Order, Order]:
    """The best of several random lines: transition, biases b (N,), and order as in `natural_order`.

    windows (N, order, m), latest input first. The order - 1 neurons that read a little more than z come first; each is
    silent for all sequences but its largest. Best: least sum of squared inverse gaps. Raises ValueError if all lines
    let two sequences coincide. Cost O(draws N (order m + ln N)).
    """
    count, order, inputs = windows.shape
    best: tuple[float, Array, Array, Array, Order] | None = None
    for draw in range(2 * draws):
        if draw == draws and best is not None and np.isfinite(best[0]):
            break  # else: finer weights, because coarse ones let values coincide
        direction = generator.standard_normal((inputs,))
        weights = dyadic(generator, order, 1.0, READ_BITS if draw < draws else FINE_READ_BITS)
        lags = windows @ direction
        line = lags @ weights
        sequences, cuts, cost = _thresholds(line, lags[:, : order - 1] + line[:, None])
        if best is None or cost < best[0]:
            best = cost, direction, weights, cuts, sequences
    if best is None or not np.isfinite(best[0]):
        raise ValueError(f"sorted: sequences that some line separates are allowed; {2 * draws} lines left two together")
    _, direction, weights, thresholds, sequences = best
    return shared_transition(count, weights, 1.0, direction), -thresholds, sequences, np.arange(count)


def ramp_weights(hidden: Array, b: Array, sequences: Order, outputs: Array, order: int) -> Array:
    """C^T (N, p) of the network of `sorted_transition`, by changes of slope.

    hidden (N, order): the values of neurons 1 ... order; all further ones equal the last. Cost O(N (p + order)).
    """
    extra = order - 1
    line, own = hidden[:, extra], hidden[:, :extra]
    places = line[sequences[extra:]][::-1]  # ascending
    wanted = outputs[sequences[extra:]][::-1]
    first = np.zeros((1, outputs.shape[1]))
    slopes = np.diff(wanted, axis=0, prepend=first) / np.diff(places, prepend=-b[-1])[:, None]
    changes = np.diff(slopes, axis=0, prepend=first)
    weights = np.concatenate([np.zeros((extra, outputs.shape[1])), changes[::-1]])
    for place in range(extra)[::-1]:
        sequence = sequences[place]
        row = np.concatenate([own[sequence] + b[:extra], line[sequence] + b[extra:]]).clip(min=0)
        weights[place] = (outputs[sequence] - row @ weights) / row[place]
    return weights


def _thresholds(line: Array, extra: Array) -> tuple[Order, Array, float]:
    """Order of the sequences, threshold of each neuron, and the sum of (spread / gap)^2; infinite where values tie."""
    left = np.ones(len(line), dtype=bool)
    first, thresholds, gaps = [], [], []
    for values in extra.T:
        rows = np.flatnonzero(left)
        second, top = rows[np.argpartition(values[rows], -2)[-2:]]
        first.append(top)
        thresholds.append(values[second])
        gaps.append((values[top] - values[second]) / max(values.std(), 1e-300))
        left[top] = False
    rest = np.flatnonzero(left)
    rest = rest[np.argsort(-line[rest], kind="stable")]
    sorted_line = line[rest]
    steps = -np.diff(sorted_line)
    mean_step = steps.mean() if len(steps) else 1.0
    thresholds.extend([*sorted_line[1:], sorted_line[-1] - mean_step])
    relative = np.array([*gaps, *(steps / max(line.std(), 1e-300))])
    cost = float(np.sum(relative**-2.0)) if np.all(relative > 1e-12) else np.inf
    return np.array([*first, *rest], dtype=np.intp), np.array(thresholds), cost


def register_transition(windows: Array, neurons: int) -> tuple[Transition, Array, Order, Order]:
    """Transition, biases b (neurons,), and the order: sequences with a neuron of their own first, the register's last.

    windows (N, order, m), latest input first. Neurons that are left are silent; the register has to answer for no more
    sequences than have no neuron of their own. Raises ValueError if there are too few neurons for the register, if the
    last order - 1 inputs span too little for its features to tell those sequences apart, or if a window is no corner.
    Cost as `separators`.
    """
    count, order, inputs = windows.shape
    size = (order - 1) * inputs
    if neurons <= size:
        raise ValueError(f"shift_register: more than (order - 1) m = {size} neurons are allowed, got {neurons}")
    shared = max(0, count + size - neurons)  # sequences that the register answers for
    unit = 2.0 ** np.round(np.log2(windows.std())) if windows.std() > 0 else 1.0
    windows = windows / unit  # a power of two: A stays exact, and both kinds of features are of the same size
    held = windows[:, : order - 1].reshape(count, size)
    spread = held.std(axis=0)
    biases = spread - held.min(axis=0)  # the register's features are active for all sequences
    _, triangle, pivots = qr((held + biases).T, mode="economic", pivoting=True)
    if shared and not abs(triangle[shared - 1, shared - 1]) > 1e-9 * abs(triangle[0, 0]):
        raise ValueError(
            f"shift_register: the last {order - 1} inputs of all sequences have to span {shared} of (order - 1) m = "
            f"{size} dimensions, and these span fewer; with {shared} more neurons, or the other methods, they "
            "do not have to"
        )
    last = pivots[:shared]
    first = np.setdiff1d(np.arange(count), last)
    separating, thresholds = separators(windows)
    silent = neurons - size - len(first)
    functionals = np.concatenate([np.eye(size, order * inputs), separating[first], np.zeros((silent, order * inputs))])
    readers = np.eye(order * inputs, neurons)
    readers[size:] = 0  # nobody reads the oldest input
    columns = np.concatenate([np.arange(size, size + len(first)), np.arange(size)])
    realised = transition(functionals.reshape(neurons, order, inputs), readers, np.eye(inputs) / unit)
    b = np.concatenate([biases, -thresholds[first], np.full(silent, -1.0)])
    return realised, b, np.concatenate([first, last]), columns


def register_weights(features: Array, outputs: Array, sequences: Order, neurons: Order, size: int) -> Array:
    """C^T (all neurons, p) from features [[1, R], [0, S]], S with `size` columns. Cost O(size^3 + N size p)."""
    ordered, wanted = features[np.ix_(sequences, neurons)], outputs[sequences]
    own = len(neurons) - size
    shared, target = ordered[own:, own:], wanted[own:]
    square = len(shared) == size
    register = np.linalg.solve(shared, target) if square else np.linalg.lstsq(shared, target, rcond=None)[0]
    result = np.zeros((features.shape[1], wanted.shape[1]))
    result[neurons[own:]] = register
    result[neurons[:own]] = (wanted[:own] - ordered[:own, own:] @ register) / np.diag(ordered)[:own, None]
    return result
