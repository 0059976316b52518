"""Matrices whose columns are lanes: `LANES` sequences of a batch side by side, and what recurrent loops do with them.

A matrix is an array with one axis, (rows x LANES,). Numbers of sequences are C-contiguous, (batch, time, some); piece p
has the sequences from p x LANES on, and lanes that have none are left as they are. Nothing is checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.lanes import LANES, add, lane_sum, load, multiply_add, store, transpose_tile, zeros


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
