"""What the paper's own points say: read off Fig. 2(b,c), they need no model of ours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.text_information.runs import Published
from experiments.text_information.statements import advantage_over_logarithm
from lib.information.intervals import Interval

Floats = NDArray[np.float64]
READING = 0.02  # relative error of a point that is read off a figure, one standard deviation


def advantage(law: Published) -> float:
    """`power_law_advantage` of points read off the figure, all of which are known equally well in ln I."""
    points = np.array(law.points)
    return float(advantage_over_logarithm(law.lengths, points[None], points**-2.0)[0])


def local_exponents(law: Published) -> Floats:
    """Local exponents over single doublings of L."""
    return np.asarray(np.diff(np.log2(law.points)))


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
    doublings, lengths = np.arange(len(law.points)), np.log(law.lengths)
    slopes = []
    for some in (doublings <= 3, (doublings >= 3) & (doublings <= 8)):
        centred = np.where(some, lengths - lengths[some].mean(), 0.0)
        slopes.append(centred / (centred @ centred))  # least squares, as weights of ln I
    weights = slopes[0] - slopes[1]
    value, reach = float(weights @ np.log(law.points)), 1.96 * READING * float(np.linalg.norm(weights))
    return Interval(value, value - reach, value + reach)
