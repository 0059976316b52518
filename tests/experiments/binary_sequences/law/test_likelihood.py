"""The particle filter against exact distributions of short and long blocks of signs; wrong filters fail the test."""

from __future__ import annotations

import itertools
import math
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.stats import multivariate_normal

from experiments.binary_sequences.law import likelihood
from experiments.binary_sequences.law.likelihood import BLOCK, log_likelihood, normal_probability, normal_quantile
from experiments.binary_sequences.law.orthant import orthant_probability, sign_block_law
from lib.processes import PowerLawBinary

Filter = Callable[..., NDArray[np.float64]]
POWER_LAW = np.asarray(PowerLawBinary(16, 0.1, 0.4).correlation(np.arange(16)))
UNEVEN = np.array([1.0, -0.8, 0.7, -0.6, 0.55])
LONG = 2 * BLOCK + 3  # symbols: two blocks are full and the third is begun
EQUAL = np.where(np.arange(LONG) == 0, 1.0, 0.5)


def all_sequences(length: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product((0, 1), repeat=length)))


def assert_unbiased(
    filter_: Filter, sequences: Any, correlation: Any, truth: Any, particles: int, repeats: int, seed: int = 0
) -> None:
    """The mean estimate of every sequence is its probability, within four and a half standard errors of many rows."""
    rows = np.repeat(sequences, repeats, axis=0)
    found = np.exp(filter_(rows, correlation, particles, seed).sum(axis=1)).reshape(-1, repeats)
    error = found.std(axis=1, ddof=1) / math.sqrt(repeats)
    assert np.all(np.abs(found.mean(axis=1) - truth) <= 4.5 * error + 1e-15)


def assert_law_of_five(filter_: Filter, particles: int, repeats: int) -> None:
    """All sequences that begin with a one; correlations of both signs, so that none of them is easy to follow."""
    sequences = all_sequences(5)[16:]
    law = sign_block_law(UNEVEN[1:])[tuple(sequences.T)]
    assert_unbiased(filter_, sequences, UNEVEN, law, particles, repeats)


