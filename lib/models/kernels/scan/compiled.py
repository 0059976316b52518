"""The scans of Mamba and Mamba2 on the CPU: compiled loops, forward and backward, vectorised over channels.

A piece of work is one sequence and up to `BLOCK` neighbouring channels; pieces are independent, and threads share them.
Forward keeps the state at the start of every chunk of times. Backward walks the chunks from the last to the first,
computes the states of one chunk anew and then the gradients: memory is batch x channels x size x time / chunk instead
of batch x channels x size x time, and nothing is ever divided by a decay. Sums run in an order that depends on shapes
alone, so that the number of threads does not change a bit of the result.

Inside, states are (size, channels): the same place of neighbouring channels lies side by side. Arrays are C-contiguous:
u, delta, y (batch, time, channels), A (rates, channels), B, C (batch, time, size), D (channels,), states (batch, size,
channels), kept (batch, chunks, size, channels). The name of a gradient starts with `d_`. There are as many rates as
places, or one that all places of a channel share, as in Mamba2: then one exponential for each channel and time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_exp
from lib.models.kernels.lanes import copy

BLOCK = 64  # channels of a piece: long for the vector units, short enough that few sequences occupy all cores
LANES = 32  # compiled loops run over whole multiples of this many channels, the last ones empty


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def blocks(channels: int) -> int:
    """How many pieces one sequence has."""
    return (channels + BLOCK - 1) // BLOCK


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def forward(
    u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, chunk: int, y: Any, kept: Any, state: Any, piece: int
) -> None:
    """Fill in y of one piece, and kept unless it has no chunks; `state` goes from the first to the last, in place."""
    b, start, width, lanes = _place(piece, u.shape[2])
    stop, rates, size = start + width, A.shape[0], B.shape[2]
    rate, s, skip = _rows(A[:, start:stop], lanes), _rows(state[b, :, start:stop], lanes), D[start:stop]
    dt, x = np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype)
    out, decay = np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype)
    for t in range(u.shape[1]):
        if t % chunk == 0 and kept.shape[1] > 0:
            _put(s, kept[b, t // chunk, :, start:stop])
        u_t, delta_t, y_t = u[b, t, start:stop], delta[b, t, start:stop], y[b, t, start:stop]
        for c in range(width):
            dt[c] = delta_t[c]
            x[c] = delta_t[c] * u_t[c]
            out[c] = skip[c] * u_t[c]
        for n in range(size):
            b_n, c_n = B[b, t, n], C[b, t, n]
            if n < rates:
                for c in range(lanes):
                    decay[c] = fast_exp(dt[c] * rate[n, c])
            for c in range(lanes):
                now = decay[c] * s[n, c] + b_n * x[c]
                s[n, c] = now
                out[c] += c_n * now
        for c in range(width):
            y_t[c] = out[c]
    _put(s, state[b, :, start:stop])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backward(
    u: Any,
    delta: Any,
    A: Any,
    B: Any,
    C: Any,
    D: Any,
    chunk: int,
    kept: Any,
    d_y: Any,
    d_state: Any,
    d_u: Any,
    d_delta: Any,
    d_A: Any,
    d_B: Any,
    d_C: Any,
    d_D: Any,
    piece: int,
) -> None:
    """Fill in the gradients of one piece; `d_state` goes from that of the last state to that of the first, in place.

    d_A (batch, rates, channels), d_D (batch, channels), d_B and d_C (batch, blocks, time, size): shares to be summed.
    With g_t the gradient of s_t and a_t = exp(delta_t A):  g_t = C_t dy_t + a_{t+1} g_{t+1}.
    """
    b, start, width, lanes = _place(piece, u.shape[2])
    stop, rates, size, time, block = start + width, A.shape[0], B.shape[2], u.shape[1], start // BLOCK
    rate, g, skip = _rows(A[:, start:stop], lanes), _rows(d_state[b, :, start:stop], lanes), D[start:stop]
    states, decays = np.empty((chunk + 1, size, lanes), u.dtype), np.empty((chunk, rates, lanes), u.dtype)
    d_rate, d_skip = np.zeros((rates, lanes), u.dtype), np.zeros(width, u.dtype)
    each = rates > 1
    dt, x, dy = np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype)
    d_x, d_dt, d_exponent = np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype), np.zeros(lanes, u.dtype)
    for q in range(kept.shape[1] - 1, -1, -1):
        first = q * chunk
        steps = min(chunk, time - first)
        _put(_rows(kept[b, q, :, start:stop], lanes), states[0])
        for i in range(steps):
            u_t, delta_t = u[b, first + i, start:stop], delta[b, first + i, start:stop]
            for c in range(width):
                dt[c] = delta_t[c]
                x[c] = delta_t[c] * u_t[c]
            for n in range(size):
                b_n, r = B[b, first + i, n], min(n, rates - 1)
                if n < rates:
                    for c in range(lanes):
                        decays[i, n, c] = fast_exp(dt[c] * rate[n, c])
                for c in range(lanes):
                    states[i + 1, n, c] = decays[i, r, c] * states[i, n, c] + b_n * x[c]
        for i in range(steps - 1, -1, -1):
            t = first + i
            u_t, delta_t, dy_t = u[b, t, start:stop], delta[b, t, start:stop], d_y[b, t, start:stop]
            for c in range(width):
                dt[c] = delta_t[c]
                x[c] = delta_t[c] * u_t[c]
                dy[c] = dy_t[c]
            d_x[:] = 0
            d_dt[:] = 0
            for n in range(size):
                b_n, c_n, r = B[b, t, n], C[b, t, n], min(n, rates - 1)
                d_b = d_c = u.dtype.type(0)
                for c in range(lanes):
                    now = g[n, c] + c_n * dy[c]
                    before = now * decays[i, r, c]
                    exponent = before * states[i, n, c]  # the gradient of delta_t A
                    if each:
                        d_dt[c] += exponent * rate[n, c]
                        d_rate[n, c] += exponent * dt[c]
                    else:
                        d_exponent[c] += exponent
                    d_x[c] += now * b_n
                    d_b += now * x[c]
                    d_c += dy[c] * states[i + 1, n, c]
                    g[n, c] = before
                d_B[b, block, t, n], d_C[b, block, t, n] = d_b, d_c
            if not each:
                for c in range(lanes):
                    d_dt[c] += d_exponent[c] * rate[0, c]
                    d_rate[0, c] += d_exponent[c] * dt[c]
                    d_exponent[c] = 0
            du_t, ddelta_t = d_u[b, t, start:stop], d_delta[b, t, start:stop]
            for c in range(width):
                du_t[c] = d_x[c] * delta_t[c] + dy_t[c] * skip[c]
                ddelta_t[c] = d_x[c] * u_t[c] + d_dt[c]
                d_skip[c] += dy_t[c] * u_t[c]
    _put(d_rate, d_A[b, :, start:stop])
    copy(d_skip, d_D[b, start:stop])
    _put(g, d_state[b, :, start:stop])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _place(piece: int, channels: int) -> tuple[int, int, int, int]:
    """Row, first channel, channels and channels with empty ones of a piece."""
    row, block = divmod(piece, blocks(channels))
    start = block * BLOCK
    width = min(BLOCK, channels - start)
    return row, start, width, (width + LANES - 1) // LANES * LANES


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _rows(array: Any, lanes: int) -> Any:
    """A copy of some columns, filled up with zeros."""
    filled = np.zeros((array.shape[0], lanes), array.dtype)
    for n in range(array.shape[0]):
        copy(array[n], filled[n])
    return filled


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _put(rows: Any, array: Any) -> None:
    """As many columns of the rows as the array has."""
    for n in range(array.shape[0]):
        copy(rows[n, : array.shape[1]], array[n])
