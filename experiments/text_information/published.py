"""What the paper's own points say: read off Fig. 2(b,c), they need no model of ours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.text_information.runs import Published
from experiments.text_information.shapes import LINE, advantage_over, bend_weights
from lib.information.intervals import Interval, percentiles

Floats = NDArray[np.float64]
READING = 0.02  # relative error of a point that is read off a figure, one standard deviation


def advantage(law: Published, rival: str = LINE) -> Interval:
    """`power_law_advantage` of points read off the figure, all of which are known equally well in ln I.

    The interval is that of 1000 readings, each point `READING` off, on its own.
    """
    points = np.array(law.points)
    off = READING * np.random.default_rng(0).standard_normal((1000, points.size))
    read = np.stack([points, *(points * np.exp(off))])
    value, *others = advantage_over(rival, law.lengths, read, points**-2.0)
    return percentiles(float(value), np.array(others))


def local_exponents(law: Published) -> Floats:
    """Local exponents over single doublings of L."""
    return np.asarray(np.diff(np.log2(law.points)))


def smallest_of_logarithms(law: Published) -> float:
    """What the smallest local exponent of a + b ln L at these lengths stays below if it is positive at all of them.

    Local exponents of such a curve fall with L and with a / b, and it is positive if a > -b ln L at the first length.
    """
    doublings = len(law.points) - 1
    return float(np.log2(doublings / (doublings - 1)))


def residual(law: Published) -> float:
    """Root mean square residual in ln I of the points about their best power law."""
    lengths, points = np.log(law.lengths), np.log(law.points)
    return float(np.sqrt(np.mean((points - np.polyval(np.polyfit(lengths, points, 1), lengths)) ** 2)))


def bend(law: Published) -> Interval:
    """The exponent of the first three doublings of L less that of the next five, or of as many as there are points of.

    Published two-point information is judged in the same form: one exponent, if the two differ by at most 0.1. Here a
    bend may have either sign, and has an interval, 95 %, of what the reading leaves open: `READING` at every point,
    each on its own.
    """
    weights = bend_weights(law.lengths)
    value, reach = float(weights @ np.log(law.points)), 1.96 * READING * float(np.linalg.norm(weights))
    return Interval(value, value - reach, value + reach)
