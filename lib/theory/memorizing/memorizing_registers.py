"""Memorising with exact zeros: neurons that hold the last inputs, and one-hot neurons for all other sequences.

(order - 1) m neurons form a shift register, so A is strictly block triangular: its powers, and with them everything
older than the window, are exact zeros in floating point. The register's own features are linear (their biases keep
them active) and answer for as many sequences; every other sequence has a neuron that fires for it alone. Ordered so,
the features are [[1, R], [0, S]] with S square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from lib.theory.memorizing.transition import Array, Transition, transition
from lib.theory.memorizing.winner import separators

Order = NDArray[np.intp]


def register_transition(windows: Array) -> tuple[Transition, Array, Order, Order]:
    """Transition, biases b (N,), and the order: sequences with a neuron of their own first, the register's last.

    windows (N, order, m), latest input first. Raises ValueError if N is too small for the register, if the last
    order - 1 inputs span too little for its features to be independent, or if a window is no corner. Cost as
    `separators`.
    """
    count, order, inputs = windows.shape
    size = (order - 1) * inputs
    if count <= size:
        raise ValueError(f"shift_register: more than (order - 1) m = {size} sequences are allowed, got {count}")
    unit = 2.0 ** np.round(np.log2(windows.std())) if windows.std() > 0 else 1.0
    windows = windows / unit  # a power of two: A stays exact, and both kinds of features are of the same size
    held = windows[:, : order - 1].reshape(count, size)
    spread = held.std(axis=0)
    biases = spread - held.min(axis=0)  # the register's features are active for all sequences
    _, triangle, pivots = qr((held + biases).T, mode="economic", pivoting=True)
    if size and not abs(triangle[size - 1, size - 1]) > 1e-9 * abs(triangle[0, 0]):
        raise ValueError(
            f"shift_register: the last {order - 1} inputs of all sequences have to span (order - 1) m = {size} "
            "dimensions, and these span fewer; the other methods do not need this"
        )
    last = pivots[:size]
    first = np.setdiff1d(np.arange(count), last)
    separating, thresholds = separators(windows)
    functionals = np.concatenate([np.eye(size, order * inputs), separating[first]])
    readers = np.eye(order * inputs, count)
    readers[size:] = 0  # nobody reads the oldest input
    neurons = np.concatenate([np.arange(size, count), np.arange(size)])
    realised = transition(functionals.reshape(count, order, inputs), readers, np.eye(inputs) / unit)
    return realised, np.concatenate([biases, -thresholds[first]]), np.concatenate([first, last]), neurons


def register_weights(features: Array, outputs: Array, sequences: Order, neurons: Order, size: int) -> Array:
    """C^T (N, p) from features [[1, R], [0, S]], with S (size, size). Cost O(size^3 + N size p)."""
    ordered, wanted = features[np.ix_(sequences, neurons)], outputs[sequences]
    own = len(ordered) - size
    weights = np.empty_like(wanted)
    weights[own:] = np.linalg.solve(ordered[own:, own:], wanted[own:])
    weights[:own] = (wanted[:own] - ordered[:own, own:] @ weights[own:]) / np.diag(ordered)[:own, None]
    result = np.empty_like(weights)
    result[neurons] = weights
    return result
