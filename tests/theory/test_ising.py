"""Small chains by enumeration, strips of finite width, and the claim about Eq. 62 with its negative controls."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from lib.processes import IsingChain
from lib.report import claims
from lib.theory.ising import (
    CRITICAL_COUPLING,
    boltzmann_distribution,
    conditional_of_up,
    double_sum_energy,
    pair_energy,
    spin_configurations,
    square_lattice_correlation_length,
    strip_correlation_length,
)


def conditionals(interaction: list[float], beta: float, length: int, position: int, energy=pair_energy) -> np.ndarray:
    return conditional_of_up(boltzmann_distribution(energy(spin_configurations(length), interaction), beta), position)


def test_configurations_are_all_spins_in_binary_order() -> None:
    np.testing.assert_array_equal(spin_configurations(2), [[-1, -1], [-1, 1], [1, -1], [1, 1]])
    assert np.unique(spin_configurations(7), axis=0).shape == (128, 7)


def test_pair_energy_is_the_sum_over_pairs_and_the_printed_one_counts_them_twice_with_a_diagonal() -> None:
    rng = np.random.default_rng(0)
    interaction = rng.normal(size=6)
    for spins in spin_configurations(6):
        pairs = sum(interaction[j - i] * spins[i] * spins[j] for j in range(6) for i in range(j))
        everything = sum(interaction[abs(j - i)] * spins[i] * spins[j] for j in range(6) for i in range(6))
        assert pair_energy(spins, interaction) == pytest.approx(pairs, abs=1e-12)
        assert double_sum_energy(spins, interaction) == pytest.approx(everything, abs=1e-12)
        assert everything == pytest.approx(2 * pairs + 6 * interaction[0], abs=1e-12)


def test_short_interactions_are_zero_beyond_their_end_and_long_ones_are_cut() -> None:
    spins = spin_configurations(4)
    for energy in (pair_energy, double_sum_energy):
        np.testing.assert_allclose(energy(spins, [0.0, 1.0]), energy(spins, [0.0, 1.0, 0.0, 0.0, 0.0, 9.0]))


def test_two_spins_are_the_smallest_case_where_the_printed_sum_differs() -> None:
    beta, coupling = 0.7, 1.0
    reduced = np.exp(beta * coupling * np.array([1, -1])) / (2 * np.cosh(beta * coupling))
    np.testing.assert_allclose(conditionals([0, coupling], beta, 2, 2), reduced)
    printed = conditionals([0, coupling], beta, 2, 2, double_sum_energy)
    np.testing.assert_allclose(printed, conditionals([0, coupling], 2 * beta, 2, 2))
    assert np.abs(printed - reduced).max() > 0.1
    one = conditionals([3.0, coupling], beta, 1, 1, double_sum_energy)  # one spin: the diagonal is a constant
    np.testing.assert_allclose(one, 0.5)


def test_the_factor_of_the_future_is_constant_only_by_spin_flip_symmetry() -> None:
    k, h = sympy.symbols("K h", real=True)

    def future(s: int, field: sympy.Expr) -> sympy.Expr:
        terms = ((a, b) for a in (-1, 1) for b in (-1, 1))
        return sum(sympy.exp(-k * (s * a + a * b) + field * (a + b)) for a, b in terms)

    assert sympy.expand(future(1, sympy.S.Zero) - future(-1, sympy.S.Zero)) == 0
    assert sympy.expand(future(1, h) - future(-1, h)) != 0


def test_long_range_conditionals_depend_on_the_whole_past_and_on_the_number_of_spins_to_come() -> None:
    long_range = [0.0, *(-1.0 / np.arange(1, 12) ** 1.5)]
    at_end, far_from_end = conditionals(long_range, 0.4, 4, 4), conditionals(long_range, 0.4, 11, 4)
    assert np.abs(at_end - far_from_end).max() > 0.01
    assert np.ptp(far_from_end[1::2]) > 0.1  # same last spin, other spins before it
    nearest = [0.0, -1.0]
    np.testing.assert_allclose(conditionals(nearest, 0.4, 4, 4), conditionals(nearest, 0.4, 11, 4), rtol=1e-13)


@pytest.mark.parametrize("strength", [0.1, 0.4, 1.5])
def test_a_strip_of_width_one_is_the_chain(strength: float) -> None:
    assert strip_correlation_length(1, strength) == pytest.approx(
        IsingChain(-1.0, strength).correlation_length, rel=1e-9
    )


def test_a_strip_of_width_two_by_the_whole_transfer_matrix() -> None:
    spins, strength = spin_configurations(2).astype(float), 0.3
    bond = spins[:, 0] * spins[:, 1]
    matrix = np.exp(strength * (spins @ spins.T + 0.5 * (bond[:, None] + bond)))
    largest, second = np.sort(np.linalg.eigvalsh(matrix))[::-1][:2]
    assert strip_correlation_length(2, strength) == pytest.approx(0.5 / np.log(largest / second), rel=1e-12)


def test_strips_tend_to_the_square_lattice_above_its_critical_temperature() -> None:
    strengths = np.array([0.1, 0.2, 0.3])
    infinite = square_lattice_correlation_length(strengths)
    errors = [np.max(np.abs(strip_correlation_length(width, strengths) / infinite - 1)) for width in (3, 5, 7, 9)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.002


@pytest.mark.parametrize("strength", [1e-300, 1e-20, 1e-9, 0.999e-3, 1.001e-3, 0.2])
def test_at_high_temperature_no_difference_of_weights_loses_the_gap(strength: float) -> None:
    chain = -0.5 / np.log(np.tanh(strength))
    one, two = np.cosh(strength), np.cosh(2 * strength)  # width 2: lambda_1, and lambda_2 = 2 exp(K) sinh(2 K)
    even = 2 * one * two + 2 * np.sqrt((two * np.sinh(strength)) ** 2 + 1)
    pair = 0.5 / (np.log(even) - strength - np.log(2 * np.sinh(2 * strength)))
    assert strip_correlation_length(1, strength) == pytest.approx(chain, rel=1e-12)
    assert strip_correlation_length(2, strength) == pytest.approx(pair, rel=1e-12)


def test_at_the_critical_point_the_length_grows_with_the_width() -> None:
    # conformal invariance: spin correlation length 4 w / pi on a ring of w spins
    ratios = [2 * float(strip_correlation_length(width, CRITICAL_COUPLING)) / width for width in (4, 6, 8, 10)]
    assert ratios[-1] == pytest.approx(4 / np.pi, rel=0.01)
    gaps = np.abs(np.array(ratios) - 4 / np.pi)
    assert np.all(np.diff(gaps) < 0)
    assert square_lattice_correlation_length(CRITICAL_COUPLING * (1 + 1e-9)) > 1e6
    assert square_lattice_correlation_length(CRITICAL_COUPLING) == np.inf
    assert np.isfinite(square_lattice_correlation_length(CRITICAL_COUPLING * (1 - 1e-14)))


def test_claim_about_equation_62_fails_for_the_double_sum_and_for_long_range_couplings() -> None:
    beta, coupling, length, position = 0.6, 1.0, 8, 4
    reduced = np.tile(IsingChain(coupling, beta).transition_matrix[:, 1], 2 ** (position - 2))
    right = conditionals([0, coupling], beta, length, position)
    printed = conditionals([0, coupling], beta, length, position, double_sum_energy)
    long_range = conditionals([0.0, *(1.0 / np.arange(1, 8) ** 1.5)], beta, length, position)
    claims.check("shen-eq62", right, reduced, 1e-12)
    claims.check("shen-eq62", right, reduced, 1e-12, outcome="misprint", printed=printed, erratum=13)
    for wrong in (printed, long_range, conditionals([0, -coupling], beta, length, position)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-eq62", wrong, reduced, 1e-3)
    with pytest.raises(claims.ClaimFailed):  # a printed form that agrees needs no erratum
        claims.check("shen-eq62", right, reduced, 1e-12, outcome="misprint", printed=reduced, erratum=13)


def test_a_field_is_no_hardship_and_a_method_that_ignores_the_future_is_no_counterexample() -> None:
    spins, position = 8, 4
    steps = IsingChain(1.0, 0.6, field=0.4).open_chain_conditionals(spins)
    all_spins = spin_configurations(spins)
    energies = pair_energy(all_spins, [0, 1.0]) - 0.4 * all_spins.sum(axis=1)
    by_sum = conditional_of_up(boltzmann_distribution(energies, 0.6), position)
    claims.check("shen-eq62", np.tile(steps[position - 1, :, 1], 2 ** (position - 2)), by_sum, 1e-12, remark=True)
    false = {"outcome": "false", "erratum": 13, "remark": True, "note": "Eq. 62 stands"}
    steps_without_future = IsingChain(1.0, 0.6, field=0.4).open_chain_conditionals(position)  # as if spin t were last
    missed, without_future = (
        np.abs(np.tile(law[position - 1, :, 1], 2 ** (position - 2)) - by_sum).max()
        for law in (steps, steps_without_future)
    )
    assert missed < 1e-12 < 0.01 < without_future
    futures = len(spin_configurations(spins - 1))
    claims.check("shen-eq62", spins - 1, at_least=futures, **false)  # messages, each from the one after it
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):  # every future by itself
        claims.check("shen-eq62", futures, at_least=futures, **false)


@pytest.mark.parametrize("field", [0.0, 0.4])
def test_second_neighbours_need_four_numbers_and_neighbours_alone_are_refused(field: float) -> None:
    beta, length, one, two = 0.6, 8, 1.0, 0.5
    all_spins = spin_configurations(length)
    weights = boltzmann_distribution(pair_energy(all_spins, [0, one, two]) - field * all_spins.sum(axis=1), beta)

    def future(t: int, older: int, last: int) -> float:  # sum over the spins after t, of s_{t-1} and s_t
        return sum(
            np.exp(-beta * (one * last * s + two * older * s - field * s)) * future(t + 1, last, s) for s in (-1, 1)
        ) if t < length else 1.0  # fmt: skip

    def up(t: int, older: int, last: int, two: float = two) -> float:
        terms = {
            s: np.exp(-beta * (one * last * s + two * older * s - field * s)) * future(t, last, s) for s in (-1, 1)
        }
        return float(terms[1] / (terms[-1] + terms[1]))

    for t in (3, 5, 8):
        right, wrong = ([up(t, *past[-2:], two=J) for past in spin_configurations(t - 1)] for J in (two, 0.0))
        claims.check("shen-eq62", right, conditional_of_up(weights, t), 1e-12, remark=True)
        with pytest.raises(claims.ClaimFailed):  # without the second neighbour before it
            claims.check("shen-eq62", wrong, conditional_of_up(weights, t), 1e-3, remark=True)
    false = {"outcome": "false", "erratum": 13, "remark": True, "note": "Eq. 62 stands"}
    numbers, futures = 4 * (length - 2) + 2, 2 ** (length - 1)
    claims.check("shen-eq62", numbers, at_least=futures, **false)
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):
        claims.check("shen-eq62", futures, at_least=futures, **false)


def correlations(bonds: dict[tuple[int, int], float], spins: int) -> np.ndarray:
    """<s_0 s_r> of spins with these couplings (positive: ferromagnetic), times the inverse temperature."""
    all_spins = spin_configurations(spins).astype(float)
    weights = np.exp(sum(K * all_spins[:, i] * all_spins[:, j] for (i, j), K in bonds.items()))
    return np.asarray(weights @ (all_spins[:, :1] * all_spins[:, 1:]) / weights.sum())


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.5, 4.0])
@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0])
def test_correlations_of_a_ferromagnet_are_at_least_those_of_one_bond(alpha: float, strength: float) -> None:
    spins = 9
    bonds = {(i, j): strength * (j - i) ** -alpha for j in range(spins) for i in range(j)}
    ring = {(i, j): strength * min(j - i, spins - j + i) ** -alpha for i, j in bonds}
    alone = np.tanh(strength * np.arange(1.0, spins) ** -alpha)
    found = correlations(bonds, spins)
    claims.check("shen-fine-tuning", found / alone, at_least=1)
    claims.check("shen-fine-tuning", correlations(ring, spins) / alone, at_least=1)
    information = found * np.arctanh(found) + 0.5 * np.log1p(-(found**2))
    claims.check("shen-fine-tuning", information / (0.5 * alone**2), at_least=1)
    one_bond = correlations({(0, 5): strength * 5**-alpha}, spins)
    np.testing.assert_allclose(one_bond, np.where(np.arange(1, spins) == 5, alone[4], 0.0), atol=1e-14)
    mixed = {(0, 1): strength, (0, 2): strength * 2**-alpha, (1, 2): -strength}  # one antiferromagnetic bond
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fine-tuning", correlations(mixed, 3) / alone[:2], at_least=1)
    distances = np.arange(1.0, 300)
    with pytest.raises(claims.ClaimFailed):  # neighbours alone: an exponential falls below every power
        nearest = np.tanh(strength) ** distances
        claims.check("shen-fine-tuning", nearest / np.tanh(strength * distances**-alpha), at_least=1)


def test_bad_input_is_refused() -> None:
    for call in (
        lambda: spin_configurations(0),
        lambda: spin_configurations(21),
        lambda: spin_configurations(2.5),
        lambda: spin_configurations("a"),
        lambda: pair_energy("ab", [0, 1]),
        lambda: pair_energy([0, 1], [0, 1]),
        lambda: pair_energy([1, -1], []),
        lambda: double_sum_energy([1, -1], [np.nan]),
        lambda: boltzmann_distribution([np.inf, 0], 1.0),
        lambda: boltzmann_distribution([1.0, 2.0], None),
        lambda: boltzmann_distribution([1.0, 2.0], 1e308),
        lambda: conditional_of_up([0.2, 0.3, 0.5], 1),
        lambda: conditional_of_up([0.25] * 4, 3),
        lambda: conditional_of_up([0.25] * 4, 1.5),
        lambda: conditional_of_up([], 1),
        lambda: conditional_of_up([1.0, -1.0, 0.5, 0.5], 2),
        lambda: conditional_of_up([np.nan, 0.5, 0.5, 0.0], 2),
        lambda: conditional_of_up([1.0, 0.0, 0.0, 0.0], 2),  # the past -1 happens, the past +1 never
        lambda: conditionals([0.0, 1.0], 400.0, 4, 3),  # so cold that some weights are 0
        lambda: strip_correlation_length(0, 0.3),
        lambda: strip_correlation_length(11, 0.3),
        lambda: strip_correlation_length(1.5, 0.3),
        lambda: strip_correlation_length(1, "a"),
        lambda: strip_correlation_length(3, -0.3),
        lambda: strip_correlation_length(8, 3.0),
        lambda: square_lattice_correlation_length(0.0),
    ):
        with pytest.raises(ValueError, match=r"allowed|enumerated"):
            call()
