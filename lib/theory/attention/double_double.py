"""Double-double arithmetic: a number as the unevaluated sum of two float64, about 32 digits, compiled.

Error-free sums and products (Dekker, Numer. Math. 18 (1971) 224; Knuth, TAOCP 2, 4.2.2). A number is a pair
(high, low) with |low| <= half a unit in the last place of high; high is then the rounded value. Exact as long as
nothing beyond 2^990 or below 2^-960 occurs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

DoubleDouble = tuple[float, float]
Function = TypeVar("Function", bound=Callable[..., Any])
SPLITTER = 134217729.0  # 2^27 + 1 cuts a float64 in two halves of 26 bits


def compiled(function: Function) -> Function:
    """The function compiled into its callers; without fastmath, which would take the error terms for zero."""
    inlined: Function = njit(nogil=True, cache=True, inline="always")(function)
    return inlined


@compiled
def two_sum(a: float, b: float) -> DoubleDouble:
    """a + b exactly."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@compiled
def quick_two_sum(a: float, b: float) -> DoubleDouble:
    """a + b exactly, if |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


@compiled
def two_product(a: float, b: float) -> DoubleDouble:
    """a b exactly."""
    product = a * b
    wide = SPLITTER * a
    a_high = wide - (wide - a)
    a_low = a - a_high
    wide = SPLITTER * b
    b_high = wide - (wide - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@compiled
def add(a_high: float, a_low: float, b_high: float, b_low: float) -> DoubleDouble:
    """a + b; the relative error stays small under cancellation too."""
    high, low = two_sum(a_high, b_high)
    other_high, other_low = two_sum(a_low, b_low)
    high, low = quick_two_sum(high, low + other_high)
    return quick_two_sum(high, low + other_low)


@compiled
def times(a_high: float, a_low: float, factor: float) -> DoubleDouble:
    """a times a float64."""
    high, low = two_product(a_high, factor)
    return quick_two_sum(high, low + a_low * factor)


@compiled
def divided(a_high: float, a_low: float, divisor: float) -> DoubleDouble:
    """a divided by a float64."""
    quotient = a_high / divisor
    back_high, back_low = two_product(quotient, divisor)
    rest = ((a_high - back_high) - back_low) + a_low
    return quick_two_sum(quotient, rest / divisor)
