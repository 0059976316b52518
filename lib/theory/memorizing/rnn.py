"""ReLU RNNs that memorise: a biased shift register under one level of neurons, and the large biases that cannot.

h_t = relu(A h_{t-1} + B x_t + b), y_t = C h_t. The register keeps copies of the last n - 1 inputs, with a bias that
holds its neurons above zero on the data, so that the next level reads the last n inputs as a linear SSM would. That
level turns each of the N given sequences into a feature vector of its own. N + (n - 1) m neurons in all, and no
neuron points back: the window is n exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import issparse

from lib.checks import generator, whole_number
from lib.theory.memorizing.checks import checked_data, float_type
from lib.theory.memorizing.winner import NotACorner, separators
from lib.theory.windows.context_window import relu, rnn_outputs, rnn_states

Array = NDArray[Any]
Method = Literal["winner_take_all", "sorted"]
_DIRECTIONS = 256  # random directions that "sorted" chooses from


@dataclass(frozen=True, eq=False)
class MemorizingRNN:
    """The weights A (H, H), B (H, m), b (H,), C (p, H) of h_t = relu(A h_{t-1} + B x_t + b), y_t = C h_t.

    margin: narrowest strip between a sequence and all others, in units of the longest sequence ("winner_take_all"), or
    smallest gap of two projections, in units of the widest ("sorted"): errors are about the precision divided by it.
    """

    A: Array
    B: Array
    b: Array
    C: Array
    margin: float

    @property
    def hidden_size(self) -> int:
        """Number of neurons H."""
        return len(self.A)

    def step(self, hidden: Array, inputs: ArrayLike) -> Array:
        """h_t (..., H) from h_{t-1} (..., H) and x_t (..., m), in the precision of the weights."""
        x = np.asarray(inputs, dtype=self.A.dtype)
        return relu(hidden.astype(self.A.dtype) @ self.A.T + x @ self.B.T + self.b)

    def states(self, inputs: ArrayLike) -> Array:
        """h_t for inputs (..., T, m): (..., T, H), in the precision of the weights."""
        return rnn_states(self.A, self.B, self.b, np.asarray(inputs, dtype=self.A.dtype))

    def outputs(self, inputs: ArrayLike) -> Array:
        """y_t for inputs (..., T, m): (..., T, p), in the precision of the weights."""
        return rnn_outputs(self.A, self.B, self.b, self.C, np.asarray(inputs, dtype=self.A.dtype))


def memorizing_rnn(
    inputs: ArrayLike,
    outputs: ArrayLike,
    method: Method = "winner_take_all",
    dtype: DTypeLike = np.float64,
    seed: int = 0,
) -> MemorizingRNN:
    """A ReLU RNN with y_n = outputs[i] after inputs[i], and window n: Prop. 4.5 for RNNs.

    inputs: (N, n, m), x_1 ... x_n of each sequence, no two alike. outputs: (N, p).

    - "winner_take_all": neuron i is relu(w_i . z - theta_i), z the last n inputs, one for sequence i and zero for all
      others. Features are the identity matrix. Every sequence has to lie outside the convex hull of the others, as
      it does on a sphere.
    - "sorted": all neurons read one number s = v . z, with biases between its sorted values (Lemma A.4); distinct
      sequences will do, also for m = 1, but digits are lost in proportion to the smallest gap. seed chooses v.

    dtype: float64 or float32, of the weights and of all arithmetic with them. Raises ValueError for wrong shapes,
    numbers that are not finite, two equal sequences, another method, and, for "winner_take_all", a sequence that lies
    within the convex hull of the others. Cost O(N^2 n m), and one linear program for each sequence on no sphere.
    """
    z, y = checked_data(inputs, outputs)
    y = y.toarray() if issparse(y) else y
    count, order, width = z.shape
    flat = z.reshape(count, -1)
    if method == "winner_take_all":
        directions, thresholds, margin = _winner_level(z)
    elif method == "sorted":
        directions, thresholds, margin = _projection_level(flat, seed)
    else:
        raise ValueError(f"method: 'winner_take_all' or 'sorted' is allowed, got {method!r}")
    A, B, b = shift_register(directions.reshape(count, order, width), thresholds, -z.min(axis=(0, 1)))
    precision = float_type(dtype)
    if precision not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype: float64 or float32 is allowed, got {dtype!r}")
    A, B, b = (weights.astype(precision) for weights in (A, B, b))
    if method == "winner_take_all":  # divide by what the neurons really give in this precision
        own = np.diagonal(rnn_states(A, B, b, z.astype(precision))[:, -1, -count:])
        level = (y / own[:, None]).T
    else:
        level = _piecewise_linear(flat @ directions[0], thresholds, y).T
    C = np.concatenate([np.zeros((y.shape[1], len(A) - count)), level], axis=1).astype(precision)
    return MemorizingRNN(A, B, b, C, margin)


def shift_register(readers: Array, thresholds: Array, offset: Array) -> tuple[Array, Array, Array]:
    """A, B, b of an RNN whose last N neurons are relu(sum_s readers[:, s] . x_{t-n+1+s} - thresholds).

    readers: (N, n, m), the weights of x_{t-n+1}, ..., x_t. thresholds: (N,). offset: (m,), added to every input in
    the register; inputs >= -offset pass it unchanged. Neurons: n - 1 copies of m, the newest first, then N.
    Returns A (H, H), B (H, m), b (H,), H = N + (n - 1) m, of the type of the readers. Cost O(H^2).
    """
    count, order, width = readers.shape
    copies = (order - 1) * width
    size = copies + count
    A, B, b = (
        np.zeros((size, size), readers.dtype),
        np.zeros((size, width), readers.dtype),
        np.zeros(size, readers.dtype),
    )
    A[width:copies, : max(copies - width, 0)] = np.eye(max(copies - width, 0), dtype=int)
    older = readers[:, -2::-1]  # weights of x_{t-1}, x_{t-2}, ...
    A[copies:, :copies] = older.reshape(count, copies)
    if order > 1:
        B[:width], b[:width] = np.eye(width, dtype=int), offset
    B[copies:] = readers[:, -1]
    b[copies:] = -thresholds - older.sum(axis=1) @ offset
    return A, B, b


def large_bias_states(inputs: ArrayLike, hidden: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Last states of a random RNN with a bias so large that every ReLU is active, exact integers (N, hidden).

    App. A.4 takes such biases to carry Lemma A.2 over to RNNs. inputs: whole numbers (N, n, m), at most 1000 in
    size. A has random weights 0 .. 3 from each of n layers to the next, so A^n = 0 and the window is n; B has weights
    -9 .. 9. The states are affine in the inputs, so their rank is at most n m + 1. Raises ValueError for other
    inputs, hidden < n, n > 8 or a state that is not positive. Cost O(N n hidden^2).
    """
    z = np.asarray(inputs)
    numbers = z.ndim == 3 and z.size > 0 and z.dtype.kind in "iu"
    largest = max(-int(z.min()), int(z.max())) if numbers else 0  # of Python: the least int8 has no opposite
    if not numbers or largest > 1000 or z.shape[1] > 8:
        raise ValueError(
            f"inputs: whole numbers (N, n, m) up to 1000 in size, n <= 8, are allowed, got shape {z.shape} of {z.dtype}"
        )
    size, order, width = whole_number(hidden, "hidden", z.shape[1]), z.shape[1], z.shape[2]
    bias = 9 * width * (largest + 1)
    if (3 * size + 1) ** order * bias * 2 > np.iinfo(np.int64).max:
        raise ValueError(f"hidden, n: smaller networks are allowed, {size} neurons and n = {order} overflow 64 bits")
    random = generator(seed)
    layer = np.arange(size) * order // size
    A = random.integers(0, 4, (size, size)) * (layer[:, None] == layer + 1)
    B = random.integers(-9, 10, (size, width))
    states = rnn_states(A, B, np.full(size, bias, dtype=np.int64), z.astype(np.int64))
    if np.min(states) <= 0:
        raise ValueError("hidden: a ReLU is inactive although the bias is large")
    return np.asarray(states[:, -1])


