"""Exponential against power law on curves of known kind: exact ones, noisy ones, and sequences that are sampled."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.binary_sequences.decay import (
    WEIGHTINGS,
    GroupedCurve,
    compare_decay,
    correlation_length,
    lag_weights,
    points_before_floor,
)
from lib.information import auto_mutual_information, fit_exponential, fit_power_law
from lib.processes import PowerLawBinary

EVERY = np.arange(1, 512)
THINNED = np.unique(np.geomspace(1, 511, 48).round().astype(int))


def noisy(curve: np.ndarray, relative: float, seed: int, groups: int = 10) -> np.ndarray:
    """Groups that scatter about a curve, with noise that neighbouring lags share."""
    rng = np.random.default_rng(seed)
    shared = np.cumsum(rng.standard_normal((groups, curve.size)), axis=1) / np.sqrt(np.arange(1, curve.size + 1))
    return curve * np.exp(relative * shared)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize(
    ("curve", "law"), [(0.1 * np.exp(-THINNED / 120), "exponential"), (0.1 * THINNED**-0.4, "power law")]
)
def test_an_exact_law_is_named_with_its_parameters(weighting: str, curve: np.ndarray, law: str) -> None:
    found = compare_decay(THINNED, curve, np.tile(curve, (10, 1)), weighting=weighting)
    assert found.verdict == law
    assert found.misfit[law] < 1e-12 < found.misfit[{"exponential": "power law", "power law": "exponential"}[law]]
    used = curve > 1e-3
    assert np.array_equal(found.lags, THINNED[used])
    gamma, rate = (0.4, 0.0) if law == "power law" else (0.0, 1 / 120)
    assert found.exponent.value == pytest.approx(gamma, abs=1e-9)
    assert found.rate.value == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_law_that_holds_both_finds_exponent_and_rate(weighting: str) -> None:
    curve = 0.1 * THINNED**-0.3 * np.exp(-THINNED / 200)
    found = compare_decay(THINNED, curve, noisy(curve, 0.003, 1), weighting=weighting)
    assert found.exponent.value == pytest.approx(0.3, abs=1e-9)
    assert found.rate.value == pytest.approx(1 / 200, abs=1e-9)
    assert found.exponent.sign == found.rate.sign == 1
    assert found.misfit["both"] < 1e-12


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_curve_as_far_from_both_laws_is_undecided_once_it_is_noisy(weighting: str) -> None:
    near = np.unique(np.geomspace(1, 40, 20).round().astype(int))
    exact = [compare_decay(near, c, np.tile(c, (10, 1)), weighting=weighting).advantage.value
             for c in (0.1 * near**-g * np.exp(-near / x) for g, x in ((0.02, 30), (0.6, 4000)))]  # fmt: skip
    assert exact[0] < 0 < exact[1]
    flat = 0.05 * np.exp(-near / 3000)  # falls by one part in a hundred, noise by as much
    groups = noisy(flat, 0.05, 3)
    assert compare_decay(near, groups.mean(axis=0), groups, weighting=weighting).verdict == "undecided"


def test_counting_every_lag_gives_the_sum_of_squares_of_the_unthinned_fits() -> None:
    curve = 0.1 * EVERY**-0.2 * np.exp(-EVERY / 300)
    found = compare_decay(EVERY, curve, np.tile(curve, (3, 1)), floor=0)
    exponential, power = fit_exponential(EVERY, curve, floor=0), fit_power_law(EVERY, curve)
    assert found.aic_difference == pytest.approx(exponential.aic - power.aic, rel=1e-9)
    assert found.misfit["exponential"] == pytest.approx(exponential.sigma * np.sqrt(509 / 511), rel=1e-9)


def test_thinned_lags_stand_for_all() -> None:
    assert lag_weights(THINNED).sum() == pytest.approx(511)
    assert np.array_equal(lag_weights([1, 2, 3, 7]), [1, 1, 2.5, 2.5])
    smooth = 0.1 * EVERY**-0.2 * np.exp(-EVERY / 300)
    whole = compare_decay(EVERY, smooth, np.tile(smooth, (3, 1)), floor=0)
    thin = compare_decay(THINNED, smooth[THINNED - 1], np.tile(smooth[THINNED - 1], (3, 1)), floor=0)
    assert thin.advantage.value == pytest.approx(whole.advantage.value, abs=0.1)


def test_the_interval_of_a_correlation_length_holds_the_truth_as_often_as_it_says() -> None:
    truth, hits = 0.1 * np.exp(-EVERY / 60), 0
    for seed in range(200):
        groups = noisy(truth, 0.1, seed)
        found = correlation_length(EVERY, groups.mean(axis=0), THINNED, groups[:, THINNED - 1])
        assert found.sampling is not None
        hits += found.sampling[0] <= 60 <= found.sampling[1]
    assert 180 <= hits <= 199  # 190 expected, standard deviation 3


def test_points_taken_as_independent_promise_too_much() -> None:
    """The textbook's interval on the same curves, whose noise neighbouring lags share."""
    truth, hits = 0.1 * np.exp(-EVERY / 60), 0
    for seed in range(200):
        low, high = fit_exponential(EVERY, noisy(truth, 0.1, seed).mean(axis=0)).interval
        hits += low <= 60 <= high
    assert hits < 100


