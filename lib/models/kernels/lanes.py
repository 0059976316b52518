"""Vectors as values of compiled loops, and matrices of them: sums stay in registers.

LLVM vectorises an innermost loop, but not one around it: sum_k m_k z_k over rows z_k, as a loop over k with one over
places inside, reads and writes the sum once for every k. With vectors as values the loop over k is the inner one.

First what compiled loops do with a vector. Then matrices whose columns are lanes, `LANES` sequences of a batch side by
side: arrays with one axis, (rows x LANES,). Numbers of sequences are C-contiguous, (batch, time, some); piece p has the
sequences from p x LANES on, and lanes that have none are left as they are. Nothing is checked: places must lie inside
contiguous arrays of float32 or float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
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


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def blank(rows: int, like: Any) -> Any:
    """Zeros, (rows x LANES,)."""
    return np.zeros(rows * LANES, like.dtype)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def with_ones(times: int, rows: int, row: int, like: Any) -> Any:
    """Zeros, (times, (rows + 1) x LANES), and in every line one row of ones."""
    # One row more than asked for: at a distance of whole pages, lines would drive each other out of the cache.
    lines = np.zeros((times, (rows + 1) * LANES), like.dtype)
    lines[:, row * LANES : (row + 1) * LANES] = 1
    return lines


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def copy(source: Any, target: Any) -> None:
    """The numbers of one axis into the first places of another.

    As `target[:] = source` Numba compiles what it would say of other lengths along, for two seconds in each process.
    """
    for p in range(source.size):
        target[p] = source[p]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def copy_rows(source: Any, row: int, target: Any, into: int, rows: int) -> None:
    for r in range(rows):
        store(target, (into + r) * LANES, load(source, (row + r) * LANES))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def to_lanes(numbers: Any, piece: int, start: int, stop: int, lanes: Any) -> None:
    """Times start .. stop of one piece of numbers (batch, time, some) as ((stop - start) x some, LANES)."""
    batch, time, some = numbers.shape
    flat, first, row, rows = numbers.reshape(-1), (piece * LANES * time + start) * some, 0, (stop - start) * some
    if (piece + 1) * LANES <= batch:
        while row + LANES <= rows:
            transpose_tile(flat, first + row, time * some, lanes, row * LANES, LANES)
            row += LANES
    for lane in range(min(LANES, batch - piece * LANES)):
        for r in range(row, rows):
            lanes[r * LANES + lane] = flat[first + lane * time * some + r]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def from_lanes(lanes: Any, numbers: Any, piece: int, start: int, stop: int) -> None:
    """The other way."""
    batch, time, some = numbers.shape
    flat, first, row, rows = numbers.reshape(-1), (piece * LANES * time + start) * some, 0, (stop - start) * some
    if (piece + 1) * LANES <= batch:
        while row + LANES <= rows:
            transpose_tile(lanes, row * LANES, LANES, flat, first + row, time * some)
            row += LANES
    for lane in range(min(LANES, batch - piece * LANES)):
        for r in range(row, rows):
            flat[first + lane * time * some + r] = lanes[r * LANES + lane]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def multiply(matrix: Any, z: Any, product: Any) -> None:
    """product = matrix z; rows and columns of matrix are multiples of 4. Even and odd terms are summed apart."""
    for j in range(0, matrix.shape[0], 4):
        m0, m1, m2, m3 = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
        a0, a1, a2, a3 = zeros(z), zeros(z), zeros(z), zeros(z)
        b0, b1, b2, b3 = zeros(z), zeros(z), zeros(z), zeros(z)
        for k in range(0, matrix.shape[1], 2):
            row, below = load(z, k * LANES), load(z, k * LANES + LANES)
            a0, b0 = multiply_add(a0, m0[k], row), multiply_add(b0, m0[k + 1], below)
            a1, b1 = multiply_add(a1, m1[k], row), multiply_add(b1, m1[k + 1], below)
            a2, b2 = multiply_add(a2, m2[k], row), multiply_add(b2, m2[k + 1], below)
            a3, b3 = multiply_add(a3, m3[k], row), multiply_add(b3, m3[k + 1], below)
        store(product, j * LANES, add(a0, b0))
        store(product, j * LANES + LANES, add(a1, b1))
        store(product, j * LANES + 2 * LANES, add(a2, b2))
        store(product, j * LANES + 3 * LANES, add(a3, b3))


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_products(ds: Any, zs: Any, steps: int, total: Any) -> None:
    """total += the sum of d z^T over lines; rows of d and z are multiples of 4."""
    for j in range(0, total.shape[0], 4):
        for k in range(0, total.shape[1], 4):
            s00, s01, s02, s03 = zeros(ds[0]), zeros(ds[0]), zeros(ds[0]), zeros(ds[0])
            s10, s11, s12, s13 = s00, s01, s02, s03
            s20, s21, s22, s23 = s00, s01, s02, s03
            s30, s31, s32, s33 = s00, s01, s02, s03
            for i in range(steps):
                d, z, u, v = ds[i], zs[i], j * LANES, k * LANES
                z0, z1, z2, z3 = load(z, v), load(z, v + LANES), load(z, v + 2 * LANES), load(z, v + 3 * LANES)
                d0, d1, d2, d3 = load(d, u), load(d, u + LANES), load(d, u + 2 * LANES), load(d, u + 3 * LANES)
                s00, s01 = multiply_add(s00, d0, z0), multiply_add(s01, d0, z1)
                s02, s03 = multiply_add(s02, d0, z2), multiply_add(s03, d0, z3)
                s10, s11 = multiply_add(s10, d1, z0), multiply_add(s11, d1, z1)
                s12, s13 = multiply_add(s12, d1, z2), multiply_add(s13, d1, z3)
                s20, s21 = multiply_add(s20, d2, z0), multiply_add(s21, d2, z1)
                s22, s23 = multiply_add(s22, d2, z2), multiply_add(s23, d2, z3)
                s30, s31 = multiply_add(s30, d3, z0), multiply_add(s31, d3, z1)
                s32, s33 = multiply_add(s32, d3, z2), multiply_add(s33, d3, z3)
            _add_row(total[j], k, s00, s01, s02, s03)
            _add_row(total[j + 1], k, s10, s11, s12, s13)
            _add_row(total[j + 2], k, s20, s21, s22, s23)
            _add_row(total[j + 3], k, s30, s31, s32, s33)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _add_row(row: Any, k: int, s0: Any, s1: Any, s2: Any, s3: Any) -> None:
    row[k] += lane_sum(s0)
    row[k + 1] += lane_sum(s1)
    row[k + 2] += lane_sum(s2)
    row[k + 3] += lane_sum(s3)
