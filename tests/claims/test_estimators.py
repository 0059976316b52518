"""Estimators with a model: negatives of vCLUB, how far vCLUB is off, what A.VI supposes, what codes cannot see."""

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
from lib.information.compression import compression_mutual_information
from lib.information.model_estimates import cyclic_shift, random_derangement
from lib.processes import HierarchicalGaussian
from lib.report import claims
from lib.theory.gaussian_predictor import GaussianPredictor
from lib.theory.model_error import gaussian_error_terms, gaussian_jeffreys, table_error_terms


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


@pytest.mark.parametrize("law", [np.full(100, 0.01), 1 / np.arange(1.0, 101.0) / np.sum(1 / np.arange(1.0, 101.0))])
def test_g_underestimates_where_symbols_are_missed_and_by_less_than_half_of_the_plug_in(law: np.ndarray) -> None:
    found = {
        (name, n): expected_entropy(law, n, name) - entropy_of(law)
        for name in ("plugin", "grassberger2008")
        for n in (4, 34, 100, 10_000)
    }
    left = {n: abs(found["grassberger2008", n] / found["plugin", n]) for n in (4, 34, 100)}
    claims.check("l2m-g-bias", [found["grassberger2008", n] for n in (4, 34, 100)], at_most=0.0)
    claims.check("l2m-g-bias", [left[34], left[100]], at_most=0.5)
    with pytest.raises(claims.ClaimFailed):  # hardly any samples: most of the bias stays
        claims.check("l2m-g-bias", left[4], at_most=0.5)
    with pytest.raises(claims.ClaimFailed):  # seen often: the sign turns
        claims.check("l2m-g-bias", found["grassberger2008", 10_000], at_most=0.0)


def test_one_element_has_no_derangement() -> None:
    for count in (1, 0, -3, 2.0, True, None):
        with pytest.raises(ValueError, match="count: a whole number of at least 2"):
            random_derangement(count, 0)
        with pytest.raises(ValueError, match="count: a whole number of at least 2"):
            cyclic_shift(count)
    for shift in (0, 4, -1, 1.5):
        with pytest.raises(ValueError, match="shift: "):
            cyclic_shift(4, shift)


@given(st.integers(0, 10**6))
def test_vclub_is_short_of_the_information_by_at_most_the_divergence_of_the_model(seed: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.full(12, 0.5), 2).reshape(2, 3, 4) + 1e-6
    terms = table_error_terms(p / p.sum(), q / q.sum())
    assert terms.information - terms.vclub <= terms.conditional + 1e-12


def test_a_model_far_from_the_truth_has_no_bound_and_the_check_notices() -> None:
    truth, timid = np.array([[1.0, 0.8], [0.8, 1.0]]), np.array([[1.0, 0.2], [0.2, 1.0]])
    near, far = gaussian_error_terms(truth, truth), gaussian_error_terms(truth, timid)
    claims.check("l2m-vclub", near.vclub, at_least=near.information)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-vclub", far.vclub, at_least=far.information)
    with pytest.raises(claims.ClaimFailed):  # half of its divergence does not cover what it is short of
        claims.check("l2m-vclub-reliable", far.information - far.vclub - 0.5 * far.conditional, at_most=0.0)


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_vclub_at_the_true_gaussian_is_at_least_twice_the_information(seed: int, size: int) -> None:
    mixed = np.random.default_rng(seed).normal(size=(2 * size, 3 * size))
    terms = gaussian_error_terms(mixed @ mixed.T, mixed @ mixed.T)
    assert terms.vclub >= 2 * terms.information - 1e-9
    assert terms.vclub == pytest.approx(gaussian_jeffreys(mixed @ mixed.T), rel=1e-8)


def test_a_reliable_value_is_refused_for_gaussians_and_granted_where_vclub_is_near() -> None:
    said = {"at_most": 1.5, "outcome": "false", "erratum": 18, "note": "above I"}
    truth = np.array([[1.0, 0.8], [0.8, 1.0]])
    at_truth, timid = gaussian_error_terms(truth, truth), gaussian_error_terms(truth, [[1.0, 0.5], [0.5, 1.0]])
    claims.check("l2m-vclub-reliable", at_truth.vclub / at_truth.information, **said)
    with pytest.raises(claims.ClaimFailed):  # a timid model happens to give nearly the information
        claims.check("l2m-vclub-reliable", timid.vclub / timid.information, **said)


