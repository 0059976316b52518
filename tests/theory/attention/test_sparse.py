"""Gradients under sparse attention: sums over paths, the network's own derivatives, and the claims of the chapter."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from torch.func import jacfwd

from lib.models.recurrent.attentive import AttentiveRNN
from lib.report import claims
from lib.theory import sparse_attention_gradient
from lib.theory.attention import paths as patterns
from lib.theory.attention import paths as plain
from lib.theory.attention import sparse as theory

CANCELLING = [[1], [2], [2]] + [[4]] * 40  # all later gradients vanish at lambda = -1/2


def gallery(length: int) -> dict[str, list[list[int]]]:
    return {
        "no attention": patterns.no_attention(length),
        "full": patterns.full_attention(length),
        "chain": patterns.window(length, 1),
        "window": patterns.window(length, 4),
        "dilated": patterns.window(length, 3, stride=2),
        "hub": patterns.hubs(length, [3]),
        "hubs and window": patterns.hubs(length, [2, 6], 2),
        "tree": patterns.dyadic_tree(length),
        "random": patterns.random_sparse(length, 3, 5),
    }


@st.composite
def any_pattern(draw: Any, longest: int = 9) -> list[list[int]]:
    length = draw(st.integers(1, longest))
    return [sorted(draw(st.sets(st.integers(1, tau)))) for tau in range(1, length + 1)]


@settings(max_examples=60, deadline=None)
@given(any_pattern(), st.data())
def test_the_recursion_equals_the_sum_over_paths(attended: list[list[int]], data: Any) -> None:
    t = data.draw(st.integers(1, len(attended)))
    k = len(attended) - t
    coefficients = theory.path_sum(attended, t, k)
    assert theory.gradient_polynomial(attended, t, k) == coefficients
    for eigenvalue in (Fraction(2, 7), Fraction(-5, 3), Fraction(0)):
        exact = sum(chi * eigenvalue**s for s, chi in enumerate(coefficients))
        assert theory.gradient_recursion(eigenvalue, attended, t, k)[-1] == exact
        assert sparse_attention_gradient(float(eigenvalue), attended, t, k) == pytest.approx(float(exact), abs=1e-12)


def test_one_step_off_is_another_polynomial() -> None:
    for attended in gallery(12).values():
        assert theory.path_sum(attended, 3, 6) != theory.path_sum(attended, 3, 5)
    right = sum(theory.path_sum(a, 3, 6) == theory.gradient_polynomial(a, 3, 6) for a in gallery(12).values())
    slip = sum(theory.path_sum(a, 3, 6) == theory.gradient_polynomial(a, 4, 6) for a in gallery(12).values())
    claims.check("kerg-thm2", len(gallery(12)) - right, at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", len(gallery(12)) - slip, at_most=0)


@pytest.mark.parametrize("name", gallery(5))
def test_complex_eigenvalues_and_symbols_follow_the_same_polynomial(name: str) -> None:
    attended, t = gallery(12)[name], 2
    z, symbol = 0.3 + 0.4j, sympy.Symbol("lambda")
    steps = np.array([[0, 3], [9, 10]])
    found = sparse_attention_gradient(z, attended, t, steps)
    assert found.shape == steps.shape and found.dtype == np.complex128
    for k in range(11):
        chi = theory.gradient_polynomial(attended, t, k)
        value = sum(complex(c) * z**s for s, c in enumerate(chi))
        assert sparse_attention_gradient(z, attended, t, k) == pytest.approx(value, abs=1e-13)
        assert k not in steps or np.isclose(found[steps == k][0], value, rtol=1e-13, atol=0)
    expression = theory.gradient_recursion(symbol, attended, t, 4)[-1]
    expected = sum(sympy.Rational(c) * symbol**s for s, c in enumerate(theory.gradient_polynomial(attended, t, 4)))
    assert sympy.expand(expression - expected) == 0


def test_full_attention_is_uniform_attention() -> None:
    uniform = pytest.importorskip("lib.theory.attention.uniform").uniform_attention_gradient
    for eigenvalue in (0.5, -0.7, 0.3 + 0.4j):
        for t in (1, 4):
            full = patterns.full_attention(t + 200)
            steps = np.arange(200)
            sparse = sparse_attention_gradient(eigenvalue, full, t, steps)
            assert np.allclose(sparse, uniform(eigenvalue, t, steps), rtol=1e-10, atol=0)


@pytest.mark.parametrize("eigenvalue", [Fraction(1, 3), Fraction(-2, 3)])
def test_full_attention_follows_the_three_term_recursion(eigenvalue: Fraction) -> None:
    for t in (1, 3):
        values = theory.gradient_recursion(eigenvalue, patterns.full_attention(t + 12), t, 12)
        assert values[0] == 1 + Fraction(1, t)
        for k in range(1, 12):
            n = t + k
            right = (n + eigenvalue * (n + 2)) * values[k] - eigenvalue * n * values[k - 1]
            assert (n + 1) * values[k + 1] == right


@pytest.mark.parametrize("name", ["full", "chain", "window", "dilated", "tree", "random", "hubs and window"])
def test_automatic_differentiation_of_a_linear_network_agrees(name: str) -> None:
    length, t = 16, 3
    attended = gallery(length)[name]
    attended = [row or [tau] for tau, row in enumerate(attended, start=1)]
    network = AttentiveRNN(2, 5, activation="linear", attention="uniform", attended=attended, gain=0.8, seed=1)
    network.requires_grad_(False)
    inputs = torch.tensor(np.random.default_rng(2).standard_normal((length, 2)))
    state = network.trace(inputs).h[t - 1]
    found = jacfwd(lambda h: network.trace(inputs, {t: h}).s)(state)[t - 1 :].numpy()
    V = network.V.numpy()
    exact = theory.sparse_attention_jacobian(V, attended, t, length - t)
    scale = np.linalg.norm(exact, axis=(1, 2))
    claims.check("kerg-thm2", np.max(np.abs(found - exact), axis=(1, 2)) / scale, at_most=1e-12)
    other = theory.sparse_attention_jacobian(0.9 * V, attended, t, length - t)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", np.max(np.abs(found - other), axis=(1, 2)) / scale, at_most=1e-12)


def test_the_jacobian_is_the_polynomial_of_the_matrix() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.standard_normal((3, 3)) / 2
    for attended in gallery(12).values():
        for k, jacobian in enumerate(theory.sparse_attention_jacobian(matrix, attended, 3, 9)):
            chi = theory.gradient_polynomial(attended, 3, k)
            exact = sum(float(c) * np.linalg.matrix_power(matrix, s) for s, c in enumerate(chi))
            assert np.allclose(jacobian, exact, rtol=1e-12, atol=1e-13)
    turn = np.array([[0.3, -0.4], [0.4, 0.3]])  # eigenvalues 0.3 +- 0.4i
    jacobian = theory.sparse_attention_jacobian(turn, gallery(12)["tree"], 3, 9)[-1]
    value = sparse_attention_gradient(0.3 + 0.4j, gallery(12)["tree"], 3, 9)
    assert np.allclose(np.linalg.eigvals(jacobian).imag.max(), abs(value.imag), atol=1e-13)
    with pytest.raises(ValueError, match=r"below 1\.8e308"):
        theory.sparse_attention_jacobian(np.diag([2.0, 0.5]), [[t] for t in range(1, 2502)], 1, 2500)


def test_no_pattern_explodes_for_moduli_up_to_one_half() -> None:
    def largest(modulus: float) -> float:
        return max(
            np.abs(sparse_attention_gradient(modulus * np.exp(1j * angle), attended, 3, np.arange(90))).max()
            for attended in gallery(100).values()
            for angle in np.linspace(0, np.pi, 7)
        )

    claims.check("kerg-thm2", largest(0.5), at_most=2 + 1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", largest(0.6), at_most=2 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(any_pattern())
def test_at_one_half_every_pattern_without_empty_sets_gives_two(attended: list[list[int]]) -> None:
    filled = [row or [tau] for tau, row in enumerate(attended, start=1)]
    assert set(theory.gradient_recursion(Fraction(1, 2), filled, 1, len(filled) - 1)) == {Fraction(2)}


@pytest.mark.parametrize(("width", "others"), [(1, 0), (4, 0), (9, 0), (4, 2), (3, 3)])
def test_windows_grow_at_the_rate_of_the_characteristic_root(width: int, others: int) -> None:
    attended = patterns.hubs(900, range(1, others + 1), width)
    for eigenvalue in (0.8, 0.95):
        p = sparse_attention_gradient(eigenvalue, attended, others + 1, np.arange(801))
        measured = (p[800] / p[600]) ** (1 / 200)
        rate = theory.window_growth_rate(eigenvalue, width, others)
        claims.check("kerg-thm2", measured, rate, 1e-9)
        with pytest.raises(claims.ClaimFailed):
            claims.check("kerg-thm2", measured, theory.window_growth_rate(eigenvalue, width + 1, others), 1e-9)
    kappa = width + others
    threshold = kappa / (kappa + width)
    assert theory.window_growth_rate(threshold, width, others) == pytest.approx(1.0, abs=1e-12)
    below, above = (theory.window_growth_rate(threshold + shift, width, others) for shift in (-0.01, 0.01))
    assert below < 1 < above


def test_averaging_in_place_of_adding_halves_the_eigenvalue() -> None:
    attended, t = patterns.hubs(14, [2], 3), 2
    network = AttentiveRNN(1, 1, activation="linear", combination="mean", attention="uniform", attended=attended)
    network.requires_grad_(False).V.fill_(0.9)
    inputs = torch.ones(14, 1, dtype=torch.float64)
    found = jacfwd(lambda h: network.trace(inputs, {t: h}).s)(network.trace(inputs).h[t - 1])[t - 1 :, 0, 0].numpy()
    assert np.allclose(found, 0.5 * sparse_attention_gradient(0.45, attended, t, np.arange(13)), rtol=1e-13, atol=0)


def test_a_negative_eigenvalue_gives_an_exact_zero_for_ever() -> None:
    negative = theory.gradient_recursion(Fraction(-1, 2), CANCELLING, 1, 40)
    claims.check("kerg-thm2", [float(abs(p)) for p in negative[2:]], at_most=0.0)
    for other in (Fraction(1, 2), Fraction(-1, 3)):
        values = theory.gradient_recursion(other, CANCELLING, 1, 40)
        with pytest.raises(claims.ClaimFailed):
            claims.check("kerg-thm2", [float(abs(p)) for p in values[2:]], at_most=0.0)
    jacobians = theory.sparse_attention_jacobian(-np.eye(3) / 2, CANCELLING, 1, 40)
    assert np.all(jacobians[2:] == 0)


def towards_zero(x: Fraction, length: int) -> list[list[int]]:
    """Whom the last states attend to, first to last, so that p comes near 0 at -x."""
    low, high = -2 * x / (1 - x**2), (1 + x**2) / (1 - x**2)
    rest, attended = Fraction(0), list[list[int]]()
    for _ in range(length):
        for time, term in ((2, Fraction(1)), (3, -x)):
            if low <= (term - rest) / x <= high:
                rest = (term - rest) / x
                attended.append([time])
                break
        else:
            raise ValueError(f"nothing leads on at {x}")
    return attended[::-1]


def near_zero(x: Fraction, attended: list[list[int]]) -> float:
    p = theory.gradient_recursion(-x, attended, 2, len(attended) - 2)
    return float(min(map(abs, p[len(p) // 2 :])) / abs(x))


def test_an_interval_of_eigenvalues_is_critical_for_one_pattern_of_depth_one() -> None:
    xs = [Fraction(50 + 7 * n, 100) for n in range(6)]
    words = [state for x in xs for state in towards_zero(x, 60)]
    attended = [[1], [1], [2], *words, *words]
    assert patterns.largest_attention(attended) == 1
    assert set(patterns.dependency_depth(attended, 2, np.arange(1, len(attended) - 1))) == {0, 1}
    smallest = [near_zero(x, attended) for x in xs]
    for x, found in zip(xs, smallest, strict=True):
        assert found <= float(2 * x**59 / (1 - x)) + 1e-30
    claims.check("kerg-critical", smallest, at_least=0.1, outcome="false", erratum=47, note="survives")
    with pytest.raises(claims.ClaimFailed):  # the hypothesis as it stands
        claims.check("kerg-critical", smallest, at_least=0.1)
    hub = [[1], [1]] + [[2]] * len(words)
    with pytest.raises(claims.ClaimFailed):  # a pattern for which none of them is critical
        claims.check(
            "kerg-critical", [near_zero(x, hub) for x in xs], at_least=0.1, outcome="false", erratum=47, note="survives"
        )
    with pytest.raises(ValueError, match="nothing leads on"):  # below one half the images leave a gap
        towards_zero(Fraction(9, 20), 60)


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(2, 3), Fraction(9, 10), Fraction(49, 100), Fraction(1, 3)])
def test_two_images_cover_the_interval_from_one_half_on(x: Fraction) -> None:
    low, high = -2 * x / (1 - x**2), (1 + x**2) / (1 - x**2)
    images = sorted(sorted((c - x * low, c - x * high)) for c in (Fraction(1), -x))
    assert (images[0][0], images[1][1]) == (low, high)
    assert (images[0][1] >= images[1][0]) == (x >= Fraction(1, 2))


def test_without_attention_the_gradient_is_a_power() -> None:
    steps = np.arange(0, 600, 7)
    alone = sparse_attention_gradient(0.7, patterns.no_attention(610), 4, steps)
    claims.check("kerg-baseline", alone, 0.7**steps, 1e-12, relative=True)
    slope = np.polyfit(steps, np.log(alone), 1)[0]
    claims.check("kerg-baseline", slope, np.log(0.7), 1e-10)
    attentive = sparse_attention_gradient(0.7, patterns.hubs(610, [4]), 4, steps)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-baseline", attentive, 0.7**steps, 1e-12, relative=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-baseline", np.polyfit(steps, np.log(attentive), 1)[0], np.log(0.7), 1e-10)


def test_powers_of_a_matrix_that_is_not_normal_stay_between_the_kreiss_bounds() -> None:
    for matrix in (0.9 * np.eye(3) + np.eye(3, k=1), np.array([[0.5, 20.0], [0.0, -0.6]]), np.diag([0.3, 0.8])):
        norms, kreiss = plain.power_norms(matrix, 400), plain.kreiss_constant(matrix)
        claims.check("kerg-baseline", norms.max(), at_least=kreiss * (1 - 1e-9), at_most=np.e * len(matrix) * kreiss)
    jordan = 0.9 * np.eye(3) + np.eye(3, k=1)
    normal_kreiss = plain.kreiss_constant(0.9 * np.eye(3))
    assert normal_kreiss == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(claims.ClaimFailed):  # the bound of the normal matrix with the same eigenvalues
        claims.check("kerg-baseline", plain.power_norms(jordan, 400).max(), at_most=3 * np.e * normal_kreiss)
    exact = [np.linalg.norm(np.linalg.matrix_power(jordan, k), 2) for k in range(50)]
    assert np.allclose(plain.power_norms(jordan, 49), exact, rtol=1e-12, atol=0)
    assert plain.power_norms([[2.0]], 2000)[[1023, -1]] == pytest.approx([2.0**1023, np.inf], rel=1e-9)
    for matrix in (1j * jordan, np.empty((0, 0)), [[1j]]):
        with pytest.raises(ValueError, match="allowed"):
            plain.power_norms(matrix, 3)


def test_the_rate_of_a_jordan_block_is_that_of_its_eigenvalue() -> None:
    norms, late = plain.power_norms(0.9 * np.eye(3) + np.eye(3, k=1), 3000), np.arange(1500, 3001)
    columns = np.column_stack([late, np.log(late), np.ones(len(late))])
    rate, power, _ = np.linalg.lstsq(columns, np.log(norms[late]), rcond=None)[0]
    claims.check("kerg-baseline", rate, np.log(0.9), 1e-4)
    assert power == pytest.approx(2.0, abs=0.01)
    with pytest.raises(claims.ClaimFailed):  # the transient alone would say that nothing decays
        claims.check("kerg-baseline", np.polyfit(np.arange(20), np.log(norms[:20]), 1)[0], np.log(0.9), 1e-4)


def tanh_exponent(gain: float, orthogonal: bool, seed: int) -> float:
    generator = np.random.default_rng(seed)
    gaussian = generator.standard_normal((24, 24))
    V = gain * (np.linalg.qr(gaussian)[0] if orthogonal else gaussian / np.sqrt(24))
    jacobians = plain.tanh_jacobians(V, 0.2 * generator.standard_normal((300, 24)), generator.standard_normal(24))
    return float(plain.log_product_norms(jacobians, 24)[-1] / 300)


def test_tanh_decays_faster_than_the_linear_network_unless_weights_are_large() -> None:
    assert max(tanh_exponent(0.95, True, seed) for seed in range(3)) < np.log(0.95)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-baseline", min(tanh_exponent(6.0, False, seed) for seed in range(3)), at_most=np.log(0.95))


def test_tanh_jacobians_are_those_of_the_network() -> None:
    generator = np.random.default_rng(3)
    V, drive, start = (generator.standard_normal(shape) for shape in ((4, 4), (6, 4), (4,)))

    def run(h: Any) -> Any:
        for b in torch.tensor(drive):
            h = torch.tanh(torch.tensor(V) @ h + b)
        return h

    exact = jacfwd(run)(torch.tensor(start)).numpy()
    jacobians = plain.tanh_jacobians(V, drive, start)
    assert np.allclose(np.linalg.multi_dot(list(jacobians[::-1])), exact, atol=1e-13)
    assert plain.log_product_norms(jacobians, 4)[-1] == pytest.approx(np.log(np.linalg.norm(exact, 2)), abs=1e-12)
    nothing = plain.log_product_norms(np.zeros((3, 2, 2)), 2)
    assert nothing[0] == 0 and np.all(nothing[1:] == -np.inf)


def compared(found: np.ndarray, exact: list[Any], tolerance: float) -> np.ndarray:
    """Which exact gradients are floats; the others have to be infinite with their sign."""
    inside = np.array([abs(p) < np.finfo(float).max for p in exact])
    signs = np.array([float(mpmath.sign(p)) for p in exact])
    assert np.array_equal(found[~inside], np.inf * signs[~inside])
    assert np.isfinite(found[inside]).all()
    near = np.array([float(p) for p, known in zip(exact, inside, strict=True) if known])
    assert np.allclose(found[inside], near, rtol=tolerance, atol=1e-320)
    return inside


@pytest.mark.parametrize("name", gallery(7))
@pytest.mark.parametrize("eigenvalue", [2.5, 1.25, 0.1, 1e308, 1e-200, -3.0, -1.5, -1e200])
def test_beyond_the_floats_are_infinities_of_the_right_sign(name: str, eigenvalue: float) -> None:
    count = 12 if abs(np.log10(abs(eigenvalue))) > 100 else 900
    attended = gallery(count + 4)[name]
    for t in (1, 5):
        found = sparse_attention_gradient(eigenvalue, attended, t, np.arange(count))
        compared(found, gradients_in_mpmath(eigenvalue, attended, t, count), 1e-12 if eigenvalue > 0 else 1e-9)


def test_a_gradient_that_leaves_the_floats_comes_back() -> None:
    for attended, far in (
        (patterns.window(1400, 1) + patterns.no_attention(2000), 0),  # up to 1.8^1400
        (patterns.no_attention(9000) + [[tau] for tau in range(9001, 10801)], 8000),  # 0.9^9000 is no float
    ):
        found = sparse_attention_gradient(0.9, attended, 1, np.arange(len(attended)))
        exact = gradients_in_mpmath(0.9, attended, 1, len(attended))
        inside = compared(found, exact, 1e-11)
        assert inside[-1] and (found[far] == 0 or not inside.all())


def gradients_in_mpmath(eigenvalue: float, attended: list[list[int]], t: int, count: int) -> list[Any]:
    with mpmath.workdps(60):
        states, gradients = [mpmath.mpf(1)], []
        for j in range(count):
            row = attended[t + j - 1]
            gradients.append(states[j] + mpmath.fsum(states[i - t] for i in row if i >= t) / max(len(row), 1))
            states.append(eigenvalue * gradients[j])
        return gradients


def test_complex_growth_is_infinite_in_each_part() -> None:
    found = sparse_attention_gradient(1e200j, patterns.full_attention(9), 1, [1, 2, 3, 4])
    exact = gradients_in_mpmath(1e200j, patterns.full_attention(9), 1, 5)
    assert found[0] == complex(exact[1])
    for value, p in zip(found[1:], exact[2:], strict=True):
        for part, known in ((value.real, p.real), (value.imag, p.imag)):
            expected = np.inf * float(mpmath.sign(known)) if abs(known) > 1e308 else float(known)
            assert part == pytest.approx(expected, rel=1e-14, abs=0)


def test_rows_may_come_from_an_iterator_and_numbers_from_tensors() -> None:
    for rows in (iter([[1], [1, 2]]), map(list, [[1], [1, 2]]), ([*range(1, tau + 1)] for tau in (1, 2))):
        assert sparse_attention_gradient(0.5, rows, 1, 1) == 2.0  # type: ignore[arg-type]
    tensors = [[1], [torch.tensor(1), torch.tensor([2])]]
    assert sparse_attention_gradient(0.5, tensors, 1, 1) == 2.0
    with pytest.raises(ValueError, match=r"1 .. 2, got 3"):
        sparse_attention_gradient(0.5, iter([[1], [3]]), 1, 1)  # type: ignore[arg-type]
    for number in (torch.tensor(0.5, requires_grad=True), torch.tensor(0.5, dtype=torch.bfloat16), Fraction(1, 2)):
        assert sparse_attention_gradient(number, [[1], [1, 2]], np.uint64(1), torch.tensor(1)) == 2.0  # type: ignore


@pytest.mark.parametrize(
    ("attended", "t", "k", "words"),
    [
        ([[1], [3]], 1, 1, r"attended\[1\]: s_2 may attend to the times 1 .. 2, got 3"),
        ([[1], [0]], 1, 1, r"attended\[1\].*got 0"),
        ([[1], [2, 2]], 1, 1, r"attended\[1\].*2 twice"),
        ([[1], [1.5]], 1, 1, "whole numbers"),
        ([[1], ["a"]], 1, 1, "whole numbers"),
        ([[[1]], [[1]]], 1, 1, "whole numbers"),
        ([[1], [[1]]], 1, 1, r"rows of whole numbers are allowed, got \[1\]"),
        ([[1], [True, 2]], 1, 1, "rows of whole numbers are allowed, got True"),
        ([[1], [2, np.True_]], 1, 1, "rows of whole numbers are allowed, got np.True_"),
        ([[1], [2, torch.tensor(True)]], 1, 1, "rows of whole numbers are allowed"),
        ([[1], [None]], 1, 1, "rows of whole numbers are allowed, got None"),
        ([[1], [2**70]], 1, 1, f"below 2.63 are allowed, got {2**70}"),
        ([1, 2], 1, 1, "sequence of sequences"),
        (None, 1, 1, "sequence of sequences"),
        ([[1], [1]], 1, 2, r"t \+ k = 3 are needed, got 2"),
        ([[1], [1]], 0, 1, "t: a whole number of at least 1"),
        ([[1], [1]], 1.5, 1, "t: a whole number of at least 1"),
        ([[1], [1]], 1, -1, "k: whole numbers with 0 <= k"),
        ([[1], [1]], 1, [0, -1], "k: whole numbers with 0 <= k"),
        ([[1], [1]], 1, 0.5, "k: whole numbers with 0 <= k"),
    ],
)
def test_bad_input_is_refused_with_the_reason(attended: Any, t: Any, k: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sparse_attention_gradient(0.5, attended, t, k)


@pytest.mark.parametrize("eigenvalue", [np.nan, np.inf, 1j * np.inf, "a", "1.5", None, [0.1, 0.2], 10**400])
def test_eigenvalues_that_are_no_finite_number_are_refused(eigenvalue: Any) -> None:
    with pytest.raises(ValueError, match="eigenvalue"):
        sparse_attention_gradient(eigenvalue, [[1], [1]], 1, 1)


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="square"):
        theory.sparse_attention_jacobian(np.ones((2, 3)), [[1]], 1, 0)
    with pytest.raises(ValueError, match="at most 20"):
        theory.path_sum(patterns.no_attention(30), 1, 21)
    with pytest.raises(ValueError, match="width"):
        theory.window_growth_rate(0.5, 0)
    with pytest.raises(ValueError, match="square"):
        plain.power_norms(np.ones(3), 2)
    with pytest.raises(ValueError, match="spectral radius below 1"):
        plain.kreiss_constant(np.eye(2))
    with pytest.raises(ValueError, match="drive"):
        plain.tanh_jacobians(np.eye(2), np.ones((3, 1)), np.ones(2))
    for wrong in (np.nan, np.inf, complex(0, np.nan)):
        with pytest.raises(ValueError, match="recurrent: finite"):
            theory.sparse_attention_jacobian([[wrong]], [[1], [1, 2]], 1, 1)
    for drive, start in ((np.nan, 1.0), (1.0, np.inf)):
        with pytest.raises(ValueError, match="drive and start: finite"):
            plain.tanh_jacobians(np.eye(2), np.full((3, 2), drive), np.full(2, start))


def without_positive_eigenvalue(size: int, count: int = 1500) -> tuple[float, float]:
    """95 % interval of the share of Gaussian matrices of this size without a positive real eigenvalue."""
    found = np.linalg.eigvals(np.random.default_rng(size).standard_normal((count, size, size)))
    none = ~np.any((found.imag == 0) & (found.real > 0), axis=1)
    interval = binomtest(int(none.sum()), count).proportion_ci()
    return float(interval.low), float(interval.high)


def test_few_matrices_have_no_positive_eigenvalue_and_fewer_the_larger_they_are() -> None:
    known = 1 - np.sqrt(0.5) + (np.sqrt(0.5) - 0.5) / 2  # n = 2: a complex pair, or two negative numbers
    low, high = without_positive_eigenvalue(2)
    claims.check("kerg-remark21", (low + high) / 2, known, within=(low, high))
    claims.check("kerg-remark21", [without_positive_eigenvalue(n)[1] for n in (3, 9, 25)], at_most=0.5)
    claims.check("kerg-remark21", without_positive_eigenvalue(25)[1], at_most=without_positive_eigenvalue(3)[0])
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-remark21", without_positive_eigenvalue(3)[1], at_most=without_positive_eigenvalue(25)[0])
    with pytest.raises(claims.ClaimFailed):  # a single number is positive in half of the cases
        claims.check("kerg-remark21", without_positive_eigenvalue(1)[1], at_most=0.5)


def near_a_critical_value(attended: list[list[int]], t: int) -> float:
    """Share of the points of a small grid in the disc at which the gradient gets below a tenth of its path's weight."""
    k = np.arange(60, 160)
    depth, most = patterns.dependency_depth(attended, t, k).max(), patterns.largest_attention(attended)
    disc = (np.array([0.3, 0.6, 0.8, 0.95])[:, None] * np.exp(1j * np.pi * (np.arange(10) + 0.5) / 10)).ravel()
    least = [np.abs(sparse_attention_gradient(z, attended, t, k)).min() for z in disc]
    return float(np.mean(most * np.array(least) * (most / np.abs(disc)) ** min(depth, 3) < 0.1))


def test_critical_values_are_few_where_a_short_path_exists_and_everywhere_without_attention() -> None:
    claims.check("kerg-critical", near_a_critical_value(patterns.hubs(170, [4]), 4), at_most=0.1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-critical", near_a_critical_value(patterns.no_attention(170), 4), at_most=0.1)


def test_the_critical_values_of_equation_296_are_roots_of_unity_of_one_order_more() -> None:
    roots = np.roots(np.ones(8))  # lambda^2 + ... + lambda^9 over lambda^2: c - d = 7
    orders = [float(np.abs(roots**order - 1).max()) for order in (8, 7)]
    misprint = {"at_most": 1e-10, "outcome": "misprint", "erratum": 60}
    claims.check("kerg-critical", orders[0], printed=orders[1], **misprint)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-critical", orders[1], printed=orders[0], **misprint)
