"""Vectors as values of compiled loops: sums stay in registers where a loop over an array would load and store them.

LLVM vectorises an innermost loop, but not one around it: sum_k m_k z_k over rows z_k, as a loop over k with one over
places inside, reads and writes the sum once for every k. With these functions the loop over k is the inner one. Nothing
is checked: places must lie inside contiguous arrays of float32 or float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

LANES = 16  # numbers side by side: one register of the widest vector units in float32, some of narrower ones
REALS = (types.float32, types.float64)
FUSED = ("contract",)  # a product and the sum it goes into are rounded once

Generated = tuple[Any, Callable[..., Any]]


class Lanes(types.Type):  # type: ignore[misc]
    """The type of `LANES` numbers of one type, which the functions below take and return."""

    def __init__(self, real: Any) -> None:
        self.real = real
        super().__init__(name=f"Lanes({real})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector of LLVM."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, _vector(lanes.real))


@intrinsic  # type: ignore[untyped-decorator]
def zeros(_: Any, line: Any) -> Generated:
    """Zeros of the type of an array's numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_vector(line.dtype), None)

    return Lanes(line.dtype)(_line(line)), generate


@intrinsic  # type: ignore[untyped-decorator]
def load(_: Any, line: Any, place: Any) -> Generated:
    """line[place : place + LANES] of an array with one axis."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, line, _pointer(context, builder, line, *arguments))

    return Lanes(line.dtype)(_line(line), types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(_: Any, line: Any, place: Any, lanes: Any) -> Generated:
    """line[place : place + LANES] = lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _store(builder, line, arguments[2], _pointer(context, builder, line, *arguments[:2]))
        return context.get_dummy_value()

    return types.void(_line(line), types.intp, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def add(_: Any, one: Any, other: Any) -> Generated:
    """one + other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return one(one, other), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(_: Any, total: Any, factor: Any, lanes: Any) -> Generated:
    """total + factor lanes; factor may be one number or lanes too."""
    one_number = not isinstance(factor, Lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total_, factors, lanes_ = arguments
        if one_number:
            unset, place = ir.Constant(_vector(lanes.real), ir.Undefined), ir.IntType(32)
            first = builder.insert_element(unset, factors, place(0))
            factors = builder.shuffle_vector(first, unset, ir.Constant(ir.VectorType(place, LANES), None))
        return builder.fadd(total_, builder.fmul(factors, lanes_, flags=FUSED), flags=FUSED)

    return total(total, lanes.real if one_number else factor, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def lane_sum(_: Any, lanes: Any) -> Generated:
    """The sum over all lanes, by halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,), count = arguments, LANES
        while count > 1:
            count //= 2
            low, high = (_mask(range(start, start + count)) for start in (0, count))
            value = builder.fadd(builder.shuffle_vector(value, value, low), builder.shuffle_vector(value, value, high))
        return builder.extract_element(value, ir.IntType(32)(0))

    return lanes.real(lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def transpose_tile(_: Any, source: Any, first: Any, step: Any, target: Any, start: Any, stride: Any) -> Generated:
    """target[start + c stride + r] = source[first + r step + c] for r, c < LANES; both arrays have one axis."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source_, first_, step_, target_, start_, stride_ = arguments
        lines = []
        for _ in range(LANES):
            lines.append(_load(builder, source, _pointer(context, builder, source, source_, first_)))
            first_ = builder.add(first_, step_)
        half = LANES // 2
        low = _mask(place for pair in range(half) for place in (pair, LANES + pair))
        high = _mask(place for pair in range(half, LANES) for place in (pair, LANES + pair))
        # One round interleaves line r with line r + half; as many rounds as a number below LANES has bits transpose.
        for _ in range(LANES.bit_length() - 1):
            lines = [
                builder.shuffle_vector(lines[row], lines[row + half], mask)
                for row in range(half)
                for mask in (low, high)
            ]
        for line in lines:
            _store(builder, target, line, _pointer(context, builder, target, target_, start_))
            start_ = builder.add(start_, stride_)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(_line(source), whole, whole, _line(target), whole, whole), generate


def _line(line: Any) -> Any:
    """The same array type; TypingError unless it has one axis without gaps."""
    if not isinstance(line, types.Array) or line.ndim != 1 or line.layout != "C" or line.dtype not in REALS:
        raise TypingError(f"an array of float32 or float64 with one axis and no gaps is allowed, got {line}")
    return line


def _vector(real: Any) -> Any:
    return ir.VectorType(ir.FloatType() if real == types.float32 else ir.DoubleType(), LANES)


def _mask(places: Any) -> Any:
    """Which numbers of two vectors, one after the other, a shuffle takes."""
    chosen = list(places)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)


def _load(builder: Any, line: Any, pointer: Any) -> Any:
    value = builder.load(pointer)
    value.align = int(line.dtype.bitwidth) // 8
    return value


def _store(builder: Any, line: Any, value: Any, pointer: Any) -> None:
    builder.store(value, pointer).align = int(line.dtype.bitwidth) // 8


def _pointer(context: Any, builder: Any, line: Any, array: Any, place: Any) -> Any:
    """Where the lanes begin."""
    data = context.make_array(line)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), _vector(line.dtype).as_pointer())
