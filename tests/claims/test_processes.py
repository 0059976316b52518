"""Negative controls of the claims on binary and repetitive sequences: where a check has to fail, it does."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import gcd, log

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


Law = dict[tuple[int, int], Fraction]


def law_of_patterns(patterns: dict[str, Fraction], lag: int) -> Law:
    """P(x_t, x_{t+lag}) of patterns drawn one after another, in exact fractions: t in every place of a first pattern,
    and every way to go on from there."""
    mean = sum(chance * len(word) for word, chance in patterns.items())
    law = dict.fromkeys(product((0, 1), repeat=2), Fraction(0))
    for first, chance in patterns.items():
        for place in range(len(first)):
            places = {place + lag - len(first): Fraction(1)}  # how far to go beyond the end of a pattern -> chance
            reached = [Fraction(0), Fraction(0)]
            if place + lag < len(first):
                reached[int(first[place + lag])], places = Fraction(1), {}
            while places:
                after: dict[int, Fraction] = {}
                for left, weight in places.items():
                    for word, other in patterns.items():
                        if left < len(word):
                            reached[int(word[left])] += weight * other
                        else:
                            after[left - len(word)] = after.get(left - len(word), Fraction(0)) + weight * other
                places = after
            for symbol in (0, 1):
                law[int(first[place]), symbol] += chance * reached[symbol] / mean
    return law


def information_of(law: Law) -> float:
    first = [law[i, 0] + law[i, 1] for i in (0, 1)]
    second = [law[0, j] + law[1, j] for j in (0, 1)]
    return sum(float(p) * log(p / (first[i] * second[j])) for (i, j), p in law.items() if p)


BIASED = Fraction(9, 10), Fraction(1, 10)


def test_biased_patterns_without_a_phase_to_share_leave_nothing_and_01_and_10_their_constant() -> None:
    known = {"outcome": "false", "erratum": 11, "note": "a constant needs phases that differ"}
    pairs, blocks = ({a: BIASED[0], b: BIASED[1]} for a, b in (("01", "10"), ("00", "11")))
    kept = [information_of(law_of_patterns(pairs, lag)) for lag in (2, 3, 10, 11)]
    lost = [law_of_patterns(blocks, lag) for lag in (2, 3, 10, 11)]
    equation_52 = RepetitiveSequence(0.9).mutual_information([2, 3, 10, 11])
    claims.check("shen-pattern-bias", kept, equation_52, tolerance=1e-12)
    for law in lost:
        assert law == {(i, j): BIASED[i] * BIASED[j] for i, j in law}  # zero, exactly
    claims.check("shen-pattern-bias", max(map(information_of, lost)), at_least=1e-9, **known)
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):  # 01 and 10 are no counterexample
        claims.check("shen-pattern-bias", min(kept), at_least=1e-9, **known)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-pattern-bias", kept, 1.01 * equation_52, tolerance=1e-3)


def test_lengths_without_a_common_divisor_decay_at_the_rate_of_the_second_eigenvalue() -> None:
    patterns = {"01": BIASED[0], "001": BIASED[1]}
    near, far = (information_of(law_of_patterns(patterns, lag)) for lag in (20, 40))
    second = (1 + 0.6**0.5) / 2  # z^3 = 0.9 z + 0.1 is (z - 1)(z^2 + z + 0.1)
    measured = log(near / far) / 20
    claims.check("shen-pattern-bias", measured, -2 * log(second), tolerance=1e-3, relative=True)
    for wrong in (-log(second), 0.0):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-pattern-bias", measured, wrong, tolerance=1e-3)


@pytest.mark.parametrize(
    ("words", "chances"),
    [
        (("01", "0111"), BIASED),
        (("011", "101"), BIASED),
        (("0011", "0110"), (Fraction(1, 2),) * 2),
        (("00", "11"), BIASED),
    ],
)
def test_at_long_lags_the_law_is_the_mean_over_the_phases(
    words: tuple[str, ...], chances: tuple[Fraction, ...]
) -> None:
    patterns = dict(zip(words, chances, strict=True))
    d, mean = gcd(*map(len, words)), sum(chance * len(word) for word, chance in patterns.items())

    def of(phase: int, symbol: int) -> Fraction:
        places = ((word, k) for word in words for k in range(phase % d, len(word), d) if int(word[k]) == symbol)
        return sum((patterns[word] for word, _ in places), Fraction(0)) * d / mean

    for lag in (40, 41, 42, 43):
        law = law_of_patterns(patterns, lag)
        for i, j in law:
            pooled = sum(of(c, i) * of(c + lag, j) for c in range(d)) / d
            assert abs(law[i, j] - pooled) < Fraction(1, 10**12)
    differ = any(of(c, 1) != of(0, 1) for c in range(d))
    assert (information_of(law_of_patterns(patterns, 10 * d)) > 1e-3) is differ


def test_without_bias_a_constant_may_be_left_and_at_some_lags_only() -> None:
    patterns = dict.fromkeys(("0011", "0110"), Fraction(1, 2))
    assert [information_of(law_of_patterns(patterns, lag)) > 0.1 for lag in (8, 9, 10, 11)] == [True, False] * 2
    assert abs(information_of(law_of_patterns(patterns, 9))) < 1e-15
