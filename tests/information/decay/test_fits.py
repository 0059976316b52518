"""Fits of decay: planted laws recovered, intervals that cover, and model comparison that is not fooled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import linregress
from scipy.stats import t as student

from lib.information import compare_fits, fit_exponential, fit_power_law

Curve = npt.NDArray[np.float64]
LAGS: Curve = np.unique(np.geomspace(1, 500, 25).round())


def noisy(curve: Curve, spread: float, seed: int) -> Curve:
    return np.asarray(curve * np.exp(spread * np.random.default_rng(seed).standard_normal(curve.size)))


@given(amplitude=st.floats(1e-6, 10), exponent=st.floats(-1, 4))
def test_exact_power_law_is_recovered(amplitude: float, exponent: float) -> None:
    fit = fit_power_law(LAGS, amplitude * LAGS**-exponent)
    assert fit.exponent == pytest.approx(exponent, abs=1e-12)
    assert fit.amplitude == pytest.approx(amplitude, rel=1e-11)
    assert fit.interval[0] <= exponent <= fit.interval[1]
    assert fit.interval[1] - fit.interval[0] < 1e-10
    assert fit.predict(LAGS) == pytest.approx(amplitude * LAGS**-exponent, rel=1e-11)


@given(amplitude=st.floats(1e-3, 10), length=st.floats(20, 5000))
def test_exact_exponential_is_recovered(amplitude: float, length: float) -> None:
    fit = fit_exponential(LAGS, amplitude * np.exp(-LAGS / length), floor=0.0)
    assert fit.correlation_length == pytest.approx(length, rel=1e-9)
    assert fit.amplitude == pytest.approx(amplitude, rel=1e-11)
    assert fit.interval[0] <= length * (1 + 1e-12)
    assert fit.interval[1] >= length * (1 - 1e-12)


@given(exponent=st.floats(0.3, 2.5), offset=st.floats(1e-4, 1e-1))
@settings(max_examples=25)
def test_exact_power_law_with_offset_is_recovered(exponent: float, offset: float) -> None:
    fit = fit_power_law(LAGS, 0.5 * LAGS**-exponent + offset, offset=True)
    assert fit.exponent == pytest.approx(exponent, rel=1e-5)
    assert fit.offset == pytest.approx(offset, rel=1e-5)
    assert fit.amplitude == pytest.approx(0.5, rel=1e-5)
    assert fit.predict(LAGS) == pytest.approx(0.5 * LAGS**-exponent + offset, rel=1e-6)


@given(length=st.floats(5, 200), offset=st.floats(1e-4, 1e-1))
@settings(max_examples=25)
def test_exact_exponential_with_offset_is_recovered(length: float, offset: float) -> None:
    fit = fit_exponential(LAGS, 0.5 * np.exp(-LAGS / length) + offset, floor=0.0, offset=True)
    assert fit.correlation_length == pytest.approx(length, rel=1e-5)
    assert fit.offset == pytest.approx(offset, rel=1e-5)


@pytest.mark.parametrize("exponent", [-0.3, -0.7, -1.5])
def test_a_growing_curve_with_an_offset_is_recovered(exponent: float) -> None:
    exact = 0.1 * LAGS**-exponent + 1.0
    fit = fit_power_law(LAGS, exact, offset=True)
    assert (fit.exponent, fit.offset, fit.amplitude) == pytest.approx((exponent, 1.0, 0.1), rel=1e-5)
    assert fit.interval[0] <= exponent + 1e-5 and fit.interval[1] >= exponent - 1e-5
    assert fit.predict(LAGS) == pytest.approx(exact, rel=1e-6)
    rising = fit_exponential(LAGS, 0.01 * np.exp(LAGS / 200) + 0.1, offset=True)
    assert rising.predict(LAGS) == pytest.approx(0.01 * np.exp(LAGS / 200) + 0.1, rel=1e-6)
    assert rising.offset == pytest.approx(0.1, rel=1e-5) and rising.correlation_length == np.inf
    scattered = noisy(exact, 0.05, seed=1)
    assert fit_power_law(LAGS, scattered, offset=True).sigma <= fit_power_law(LAGS, scattered).sigma * 1.05


def test_a_curve_is_followed_to_infinity_in_value_not_in_lag() -> None:
    growing = fit_exponential(LAGS, 0.1 * np.exp(LAGS / 300))
    assert growing.predict([1e6])[0] == np.inf
    for fit in (growing, fit_power_law(LAGS, LAGS**-0.5)):
        with pytest.raises(ValueError, match="finite lags"):
            fit.predict([1.0, np.inf])


def test_slopes_intervals_and_criteria_are_those_of_linear_regression() -> None:
    curve = noisy(0.3 * LAGS**-0.4, 0.2, seed=3)
    fit = fit_power_law(LAGS, curve)
    line = linregress(np.log(LAGS), np.log(curve))
    half = student.ppf(0.975, LAGS.size - 2) * line.stderr
    assert fit.exponent == pytest.approx(-line.slope, rel=1e-12)
    assert fit.interval == pytest.approx((-line.slope - half, -line.slope + half), rel=1e-12)
    assert fit.amplitude == pytest.approx(np.exp(line.intercept), rel=1e-12)
    residuals = np.log(curve) - np.log(fit.predict(LAGS))
    n, rss = LAGS.size, float(residuals @ residuals)
    assert fit.aic == pytest.approx(n * np.log(rss / n) + 2 * 3, rel=1e-12)
    assert fit.aicc == pytest.approx(fit.aic + 2 * 3 * 4 / (n - 4), rel=1e-12)
    assert fit.sigma == pytest.approx(np.sqrt(rss / (n - 2)), rel=1e-12)


def test_offset_fit_is_the_global_minimum() -> None:
    """Against many starts of a general optimiser on all three parameters."""
    for seed in range(4):
        curve = noisy(0.3 * LAGS**-0.9 + 3e-3, 0.3, seed)

        def cost(point: Curve, curve: Curve = curve) -> float:
            model = np.logaddexp(point[0] - np.exp(point[1]) * np.log(LAGS), point[2])
            return float(np.sum((np.log(curve) - model) ** 2))

        starts = [(a, b, c) for a in (-3.0, 0.0) for b in (-2.0, 0.0, 1.0) for c in (-12.0, -6.0, -3.0)]
        best = min(minimize(cost, start, method="Nelder-Mead", options={"maxiter": 4000}).fun for start in starts)
        fit = fit_power_law(LAGS, curve, offset=True)
        own = float(np.sum(np.log(curve / fit.predict(LAGS)) ** 2))
        assert own <= best + 1e-7


@pytest.mark.parametrize(("offset", "constant"), [(False, 0.0), (True, 3e-3), (True, 0.0)])
def test_ninety_five_percent_intervals_cover_the_exponent(offset: bool, constant: float) -> None:
    """150 noisy curves each; 95 % less 4 standard errors of a proportion is 0.88. More is right at the border C = 0."""
    covered = 0
    for seed in range(150):
        fit = fit_power_law(LAGS, noisy(0.3 * LAGS**-0.8 + constant, 0.1, seed), offset=offset)
        covered += fit.interval[0] <= 0.8 <= fit.interval[1]
    assert covered / 150 >= 0.88
    if not offset:
        assert covered / 150 < 1.0


@pytest.mark.parametrize("spread", [1e-5, 1e-7, 1e-9, 1e-12])
def test_intervals_cover_and_scale_with_the_noise_however_small_it_is(spread: float) -> None:
    """Where a minimum is known to half its digits only, the profile lies above its own least value."""
    fits = [fit_power_law(LAGS, noisy(0.2 * LAGS**-0.9 + 0.01, spread, seed), offset=True) for seed in range(40)]
    covered = [fit.interval[0] <= 0.9 <= fit.interval[1] for fit in fits]
    wider = [fit_power_law(LAGS, noisy(0.2 * LAGS**-0.9 + 0.01, 1e-4, seed), offset=True) for seed in range(40)]
    width = np.median([np.diff(fit.interval) for fit in fits]) / np.median([np.diff(fit.interval) for fit in wider])
    assert sum(covered) >= 33
    assert width == pytest.approx(spread / 1e-4, rel=0.02)


def test_exact_curves_with_an_offset_have_narrow_intervals_that_hold_the_truth() -> None:
    lags = np.arange(1.0, 40.0)
    for fit, truth in (
        (fit_power_law(lags, 0.2 * lags**-0.4 + 0.01, offset=True), 0.4),
        (fit_exponential(lags, 0.2 * np.exp(-lags / 6) + 0.01, offset=True), 6.0),
    ):
        low, high = fit.interval
        assert low < truth < high < low + 1e-10
    steep = fit_power_law(lags, 0.2 * lags**-50.0 + 0.01, offset=True)  # all but the first point are the constant
    assert steep.interval[1] == np.inf


def test_the_profile_interval_is_no_wider_than_it_must_be() -> None:
    """Negative control of coverage: an exponent that is wrong by twice the noise is excluded nearly always."""
    excluded = 0
    for seed in range(50):
        low, high = fit_power_law(LAGS, noisy(0.3 * LAGS**-0.8 + 3e-3, 0.05, seed), offset=True).interval
        excluded += not (low <= 0.9 <= high)
    assert excluded >= 45


def test_constant_bias_ruins_the_uncorrected_exponent_and_the_offset_saves_it() -> None:
    """L2M A.16-A.18 on a planted law of exponent 0.9."""
    curve = noisy(1.1 * LAGS**-0.9 + 4e-3, 0.02, seed=0)
    plain, corrected = fit_power_law(LAGS, curve), fit_power_law(LAGS, curve, offset=True)
    assert corrected.interval[0] <= 0.9 <= corrected.interval[1]
    assert not plain.interval[0] <= 0.9 <= plain.interval[1]
    assert corrected.offset == pytest.approx(4e-3, rel=0.2)


@pytest.mark.parametrize(
    ("name", "curve"),
    [
        ("exponential", 0.5 * np.exp(-LAGS / 80)),
        ("exponential with offset", 0.5 * np.exp(-LAGS / 20) + 5e-3),
        ("power law", 0.3 * LAGS**-0.5),
        ("power law with offset", 0.5 * LAGS**-1.2 + 5e-3),
    ],
)
@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_comparison_finds_the_planted_model(name: str, curve: Curve, spread: float) -> None:
    for seed in range(3):
        comparison = compare_fits(LAGS, noisy(curve, spread, seed))
        weights = comparison.weights
        rightful = sum(
            weight for model, weight in weights.items() if model.startswith(name.removesuffix(" with offset"))
        )
        assert rightful > 0.99, "the family is certain; one parameter too many may remain plausible"
        assert weights[name] > 0.05
        assert sum(weights.values()) == pytest.approx(1.0)
        assert comparison.best == max(weights, key=weights.__getitem__)
        assert len({fit.points for fit in comparison.fits.values()}) == 1
    if spread == 0.0:
        assert comparison.best == name


def test_a_power_law_has_a_correlation_length_set_by_the_window() -> None:
    """Erratum 10: about N/(3 gamma) for 0.1 tau^-0.4 over tau = 1..N; twice the window, twice the length."""
    lengths = []
    for window in (511, 1022):
        tau = np.arange(1, window + 1)
        lengths.append(fit_exponential(tau, 0.1 * tau**-0.4).correlation_length)
    assert lengths[0] == pytest.approx(511 / (3 * 0.4), rel=0.05)
    assert lengths[1] / lengths[0] == pytest.approx(2, rel=0.02)


def test_only_points_above_the_floor_are_used() -> None:
    curve = 0.5 * np.exp(-LAGS / 10)
    spoiled = np.where(curve > 1e-3, curve, -1e-5)
    fit = fit_exponential(LAGS, spoiled)
    assert fit.correlation_length == pytest.approx(10, rel=1e-9)
    assert fit.points == np.count_nonzero(curve > 1e-3)
    assert fit_power_law(LAGS, spoiled, floor=1e-2).points == np.count_nonzero(curve > 1e-2)
    fit_exponential([0, 1, 2], [1.0, 0.5, 0.25])  # lag 0 is a point of an exponential


def test_curves_that_do_not_fall_have_infinite_length() -> None:
    growing = fit_exponential(LAGS, 0.1 * np.exp(LAGS / 300))
    assert growing.correlation_length == np.inf
    assert growing.interval == (np.inf, np.inf)
    assert growing.predict([500.0])[0] == pytest.approx(0.1 * np.exp(500 / 300))
    flat = fit_exponential(LAGS, noisy(np.full(LAGS.size, 0.1), 0.1, seed=0))
    assert flat.interval[1] == np.inf
    assert 0 < flat.interval[0] < np.inf
    constant = compare_fits(LAGS, np.full(LAGS.size, 0.1))
    assert all(np.isfinite([fit.aic, fit.aicc]).all() for fit in constant.fits.values())
    assert fit_power_law(LAGS, 0.1 * LAGS**0.3, offset=True).exponent == pytest.approx(-0.3)


def test_an_exact_fit_has_finite_criteria_and_the_simpler_model_wins() -> None:
    fit = fit_power_law([1, 2, 4], [1.0, 0.5, 0.25])
    assert np.isfinite([fit.aic, fit.sigma, *fit.interval]).all()
    comparison = compare_fits(LAGS, 0.3 * LAGS**-0.5)
    assert comparison.best == "power law"
    assert comparison.fits["power law with offset"].offset == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("fit", [fit_exponential, fit_power_law, compare_fits])
def test_bad_curves_are_refused_by_name(fit: object) -> None:
    def refused(said: str, *arguments: object, **options: float) -> None:
        with pytest.raises(ValueError, match=said):
            fit(*arguments, **options)  # type: ignore[operator]

    few = [0.5, 0.4] + [-0.1] * 8
    refused("2 of 10 points lie above the floor", np.arange(1, 11), few)
    refused("same n", [1, 2, 3], [0.1, 0.2])
    refused("same n", [[1, 2, 3]], [[0.1, 0.2, 0.3]])
    refused("NaN", np.arange(1, 9), [0.1] * 7 + [np.nan])
    refused("NaN or infinity", np.arange(1, 9), [0.1] * 7 + [np.inf])
    refused("negative", np.arange(-1, 7), [0.1] * 8)
    refused("floor", np.arange(1, 9), [0.1] * 8, floor=-1.0)
    refused("different lags", np.ones(8), [0.1] * 8)


@pytest.mark.parametrize("fit", [fit_exponential, fit_power_law, compare_fits])
def test_tensors_are_fitted_and_what_is_no_real_number_is_refused(fit: Any) -> None:
    lags, curve = torch.arange(1, 9), torch.tensor([0.9, 0.5, 0.4, 0.2, 0.1, 0.05, 0.04, 0.02])
    expected = fit(lags.numpy(), curve.numpy())
    assert fit(lags, curve.clone().requires_grad_()) == expected
    assert fit(lags.bfloat16(), curve.double()) == expected
    for wrong in (curve + 1j, (curve + 1j).tolist(), [str(value) for value in curve.tolist()]):
        with pytest.raises(ValueError, match="mi: real numbers are allowed"):
            fit(lags, wrong)
    with pytest.raises(ValueError, match="lags: real numbers are allowed"):
        fit(lags + 0j, curve)
    for floor in (None, "0", True, 0j, [0.0], np.nan, np.inf):
        with pytest.raises(ValueError, match="floor: a finite real number is allowed"):
            fit(lags, curve, floor=floor)
    if fit is not compare_fits:
        with pytest.raises(ValueError, match="lags: real numbers are allowed"):
            expected.predict([1.0, 2j])


def test_limits_of_the_models_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="lags > 0"):
        fit_power_law([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1])
    with pytest.raises(ValueError, match="lags > 0"):
        compare_fits(np.arange(8), 0.5 ** np.arange(8))
    with pytest.raises(ValueError, match="at least 4"):
        fit_power_law([1, 2, 3], [0.3, 0.2, 0.1], offset=True)
    with pytest.raises(ValueError, match="at least 6"):
        compare_fits([1, 2, 3, 4, 5], [0.5, 0.4, 0.3, 0.2, 0.1])
    with pytest.raises(ValueError, match="lags > 0"):
        fit_power_law([1, 2, 3], [0.3, 0.2, 0.1]).predict([0])


@pytest.mark.parametrize("fit", [fit_exponential, fit_power_law])
def test_offset_is_true_or_false_and_no_curve_goes_on_before_lag_zero(fit: Any) -> None:
    lags, curve = np.arange(1, 9), 0.5 ** np.arange(1, 9)
    assert fit(lags, curve, offset=np.True_) == fit(lags, curve, offset=True)
    for bad in (1e-3, 1, None, "False"):
        with pytest.raises(ValueError, match=f"offset: True or False is allowed, got {bad!r}"):
            fit(lags, curve, offset=bad)
    for lag in (-1.0, np.nan):
        with pytest.raises(ValueError, match=f"lags contain {lag:g}"):
            fit(lags, curve).predict([1.0, lag])


@pytest.mark.parametrize("power", [-960, 960])
def test_an_exponential_does_not_depend_on_the_unit_of_the_lags(power: int) -> None:
    lags, curve, unit = np.arange(1.0, 6.0), [0.3, 0.2, 0.1, 0.08, 0.07], 2.0**power
    plain, scaled = fit_exponential(lags, curve), fit_exponential(lags * unit, curve)
    assert scaled.correlation_length == plain.correlation_length * unit
    assert scaled.interval == tuple(end * unit for end in plain.interval)