def test_of_moderately_wrong_models_the_value_is_right_only_where_two_errors_cancel() -> None:
    rho = 0.8
    information = -0.5 * np.log(1 - rho**2)
    said = {"at_least": 1 / 1.5, "at_most": 1.5, "outcome": "false", "erratum": 18, "note": "above I"}

    def factor(r: np.ndarray) -> np.ndarray:  # in closed form
        return r * rho / (1 - r**2) / information

    def divergence(r: np.ndarray) -> np.ndarray:
        left = (1 - 2 * r * rho + r**2) / (1 - r**2)
        return 0.5 * (np.log((1 - r**2) / (1 - rho**2)) + left - 1)

    moderate = np.arange(0.38, 0.91, 0.01)
    assert divergence(moderate).max() <= information / 2 < min(divergence(np.array([0.36, 0.92])))
    claims.check("l2m-vclub-reliable", factor(moderate), **said)
    timid = moderate[moderate < 0.605]  # the models that underrate the dependence just so
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-vclub-reliable", factor(timid), **said)
    for r in (0.4, 0.6, 0.8, 0.9):
        terms = gaussian_error_terms([[1.0, rho], [rho, 1.0]], [[1.0, r], [r, 1.0]])
        assert terms.vclub / information == pytest.approx(float(factor(np.array(r))))
        assert terms.conditional == pytest.approx(float(divergence(np.array(r))))
        claims.check("l2m-vclub-reliable", information - terms.vclub - terms.conditional, at_most=1e-12, remark=True)


def exponents_of(model: str) -> tuple[float, float, float]:
    """Exponent of the information, of the direct estimator, and by how much Y given X is modelled worse than Y."""
    lengths, values, worse = 4 ** np.arange(2, 5), [], 0.0
    for layers in range(2, 5):
        law = HierarchicalGaussian(layers).covariance()
        second = law[len(law) // 2 :, len(law) // 2 :]
        window = {"exact": len(law), "window": 16, "marginal only": len(law)}[model]
        alone = GaussianPredictor.windowed(second, 1 if model == "marginal only" else window)
        terms = gaussian_error_terms(law, GaussianPredictor.windowed(law, window), marginal=alone)
        values.append((terms.information, terms.direct))
        worse = terms.conditional - terms.marginal
    slopes = [np.polyfit(np.log(lengths), np.log(column), 1)[0] for column in np.transpose(values)]
    return float(slopes[0]), float(slopes[1]), worse


def test_the_exponent_is_too_small_under_the_premise_and_too_large_outside_it() -> None:
    beta, found, worse = exponents_of("window")
    claims.check("l2m-underestimate", found, at_most=beta - 0.015)
    claims.check("l2m-underestimate", worse, at_least=0.1)
    beta, upward, worse = exponents_of("marginal only")
    claims.check("l2m-underestimate", upward, at_least=beta + 0.015, remark=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-underestimate", upward, at_most=beta - 0.015)
    with pytest.raises(claims.ClaimFailed):  # the premise tells the two apart
        claims.check("l2m-underestimate", worse, at_least=0.1)
    beta, exact, _ = exponents_of("exact")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-underestimate", exact, at_most=beta - 0.015)


def nested(level: int, relabelled: bool, random: np.random.Generator) -> np.ndarray:
    """A, B, A and A through a table of its level, or a new part."""
    if level == 0:
        return random.integers(0, 256, (6, 1), dtype=np.uint8)
    one, two = nested(level - 1, relabelled, random), nested(level - 1, relabelled, random)
    table = np.random.default_rng(level).permutation(256).astype(np.uint8)
    last = table[one] if relabelled else nested(level - 1, relabelled, random)
    return np.concatenate([one, two, one, last], axis=1)


def test_codes_overestimate_the_exponent_only_where_they_miss_structure() -> None:
    random, found = np.random.default_rng(0), {}
    for relabelled in (True, False):
        shared = []
        for level in (5, 6):
            texts = nested(level, relabelled, random)
            cut = texts.shape[1] // 2
            pairs = [(x[:cut].tobytes(), x[cut:].tobytes()) for x in texts]
            shared.append(np.mean([compression_mutual_information(*pair, "lzma") for pair in pairs]))
        found[relabelled] = float(np.log(shared[1] / shared[0]) / np.log(4))
    claims.check("l2m-compression", found[True], at_least=0.5 + 0.1)  # in truth 1/2
    with pytest.raises(claims.ClaimFailed):  # nothing hidden, in truth log_4 3
        claims.check("l2m-compression", found[False], at_least=np.log(3) / np.log(4) + 0.1)
