"""Gaussian sources: closed forms symbolically, the recursion against determinants, logarithm against power law."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lib.processes import AutoregressiveGaussian, EquicorrelatedGaussian, PowerLawGaussian
from lib.processes.gaussian.sequences import StationaryGaussian, partial_autocorrelations

SOURCES = [
    AutoregressiveGaussian(0.8),
    AutoregressiveGaussian(-0.5),
    PowerLawGaussian(0.4),
    PowerLawGaussian(1.5),
    EquicorrelatedGaussian(0.3),
]


def by_determinants(covariance: np.ndarray, split: int) -> float:
    def log_determinant(matrix: np.ndarray) -> float:
        return float(np.linalg.slogdet(matrix)[1])

    return 0.5 * (
        log_determinant(covariance[:split, :split])
        + log_determinant(covariance[split:, split:])
        - log_determinant(covariance)
    )


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_bipartite_information_is_that_of_three_determinants(source: StationaryGaussian) -> None:
    for length, split in ((2, 1), (3, 1), (7, 3), (16, 15), (64, 32), (200, 60)):
        expected = by_determinants(source.covariance(length), split)
        assert source.bipartite_mutual_information(length, split) == pytest.approx(expected, abs=1e-12)
        assert StationaryGaussian.bipartite_mutual_information(source, length, split) == pytest.approx(
            expected, abs=1e-12
        )


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_bipartite_information_agrees_with_the_estimator_of_covariances(source: StationaryGaussian) -> None:
    information = pytest.importorskip("lib.information.gaussian", reason="built beside this module")
    for length in (2, 10, 64):
        expected = information.bipartite_mutual_information(source.covariance(length))
        assert source.bipartite_mutual_information(length) == pytest.approx(expected, rel=1e-10)


@given(st.integers(2, 300), st.data())
def test_splits_are_symmetric_and_longer_blocks_share_more(length: int, data: st.DataObject) -> None:
    split = data.draw(st.integers(1, length - 1))
    for source in SOURCES:
        value = source.bipartite_mutual_information(length, split)
        assert value == pytest.approx(source.bipartite_mutual_information(length, length - split), rel=1e-12)
        assert value <= source.bipartite_mutual_information(length + 1, split) + 1e-12
        assert value >= source.mutual_information(1) - 1e-12


def test_autoregressive_closed_forms_symbolically() -> None:
    rho = sympy.symbols("rho", positive=True)
    for length in range(2, 6):
        covariance = sympy.Matrix(length, length, lambda i, j: rho ** abs(i - j))
        for split in range(1, length):
            ratio = covariance[:split, :split].det() * covariance[split:, split:].det() / covariance.det()
            assert sympy.simplify(ratio - 1 / (1 - rho**2)) == 0


def test_equicorrelated_closed_form_symbolically() -> None:
    s = sympy.symbols("s", positive=True)
    left, right = sympy.symbols("l r", integer=True, positive=True)

    def determinant(size: sympy.Expr) -> sympy.Expr:
        return (1 - s) ** (size - 1) * (1 + (size - 1) * s)

    for size in range(1, 6):
        covariance = sympy.Matrix(size, size, lambda i, j: sympy.S.One if i == j else s)
        assert sympy.expand(covariance.det() - determinant(sympy.Integer(size))) == 0
    ratio = sympy.powsimp(determinant(left) * determinant(right) / determinant(left + right))
    closed = 1 + left * right * s**2 / ((1 - s) * (1 - s + (left + right) * s))
    assert sympy.simplify(ratio - closed) == 0


def test_autoregressive_information_is_one_value_and_two_point_decays() -> None:
    source = AutoregressiveGaussian(0.9)
    value = -0.5 * np.log(1 - 0.81)
    np.testing.assert_allclose(source.bipartite_mutual_information([2, 3, 1000], [1, 2, 10]), value)
    with mpmath.workdps(200):
        expected = [float(-mpmath.log(1 - mpmath.mpf(0.9) ** (2 * lag)) / 2) for lag in (1, 50, 1000)]
    np.testing.assert_allclose(source.mutual_information([1, 50, 1000]), expected, rtol=1e-12)
    assert np.isinf(source.mutual_information(0))


def test_equicorrelated_two_point_is_constant_while_bipartite_grows_by_half_a_logarithm() -> None:
    source = EquicorrelatedGaussian(0.4)
    np.testing.assert_allclose(source.mutual_information([1, 10, 10**6]), -0.5 * np.log(1 - 0.16))
    far = source.bipartite_mutual_information([2**40, 2**41])
    assert (far[1] - far[0]) / np.log(2) == pytest.approx(0.5, rel=1e-6)
    assert EquicorrelatedGaussian(0.0).bipartite_mutual_information(100) == 0.0


def test_partial_autocorrelations_are_those_of_the_inverse_covariance() -> None:
    row = np.asarray(PowerLawGaussian(0.4).correlation(np.arange(12)))
    partial = partial_autocorrelations(row)
    for lag in range(1, 12):
        precision = np.linalg.inv(PowerLawGaussian(0.4).covariance(lag + 1))
        expected = -precision[0, -1] / np.sqrt(precision[0, 0] * precision[-1, -1])
        assert partial[lag - 1] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(partial_autocorrelations(0.7 ** np.arange(6)), [0.7, 0, 0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("exponent", [0.2, 0.4, 0.7])
def test_bipartite_information_of_a_power_law_grows_by_a_logarithm(exponent: float) -> None:
    source = PowerLawGaussian(exponent)
    lengths = 2 ** np.arange(4, 13)
    curve = source.bipartite_mutual_information(lengths)
    steps = np.diff(curve) / np.log(2)
    slope = 0.5 * ((1 - exponent) / 2) ** 2
    assert steps[-1] == pytest.approx(slope, rel=0.2)  # corrections fall like L^(a - 1)
    assert abs(steps[-1] / slope - 1) < abs(steps[-4] / slope - 1)
    # A power law would multiply by the same factor at every doubling; this factor falls.
    factors = curve[1:] / curve[:-1]
    assert np.all(np.diff(factors[2:]) < 0)
    far = source.mutual_information([10**11, 10**12])
    assert -np.log(far[1] / far[0]) / np.log(10) == pytest.approx(2 * exponent, rel=1e-4)


@pytest.mark.parametrize("exponent", [1e-300, 1e-16, 1e-10, 1e-3, 0.5, 3.0, 200.0])
def test_two_point_information_of_a_power_law_has_all_digits_at_every_exponent(exponent: float) -> None:
    lags = [1, 2, 10, 10**9]
    with mpmath.workdps(700):
        a = mpmath.mpf(exponent)
        exact = [float(-mpmath.log(1 - mpmath.mpf(1 + lag) ** (-2 * a)) / 2) for lag in lags]
    np.testing.assert_allclose(PowerLawGaussian(exponent).mutual_information(lags), exact, rtol=1e-12, atol=1e-300)
    assert PowerLawGaussian(exponent).mutual_information(0) == np.inf


def test_faster_decay_leaves_a_constant() -> None:
    curve = PowerLawGaussian(1.5).bipartite_mutual_information(2 ** np.arange(6, 13))
    steps = np.diff(curve)
    assert np.all(steps[1:] < 0.75 * steps[:-1])


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_samples_have_the_covariance(source: StationaryGaussian) -> None:
    n = 40_000
    sample = source.sample(n, 5, 6)
    assert sample.shape == (n, 5)
    empirical = sample.T @ sample / n
    assert np.abs(empirical - source.covariance(5)).max() < 5 * np.sqrt(2 / n)
    np.testing.assert_array_equal(source.sample(3, 4, 2), source.sample(3, 4, np.random.default_rng(2)))


def test_no_lengths_give_no_values() -> None:
    assert PowerLawGaussian(0.4).bipartite_mutual_information(np.array([], dtype=int)).shape == (0,)


def test_same_two_point_curve_other_bipartite_and_the_reverse() -> None:
    rho = np.sqrt(3) / 2  # -ln(1 - rho^2) / 2 = ln 2
    shared, chain = EquicorrelatedGaussian(rho), AutoregressiveGaussian(rho)
    np.testing.assert_allclose(shared.mutual_information([1, 5, 100]), np.log(2))
    assert shared.bipartite_mutual_information(256) > 3 * np.log(2)
    np.testing.assert_allclose(chain.bipartite_mutual_information([2, 256]), np.log(2))
    assert chain.mutual_information(20) < 0.01


def test_bad_input_is_refused() -> None:
    source = PowerLawGaussian(0.4)
    for call in (
        lambda: AutoregressiveGaussian(1.0),
        lambda: AutoregressiveGaussian(np.nan),
        lambda: PowerLawGaussian(0.0),
        lambda: EquicorrelatedGaussian(1.0),
        lambda: EquicorrelatedGaussian(-0.1),
        lambda: source.mutual_information(-1),
        lambda: source.mutual_information([1.5]),
        lambda: source.bipartite_mutual_information(1),
        lambda: source.bipartite_mutual_information(8, 8),
        lambda: source.sample(0, 3, 1),
        lambda: source.sample(3, 3, "seed"),
        lambda: source.covariance(0),
        lambda: partial_autocorrelations([0.5, 0.2]),
        lambda: partial_autocorrelations([1.0, 0.9, -0.9]),
    ):
        with pytest.raises(ValueError, match=r"allowed|positive definite"):
            call()


@pytest.mark.parametrize("correlation", [0.5, 0.5 + 2**-52, 0.9, 1 - 1e-9, 1 - 2**-52, -0.999999999, 1e-150])
def test_information_of_a_pair_keeps_its_digits_up_to_certainty(correlation: float) -> None:
    with mpmath.workdps(60):
        c = mpmath.mpf(correlation)
        expected = float(-mpmath.log(1 - c * c) / 2)
    source = AutoregressiveGaussian(correlation)
    assert source.mutual_information(1) == pytest.approx(expected, rel=1e-15)
    assert StationaryGaussian.bipartite_mutual_information(source, 2) == pytest.approx(expected, rel=1e-15)
