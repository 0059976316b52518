"""Two hidden layers memorise any pairs, exactly, with the number of neurons that is promised."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.more_than_ngrams.two_layers import memorise, memorise_sequences
from lib.theory.memorizing.exact import rationals
from lib.theory.windows.rational_matrices import nilpotency_index

FRACTIONS = st.fractions(-9, 9, max_denominator=12)


def exact(values: list[Fraction]) -> np.ndarray:
    return rationals(np.array(values, dtype=object))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(FRACTIONS, FRACTIONS, min_size=1, max_size=30))
def test_any_numbers_are_memorised_in_fractions(pairs: dict[Fraction, Fraction]) -> None:
    z, y = exact(list(pairs)), exact(list(pairs.values()))
    model = memorise(z, y)
    assert (model(z) == y).all()
    assert model.neurons <= 4 * (math.isqrt(len(z) - 1) + 1)


@settings(deadline=None, max_examples=30)
@given(st.data(), st.integers(1, 4), st.integers(1, 2))
def test_sequences_are_memorised_within_a_window(data: st.DataObject, n: int, m: int) -> None:
    digits = st.lists(st.integers(0, 4), min_size=n * m, max_size=n * m).map(tuple)
    words = data.draw(st.lists(digits, min_size=1, max_size=20, unique=True))
    x = rationals(np.array(words).reshape(len(words), n, m))
    y = rationals(np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(words), max_size=len(words)))))
    model = memorise_sequences(x, y, 5 ** np.arange(n * m).reshape(n, m))  # the number of the digits: no two alike
    assert (model(x) == y).all()
    assert model.neurons <= 4 * (math.isqrt(len(words) - 1) + 1) + n - 1
    assert (nilpotency_index(model.A) or math.inf) <= n
    older = np.concatenate([rationals(np.full((len(words), 3, m), 7)), x], axis=1)
    assert (model(older) == y).all()  # what came before the window does not matter


def test_between_the_points_of_a_block_the_output_is_straight() -> None:
    z, y = exact([Fraction(i * i) for i in range(9)]), exact([Fraction(v) for v in (3, -1, 4, 1, -5, 9, 2, -6, 5)])
    middle = (z[1:] + z[:-1]) / 2
    inside = np.arange(8) % 3 != 2  # blocks of three
    assert (memorise(z, y)(middle)[inside] == ((y[1:] + y[:-1]) / 2)[inside]).all()


def test_without_any_neuron_that_is_used_a_point_is_missed() -> None:
    z = exact([Fraction(i) for i in range(16)])
    y = exact([Fraction((-1) ** i) for i in range(16)])
    model = memorise(z, y)
    for neuron in np.flatnonzero((model.W != 0).any(axis=1)):
        fewer = type(model)(model.b, np.where(np.arange(len(model.W))[:, None] == neuron, Fraction(0), model.W))
        assert (fewer(z) != y).any()


def test_floats_are_memorised_up_to_rounding() -> None:
    random = np.random.default_rng(0)
    z, y = random.permutation(900) / 900, random.standard_normal(900)
    model = memorise(z, y)
    np.testing.assert_allclose(model(z), y, atol=1e-9)
    assert model.neurons == 120


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6, 1e15, 1e100])
def test_floats_of_any_size_are_memorised_alike(scale: float) -> None:
    random = np.random.default_rng(1)
    z, y = scale * (1 + random.permutation(25) / 25), random.standard_normal(25)
    np.testing.assert_allclose(memorise(z, y)(z), y, rtol=0, atol=1e-12)
    for one in (0.0, scale, -scale):  # a single number, which has no gap
        assert memorise(np.array([one]), np.array([3.0]))(np.array([one])) == pytest.approx(3.0, abs=1e-12)
    np.testing.assert_allclose(memorise(np.array([1e16, 3e16]), np.ones(2))(np.array([1e16, 3e16])), 1.0)


def test_whole_numbers_are_memorised_as_they_are() -> None:
    z, y = np.array([0, 1, 2, 3]), np.array([1.0, -1.0, 0.5, 2.0])
    np.testing.assert_allclose(memorise(z, y)(z), y, atol=1e-12)
    np.testing.assert_allclose(memorise(z, np.array([1, -1, 3, 2]))(z), [1, -1, 3, 2], atol=1e-12)
    found = memorise(z.astype(object), y.astype(object))  # objects: in fractions
    assert found(exact(list(map(Fraction, range(4))))).tolist() == [1, -1, Fraction(1, 2), 2]


@pytest.mark.parametrize(
    ("z", "y"),
    [
        ([0.0, 1.0, 2.0], [1.0, 2.0]),
        ([0.0, 1.0], [1.0, 2.0, 3.0]),
        ([0.0, np.nan], [1.0, 2.0]),
        ([0.0, 1.0], [1.0, np.inf]),
        ([[0.0, 1.0]], [[1.0, 2.0]]),
        (0.0, 1.0),
        ([0.0, 1.0j], [1.0, 2.0]),
        ([0.0, None], [1.0, 2.0]),
    ],
)
def test_what_are_no_pairs_of_numbers_is_refused(z: object, y: object) -> None:
    with pytest.raises(ValueError, match="allowed"):
        memorise(np.array(z), np.array(y))


@pytest.mark.parametrize("z", [[], [1.0, 2.0, 1.0]])
def test_numbers_that_are_alike_are_refused(z: list[float]) -> None:
    with pytest.raises(ValueError, match=r"z: one or more numbers, no two of them alike, are allowed, got \["):
        memorise(np.array(z), np.zeros(len(z)))


def test_sequences_that_the_direction_does_not_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="no two of them alike"):
        memorise_sequences([[[1], [0]], [[0], [1]]], [1, 2], [[1], [1]])
    for direction in ([[1]], [[7, 1]], [1, 1]):
        with pytest.raises(ValueError, match=r"direction \(n, m\) are allowed"):
            memorise_sequences([[[1], [0]], [[0], [1]]], [1, 2], direction)
