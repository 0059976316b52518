"""An exponential, a sigmoid and a hyperbolic tangent that the compiler vectorises: library ones are calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

# Rounding by adding and subtracting a large number must not be simplified away.
ANY_ORDER = {"contract", "nsz", "reassoc"}  # sums may be reordered; NaN and infinity keep their meaning
KEEP_ORDER = ANY_ORDER - {"reassoc"}
LN2 = Decimal(2).ln(Context(prec=50))


def fast_exp(x: Any) -> Any:
    """e^x of a float32 or float64 to 2 units in the last place, for loops in compiled code.

    e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln(2) / 2 and e^r from its Taylor series. ln 2 is subtracted in two
    parts, so that r is as good as exact. Results below the smallest normal number are 0, and those within e^1 of the
    largest number are infinite; NaN stays NaN.
    """
    return type(x)(math.exp(x))


def fast_sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x), as accurate as `fast_exp`: 3 units in the last place; 0 where e^-x is infinite. NaN stays NaN."""
    return 1 / (1 + fast_exp(-x))


def fast_tanh(x: Any) -> Any:
    """tanh x = (e^2x - 1) / (e^2x + 1) of a float32 or float64 to 4 units in the last place; NaN stays NaN.

    e^2x - 1 = 2^n (e^r - 1) + (2^n - 1), n and r as in `fast_exp` and e^r - 1 from its own series: the one that is
    subtracted takes no digits away, however small x is.
    """
    return type(x)(math.tanh(x))


def _exponential(real: Any, whole: Any, terms: int) -> Callable[[Any], Any]:
    """`fast_exp` of one type, whose bits are the whole numbers of type `whole`: all else are constants of the type."""
    limits = np.finfo(real)
    shift = whole(limits.nmant)
    magic = real(1.5 * 2.0**limits.nmant)  # numbers of this size end in the ones: adding it rounds
    offset = whole(limits.maxexp - 1 - int(magic.view(whole)))
    head = math.floor(float(LN2) * 2**11) / 2**11  # so short that n times it is exact
    high, low = real(head), real(LN2 - Decimal(head))
    smallest, largest = real(math.log(limits.tiny)), real(math.log(limits.max) - 1.0)
    per_ln2, zero, infinite = real(1 / LN2), real(0.0), real(np.inf)
    first, *others = (real(1.0 / math.factorial(power)) for power in range(terms, -1, -1))
    taylor = tuple(others)

    def exponential(x: Any) -> Any:
        shifted = x * per_ln2 + magic
        n = shifted - magic
        r = (x - n * high) - n * low
        series = first
        for coefficient in taylor:
            series = series * r + coefficient
        exponent = whole((real(shifted).view(whole) + offset) << shift)
        value = series * whole(exponent).view(real)
        value = zero if x < smallest else value
        return infinite if x > largest else value

    return exponential


@overload(fast_exp, jit_options={"fastmath": KEEP_ORDER})  # type: ignore[untyped-decorator]
def _fast_exp(x: Any) -> Callable[[Any], Any] | None:
    if x == types.float32:
        return _exponential(np.float32, np.int32, 7)
    return _exponential(np.float64, np.int64, 13) if x == types.float64 else None


def _tangent(real: Any, whole: Any, terms: int) -> Callable[[Any], Any]:
    """`fast_tanh` of one type; constants as in `_exponential`."""
    limits = np.finfo(real)
    shift = whole(limits.nmant)
    magic = real(1.5 * 2.0**limits.nmant)
    offset = whole(limits.maxexp - 1 - int(magic.view(whole)))
    head = math.floor(float(LN2) * 2**11) / 2**11
    high, low = real(head), real(LN2 - Decimal(head))
    per_ln2, one, two = real(1 / LN2), real(1.0), real(2.0)
    flat = real(limits.nmant / 2)  # from here on the nearest number is 1
    first, *others = (real(1.0 / math.factorial(power)) for power in range(terms, 0, -1))
    taylor = tuple(others)

    def tangent(x: Any) -> Any:
        x = flat if x > flat else x
        x = -flat if x < -flat else x
        shifted = two * x * per_ln2 + magic
        n = shifted - magic
        r = (two * x - n * high) - n * low
        series = first
        for coefficient in taylor:
            series = series * r + coefficient
        power = whole((real(shifted).view(whole) + offset) << shift)
        scale = whole(power).view(real)
        less_one = scale * (series * r) + (scale - one)
        return less_one / (less_one + two)

    return tangent


@overload(fast_tanh, jit_options={"fastmath": KEEP_ORDER})  # type: ignore[untyped-decorator]
def _fast_tanh(x: Any) -> Callable[[Any], Any] | None:
    if x == types.float32:
        return _tangent(np.float32, np.int32, 7)
    return _tangent(np.float64, np.int64, 13) if x == types.float64 else None


@overload(fast_sigmoid, jit_options={"fastmath": KEEP_ORDER})  # type: ignore[untyped-decorator]
def _fast_sigmoid(x: Any) -> Callable[[Any], Any] | None:
    if x not in (types.float32, types.float64):
        return None
    one = np.float32(1) if x == types.float32 else np.float64(1)

    def sigmoid(x: Any) -> Any:
        return one / (one + fast_exp(-x))

    return sigmoid
