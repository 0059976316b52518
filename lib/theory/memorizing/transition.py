"""Nilpotent transitions whose neurons read prescribed functionals of the last inputs.

A linear state h_t = A h_{t-1} + B x_t with A^order = 0 is a linear map of the window (x_t, x_{t-1}, ...):

    h_t = sum_{s < order} G_s R x_{t-s},      G_s (neurons, width), R (width, inputs).

It is realised by B = G_0 R and A = [G_1 ... G_{order-1} 0] Q for any left inverse Q of [G_0 ... G_{order-1}]: Q reads
the window out of the state, the first factor writes it back one lag later. A has rank (order - 1) width, so it is kept
as two thin factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
READ_BITS, WRITE_BITS = 8, 16  # behind the point: few enough that A and its powers are exact in float64
FINE_READ_BITS, FINE_WRITE_BITS = 16, 30  # A is exact, its powers are rounded where they are computed
_DRAWS = 20  # of generic weights, until all coordinates differ
_CLOSEST = 1e-12  # spreads of a coordinate, between its two closest values


@dataclass(frozen=True)
class Transition:
    """A = left @ right and B, with the functionals that they realise.

    left (neurons, d), right (d, neurons), B (neurons, m); functionals (neurons, order, m): weights of x_t, x_{t-1}, ...
    """

    left: Array
    right: Array
    B: Array
    functionals: Array

    def hidden(self, windows: Array) -> Array:
        """h_t (neurons per row) for windows (N, order, m) in time order, in one product. Cost O(N^2 order m)."""
        return np.asarray(windows[:, ::-1].reshape(len(windows), -1) @ self.functionals.reshape(len(self.B), -1).T)


def transition(functionals: Array, readers: Array, projection: Array) -> Transition:
    """The transition of the module's equation.

    functionals (neurons, order, width), readers Q (order width, neurons) with Q G = 1, projection R (width, m).
    """
    neurons, order, width = functionals.shape
    later = functionals[:, 1:].reshape(neurons, -1)
    reading = readers[: (order - 1) * width]  # the oldest input is read by nobody: it leaves the window
    return Transition(later, reading, functionals[:, 0] @ projection, functionals @ projection)


def projection(width: int, inputs: int, generator: np.random.Generator) -> Array:
    """Orthonormal random rows (width, inputs); 1 for a single input."""
    if inputs == 1:
        return np.ones((1, 1))
    return np.asarray(np.linalg.qr(generator.standard_normal((inputs, width)))[0].T)


def dyadic(generator: np.random.Generator, shape: int | tuple[int, ...], scale: float, bits: int = READ_BITS) -> Array:
    """Normal numbers of about this standard deviation, rounded to multiples of 2^-bits other than zero."""
    unit = 2.0**bits
    rounded = np.rint(generator.standard_normal(shape) * scale * unit)
    return np.where(rounded == 0, 1.0, rounded) / unit


def generic_transition(
    neurons: int, order: int, inputs: int, generator: np.random.Generator, fine: bool = False
) -> Transition:
    """A generic transition with A^order = 0 exactly: no rounding, entries are multiples of 2^-25; fine: of 2^-47.

    With d = order * width the first d neurons read (1 + ones w^T), where w sums to 1, so that the inverse
    1 - ones w^T / 2 is as exact as w is; all other neurons read random functionals. Every neuron sees the whole window,
    as Lemma A.3 wants. Needs neurons >= order. Cost O(neurons d).
    """
    width = min(inputs, max(1, neurons // (2 * order)))
    d = order * width
    read_bits, write_bits = (FINE_READ_BITS, FINE_WRITE_BITS) if fine else (READ_BITS, WRITE_BITS)
    w = _sums_to_one(generator, d, read_bits)
    functionals = dyadic(generator, (neurons, d), d**-0.5, write_bits)
    functionals[:d] = np.eye(d) + w
    readers = np.zeros((d, neurons))
    readers[:, :d] = np.eye(d) - 0.5 * w
    return transition(functionals.reshape(neurons, order, width), readers, projection(width, inputs, generator))


def distinct_transition(windows: Array, generator: np.random.Generator) -> tuple[Transition, Array]:
    """Generic weights for which no two sequences agree in any coordinate, and the hidden states (Lemma A.3).

    windows (N, order, m), in time order. Raises ValueError if 20 draws leave two together. Cost O(N^2 (order m + ln N))
    a draw.
    """
    count, order, inputs = windows.shape
    for draw in range(_DRAWS):
        # finer weights if coarse ones let values coincide
        found = generic_transition(count, order, inputs, generator, fine=draw >= _DRAWS // 2)
        hidden = found.hidden(windows)
        closest = np.diff(np.sort(hidden, axis=0), axis=0).min(axis=0, initial=np.inf)
        if np.all(closest > _CLOSEST * hidden.std(axis=0)) or count == 1:
            return found, hidden
    raise ValueError(
        f"inputs: sequences that differ by more than rounding are allowed; {_DRAWS} draws of generic weights left two "
        f"of them within {_CLOSEST} spreads of each other in some coordinate"
    )


def shared_transition(neurons: int, weights: Array, scale: float, direction: Array) -> Transition:
    """All neurons but order - 1 read the same functional, sum_s weights[s] (direction . x_{t-s}); exactly nilpotent.

    weights (order,) dyadic, scale a power of two, direction (m,). Neuron k < order - 1 reads the same functional plus
    scale (direction . x_{t-k}), so that a difference of two neurons reads the input at lag k. Cost O(neurons order).
    """
    order = len(weights)
    functionals = np.tile(weights, (neurons, 1))
    functionals[: order - 1, : order - 1] += scale * np.eye(order - 1)
    readers = np.zeros((order, neurons))
    lags = np.arange(order - 1)
    readers[lags, lags] = 1 / scale
    readers[lags, order - 1] = -1 / scale
    return transition(functionals[:, :, None], readers, direction[None])


def fitted_transition(
    functionals: Array, thresholds: Array, windows: Array, read: Array, generator: np.random.Generator
) -> tuple[Transition, Array]:
    """A transition for functionals that come with a problem, and biases; A^order = 0 up to rounding.

    functionals (neurons, order, width); thresholds (neurons,); windows (neurons, order, width), latest input first, as
    the projection `read` (width, m) leaves them. In directions where windows never differ, a functional is free, up
    to its bias; there it is chosen such that a left inverse exists. Needs neurons >= order * width. Returns b with
    functional . v + b = given functional . v - threshold on all windows. Cost O(neurons (order width)^2).
    """
    neurons, order, width = functionals.shape
    d = order * width
    given, flat = functionals.reshape(neurons, d), windows.reshape(neurons, d)
    basis, rank = _directions(flat - flat.mean(axis=0))
    kept = given @ basis[:rank].T @ basis[:rank]
    used, strengths, _ = np.linalg.svd(kept, full_matrices=False)
    others = generator.standard_normal((neurons, d - rank))
    others -= used[:, :rank] @ (used[:, :rank].T @ others)
    scale = strengths[:rank].mean() if rank else 1.0
    changed = kept + scale * np.linalg.qr(others)[0] @ basis[rank:]
    b = np.sum(flat * (given - changed), axis=1) - thresholds
    return transition(changed.reshape(neurons, order, width), np.linalg.pinv(changed), read), b


def _directions(varied: Array) -> tuple[Array, int]:
    """Orthonormal rows (d, d), of which the first `rank` span the rows of an array (N, d)."""
    _, sizes, basis = np.linalg.svd(varied, full_matrices=len(varied) < varied.shape[1])
    return basis, int(np.sum(sizes > 1e-10 * sizes[0])) if sizes[0] > 0 else 0


def _sums_to_one(generator: np.random.Generator, d: int, bits: int) -> Array:
    """d multiples of 2^-bits, none zero, with sum 1."""
    while True:
        w = dyadic(generator, d, d**-0.5, bits)
        w[-1] = 1 - w[:-1].sum()
        if d == 1 or 0 < abs(w[-1]) < 2:
            return w
