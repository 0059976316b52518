"""Numbers with their intervals, as the tables and legends of a measured text write them."""

import pytest

from lib.measure.figures import _written
from lib.measure.results import Estimate


@pytest.mark.parametrize(
    ("interval", "written"),
    [
        ((1.5, 3.0), "2 [1.5, 3]"),
        ((1.5, None), "2 [1.5, ∞]"),
        ((None, 3.0), "2 [-∞, 3]"),
        ((None, None), "2"),
    ],
)
def test_an_open_end_is_infinite_and_no_interval_is_left_out(interval, written):
    assert _written(Estimate(value=2.0, interval=interval)) == written
    assert _written(None) is None
