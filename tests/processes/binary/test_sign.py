"""Mutual information of two signs: Eq. 42-46 of Shen (2019), and the inverse."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import xlogy
from scipy.stats import multivariate_normal

from lib.processes import sign_correlation, sign_mutual_information

LN_2 = float(np.log(2.0))


def by_mpmath(correlation: float) -> mpmath.mpf:
    with mpmath.workdps(380):  # 1 - u^2 needs twice the digits of u
        u = 2 / mpmath.pi * mpmath.asin(abs(mpmath.mpf(correlation)))
        return mpmath.log(2) if u == 1 else u * mpmath.atanh(u) + mpmath.log(1 - u * u) / 2


def by_table(equal: float) -> float:
    """Eq. 43 from the four probabilities."""
    table = np.array([equal, equal, 1.0 - equal, 1.0 - equal]) / 2.0
    return float(np.log(4.0) + xlogy(table, table).sum())


def test_equation_43_is_equation_46_symbolically() -> None:
    theta = sympy.symbols("theta", positive=True)
    rest = sympy.pi - theta  # P(equal) = rest / pi
    table = [rest / (2 * sympy.pi)] * 2 + [theta / (2 * sympy.pi)] * 2
    eq43 = sympy.log(4) + sum(x * sympy.log(x) for x in table)
    eq46 = (sympy.pi * sympy.log(2 / sympy.pi) + rest * sympy.log(rest) + theta * sympy.log(theta)) / sympy.pi
    small = sympy.symbols("s", positive=True)
    difference = (eq43 - eq46).subs(rest, small)  # both logarithms of positive symbols, so that they expand
    assert sympy.simplify(sympy.expand_log(difference).subs(small, rest)) == 0


def test_small_correlations_follow_the_series() -> None:
    c = sympy.symbols("c")
    u = 2 / sympy.pi * sympy.asin(c)
    series = sympy.series(u * sympy.atanh(u) + sympy.log(1 - u**2) / 2, c, 0, 6).removeO()
    pi = sympy.pi
    assert sympy.simplify(series - 2 * c**2 / pi**2 - (2 / (3 * pi**2) + 4 / (3 * pi**4)) * c**4) == 0
    for value in (0.01, 0.003):
        remainder = sign_mutual_information(value) - float(series.subs(c, value))
        assert abs(remainder) < value**6


@pytest.mark.parametrize("correlation", [-0.95, -0.3, 0.0, 0.2, 0.6, 0.99])
def test_orthant_probability_gives_the_law(correlation: float) -> None:
    covariance = [[1.0, correlation], [correlation, 1.0]]
    cdf = multivariate_normal([0.0, 0.0], covariance, allow_singular=True).cdf([0.0, 0.0])
    assert 2 * cdf == pytest.approx(1.0 - np.arccos(correlation) / np.pi, abs=1e-9)
    # A second way: the angle of the isotropic plane that maps to the first quadrant.
    density, _ = quad(lambda r: r * np.exp(-r * r / 2) / (2 * np.pi), 0.0, np.inf)
    assert density * (np.pi - np.arccos(correlation)) == pytest.approx(cdf, abs=1e-9)
    assert sign_mutual_information(correlation) == pytest.approx(by_table(2 * cdf), abs=1e-8)


@pytest.mark.parametrize("correlation", [1e-150, 3e-77, 1e-20, 1e-8, 0.3, 0.7071, 0.70711, 0.99, 1 - 1e-9, 1 - 2e-16])
def test_law_agrees_with_many_digits(correlation: float) -> None:
    assert sign_mutual_information(correlation) == pytest.approx(float(by_mpmath(correlation)), rel=2e-15)


@given(st.floats(-1.0, 1.0))
def test_law_is_even_and_between_zero_and_ln_2(correlation: float) -> None:
    value = sign_mutual_information(correlation)
    assert 0.0 <= value <= LN_2
    assert value == sign_mutual_information(-correlation)


@given(st.floats(1e-300, LN_2))
def test_inverse_solves_the_law_with_many_digits(information: float) -> None:
    c = float(sign_correlation(information))
    # The root lies between neighbours of c one part in 10^12 apart on each side.
    below, above = by_mpmath(c * (1 - 1e-12)), by_mpmath(min(c * (1 + 1e-12), 1.0))
    assert below <= information <= above or (c == 1.0 and below <= information)


@given(st.floats(1e-140, 0.999))
def test_inverse_returns_the_correlation(correlation: float) -> None:
    assert sign_correlation(sign_mutual_information(correlation)) == pytest.approx(correlation, rel=1e-12)
    assert sign_correlation(sign_mutual_information(-correlation)) == pytest.approx(correlation, rel=1e-12)


def test_ends_are_exact() -> None:
    assert sign_mutual_information(0.0) == 0.0
    assert sign_mutual_information(1.0) == sign_mutual_information(-1.0) == LN_2
    assert sign_correlation(0.0) == 0.0
    assert sign_correlation(LN_2) == 1.0


def test_arrays_keep_their_shape() -> None:
    values = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    law = np.asarray(sign_mutual_information(values))
    assert law.shape == (3, 4)
    np.testing.assert_array_equal(law.ravel(), [sign_mutual_information(v) for v in values.ravel()])
    assert np.asarray(sign_correlation(law)).shape == (3, 4)
    assert np.asarray(sign_correlation([])).shape == (0,)


@pytest.mark.parametrize("bad", [1.0000001, -1.1, np.nan, np.inf, "much", [0.1, 2.0], 1j])
def test_a_correlation_outside_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"correlation.*-1 and 1"):
        sign_mutual_information(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1e-12, 0.6932, np.nan, [0.1, -0.1]])
def test_a_mutual_information_outside_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"mutual information.*ln 2"):
        sign_correlation(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", [sign_mutual_information, sign_correlation])
def test_tensors_are_numbers_and_what_is_no_real_number_is_refused(law: Any) -> None:
    for tensor in (torch.nn.Parameter(torch.tensor([0.5, 0.25])), torch.tensor([0.5, 0.25], dtype=torch.bfloat16)):
        np.testing.assert_array_equal(law(tensor), law([0.5, 0.25]))
    masked = np.ma.array([0.1, 0.2], mask=[0, 1])
    for bad in (torch.tensor(0.5j), "0.5", np.datetime64("2020-01-01"), masked, 10**400, None):
        with pytest.raises(ValueError, match="real numbers between"):
            law(bad)
    with pytest.raises(ValueError, match="got None"):
        law(None)


def test_no_information_is_no_correlation_of_either_sign() -> None:
    for zero in (0.0, -0.0):
        assert sign_correlation(zero) == 0.0 and not np.signbit(sign_correlation(zero))
