"""Gaussian mutual information against high-precision determinants, closed forms and its invariances."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.information import bipartite_mutual_information, gaussian_mutual_information

Matrix = npt.NDArray[np.float64]


def random_covariance(size: int, seed: int) -> Matrix:
    factor = np.random.default_rng(seed).standard_normal((size, size + 2))
    return np.asarray(factor @ factor.T + 0.1 * np.eye(size))


def by_determinants(covariance: Matrix, first: list[int], second: list[int]) -> float:
    """1/2 ln(det S_11 det S_22 / det S) with 400 digits."""
    with mpmath.workdps(400):
        parts = [mpmath.det(mpmath.matrix(covariance[np.ix_(s, s)].tolist())) for s in (first, second, first + second)]
        return float(mpmath.log(parts[0] * parts[1] / parts[2]) / 2)


@given(size=st.integers(2, 6), seed=st.integers(0, 10**6), data=st.data())
def test_equals_the_ratio_of_determinants(size: int, seed: int, data: st.DataObject) -> None:
    covariance = random_covariance(size, seed)
    order = data.draw(st.permutations(range(size)))
    cut = data.draw(st.integers(1, size - 1))
    end = data.draw(st.integers(cut + 1, size))
    first, second = list(order[:cut]), list(order[cut:end])
    expected = by_determinants(covariance, first, second)
    assert gaussian_mutual_information(covariance, first, second) == pytest.approx(expected, rel=1e-9, abs=1e-13)
    assert gaussian_mutual_information(covariance, second, first) == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("strength", [1e-1, 1e-5, 1e-8, 1e-20, 1e-80, 1e-150])
def test_tiny_information_keeps_its_digits(strength: float) -> None:
    """Down to 1e-300 nats, where a difference of double-precision determinants has none left."""
    random = np.random.default_rng(0)
    covariance = np.eye(5)
    covariance[:2, :2] = random_covariance(2, 1)
    covariance[2:, 2:] = random_covariance(3, 2)
    covariance[:2, 2:] = strength * random.standard_normal((2, 3))
    covariance[2:, :2] = covariance[:2, 2:].T
    expected = by_determinants(covariance, [0, 1], [2, 3, 4])
    assert gaussian_mutual_information(covariance, [0, 1], [2, 3, 4]) == pytest.approx(expected, rel=1e-10)
    assert expected > 0
    blocks = [np.linalg.slogdet(covariance[s, s])[1] for s in (slice(0, 2), slice(2, 5), slice(0, 5))]
    naive = 0.5 * (blocks[0] + blocks[1] - blocks[2])
    assert (abs(naive / expected - 1) < 1e-6) == (strength > 1e-4), "the determinants in double precision"


@given(size=st.integers(2, 8), lost=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_exactly_singular_covariances_are_refused(size: int, lost: int, seed: int) -> None:
    """X X^T of whole numbers has no rounding, and fewer columns than rows leave it a determinant of 0."""
    factor = np.random.default_rng(seed).integers(-5, 6, (size, max(1, size - lost)))
    with pytest.raises(ValueError, match="not positive definite"):
        bipartite_mutual_information(factor @ factor.T)


@pytest.mark.parametrize("gap", [1e-3, 1e-9, 1e-12, 1e-14])
@pytest.mark.parametrize("scale", [(1.0, 1.0), (1e-150, 1e140), (3.0, 7e-9)])
def test_nearly_singular_covariances_are_not(gap: float, scale: tuple[float, float]) -> None:
    correlation = 1.0 - gap
    covariance = np.array([[1.0, correlation], [correlation, 1.0]]) * np.outer(scale, scale)
    exact = mpmath.mpf(correlation)
    expected = float(-mpmath.log((1 - exact) * (1 + exact)) / 2)
    assert bipartite_mutual_information(covariance) == pytest.approx(expected, rel=0.01)


def test_a_refusal_names_an_eigenvalue_below_the_bound_that_it_names() -> None:
    for gap in 2.0 ** np.arange(-53, -47):
        try:
            bipartite_mutual_information([[1.0, 1.0 - gap], [1.0 - gap, 1.0]])
        except ValueError as error:
            words = str(error).replace(";", "").split()
            assert float(words[words.index("is", 3) + 1]) <= float(words[words.index("above") + 1])
        else:
            assert gap > 8 * np.finfo(float).eps
    for covariance in ([[1e-320, 1e300], [1e300, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]):
        with pytest.raises(ValueError, match="not positive definite"):
            bipartite_mutual_information(covariance)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_symmetry_is_asked_of_every_pair_in_its_own_units(scale: float) -> None:
    covariance = np.array([[scale, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.1, 1.0]])
    with pytest.raises(ValueError, match=r"entry \(1, 2\) is 0.9, its mirror image 0.1"):
        gaussian_mutual_information(covariance, [1], [2])
    covariance[1, 2], covariance[2, 1] = 0.5, 0.5 + 1e-12
    expected = -0.5 * np.log(0.75)
    assert gaussian_mutual_information(covariance, [1], [2]) == pytest.approx(expected, rel=1e-11)


def test_tensors_and_complex_covariances() -> None:
    covariance = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    expected = bipartite_mutual_information(covariance.numpy())
    assert bipartite_mutual_information(covariance.bfloat16()) == expected
    assert gaussian_mutual_information(covariance.requires_grad_(), torch.tensor([0]), torch.tensor([1])) == expected
    for wrong in (np.array([[1.0, 0.5j], [-0.5j, 1.0]]), [[1.0, 0.5j], [-0.5j, 1.0]], [["1", "0"], ["0", "1"]]):
        with pytest.raises(ValueError, match="covariance: real numbers are allowed"):
            gaussian_mutual_information(wrong, 0, 1)


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.9, 1 - 1e-9])
def test_two_variables_of_any_scale(correlation: float) -> None:
    scale = np.array([1e-6, 1e8])
    covariance = np.array([[1.0, correlation], [correlation, 1.0]]) * np.outer(scale, scale)
    expected = -0.5 * np.log1p(-(correlation**2))
    assert gaussian_mutual_information(covariance, 0, 1) == pytest.approx(expected, rel=1e-6, abs=0)


@given(seed=st.integers(0, 1000))
def test_invertible_maps_within_the_groups_change_nothing(seed: int) -> None:
    covariance = random_covariance(5, seed)
    mixing = np.zeros((5, 5))
    mixing[:2, :2], mixing[2:, 2:] = random_covariance(2, seed + 1), random_covariance(3, seed + 2)
    expected = gaussian_mutual_information(covariance, [0, 1], [2, 3, 4])
    mixed = mixing @ covariance @ mixing.T
    assert gaussian_mutual_information((mixed + mixed.T) / 2, [0, 1], [2, 3, 4]) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("split", [1, 3, 4, 7, None])
def test_markov_chain_shares_the_same_information_at_every_cut(split: int | None) -> None:
    """AR(1): only the two variables at the cut matter, I = -1/2 ln(1 - rho^2)."""
    positions = np.arange(8)
    covariance = 0.8 ** np.abs(positions[:, np.newaxis] - positions)
    assert bipartite_mutual_information(covariance, split) == pytest.approx(-0.5 * np.log(1 - 0.64), rel=1e-12)


def test_first_layer_of_the_hierarchical_gaussians() -> None:
    """L2M B.19: half against half is 1/2 ln 1.8."""
    g, r = np.sqrt(5) / 4, 1 / 4
    layer = np.array([[g, g, g, r], [-g, g, -g, r], [-g, -g, g, r], [g, -g, -g, r]])
    assert bipartite_mutual_information(layer @ layer.T) == pytest.approx(0.5 * np.log(1.8), rel=1e-12)


def test_odd_sizes_are_split_below_the_middle() -> None:
    covariance = random_covariance(5, 3)
    assert bipartite_mutual_information(covariance) == gaussian_mutual_information(covariance, [0, 1], [2, 3, 4])


@pytest.mark.parametrize(
    ("covariance", "first", "second", "said"),
    [
        (np.ones((2, 3)), [0], [1], "square"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), [0], [1], "symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), [0], [1], "smallest eigenvalue is -1"),
        (np.ones((2, 2)), [0], [1], "not positive definite"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), [0], [1], "NaN"),
        (np.eye(3), [0, 1], [1, 2], r"share the indices \[1\]"),
        (np.eye(3), [0], [3], r"index 3; allowed are 0\.\.2"),
        (np.eye(3), [-1], [1], "index -1"),
        (np.eye(3), [], [1], "at least one index"),
        (np.eye(3), [0, 0], [1], "repeats"),
        (np.eye(3), [0.5], [1], "integers"),
        (np.eye(3), [True, False, False], [1], "integers"),
    ],
)
def test_bad_input_is_refused_by_name(covariance: Matrix, first: list[int], second: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        gaussian_mutual_information(covariance, first, second)


@pytest.mark.parametrize("split", [0, 4, -1, 1.5, True, np.True_, np.inf, np.nan, [1], np.array([2]), 1 + 0j, "a"])
def test_split_out_of_range_is_refused(split: Any) -> None:
    with pytest.raises(ValueError, match="0 < split < 4"):
        bipartite_mutual_information(np.eye(4), split)
    with pytest.raises(ValueError, match="two variables or more"):
        bipartite_mutual_information(np.eye(1))