def test_a_power_law_has_the_correlation_length_of_its_window_and_a_small_error_bar() -> None:
    curve = 0.1 * EVERY**-0.4
    found = correlation_length(EVERY, curve)
    assert found.value == pytest.approx(512 / (3 * 0.4), rel=0.02)
    low, high = found.textbook
    assert (high - low) / 2 < 0.06 * found.value  # so a small bar is no sign of an exponential
    assert found.sampling is None and found.points == 511


def test_sampled_sequences_of_a_power_law_are_told_from_those_of_an_exponential() -> None:
    rng = np.random.default_rng(7)
    rows, length, amplitude = 1000, 256, np.pi * np.sqrt(0.05)
    lags = np.unique(np.geomspace(1, length - 1, 36).round().astype(int))
    hidden, memory = np.empty((rows, length)), np.exp(-1 / 80)  # the information of c = a r^tau falls as r^2tau
    hidden[:, 0] = rng.standard_normal(rows)
    for t in range(1, length):
        hidden[:, t] = memory * hidden[:, t - 1] + np.sqrt(1 - memory**2) * rng.standard_normal(rows)
    mixed = np.sqrt(amplitude) * hidden + np.sqrt(1 - amplitude) * rng.standard_normal(hidden.shape)
    for sequences, law in ((PowerLawBinary(length).sample(rows, rng), "power law"), (mixed > 0, "exponential")):
        whole = auto_mutual_information(sequences.astype(np.uint8), lags, progress=False)
        groups = np.array([auto_mutual_information(part.astype(np.uint8), lags, progress=False)
                           for part in np.array_split(sequences, 10)])  # fmt: skip
        assert compare_decay(lags, whole, groups, weighting="precision").verdict == law
        if law == "exponential":
            every = np.arange(1, length)
            complete = auto_mutual_information(sequences.astype(np.uint8), every, progress=False)
            assert correlation_length(every, complete).value == pytest.approx(40, rel=0.15)


def test_points_before_the_floor() -> None:
    assert points_before_floor([0.3, 0.2, 0.0005, 0.4]) == 2
    assert points_before_floor([0.3, 0.2]) == 2
    assert points_before_floor([0.0]) == 0


def test_a_point_that_one_group_alone_lifts_above_zero_is_not_fitted() -> None:
    curve = 0.1 * np.exp(-THINNED / 100)
    groups = np.tile(curve, (4, 1))
    groups[0, 3], groups[1:, 3] = 4.3 * curve[3], -0.1 * curve[3]  # with the mean of before
    with pytest.raises(ValueError, match="above 0, with any one of them left out"):
        compare_decay(THINNED, curve, groups)
    whole = np.interp(EVERY, THINNED, curve)
    assert GroupedCurve(whole, THINNED, groups).comparisons == ()
    assert len(GroupedCurve(whole, THINNED, np.tile(curve, (4, 1))).comparisons) == len(WEIGHTINGS)


def test_bad_input_is_refused() -> None:
    curve = 0.1 * np.exp(-THINNED / 100)
    groups = np.tile(curve, (4, 1))
    with pytest.raises(ValueError, match="rising"):
        compare_decay(THINNED[::-1], curve, groups)
    with pytest.raises(ValueError, match="needed; got"):
        compare_decay(THINNED, curve[1:], groups)
    with pytest.raises(ValueError, match="at least 3"):
        compare_decay(THINNED, curve, groups[:2])
    with pytest.raises(ValueError, match="at least 5 are needed"):
        compare_decay(THINNED, curve * 1e-3, groups)
    with pytest.raises(ValueError, match="n >= 1 are needed"):
        compare_decay([], [], np.zeros((3, 0)))
    with pytest.raises(ValueError, match="one or more"):
        lag_weights([])
    with pytest.raises(ValueError, match="weighting"):
        compare_decay(THINNED, curve, groups, weighting="equal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="both or neither"):
        correlation_length(EVERY, 0.1 * np.exp(-EVERY / 60), THINNED)
