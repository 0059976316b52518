"""Lemmas A.2-A.4 and Prop. 4.5 in exact rationals, step by step, for a few sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sympy import ZZ
from sympy.polys.matrices import DomainMatrix

from lib.checks import generator, whole_number
from lib.theory.memorizing.transition import generic_transition

Rationals = NDArray[Any]  # arrays of Fraction
_DRAWS = 20


@dataclass(frozen=True, eq=False)
class ExactMemorizer:
    """A (h, h), B (h, m), b (h,), C (p, h), hidden and features (N, h) of the sequences, all Fractions.

    survivors[k] is the sequence that neuron k leaves standing when those of neurons 0 ... k - 1 are taken away.
    """

    A: Rationals
    B: Rationals
    b: Rationals
    C: Rationals
    hidden: Rationals
    features: Rationals
    survivors: tuple[int, ...]

    def __call__(self, inputs: Any) -> Rationals:
        """C relu(h_T + b), (sequences, p), for rational inputs (sequences, T >= 1, m). ValueError for others."""
        x = rationals(inputs)
        if x.ndim != 3 or x.shape[1] < 1 or x.shape[2] != self.B.shape[1]:
            raise ValueError(f"inputs: shape (sequences, T >= 1, {self.B.shape[1]}) is allowed, got {x.shape}")
        return np.asarray(rectified(states(self.A, self.B, x) + self.b) @ self.C.T)


def exact_memorizer(inputs: Any, outputs: Any, order: int, seed: int | np.random.Generator = 0) -> ExactMemorizer:
    """The construction of the paper without rounding: inputs (N, n, m), outputs (N, p), numbers or Fractions.

    Generic dyadic A and B with A^order = 0 (Lemma A.3), biases between the two largest remaining values, neuron by
    neuron (Lemma A.4), C by back substitution. Raises ValueError for N < order, other shapes, or sequences that no draw
    of A and B tells apart in every coordinate, as equal ones. Cost O(N^3) operations on Fractions.
    """
    x, y = rationals(inputs), rationals(outputs)
    if x.ndim != 3 or y.ndim != 2 or len(x) != len(y) or 0 in x.shape:
        raise ValueError(f"inputs (N, n, m) and outputs (N, p) are allowed, got {x.shape} and {y.shape}")
    count = len(x)
    if whole_number(order, "order", 1) > count:
        raise ValueError(f"order: at most the hidden size N = {count} is allowed, got {order}")
    random = generator(seed)
    for _ in range(_DRAWS):
        drawn = generic_transition(count, order, x.shape[2], random)
        A, B = rationals(drawn.left @ drawn.right), rationals(drawn.B)
        hidden = states(A, B, x)
        if distinct_coordinates(hidden):
            break
    else:
        raise ValueError(f"inputs: sequences that differ in their last {order} inputs are allowed, two are equal")
    b, survivors = biases(hidden)
    features = rectified(hidden + b)
    return ExactMemorizer(A, B, b, _output_weights(features, y, survivors).T, hidden, features, survivors)


def states(A: Rationals, B: Rationals, inputs: Rationals) -> Rationals:
    """h_T (sequences, h) by the recurrence h_t = A h_{t-1} + B x_t from 0, in the arithmetic of the arrays."""
    h = inputs[:, 0] @ B.T
    for t in range(1, inputs.shape[1]):
        h = h @ A.T + inputs[:, t] @ B.T
    return np.asarray(h)


def rectified(values: Rationals) -> Rationals:
    """relu of each entry."""
    return rationals([max(value, Fraction(0)) for value in values.ravel()]).reshape(values.shape)


def distinct_coordinates(hidden: Rationals) -> bool:
    """Whether no two sequences (rows) agree in any neuron (column): the conclusion of Lemma A.3."""
    return all(len(set(column.tolist())) == len(hidden) for column in hidden.T)


def biases(hidden: Rationals) -> tuple[Rationals, tuple[int, ...]]:
    """b (N,) as in the proof of Lemma A.4: half way between the two largest values that remain, neuron by neuron.

    hidden (N, N), distinct in each column. Returns b and the sequence that each neuron leaves standing.
    """
    left, b, survivors = list(range(len(hidden))), [], []
    for neuron in range(len(hidden)):
        ordered = sorted(left, key=lambda row: hidden[row, neuron])
        top = hidden[ordered[-1], neuron]
        second = hidden[ordered[-2], neuron] if len(ordered) > 1 else top - 2
        b.append(-(top + second) / 2)
        survivors.append(ordered[-1])
        left.remove(ordered[-1])
    return np.array(b, dtype=object), tuple(survivors)


def determinant(matrix: Rationals) -> Fraction:
    """Determinant (h, h), exact: that of the whole numbers over their common denominator. Cost O(h^3)."""
    common = math.lcm(*(entry.denominator for entry in matrix.ravel()))
    whole = [[ZZ(int(entry * common)) for entry in row] for row in matrix]
    return Fraction(int(DomainMatrix(whole, matrix.shape, ZZ).det()), common ** len(matrix))


def rationals(values: Any) -> Rationals:
    """An array of Fractions, each exactly the number given (floats are dyadic rationals).

    Raises ValueError for what is no array of finite numbers, or of complex ones.
    """
    array = np.asarray(values)
    try:
        flat = [value if isinstance(value, Fraction) else Fraction(value) for value in array.ravel().tolist()]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"numbers: finite integers, fractions or floats are allowed: {error}") from error
    result = np.empty(array.size, dtype=object)
    result[:] = flat
    return result.reshape(array.shape)


def _output_weights(features: Rationals, outputs: Rationals, survivors: tuple[int, ...]) -> Rationals:
    """C^T: neuron k is silent for the survivors of later neurons, so the last neuron's weight comes first."""
    weights = np.full((len(features), outputs.shape[1]), Fraction(0), dtype=object)
    for neuron in range(len(features))[::-1]:
        row = survivors[neuron]
        rest = features[row, neuron + 1 :] @ weights[neuron + 1 :] if neuron + 1 < len(features) else 0
        weights[neuron] = (outputs[row] - rest) / features[row, neuron]
    return weights
