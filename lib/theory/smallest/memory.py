"""The fewest ReLU units that memorise numbers on a line: an exhaustive search in exact rationals, with proofs.

Whether a vector is a sum of rays with weights that are not negative is decided with a proof either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import NamedTuple

from lib.checks import whole_number
from lib.theory.smallest.piecewise_linear import HiddenLayer, Number, points_on_a_line, rationals

Unit = tuple[Fraction, Fraction]  # weight a and bias b of relu(a x + b)


class UnitKind(NamedTuple):
    """All units whose kink lies in one closed gap between neighbouring inputs, that face one way and have one sign.

    On the inputs they are the weighted sums of two border units, whose kinks are the ends of the gap, with weights that
    are not negative. Units that are active on all inputs form a kind too; its borders vanish at the outermost inputs.
    """

    gap: int  # between inputs[gap] and inputs[gap + 1]; -1: active on all inputs
    facing: int  # +1: active on the right of the kink, -1: on its left, 0: everywhere
    sign: int  # of the output weight
    borders: tuple[Unit, Unit]

    def rays(self, inputs: Sequence[Fraction]) -> list[list[Fraction]]:
        """Values of the two border units, times the sign, on the inputs."""
        return [[self.sign * max(a * x + b, Fraction(0)) for x in inputs] for a, b in self.borders]


class Search(NamedTuple):
    """What a search found: a layer, or for every choice of kinds a separator that rules it out."""

    layer: HiddenLayer | None
    separators: tuple[tuple[Fraction, ...], ...]  # each rules out all choices from the kinds it does not cut
    choices: int  # sets of kinds that there are

    @property
    def found(self) -> bool:
        return self.layer is not None


def unit_kinds(inputs: Sequence[Number]) -> list[UnitKind]:
    """The 4 (points - 1) + 2 kinds of units on these inputs. Raises ValueError unless the inputs increase."""
    x, _ = points_on_a_line(inputs, [0] * len(inputs))
    one = Fraction(1)
    everywhere = ((one, -x[0]), (-one, x[-1])) if len(x) > 1 else ((Fraction(0), one),) * 2
    kinds = [UnitKind(-1, 0, sign, everywhere) for sign in (1, -1)]
    for gap in range(len(x) - 1):
        for facing in (1, -1):
            borders = ((facing * one, -facing * x[gap]), (facing * one, -facing * x[gap + 1]))
            kinds += [UnitKind(gap, facing, sign, borders) for sign in (1, -1)]
    return kinds


def search_memory(
    targets: Sequence[Number],
    units: int,
    inputs: Sequence[Number] | None = None,
    signs_only: bool = False,
    kinds: Sequence[UnitKind] | None = None,
) -> Search:
    """Find y(x) = sum_k c_k relu(a_k x + b_k) with this many units and y(inputs) = targets, or prove there is none.

    Every unit belongs to one of `unit_kinds`, and several of one kind are no better than one. For each set of kinds
    the values that it reaches form a cone, so that membership is a linear programme. Before it is solved, separators of
    earlier sets are tried: one that cuts no kind of the new set refutes it as well.

    inputs: increasing, 1, 2, 3 ... if not given. signs_only: it is enough that target * y >= 1 at every input with
    target +1 or -1. kinds: allowed kinds, all if not given. Raises ValueError for numbers that are not rational,
    inputs that do not increase, units < 0, or signs_only with a zero target. Cost: at most C(kinds, units) exact linear
    programmes; seconds up to six points.
    """
    x, y = points_on_a_line(range(1, len(targets) + 1) if inputs is None else inputs, targets)
    number = whole_number(units, "units", 0)
    slack: list[list[Fraction]] = []
    if signs_only:
        if any(abs(value) != 1 for value in y):
            raise ValueError(f"targets: with signs_only, +1 and -1 are allowed, got {[str(value) for value in y]}")
        slack = [[-y[i] * (i == k) for k in range(len(y))] for i in range(len(y))]
    allowed = unit_kinds(x) if kinds is None else list(kinds)
    rays = [kind.rays(x) for kind in allowed]
    most = min(number, len(allowed))
    separators: list[tuple[Fraction, ...]] = []
    ruled_out: list[set[int]] = []  # for each separator, the kinds that it does not cut
    for members in combinations(range(len(allowed)), most):
        if any(harmless.issuperset(members) for harmless in ruled_out):
            continue
        result = cone_membership([ray for k in members for ray in rays[k]] + slack, y)
        if result.weights is not None:
            layer = _layer([allowed[k] for k in members], result.weights, number)
            return Search(layer, tuple(separators), comb(len(allowed), most))
        assert result.separator is not None
        z = result.separator
        separators.append(z)
        ruled_out.append({k for k, pair in enumerate(rays) if all(_dot(z, ray) >= 0 for ray in pair)})
    return Search(None, tuple(separators), comb(len(allowed), most))


def refutes(
    separators: Sequence[Sequence[Fraction]],
    targets: Sequence[Number],
    units: int,
    inputs: Sequence[Number] | None = None,
) -> bool:
    """Do these separators prove that no layer with this many units memorises the targets? Checked from scratch.

    A separator z with z . targets < 0 rules out every set of kinds on whose rays z is not negative; all sets have to be
    ruled out by some z. No linear programme is solved. Raises ValueError as `search_memory`. Cost O(C(kinds, units)
    separators).
    """
    x, y = points_on_a_line(range(1, len(targets) + 1) if inputs is None else inputs, targets)
    rays = [kind.rays(x) for kind in unit_kinds(x)]
    harmless = [
        {k for k, pair in enumerate(rays) if all(_dot(z, ray) >= 0 for ray in pair)}
        for z in separators
        if _dot(z, y) < 0
    ]
    number = min(whole_number(units, "units", 0), len(rays))
    return all(any(kinds.issuperset(chosen) for kinds in harmless) for chosen in combinations(range(len(rays)), number))


def smallest_memory(targets: Sequence[Number], inputs: Sequence[Number] | None = None) -> HiddenLayer:
    """A layer with the fewest units that memorises the targets, by `search_memory` with 0, 1, 2 ... units."""
    for units in range(len(targets) + 1):
        layer = search_memory(targets, units, inputs).layer
        if layer is not None:
            return layer
    raise AssertionError("as many units as points always suffice")  # pragma: no cover


def alternating(points: int) -> list[Fraction]:
    """The targets of Prop. A.8: +1, -1, +1, ... Raises ValueError for fewer than one point."""
    return [Fraction((-1) ** i) for i in range(whole_number(points, "points", 1))]


def _layer(kinds: Sequence[UnitKind], weights: Sequence[Fraction], units: int) -> HiddenLayer:
    """The two border units of each kind added into one; units that are not needed have weight zero."""
    rows = []
    for j, kind in enumerate(kinds):
        (a, b), (c, d) = kind.borders
        rows.append(
            (weights[2 * j] * a + weights[2 * j + 1] * c, weights[2 * j] * b + weights[2 * j + 1] * d, kind.sign)
        )
    rows += [(Fraction(0), Fraction(0), 1)] * (units - len(rows))
    return HiddenLayer([a for a, _, _ in rows], [b for _, b, _ in rows], [c for _, _, c in rows])


def _dot(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))


class ConeMembership(NamedTuple):
    """Either weights >= 0 with sum_j weights[j] rays[j] = target, or a separating vector; the other one is None."""

    weights: tuple[Fraction, ...] | None
    separator: tuple[Fraction, ...] | None  # z with z . ray >= 0 for every ray and z . target < 0


def cone_membership(rays: Sequence[Sequence[Number]], target: Sequence[Number]) -> ConeMembership:
    """Find weights >= 0 with sum_j weights[j] rays[j] = target, or a separator that proves that there are none.

    One of the two exists, never both (Farkas' lemma). First phase of the simplex method with Bland's rule, which cannot
    cycle, in Fractions. rays: vectors of the length of target. Raises ValueError if lengths differ or a number is not
    rational. Cost: O((rays + length) length) per exchange; their number is small in practice, but not bounded by a
    polynomial.
    """
    goal = rationals(target, "target")
    columns = [rationals(ray, "rays") for ray in rays]
    if any(len(column) != len(goal) for column in columns):
        raise ValueError(f"rays: vectors of length {len(goal)} are allowed, got lengths {[len(c) for c in columns]}")
    count, size = len(columns), len(goal)
    sign = [-1 if value < 0 else 1 for value in goal]
    # a row: the rays, then the unit vectors that stand in for what is still missing, then the right side
    table = [
        [sign[i] * column[i] for column in columns] + [Fraction(i == k) for k in range(size)] + [sign[i] * goal[i]]
        for i in range(size)
    ]
    missing = [sum((row[j] for row in table), Fraction(0)) for j in range(count + size + 1)]
    for k in range(size):
        missing[count + k] -= 1
    basis = [count + k for k in range(size)]
    while (entering := next((j for j in range(count) if missing[j] > 0), None)) is not None:
        ratios = [(row[-1] / row[entering], basis[i], i) for i, row in enumerate(table) if row[entering] > 0]
        leaving = min(ratios)[2]  # never empty: what is missing is bounded by zero
        pivot = table[leaving][entering]
        table[leaving] = [value / pivot for value in table[leaving]]
        for row in [*(row for i, row in enumerate(table) if i != leaving), missing]:
            if factor := row[entering]:
                row[:] = [value - factor * base for value, base in zip(row, table[leaving], strict=True)]
        basis[leaving] = entering
    if missing[-1] > 0:
        separator = tuple(-sign[i] * (1 + missing[count + i]) for i in range(size))
        return ConeMembership(None, separator)
    weights = [Fraction(0)] * count
    for row, column in zip(table, basis, strict=True):
        if column < count:
            weights[column] = row[-1]
    return ConeMembership(tuple(weights), None)
