"""The recursion C_k = E_k + sum F_{k,j} C_j against sums over paths, in exact arithmetic."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.report import claims
from lib.theory.gradients import recursion as theory

LONGEST = 6


def rational_tables(k, size=2, seed=0):
    """Random rational E and F, which do not commute."""
    generator = np.random.default_rng(seed)

    def matrix():
        entries = zip(generator.integers(-9, 10, size**2), generator.integers(1, 8, size**2), strict=True)
        return np.array([Fraction(int(a), int(b)) for a, b in entries], dtype=object).reshape(size, size)

    return [matrix() for _ in range(k + 1)], [[matrix() for _ in range(n)] for n in range(k + 1)]


def scalar(value):
    return np.array([[value]], dtype=object)


def words(k):
    """E and F as letters that do not commute."""

    def letter(name):
        return scalar(sympy.Symbol(name, commutative=False))

    return [letter(f"E{n}") for n in range(k + 1)], [[letter(f"F{n}{j}") for j in range(n)] for n in range(k + 1)]


def different(first, second):
    """Entries in which two lists of exact matrices differ."""
    return sum(int(np.sum(a != b)) for a, b in zip(first, second, strict=True))


def shorter(tables, k):
    return tables[0][: k + 1], tables[1][: k + 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_recursion_equals_the_sum_over_paths(seed):
    tables = rational_tables(LONGEST, 3 if seed == 0 else 2, seed)
    C = theory.recursion(*tables)
    for k in range(LONGEST + 1):
        assert different([C[k]], [theory.sum_over_paths(*shorter(tables, k))]) == 0
        assert different([C[k]], [theory.shared_sum_over_paths(*shorter(tables, k))]) == 0


def test_terms_by_degree_equal_the_paths_of_that_degree_and_sum_to_the_gradient():
    tables = rational_tables(LONGEST)
    rows, C = theory.terms_by_degree(*tables), theory.recursion(*tables)
    for k in range(LONGEST + 1):
        by_paths = [theory.degree_by_paths(*shorter(tables, k), s) for s in range(k + 1)]
        assert different(rows[k], by_paths) == 0
        assert different([sum(rows[k][1:], rows[k][0])], [C[k]]) == 0


def test_words_of_letters_that_do_not_commute_agree():
    E, F = words(4)
    difference = theory.recursion(E, F)[4] - theory.sum_over_paths(E, F)
    assert sympy.expand(difference[0, 0]) == 0
    expanded = sympy.expand(theory.recursion(*words(2))[2][0, 0])
    E0, E1, E2, F10, F20, F21 = sympy.symbols("E0 E1 E2 F10 F20 F21", commutative=False)
    assert expanded == E2 + F20 * E0 + F21 * E1 + F21 * F10 * E0


def test_lemma_three_solves_the_recursion_from_any_start():
    E, F = rational_tables(LONGEST, seed=4)
    start, identity = rational_tables(0, seed=9)[0][0], np.array([[1, 0], [0, 1]], dtype=object)
    solved = theory.solve(start, E, F)
    for k in range(1, LONGEST + 1):
        total = theory.propagator(F, 0, k, identity) @ start
        for r in range(1, k + 1):
            total = total + theory.propagator(F, r, k, identity) @ E[r]
        assert different([solved[k]], [total]) == 0
    assert different(theory.solve(E[0], E, F), theory.recursion(E, F)) == 0


def test_lemma_four_regroups_lemma_three_by_degree():
    E, F = rational_tables(LONGEST, seed=5)
    identity = np.array([[1, 0], [0, 1]], dtype=object)
    for k in range(1, LONGEST + 1):
        total = E[k] + sum(theory.propagator(F, k - q, k, identity) @ E[k - q] for q in range(1, k + 1))
        assert different([total], [theory.recursion(E, F)[k]]) == 0


def test_a_path_multiplies_the_latest_factor_from_the_left():
    E, F = words(5)
    E1, F31, F53 = sympy.symbols("E1 F31 F53", commutative=False)
    assert theory.path_product((1, 3), E, F)[0, 0] == F53 * F31 * E1
    assert theory.path_product((), E, F)[0, 0] == sympy.Symbol("E5", commutative=False)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(0, 10))
def test_paths_are_subsets_and_their_number_is_a_power_of_two(k, degree):
    listed = list(theory.paths(k))
    assert len(listed) == len(set(listed)) == 2**k
    assert all(list(path) == sorted(set(path)) and set(path) <= set(range(k)) for path in listed)
    assert len(list(theory.paths(k, degree))) == comb(k, degree)


@pytest.mark.parametrize("k", range(LONGEST + 1))
def test_products_counted_are_the_products_derived(k):
    costs = {
        theory.recursion: k * (k + 1) // 2,
        theory.terms_by_degree: k * (k + 1) * (k + 2) // 6,
        theory.shared_sum_over_paths: 2 ** (k + 1) - k - 2,
        theory.sum_over_paths: k * 2 ** (k - 1) if k else 0,
    }
    for way, cost in costs.items():
        E, F, counter = theory.counted(*rational_tables(k))
        way(E, F)
        assert counter[0] == cost, way


@settings(max_examples=20, deadline=None)
@given(st.lists(st.fractions(min_value=-3, max_value=3, max_denominator=9), min_size=10, max_size=10))
def test_scalars_in_one_by_one_matrices_solve_a_triangular_system(numbers):
    E = [scalar(value) for value in numbers[:4]]
    F = [[scalar(value) for value in numbers[4 + n * (n - 1) // 2 : 4 + n * (n + 1) // 2]] for n in range(4)]
    system = sympy.eye(4) - sympy.Matrix(4, 4, lambda n, j: sympy.Rational(F[n][j][0, 0]) if j < n else 0)
    solution = system.LUsolve(sympy.Matrix([sympy.Rational(e[0, 0]) for e in E]))
    assert [sympy.Rational(C[0, 0]) for C in theory.recursion(E, F)] == list(solution)


def test_tables_that_do_not_fit_are_refused():
    E, F = rational_tables(3)
    for tables in (([], []), (E, F[:3]), (E, [[], *F[:3]])):
        with pytest.raises(ValueError, match="E, F"):
            theory.recursion(*tables)
        with pytest.raises(ValueError, match="E, F"):
            theory.terms_by_degree(*tables)
    with pytest.raises(ValueError, match="degree"):
        theory.degree_by_paths(E, F, 4)
    with pytest.raises(ValueError, match="first, last"):
        theory.propagator(F, 2, 1, 1)
    with pytest.raises(ValueError, match="k: "):
        list(theory.paths(-1))


def test_the_check_of_paths_fails_for_another_order_of_factors():
    tables = rational_tables(LONGEST)
    by_paths = [theory.sum_over_paths(*shorter(tables, k)) for k in range(LONGEST + 1)]
    claims.check("kerg-lemma1-4", different(theory.recursion(*tables), by_paths), at_most=0)
    turned = [e.T for e in tables[0]], [[f.T for f in row] for row in tables[1]]
    reversed_products = [C.T for C in theory.recursion(*turned)]
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", different(reversed_products, by_paths), at_most=0)


def test_the_check_of_paths_fails_for_a_sum_that_leaves_out_one_path():
    tables = rational_tables(LONGEST)
    missing = theory.recursion(*tables)[-1] - theory.path_product((0, 2, 5), *tables)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", different([missing], [theory.sum_over_paths(*tables)]), at_most=0)


def test_the_check_of_degrees_fails_when_degrees_are_shifted_by_one():
    tables = rational_tables(LONGEST)
    row = theory.terms_by_degree(*tables)[LONGEST]
    by_paths = [theory.degree_by_paths(*tables, s) for s in range(LONGEST + 1)]
    claims.check("kerg-lemma1-4", different(row, by_paths), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", different([*row[1:], row[0]], by_paths), at_most=0)


def test_the_check_of_lemma_three_fails_if_the_start_is_taken_for_the_first_block():
    E, F = rational_tables(LONGEST, seed=4)
    start = rational_tables(0, seed=9)[0][0]
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", different(theory.solve(start, E, F), theory.recursion(E, F)), at_most=0)


def test_the_checks_of_counts_fail_for_counts_of_the_neighbouring_length():
    listed = [len(list(theory.paths(k))) for k in range(LONGEST + 1)]
    claims.check("kerg-lemma1-4", listed, [2**k for k in range(LONGEST + 1)], 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", listed, [2 ** (k + 1) for k in range(LONGEST + 1)], 0)
    E, F, counter = theory.counted(*rational_tables(LONGEST))
    theory.recursion(E, F)
    claims.check("kerg-lemma1-4", counter[0], LONGEST * (LONGEST + 1) // 2, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-lemma1-4", counter[0], LONGEST * (LONGEST - 1) // 2, 0)
