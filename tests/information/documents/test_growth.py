"""Exponents of growth and their bootstrap over documents."""

from __future__ import annotations

import numpy as np
import pytest

from lib.information import fit_power_law
from lib.information.documents.growth import resampled_means, scaling_exponent

LENGTHS = 2.0 ** np.arange(2, 9)


def noisy(windows=120, spread=0.3, seed=0, per_document=1):
    """Values about 2 L^0.7, the noise of the windows of a document in common."""
    random = np.random.default_rng(seed)
    factor = 1 + spread * random.standard_normal((windows // per_document, LENGTHS.size))
    return 2 * LENGTHS**0.7 * np.repeat(factor, per_document, axis=0)


def test_a_power_law_without_noise_is_recovered_exactly():
    fit = scaling_exponent(LENGTHS, np.tile(2 * LENGTHS**0.7, (5, 1)))
    assert fit.exponent == pytest.approx(0.7, abs=1e-12) and fit.amplitude == pytest.approx(2.0, abs=1e-12)
    assert fit.interval == pytest.approx((0.7, 0.7)) and fit.undefined == 0
    np.testing.assert_allclose(fit.predict([16, 100]), 2 * np.array([16, 100]) ** 0.7)


def test_the_slope_is_that_of_the_fit_of_the_book():
    values = noisy()
    fit = scaling_exponent(LENGTHS, values)
    plain = fit_power_law(LENGTHS, values.mean(axis=0))
    assert fit.exponent == pytest.approx(-plain.exponent, abs=1e-12)
    assert fit.amplitude == pytest.approx(plain.amplitude, rel=1e-12)


def test_intervals_cover_the_truth_as_often_as_they_say():
    hits = sum(
        low <= 0.7 <= high
        for low, high in (
            scaling_exponent(LENGTHS, noisy(60, seed=seed), replicates=300, seed=seed).interval for seed in range(200)
        )
    )
    assert 178 <= hits <= 199  # 95 % of 200 within four standard deviations, less what the percentile method loses


def test_windows_of_one_document_do_not_count_as_independent():
    values = noisy(240, per_document=8)
    documents = np.repeat(np.arange(30), 8)
    together = scaling_exponent(LENGTHS, values, documents)
    apart = scaling_exponent(LENGTHS, values)
    ratio = np.diff(together.interval)[0] / np.diff(apart.interval)[0]
    assert np.sqrt(8) * 0.8 < ratio < np.sqrt(8) * 1.25
    assert together.exponent == apart.exponent


def test_the_standard_error_of_a_mean_is_that_of_independent_documents():
    values = noisy(400)[:, :1]
    errors = resampled_means(values, replicates=4000).std(axis=0)
    assert errors[0] == pytest.approx(values.std() / np.sqrt(400), rel=0.06)


def test_blocks_of_documents_keep_the_dependence_of_neighbours():
    steps = np.random.default_rng(0).standard_normal(3001)
    moving = (steps[1:] + steps[:-1])[:, None]  # neighbours share a half: variance of the mean is doubled
    true = 2 / np.sqrt(3000)
    assert resampled_means(moving, block=1).std() == pytest.approx(true / np.sqrt(2), rel=0.1)
    assert resampled_means(moving, block=20).std() == pytest.approx(true, rel=0.1)


def test_a_document_counts_by_its_windows_and_order_of_labels_is_that_of_appearance():
    values = np.array([[1.0], [1.0], [4.0], [7.0]])
    means = resampled_means(values, [9, 9, 3, 5], replicates=2000)
    possible = set()
    for a in range(4):
        for b in range(4 - a):
            c = 3 - a - b
            possible.add(round((2 * a + 4 * b + 7 * c) / (2 * a + b + c), 9))
    assert set(np.round(means[:, 0], 9)) == possible


def test_replicates_below_zero_widen_the_interval_to_infinity():
    random = np.random.default_rng(1)
    values = 0.5 + 3.0 * random.standard_normal((40, 4))
    values += 0.5 - values.mean(axis=0)
    fit = scaling_exponent([4, 8, 16, 32], values, replicates=400)
    assert fit.undefined > 20 and fit.interval == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [4, 8]}, "n >= 3"),
        ({"lengths": [4, 16, 8]}, "increasing"),
        ({"values": [[1.0, np.nan, 2.0]] * 4}, "finite"),
        ({"values": [[1.0, -2.0, 2.0]] * 4}, "positive means"),
        ({"values": [1.0, 2.0, 3.0]}, "windows"),
        ({"documents": [0, 1]}, "one for each of 4"),
        ({"documents": [0, 0, 1, 1]}, "three documents"),
        ({"block": 2}, "three documents and 1 <= block"),
        ({"block": 0}, "block"),
        ({"block": 1.5}, "block: a whole number"),
        ({"replicates": 1}, "replicates"),
        ({"replicates": 2.5}, "replicates: a whole number"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": "95 %"}, "confidence"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"lengths": [4, 8, 16], "values": np.ones((4, 3)), **change}
    with pytest.raises(ValueError, match=message):
        scaling_exponent(given.pop("lengths"), given.pop("values"), **given)


@pytest.mark.parametrize("wrong", [{"replicates": 0}, {"replicates": 2.5}, {"block": 1.5}, {"block": 0}])
def test_draws_that_are_no_whole_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: a whole number of at least 1 is allowed"):
        resampled_means(np.ones((9, 2)), **wrong)
