"""The line through exponents and losses: exact on a line, wide enough where models scatter, refused without models."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.text_information.quality import exponent_at, line_of, line_through
from experiments.text_information.runs import plain, text_runs
from tests.experiments.text_information.fake_records import world


def test_models_on_a_line_are_extrapolated_without_an_error() -> None:
    losses = np.array([2.0, 1.7, 1.5, 1.2, 1.1, 0.9])
    line = line_through(losses, 0.9 - 0.3 * losses, np.repeat((0.9 - 0.3 * losses)[:, None], 50, axis=1))
    assert line is not None
    assert line.fitted == pytest.approx((0.9, -0.3)) and line.at(0.5).value == pytest.approx(0.75)
    assert line.at(0.5).ends == pytest.approx((0.75, 0.75)) and line.slope.ends == pytest.approx((-0.3, -0.3))


def test_intervals_hold_one_more_model_of_the_same_kind() -> None:
    random, inside, wide = np.random.default_rng(3), [], []
    losses = np.linspace(2.0, 0.8, 16)
    for _ in range(60):
        model = 0.9 - 0.3 * losses + 0.05 * random.standard_normal(16)
        line = line_through(losses, model, model[:, None] + 0.02 * random.standard_normal((16, 200)))
        assert line is not None
        another, found = 0.9 - 0.3 * 0.5 + 0.05 * random.standard_normal(), line.at(0.5)
        inside.append(found.low <= another <= found.high)
        wide.append(found.high - found.low)
        assert line.slope.high < 0
    assert np.mean(inside) > 0.85
    assert np.mean(wide) > 3 * 0.05  # and not by being blind to the scatter


def test_a_line_without_a_slope_is_not_said_to_have_one() -> None:
    random = np.random.default_rng(5)
    losses, model = np.linspace(2.0, 0.8, 12), 0.2 + 0.05 * random.standard_normal(12)
    line = line_through(losses, model, model[:, None] + 0.01 * random.standard_normal((12, 100)))
    assert line is not None and line.slope.sign == 0 and not line.at(0.5).low < 0.76 < line.at(0.5).high


def test_models_without_an_exponent_are_left_out_and_too_few_give_no_line() -> None:
    losses = np.array([2.0, 1.7, 1.5, 1.2, 1.1, math.nan])
    drawn = np.repeat(losses[:, None], 5, axis=1)
    line = line_through(losses, losses, drawn)
    assert line is not None and line.losses.size == 5
    assert line_through(losses[1:], losses[1:], drawn[1:]) is None
    assert line_through(np.ones(6), losses, drawn) is None
    assert math.isnan(exponent_at(None, 0.5).value)
    with pytest.raises(ValueError, match=r"got \(6,\), \(5,\) and \(6, 5\)"):
        line_through(losses, losses[1:], drawn)


def test_the_line_of_records_is_that_of_their_law() -> None:
    runs = plain(text_runs(world(exponent=lambda loss: 0.95 - 0.3 * loss, noise=0.005)))
    line = line_of(runs, "direct")
    assert line is not None and line.fitted == pytest.approx((0.95, -0.3), abs=0.03)
    assert line.at(0.6).low < 0.95 - 0.3 * 0.6 < line.at(0.6).high
