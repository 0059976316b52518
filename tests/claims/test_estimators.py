"""Negatives of vCLUB: derangements, and what a random permutation does instead."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.information import vclub_estimate
from lib.information.bias import entropy_of, expected_entropy
from lib.information.model_estimates import cyclic_shift, random_derangement
from lib.report import claims


@given(st.integers(2, 60), st.integers(0, 10**6))
def test_both_kinds_are_permutations_without_a_fixed_point(count: int, seed: int) -> None:
    for order in (random_derangement(count, seed), cyclic_shift(count), cyclic_shift(count, count - 1)):
        assert sorted(order.tolist()) == list(range(count))
        assert not np.any(order == np.arange(count))


def test_random_derangements_are_uniform_over_all_nine_of_four_elements() -> None:
    random = np.random.default_rng(0)
    draws = 9000
    seen = Counter(tuple(random_derangement(4, random).tolist()) for _ in range(draws))
    assert set(seen) == {p for p in permutations(range(4)) if all(i != j for i, j in enumerate(p))}
    chi_squared = sum((n - draws / 9) ** 2 / (draws / 9) for n in seen.values())
    assert chi_squared < 26.1  # 99.9 % point with 8 degrees of freedom
    assert np.array_equal(random_derangement(9, 5), random_derangement(9, np.random.default_rng(5)))


def test_a_random_permutation_shrinks_the_expectation_by_one_minus_one_over_n_exactly() -> None:
    for count in (2, 3, 4, 5):
        orders = list(permutations(range(count)))
        kept = Fraction(sum(i != j for order in orders for i, j in enumerate(order)), len(orders) * count)
        assert kept == 1 - Fraction(1, count)  # share of pairs that are strangers: only these contribute


def test_the_shrinkage_is_measured_and_a_derangement_has_none() -> None:
    random, batches, size, rho = np.random.default_rng(0), 40000, 3, 0.8
    jeffreys = rho**2 / (1 - rho**2)
    x = random.standard_normal((batches, size))
    y = rho * x + np.sqrt(1 - rho**2) * random.standard_normal((batches, size))
    shuffled = random.permuted(np.tile(np.arange(size), (batches, 1)), axis=1)
    means = {}
    for name, order in (("shuffled", shuffled), ("shifted", np.tile(cyclic_shift(size), (batches, 1)))):
        gain = (rho * x * (y - np.take_along_axis(y, order, axis=1)) / (1 - rho**2)).mean(axis=1)
        half = 4 * gain.std(ddof=1) / np.sqrt(batches)
        means[name] = (gain.mean(), (gain.mean() - half, gain.mean() + half))
    claims.check("l2m-vclub", means["shifted"][0], jeffreys, within=means["shifted"][1], part="derangement")
    claims.check("l2m-vclub", means["shuffled"][0], jeffreys * 2 / 3, within=means["shuffled"][1], part="permutation")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-vclub", means["shuffled"][0], jeffreys, within=means["shuffled"][1])


def test_standard_error_with_partners_and_control_has_the_spread_of_repeated_estimates() -> None:
    random, n, rho, r = np.random.default_rng(1), 200, 0.8, 0.5
    log_q = lambda x, y: -((y - r * x) ** 2) / (2 * (1 - r**2)) + y**2 / 2  # ln q(y|x) - ln q(y)  # noqa: E731
    values, errors = [], []
    order = cyclic_shift(n)
    for _ in range(1500):
        x = random.standard_normal(n)
        y = rho * x + np.sqrt(1 - rho**2) * random.standard_normal(n)
        estimate = vclub_estimate(log_q(x, y), log_q(x, y[order]), order)
        values.append(estimate.value)
        errors.append(estimate.standard_error)
    assert np.mean(values) == pytest.approx(r * rho / (1 - r**2), abs=4 * np.std(values) / np.sqrt(len(values)))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.1)


def test_the_remaining_bias_of_equation_53_is_its_own_and_not_that_of_the_plug_in() -> None:
    law, samples = np.full(20, 0.05), 20_000
    bias = {
        name: 2 * samples * (expected_entropy(law, samples, name) - entropy_of(law))
        for name in ("grassberger2003", "plugin")
    }
    claims.check("shen-eq53", bias["grassberger2003"], expected=1.0, tolerance=0.05, remark=True)
    for wrong, expected in ((bias["plugin"], 1.0), (bias["grassberger2003"], 0.0)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-eq53", wrong, expected=expected, tolerance=0.05)


def test_one_element_has_no_derangement() -> None:
    for count in (1, 0, -3, 2.0, True, None):
        with pytest.raises(ValueError, match="whole numbers >= 2"):
            random_derangement(count, 0)
        with pytest.raises(ValueError, match="whole numbers >= 2"):
            cyclic_shift(count)
    for shift in (0, 4, -1, 1.5):
        with pytest.raises(ValueError, match="1 <= shift < count = 4"):
            cyclic_shift(4, shift)
