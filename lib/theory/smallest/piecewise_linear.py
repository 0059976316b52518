"""Piecewise linear functions of one variable in exact rational numbers: their pieces are counted, not estimated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from numbers import Rational

Number = int | Fraction


@dataclass(frozen=True)
class PiecewiseLinear:
    """Continuous f with f(x) = intercept + slopes[0] x up to the first kink, and slopes[j] after the j-th kink.

    kinks: increasing, one fewer than slopes. Neighbouring pieces of equal slope are merged, so that equal functions are
    equal objects and `pieces` is the number of maximal intervals on which f is linear. Raises ValueError unless the
    kinks increase, the lengths fit and all numbers are int or Fraction.
    """

    kinks: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    intercept: Fraction

    def __init__(self, kinks: Iterable[Number], slopes: Iterable[Number], intercept: Number = 0) -> None:
        at, steep = rationals(kinks, "kinks"), rationals(slopes, "slopes")
        if len(steep) != len(at) + 1:
            raise ValueError(f"slopes: one more than kinks is allowed, got {len(steep)} slopes and {len(at)} kinks")
        if any(left >= right for left, right in pairwise(at)):
            raise ValueError(f"kinks: increasing numbers are allowed, got {kinks!r}")
        true = [j for j in range(len(at)) if steep[j] != steep[j + 1]]
        object.__setattr__(self, "kinks", tuple(at[j] for j in true))
        object.__setattr__(self, "slopes", (steep[0], *(steep[j + 1] for j in true)))
        object.__setattr__(self, "intercept", rationals([intercept], "intercept")[0])

    @property
    def pieces(self) -> int:
        """Number of maximal intervals on which the function is linear."""
        return len(self.slopes)

    @property
    def jumps(self) -> tuple[Fraction, ...]:
        """How much the slope changes at each kink."""
        return tuple(after - before for before, after in zip(self.slopes, self.slopes[1:], strict=False))

    def __call__(self, x: Number) -> Fraction:
        (at,) = rationals([x], "x")
        bends = (jump * (at - kink) for kink, jump in zip(self.kinks, self.jumps, strict=True) if at > kink)
        return self.intercept + self.slopes[0] * at + sum(bends, Fraction(0))

    def __add__(self, other: PiecewiseLinear) -> PiecewiseLinear:
        """f + g; at most pieces(f) + pieces(g) - 1 pieces, Lemma D.1 of Yun et al. (2019)."""
        jumps: dict[Fraction, Fraction] = {}
        for f in (self, other):
            for kink, jump in zip(f.kinks, f.jumps, strict=True):
                jumps[kink] = jumps.get(kink, Fraction(0)) + jump
        slopes = [self.slopes[0] + other.slopes[0]]
        for kink in sorted(jumps):
            slopes.append(slopes[-1] + jumps[kink])
        return PiecewiseLinear(sorted(jumps), slopes, self.intercept + other.intercept)

    def __rmul__(self, factor: Number) -> PiecewiseLinear:
        (by,) = rationals([factor], "factor")
        return PiecewiseLinear(self.kinks, [by * slope for slope in self.slopes], by * self.intercept)

    def roots(self) -> tuple[Fraction, ...]:
        """Where a piece that is not flat meets zero, increasing; a stretch on which f is zero gives none."""
        found = []
        for j, slope in enumerate(self.slopes):
            if slope:
                base = self(self.kinks[max(j - 1, 0)]) if self.kinks else self.intercept
                start = self.kinks[max(j - 1, 0)] if self.kinks else Fraction(0)
                root = start - base / slope
                if (j == 0 or root >= self.kinks[j - 1]) and (j == len(self.kinks) or root <= self.kinks[j]):
                    found.append(root)
        return tuple(sorted(set(found)))

    def relu(self) -> PiecewiseLinear:
        """max(f, 0); at most twice the pieces of f."""
        cuts = sorted({*self.kinks, *self.roots()})
        if not cuts:
            return self if self.intercept >= 0 and not self.slopes[0] else PiecewiseLinear([], [0])
        probes = [cuts[0] - 1, *((a + b) / 2 for a, b in pairwise(cuts)), cuts[-1] + 1]
        slopes = [self._slope_at(x) if self(x) > 0 else Fraction(0) for x in probes]
        return PiecewiseLinear(cuts, slopes, self.intercept if self(probes[0]) > 0 else 0)

    def after(self, inner: PiecewiseLinear) -> PiecewiseLinear:
        """The composition x -> f(inner(x)), as constant + slope inner + sum of jump relu(inner - kink)."""
        total = PiecewiseLinear([], [0], self.intercept) + self.slopes[0] * inner
        for kink, jump in zip(self.kinks, self.jumps, strict=True):
            total = total + jump * (inner + PiecewiseLinear([], [0], -kink)).relu()
        return total

    def _slope_at(self, x: Fraction) -> Fraction:
        return self.slopes[sum(kink < x for kink in self.kinks)]


@dataclass(frozen=True)
class HiddenLayer:
    """y(x) = sum_k outputs[k] relu(weights[k] x + biases[k]): an SSM along a line of inputs."""

    weights: tuple[Fraction, ...]
    biases: tuple[Fraction, ...]
    outputs: tuple[Fraction, ...]

    def __init__(self, weights: Iterable[Number], biases: Iterable[Number], outputs: Iterable[Number]) -> None:
        lists = {"weights": weights, "biases": biases, "outputs": outputs}
        for name, numbers in lists.items():
            object.__setattr__(self, name, rationals(numbers, name))
        if not len(self.weights) == len(self.biases) == len(self.outputs):
            lengths = (len(self.weights), len(self.biases), len(self.outputs))
            raise ValueError(f"weights, biases and outputs: equal lengths are allowed, got {lengths}")

    @property
    def size(self) -> int:
        """Number of hidden units."""
        return len(self.weights)

    def __call__(self, x: Number) -> Fraction:
        units = zip(self.weights, self.biases, self.outputs, strict=True)
        return sum((c * max(a * x + b, Fraction(0)) for a, b, c in units), Fraction(0))

    def function(self) -> PiecewiseLinear:
        """The layer as a piecewise linear function, at most size + 1 pieces."""
        total = PiecewiseLinear([], [0])
        for a, b, c in zip(self.weights, self.biases, self.outputs, strict=True):
            total = total + c * PiecewiseLinear([], [a], b).relu()
        return total


def rationals(numbers: Iterable[Number], name: str) -> tuple[Fraction, ...]:
    """The numbers as Fractions; ValueError unless they are whole or rational (a float is neither)."""
    given = tuple(numbers)
    for number in given:
        if isinstance(number, bool) or not isinstance(number, Rational):
            raise ValueError(f"{name}: int and Fraction are allowed, got {number!r}")
    return tuple(Fraction(number) for number in given)


def points_on_a_line(inputs: Iterable[Number], targets: Iterable[Number]) -> tuple[list[Fraction], list[Fraction]]:
    """Both as lists of Fractions; ValueError unless there are as many of each and the inputs increase."""
    x, y = rationals(inputs, "inputs"), rationals(targets, "targets")
    if len(x) != len(y) or not x:
        raise ValueError(f"inputs, targets: equal numbers of at least one are allowed, got {len(x)} and {len(y)}")
    if any(left >= right for left, right in pairwise(x)):
        raise ValueError(f"inputs: increasing numbers are allowed, got {[str(value) for value in x]}")
    return list(x), list(y)


def bends(inputs: Iterable[Number], targets: Iterable[Number]) -> tuple[Fraction, ...]:
    """Change of slope at each inner point of the polygon through the points (second differences at 1, 2, 3)."""
    x, y = points_on_a_line(inputs, targets)
    slopes = [(y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    return tuple(after - before for before, after in pairwise(slopes))


def fewest_kinks(inputs: Sequence[Number], targets: Sequence[Number]) -> int:
    """Kinks that a piecewise linear function through all points needs, and that suffice:

        sum of ceil(length / 2) over the runs of `bends` with one sign.

    A bend at point i needs a kink of its sign strictly between the points i - 1 and i + 1. Every second bend of a run
    needs one of its own. Raises ValueError as `points_on_a_line`. Cost O(points).
    """
    runs = ((sign, len(list(run))) for sign, run in groupby((b > 0) - (b < 0) for b in bends(inputs, targets)))
    return sum((length + 1) // 2 for sign, length in runs if sign)


def simplest_interpolant(inputs: Sequence[Number], targets: Sequence[Number]) -> PiecewiseLinear:
    """A piecewise linear function through all points with `fewest_kinks` kinks.

    Two bends of one sign in a row are made one: the lines before and behind them meet in between. Raises ValueError as
    `points_on_a_line`. Cost O(points).
    """
    x, y = points_on_a_line(inputs, targets)
    if len(x) == 1:
        return PiecewiseLinear([], [0], y[0])
    slopes = [(y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    bend, kinks, kept, i = bends(x, y), [], [slopes[0]], 1
    while i < len(x) - 1:  # the line on the left of point i is the last one kept
        if i + 1 < len(x) - 1 and bend[i - 1] * bend[i] > 0:
            gap = y[i + 1] - slopes[i + 1] * (x[i + 1] - x[i]) - y[i]
            kinks.append(x[i] + gap / (slopes[i - 1] - slopes[i + 1]))
            kept.append(slopes[i + 1])
            i += 2
        else:
            kinks.append(x[i])
            kept.append(slopes[i])
            i += 1
    return PiecewiseLinear(kinks, kept, y[0] - kept[0] * x[0])
