"""Any N >= 6 numbers on a line are memorised by N - 2 ReLU units: the construction, in exact rationals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lib.checks import whole_number
from lib.theory.smallest.piecewise_linear import HiddenLayer, Number, bends, points_on_a_line, simplest_interpolant

SIX = 6  # points that four units memorise, whatever the targets


def worst_case_size(points: int) -> int:
    """Units that memorise every set of real targets at N distinct points of a line, and are needed for some set:

        min(N, max(4, N - 2)).

    Raises ValueError for fewer than one point. Source: this book; Prop. A.8 of Nandakumar et al. gives >= N - 2, their
    Prop. 4.5 gives <= N.
    """
    count = whole_number(points, "points", 1)
    return min(count, max(4, count - 2))


def memorise_on_a_line(targets: Sequence[Number], inputs: Sequence[Number] | None = None) -> HiddenLayer:
    """y(x) = sum_k c_k relu(a_k x + b_k) through all points with `worst_case_size` units.

    Six points take four units (`memorise_six`), every further point takes one whose kink is at the point before.
    inputs: increasing, 1, 2, 3 ... if not given. Raises ValueError if they do not increase or a number is not rational.
    Cost O(points^2). Source: this book.
    """
    x, y = points_on_a_line(range(1, len(targets) + 1) if inputs is None else inputs, targets)
    if len(x) < SIX - 1:
        return _kinks_and_a_line(x, y)
    if len(x) == SIX - 1:
        return memorise_six([*x, x[-1] + 1], [*y, Fraction(0)])
    layer = memorise_six(x[:SIX], y[:SIX])
    for i in range(SIX, len(x)):
        c = (y[i] - layer(x[i])) / (x[i] - x[i - 1])
        layer = HiddenLayer([*layer.weights, 1], [*layer.biases, -x[i - 1]], [*layer.outputs, c])
    return layer


def memorise_six(inputs: Sequence[Number], targets: Sequence[Number]) -> HiddenLayer:
    """Four units through any six points.

    With d_2 ... d_5 the `bends` at the inner points: if d_4 >= 0 >= d_5, `_two_from_each_side` does it. Turning the
    signs of the targets over, or the line around, gives every case in which d_2 d_3 <= 0 or d_4 d_5 <= 0. In the others
    two kinks suffice, and a straight line takes two more units. Raises ValueError unless there are six points whose
    inputs increase. Source: this book.
    """
    x, y = points_on_a_line(inputs, targets)
    if len(x) != SIX:
        raise ValueError(f"inputs: {SIX} points are allowed, got {len(x)}")
    d2, d3, d4, d5 = bends(x, y)
    if d4 >= 0 >= d5:
        return _two_from_each_side(x, y)
    if d4 <= 0 <= d5:
        layer = _two_from_each_side(x, [-value for value in y])
        return HiddenLayer(layer.weights, layer.biases, [-c for c in layer.outputs])
    if d2 * d3 <= 0:
        layer = memorise_six([-value for value in reversed(x)], y[::-1])
        return HiddenLayer([-a for a in layer.weights], layer.biases, layer.outputs)
    return _kinks_and_a_line(x, y)


def alternating_layer(points: int) -> HiddenLayer:
    """N - 2 units with y(i) = +1, -1, +1 ... at i = 1 ... N, for N >= 6:

        (15x-28)+ - (18x-45)+ + (31-9x)+ - (26-5x)+ + 5(x-6)+ - 4(x-7)+ + 4(x-8)+ - ...

    with (z)+ = relu(z) and kinks of size 4 up to N - 1. Raises ValueError for fewer than six points.
    """
    count = whole_number(points, "points", SIX)
    further = range(SIX, count)  # kinks, one for each point after the sixth
    steps = [5 if kink == SIX else 4 * (-1) ** kink for kink in further]
    return HiddenLayer(
        [15, 18, -9, -5, *(1 for _ in further)],
        [-28, -45, 31, 26, *(-kink for kink in further)],
        [1, -1, 1, -1, *steps],
    )


def _two_from_each_side(x: Sequence[Fraction], y: Sequence[Fraction]) -> HiddenLayer:
    """Four units for six points with bends d_4 >= 0 >= d_5.

    Two units are active on the right: zero at x_1, p at x_2, the line R from x_3 on. Two are active on the left: the
    line L up to x_3, a line M at x_4 and x_5, zero at x_6. R(x_6) = y_6 and L(x_1) = y_1; the slope of R is free, and
    every condition holds if it is steep enough downwards.
    """
    x1, x2, x3, x4, x5, x6 = x
    y1, y2, y3, y4, y5, y6 = y
    s12, _, s34, s45, s56 = ((y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(SIX - 1))
    kink_2 = (x2 + x3) / 2
    # the slope of L is base + gain (slope of R), because both add up to y_3 at x_3
    base, gain = (y3 - y6 - y1) / (x3 - x1), (x6 - x3) / (x3 - x1)
    largest_sum = min(s34, (y3 - y2 - s12 * (kink_2 - x2)) / (x3 - kink_2))
    right = min(s56, (s12 - base) / gain, (largest_sum - base) / (1 + gain)) - 1
    left = base + gain * right
    p = y2 - y1 - left * (x2 - x1)
    rise = (y6 + right * (kink_2 - x6) - p) / (kink_2 - x2)  # of the first unit: from p at x_2 to R at the second kink
    kink_1 = x2 - p / rise
    fall = s45 - right  # slope of M: the line through points 4 and 5, less R
    kink_4 = x5 + (y6 + right * (x5 - x6) - y5) / fall
    turn = s45 - left - right  # slope of M less that of L
    kink_3 = x3 + (y3 - y4 + s45 * (x4 - x3)) / turn
    return HiddenLayer(
        [rise, 1, -turn, -1], [-rise * kink_1, -kink_2, turn * kink_3, kink_4], [1, right - rise, 1, -fall]
    )


def _kinks_and_a_line(x: Sequence[Fraction], y: Sequence[Fraction]) -> HiddenLayer:
    """One unit for every kink of the simplest interpolant, and relu(l) - relu(-l) = l for its first line."""
    f = simplest_interpolant(x, y)
    if not f.slopes[0]:
        line = ([Fraction(0)], [Fraction(1)], [f.intercept])
    else:
        line = ([f.slopes[0], -f.slopes[0]], [f.intercept, -f.intercept], [Fraction(1), Fraction(-1)])
    kinks = len(f.kinks)
    return HiddenLayer([*line[0], *[1] * kinks], [*line[1], *(-kink for kink in f.kinks)], [*line[2], *f.jumps])
