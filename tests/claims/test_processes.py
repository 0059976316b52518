"""Negative controls of the claims on binary and repetitive sequences: where a check has to fail, it does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from lib.information import auto_mutual_information, fit_exponential, fit_power_law, mutual_information
from lib.processes import IsingChain, PowerLawBinary, RepetitiveSequence, sign_correlation, sign_mutual_information
from lib.processes.discrete.markov import MarkovChain
from lib.report import claims

LAGS = np.array([1, 2, 4, 8, 16, 32, 64])


def equation_46(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    theta, pi = np.arccos(correlation), np.pi
    return np.asarray((pi * np.log(2 / pi) + (pi - theta) * np.log(pi - theta) + theta * np.log(theta)) / pi)


def test_equation_46_holds_and_its_first_term_alone_does_not() -> None:
    c = np.linspace(0.05, 0.95, 10)
    claims.check("shen-eq46", sign_mutual_information(c), equation_46(c), tolerance=1e-14)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq46", 2 * c**2 / np.pi**2, equation_46(c), tolerance=1e-14)


def test_constant_of_equation_47_holds_in_one_reading_and_the_other_is_refused() -> None:
    needed = sign_correlation(0.1 * 1e9**-0.4) * 1e9**0.2
    claims.check("shen-eq47", needed, np.sqrt(0.05) * np.pi, tolerance=1e-4, relative=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq47", needed, np.sqrt(0.1 / (2 * np.pi)), tolerance=1e-4, relative=True)


def test_two_symbols_are_free_and_three_are_not() -> None:
    wanted = np.linspace(0, 1, 5) * np.log(2)
    claims.check("shen-any-pair", sign_mutual_information(sign_correlation(wanted)), wanted, tolerance=1e-12)

    def smallest(c: float) -> float:
        return float(np.linalg.eigvalsh([[1, c, 0], [c, 1, c], [0, c, 1]])[0])

    false = {"outcome": "false", "erratum": 9, "note": "positive definite designs survive"}
    claims.check("shen-any-pair", smallest(0.8), at_least=0.0, **false)  # a design that no Gaussian has
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):
        claims.check("shen-any-pair", smallest(0.7), at_least=0.0, **false)  # and one that exists: no counterexample


def rate_from_40(curve: NDArray[np.float64]) -> float:
    """Slope of ln I between lags 40 and 80 of a curve that begins at lag 1."""
    return float(np.log(curve[39] / curve[79]) / 40)


def test_finite_memory_forgets_with_the_second_eigenvalue_and_a_power_law_with_none() -> None:
    lags = np.arange(1, 81)
    for transition in (IsingChain(-1.0, 0.8).transition_matrix, [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]]):
        second = np.sort(np.abs(np.linalg.eigvals(transition)))[-2]
        measured = rate_from_40(np.asarray(MarkovChain(transition).mutual_information(lags)))
        claims.check("shen-finite-memory", measured, -2 * np.log(second), 1e-3, relative=True)
        with pytest.raises(claims.ClaimFailed):  # the rate of the correlation is half of it
            claims.check("shen-finite-memory", measured, -np.log(second), 1e-3, relative=True)
        with pytest.raises(claims.ClaimFailed):
            law = PowerLawBinary(200).mutual_information(lags)
            claims.check("shen-finite-memory", rate_from_40(law), -2 * np.log(second), 1e-3, relative=True)


def test_allowed_amplitudes_reach_that_of_the_paper_and_not_twice_it() -> None:
    limits = [PowerLawBinary(10**4, 0.01, gamma).largest_amplitude for gamma in np.linspace(0.01, 1, 9)]
    claims.check("shen-eq47", limits, at_least=0.1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq47", limits, at_least=0.2)


@pytest.fixture(scope="module")
def sample() -> NDArray[np.uint8]:
    return PowerLawBinary(200, 0.1, 0.4).sample(5000, 6)


def spread_of_groups(sequences: NDArray[np.uint8]) -> tuple[float, float]:
    exponents = [
        fit_power_law(LAGS, auto_mutual_information(group, LAGS, progress=False)).exponent
        for group in sequences.reshape(10, -1, sequences.shape[1])
    ]
    reach = norm.ppf(0.9995) * np.std(exponents, ddof=1) / np.sqrt(10)
    return float(np.mean(exponents)), float(1.5 * reach)  # Student's t with 9 degrees of freedom is wider


def test_fitted_exponent_agrees_with_its_law_and_with_no_other(sample: NDArray[np.uint8]) -> None:
    mean, reach = spread_of_groups(sample)
    interval = (mean - reach, mean + reach)
    expected = fit_power_law(LAGS, PowerLawBinary(200, 0.1, 0.4).mutual_information(LAGS)).exponent
    claims.check("shen-fig5", mean, expected, within=interval)
    for wrong in (0.3, 0.5, 0.6):
        law = fit_power_law(LAGS, PowerLawBinary(200, 0.1, wrong).mutual_information(LAGS)).exponent
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-fig5", mean, law, within=interval)


def test_shuffled_sequences_do_not_follow_the_law(sample: NDArray[np.uint8]) -> None:
    law = PowerLawBinary(200, 0.1, 0.4).mutual_information(LAGS)
    claims.check("shen-fig5", auto_mutual_information(sample, LAGS), law, tolerance=0.15, relative=True)
    shuffled = np.random.default_rng(1).permuted(sample, axis=1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig5", auto_mutual_information(shuffled, LAGS), law, tolerance=0.15, relative=True)


def test_correlation_length_of_a_power_law_grows_with_the_window_and_a_real_one_does_not() -> None:
    windows = [128, 512, 2048]
    fitted = [
        fit_exponential(np.arange(1, n), 0.1 * np.arange(1, n) ** -0.4, floor=0).correlation_length for n in windows
    ]
    np.testing.assert_allclose(np.array(fitted) * 1.2 / windows, 1, atol=0.05)
    real = [
        fit_exponential(np.arange(1, n), np.exp(-np.arange(1, n) / 50), floor=0).correlation_length for n in windows
    ]
    np.testing.assert_allclose(real, 50, rtol=1e-9)
    assert fitted[1] == pytest.approx(431, abs=0.5)


def test_equation_52_holds_for_pairs_of_its_own_bias_and_beyond_lag_one_only() -> None:
    process = RepetitiveSequence(0.2)
    q = 0.2**2 + 0.8**2
    law = q * np.log(2 * q) + (1 - q) * np.log(2 * (1 - q))
    claims.check("shen-eq52", process.mutual_information([2, 3, 50]), [law] * 3, tolerance=1e-14)
    for lag, bias in ((1, 0.2), (2, 0.25), (3, 0.19)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-eq52", RepetitiveSequence(bias).mutual_information(lag), law, tolerance=1e-3)


def test_known_phase_has_no_information_and_pooled_phases_have() -> None:
    rows = RepetitiveSequence(0.1).sample(5000, 20, 3, phase=0)

    def information(step: int) -> float:
        starts = np.arange(0, 14, step)
        pairs = 2 * rows[:, starts].ravel().astype(int) + rows[:, starts + 6].ravel()
        return mutual_information(np.bincount(pairs, minlength=4).reshape(2, 2))

    bound = 12.5 / (5000 * 7)
    claims.check("shen-eq52", information(2), at_least=-bound, at_most=bound)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq52", information(1), at_least=-bound, at_most=bound)
