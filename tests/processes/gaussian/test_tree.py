"""Sampling, densities and conditionals of hierarchical Gaussians: the message passing against dense algebra."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.processes.gaussian import hierarchical, tree
from lib.processes.gaussian.hierarchical import FAMILIES, HierarchicalGaussian
from lib.processes.gaussian.layers import COUPLINGS

every_law = pytest.mark.parametrize(
    ("layers", "family", "coupling"),
    [(n, family, coupling) for n in (1, 2, 3, 4) for family in FAMILIES for coupling in COUPLINGS],
)


@every_law
def test_conditionals_are_those_of_the_dense_cholesky_factor(layers: int, family: str, coupling: str) -> None:
    """z = C e with unit e: the mean of z_i given the past is z_i - C_ii e_i, its variance C_ii^2."""
    law = HierarchicalGaussian(layers, family, coupling)
    factor = np.linalg.cholesky(law.covariance())
    x = law.sample(3, seed=layers)
    means, variances = law.conditionals(x)
    expected = x - np.diag(factor) * np.linalg.solve(factor, x.T).T
    assert means.shape == variances.shape == x.shape
    assert np.abs(means - expected).max() < 1e-12
    assert np.abs(variances - np.diag(factor) ** 2).max() < 1e-12
    assert np.abs(law.conditional_variances() - np.diag(factor) ** 2).max() < 1e-13


@every_law
def test_layer_maps_are_a_square_root_of_the_covariance(layers: int, family: str, coupling: str) -> None:
    law = HierarchicalGaussian(layers, family, coupling)
    unit = np.eye(law.length)
    root = tree.from_noise(law.levels(), unit)
    assert np.abs(root @ root.T - law.covariance()).max() < 1e-14
    assert np.abs(tree.to_noise(law.levels(), root) - unit).max() < 1e-14


@every_law
def test_density_is_the_normal_density_and_the_chain_of_conditionals(layers: int, family: str, coupling: str) -> None:
    law = HierarchicalGaussian(layers, family, coupling)
    dense = law.covariance()
    x = np.random.default_rng(5).standard_normal((4, law.length))  # any point, not only typical ones
    squares = np.einsum("ni,ni->n", x, np.linalg.solve(dense, x.T).T)
    expected = -0.5 * (squares + np.linalg.slogdet(2 * np.pi * dense)[1])
    assert law.log_density(x) == pytest.approx(expected, rel=1e-12)
    means, variances = law.conditionals(x)
    chain = -0.5 * ((x - means) ** 2 / variances + np.log(2 * np.pi * variances)).sum(axis=1)
    assert chain == pytest.approx(expected, rel=1e-12)


@given(st.sampled_from(list(FAMILIES)), st.sampled_from(list(COUPLINGS)), st.integers(0, 1023), st.integers(0, 9))
def test_a_mean_looks_only_backwards(family: str, coupling: str, position: int, seed: int) -> None:
    law = HierarchicalGaussian(5, family, coupling)
    x = law.sample(1, seed)[0]
    changed = x.copy()
    changed[position:] = np.random.default_rng(seed).normal(0.0, 9.0, law.length - position)
    # up to rounding: a row is inverted whole, and what lies behind cancels only in exact arithmetic
    before, after = law.conditionals(x)[0], law.conditionals(changed)[0]
    assert np.abs(before[: position + 1] - after[: position + 1]).max() < 1e-12
    assert position == law.length - 1 or np.abs(before[position + 1 :] - after[position + 1 :]).max() > 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_at_eight_layers_density_and_chain_and_entropies_agree(family: str) -> None:
    law = HierarchicalGaussian(8, family)
    x = law.sample(2, seed=0)
    means, variances = law.conditionals(x)
    chain = -0.5 * ((x - means) ** 2 / variances + np.log(2 * np.pi * variances)).sum(axis=1)
    assert law.log_density(x) == pytest.approx(chain, rel=1e-13)
    assert law.entropy() == pytest.approx(0.5 * np.log(2 * np.pi * np.e * variances[0]).sum(), rel=1e-13)


def test_whitened_samples_are_white() -> None:
    law = HierarchicalGaussian(4)
    means, variances = law.conditionals(x := law.sample(20_000, seed=1))
    white = (x - means) / np.sqrt(variances)
    moments = white.T @ white / white.shape[0] - np.eye(law.length)
    # 65536 estimates with standard error 1/sqrt(n) (sqrt 2 more on the diagonal): six of them bound all
    assert np.abs(moments).max() < 6 * np.sqrt(2 / white.shape[0])
    wrong = HierarchicalGaussian(4, coupling="swapped").conditionals(x)
    wrong_white = (x - wrong[0]) / np.sqrt(wrong[1])
    wrong_moments = wrong_white.T @ wrong_white / white.shape[0] - np.eye(law.length)
    assert np.abs(wrong_moments).max() > 6 * np.sqrt(2 / white.shape[0])


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    law = HierarchicalGaussian(5)
    assert np.array_equal(law.sample(150, seed=3)[:7], law.sample(7, seed=3))
    draw = np.random.default_rng(3)
    assert np.array_equal(np.concatenate([law.sample(100, draw), law.sample(50, draw)]), law.sample(150, seed=3))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    law = HierarchicalGaussian(3, "critical")
    whole = law.sample(50, seed=4), law.conditionals(law.sample(50, seed=4))[0]
    monkeypatch.setattr(hierarchical, "BLOCK", 3 * law.length + 1)
    assert np.array_equal(law.sample(50, seed=4), whole[0])
    assert np.abs(law.conditionals(whole[0])[0] - whole[1]).max() < 1e-14


def test_tokens_are_stacked_samples_and_their_means_are_conditionals() -> None:
    law = HierarchicalGaussian(4)
    tokens, means = law.sample_tokens_with_means(5, copies=6, seed=2)
    assert tokens.shape == means.shape == (5, law.length, 6)
    assert np.array_equal(tokens, law.sample_tokens(5, 6, seed=2))
    assert np.array_equal(tokens, law.sample(30, seed=2).reshape(5, 6, law.length).transpose(0, 2, 1))
    expected, variances = law.conditionals(tokens, axis=1)
    assert np.abs(means - expected).max() < 1e-13
    assert variances.shape == tokens.shape
    assert np.abs(law.log_density(tokens, axis=1) - law.log_density(tokens.transpose(0, 2, 1))).max() < 1e-10
    assert law.sample_tokens(2, seed=0).shape == (2, law.length, 64)


def test_single_precision_follows_double_precision() -> None:
    law = HierarchicalGaussian(6)
    tokens, means = law.sample_tokens_with_means(2, copies=3, seed=0, dtype=np.float32)
    assert tokens.dtype == means.dtype == np.float32
    exact = law.conditionals(tokens.astype(np.float64), axis=1)[0]
    assert np.abs(means - exact).max() < 1e-5
    single = law.conditionals(tokens, axis=1)
    assert single[0].dtype == single[1].dtype == np.float32
    assert np.abs(single[0] - exact).max() < 1e-5


def test_one_sequence_needs_no_batch_axis() -> None:
    law = HierarchicalGaussian(2)
    x = law.sample(1, seed=0)
    means, variances = law.conditionals(x[0])
    assert np.array_equal(means, law.conditionals(x)[0][0])
    assert variances.shape == (16,)
    assert np.ndim(law.log_density(list(x[0]))) == 0
    assert law.conditionals(np.zeros((0, 16)))[0].shape == (0, 16)
    assert np.array_equal(law.conditionals(np.zeros(16, dtype=int))[0], np.zeros(16))


def test_arrays_of_wrong_shape_or_content_are_refused() -> None:
    law = HierarchicalGaussian(2)
    for bad in (np.zeros(15), np.zeros((16, 2)), np.float64(1.0), np.zeros((2, 0))):
        with pytest.raises(ValueError, match="16 entries"):
            law.conditionals(bad)
        with pytest.raises(ValueError, match="16 entries"):
            law.log_density(bad)
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            law.conditionals(np.full(16, value))
        with pytest.raises(ValueError, match="finite"):
            law.log_density(np.full(16, value))
    with pytest.raises(ValueError, match="real numbers"):
        law.conditionals(np.zeros(16, dtype=complex))
    with pytest.raises(ValueError, match="axis 2"):
        law.conditionals(np.zeros((2, 16)), axis=2)
    for n in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="n:"):
            law.sample(n, seed=0)
    with pytest.raises(ValueError, match="copies"):
        law.sample_tokens(1, copies=0, seed=0)
    with pytest.raises(ValueError, match="seed"):
        law.sample(1, seed=-1)
    for dtype in ("float16", int, None, "number"):
        with pytest.raises(ValueError, match="dtype"):
            law.sample(1, seed=0, dtype=dtype)


@pytest.mark.parametrize(("dtype", "largest"), [(np.float64, 1e100), (np.float32, 1e25)])
def test_values_are_allowed_up_to_where_their_densities_are_finite(dtype: type, largest: float) -> None:
    """Means are linear in the values, whatever their size; log densities fall with their square."""
    law = HierarchicalGaussian(4)
    x = np.sign(law.sample(3, seed=0)).astype(dtype)
    size = dtype(largest) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(law.conditionals(size * x)[0] / size, law.conditionals(x)[0], rtol=1e-4, atol=1e-4)
        density, shift = law.log_density(size * x), law.log_density(0 * x)
        assert np.allclose((density - shift) / float(size) ** 2, law.log_density(x) - shift, rtol=1e-3)
        for wrong in (1e3 * size * x, np.finfo(dtype).max * x):
            for method in (law.conditionals, law.log_density):
                with pytest.raises(
                    ValueError, match=rf"x: finite values up to 1e\+{np.log10(largest):.0f} are allowed"
                ):
                    method(wrong)
