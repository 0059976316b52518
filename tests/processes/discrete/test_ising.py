"""The Ising chain: transfer matrix, brute force, backward message, samples, extreme temperatures."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lib.processes import IsingChain
from lib.processes.discrete.tables import information_of_table
from lib.theory.ising import boltzmann_distribution, conditional_of_up, pair_energy, spin_configurations

LN_2 = float(np.log(2.0))
CASES = [(1.0, 0.5, 0.0), (-1.0, 0.7, 0.3), (1.0, 0.7, -0.3), (0.0, 1.0, 0.4), (-2.0, 1.5, 0.01), (1.0, 3.0, -2.0)]


def joint_by_transfer_matrix(coupling: float, beta: float, field: float, lag: int) -> mpmath.matrix:
    """P(s_0, s_lag) from powers of the transfer matrix, to 400 digits."""
    spins = (-1, 1)
    power = mpmath.matrix(2, 2)
    for i, a in enumerate(spins):
        for j, b in enumerate(spins):
            power[i, j] = mpmath.exp(
                mpmath.mpf(beta) * (-mpmath.mpf(coupling) * a * b + mpmath.mpf(field) * (a + b) / 2)
            )
    trace, determinant = power[0, 0] + power[1, 1], power[0, 0] * power[1, 1] - power[0, 1] * power[1, 0]
    largest = trace / 2 + mpmath.sqrt(trace**2 / 4 - determinant)
    vector = mpmath.matrix([power[0, 1], largest - power[0, 0]])
    vector /= mpmath.sqrt(vector[0] ** 2 + vector[1] ** 2)
    between = (power / largest) ** lag
    return mpmath.matrix([[vector[i] * between[i, j] * vector[j] for j in (0, 1)] for i in (0, 1)])


def mp_information(table: mpmath.matrix) -> mpmath.mpf:
    rows = [table[i, 0] + table[i, 1] for i in (0, 1)]
    return mpmath.fsum(
        table[i, j] * mpmath.log(table[i, j] / (rows[i] * rows[j])) for i in (0, 1) for j in (0, 1) if table[i, j] > 0
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lag", [1, 2, 7, 100, 150])
def test_information_is_that_of_the_transfer_matrix_to_every_digit(case: tuple[float, float, float], lag: int) -> None:
    with mpmath.workdps(700):
        expected = float(mp_information(joint_by_transfer_matrix(*case, lag)))
    measured = float(IsingChain(*case).mutual_information(lag))
    assert measured == pytest.approx(expected, rel=1e-12, abs=1e-320)
    if case[0] != 0.0 and expected > 0.0:
        assert measured > 0.0


@given(st.floats(-3, 3), st.floats(0, 2), st.integers(1, 300))
def test_without_field_information_follows_from_one_correlation(coupling: float, beta: float, lag: int) -> None:
    chain = IsingChain(coupling, beta)
    u = (-np.tanh(beta * coupling)) ** lag
    assert chain.correlation(lag) == pytest.approx(u, rel=1e-10, abs=1e-300)
    if 1e-6 < abs(u) < 0.999:
        closed = u * np.arctanh(u) + 0.5 * np.log1p(-u * u)
        assert chain.mutual_information(lag) == pytest.approx(closed, rel=1e-8, abs=1e-15)


def test_without_field_the_transfer_matrix_gives_the_closed_form_symbolically() -> None:
    k, u = sympy.symbols("K u", real=True)
    transfer = sympy.Matrix([[sympy.exp(k), sympy.exp(-k)], [sympy.exp(-k), sympy.exp(k)]])
    ratio = transfer.eigenvals()
    assert {sympy.simplify(value.rewrite(sympy.exp)) for value in ratio} == {
        sympy.simplify((2 * sympy.cosh(k)).rewrite(sympy.exp)),
        sympy.simplify((2 * sympy.sinh(k)).rewrite(sympy.exp)),
    }
    table = ((1 + u) * sympy.log(1 + u) + (1 - u) * sympy.log(1 - u)) / 2
    closed = u * sympy.atanh(u).rewrite(sympy.log) + (sympy.log(1 + u) + sympy.log(1 - u)) / 2
    assert sympy.simplify(sympy.expand(table - closed)) == 0


@given(st.floats(-3, 3), st.floats(0, 2), st.floats(-2, 2))
def test_the_angle_gives_the_stationary_law_and_the_eigenvalue_ratio(
    coupling: float, beta: float, field: float
) -> None:
    chain = IsingChain(coupling, beta, field)
    law, matrix = chain.initial_distribution, chain.transition_matrix
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(law @ matrix, law, atol=1e-14)
    assert law[1] - law[0] == pytest.approx(chain.magnetization, abs=1e-14)
    spins = np.array([-1.0, 1.0])
    transfer = np.exp(beta * (-coupling * np.outer(spins, spins) + field * (spins[:, None] + spins) / 2))
    values = np.linalg.eigvalsh(transfer)
    small, large = sorted(values, key=abs)
    assert chain.correlation(1) == pytest.approx(small / large, abs=1e-12)


@pytest.mark.parametrize("length", range(2, 11))
@pytest.mark.parametrize(("coupling", "beta"), [(1.0, 0.6), (-0.7, 1.1)])
def test_boltzmann_weights_without_field_reduce_to_equation_62(length: int, coupling: float, beta: float) -> None:
    spins = spin_configurations(length)
    law = boltzmann_distribution(pair_energy(spins, [0.0, coupling]), beta)
    reduced = np.array([np.exp(-beta * coupling * s) / (2 * np.cosh(beta * coupling)) for s in (-1, 1)])
    np.testing.assert_allclose(IsingChain(coupling, beta).transition_matrix[:, 1], reduced, rtol=1e-14)
    for position in range(2, length + 1):
        up = conditional_of_up(law, position)
        np.testing.assert_allclose(up, np.tile(reduced, up.size // 2), rtol=1e-13)


@pytest.mark.parametrize("length", range(1, 11))
@pytest.mark.parametrize("case", CASES)
def test_one_backward_message_gives_the_open_chain_with_field(case: tuple[float, float, float], length: int) -> None:
    coupling, beta, field = case
    spins = spin_configurations(length)
    law = boltzmann_distribution(pair_energy(spins, [0.0, coupling]) - field * spins.sum(axis=1), beta)
    steps = IsingChain(*case).open_chain_conditionals(length)
    np.testing.assert_allclose(steps[0, :, 1], conditional_of_up(law, 1)[0], rtol=1e-11)
    for position in range(2, length + 1):
        up = conditional_of_up(law, position)
        np.testing.assert_allclose(up, np.tile(steps[position - 1, :, 1], up.size // 2), rtol=1e-11, atol=1e-300)
    chained = steps[0, 0]
    for step in steps[1:]:
        chained = chained[..., None] * step
    np.testing.assert_allclose(chained.ravel(), law, rtol=1e-10, atol=1e-300)


def test_deep_in_an_open_chain_the_message_is_that_of_the_infinite_chain() -> None:
    chain = IsingChain(-1.0, 0.5, 0.2)
    np.testing.assert_allclose(chain.open_chain_conditionals(200)[100], chain.transition_matrix, rtol=1e-14)


def test_with_field_an_open_chain_differs_from_a_stretch_of_the_infinite_one() -> None:
    chain = IsingChain(-1.0, 0.5, 0.2)
    steps = chain.open_chain_conditionals(3)
    assert np.abs(steps[-1] - chain.transition_matrix).max() > 0.02
    assert np.abs(steps[0, 0] - chain.initial_distribution).max() > 0.02
    n = 200_000
    for sample, first in (
        (chain.sample_open(n, 3, 5), steps[0, 0, 1]),
        (chain.sample(n, 3, 5), chain.initial_distribution[1]),
    ):
        assert sample.dtype == np.uint8
        assert abs(sample[:, 0].mean() - first) < 5 * np.sqrt(0.25 / n)


@pytest.mark.parametrize("method", ["sample", "sample_open"])
@pytest.mark.parametrize("case", CASES[:3])
def test_samples_have_the_probability_of_every_sequence(method: str, case: tuple[float, float, float]) -> None:
    chain, n, length = IsingChain(*case), 100_000, 4
    if method == "sample":
        expected = chain.markov_chain().joint_distribution(length).ravel()
    else:
        spins = spin_configurations(length)
        expected = boltzmann_distribution(pair_energy(spins, [0, case[0]]) - case[2] * spins.sum(axis=1), case[1])
    codes = getattr(chain, method)(n, length, 11).astype(int) @ (2 ** np.arange(length - 1, -1, -1))
    counts = np.bincount(codes, minlength=2**length)
    assert np.all(np.abs(counts / n - expected) < 5 * np.sqrt(expected * (1 - expected) / n))


def test_positive_coupling_sets_neighbours_against_each_other() -> None:
    assert IsingChain(1.0, 0.5).correlation(1) == pytest.approx(-np.tanh(0.5))
    alike = np.mean(np.diff(IsingChain(1.0, 1.0).sample(100, 1000, 2).astype(int)) == 0)
    assert alike == pytest.approx(1 / (1 + np.exp(2.0)), abs=0.01)
    assert IsingChain(1.0, 1.0, field=0.5).magnetization > 0.0
    np.testing.assert_allclose(
        IsingChain(1.0, 0.5).mutual_information([1, 2, 3]), IsingChain(-1.0, 0.5).mutual_information([1, 2, 3])
    )


def test_the_chain_is_its_own_markov_chain() -> None:
    for case in CASES:
        chain, lags = IsingChain(*case), np.arange(40)
        np.testing.assert_allclose(
            chain.mutual_information(lags), chain.markov_chain().mutual_information(lags), rtol=1e-9, atol=1e-30
        )


def test_the_pair_of_a_short_chain_has_the_information_of_the_infinite_one_without_field() -> None:
    spins = spin_configurations(9)
    law = boltzmann_distribution(pair_energy(spins, [0.0, 0.8]), 0.9)
    for first, second in ((0, 8), (3, 5), (1, 2)):
        table = [[law[(spins[:, first] == a) & (spins[:, second] == b)].sum() for b in (-1, 1)] for a in (-1, 1)]
        assert IsingChain(0.8, 0.9).mutual_information(second - first) == pytest.approx(
            information_of_table(table), rel=1e-12
        )


def test_extreme_temperatures_give_the_limits_without_warnings() -> None:
    with np.errstate(all="raise", under="ignore"):
        free = IsingChain(1.0, 0.0, 3.0)
        np.testing.assert_allclose(free.mutual_information([0, 1, 5]), [LN_2, 0.0, 0.0], atol=1e-15)
        assert free.correlation_length == 0.0
        np.testing.assert_allclose(IsingChain(-1.0, 300.0).mutual_information([0, 1, 1000]), LN_2)
        frozen = IsingChain(-2.0, 300.0, 1.0)
        assert frozen.magnetization == 1.0
        np.testing.assert_array_equal(frozen.mutual_information([0, 1, 2]), 0.0)
        np.testing.assert_array_equal(frozen.sample(2, 5, 0), 1)
        np.testing.assert_array_equal(frozen.sample_open(2, 5, 0), 1)
        assert IsingChain(-1.0, 1e300).open_chain_conditionals(3).shape == (3, 2, 2)
        np.testing.assert_allclose(IsingChain(1e308, 1.0).mutual_information([0, 1, 2]), LN_2)
        np.testing.assert_array_equal(IsingChain(5e307, 1.0, -1.5e308).mutual_information([1, 2]), 0.0)


@given(st.floats(0.01, 15.0))
def test_the_correlation_length_is_finite_at_every_temperature(beta: float) -> None:
    with mpmath.workdps(60):
        expected = float(-1 / (2 * mpmath.log(mpmath.tanh(mpmath.mpf(beta)))))
    assert IsingChain(-1.0, beta).correlation_length == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(expected)


def test_the_tail_decays_with_the_correlation_length() -> None:
    for case in CASES[:3]:
        chain = IsingChain(*case)
        far = np.log(chain.mutual_information([60, 62]))
        assert -2.0 / (far[1] - far[0]) == pytest.approx(chain.correlation_length, rel=1e-6)


def test_same_seed_same_rows_and_a_generator_passes_through() -> None:
    chain = IsingChain(-1.0, 0.5)
    np.testing.assert_array_equal(chain.sample(5, 9, 3), chain.sample(5, 9, np.random.default_rng(3)))
    np.testing.assert_array_equal(chain.sample(5, 9, 3)[:2], chain.sample(2, 9, 3))
    assert not np.array_equal(chain.sample(5, 9, 3), chain.sample(5, 9, 4))


@pytest.mark.parametrize(
    "arguments", [(1.0, -0.1), (np.nan, 1.0), (1.0, np.inf), ("J", 1.0), (1.0, 1.0, np.nan), (1e200, 1e200)]
)
def test_bad_parameters_are_refused(arguments: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="allowed"):
        IsingChain(*arguments)


def test_bad_lags_and_sizes_are_refused() -> None:
    chain = IsingChain(1.0, 0.5)
    for lags in (-1, [0.5], [1, -2]):
        with pytest.raises(ValueError, match="lag"):
            chain.mutual_information(lags)
    for sizes in ((0, 5, 1), (5, 0, 1), (5, 5, -1), (5, 5, "seed")):
        for method in (chain.sample, chain.sample_open):
            with pytest.raises(ValueError, match="allowed"):
                method(*sizes)
    with pytest.raises(ValueError, match="length"):
        chain.open_chain_conditionals(0)


def test_information_of_a_chain_that_hardly_ever_turns_keeps_its_digits() -> None:
    measured = IsingChain(-5.0, 20.0, 0.5).mutual_information([1, 2, 10])
    with mpmath.workdps(700):
        expected = [float(mp_information(joint_by_transfer_matrix(-5.0, 20.0, 0.5, lag))) for lag in (1, 2, 10)]
    assert np.allclose(measured, expected, rtol=1e-11, atol=0.0)


def open_chain_by_sums(coupling: int, beta: float, field: float, length: int) -> list[mpmath.matrix]:
    """P(s_t | s_{t-1}) from sums over all later spins; the first matrix has the first spin twice."""
    bias, steps, later = mpmath.mpf(beta) * mpmath.mpf(field), [], (1, 1)
    for t in reversed(range(length)):
        terms = [
            [mpmath.exp(-beta * coupling * a * b * (t > 0) + bias * b) * z for b, z in zip((-1, 1), later, strict=True)]
            for a in (-1, 1)
        ]
        steps.insert(0, mpmath.matrix([[term / sum(row) for term in row] for row in terms]))
        largest = max(map(sum, terms))
        later = tuple(sum(row) / largest for row in terms)
    return steps


@pytest.mark.parametrize("beta", [1e3, 1e8, 1e12, 1e16])
@pytest.mark.parametrize(("coupling", "sign"), [(1, 1), (1, -1), (-1, 1), (-1, -1)])
@pytest.mark.parametrize("strength", [2.0, 1.7, 1.0, "weak"])
def test_where_huge_terms_cancel_the_rest_is_kept(beta: float, coupling: int, sign: int, strength: float | str) -> None:
    """|h| = 2 J > 0 makes a hard-core chain at low temperature, J <= |h| < 2 J such ends; weak is beta h = 1/2."""
    field = sign * (0.5 / beta if strength == "weak" else float(strength))
    chain = IsingChain(coupling, beta, field)
    law, matrix = chain.initial_distribution, chain.transition_matrix
    with mpmath.workdps(60):
        K, b = -mpmath.mpf(beta) * coupling, mpmath.mpf(beta) * mpmath.mpf(field)
        angle = mpmath.asinh(mpmath.exp(2 * K) * mpmath.sinh(b))
        mean = mpmath.exp(K) * mpmath.cosh(b)  # the eigenvalues are mean + root and mean - root
        root = mpmath.sqrt(mpmath.exp(2 * K) * mpmath.sinh(b) ** 2 + mpmath.exp(-2 * K))
        gap = 2 * min(mean, root) / (mean + root)
        ratio = 2 * mpmath.sinh(2 * abs(K)) / (mean + root) ** 2
        length = -0.5 / (mpmath.log1p(-gap) if gap < 0.5 else mpmath.log(ratio))
        up = [1 / (1 + mpmath.exp(-(2 * K * s + b + angle))) for s in (-1, 1)]
        steps = np.array([s.tolist() for s in open_chain_by_sums(coupling, beta, field, 6)], dtype=float)
        expected = np.array([1 / (1 + mpmath.exp(-2 * angle)), *up], dtype=float)
    np.testing.assert_allclose([law[1], *matrix[:, 1]], expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(law @ matrix, law, rtol=0, atol=1e-12)
    np.testing.assert_allclose(chain.open_chain_conditionals(6), steps, rtol=1e-12, atol=1e-300)
    assert chain.correlation_length == pytest.approx(float(length), rel=1e-12)
    assert chain.markov_chain().mutual_information(2) == pytest.approx(chain.mutual_information(2), abs=1e-12)


def test_the_hard_core_chain_and_a_length_beyond_float64() -> None:
    golden = (1 + np.sqrt(5.0)) / 2  # eigenvalues of the hard-core chain: golden and -1 / golden
    chain = IsingChain(1.0, 1e16, 2.0)
    assert chain.correlation_length == pytest.approx(0.25 / np.log(golden), rel=1e-14)
    assert chain.initial_distribution[1] == pytest.approx(golden**2 / (1 + golden**2), rel=1e-14)
    assert IsingChain(-355.0, 1.0).correlation_length == pytest.approx(np.exp(710.0 - np.log(4.0)), rel=1e-12)
    assert IsingChain(-356.0, 1.0).correlation_length == np.inf
