"""The short causal convolution with its activation as compiled loops over neighbouring channels.

Arrays are C-contiguous: x, y (batch, time, channels), weight (k, channels), bias (channels,). A piece of work is one
sequence and up to `BLOCK` channels. The name of a gradient starts with `d_`; backward computes the activations anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import fast_exp

BLOCK = 128  # channels of a piece
ANY_ORDER = {"contract", "nsz", "reassoc"}  # sums may be reordered; NaN and infinity keep their meaning


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def blocks(channels: int) -> int:
    """How many pieces one sequence has."""
    return (channels + BLOCK - 1) // BLOCK


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def forward(x: Any, weight: Any, bias: Any, y: Any, piece: int) -> None:
    """Fill in y of one piece."""
    b, start, stop = _place(piece, x.shape[2])
    w, shift = weight[:, start:stop].copy(), bias[start:stop].copy()
    total, one = np.empty_like(shift), x.dtype.type(1)
    for t in range(x.shape[1]):
        _convolve(x, w, shift, b, t, start, stop, total)
        y_t = y[b, t, start:stop]
        for c in range(total.size):
            y_t[c] = total[c] / (one + fast_exp(-total[c]))


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backward(x: Any, weight: Any, bias: Any, d_y: Any, d_x: Any, d_weight: Any, d_bias: Any, piece: int) -> None:
    """Fill in the gradients of one piece; d_weight (batch, k, channels) and d_bias (batch, channels) are shares."""
    b, start, stop = _place(piece, x.shape[2])
    w, shift = weight[:, start:stop].copy(), bias[start:stop].copy()
    total, d_w, d_shift = np.empty_like(shift), np.zeros_like(w), np.zeros_like(shift)
    d_x[b, :, start:stop] = 0
    one = x.dtype.type(1)
    for t in range(x.shape[1]):
        _convolve(x, w, shift, b, t, start, stop, total)
        dy_t = d_y[b, t, start:stop]
        for c in range(total.size):
            gate = one / (one + fast_exp(-total[c]))
            total[c] = dy_t[c] * gate * (one + total[c] * (one - gate))  # from here on its gradient
            d_shift[c] += total[c]
        for i in range(max(0, w.shape[0] - 1 - t), w.shape[0]):
            past = t - w.shape[0] + 1 + i
            x_t, dx_t, w_i, dw_i = x[b, past, start:stop], d_x[b, past, start:stop], w[i], d_w[i]
            for c in range(total.size):
                dx_t[c] += w_i[c] * total[c]
                dw_i[c] += x_t[c] * total[c]
    d_weight[b, :, start:stop] = d_w
    d_bias[b, start:stop] = d_shift


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _convolve(x: Any, w: Any, shift: Any, b: int, t: int, start: int, stop: int, total: Any) -> None:
    """total = shift + sum_i w_i x_{t-k+1+i}."""
    total[:] = shift
    for i in range(max(0, w.shape[0] - 1 - t), w.shape[0]):
        x_t, w_i = x[b, t - w.shape[0] + 1 + i, start:stop], w[i]
        for c in range(total.size):
            total[c] += w_i[c] * x_t[c]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _place(piece: int, channels: int) -> tuple[int, int, int]:
    """Row, first channel and the one after the last."""
    row, block = divmod(piece, blocks(channels))
    return row, block * BLOCK, min((block + 1) * BLOCK, channels)
