"""Circulant embedding and the limits of positive definiteness, checked as linear algebra."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lib.processes.binary import power_law as limits
from lib.processes.binary.stationary import embedding_spectrum, prediction_error, signs_by_embedding, signs_by_factor

Array = NDArray[np.float64]


def power_law(amplitude: float, exponent: float) -> Callable[[Array], Array]:
    return lambda lags: limits.asymptotic_correlation(lags, amplitude, exponent)


def covariance_of(spectrum: Array, length: int) -> Array:
    """Covariances at lags 0 .. length - 1 of the vectors the sampler transforms, by the definition of the sum."""
    frequency = 2.0 * np.pi * np.arange(spectrum.size) / spectrum.size
    return np.array([spectrum @ np.cos(frequency * lag) for lag in range(length)]) / spectrum.size


@pytest.mark.parametrize("length", [1, 2, 3, 7, 50, 333])
@pytest.mark.parametrize("amplitude", [0.0, 0.1, 0.17])
def test_embedding_carries_the_covariance_at_every_lag(length: int, amplitude: float) -> None:
    law = power_law(amplitude, 0.4)
    spectrum = embedding_spectrum(law, length)
    assert spectrum is not None
    assert spectrum.min() >= 0.0
    expected = np.concatenate([[1.0], law(np.arange(1.0, float(length)))])
    np.testing.assert_allclose(covariance_of(spectrum, length), expected, atol=1e-12)


def test_kinked_embedding_at_the_limit_is_indefinite_and_the_levelled_one_is_not() -> None:
    length, exponent = 500, 0.4
    limit = limits.infinite_length_limit(lambda lags, a: limits.asymptotic_correlation(lags, a, exponent), 0.2)
    law = power_law(limit, exponent)
    row = np.concatenate([[1.0], law(np.arange(1.0, float(length)))])
    kinked = np.fft.fft(np.concatenate([row, row[-2:0:-1]])).real
    assert kinked.min() < -1e-6
    spectrum = embedding_spectrum(law, length)
    assert spectrum is not None
    np.testing.assert_allclose(covariance_of(spectrum, length), row, atol=1e-11)


def test_no_embedding_is_made_of_an_indefinite_law() -> None:
    assert embedding_spectrum(power_law(0.19, 0.4), 100) is None


def test_rows_have_the_latent_law() -> None:
    # P(signs agree) = 1/2 + arcsin(c) / pi for every pair of places of a short sequence.
    length, n = 6, 40_000
    law = power_law(0.15, 0.8)
    spectrum = embedding_spectrum(law, length)
    assert spectrum is not None
    row = np.concatenate([[1.0], law(np.arange(1.0, float(length)))])
    for sample in (signs_by_embedding(spectrum, length, n, 5), signs_by_factor(row, n, 5)):
        signs = 2.0 * sample - 1.0
        expected = scipy.linalg.toeplitz(2.0 / np.pi * np.arcsin(row))
        assert np.abs(signs.T @ signs / n - expected).max() < 5.0 / np.sqrt(n)
        assert np.abs(signs.mean(axis=0)).max() < 5.0 / np.sqrt(n)


def test_neighbouring_rows_are_independent() -> None:
    # Real and imaginary parts of one transform, and transforms of one block, must not know of each other.
    n, length = 40_000, 4
    spectrum = embedding_spectrum(power_law(0.15, 0.2), length)
    assert spectrum is not None
    signs = 2.0 * signs_by_embedding(spectrum, length, n, 8) - 1.0
    for shift in (1, 2, 3):
        assert np.abs(signs[:-shift].T @ signs[shift:] / n).max() < 5.0 / np.sqrt(n)


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=6))
def test_prediction_error_is_positive_exactly_for_positive_definite_matrices(tail: list[float]) -> None:
    row = np.array([1.0, *tail])
    eigenvalue = scipy.linalg.eigvalsh(scipy.linalg.toeplitz(row))[0]
    error = prediction_error(row)
    if eigenvalue > 1e-9:
        minors = [np.linalg.det(scipy.linalg.toeplitz(row[:k])) for k in range(1, row.size + 1)]
        assert error == pytest.approx(minors[-1] / minors[-2], rel=1e-4)
    elif eigenvalue < -1e-9:
        assert error <= 0.0


@pytest.mark.parametrize("exponent", [0.02, 0.1, 0.4, 1.0, 2.0, 5.0])
def test_limit_of_equation_47_is_the_one_of_the_eta_function(exponent: float) -> None:
    found = limits.infinite_length_limit(
        lambda lags, amplitude: limits.asymptotic_correlation(lags, amplitude, exponent), limits.ceiling_of(False)
    )
    eta = mpmath.altzeta(mpmath.mpf(exponent) / 2)
    assert found == pytest.approx(float(1 / (2 * mpmath.pi**2 * eta**2)), rel=1e-13)


@pytest.mark.parametrize("exponent", [0.05, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("exact", [False, True])
def test_spectral_density_is_smallest_at_frequency_pi(exponent: float, exact: bool) -> None:
    law = limits.exact_correlation if exact else limits.asymptotic_correlation
    limit = limits.infinite_length_limit(lambda lags, a: law(lags, a, exponent), limits.ceiling_of(exact))
    # At the limit the density touches zero, and the levelled embedding is the density on a fine grid.
    spectrum = embedding_spectrum(lambda lags: law(lags, limit, exponent), 2**14)
    assert spectrum is not None
    half = spectrum[: spectrum.size // 2 + 1]
    assert half[-1] == pytest.approx(0.0, abs=1e-10)
    assert half.argmin() > 0.99 * half.size
    assert half[: int(0.9 * half.size)].min() > 1e-8
    assert embedding_spectrum(lambda lags: law(lags, 1.001 * limit, exponent), 2**14) is None


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("length", [3, 10, 60])
def test_finite_length_limit_is_where_the_smallest_eigenvalue_vanishes(length: int, exact: bool) -> None:
    law = limits.exact_correlation if exact else limits.asymptotic_correlation

    def smallest_eigenvalue(amplitude: float) -> float:
        row = np.concatenate([[1.0], law(np.arange(1.0, float(length)), amplitude, 0.4)])
        return float(scipy.linalg.eigvalsh(scipy.linalg.toeplitz(row))[0])

    limit = limits.finite_length_limit(lambda lags, a: law(lags, a, 0.4), limits.ceiling_of(exact), length, 0.0)
    assert smallest_eigenvalue(0.9999 * limit) > 0.0 > smallest_eigenvalue(1.0001 * limit)
    grid = np.linspace(0.01, 1.0, 40) * limit
    assert min(map(smallest_eigenvalue, grid)) > -1e-9  # definite all the way up to the limit
    if not exact:  # linear in the correlation: the limit is an eigenvalue
        unit = scipy.linalg.toeplitz(np.concatenate([[0.0], np.arange(1.0, float(length)) ** -0.2]))
        scale = -1.0 / scipy.linalg.eigvalsh(unit)[0]
        assert limit == pytest.approx(2.0 * scale**2 / np.pi**2, rel=1e-9)
