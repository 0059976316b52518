"""The gradient under uniform attention: the recursion against paths, exact arithmetic, closed forms and a network."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.models import AttentiveRNN
from lib.theory import uniform_attention_gradient
from lib.theory.attention.forms import (
    amplitude,
    bracket,
    closed_form,
    double_sum,
    exponent,
    jacobian,
    plain_recursion,
    three_term,
)
from lib.theory.attention.sums import AttentionSums, chi_by_definition
from lib.theory.attention.uniform import log_magnitude, scaled_gradient

DIGITS = 1e-15  # relative, of the modulus
REAL = [-1.2, -1.1, -1.0, -0.999, -0.9, -0.5, -1 / 6, -0.1, 0.0, 0.1, 0.3, 0.5, 0.75, 0.9, 0.99, 1.0, 1.05, 1.2]
COMPLEX = [r * np.exp(1j * angle) for r in (0.3, 0.7, 0.95, 1.0, 1.05) for angle in (0.2, 0.9, 1.6, 2.5, 3.1)]


def fixed_point(eigenvalue: complex, t: int, k: list[int], bits: int = 400) -> list[mpmath.mpc]:
    """p_{0:k} in whole numbers of 2^-bits, exact to a few k of them."""
    one = 1 << bits
    a, b = (int(Fraction(part) * one) for part in (complex(eigenvalue).real, complex(eigenvalue).imag))
    wx, wy, dx, dy = one, 0, one, 0
    found = {}
    for step in range(max(k) + 1):
        x, y = wx // (t + step) + dx, wy // (t + step) + dy
        if step in k:
            found[step] = mpmath.mpc(mpmath.mpf(x) / one, mpmath.mpf(y) / one)
        dx, dy = (a * x - b * y) >> bits, (a * y + b * x) >> bits
        wx, wy = wx + dx, wy + dy
    return [found[step] for step in k]


@pytest.mark.parametrize("t", [1, 2, 5, 100])
def test_twelve_digits_and_more_on_a_grid_of_eigenvalues(t: int) -> None:
    k = [0, 1, 2, 3, 10, 31, 100, 316]
    with mpmath.workdps(100):
        for eigenvalue in (*REAL, *COMPLEX):
            exact = fixed_point(eigenvalue, t, k)
            for found, right in zip(uniform_attention_gradient(eigenvalue, t, k), exact, strict=True):
                assert abs(mpmath.mpmathify(complex(found)) - right) <= DIGITS * abs(right), (eigenvalue, t)


@pytest.mark.parametrize("eigenvalue", [-0.9, -1.0, 0.6 + 0.79j])
def test_twelve_digits_and_more_after_a_million_steps(eigenvalue: complex) -> None:
    with mpmath.workdps(60):
        (right,) = fixed_point(eigenvalue, 2, [10**6], bits=120)
        assert abs(complex(uniform_attention_gradient(eigenvalue, 2, 10**6)) - complex(right)) <= DIGITS * abs(right)


@pytest.mark.parametrize("eigenvalue", [-0.95, -0.5, 0.25, 0.5, 0.9, 0.3 + 0.4j, -0.6 + 0.5j, 0.75 + 0.25j])
def test_the_closed_form_is_the_recursion_up_to_a_million_steps(eigenvalue: complex) -> None:
    for t in (1, 2, 100):
        for k in (0, 7, 10**6):
            right = complex(closed_form(eigenvalue, t, k, digits=30))
            assert abs(uniform_attention_gradient(eigenvalue, t, k) - right) <= DIGITS * abs(right)


def test_near_a_change_of_sign_the_relative_precision_stays() -> None:
    """p_{0:1} of t = 1 is 1/2 + 3 lambda: at the float nearest to its zero nearly all digits cancel."""
    eigenvalue = -1 / 6
    exact = Fraction(1, 2) + 3 * Fraction(eigenvalue)
    assert 0 < abs(exact) < 1e-16
    assert uniform_attention_gradient(eigenvalue, 1, 1) == float(exact)
    for k in range(2, 12):  # and between all other sign changes, by bisection to neighbouring floats
        grid = np.linspace(-0.999, -0.001, 500)
        signs = np.sign(uniform_attention_gradient(grid, 1, k))
        for low, high in zip(grid[:-1][np.diff(signs) != 0], grid[1:][np.diff(signs) != 0], strict=True):
            while np.nextafter(low, high) < high:
                middle = 0.5 * (low + high)
                same = uniform_attention_gradient(middle, 1, k) * uniform_attention_gradient(low, 1, k) > 0
                low, high = (middle, high) if same else (low, middle)
            exact = plain_recursion(Fraction(low), 1, k)[-1]
            assert uniform_attention_gradient(low, 1, k) == pytest.approx(float(exact), rel=1e-12)


@given(st.fractions(-1, 1, max_denominator=40), st.integers(1, 6), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_the_recursion_equals_the_sum_over_paths(eigenvalue: Fraction, t: int, k: int) -> None:
    by_paths = sum(eigenvalue**s * chi_by_definition(t, k, s) for s in range(k + 1))
    assert by_paths == plain_recursion(eigenvalue, t, k)[-1] == AttentionSums(t, k, k).gradient(eigenvalue, k)
    found = uniform_attention_gradient(float(eigenvalue), t, k)
    assert found == pytest.approx(float(plain_recursion(Fraction(float(eigenvalue)), t, k)[-1]), rel=1e-14, abs=0)


def test_an_index_slip_in_the_recursion_is_seen() -> None:
    """The weight of the new state is 1/(t+k+1); with 1/(t+k) the sum over paths is another number."""
    eigenvalue, t, k = Fraction(1, 3), 2, 4
    values = [1 + Fraction(1, t)]
    for step in range(k):
        values.append((1 + eigenvalue * sum(values)) / (t + step) + eigenvalue * values[-1])
    assert values[-1] != sum(eigenvalue**s * chi_by_definition(t, k, s) for s in range(k + 1))


def test_all_forms_of_the_recursion_are_the_same_polynomial() -> None:
    eigenvalue = sympy.Symbol("lambda")
    for t in (1, 3):
        words, *others = (form(eigenvalue, t, 6) for form in (plain_recursion, double_sum, three_term, bracket))
        for k, polynomial in enumerate(words):
            assert all(sympy.expand(polynomial - other[k]) == 0 for other in others)
            value = polynomial.subs(eigenvalue, sympy.Rational(-3, 4))
            assert uniform_attention_gradient(-0.75, t, k) == pytest.approx(float(value), rel=1e-14)


def test_a_half_gives_two_for_ever() -> None:
    assert np.all(uniform_attention_gradient(0.5, 1, np.arange(2000)) == 2.0)
    assert plain_recursion(Fraction(1, 2), 1, 50) == [2] * 51


def test_at_zero_only_the_direct_attention_is_left() -> None:
    k = np.arange(1, 50)
    assert np.array_equal(uniform_attention_gradient(0.0, 3, k), 1.0 / (3 + k))
    assert uniform_attention_gradient(0, 3, 0) == 1 + 1 / 3


def test_eigenvalue_and_steps_broadcast() -> None:
    eigenvalues, k = np.array([[0.2], [-0.7], [0.2]]), np.array([5, 0, 9, 5])
    table = uniform_attention_gradient(eigenvalues, 2, k)
    assert table.shape == (3, 4) and table.dtype == np.float64
    for row, eigenvalue in enumerate(eigenvalues[:, 0]):
        for column, step in enumerate(k):
            assert table[row, column] == uniform_attention_gradient(eigenvalue, 2, int(step))
    assert np.ndim(uniform_attention_gradient(0.2, 2, 5)) == 0
    assert uniform_attention_gradient(0.2, 2, []).shape == (0,)
    real_as_complex = uniform_attention_gradient(eigenvalues.astype(complex), 2, k)
    assert np.array_equal(real_as_complex, table.astype(complex))
    conjugate = uniform_attention_gradient(0.3 - 0.4j, 2, k)
    assert np.array_equal(conjugate.conj(), uniform_attention_gradient(0.3 + 0.4j, 2, k))


def test_tensors_and_fractions_are_numbers() -> None:
    for number in (torch.tensor([0.5], requires_grad=True), torch.tensor([0.5]).bfloat16(), [Fraction(1, 2)]):
        assert uniform_attention_gradient(number, 3, torch.tensor([4])) == uniform_attention_gradient(0.5, 3, 4)


def test_growth_beyond_the_floats_is_infinite_with_its_sign_and_has_a_logarithm() -> None:
    assert uniform_attention_gradient(1.2, 1, 10**5) == np.inf
    assert uniform_attention_gradient(-1.2, 1, [10**5, 10**5 + 1]).tolist() == [np.inf, -np.inf]
    assert not np.isnan(uniform_attention_gradient(1.2 + 0.3j, 1, 10**5))
    assert np.isfinite(uniform_attention_gradient(1.0, 1, 125_000))
    k = np.array([10, 1000])
    assert log_magnitude(-0.5, 2, k) == pytest.approx(np.log(np.abs(uniform_attention_gradient(-0.5, 2, k))), rel=1e-13)
    assert log_magnitude(1.2, 1, 10**5) == pytest.approx(1e5 * np.log(1.2), rel=1e-2)
    values, exponents = scaled_gradient([1.2], 1, [10**5])
    assert np.isfinite(values).all() and exponents[0] > 1024


@pytest.mark.parametrize(
    ("eigenvalue", "t", "k", "word"),
    [
        (0.5, 0, 1, "t"),
        (0.5, 1.5, 1, "t"),
        (0.5, True, 1, "t"),
        (0.5, 1, -1, "k"),
        (0.5, 1, [0, 2.5], "k"),
        (0.5, 1, [np.nan], "k"),
        (0.5, 1, "3", "k"),
        (0.5, 1, True, "k"),
        (np.nan, 1, 1, "eigenvalue"),
        (np.inf, 1, 1, "eigenvalue"),
        (np.float32("inf"), 1, 2, "eigenvalue"),
        (np.complex64(complex(0, np.inf)), 1, 2, "eigenvalue"),
        ("0.5", 1, 1, "eigenvalue"),
        ([object()], 1, 1, "eigenvalue"),
        (10**400, 1, 1, "eigenvalue"),
        (0.5, 2**63, 1, r"t \+ k <= 2\^53"),
        (0.5, 1, 2**53, r"t \+ k <= 2\^53"),
        (0.5, 1, np.uint64(2**63), "k"),
        ([0.1, 0.2], 1, [1, 2, 3], "broadcast"),
    ],
)
def test_bad_input_is_refused_with_a_reason(eigenvalue: object, t: object, k: object, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        uniform_attention_gradient(eigenvalue, t, k)  # type: ignore[arg-type]


def network_jacobian(matrix: np.ndarray, t: int, k: int, attention: str = "uniform") -> np.ndarray:
    """ds_{t+k}/dh_t of a real linear network, by automatic differentiation."""
    size = len(matrix)
    network = AttentiveRNN(2, size, activation="linear", combination="sum", attention=attention, seed=1)
    network.V.data = torch.tensor(matrix)
    inputs = torch.randn(t + k, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    h = network.trace(inputs).h[t - 1].detach()
    last = lambda state: network.trace(inputs, {t: state}).s[-1]  # noqa: E731
    return torch.func.jacrev(last)(h).detach().numpy()


MATRICES = {
    "rotation and real": np.array([[0.3, -0.6, 0.0], [0.6, 0.3, 0.0], [0.0, 0.0, -0.8]]),
    "Jordan block": np.array([[0.5, 1.0], [0.0, 0.5]]),
    "non-normal": np.array([[0.9, 3.0, 0.0], [0.0, -0.4, 2.0], [0.0, 0.0, 0.2]]),
    "growing": np.array([[1.1, 0.2], [-0.3, 0.7]]),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize(("t", "k"), [(1, 0), (1, 7), (3, 12)])
def test_a_linear_network_with_constant_alignment_realises_it(name: str, t: int, k: int) -> None:
    matrix = MATRICES[name]
    found = network_jacobian(matrix, t, k)
    assert found == pytest.approx(jacobian(matrix, t, [k])[0], rel=1e-12, abs=1e-12)
    values = uniform_attention_gradient(np.linalg.eigvals(matrix), t, k)
    if name == "Jordan block":  # its eigenvalues are known, but not to be had to 1e-12 from a computed matrix
        assert np.diag(found) == pytest.approx(uniform_attention_gradient([0.5, 0.5], t, k), abs=1e-12)
    else:
        assert np.sort_complex(np.linalg.eigvals(found)) == pytest.approx(np.sort_complex(values), abs=1e-12)
    if k:
        assert np.abs(network_jacobian(matrix, t, k, "none") - found).max() > 1e-3


def test_the_jacobian_of_a_matrix_is_its_polynomial() -> None:
    for name, matrix in MATRICES.items():
        polynomial = sympy.Poly(plain_recursion(sympy.Symbol("x"), 2, 6)[-1], sympy.Symbol("x"))
        power = sum(float(c) * np.linalg.matrix_power(matrix, degree) for (degree,), c in polynomial.terms())
        assert jacobian(matrix, 2, [0, 6])[1] == pytest.approx(power, rel=1e-13, abs=1e-13), name
    with pytest.raises(ValueError, match="shape"):
        jacobian(np.zeros((2, 3)), 1, 1)
    with pytest.raises(ValueError, match="finite"):
        jacobian(np.full((2, 2), np.nan), 1, 1)
    for matrix, k in ((np.diag([2.0, 0.5]), 2000), (np.diag([0.5j, 0.5]), 3), (np.eye(2) / 2, [[1, 2]])):
        with pytest.raises(ValueError, match="allowed"):  # beyond the floats, complex, no row of steps
            jacobian(matrix, 1, k)


@pytest.mark.parametrize("eigenvalue", [0.75, 0.5, -0.5, 0.3 + 0.6j])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (1, 1), (0, 1)])
def test_a_mixture_of_state_and_context_has_its_exponent(eigenvalue, shares):
    near, far = (np.abs(plain_recursion(eigenvalue, 2, k, shares)[-1]) for k in (2000, 4000))
    measured = np.log(far / near) / np.log(4002 / 2002)
    assert measured == pytest.approx(exponent(eigenvalue, shares), abs=0.01)
    assert abs(measured - exponent(eigenvalue, (0.3, 0.4))) > 0.01  # negative control: other shares


def test_a_mixture_is_the_gradient_of_a_network_that_takes_it():
    """s = a h + b c with uniform attention, linear: by hand, in fractions."""
    a, b, v, t, k = Fraction(1, 3), Fraction(2, 5), Fraction(3, 4), 2, 4
    hidden = {step: Fraction(int(step == t)) for step in range(1, t + 1)}  # dh_step/dh_t
    found = []
    for step in range(t, t + k + 1):
        found.append(a * hidden[step] + b * sum(hidden.values()) / step)
        hidden[step + 1] = v * found[-1]
    assert found == plain_recursion(v, t, k, (a, b)) != plain_recursion(v, t, k)


def test_the_mean_of_state_and_context_never_grows():
    disc = [r * np.exp(1j * angle) for r in (0.5, 0.9, 0.999) for angle in np.linspace(0, np.pi, 19)]
    assert max(exponent(disc, (0.5, 0.5))) <= 0.0 < max(exponent(disc))
    assert np.isfinite(exponent(1.5, (0.5, 0.5)))  # the modulus of a lambda counts
    with pytest.raises(ValueError, match="modulus below 1"):
        exponent(2.0, (0.5, 0.5))


@pytest.mark.filterwarnings("error")
def test_a_number_of_few_digits_is_that_number() -> None:
    for few in (np.float32(0.5), np.float16(0.5), np.complex64(0.5)):
        assert uniform_attention_gradient(few, 1, 2) == uniform_attention_gradient(0.5, 1, 2)


def test_what_is_no_number_has_no_exponent() -> None:
    for wrong in ("a", None, [0.1, "b"]):
        with pytest.raises(ValueError, match="eigenvalue: "):
            exponent(wrong)
    for several in ([0.1, 0.2], [0.1]):
        with pytest.raises(ValueError, match="eigenvalue: one number is allowed"):
            amplitude(several, 1)
        with pytest.raises(ValueError, match="eigenvalue: one number is allowed"):
            closed_form(several, 1, 2)
    assert amplitude(Fraction(1, 4), 1) == amplitude(0.25, 1)
    assert exponent(Fraction(1, 4)) == exponent(0.25) and exponent(mpmath.mpc(0, 0.5)) == exponent(0.5j)
