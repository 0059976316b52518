"""One shared functional: features that are ramps over one line, and output weights by divided differences.

All neurons but order - 1 read the same number z of a window. With thresholds at the sorted values, y as a function of z
is the piecewise linear interpolant of the data, and its weights are changes of slope: O(N p) in place of O(N^3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lib.theory.memorizing.transition import FINE_READ_BITS, READ_BITS, Array, Transition, dyadic, shared_transition

Order = NDArray[np.intp]


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
