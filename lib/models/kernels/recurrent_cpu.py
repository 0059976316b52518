"""RNN and LSTM on the CPU: compiled loops over time, forward and backward, vectorised over the sequences of a batch.

A piece of work is `LANES` neighbouring sequences, the last ones of a batch with empty lanes. Inside, everything is
(rows, LANES): the same unit of neighbouring sequences lies side by side, and a piece stays in the first caches. One
product at each time does it all: the rows of z_t are h_{t-1}, x_t, a row of ones, and zeros up to a multiple of 4; the
columns of `weights` are the recurrent weights, the input weights, the bias and zeros, its rows the units of all gates.
What comes and goes is transposed by `CHUNK` times at once, and so are the gradients of the weights summed. Pieces write
to places of their own and no sum goes across them: the number of threads does not change a bit of the result.

Arrays are C-contiguous: x (batch, time, inputs), out (batch, time, width), initial, last (batch, 1, width). Of an
LSTM are kept for the gradients: gates (pieces, time, 4 width x LANES) i, f, g, o, and cells (pieces, chunks, width x
LANES), c before each chunk. `transposed` are the weights, (columns, rows). The name of a gradient starts with `d_`;
d_weights (pieces, rows, columns) are shares to be summed, zero at first. d_x is filled in only if it has room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_sigmoid, fast_tanh
from lib.models.kernels.lanes import (
    LANES,
    add_products,
    blank,
    copy,
    copy_rows,
    from_lanes,
    multiply,
    to_lanes,
    with_ones,
)

CHUNK = 16  # times of a chunk: whatever the width, a sequence's numbers of so many times are whole vectors


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def rnn_forward(x: Any, weights: Any, initial: Any, relu: bool, out: Any, piece: int) -> None:
    """Fill in out of one piece: h_t = tanh(W x_t + U h_{t-1} + b), or the larger of that sum and 0."""
    time, inputs, width, nothing = x.shape[1], x.shape[2], out.shape[2], x.dtype.type(0)
    z, sums = with_ones(1, weights.shape[1], width + inputs, x)[0], blank(weights.shape[0], x)
    xs, hs, n = blank(CHUNK * inputs, x), blank(CHUNK * width, x), width * LANES
    to_lanes(initial, piece, 0, 1, z)
    for start in range(0, time, CHUNK):
        stop = min(time, start + CHUNK)
        to_lanes(x, piece, start, stop, xs)
        for i in range(stop - start):
            copy_rows(xs, i * inputs, z, width, inputs)
            multiply(weights, z, sums)
            h = hs[i * n : (i + 1) * n]
            if relu:
                for p in range(n):
                    h[p] = nothing if sums[p] < nothing else sums[p]  # NaN stays NaN
            else:
                for p in range(n):
                    h[p] = fast_tanh(sums[p])
            copy(h, z)
        from_lanes(hs, out, piece, start, stop)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def rnn_backward(
    x: Any,
    transposed: Any,
    initial: Any,
    relu: bool,
    out: Any,
    d_out: Any,
    d_x: Any,
    d_weights: Any,
    d_initial: Any,
    piece: int,
) -> None:
    """Fill in the gradients of one piece.

    With g_t the gradient of h_t and e_t that of the sum in it:  e_t = g_t (1 - h_t^2),  g_{t-1} = dout_{t-1} + U^T e_t.
    """
    time, inputs, width, one = x.shape[1], x.shape[2], out.shape[2], x.dtype.type(1)
    columns, rows = transposed.shape
    zs, ds = with_ones(CHUNK + 1, columns, width + inputs, x), np.zeros((CHUNK, (rows + 1) * LANES), x.dtype)
    hs, gs, dxs = blank(CHUNK * width, x), blank(CHUNK * width, x), blank(CHUNK * inputs, x)
    back, n = blank(columns, x), width * LANES
    needed = transposed if d_x.size > 0 else transposed[: (width + 3) // 4 * 4]
    for start in range((time - 1) // CHUNK * CHUNK, -1, -CHUNK):
        stop = min(time, start + CHUNK)
        _inputs_of_chunk(x, initial, out, piece, start, stop, hs, dxs, zs)
        to_lanes(d_out, piece, start, stop, gs)
        for i in range(stop - start - 1, -1, -1):
            h, g, d = hs[i * n : (i + 1) * n], gs[i * n : (i + 1) * n], ds[i]
            if relu:
                for p in range(n):
                    d[p] = g[p] + back[p] if h[p] > 0 else h[p] * 0
            else:
                for p in range(n):
                    d[p] = (g[p] + back[p]) * (one - h[p] * h[p])
            multiply(needed, d, back)
            copy_rows(back, width, dxs, i * inputs, inputs)
        add_products(ds, zs, stop - start, d_weights[piece])
        if d_x.size > 0:
            from_lanes(dxs, d_x, piece, start, stop)
    from_lanes(back, d_initial, piece, 0, 1)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def lstm_forward(
    x: Any, weights: Any, initial: Any, initial_cell: Any, out: Any, gates: Any, cells: Any, last: Any, piece: int
) -> None:
    """Fill in out and the last cells of one piece, and gates and cells if they have room.

    c_t = f c_{t-1} + i g,  h_t = o tanh(c_t); i, f, o are sigmoids and g is tanh of (W x_t + U h_{t-1} + b).
    """
    time, inputs, width = x.shape[1], x.shape[2], out.shape[2]
    z, c, after = with_ones(1, weights.shape[1], width + inputs, x)[0], blank(width, x), blank(width, x)
    xs, hs, now, n = blank(CHUNK * inputs, x), blank(CHUNK * width, x), blank(4 * width, x), width * LANES
    to_lanes(initial, piece, 0, 1, z)
    to_lanes(initial_cell, piece, 0, 1, c)
    for start in range(0, time, CHUNK):
        stop = min(time, start + CHUNK)
        to_lanes(x, piece, start, stop, xs)
        if cells.size > 0:
            copy(c, cells[piece, start // CHUNK])
        for i in range(stop - start):
            if gates.size > 0:
                now = gates[piece, start + i]
            copy_rows(xs, i * inputs, z, width, inputs)
            multiply(weights, z, now)
            h = hs[i * n : (i + 1) * n]
            _open(now)
            _next_cells(now, c, after, h)
            c, after = after, c
            leave = now[3 * n :]
            for p in range(n):
                h[p] *= leave[p]
            copy(h, z)
        from_lanes(hs, out, piece, start, stop)
    from_lanes(c, last, piece, 0, 1)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def lstm_backward(
    x: Any,
    transposed: Any,
    initial: Any,
    out: Any,
    gates: Any,
    cells: Any,
    d_out: Any,
    d_last: Any,
    d_x: Any,
    d_weights: Any,
    d_initial: Any,
    d_initial_cell: Any,
    piece: int,
) -> None:
    """Fill in the gradients of one piece; the cells of a chunk are computed anew."""
    time, inputs, width, one = x.shape[1], x.shape[2], out.shape[2], x.dtype.type(1)
    columns, rows = transposed.shape
    zs, ds = with_ones(CHUNK + 1, columns, width + inputs, x), np.zeros((CHUNK, (rows + 1) * LANES), x.dtype)
    hs, gs, dxs = blank(CHUNK * width, x), blank(CHUNK * width, x), blank(CHUNK * inputs, x)
    back, d_c, n = blank(columns, x), blank(width, x), width * LANES
    cs = blank((CHUNK + 1) * width, x)
    needed = transposed if d_x.size > 0 else transposed[: (width + 3) // 4 * 4]
    to_lanes(d_last, piece, 0, 1, d_c)
    for start in range((time - 1) // CHUNK * CHUNK, -1, -CHUNK):
        stop = min(time, start + CHUNK)
        _inputs_of_chunk(x, initial, out, piece, start, stop, hs, dxs, zs)
        to_lanes(d_out, piece, start, stop, gs)
        copy(cells[piece, start // CHUNK], cs)
        for i in range(stop - start):
            _next_cells(
                gates[piece, start + i], cs[i * n : i * n + n], cs[i * n + n : i * n + 2 * n], hs[i * n : i * n + n]
            )
        for i in range(stop - start - 1, -1, -1):
            opened, c, squashed = gates[piece, start + i], cs[i * n : i * n + n], hs[i * n : i * n + n]
            g, d = gs[i * n : i * n + n], ds[i]
            for p in range(n):
                enter, forget, new, leave = opened[p], opened[n + p], opened[2 * n + p], opened[3 * n + p]
                d_h = g[p] + back[p]
                d_cell = d_c[p] + d_h * leave * (one - squashed[p] * squashed[p])
                d[p] = d_cell * new * enter * (one - enter)
                d[n + p] = d_cell * c[p] * forget * (one - forget)
                d[2 * n + p] = d_cell * enter * (one - new * new)
                d[3 * n + p] = d_h * squashed[p] * leave * (one - leave)
                d_c[p] = d_cell * forget
            multiply(needed, d, back)
            copy_rows(back, width, dxs, i * inputs, inputs)
        add_products(ds, zs, stop - start, d_weights[piece])
        if d_x.size > 0:
            from_lanes(dxs, d_x, piece, start, stop)
    from_lanes(back, d_initial, piece, 0, 1)
    from_lanes(d_c, d_initial_cell, piece, 0, 1)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _open(gates: Any) -> None:
    """From the sums of one time to i, f, g, o."""
    n = gates.size // 4  # slices, for LLVM does not vectorise a loop from 2n, which might be negative
    both, new, last = gates[: 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
    for p in range(both.size):
        both[p] = fast_sigmoid(both[p])
    for p in range(new.size):
        new[p] = fast_tanh(new[p])
    for p in range(last.size):
        last[p] = fast_sigmoid(last[p])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _next_cells(gates: Any, before: Any, after: Any, squashed: Any) -> None:
    """c_t from c_{t-1}, and tanh c_t."""
    n = before.size
    for p in range(n):
        now = gates[n + p] * before[p] + gates[p] * gates[2 * n + p]
        after[p] = now
        squashed[p] = fast_tanh(now)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _inputs_of_chunk(
    x: Any, initial: Any, out: Any, piece: int, start: int, stop: int, hs: Any, xs: Any, zs: Any
) -> None:
    """Fill in the states h_start .. and what the products took at these times."""
    inputs, width = x.shape[2], out.shape[2]
    to_lanes(out, piece, start, stop, hs)
    to_lanes(x, piece, start, stop, xs)
    if start == 0:
        to_lanes(initial, piece, 0, 1, zs[0])
    else:
        to_lanes(out, piece, start - 1, start, zs[0])
    for i in range(stop - start):
        copy_rows(hs, i * width, zs[i + 1], 0, width)
        copy_rows(xs, i * inputs, zs[i], width, inputs)
