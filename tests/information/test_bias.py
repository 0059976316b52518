"""Exact moments of the estimators, against enumeration of every outcome, and what the papers say of bias."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.information import entropy, mutual_information
from lib.information.bias import entropy_of, entropy_variance, expected_entropy, poisson_entropy_bias
from lib.information.estimators import ESTIMATORS
from lib.report import claims
from tests.information.test_estimators import outcomes

NAMES = list(ESTIMATORS)
laws = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda w: [x / sum(w) for x in w])


@pytest.mark.parametrize("estimator", NAMES)
@given(law=laws, samples=st.integers(1, 7))
def test_moments_equal_the_sum_over_every_outcome(estimator: str, law: list[float], samples: int) -> None:
    seen = [(entropy(counts, estimator), weight) for counts, weight in outcomes(samples, law)]
    mean = math.fsum(value * weight for value, weight in seen)
    variance = math.fsum((value - mean) ** 2 * weight for value, weight in seen)
    assert expected_entropy(law, samples, estimator) == pytest.approx(mean, abs=1e-12)
    assert entropy_variance(law, samples, estimator) == pytest.approx(variance, abs=1e-12)


@pytest.mark.parametrize("estimator", NAMES)
def test_moments_equal_those_of_a_simulation(estimator: str) -> None:
    law, samples, repeats = np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05]), 60, 4000
    draws = np.random.default_rng(0).multinomial(samples, law, size=repeats)
    values = np.array([entropy(counts, estimator) for counts in draws])
    error = values.std() / math.sqrt(repeats)
    assert abs(values.mean() - expected_entropy(law, samples, estimator)) < 5 * error
    assert values.var() == pytest.approx(entropy_variance(law, samples, estimator), rel=0.15)


def test_well_sampled_the_digamma_estimate_is_too_high_by_one_over_two_n() -> None:
    for size in (2, 5, 20):
        for samples in (2000, 20000):
            bias = expected_entropy(np.full(size, 1 / size), samples) - math.log(size)
            assert 2 * samples * bias == pytest.approx(1.0, abs=0.01)
            with pytest.raises(claims.ClaimFailed):  # the printed word, "unbiased", fails the check of the chapter
                claims.check("shen-eq53", 2 * samples * bias, expected=0.0, tolerance=0.05)


def test_the_chapters_checks_fail_for_a_wrong_digamma_and_a_wrong_recursion() -> None:
    counts = np.array([3, 1, 7, 2])
    wrong = math.log(13) - sum(n * (math.log(n) - 1 / n) for n in counts) / 13
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq53", entropy(counts), expected=wrong, tolerance=1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-grassberger", entropy(counts, "grassberger2008"), expected=entropy(counts), tolerance=1e-3)


def test_under_g_an_exactly_independent_table_has_information() -> None:
    table = np.full((2, 2), 4)
    assert mutual_information(table, "plugin") == pytest.approx(0.0, abs=1e-15)
    assert abs(mutual_information(table, "grassberger2008")) > 1e-3


@pytest.mark.parametrize("estimator", NAMES)
def test_x_equal_y_with_as_many_symbols_as_samples_is_biased_down(estimator: str) -> None:
    size = 50
    estimate = expected_entropy(np.full(size, 1 / size), size, estimator)  # H(X), H(Y), H(X,Y) and I are all this
    assert estimate < math.log(size) - 0.01


@pytest.mark.parametrize(
    ("law", "samples"),
    [([], 5), ([0.5, 0.6], 5), ([-0.5, 1.5], 5), ([1.0], 0), ([1.0], 2.5), ([1.0], math.inf), ([1.0], [5]),
     ([1.0], "5"), ([0.5 + 1j, 0.5 - 1j], 5)],
)  # fmt: skip
def test_bad_laws_are_refused(law: list[float], samples: int) -> None:
    with pytest.raises(ValueError, match=r"probabilities|samples"):
        expected_entropy(law, samples)


def test_entropy_of_a_law() -> None:
    assert entropy_of([0.25] * 4) == pytest.approx(math.log(4), rel=1e-15)
    assert entropy_of([1.0, 0.0]) == 0.0


@pytest.mark.parametrize("copies", [math.nan, math.inf])
def test_copies_that_are_no_numbers_are_refused(copies: float) -> None:
    assert poisson_entropy_bias([0.5], 10, copies=[2]) == pytest.approx(poisson_entropy_bias([0.5, 0.5], 10))
    with pytest.raises(ValueError, match="copies: finite numbers"):
        poisson_entropy_bias([0.5], 10, copies=[copies])