def assert_equicorrelated(filter_: Filter) -> None:
    """Correlation 1/2 at every lag, Z_i = (X_i - X_0) / sqrt 2: P = k! (n - k)! / (n + 1)! with k of n signs +."""
    rng = np.random.default_rng(5)
    sequences = np.array([rng.permutation(np.arange(LONG) < positive) for positive in (4, LONG // 3, LONG // 2)]) * 1
    positive = sequences.sum(axis=1)
    truth = 1.0 / ((LONG + 1) * scipy.special.binom(LONG, positive))
    assert_unbiased(filter_, sequences, EQUAL, truth, 12, 1200)


def changed(*replaced: tuple[str, str]) -> Filter:
    """The filter, not compiled, in blocks of two symbols, with more places of its source replaced."""
    source = Path(likelihood.__file__).read_text(encoding="utf-8")
    for old, new in (("BLOCK = 32", "BLOCK = 2"), *replaced):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    module = types.ModuleType("changed")
    exec(re.sub(r"@njit\(.*\n", "", source), module.__dict__)
    found: Filter = module.log_likelihood
    return found


@pytest.mark.parametrize("particles", [1, 6])
def test_estimates_have_the_mean_of_the_exact_law(particles: int):
    assert_law_of_five(log_likelihood, particles, 3000)


def test_estimates_have_the_mean_of_the_exact_law_across_blocks():
    assert_law_of_five(changed(), 6, 300)


@pytest.mark.parametrize("length", [6, 7])
def test_longer_blocks_have_the_mean_of_their_orthants(length: int):
    sequences = all_sequences(length)[[5, 2**length - 1]]
    place = np.arange(length)
    matrix = POWER_LAW[np.abs(place[:, None] - place)]
    flips = 2.0 * sequences - 1.0
    truth = [orthant_probability(matrix * np.outer(flip, flip)) for flip in flips]
    assert_unbiased(log_likelihood, sequences, POWER_LAW[:length], truth, 8, 3000)


def test_ten_signs_agree_with_a_numerical_orthant():
    rng = np.random.default_rng(2)
    sequences = np.concatenate([np.ones((1, 10), int), rng.integers(0, 2, (2, 10))])
    flips = 2.0 * sequences - 1.0
    matrices = toeplitz(POWER_LAW[:10]) * flips[:, :, None] * flips[:, None, :]
    settings = {"abseps": 1e-7, "releps": 1e-4, "maxpts": 400_000, "seed": 1}  # far below the standard error
    truth = [multivariate_normal(np.zeros(10), matrix, **settings).cdf(np.zeros(10)) for matrix in matrices]
    assert_unbiased(log_likelihood, sequences, POWER_LAW[:10], truth, 20, 600)


def test_long_sequences_have_the_mean_of_a_law_in_closed_form():
    assert_equicorrelated(log_likelihood)


WRONG = {
    "forgets the weights": ("weight[i] /= total", "weight[i] = 1.0 / count"),
    "weighs once more what was chosen for its weight": ("weight[:] = 1.0 / count", "_move(weight, source, spare)"),
    "draws without the sign": ("uniform[t, i] * chance[i], LEAST", "uniform[t, i], LEAST"),
    "chooses without a look at the weights": ("passed += weight[i]", "passed += 1.0 / count"),
    "leaves the past of the block where it was": ("_move(noise[j], source, spare)", "pass"),
    "leaves what is ahead where it was": ("_move(ahead[j - start], source, spare)", "pass"),
    "leaves the chances where they were": ("_move(chance, source, spare)", "pass"),
    "leaves the older past where it was": ("_move(noise[j], origin, spare)", "pass"),
    "forgets where the older past belongs": ("_move(origin, source, spare)", "pass"),
    "forgets the older past": ("noise[:start], ahead)", "0.0 * noise[:start], ahead)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_filter_fails_on_the_exact_law(name: str):
    with pytest.raises(AssertionError, match=r"4\.5"):
        assert_law_of_five(changed(WRONG[name]), 6, 300)


@pytest.mark.parametrize("correlation", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_two_signs_follow_the_arcsine_law(correlation: float):
    law = 0.25 + np.array([1.0, -1.0]) * math.asin(correlation) / (2.0 * math.pi)
    assert_unbiased(log_likelihood, [[1, 1], [1, 0]], [1.0, correlation], law, 4, 4000)


def test_fair_bits_and_first_signs_are_exact():
    sequences = np.random.default_rng(0).integers(0, 2, (5, 70))
    independent = log_likelihood(sequences, np.eye(70)[0], 7, 0)
    np.testing.assert_allclose(independent, -math.log(2.0), rtol=1e-14)
    dependent = log_likelihood(sequences, 0.9 ** np.arange(70), 7, 0)
    np.testing.assert_allclose(dependent[:, 0], -math.log(2.0), rtol=1e-14)
    assert np.ptp(dependent[:, 1]) > 0.1


def test_more_particles_scatter_less_and_the_logarithm_is_low_by_half_its_variance():
    rng = np.random.default_rng(4)
    sequence = rng.permutation(np.arange(LONG) < LONG // 3) * 1
    truth = -math.log((LONG + 1) * scipy.special.binom(LONG, LONG // 3))
    logs = [log_likelihood(np.repeat([sequence], 3000, axis=0), EQUAL, count, 1).sum(axis=1) for count in (10, 80)]
    few, many = (float(each.var()) for each in logs)
    assert 0.0 < many < few / 4
    assert logs[1].mean() - truth == pytest.approx(-many / 2, abs=4.5 * math.sqrt(many / 3000) + many**2)
    assert logs[0].mean() < logs[1].mean() < truth


def test_a_row_depends_on_the_seed_and_its_place_alone():
    sequences = PowerLawBinary(40, 0.1, 0.4).sample(6, 0)
    correlation = PowerLawBinary(40, 0.1, 0.4).correlation(np.arange(40))
    whole = log_likelihood(sequences, correlation, 9, 3)
    np.testing.assert_array_equal(log_likelihood(sequences, correlation, 9, 3), whole)
    np.testing.assert_array_equal(log_likelihood(sequences[:4], correlation, 9, 3), whole[:4])
    other = np.where(np.arange(6)[:, None] == 2, 1 - sequences, sequences)
    np.testing.assert_array_equal(np.delete(log_likelihood(other, correlation, 9, 3), 2, 0), np.delete(whole, 2, 0))
    assert not np.any(log_likelihood(sequences, correlation, 9, 4)[:, -1] == whole[:, -1])
    twice = log_likelihood(np.repeat(sequences[:1], 2, axis=0), correlation, 9, 3)
    assert np.all(twice[0, 2:] != twice[1, 2:])


def test_what_the_particles_cannot_follow_has_no_probability():
    alternating = np.arange(8)[None] % 2
    found = log_likelihood(alternating, (1.0 - 1e-12) ** np.arange(8), 3, 0)
    assert found.sum() == -np.inf
    assert not np.isnan(found).any()


def test_normal_probabilities_and_quantiles_have_twelve_digits():
    places = np.concatenate([np.linspace(-37.5, 8.0, 400), [-1e-300, 0.0, 1e-12, 30.0]])
    with mpmath.workdps(40):
        # erfc, for 1 + erf has no digits left in the tail
        expected = [float(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2) for x in places]
    np.testing.assert_allclose([normal_probability(x) for x in places], expected, rtol=1e-12)
    low = np.concatenate([np.geomspace(1e-300, 0.5, 600), [0.075, 0.0750001, math.exp(-25.0)]])
    both = np.concatenate([low, 1.0 - low[low > 1e-16]])
    found = np.array([normal_quantile(p) for p in both])
    np.testing.assert_allclose(found, scipy.special.ndtri(both), rtol=1e-12, atol=1e-16)
    with mpmath.workdps(40):
        for p in (1e-300, 1e-40, 1e-9, 0.02, 0.3, 0.7, 1.0 - 1e-9, 1.0 - 2.0**-53):
            x = mpmath.mpf(normal_quantile(p))
            slope = mpmath.npdf(x)
            missed = (mpmath.erfc(-x / mpmath.sqrt(2)) / 2 - mpmath.mpf(p)) / slope  # one step of Newton's method
            assert abs(missed) < 1e-12 * abs(x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequences": [[0, 2, 1]]}, r"sequences: symbols 0 and 1"),
        ({"sequences": [[0.5, 0, 1]]}, r"sequences: symbols 0 and 1"),
        ({"sequences": [[np.nan, 0, 1]]}, r"sequences: symbols 0 and 1"),
        ({"sequences": [0, 1, 1]}, r"sequences: symbols 0 and 1"),
        ({"sequences": np.zeros((2, 0))}, r"length >= 1"),
        ({"correlation": [1.0, 0.5]}, r"correlation: numbers at lags 0 \.\. 2"),
        ({"correlation": [0.9, 0.5, 0.5]}, r"1 at lag 0"),
        ({"correlation": [1.0, np.nan, 0.5]}, r"correlation: numbers"),
        ({"correlation": [1.0, 0.9, 0.0]}, r"not positive definite"),
        ({"correlation": [1.0, 1.0, 1.0]}, r"not positive definite"),
        ({"particles": 0}, r"particles: a whole number of at least 1"),
        ({"particles": 2.5}, r"particles: a whole number"),
        ({"seed": -1}, r"seed: a whole number of at least 0"),
    ],
)
def test_what_cannot_be_followed_is_refused(change: dict[str, Any], message: str):
    given = {"sequences": [[0, 1, 1]], "correlation": [1.0, 0.5, 0.2], "particles": 3, "seed": 0} | change
    with pytest.raises(ValueError, match=message):
        log_likelihood(**given)
