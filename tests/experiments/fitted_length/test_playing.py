"""The figure to play with shows the length that the fit finds, which is the window's while the window is short."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.fitted_length import playing
from lib.report.figures.interactive import Playable
from tests.report.test_interactive import rows, words

AMPLITUDE, GAMMA = 0.1, 0.4


@pytest.fixture(scope="module")
def figure() -> Playable:
    return playing.lengths(AMPLITUDE, GAMMA)


@pytest.mark.parametrize(("count", "window"), [(1, 64), (3, 512), (8, 4096)])
def test_the_length_is_that_of_a_straight_line_through_the_logarithm(figure: Playable, count: int, window: int) -> None:
    tau = np.arange(1, window)
    terms = [4.0 ** (-GAMMA * j) * np.exp(-tau / 4.0**j) for j in range(1, count + 1)]
    slope = np.polyfit(tau, np.log(AMPLITUDE * np.sum(terms, axis=0)), 1)[0]
    of_all = rows(figure.chart, "count window length")
    found = [float(row["length"]) for row in of_all if (row["count"], row["window"]) == (f"{count}", f"{window}")]
    assert found == pytest.approx([-1 / slope], rel=2e-3)
    assert found != pytest.approx([-2 / slope], rel=2e-3)
    assert f"ξ = {-1 / slope:.3g}, where" in words(figure.picture(count=count, window=window))


@pytest.mark.parametrize("count", [2, 5])
def test_the_curves_are_the_sum_and_the_exponential_of_that_length(figure: Playable, count: int) -> None:
    drawn = {name: [row for row in rows(figure.chart, columns) if row["count"] == f"{count}"]
             for name, columns in (("sum", "count tau nats"), ("fit", "count window tau nats"))}  # fmt: skip
    for row in drawn["sum"][:6]:
        expected = playing.mixture(count, float(row["tau"]), AMPLITUDE, GAMMA)
        assert float(row["nats"]) == pytest.approx(float(expected), rel=1e-3)
    first, second = [row for row in drawn["fit"] if row["window"] == "128"][:9:8]
    fall = np.log(float(first["nats"]) / float(second["nats"])) / (float(second["tau"]) - float(first["tau"]))
    assert 1 / fall == pytest.approx(playing.fitted(count, 128, AMPLITUDE, GAMMA)[0], rel=0.02)


def test_one_exponential_has_its_length_in_every_window_and_many_have_the_windows() -> None:
    alone = [playing.fitted(1, window, AMPLITUDE, GAMMA)[0] for window in (32, 256)]
    assert alone == pytest.approx([4.0, 4.0])
    many = [playing.fitted(8, window, AMPLITUDE, GAMMA)[0] for window in (128, 512, 2048)]
    assert np.array(many) / [128, 512, 2048] == pytest.approx(1 / (3 * GAMMA), rel=0.3)
    few = playing.fitted(3, 8192, AMPLITUDE, GAMMA)[0]
    assert few == pytest.approx(64, rel=0.05)  # the longest of them, and no window


def test_many_exponentials_follow_the_power_law() -> None:
    tau = np.array([4, 16, 64, 256, 1024])
    ratio = playing.mixture(8, tau, AMPLITUDE, GAMMA) / (AMPLITUDE * tau**-GAMMA)
    assert ratio.max() / ratio.min() < 1.3
    short = playing.mixture(3, tau, AMPLITUDE, GAMMA) / (AMPLITUDE * tau**-GAMMA)
    assert short.max() / short.min() > 1000
