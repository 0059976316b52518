"""What the errata page says in words, beside the printed statements that it opposes."""

from __future__ import annotations

import numpy as np
import pytest

from lib.information import mutual_information
from lib.processes import HierarchicalGaussian, LinearRNN
from lib.theory import linear_rnn, uniform_attention_gradient
from lib.theory.memorizing import exact


@pytest.mark.parametrize("family", ["subvolume", "critical"])
def test_the_middle_of_a_hierarchical_gaussian_is_cheaper_than_its_neighbours_and_not_the_cheapest(family: str) -> None:
    nats = HierarchicalGaussian(4, family).bipartite_mutual_information(np.arange(1, 256))
    assert nats[127] < min(nats[126], nats[128])
    assert nats[63] < nats[127] and nats[191] < nats[127]  # a quarter and three quarters, far from the ends


@pytest.mark.parametrize(("symbols", "above"), [(2, True), (4, True), (5, False), (9, False)])
def test_the_bias_of_grassbergers_second_form_changes_sign_with_the_symbols_that_are_missed(
    symbols: int, above: bool
) -> None:
    pairs = [(i, j) for i in range(symbols) for j in range(symbols)]  # two samples of X = Y, all equally likely
    tables = [np.diag(np.bincount(pair, minlength=symbols)) for pair in pairs]
    mean = np.mean([mutual_information(table, estimator="grassberger2008") for table in tables])
    assert (mean > np.log(symbols)) is np.bool_(above)


@pytest.mark.parametrize(("start", "noise"), [(1.0, 1.0), (3.0, 1.0), (1.0, 4.0), (0.5, 0.25)])
def test_information_of_a_random_walk_depends_on_the_variance_of_its_start_and_on_no_unit(
    start: float, noise: float
) -> None:
    lag = 10**6
    walk, larger = (
        LinearRNN([[0.5]], [[0.5]], [[1.0]], unit * noise, np.diag([0.0, unit * start])) for unit in (1.0, 100.0)
    )
    nats = float(walk.mutual_information(lag))
    assert nats == pytest.approx(start / (2 * noise * lag), rel=1e-3)
    assert float(larger.mutual_information(lag)) == pytest.approx(nats, rel=1e-9)


def test_reciprocal_eigenvalues_of_the_hidden_weights_are_poles_where_the_transition_matrix_has_them_too() -> None:
    hidden, near = 0.5, 2 * (1 - 1e-7)
    one = np.ones((1, 1))
    alone, fed_back = (
        linear_rnn.generating_function(weight * one, hidden * one, one, 0.3 * one, one, near)[0, 0]
        for weight in (0.0, 0.25)
    )
    assert abs(alone) > 1e5 and abs(fed_back) < 10


def test_two_neurons_that_are_not_nilpotent_part_sequences_that_differ_in_the_oldest_input_only() -> None:
    oldest = [[[0], [1], [2]], [[5], [1], [2]]]
    for matrix, parted in (([[6, 4], [-9, -6]], False), ([[1, 0], [0, -1]], True)):
        first, second = exact.states(*map(exact.rationals, (matrix, [[1], [3]], oldest)))
        assert all((x != y) is parted for x, y in zip(first, second, strict=True))
    features = np.maximum(np.array([[3, 3], [8, 18]]) + np.array([-3, 1]), 0)  # biases as in Lemma A.4
    assert np.linalg.matrix_rank(features) == 2


@pytest.mark.parametrize(("eigenvalue", "exponent"), [(0, -1), (0.5 + 0.5j, -1), (0.5j, -1.2), (-0.5, -4 / 3)])
def test_gradients_fall_as_one_over_the_time_on_the_circle_and_faster_outside(
    eigenvalue: complex, exponent: float
) -> None:
    near, far = np.abs(uniform_attention_gradient(eigenvalue, 1, [10**4, 10**6]))
    assert np.log(far / near) / np.log((1 + 10**6) / (1 + 10**4)) == pytest.approx(exponent, abs=1e-3)
