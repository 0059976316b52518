"""The fewest units that memorise any targets: of points on a line, and of sequences, read as one number each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

import numpy as np

from lib.checks import whole_number
from lib.theory.memorizing.exact import Rationals, rectified, states
from lib.theory.smallest.piecewise_linear import (
    HiddenLayer,
    Number,
    bends,
    points_on_a_line,
    rationals,
    simplest_interpolant,
)

SIX = 6  # points that four units memorise, whatever the targets


@dataclass(frozen=True)
class RationalStateSpace:
    """h_0 = 0, h_t = A h_{t-1} + B x_t, y = C relu(h_n + b), all numbers Fractions (Def. 3.6).

    A (h, h), B (h, m), b (h,), C (p, h).
    """

    A: Rationals
    B: Rationals
    b: Rationals
    C: Rationals

    def __call__(self, sequences: Any) -> Rationals:
        """Last outputs, (N, p), of sequences (N, n, m) of rational numbers. Raises ValueError for another width."""
        read = _sequences(sequences)
        if read.shape[2] != self.B.shape[1]:
            raise ValueError(f"sequences: vectors of width {self.B.shape[1]} are allowed, got {read.shape[2]}")
        return np.asarray(rectified(states(self.A, self.B, read) + self.b) @ self.C.T)


def along_a_direction(layer: HiddenLayer, direction: Sequence[Number], order: int) -> RationalStateSpace:
    """The SSM with y = layer(i) on sequences of `order` equal vectors i u, with a nilpotent A: A^order = 0.

    A shifts the units by one place, as far as A^order = 0 allows; B = (I - A) a u^T / |u|^2 cancels what it adds up,
    since (I + A + ... + A^(order-1)) (I - A) = I. direction: u, not zero. Raises ValueError if it is, or order < 1.
    Source: the inputs in the proof of Prop. A.8 of Nandakumar et al.
    """
    u = np.array(rationals(direction, "direction"), dtype=object)
    if not any(u):
        raise ValueError("direction: a vector that is not zero is allowed, got zero")
    order = whole_number(order, "order", 1)
    size = layer.size
    A = np.full((size, size), Fraction(0), dtype=object)
    for k in range(1, size):
        A[k, k - 1] = Fraction(k % order != 0)  # chains of `order` units
    identity = np.array([[Fraction(j == k) for k in range(size)] for j in range(size)], dtype=object)
    a = np.array(layer.weights, dtype=object)
    B = np.outer((identity - A) @ a, u / (u @ u))
    return RationalStateSpace(A, B, np.array(layer.biases, dtype=object), np.array([layer.outputs], dtype=object))


def memorise_sequences(sequences: Any, targets: Sequence[Number]) -> RationalStateSpace:
    """An SSM with one output and N - 2 units (N >= 6) that memorises N different sequences, whatever the targets.

    Every unit reads one and the same number of a sequence, sum_s sum_k kappa^(m s + k) x_{n-s,k}, through A = kappa^m I
    and B = a (1, kappa, ..., kappa^(m-1)). It is a polynomial in kappa with the sequence as its coefficients, so that
    two sequences agree for finitely many kappa only; kappa = 1/2, 1/3 ... are tried. `memorise_on_a_line` does the
    rest. A is not nilpotent: for a bounded window see `memorise_windows`. sequences (N, n, m) of int or Fraction,
    targets (N,). Raises ValueError for equal sequences, other shapes or numbers that are not rational. Cost O(N^2 + N n
    m). Source: this book.
    """
    read = _sequences(sequences)
    y = rationals(targets, "targets")
    if len(y) != len(read):
        raise ValueError(f"targets: one for each of {len(read)} sequences is allowed, got {len(y)}")
    kappa, numbers = _distinct_numbers(read)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    layer = memorise_on_a_line([y[i] for i in order], [numbers[i] for i in order])
    width = read.shape[2]
    A = np.full((layer.size, layer.size), Fraction(0), dtype=object)
    np.fill_diagonal(A, kappa**width)
    B = np.outer(np.array(layer.weights, dtype=object), np.array([kappa**k for k in range(width)], dtype=object))
    return RationalStateSpace(A, B, np.array(layer.biases, dtype=object), np.array([layer.outputs], dtype=object))


def memorise_windows(sequences: Any, targets: Sequence[Number]) -> RationalStateSpace:
    """As `memorise_sequences`, with A^n = 0 for sequences of n vectors: N - 2 units for N >= max(6, n + 5).

    All units but n - 1 read the one number z = sum_s w_s o_s, o_s = (1, kappa, ...) . x_{n-s}, w_s = kappa^(m s). The
    other n - 1 read z + epsilon o_s, s = 0 ... n - 2, each with its own s: then the columns v_s of what the units read
    are independent, and A v_s = v_{s+1}, A v_{n-1} = 0 defines a nilpotent matrix. A unit for a seventh or later point
    has only to be silent for all smaller ones and active at its own, which it stays for a small epsilon. Raises
    ValueError as `memorise_sequences`, or for N below max(6, n + 5). Cost O(N^2 (N + n m)). Source: this book.
    """
    read = _sequences(sequences)
    y = rationals(targets, "targets")
    steps, width = read.shape[1:]
    if len(read) < max(SIX, steps + SIX - 1) or len(y) != len(read):
        raise ValueError(
            f"sequences, targets: as many of both, at least {max(SIX, steps + SIX - 1)} for {steps} vectors each, "
            f"are allowed, got {len(read)} and {len(y)}"
        )
    kappa, numbers = _distinct_numbers(read)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    z, goal = [numbers[i] for i in order], [y[i] for i in order]
    omega = np.array([kappa**k for k in range(width)], dtype=object)
    symbols = (read[:, ::-1] @ omega)[order]  # (N, n): o_s of each sequence
    largest = max(abs(value) for value in symbols.flat)
    epsilon = min(b - a for a, b in pairwise(z)) / (4 * max(largest, Fraction(1)))
    six = memorise_six(z[:SIX], goal[:SIX])
    idle = [Fraction(0)] * (4 - six.size)
    w = np.array([kappa ** (width * s) for s in range(steps)], dtype=object)
    rows = [a * w for a in [*six.weights, *idle]]
    biases, outputs = [*six.biases, *idle], [*six.outputs, *idle]
    for i in range(SIX, len(z)):
        extra = i - SIX
        rows.append(w + np.array([epsilon * (s == extra) for s in range(steps)]) if extra < steps - 1 else w)
        biases.append(-(z[i - 1] + z[i]) / 2)
        before = sum(
            (c * max(row @ symbols[i] + b, Fraction(0)) for row, b, c in zip(rows, biases, outputs, strict=False)),
            Fraction(0),
        )
        outputs.append((goal[i] - before) / (rows[-1] @ symbols[i] + biases[-1]))
    V = np.array(rows, dtype=object)  # (N - 2, n): what each unit reads of o_0 ... o_{n-1}
    coordinates = _coordinates(six, w, epsilon, len(V))
    A = np.concatenate([V[:, 1:], np.full((len(V), 1), Fraction(0), dtype=object)], axis=1) @ coordinates
    return RationalStateSpace(
        A, np.outer(V[:, 0], omega), np.array(biases, dtype=object), np.array([outputs], dtype=object)
    )


def _coordinates(six: HiddenLayer, w: Rationals, epsilon: Fraction, size: int) -> Rationals:
    """P (n, size) with P V = I for the V of `memorise_windows`: from one unit that reads z, and the n - 1 others."""
    plain = next(k for k, a in enumerate(six.weights) if a)
    P = np.full((len(w), size), Fraction(0), dtype=object)
    for s in range(len(w) - 1):
        P[s, 4 + s], P[s, plain] = 1 / epsilon, -1 / (epsilon * six.weights[plain])
    P[-1, plain] = 1 / six.weights[plain]
    P[-1] = (P[-1] - w[:-1] @ P[:-1]) / w[-1]
    return P


def _distinct_numbers(read: Rationals) -> tuple[Fraction, list[Fraction]]:
    """kappa, and the number that each sequence has for it: the coefficients run back in time."""
    coefficients = read[:, ::-1].reshape(len(read), -1)
    if len({tuple(row) for row in coefficients}) < len(read):
        raise ValueError("sequences: different sequences are allowed, two are equal")
    for divisor in count(2):
        kappa = Fraction(1, divisor)
        powers = np.array([kappa**j for j in range(coefficients.shape[1])], dtype=object)
        numbers = list(coefficients @ powers)
        if len(set(numbers)) == len(numbers):
            return kappa, numbers
    raise AssertionError("a polynomial has finitely many roots")  # pragma: no cover


def _sequences(sequences: Any) -> Rationals:
    given = np.asarray(sequences, dtype=object)
    if given.ndim != 3 or 0 in given.shape:
        raise ValueError(f"sequences: shape (N, n, m) is allowed, got {given.shape}")
    flat = [value.item() if isinstance(value, np.integer) else value for value in given.flat]
    return np.array(rationals(flat, "sequences"), dtype=object).reshape(given.shape)


def worst_case_size(points: int) -> int:
    """Units that memorise every set of real targets at N distinct points of a line, and are needed for some set:

        min(N, max(4, N - 2)).

    Raises ValueError for fewer than one point. Source: this book; Prop. A.8 of Nandakumar et al. gives >= N - 2, their
    Prop. 4.5 gives <= N.
    """
    count = whole_number(points, "points", 1)
    return min(count, max(4, count - 2))


def memorise_on_a_line(targets: Sequence[Number], inputs: Sequence[Number] | None = None) -> HiddenLayer:
    """y(x) = sum_k c_k relu(a_k x + b_k) through all points with `worst_case_size` units.

    Six points take four units (`memorise_six`), every further point takes one whose kink is at the point before.
    inputs: increasing, 1, 2, 3 ... if not given. Raises ValueError if they do not increase or a number is not rational.
    Cost O(points^2). Source: this book.
    """
    x, y = points_on_a_line(range(1, len(targets) + 1) if inputs is None else inputs, targets)
    if len(x) < SIX - 1:
        return _kinks_and_a_line(x, y)
    if len(x) == SIX - 1:
        return memorise_six([*x, x[-1] + 1], [*y, Fraction(0)])
    layer = memorise_six(x[:SIX], y[:SIX])
    for i in range(SIX, len(x)):
        c = (y[i] - layer(x[i])) / (x[i] - x[i - 1])
        layer = HiddenLayer([*layer.weights, 1], [*layer.biases, -x[i - 1]], [*layer.outputs, c])
    return layer


def memorise_six(inputs: Sequence[Number], targets: Sequence[Number]) -> HiddenLayer:
    """Four units through any six points.

    With d_2 ... d_5 the `bends` at the inner points: if d_4 >= 0 >= d_5, `_two_from_each_side` does it. Turning the
    signs of the targets over, or the line around, gives every case in which d_2 d_3 <= 0 or d_4 d_5 <= 0. In the others
    two kinks suffice, and a straight line takes two more units. Raises ValueError unless there are six points whose
    inputs increase. Source: this book.
    """
    x, y = points_on_a_line(inputs, targets)
    if len(x) != SIX:
        raise ValueError(f"inputs: {SIX} points are allowed, got {len(x)}")
    d2, d3, d4, d5 = bends(x, y)
    if d4 >= 0 >= d5:
        return _two_from_each_side(x, y)
    if d4 <= 0 <= d5:
        layer = _two_from_each_side(x, [-value for value in y])
        return HiddenLayer(layer.weights, layer.biases, [-c for c in layer.outputs])
    if d2 * d3 <= 0:
        layer = memorise_six([-value for value in reversed(x)], y[::-1])
        return HiddenLayer([-a for a in layer.weights], layer.biases, layer.outputs)
    return _kinks_and_a_line(x, y)


def alternating_layer(points: int) -> HiddenLayer:
    """N - 2 units with y(i) = +1, -1, +1 ... at i = 1 ... N, for N >= 6:

        (15x-28)+ - (18x-45)+ + (31-9x)+ - (26-5x)+ + 5(x-6)+ - 4(x-7)+ + 4(x-8)+ - ...

    with (z)+ = relu(z) and kinks of size 4 up to N - 1. Raises ValueError for fewer than six points.
    """
    count = whole_number(points, "points", SIX)
    further = range(SIX, count)  # kinks, one for each point after the sixth
    steps = [5 if kink == SIX else 4 * (-1) ** kink for kink in further]
    return HiddenLayer(
        [15, 18, -9, -5, *(1 for _ in further)],
        [-28, -45, 31, 26, *(-kink for kink in further)],
        [1, -1, 1, -1, *steps],
    )


def _two_from_each_side(x: Sequence[Fraction], y: Sequence[Fraction]) -> HiddenLayer:
    """Four units for six points with bends d_4 >= 0 >= d_5.

    Two units are active on the right: zero at x_1, p at x_2, the line R from x_3 on. Two are active on the left: the
    line L up to x_3, a line M at x_4 and x_5, zero at x_6. R(x_6) = y_6 and L(x_1) = y_1; the slope of R is free, and
    every condition holds if it is steep enough downwards.
    """
    x1, x2, x3, x4, x5, x6 = x
    y1, y2, y3, y4, y5, y6 = y
    s12, _, s34, s45, s56 = ((y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(SIX - 1))
    kink_2 = (x2 + x3) / 2
    # the slope of L is base + gain (slope of R), because both add up to y_3 at x_3
    base, gain = (y3 - y6 - y1) / (x3 - x1), (x6 - x3) / (x3 - x1)
    largest_sum = min(s34, (y3 - y2 - s12 * (kink_2 - x2)) / (x3 - kink_2))
    right = min(s56, (s12 - base) / gain, (largest_sum - base) / (1 + gain)) - 1
    left = base + gain * right
    p = y2 - y1 - left * (x2 - x1)
    rise = (y6 + right * (kink_2 - x6) - p) / (kink_2 - x2)  # of the first unit: from p at x_2 to R at the second kink
    kink_1 = x2 - p / rise
    fall = s45 - right  # slope of M: the line through points 4 and 5, less R
    kink_4 = x5 + (y6 + right * (x5 - x6) - y5) / fall
    turn = s45 - left - right  # slope of M less that of L
    kink_3 = x3 + (y3 - y4 + s45 * (x4 - x3)) / turn
    return HiddenLayer(
        [rise, 1, -turn, -1], [-rise * kink_1, -kink_2, turn * kink_3, kink_4], [1, right - rise, 1, -fall]
    )


def _kinks_and_a_line(x: Sequence[Fraction], y: Sequence[Fraction]) -> HiddenLayer:
    """One unit for every kink of the simplest interpolant, and relu(l) - relu(-l) = l for its first line."""
    f = simplest_interpolant(x, y)
    if not f.slopes[0]:
        line = ([Fraction(0)], [Fraction(1)], [f.intercept])
    else:
        line = ([f.slopes[0], -f.slopes[0]], [f.intercept, -f.intercept], [Fraction(1), Fraction(-1)])
    kinks = len(f.kinks)
    return HiddenLayer([*line[0], *[1] * kinks], [*line[1], *(-kink for kink in f.kinks)], [*line[2], *f.jumps])