def _winner_level(windows: Array) -> tuple[Array, Array, float]:
    """w_i and theta_i with w_i . z_i - theta_i = 1 and <= -1 for all others, and the width of the narrowest margin."""
    try:
        directions, thresholds = separators(windows)
    except NotACorner as error:
        others = ", ".join(map(str, error.others))
        raise ValueError(
            f"inputs: sequence {error.window} lies in the convex hull of sequences {others}, "
            "so that no neuron is active for it alone; inputs on a sphere are allowed, or method='sorted'"
        ) from error
    steepest = float(np.max(np.linalg.norm(directions, axis=1)))
    largest = float(np.max(np.linalg.norm(windows.reshape(len(windows), -1), axis=1)))
    return directions, thresholds, 2.0 / (steepest * largest) if steepest * largest > 0.0 else 1.0


def _projection_level(points: Array, seed: int) -> tuple[Array, Array, float]:
    """One direction for all neurons, of many the one with the widest smallest gap; a threshold below each value."""
    candidates = generator(seed).standard_normal((_DIRECTIONS, points.shape[1]))
    values = np.sort(points @ candidates.T, axis=0)
    if len(points) == 1:
        return candidates[:1], values[:1, 0] - 1.0, 1.0
    gaps = np.min(np.diff(values, axis=0), axis=0) / (values[-1] - values[0])
    best = int(np.argmax(gaps))
    if gaps[best] <= 0.0:
        raise ValueError("inputs: two sequences are too close for float64 to tell their projections apart")
    direction, ordered = candidates[best], values[:, best]
    below = np.append(ordered[0] - (ordered[-1] - ordered[0]) / len(points), ordered[:-1])
    thresholds = below[np.argsort(np.argsort(points @ direction))]
    return np.broadcast_to(direction, points.shape).copy(), thresholds, float(gaps[best])


def _piecewise_linear(values: Array, thresholds: Array, outputs: Array) -> Array:
    """Weights (N, p) of relu(s - threshold) that give outputs[i] at values[i]: changes of slope at the thresholds."""
    order = np.argsort(values)
    steps = values[order] - thresholds[order]
    slopes = np.diff(outputs[order], axis=0, prepend=0.0) / steps[:, None]
    weights = np.empty_like(outputs)
    weights[order] = np.diff(slopes, axis=0, prepend=0.0)
    return weights
