"""State space models that see only one number of their input, so that a hidden layer on a line runs as an SSM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number
from lib.theory.smallest.piecewise_linear import HiddenLayer, Number, rationals
from lib.theory.smallest.two_units_saved import SIX, memorise_on_a_line, memorise_six

Rationals = NDArray[np.object_]  # of Fractions


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
        state = np.full((len(read), len(self.b)), Fraction(0), dtype=object)
        for step in range(read.shape[1]):
            state = state @ self.A.T + read[:, step] @ self.B.T
        active = np.maximum(state + self.b, np.full(state.shape, Fraction(0), dtype=object))
        return np.asarray(active @ self.C.T)


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
    result = np.empty(given.size, dtype=object)
    result[:] = rationals(flat, "sequences")
    return result.reshape(given.shape)
