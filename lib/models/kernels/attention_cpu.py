"""Causal softmax attention on the CPU: compiled loops for narrow heads, forward and backward.

A piece of work is one head of one sequence. Scores exist for one tile at a time, `ROWS` x `LANES`, and are computed
anew for the gradients: memory is linear in time. Going forward the lanes of a tile are queries, so that sums over keys
need no sum over lanes; going backward they are keys. All sums run in an order that depends on shapes alone.

projected (batch, time, 3 x heads x head width) holds queries, keys and values side by side, as a linear map makes them;
out and d_out (batch, time, heads x head width); log_sum (batch, heads, time) is ln sum_j exp(score), kept for backward.
Position i attends to the last `window` positions, itself among them. `unit` is a tuple of as many zeros as a head is
wide: the compiler knows its length and unrolls the loops over it. Names of gradients start with `d_`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_exp
from lib.models.kernels.lanes import copy

LANES = 64  # positions side by side: whole vectors, a multiple of ROWS
ROWS = 16  # positions that share one visit to the sums, a multiple of 4


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def forward(projected: Any, heads: int, window: int, unit: Any, out: Any, log_sum: Any, piece: int) -> None:
    """Fill in out and log_sum of one piece."""
    b, h = divmod(piece, heads)
    time, width = projected.shape[1], len(unit)
    real = projected.dtype.type
    lowest, scale = -np.finfo(projected.dtype).max, real(1.0 / math.sqrt(width))
    padded = (time + LANES - 1) // LANES * LANES
    queries = np.zeros((width, LANES), projected.dtype)
    keys, values = np.zeros((padded, width), projected.dtype), np.zeros((padded, width), projected.dtype)
    _fill_rows(keys, projected[b], (heads + h) * width, unit)
    _fill_rows(values, projected[b], (2 * heads + h) * width, unit)
    scores = np.empty((ROWS, LANES), projected.dtype)
    largest, before = np.empty(LANES, projected.dtype), np.empty(LANES, projected.dtype)
    total, mixed = np.empty(LANES, projected.dtype), np.empty((width, LANES), projected.dtype)
    for start in range(0, time, LANES):
        _fill_columns(queries, projected[b], h * width, start, scale, unit)
        largest[:] = lowest
        total[:] = 0
        mixed[:] = 0
        for first in range(max(0, start - window + 1) // ROWS * ROWS, min(time, start + LANES), ROWS):
            copy(largest, before)
            for row in range(ROWS):
                key, score, place = keys[first + row], scores[row], first + row
                for lane in range(LANES):
                    product = real(0)
                    for c in range(len(unit)):
                        product += queries[c, lane] * key[c]
                    score[lane] = product
                if place > start:  # queries before the key
                    score[: place - start] = -np.inf
                if place + window < start + LANES:  # queries that do not look back so far
                    score[max(0, place + window - start) :] = -np.inf
                for lane in range(LANES):
                    largest[lane] = max(largest[lane], score[lane])
            for lane in range(LANES):  # what was summed so far, relative to the new largest score
                shrink = fast_exp(before[lane] - largest[lane])
                total[lane] *= shrink
                for c in range(len(unit)):
                    mixed[c, lane] *= shrink
            for row in range(ROWS):
                score = scores[row]
                for lane in range(LANES):
                    weight = fast_exp(score[lane] - largest[lane])
                    score[lane] = weight
                    total[lane] += weight
            for row in range(0, ROWS, 4):
                w0, w1, w2, w3 = scores[row], scores[row + 1], scores[row + 2], scores[row + 3]
                place = first + row
                r0, r1, r2, r3 = values[place], values[place + 1], values[place + 2], values[place + 3]
                for c in range(len(unit)):
                    v0, v1, v2, v3 = r0[c], r1[c], r2[c], r3[c]
                    sums = mixed[c]
                    for lane in range(LANES):
                        sums[lane] += w0[lane] * v0 + w1[lane] * v1 + w2[lane] * v2 + w3[lane] * v3
        for lane in range(min(LANES, time - start)):
            for c in range(len(unit)):
                out[b, start + lane, h * width + c] = mixed[c, lane] / total[lane]
            log_sum[b, h, start + lane] = largest[lane] + math.log(total[lane])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backward(
    projected: Any,
    heads: int,
    window: int,
    unit: Any,
    out: Any,
    log_sum: Any,
    d_out: Any,
    d_projected: Any,
    piece: int,
) -> None:
    """Fill in d_projected of one piece.

    With w_ij the weights and g_i = d_out_i: dv_j = sum_i w_ij g_i, and the gradient of a score is
    e_ij = w_ij (g_i . v_j - g_i . out_i), from which dq_i = sum_j e_ij k_j and dk_j = sum_i e_ij q_i.
    """
    b, h = divmod(piece, heads)
    time, width = projected.shape[1], len(unit)
    real = projected.dtype.type
    scale = real(1.0 / math.sqrt(width))
    padded = (time + LANES - 1) // LANES * LANES
    queries, d_queries = np.zeros((padded, width), projected.dtype), np.zeros((padded, width), projected.dtype)
    d_outs = np.zeros((padded, width), projected.dtype)
    _fill_rows(queries, projected[b], h * width, unit)
    _fill_rows(d_outs, d_out[b], h * width, unit)
    queries *= scale
    logs, means = np.zeros(padded, projected.dtype), np.zeros(padded, projected.dtype)
    for t in range(time):
        logs[t] = log_sum[b, h, t]
        for c in range(len(unit)):
            means[t] += d_outs[t, c] * out[b, t, h * width + c]
    weights, d_scores = np.empty((ROWS, LANES), projected.dtype), np.empty((ROWS, LANES), projected.dtype)
    keys, values = np.zeros((width, LANES), projected.dtype), np.zeros((width, LANES), projected.dtype)
    d_keys, d_values = np.empty((width, LANES), projected.dtype), np.empty((width, LANES), projected.dtype)
    for start in range(0, time, LANES):
        _fill_columns(keys, projected[b], (heads + h) * width, start, real(1), unit)
        _fill_columns(values, projected[b], (2 * heads + h) * width, start, real(1), unit)
        d_keys[:] = 0
        d_values[:] = 0
        for first in range(start, min(time, start + LANES + window - 1), ROWS):
            for row in range(ROWS):
                place = first + row
                query, d_mixed, log, mean = queries[place], d_outs[place], logs[place], means[place]
                weight, d_score = weights[row], d_scores[row]
                for lane in range(LANES):
                    exponent = -log
                    for c in range(len(unit)):
                        exponent += query[c] * keys[c, lane]
                    weight[lane] = fast_exp(exponent)
                for lane in range(LANES):
                    d_weight = -mean
                    for c in range(len(unit)):
                        d_weight += d_mixed[c] * values[c, lane]
                    d_score[lane] = weight[lane] * d_weight
                if place < start + LANES:  # keys after the query
                    weight[place - start + 1 :] = 0
                    d_score[place - start + 1 :] = 0
                if place >= start + window:  # keys that are too far back
                    weight[: place - start - window + 1] = 0
                    d_score[: place - start - window + 1] = 0
            for row in range(0, ROWS, 4):
                place = first + row
                w0, w1, w2, w3 = weights[row], weights[row + 1], weights[row + 2], weights[row + 3]
                e0, e1, e2, e3 = d_scores[row], d_scores[row + 1], d_scores[row + 2], d_scores[row + 3]
                for c in range(len(unit)):
                    g0, g1, g2, g3 = d_outs[place, c], d_outs[place + 1, c], d_outs[place + 2, c], d_outs[place + 3, c]
                    q0, q1, q2, q3 = (
                        queries[place, c],
                        queries[place + 1, c],
                        queries[place + 2, c],
                        queries[place + 3, c],
                    )
                    key, d_key, d_value = keys[c], d_keys[c], d_values[c]
                    s0 = s1 = s2 = s3 = real(0)
                    for lane in range(LANES):
                        d_value[lane] += w0[lane] * g0 + w1[lane] * g1 + w2[lane] * g2 + w3[lane] * g3
                        d_key[lane] += e0[lane] * q0 + e1[lane] * q1 + e2[lane] * q2 + e3[lane] * q3
                        s0 += e0[lane] * key[lane]
                        s1 += e1[lane] * key[lane]
                        s2 += e2[lane] * key[lane]
                        s3 += e3[lane] * key[lane]
                    d_queries[place, c] += s0
                    d_queries[place + 1, c] += s1
                    d_queries[place + 2, c] += s2
                    d_queries[place + 3, c] += s3
        for lane in range(min(LANES, time - start)):
            for c in range(len(unit)):
                d_projected[b, start + lane, (heads + h) * width + c] = d_keys[c, lane]
                d_projected[b, start + lane, (2 * heads + h) * width + c] = d_values[c, lane]
    for t in range(time):
        for c in range(len(unit)):
            d_projected[b, t, h * width + c] = d_queries[t, c] * scale


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_rows(rows: Any, matrix: Any, column: int, unit: Any) -> None:
    """Copy the columns of one head, (time, head width); what lies below is left as it is."""
    for t in range(matrix.shape[0]):
        for c in range(len(unit)):
            rows[t, c] = matrix[t, column + c]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_columns(columns: Any, matrix: Any, column: int, start: int, scale: Any, unit: Any) -> None:
    """Copy LANES positions of one head from `start` on, times `scale`: (head width, LANES), zeros after the last."""
    some = min(LANES, matrix.shape[0] - start)
    for lane in range(some):
        for c in range(len(unit)):
            columns[c, lane] = matrix[start + lane, column + c] * scale
    columns[:, some:] = 0
