"""N pairs memorised by a state space model with two hidden layers of the order of sqrt(N) neurons.

All neurons of the first layer read one number z of the window, whose N values are sorted and cut into blocks of r. The
thresholds of the first layer are the ends of the blocks, so that a neuron of the second layer may be relu of any
straight line in each block. Lines that cross zero between two points of a block give the output a bend there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checks import real_array
from lib.theory.memorizing.exact import Rationals, rationals, states

Numbers = NDArray[Any]  # of floats, or of Fractions


@dataclass(frozen=True)
class TwoLayers:
    """y = c . relu(W relu(z - b)), c = (1, .., 1, -1, .., -1): b (d,), W (2r, d). Floats, or Fractions throughout."""

    b: Numbers
    W: Numbers

    def __call__(self, z: Numbers) -> Numbers:
        """y (N,) for numbers z (N,)."""
        second = _relu(_relu(z[:, None] - self.b) @ self.W.T)
        half = len(self.W) // 2
        return np.asarray(second[:, :half].sum(axis=1) - second[:, half:].sum(axis=1))

    @property
    def neurons(self) -> int:
        return len(self.b) + len(self.W)


@dataclass(frozen=True)
class TwoLayerSSM:
    """h_t = A h_{t-1} + B x_t from 0, y = c . relu(W relu(h_T - b)) of the neurons behind the register.

    A (h, h), as `memorise_sequences` makes it of zeros and ones with A^n = 0, B (h, m). All numbers are Fractions.
    """

    A: Rationals
    B: Rationals
    layers: TwoLayers

    def __call__(self, sequences: Rationals) -> Rationals:
        """y (N,) for sequences (N, n, m)."""
        last = states(self.A, self.B, sequences)[:, -1]  # every reader has the same number
        return self.layers(last)

    @property
    def neurons(self) -> int:
        """Of both layers, with those of the register."""
        return len(self.A) + len(self.layers.W)


def memorise(z: Numbers, y: Numbers) -> TwoLayers:
    """At most 4 ceil(sqrt N) neurons with y(z_i) = y_i for N different numbers z (N,) and any y (N,).

    Floats, whole numbers as well; Fractions throughout where z or y is an array of objects. Raises ValueError for
    numbers z that are not different, for other shapes, and for numbers that are not finite. Cost O(N) weights,
    O(N log N) operations.
    """
    z, y = _numbers(z, y)
    order = np.argsort(z)
    z, y = z[order], y[order]
    if len(z) == 0 or (z[1:] == z[:-1]).any():
        raise ValueError(f"z: one or more numbers, no two of them alike, are allowed, got {z.tolist()}")
    r, nothing = math.isqrt(len(z) - 1) + 1, 0 * z[0]
    away = max((z[-1] - z[0]) / len(z), abs(z[0]) / 2**40) or 1 + nothing  # of the size of the gaps, and no rounding
    knots, values = [z[0] - away], [np.full(2 * r, nothing)]
    for first in range(0, len(z), r):
        part = z[first : first + r]
        crossing = np.append((knots[-1] + part[0]) / 2, part[:-1])
        slopes = np.append(y[first] / (part[0] - crossing[0]), np.diff(y[first : first + r]) / np.diff(part))
        bend = np.append(slopes[0], np.diff(slopes))
        steep, zero = np.full((2, 2 * r), nothing)
        for half, up in ((0, bend), (r, -bend)):
            steep[half : half + len(part)], zero[half : half + len(part)] = np.maximum(up, nothing), crossing
        for end in part[[0, -1]] if len(part) > 1 else part:
            knots.append(end)
            values.append(steep * (end - zero))
    rises = np.diff(np.array(values).T, axis=1) / np.diff(np.array(knots))
    return TwoLayers(np.array(knots[:-1]), np.concatenate([rises[:, :1], np.diff(rises, axis=1)], axis=1))


def memorise_sequences(sequences: Any, y: Any, direction: Any) -> TwoLayerSSM:
    """The same for sequences (N, n, m), which are told apart by z = sum_s direction_s . x_{n-s}, direction (n, m).

    At most 4 ceil(sqrt N) + n - 1 neurons. Raises ValueError for other shapes and where two sequences have the same z.
    """
    x, g = rationals(sequences), rationals(direction)
    if x.ndim != 3 or g.shape != x.shape[1:]:
        raise ValueError(f"sequences (N, n, m), direction (n, m) are allowed, got {x.shape} and {g.shape}")
    layers = memorise((x[:, ::-1] * g).sum(axis=(1, 2)), rationals(y))
    register, readers = len(g) - 1, len(layers.b)
    A = np.full((register + readers, register + readers), Fraction(0))
    A[np.arange(1, register), np.arange(register - 1)] = Fraction(1)  # handed on
    A[register:, register - 1 : register] = Fraction(1)  # and read
    return TwoLayerSSM(A, np.concatenate([g[:0:-1], np.repeat(g[:1], readers, axis=0)]), layers)


def _numbers(z: Any, y: Any) -> tuple[Numbers, Numbers]:
    """z (N,) and y (N,), both of floats or both of Fractions; ValueError for others."""
    numbers = np.asarray(z), np.asarray(y)
    if any(array.dtype == object for array in numbers):
        exact, targets = map(rationals, numbers)
    else:
        exact, targets = real_array(numbers[0], "z"), real_array(numbers[1], "y")
        if not np.all(np.isfinite(exact)) or not np.all(np.isfinite(targets)):
            raise ValueError("z, y: finite numbers are allowed, got NaN or infinity")
    if exact.ndim != 1 or targets.shape != exact.shape:
        raise ValueError(f"z, y: numbers of one shape (N,) are allowed, got {exact.shape} and {targets.shape}")
    return exact, targets


def _relu(values: Numbers) -> Numbers:
    return np.asarray(np.maximum(values, 0 * values[:1]))
