"""Intervals are Student's, over seeds and over groups, and are written with as many digits as is asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from lib.information.intervals import UNKNOWN, Interval, jackknife, paired_mean, percentiles, seed_mean


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=6))
@settings(max_examples=25)
def test_the_interval_over_seeds_is_students(values: list[float]) -> None:
    if np.ptp(values) < 1e-6:
        return
    interval = ttest_1samp(values, 0).confidence_interval(0.95)
    found = seed_mean([*values, np.nan])
    assert found.ends == pytest.approx((interval.low, interval.high), rel=1e-9, abs=1e-9)
    assert found.by_seed == tuple(values)


def test_an_interval_needs_two_seeds() -> None:
    assert np.isnan(seed_mean([1.0]).low) and seed_mean([1.0]).value == 1.0
    assert not seed_mean([1.0]).known and seed_mean([1.0, 1.1]).known
    assert seed_mean([]).by_seed == () and np.isnan(seed_mean([]).value)
    assert not percentiles(1.0, []).known
    for values, confidence in (([1.0, np.inf], 0.95), ([[1.0, 2.0]], 0.95), ([1.0, 2.0], 1.5), (["a"], 0.95)):
        with pytest.raises(ValueError, match="allowed"):
            seed_mean(values, confidence)


def test_a_paired_mean_is_of_the_seeds_that_both_have() -> None:
    found = paired_mean({2: 1.5, 0: 3.0, 7: 9.0}, {0: 1.0, 2: 0.5, 3: -9.0})
    assert found == seed_mean([2.0, 1.0]) and found.by_seed == (2.0, 1.0)
    assert math.isnan(paired_mean({0: 1.0}, {1: 1.0}).value) and not paired_mean({0: 1.0}, {0: 0.5}).known


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    data = np.random.default_rng(4).standard_normal(12)
    replicates = (data.sum() - data) / 11
    half = student.ppf(0.975, 11) * data.std(ddof=1) / np.sqrt(12)
    assert jackknife(data.mean(), replicates).ends == pytest.approx((data.mean() - half, data.mean() + half))
    with pytest.raises(ValueError, match="at least 3 numbers"):
        jackknife(1.0, [1.0, 2.0])


def test_percentiles_leave_out_a_fortieth_at_either_end() -> None:
    drawn = np.random.default_rng(5).permutation(np.arange(401.0))
    assert percentiles(7.0, drawn) == Interval(7.0, 10.0, 390.0)
    few, many = (np.where(drawn < unknown, np.nan, drawn) for unknown in (5, 15))
    assert percentiles(7.0, few).known and not percentiles(7.0, many).known and not percentiles(np.nan, drawn).known


def test_the_sign_is_that_of_the_whole_interval() -> None:
    assert Interval(1.0, 0.1, 2.0).sign == 1 == -Interval(-1.0, -2.0, -0.1).sign
    assert Interval(1.0, -0.1, 2.0).sign == UNKNOWN.sign == 0


def test_an_interval_is_written_as_asked_and_without_what_it_lacks() -> None:
    given = Interval(0.5, -0.25, 1.0)
    assert str(given) == f"{given}" == "0.5 [-0.25, 1]" and f"{given:+.2f}" == "+0.50 [-0.25, +1.00]"
    assert str(seed_mean([1.0, 1.0])) == "1.00 [1.00, 1.00]" and str(seed_mean([1.0])) == "1.00"
    assert (
        f"{Interval(-0.001, -0.02, 0.0):.1f}" == "0.0 [0.0, 0.0]"
        and f"{Interval(-0.001, -0.2, -0.0):+.1f}" == "+0.0 [-0.2, +0.0]"
    )
    assert f"{Interval(-1e-9, -1e-3, 0.0)}" == "-1e-09 [-0.001, 0]"
    assert str(UNKNOWN) == f"{UNKNOWN:+.2f}" == "–"
    for form in "+|>8.2f|*^+9.1f|z<8.2f|=+8.1f| .3f|-z.1f|08.2f|#.3g|_>z9.1e|<<7.1f|.0%".split("|"):
        assert f"{Interval(1.0, 0.0, 2.0):{form}}" == f"{1.0:{form}} [{0.0:{form}}, {2.0:{form}}]"
    assert f"{Interval(-0.001, -0.02, 0.0):>6.1f}" == "   0.0 [   0.0,    0.0]"
    with pytest.raises(ValueError, match=r"format specifier|format code"):
        format(given, ">>>")
    assert Interval(0.5, -0.25, 1.0, form=".2f") == given != Interval(0.5, -0.25, math.nan)
