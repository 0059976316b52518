"""Is a vector a sum of rays with weights that are not negative? Decided in exact rationals, with a proof either way."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from lib.theory.smallest.piecewise_linear import Number, rationals


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
