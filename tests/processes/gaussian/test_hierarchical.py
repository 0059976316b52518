"""The distribution of a hierarchical Gaussian: covariance, correlations, information, against the paper written out."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.information import bipartite_mutual_information
from lib.processes.gaussian.hierarchical import FAMILIES, HierarchicalGaussian
from lib.processes.gaussian.layers import COUPLINGS, MIXING
from tests.processes.gaussian import reference

families = pytest.mark.parametrize("family", FAMILIES)
couplings = pytest.mark.parametrize("coupling", COUPLINGS)


def as_array(matrix: mpmath.matrix) -> np.ndarray:
    return np.array(matrix.tolist(), dtype=float)


@families
@couplings
def test_covariance_and_information_are_those_of_the_construction_written_out(family: str, coupling: str) -> None:
    exact = reference.covariance(2, family, coupling)
    law = HierarchicalGaussian(2, family, coupling)
    assert np.abs(law.covariance() - as_array(exact)).max() < 1e-15
    for split in range(1, 16):
        expected = float(reference.bipartite(exact, split))
        assert law.bipartite_mutual_information(split) == pytest.approx(expected, rel=1e-13)
    with mpmath.workdps(reference.DIGITS):
        entropy = float(8 * mpmath.log(2 * mpmath.pi * mpmath.e) + mpmath.log(mpmath.det(exact)) / 2)
    assert law.entropy() == pytest.approx(entropy, rel=1e-14)


def test_three_layers_agree_with_fifty_digits() -> None:
    exact = reference.covariance(3, "subvolume", "symmetric")
    law = HierarchicalGaussian(3)
    assert np.abs(law.covariance() - as_array(exact)).max() < 1e-15
    assert law.bipartite_mutual_information() == pytest.approx(float(reference.bipartite(exact, 32)), rel=1e-13)


def test_layer_map_has_unit_diagonal_and_the_stated_eigenvalues() -> None:
    gamma, rho = sympy.sqrt(5) / 4, sympy.Rational(1, 4)
    g, r = sympy.symbols("g r")
    m = sympy.Matrix([[g, g, g, r], [-g, g, -g, r], [-g, -g, g, r], [g, -g, -g, r]]).subs({g: gamma, r: rho})
    product = m * m.T
    assert product == sympy.Matrix(4, 4, lambda i, j: 1 if i == j else -sympy.Rational(1, 4))
    assert product.eigenvals() == {sympy.Rational(5, 4): 3, sympy.Rational(1, 4): 1}
    assert np.abs(MIXING - np.array(m, dtype=float)).max() < 1e-16


def test_first_layer_has_half_the_logarithm_of_nine_fifths() -> None:
    product = sympy.Matrix(4, 4, lambda i, j: 1 if i == j else -sympy.Rational(1, 4))
    ratio = product[:2, :2].det() * product[2:, 2:].det() / product.det()
    assert ratio == sympy.Rational(9, 5)
    for family in FAMILIES:
        law = HierarchicalGaussian(1, family)
        assert law.bipartite_mutual_information() == pytest.approx(0.5 * np.log(1.8), rel=1e-15)


@families
def test_rows_alone_multiply_information_exactly(family: str) -> None:
    """Without coupling the covariance is rational: I_2 = k I_1 in exact determinants."""
    copies = FAMILIES[family]
    row = [[Fraction(1) if r == s else Fraction(-1, 4) for s in range(4)] for r in range(4)]
    carried = [[x - Fraction(1, 16) for x in line] for line in row]
    if copies == 1:
        signs = [1, -1, -1, 1]
        carried = [[Fraction(5 * signs[r] * signs[s], 16) for s in range(4)] for r in range(4)]
    dense = sympy.Matrix(
        16,
        16,
        lambda a, b: sympy.Rational(
            *(row[a % 4][b % 4] if a // 4 == b // 4 else row[a // 4][b // 4] * carried[a % 4][b % 4]).as_integer_ratio()
        ),
    )
    half = dense[:8, :8].det(method="bareiss") * dense[8:, 8:].det(method="bareiss") / dense.det(method="bareiss")
    assert half == sympy.Rational(9, 5) ** copies
    law = HierarchicalGaussian(2, family, "none")
    assert np.abs(law.covariance() - np.array(dense, dtype=float)).max() < 1e-16


@families
def test_without_coupling_information_multiplies_at_every_cut_between_rows(family: str) -> None:
    laws = [HierarchicalGaussian(layers, family, "none") for layers in range(1, 9)]
    for below, above in itertools.pairwise(laws):
        rows = np.arange(1, below.length)
        expected = FAMILIES[family] * below.bipartite_mutual_information(rows)
        assert np.allclose(above.bipartite_mutual_information(4 * rows), expected, rtol=1e-10, atol=0)


@families
@couplings
@pytest.mark.parametrize("layers", [1, 3, 4])
def test_dense_matrix_is_positive_definite_and_gives_the_same_numbers(family: str, coupling: str, layers: int) -> None:
    law = HierarchicalGaussian(layers, family, coupling)
    dense = law.covariance()
    assert np.array_equal(np.diag(dense), np.ones(law.length))
    assert np.array_equal(dense, dense.T)
    assert np.linalg.eigvalsh(dense).min() > 0.15
    i, j = np.indices(dense.shape)
    assert np.abs(law.correlation(i, j) - dense).max() < 1e-15
    assert law.entropy() == pytest.approx(
        0.5 * law.length * np.log(2 * np.pi * np.e) + 0.5 * np.linalg.slogdet(dense)[1], rel=1e-13
    )
    for split in {1, 2, law.length // 4 + 1, law.length // 2, law.length - 1} - {law.length}:
        expected = bipartite_mutual_information(dense, split)
        assert law.bipartite_mutual_information(split) == pytest.approx(expected, abs=1e-12)


@families
@couplings
@pytest.mark.parametrize("layers", range(1, 9))
def test_antipodal_correlation_is_a_quarter_of_powers_of_five_sixteenths(
    family: str, coupling: str, layers: int
) -> None:
    law = HierarchicalGaussian(layers, family, coupling)
    exact = Fraction(1, 4) * Fraction(5, 16) ** (layers - 1)
    assert abs(law.correlation(0, law.length - 1)) == pytest.approx(float(exact), rel=1e-14)
    with mpmath.workdps(30):
        information = float(-mpmath.log1p(-((mpmath.mpf(exact.numerator) / exact.denominator) ** 2)) / 2)
    assert law.antipodal_mutual_information() == pytest.approx(information, rel=1e-13)


@given(st.data())
def test_a_pair_never_shares_more_than_the_halves_it_lies_in(data: st.DataObject) -> None:
    law = HierarchicalGaussian(6, data.draw(st.sampled_from(list(FAMILIES))), data.draw(st.sampled_from([*COUPLINGS])))
    i, j = sorted(data.draw(st.lists(st.integers(0, law.length - 1), min_size=2, max_size=2, unique=True)))
    split = data.draw(st.integers(i + 1, j))
    pair, halves = law.two_point_mutual_information(i, j), law.bipartite_mutual_information(split)
    assert 0 <= pair <= halves * (1 + 1e-12)


def test_information_of_a_position_with_itself_is_infinite() -> None:
    law = HierarchicalGaussian(4)
    assert law.correlation(77, 77) == 1.0
    assert law.two_point_mutual_information(77, 77) == np.inf


def test_correlations_of_six_layers_are_entries_of_the_dense_matrix() -> None:
    law = HierarchicalGaussian(6, "critical", "cholesky")
    dense = law.covariance()
    draw = np.random.default_rng(0)
    i, j = draw.integers(0, law.length, (2, 4000))
    assert np.abs(law.correlation(i, j) - dense[i, j]).max() < 1e-15
    assert np.abs(law.correlation(i, 4095) - dense[i, 4095]).max() < 1e-15


def test_arguments_outside_are_refused() -> None:
    law = HierarchicalGaussian(2)
    for layers in (0, -1, 2.5, "3", True, None, 13):
        with pytest.raises(ValueError, match="layers"):
            HierarchicalGaussian(layers)
    for family in ("", "area", None, 3, []):
        with pytest.raises(ValueError, match=r"family.*subvolume.*critical"):
            HierarchicalGaussian(2, family)
    with pytest.raises(ValueError, match=r"coupling.*'symmetric'"):
        HierarchicalGaussian(2, "critical", "weighted")
    for split in (0, 16, -1, 3.0, [4, 16]):
        with pytest.raises(ValueError, match="split"):
            law.bipartite_mutual_information(split)
    for position in (-1, 16, 0.5):
        with pytest.raises(ValueError, match="i: positions"):
            law.correlation(position, 0)
        with pytest.raises(ValueError, match="j: positions"):
            law.two_point_mutual_information(0, position)
    with pytest.raises(ValueError, match="allow_large=True"):
        HierarchicalGaussian(7).covariance()


def test_tensors_are_numbers_in_their_own_precision_and_a_bad_axis_is_refused() -> None:
    law = HierarchicalGaussian(2)
    x = law.sample(3, 0, np.float32)
    tensor = torch.from_numpy(x).requires_grad_()
    for found, expected in zip(law.conditionals(tensor), law.conditionals(x), strict=True):
        assert found.dtype == np.float32 and np.array_equal(found, expected)
    assert np.array_equal(law.log_density(tensor.bfloat16()), law.log_density(tensor.bfloat16().double()))
    for method in (law.conditionals, law.log_density):
        for axis in (None, "a", 1.5, True, 2, -3):
            with pytest.raises(ValueError, match="axis"):
                method(x, axis=axis)
        for bad in (np.ma.masked_equal(x, x[0, 0]), tensor + 0j, x.astype(str), np.full(16, np.timedelta64(1))):
            with pytest.raises(ValueError, match=r"^x: "):
                method(bad)
