"""Lemmas A.3, A.4 and Prop. 4.5 in exact rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import sympy

from lib.theory.memorizing.exact import biases, determinant, exact_memorizer, rationals, rectified, states


def words(count: int, length: int, seed: int) -> np.ndarray:
    """Different words over the digits 0, 1, 2: many coincidences at every lag."""
    codes = np.random.default_rng(seed).choice(3**length, count, replace=False)
    return rationals(np.stack([codes // 3**k % 3 for k in range(length)], axis=1)[:, :, None])


@pytest.mark.parametrize("count", [3, 4, 5, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_construction_of_the_paper_has_no_error_in_fractions(count: int, seed: int) -> None:
    inputs = words(count, 3, seed)
    outputs = rationals(np.random.default_rng(seed).integers(-9, 10, (count, 2)))
    model = exact_memorizer(inputs, outputs, 3, seed)
    assert np.array_equal(model(inputs), outputs)
    assert not np.any(model.A @ model.A @ model.A) and np.any(model.A @ model.A)
    assert all(len(set(column.tolist())) == count for column in model.hidden.T)  # Lemma A.3
    older = rationals(np.random.default_rng(seed).integers(-9, 10, (count, 4, 1)))
    assert np.array_equal(model(np.concatenate([older, inputs], axis=1)), outputs)  # Prop. 4.6, without rounding


def test_states_are_the_sum_over_the_window() -> None:
    inputs = words(5, 3, 2)
    model = exact_memorizer(inputs, rationals(np.zeros((5, 1))), 3)
    A, B = model.A, model.B
    expected = [B @ x[2] + A @ B @ x[1] + A @ A @ B @ x[0] for x in inputs]
    assert np.array_equal(states(A, B, inputs), np.array(expected))


def test_the_determinant_is_the_product_of_the_survivors() -> None:
    hidden = rationals(np.random.default_rng(0).permutation(1000)[:36].reshape(6, 6))
    b, survivors = biases(hidden)
    features = rectified(hidden + b)
    product = Fraction(1)
    for neuron, row in enumerate(survivors):
        product *= features[row, neuron]
    assert abs(determinant(features)) == product > 0
    assert sympy.Matrix(
        6, 6, [sympy.Rational(f.numerator, f.denominator) for f in features.ravel()]
    ).det() == sympy.Rational(determinant(features).numerator, determinant(features).denominator)


def test_only_one_order_of_sequences_survives_the_laplace_expansion() -> None:
    hidden = rationals(np.random.default_rng(1).permutation(100)[:16].reshape(4, 4))
    b, survivors = biases(hidden)
    features = rectified(hidden + b)
    alive = [p for p in permutations(range(4)) if all(features[row, neuron] > 0 for neuron, row in enumerate(p))]
    assert alive == [survivors]


def test_equal_coordinates_defeat_lemma_a4() -> None:
    hidden = rationals([[1, 2], [1, 5]])  # the two sequences agree in the first neuron
    features = rectified(hidden + biases(hidden)[0])
    assert determinant(features) == 0


def test_every_nilpotent_matrix_of_two_neurons_forgets_the_third_input() -> None:
    p, q, u, v = sympy.symbols("p q u v")
    general = sympy.Matrix([[p, q], [-(p**2) / q, -p]])
    assert sympy.simplify(general**2) == sympy.zeros(2)
    for matrix in (general, sympy.Matrix([[0, 0], [p, 0]])):
        assert sympy.simplify(matrix**2 * sympy.Matrix([u, v])) == sympy.zeros(2, 1)


@pytest.mark.parametrize(
    ("inputs", "outputs", "order", "text"),
    [
        (np.zeros((2, 3)), np.zeros((2, 1)), 2, "inputs"),
        (np.arange(6).reshape(2, 3, 1), np.zeros((3, 1)), 2, "inputs"),
        (np.arange(6).reshape(2, 3, 1), np.zeros((2, 1)), 3, "hidden size N = 2"),
        (np.ones((3, 2, 1)), np.zeros((3, 1)), 2, "two are equal"),
        (np.arange(6).reshape(2, 3, 1), np.zeros((2, 1)), 0, "order"),
        ([[[np.inf]], [[1.0]]], [[1], [2]], 1, "finite"),
        ([[[np.nan]], [[1.0]]], [[1], [2]], 1, "finite"),
        ([[[None]], [[1.0]]], [[1], [2]], 1, "numbers"),
        ([[[1j]], [[1.0]]], [[1], [2]], 1, "numbers"),
        ([[[0]], [[1]]], [[1], ["a"]], 1, "numbers"),
    ],
)
def test_what_cannot_work_in_fractions_is_refused(inputs, outputs, order: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        exact_memorizer(inputs, outputs, order)


@pytest.mark.parametrize("inputs", [[1, 2], [[1, 2]], [[[1, 2]]], np.zeros((2, 0, 1)), [[[np.inf]]]])
def test_sequences_of_another_shape_are_refused(inputs) -> None:
    model = exact_memorizer(words(3, 3, 0), np.zeros((3, 1)), 3)
    with pytest.raises(ValueError, match="allowed"):
        model(inputs)
