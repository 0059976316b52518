"""Repetitive sequences: Eq. 48-52 of Shen (2019), lag 1, phases, limits."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import xlogy

from lib.processes import RepetitiveSequence

LN_2 = float(np.log(2.0))
PROBABILITIES = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(4, 5), Fraction(1)]


def brute_force(p: Fraction, lag: int, phase: int | None = None) -> list[list[Fraction]]:
    """Joint probabilities at a lag: every choice of pairs and both phases (or one), in exact fractions."""
    table = [[Fraction(0)] * 2 for _ in range(2)]
    phases = [0, 1] if phase is None else [phase]
    for start in phases:
        for pairs in product((0, 1), repeat=lag // 2 + 2):
            weight = Fraction(1, len(phases))
            for first in pairs:
                weight *= p if first == 0 else 1 - p
            symbols = [symbol for first in pairs for symbol in (first, 1 - first)]
            table[symbols[start]][symbols[start + lag]] += weight
    return table


def information(table: np.ndarray) -> float:
    return float(xlogy(table, table).sum() - sum(xlogy(m, m).sum() for m in (table.sum(0), table.sum(1))))


def equation_52(p: float) -> float:
    return float(4 * p * (p - 1) * np.arctanh((1 - 2 * p) ** 2) + np.log(2 + 4 * p * (p - 1)))


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("lag", range(7))
def test_joint_distribution_is_the_sum_over_all_pairs_and_both_phases(p: Fraction, lag: int) -> None:
    expected = np.array(brute_force(p, lag), dtype=float)
    process = RepetitiveSequence(float(p))
    np.testing.assert_allclose(process.joint_distribution(lag), expected, atol=1e-15)
    np.testing.assert_allclose(process.joint_distribution_by_matrix_powers(lag), expected, atol=1e-15)
    assert process.mutual_information(lag) == pytest.approx(information(expected), abs=1e-14)


def test_equation_52_is_the_information_of_its_probabilities_symbolically() -> None:
    p = sympy.symbols("p", positive=True)
    q = p**2 + (1 - p) ** 2
    by_table = q * sympy.log(2 * q) + (1 - q) * sympy.log(2 * (1 - q))
    printed = 4 * p * (p - 1) * sympy.atanh((1 - 2 * p) ** 2) + sympy.log(2 + 4 * p * (p - 1))
    difference = (by_table - printed).rewrite(sympy.log)
    assert sympy.simplify(sympy.expand_log(sympy.factor(sympy.logcombine(difference, force=True)), force=True)) == 0


@given(st.floats(0.001, 0.999), st.integers(2, 10**9))
def test_every_lag_beyond_one_has_the_constant_of_equation_52(p: float, lag: int) -> None:
    assert RepetitiveSequence(p).mutual_information(lag) == pytest.approx(equation_52(p), abs=1e-14)


@given(st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_closed_form_equals_matrix_powers(p: float, lag: int) -> None:
    process = RepetitiveSequence(p)
    plain = process.joint_distribution_by_matrix_powers(lag)
    np.testing.assert_allclose(process.joint_distribution(lag), plain, atol=1e-9 if lag > 1000 else 1e-13)


def test_odd_and_even_lags_swap_equal_and_different() -> None:
    process = RepetitiveSequence(0.2)
    even, odd = process.joint_distribution(8), process.joint_distribution(9)
    np.testing.assert_allclose(even, odd[:, ::-1])
    assert even[0, 0] > even[0, 1]
    assert process.mutual_information(8) == pytest.approx(process.mutual_information(9), rel=1e-14)


def test_lag_one_is_positive_where_all_other_lags_vanish() -> None:
    fair = RepetitiveSequence(0.5)
    # P(equal) = 1/4: ln 2 - H(1/4).
    expected = LN_2 + 0.25 * np.log(0.25) + 0.75 * np.log(0.75)
    assert fair.mutual_information(1) == pytest.approx(expected, rel=1e-14)
    np.testing.assert_array_equal(fair.mutual_information([2, 3, 100, 101]), 0.0)
    assert abs(fair.mutual_information(1) - equation_52(0.5)) > 0.1  # Eq. 52 does not hold there


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_pairs_give_ln_2_without_nan(p: float) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(equation_52(p))  # as printed: 0 times infinity
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(RepetitiveSequence(p).mutual_information([0, 1, 2, 3]), LN_2)


def test_near_certain_pairs_tend_to_the_limit() -> None:
    values = [float(RepetitiveSequence(10.0**-k).mutual_information(2)) for k in range(2, 13)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(LN_2, abs=1e-10)


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("phase", [0, 1])
def test_known_phase_leaves_no_information_beyond_the_pair(p: Fraction, phase: int) -> None:
    for lag in range(2, 6):
        table = brute_force(p, lag, phase)
        rows = [sum(row) for row in table]
        columns = [sum(column) for column in zip(*table, strict=True)]
        assert all(table[i][j] == rows[i] * columns[j] for i in (0, 1) for j in (0, 1))


def test_chain_is_a_stationary_hidden_markov_law() -> None:
    process = RepetitiveSequence(0.3)
    matrix, start = process.transition_matrix, process.initial_distribution
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    np.testing.assert_allclose(process.emission.sum(axis=0), matrix)
    np.testing.assert_allclose(start @ matrix, start)
    assert start.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(matrix).real), [-1.0, 0.0, 1.0], atol=1e-12)  # period two


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("lag", [1, 2, 3, 10])
def test_samples_follow_the_pooled_law(p: float, lag: int) -> None:
    n = 40_000
    sample = RepetitiveSequence(p).sample(n, 12, 7)
    expected = RepetitiveSequence(p).joint_distribution(lag)
    pairs = 2 * sample[:, 0].astype(int) + sample[:, lag]  # one pair per row: independent draws
    frequencies = np.bincount(pairs, minlength=4).reshape(2, 2) / n
    assert np.all(np.abs(frequencies - expected) < 5.0 * np.sqrt(expected * (1 - expected) / n) + 1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_a_fixed_phase_starts_with_the_first_or_second_symbol_of_a_pair(length: int) -> None:
    process = RepetitiveSequence(0.3)
    for phase in (0, 1):
        sample = process.sample(500, length, 2, phase=phase)
        assert sample.shape == (500, length)
        assert sample.dtype == np.uint8
        for place in range(phase, length - 1, 2):
            assert np.all(sample[:, place] + sample[:, place + 1] == 1)
    first = process.sample(40_000, 1, 3, phase=0).mean()
    assert first == pytest.approx(0.7, abs=0.02)
    assert process.sample(40_000, 1, 3, phase=1).mean() == pytest.approx(0.3, abs=0.02)
    assert process.sample(40_000, 1, 3).mean() == pytest.approx(0.5, abs=0.02)


def test_mutual_information_of_samples_with_and_without_phase() -> None:
    n, process = 20_000, RepetitiveSequence(0.15)

    def estimate(sample: np.ndarray) -> float:
        pairs = 2 * sample[:, 0].astype(int) + sample[:, 6]
        return information(np.bincount(pairs, minlength=4).reshape(2, 2) / n)

    pooled, known = estimate(process.sample(n, 8, 1)), estimate(process.sample(n, 8, 1, phase=0))
    assert pooled == pytest.approx(process.mutual_information(6), rel=0.1)
    assert known < 25.0 / (2 * n)  # 2 N I is chi-square with one degree of freedom
    assert pooled > 100 * known


def test_same_seed_same_rows() -> None:
    process = RepetitiveSequence(0.4)
    np.testing.assert_array_equal(process.sample(5, 9, 3), process.sample(5, 9, np.random.default_rng(3)))
    assert not np.array_equal(process.sample(5, 9, 3), process.sample(5, 9, 4))


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "half", None])
def test_a_bad_probability_is_refused(p: object) -> None:
    with pytest.raises(ValueError, match="p: "):
        RepetitiveSequence(p)  # type: ignore[arg-type]


def test_bad_lags_and_samples_are_refused() -> None:
    process = RepetitiveSequence(0.3)
    for lags in (-1, [0.5], [2, -2]):
        with pytest.raises(ValueError, match="lag"):
            process.mutual_information(lags)
    for lag in (-1, [1, 2], 2**63, None):
        for table in (process.joint_distribution, process.joint_distribution_by_matrix_powers):
            with pytest.raises(ValueError, match="lag"):
                table(lag)  # type: ignore[arg-type]
    for arguments in ((0, 5, 1), (5, 0, 1), (5, 5, -1)):
        with pytest.raises(ValueError, match="allowed"):
            process.sample(*arguments)
    for phase in (2, True, np.True_, "odd", np.array([0, 1]), [0]):
        with pytest.raises(ValueError, match="phase: None, 0 or 1"):
            process.sample(1, 1, 1, phase=phase)  # type: ignore[arg-type]


@pytest.mark.parametrize("lag", [2, 3])
@given(st.floats(-30.0, -1.0), st.sampled_from([-1, 1]))
def test_near_one_half_all_digits_are_kept(lag: int, exponent: float, sign: int) -> None:
    p = 0.5 + sign * 2.0**exponent
    with mpmath.workdps(80):
        equal = mpmath.mpf(p) ** 2 + (1 - mpmath.mpf(p)) ** 2
        table = [equal, 1 - equal]
        expected = float(mpmath.fsum(q * mpmath.log(2 * q) for q in table if q))
    assert RepetitiveSequence(p).mutual_information(lag) == pytest.approx(expected, rel=1e-13, abs=1e-300)
