"""Message passing through the layers: white noise -> sequence, sequence -> white noise, noise -> innovations.

Every function works on arrays (position, batch), batch last, with slices, sums and products alone, so the same
lines run on NumPy arrays and on torch tensors of any device. Inside, an array of a layer is (copy, row, column,
batch). Three copies per row give 3^j copies of a layer j levels down, each 4^j times shorter: the work of all
levels together is a geometric series, O(length) for each batch entry.

The noise vector has as many entries as the sequence. Its order: the base normals, then the fresh normals of
each layer, lowest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.processes.gaussian.layers import GAMMA, RHO, Layer
from lib.processes.gaussian.prediction import Prediction

Array = Any
"""A NumPy array or a torch tensor."""


@dataclass(frozen=True)
class Level:
    """The coefficients of one layer, ready to multiply (copy, row, batch) slices.

    coupling, uncoupling: entries [r][c] of T and of its inverse, (rows - 1, 1). gain: (rows - 1, 1). window:
    entries [r][c] of the unit triangular factor of the first five of u, (rows, 1).
    """

    rows: int
    copies: int
    coupling: Array
    uncoupling: Array
    gain: Array
    window: Array


def levels(layers: list[Layer], forward: list[Prediction], dtype: Any = np.float64) -> list[Level]:
    """The coefficients of all layers in one floating-point type, lowest layer first."""
    found = []
    gains = np.zeros(0)
    for layer, prediction in zip(layers, forward, strict=True):
        arrays = (
            np.moveaxis(layer.couplings, 0, -1),
            np.moveaxis(np.linalg.inv(layer.couplings), 0, -1),
            gains,
            np.moveaxis(prediction.windows[:, :5, :5], 0, -1),
        )
        found.append(Level(layer.rows, layer.copies, *(np.ascontiguousarray(a[..., None], dtype) for a in arrays)))
        gains = prediction.gains
    return found


def from_noise(levels: list[Level], noise: Array) -> Array:
    """The sequence z = A w of white noise w; (length, batch) -> (length, batch). Eq. B.20-B.24."""
    fresh, sequence = _split(levels, noise)
    for level, normals in zip(levels, fresh, strict=True):
        mixed = _mix(_columns(level, sequence, normals))
        _couple(level.coupling, mixed)
        sequence = mixed.reshape(mixed.shape[0], 4 * level.rows, -1)
    return sequence[0]


def to_noise(levels: list[Level], sequence: Array) -> Array:
    """The white noise w = A^-1 z of a sequence, layer by layer from the top; (length, batch), same shape."""
    noise = _empty(sequence.shape, sequence)
    fresh, base = _split(levels, noise)
    below = sequence[None]
    for level, normals in zip(levels[::-1], fresh[::-1], strict=True):
        rows = below.reshape(below.shape[0], level.rows, 4, -1)
        uncoupled = _copy(rows)
        _couple(level.uncoupling, uncoupled)
        columns = _unmix(uncoupled)
        below = _empty((level.copies, *normals.shape[1:]), sequence)
        for column in range(4):
            target = below[column] if column < level.copies else normals[column - level.copies]
            target[...] = columns[column]
        below = below.reshape(-1, level.rows, below.shape[-1])
    base[...] = below
    return noise


def innovations(levels: list[Level], noise: Array) -> Array:
    """z_p - E[z_p | z_<p] at every position of the sequence that this noise makes; (length, batch).

    The recursion goes from the innovations of the copies to those of the rows; the sequence itself is not
    needed. A window is solved by forward substitution with the factor of `prediction`.
    """
    fresh, below = _split(levels, noise)
    for level, normals in zip(levels, fresh, strict=True):
        columns = _columns(level, below, normals)
        surprise = _mix(columns)  # of uncoupled rows, given all rows before
        last, first = surprise[:, :-1, 3], surprise[:, 1:, 0]
        # two steps ahead: the next row's first entry, also against what row i tells about it
        carried = columns[0][:, :-1]
        for copy in range(1, level.copies):
            carried = carried + columns[copy][:, :-1]
        ahead = first + level.gain * (GAMMA * carried)
        rows = level.rows
        above = _empty(surprise.shape, noise)
        window = level.window
        one = surprise[:, :, 0]
        two = surprise[:, :, 1] - window[1, 0] * one
        three = surprise[:, :, 2] - window[2, 0] * one - window[2, 1] * two
        earlier = window[3, 0] * one + window[3, 1] * two + window[3, 2] * three
        above[:, 0, 0] = one[:, 0]
        above[:, :, 1] = two
        above[:, :, 2] = three
        above[:, -1, 3] = surprise[:, -1, 3] - earlier[:, -1]
        coupling = level.coupling
        four = coupling[0, 0] * last + coupling[0, 1] * ahead - earlier[:, :-1]
        above[:, :-1, 3] = four
        window = window[:, :, : rows - 1]
        above[:, 1:, 0] = (
            coupling[1, 0] * last
            + coupling[1, 1] * ahead
            - window[4, 0] * one[:, :-1]
            - window[4, 1] * two[:, :-1]
            - window[4, 2] * three[:, :-1]
            - window[4, 3] * four
        )
        below = above.reshape(above.shape[0], 4 * rows, -1)
    return below[0]


def _split(levels: list[Level], noise: Array) -> tuple[list[Array], Array]:
    """Views of the noise: the fresh normals (kind, copy, row, batch) of each layer, the base (copy, 1, batch)."""
    batch = noise.shape[-1]
    copies = levels[0].copies ** len(levels)
    base = noise[:copies].reshape(copies, 1, batch)
    start, fresh = copies, []
    for level in levels:
        copies //= level.copies
        kinds = 4 - level.copies
        size = kinds * copies * level.rows
        fresh.append(noise[start : start + size].reshape(kinds, copies, level.rows, batch))
        start += size
    return fresh, base


def _columns(level: Level, below: Array, normals: Array) -> list[Array]:
    """The four columns of Eq. B.21 or B.24, each (copy, row, batch): copies of the layer below, then normals."""
    copies = below.reshape(level.copies, -1, level.rows, below.shape[-1])
    return [*copies, *normals]


def _mix(columns: list[Array]) -> Array:
    """Every row times M, eight additions by its Hadamard structure; (copy, row, 4, batch)."""
    first, second, third, fourth = columns
    mixed = _empty((*first.shape[:2], 4, first.shape[2]), first)
    first, fourth = GAMMA * first, RHO * fourth
    even, odd = fourth + first, fourth - first
    total, difference = GAMMA * (second + third), GAMMA * (second - third)
    mixed[:, :, 0] = even + total
    mixed[:, :, 1] = odd + difference
    mixed[:, :, 2] = odd - difference
    mixed[:, :, 3] = even - total
    return mixed


def _unmix(mixed: Array) -> list[Array]:
    """The inverse of `_mix`: orthogonal columns, so M^-1 is M^T with scaled rows."""
    first, second, third, fourth = (mixed[:, :, column] for column in range(4))
    outer, inner = first + fourth, second + third
    across, within = first - fourth, second - third
    scale = 0.8 * GAMMA  # gamma over the squared norm 5/4 of the first three columns; rho over 1/4 is 1
    return [scale * (outer - inner), scale * (across + within), scale * (across - within), outer + inner]


def _couple(matrix: Array, mixed: Array) -> None:
    """The 2 x 2 matrix of every pair (last of row i, first of row i + 1), in place."""
    last, first = mixed[:, :-1, 3], mixed[:, 1:, 0]
    coupled = matrix[0, 0] * last + matrix[0, 1] * first
    mixed[:, 1:, 0] = matrix[1, 0] * last + matrix[1, 1] * first
    mixed[:, :-1, 3] = coupled


def _empty(shape: Any, like: Array) -> Array:
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(tuple(shape))


def _copy(array: Array) -> Array:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()
