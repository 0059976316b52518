"""Orthant probabilities against closed forms, symmetries and samples."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from experiments.binary_sequences.law.orthant import orthant_probability, sign_block_law
from lib.processes import PowerLawBinary, sign_mutual_information


@pytest.mark.parametrize("n", range(1, 7))
def test_equicorrelated_gaussians_at_one_half_have_probability_one_over_n_plus_one(n):
    # Z_i = (X_i - X_0) / sqrt 2: all positive when X_0 is the smallest of n + 1 equal variables
    matrix = np.full((n, n), 0.5) + 0.5 * np.eye(n)
    assert orthant_probability(matrix) == pytest.approx(1 / (n + 1), rel=1e-13)


@pytest.mark.parametrize(("rho", "error"), [(0.0, 1e-14), (0.9, 1e-13), (0.99, 1e-13), (0.999, 1e-11), (0.9999, 1e-6)])
@pytest.mark.parametrize("n", [4, 5])
def test_equicorrelated_gaussians_of_any_strength(n, rho, error):
    # Z_i = sqrt(rho) X + sqrt(1 - rho) Y_i: all positive with probability E[Phi(X sqrt(rho / (1 - rho)))^n]
    steep = math.sqrt(rho / (1 - rho))
    points = np.arange(-120_000, 120_001) / 1e4
    weights = np.exp(-0.5 * points**2) / math.sqrt(2 * math.pi) / 1e4
    expected = np.sum(weights * ndtr(steep * points) ** n)
    matrix = np.full((n, n), rho) + (1 - rho) * np.eye(n)
    assert orthant_probability(matrix) == pytest.approx(expected, abs=error)


@given(st.lists(st.floats(-0.95, 0.95), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_independent_groups_multiply(correlations):
    blocks = [np.array([[1.0, r], [r, 1.0]]) for r in correlations]
    size = 2 * len(blocks)
    matrix = np.eye(size)
    for place, block in enumerate(blocks):
        matrix[2 * place : 2 * place + 2, 2 * place : 2 * place + 2] = block
    expected = math.prod(0.25 + math.asin(r) / (2 * math.pi) for r in correlations)
    assert orthant_probability(matrix) == pytest.approx(expected, abs=1e-13)


def test_strong_correlation_and_order_do_not_matter():
    process = PowerLawBinary(16, 0.1, 0.4)
    place = np.arange(5)
    matrix = process.correlation(np.abs(place[:, None] - place))
    values = [orthant_probability(matrix[np.ix_(order, order)]) for order in itertools.permutations(range(5), 5)][::17]
    assert np.ptp(values) < 1e-14


def test_orthants_of_all_signs_sum_to_one_and_shorter_blocks_are_marginals():
    process = PowerLawBinary(16, 0.1, 0.4)
    laws = {n: sign_block_law(process.correlation(np.arange(1, n))) for n in range(2, 6)}
    for n, law in laws.items():
        assert law.sum() == pytest.approx(1.0, abs=1e-13)
        assert np.all(law > 0)
        if n > 2:
            assert np.allclose(law.sum(axis=-1), laws[n - 1], atol=1e-14)
            assert np.allclose(law.sum(axis=0), laws[n - 1], atol=1e-14)


def test_ends_of_the_block_carry_the_information_of_eq_46():
    process = PowerLawBinary(16, 0.1, 0.4)
    law = sign_block_law(process.correlation(np.arange(1, 5)))
    ends = law.sum(axis=(1, 2, 3))
    information = np.sum(ends * np.log(ends / (ends.sum(0) * ends.sum(1, keepdims=True))))
    assert information == pytest.approx(sign_mutual_information(process.correlation(4)), abs=1e-13)


def test_the_law_of_blocks_agrees_with_samples():
    process = PowerLawBinary(5, 0.1, 0.4)
    law = sign_block_law(process.correlation(np.arange(1, 5))).ravel()
    n = 200_000
    counts = np.bincount(process.sample(n, 0) @ np.array([16, 8, 4, 2, 1]), minlength=32)
    chi_square = np.sum((counts - n * law) ** 2 / (n * law))
    assert chi_square < 66.6  # 31 degrees of freedom, exceeded once in 5000


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "a matrix"),
        (np.eye(8), "1 <= n <= 7"),
        (np.array([[1.0, 0.2], [0.3, 1.0]]), "symmetric"),
        (np.array([[2.0, 0.2], [0.2, 1.0]]), "ones"),
        (np.ones((2, 2)), "positive definite"),
    ],
)
def test_what_is_no_correlation_matrix_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        orthant_probability(matrix)
