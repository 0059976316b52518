"""The printed and corrected algebra of linear RNNs against the unrolled process, exactly."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.linalg import solve_toeplitz

from lib.processes import LinearRNN, PowerLawGaussian
from lib.report import claims
from lib.theory import linear_rnn as theory
from lib.theory.linear_rnn import generating_function, series, symbolic_generating_function

z = sympy.Symbol("z")


def symbols(name: str, rows: int, columns: int) -> sympy.Matrix:
    return sympy.Matrix(rows, columns, lambda i, j: sympy.Symbol(f"{name}{i}{j}"))


def rationals(rows: int, columns: int, seed: int) -> sympy.Matrix:
    choose = random.Random(seed)
    return sympy.Matrix(rows, columns, lambda i, j: sympy.Rational(choose.randint(-9, 9), choose.randint(1, 9)))


def arrays(*matrices: sympy.Matrix) -> list[Any]:
    return [np.array(matrix.tolist(), dtype=object) for matrix in matrices]


def equal(first: Any, second: Any) -> bool:
    return all(sympy.expand(a - b) == 0 for a, b in zip(np.ravel(first), np.ravel(second), strict=True))


def small_system() -> tuple[sympy.Matrix, ...]:
    return tuple(symbols(name, 1, 1) for name in "wuohx")


def brute_force(W: Any, U: Any, O: Any, hidden: Any, output: Any, length: int) -> list[Any]:  # noqa: E741
    maps, _ = theory.unrolled(W, U, O, length)
    return list(maps @ np.concatenate([hidden, output]))


def test_corrected_recursion_is_the_covariance_of_the_unrolled_process_for_symbols() -> None:
    system = arrays(*small_system())
    by_definition = brute_force(*system, 8)
    assert equal(theory.cross_covariances(*system, 8), by_definition)
    assert not equal(theory.cross_covariances(*system, 8, "printed"), by_definition)


def test_printed_recursion_first_errs_at_lag_one_and_without_initial_memory_at_lag_two() -> None:
    W, U, O, H, X = small_system()  # noqa: E741
    printed = theory.cross_covariances(*arrays(W, U, O, H, X), 2, "printed")
    truth = brute_force(*arrays(W, U, O, H, X), 2)
    assert equal(printed[1], U[0] * truth[1][0, 0]) and not equal(printed[1], truth[1])
    forgetful = arrays(W, U, O, sympy.zeros(1, 1), X)
    printed, truth = theory.cross_covariances(*forgetful, 2, "printed"), brute_force(*forgetful, 2)
    assert equal(printed[1], truth[1]) and not equal(printed[2], truth[2])


def test_printed_recursion_does_not_fit_an_output_read_from_the_current_state_either() -> None:
    W, U, O, H, X = (matrix[0] for matrix in small_system())  # noqa: E741
    printed = theory.cross_covariances(*arrays(*small_system()), 2, "printed")
    hidden, output = H, X  # covariances with x_0
    for step in range(1, 3):
        hidden = W * output + U * hidden
        output = O * hidden
        assert not equal(printed[step][0, 0], output)


@pytest.mark.parametrize("form", ["corrected", "printed"])
def test_closed_form_generates_the_recursion_for_two_symbolic_hidden_units(form: theory.Form) -> None:
    system = symbols("w", 2, 1), symbols("u", 2, 2), symbols("o", 1, 2), symbols("h", 2, 1), symbols("x", 1, 1)
    length = 8 if form == "corrected" else 5
    coefficients = series(symbolic_generating_function(*system, z, form), z, length)
    recursion = theory.cross_covariances(*arrays(*system), length, form)
    assert all(equal(one.tolist(), other) for one, other in zip(coefficients, recursion, strict=True))


@pytest.mark.parametrize("U", [rationals(2, 2, 1), rationals(2, 2, 2), sympy.Matrix([["1/2", 1], [0, "1/2"]])])
def test_closed_form_generates_the_unrolled_covariances_for_rationals_and_a_jordan_block(U: sympy.Matrix) -> None:
    system = rationals(2, 2, 3), U, rationals(2, 2, 4), rationals(2, 2, 5), rationals(2, 2, 6)
    truth = brute_force(*arrays(*system), 10)
    corrected = series(symbolic_generating_function(*system, z), z, 10)
    assert all(equal(one.tolist(), other) for one, other in zip(corrected, truth, strict=True))
    printed = series(symbolic_generating_function(*system, z, "printed"), z, 10)
    assert not equal(printed[2].tolist(), truth[2])


def test_the_determinant_of_the_pair_is_that_of_the_two_factors() -> None:
    W, U, O = symbols("w", 2, 1), symbols("u", 2, 2), symbols("o", 1, 2)  # noqa: E741
    M = sympy.Matrix(sympy.BlockMatrix([[U, W], [O, sympy.zeros(1, 1)]]))
    resolvent = (sympy.eye(2) - U * z).adjugate() / (sympy.eye(2) - U * z).det()
    right = (sympy.eye(2) - U * z).det() * (1 - (O * resolvent * W)[0] * z**2)
    assert sympy.simplify((sympy.eye(3) - M * z).det() - right) == 0


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("hidden", [1, 2])
def test_last_precision_row_times_covariance_is_the_last_row_of_the_identity(length: int, hidden: int) -> None:
    if hidden == 1:
        system, initial = small_system()[:3], symbols("p", 2, 2)
    else:
        system, initial = (rationals(2, 1, 1), rationals(2, 2, 2), rationals(1, 2, 3)), rationals(3, 3, 4)
    initial = initial + initial.T
    variance = sympy.Symbol("v")
    joint = theory.joint_covariance(*arrays(*system), variance, *arrays(initial), length)
    unit = [0] * (len(joint) - 1) + [1]
    assert equal(theory.last_precision_row(*arrays(*system), variance, length) @ joint, unit)
    assert not equal(theory.last_precision_row(*arrays(*system), variance, length, "printed") @ joint, unit)


def test_joint_density_has_the_corrected_normaliser() -> None:
    system = (np.array([[0.3, 0.2], [0.1, -0.5], [0.7, 0.4]]), np.diag([0.5, -0.2, 0.1]), np.ones((2, 3)) / 4)
    joint = theory.joint_covariance(*system, 0.5, np.eye(5), 3)
    assert len(joint) == theory.normaliser_dimension(3, 2, 3) != theory.normaliser_dimension(3, 2, 3, "printed")
    assert theory.normaliser_dimension(2, 2, 3) == theory.normaliser_dimension(2, 2, 3, "printed")
    assert np.isclose(np.linalg.det(joint), 0.5 ** (3 * 2))  # Eq. 13: sigma^(2 t d) det Sigma_0


def test_exact_fractions_pass_through() -> None:
    half = np.array([[Fraction(1, 2)]], dtype=object)
    values = theory.cross_covariances(half, half, half, half, half, 3)
    assert values[2][0, 0] == Fraction(1, 4) * Fraction(1, 2) + Fraction(1, 4) * Fraction(1, 2)
    assert isinstance(values[3][0, 0], Fraction)


def test_numeric_closed_form_sums_the_recursion_and_refuses_a_removable_singularity() -> None:
    generator = np.random.default_rng(1)
    system = [0.4 * generator.standard_normal(shape) for shape in ((2, 2), (2, 2), (2, 2), (2, 2), (2, 2))]
    for form in ("corrected", "printed"):
        terms = theory.cross_covariances(*system, 80, form)
        point = 0.3 - 0.2j
        total = sum(term * point**n for n, term in enumerate(terms))
        assert np.allclose(generating_function(*system, point, form), total, rtol=1e-12)
    one = np.ones((1, 1))
    with pytest.raises(ValueError, match="reciprocal eigenvalue"):
        generating_function(one, 0.5 * one, -0.01 * one, 0 * one, one, 2.0)


def test_unknown_form_and_pole_at_zero_are_refused() -> None:
    one = np.ones((1, 1))
    with pytest.raises(ValueError, match="'corrected' or 'printed'"):
        theory.input_weights(one, one, one, 3, "misprinted")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no pole"):
        series(sympy.Matrix([[1 / z]]), z, 2)


def test_half_trace_is_a_lower_bound_that_becomes_exact() -> None:
    generator = np.random.default_rng(2)
    whole = generator.standard_normal((4, 9))
    covariance = whole @ whole.T
    first, second, cross = covariance[:2, :2], covariance[2:, 2:], covariance[:2, 2:]
    errors = []
    for strength in (1.0, 0.1, 0.01):
        exact = theory.mutual_information_by_determinant(first, second, strength * cross)
        errors.append(1.0 - theory.half_trace(first, second, strength * cross) / exact)
    assert errors[0] > 30 * errors[1] > 900 * errors[2] > 0


def test_claims_fail_for_the_printed_forms() -> None:
    system = [np.array([[value]]) for value in (1.0, 0.5, 0.5, 0.0, 1.0)]
    truth = np.array(brute_force(*system, 40))
    claims.check("shen-eq6", theory.cross_covariances(*system, 40), truth, 1e-15)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq6", theory.cross_covariances(*system, 40, "printed"), truth, 1e-15)

    total = float(np.sum(truth[:, 0, 0] * 0.5 ** np.arange(41)))
    claims.check("shen-eq7", generating_function(*system, 0.5).real, [[total]], 1e-9)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq7", generating_function(*system, 0.5, "printed").real, [[total]], 1e-9)

    joint = theory.joint_covariance(*system[:3], 0.7, np.eye(2), 4)
    unit = np.eye(len(joint))[-1:]
    claims.check("shen-eq13", theory.last_precision_row(*system[:3], 0.7, 4) @ joint, unit, 1e-14)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq13", theory.last_precision_row(*system[:3], 0.7, 4, "printed") @ joint, unit, 1e-14)


def test_the_recursion_of_the_variance_holds_and_its_printed_form_does_not() -> None:
    generator = np.random.default_rng(3)
    W, U, O = (0.5 * generator.standard_normal(shape) for shape in ((3, 2), (3, 3), (2, 3)))  # noqa: E741
    joint, t = theory.joint_covariance(W, U, O, 0.7, np.eye(5), 6), 5
    column = joint[:, 3 + 2 * t : 5 + 2 * t]

    def recursion(form: theory.Form) -> np.ndarray:
        fed = theory.input_weights(W, U, O, t, form)
        total = 0.7 * np.eye(2) + theory.initial_weights(U, O, t, form)[-1] @ column[:3]
        return np.asarray(total + sum(fed[t - i - 1] @ column[3 + 2 * i : 5 + 2 * i] for i in range(t)))

    truth, printed = column[3 + 2 * t : 5 + 2 * t], recursion("printed")
    claims.check("shen-eq22", truth, recursion("corrected"), 1e-12, outcome="misprint", printed=printed, erratum=1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq22", truth, printed, 1e-3)


def test_couplings_of_a_linear_rnn_fall_by_one_factor_and_those_of_a_power_law_do_not() -> None:
    def ratios(covariance: np.ndarray) -> np.ndarray:
        places = np.arange(len(covariance))
        row = np.linalg.inv(covariance[np.abs(places[:, None] - places)])[len(places) // 2]
        strength = row[len(places) // 2 :][2:12]
        return np.asarray(strength[1:] / strength[:-1])

    lags = np.arange(200)
    for u, feedback in ((0.55, 0.15), (1.5, -0.75)):
        network = LinearRNN([[feedback]], [[u]], [[1.0]], 1.0, "stationary")
        found = ratios(network.cross_covariance(lags)[:, 0, 0])
        claims.check("shen-statmech", found, np.full(9, min(u, 1 / u)), 1e-6)
        with pytest.raises(claims.ClaimFailed):  # the correlation falls at another rate
            claims.check("shen-statmech", found, np.full(9, network.spectral_radius), 1e-6)
    found = ratios(np.asarray(PowerLawGaussian(0.4).correlation(lags)))
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-statmech", found, np.full(9, found[0]), 1e-2)


def test_couplings_of_a_correlation_that_falls_as_a_power_do_too_and_those_of_a_linear_rnn_do_not() -> None:
    def exponent(correlation: np.ndarray) -> float:
        row = solve_toeplitz(correlation, np.eye(len(correlation))[len(correlation) // 2])[len(correlation) // 2 :]
        return float(np.log(row[8] / row[64]) / np.log(8))

    a, j = 0.4, np.arange(1, 2048)
    power = np.cumprod([1.0, *((2 * j - 1 - a) / (2 * j - 1 + a))])  # spectral density |2 sin(k/2)|^(a-1)
    assert np.log(power[500] / power[1000]) / np.log(2) == pytest.approx(a, abs=1e-4)
    claims.check("shen-statmech", exponent(power), 2 - a, 0.02)
    network = LinearRNN([[0.06]], [[0.9]], [[1.0]], 1.0, "stationary")
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-statmech", exponent(network.cross_covariance(np.arange(300))[:, 0, 0]), 2 - a, 0.02)


def test_claim_that_half_the_trace_is_the_information_fails_where_correlations_are_large() -> None:
    one = np.eye(1)
    shortfall = [
        1 - theory.half_trace(one, one, r * one) / theory.mutual_information_by_determinant(one, one, r * one)
        for r in (0.9, 1e-3)
    ]
    claims.check("shen-eq8", shortfall[1], 0.0, 1e-6)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq8", shortfall[0], 0.0, 1e-6)
