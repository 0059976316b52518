"""Recurrence with attention to a buffer and a relevant set, on the CPU: compiled loops over time, forward and backward.

A piece of work is `PIECE` neighbouring sequences, which share the reading of the weights; pieces write to places of
their own. What is attended to are numbers of times: a memory is replaced by writing a number, and gradients are added
into one array of a sequence.

Arrays are C-contiguous, (batch, time, some); those that only the way back needs have one time if it is not to come, and
those of an option that is off are empty. `stacked` and `keyed` are V and W_a below each other and U_a, on the way back
their transposes, as panels (panels, columns x LANES) whose lanes are units. `size` is that of the buffer, at most the
number of times, 0 without attention; a state of time t lies in slot t mod size. Scores are those of `cell`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_sigmoid, fast_tanh
from lib.models.kernels.lanes import LANES, copy, load, multiply, store
from lib.models.kernels.screening.attention_cpu import attend, attend_back, offer, squared_exponentials, times_of_slots

PIECE = 16
TANH, MODRELU, LSTM, GATED = range(4)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def screening_forward(
    driven: Any,
    stacked: Any,
    keyed: Any,
    score: Any,
    threshold: Any,
    nudge: Any,
    priorities: Any,
    cell: int,
    own: float,
    other: float,
    size: int,
    out: Any,
    states: Any,
    gates: Any,
    cells: Any,
    queries: Any,
    keys: Any,
    weights: Any,
    times: Any,
    piece: int,
) -> None:
    """Fill in h (out), s (states) and all after it, of one piece."""
    first, last, rows = sequences(piece, driven.shape[0])
    time, n, relevant = driven.shape[1], out.shape[2], times.shape[2]
    of_h, of_c = out.dtype.type(own), out.dtype.type(other)
    s, h = np.zeros((rows, n + n % 2), out.dtype), np.zeros((rows, n + n % 2), out.dtype)
    sums = np.zeros((rows, stacked.shape[0] * LANES), out.dtype)
    keyed_sums = np.zeros((rows, keyed.shape[0] * LANES), out.dtype)
    lanes, at_query = np.zeros(rows * LANES, out.dtype), _whole_lanes(driven.shape[2])
    c, context = np.zeros((rows, n if cell >= LSTM else 0), out.dtype), np.empty(n, out.dtype)
    buffered, frozen = np.zeros((rows, size), out.dtype), np.full((rows, relevant), -1, out.dtype)
    chosen, index = np.full((rows, relevant), -1, np.int32), np.empty(size + relevant, np.int64)
    power, powers, clipped = np.empty_like(context), np.empty_like(keys[first:last]), np.zeros((rows, time), np.bool_)
    for t in range(time):
        products(s, stacked, sums, lanes)
        for r in range(last - first):
            b = first + r
            kept = min(t, gates.shape[1] - 1)
            _next_hidden(sums[r], driven[b, t], threshold, cell, gates[b, kept], c[r], out[b, t])
            copy(c[r], cells[b, kept])
            for j in range(n if nudge.size > 0 else 0):
                out[b, t, j] += nudge[b, t, j]
            copy(out[b, t], h[r])
        if size == 0:
            s, h = h, s
            continue
        products(h, keyed, keyed_sums, lanes)
        for r in range(last - first):
            b = first + r
            kept = min(t, times.shape[1] - 1)
            copy(sums[r, at_query : at_query + n], queries[b, kept])
            copy(keyed_sums[r, :n], keys[b, t])
            clipped[r, t] = squared_exponentials(keys[b, t], powers[r, t])
            now = queries[b, kept], power, squared_exponentials(queries[b, kept], power)
            slot = t % size
            if t >= size:
                offer(buffered[r, slot], t - size, frozen[r], chosen[r])
            buffered[r, slot] = priorities[b, t] if priorities.size > 0 else out.dtype.type(0)
            times_of_slots(t, size, chosen[r], index)
            attend(index, (out[b], keys[b], powers[r], clipped[r]), now, score, weights[b, kept], context)
            for place in range(size if priorities.size == 0 and relevant > 0 else 0):
                buffered[r, place] += weights[b, kept, place]
            copy(chosen[r], times[b, kept])
            for j in range(n):
                s[r, j] = of_h * h[r, j] + of_c * context[j]
            copy(s[r, :n], states[b, kept])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def screening_backward(
    stacked: Any,
    keyed: Any,
    score: Any,
    threshold: Any,
    nudge: Any,
    cell: int,
    own: float,
    other: float,
    size: int,
    out: Any,
    gates: Any,
    cells: Any,
    queries: Any,
    keys: Any,
    weights: Any,
    times: Any,
    d_out: Any,
    d_driven: Any,
    d_queries: Any,
    d_keys: Any,
    d_score: Any,
    d_threshold: Any,
    piece: int,
) -> None:
    """Fill in the gradients of one piece, those of W_a s_{t-1} and U_a h_t among them, zero at first.

    d_out is that of the loss by its own argument h_t at first, and by h_t along all paths in the end.
    """
    first, last, rows = sequences(piece, out.shape[0])
    time, n, relevant = out.shape[1], out.shape[2], times.shape[2]
    of_h, of_c = out.dtype.type(own if size > 0 else 1.0), out.dtype.type(other)
    back = np.zeros((rows, stacked.shape[0] * LANES), out.dtype)
    d_sums, at_query = np.zeros((rows, stacked.shape[1] // LANES), out.dtype), _whole_lanes(d_driven.shape[2])
    keyed_sums = np.zeros((rows, keyed.shape[0] * LANES), out.dtype)
    d_key, lanes = np.zeros((rows, n + n % 2), out.dtype), np.zeros(rows * LANES, out.dtype)
    d_c, before = np.zeros((rows, n if cell >= LSTM else 0), out.dtype), np.zeros(n, out.dtype)
    shares, d_context = np.empty(size + relevant, out.dtype), np.empty(n, out.dtype)
    index, power = np.empty(size + relevant, np.int64), np.empty(n, out.dtype)
    powers, clipped = np.empty_like(keys[first:last]), np.zeros((rows, time), np.bool_)
    for r in range(last - first if size > 0 else 0):
        for t in range(time):
            clipped[r, t] = squared_exponentials(keys[first + r, t], powers[r, t])
    for t in range(time - 1, -1, -1):
        for r in range(last - first):
            b = first + r
            for j in range(n):
                d_out[b, t, j] += of_h * back[r, j]
                d_context[j] = of_c * back[r, j]
            if size > 0:
                times_of_slots(t, size, times[b, t], index)
                now = queries[b, t], power, squared_exponentials(queries[b, t], power)
                past = out[b], keys[b], powers[r], clipped[r]
                attend_back(index, past, now, score, weights[b, t], d_context, shares,
                            d_out[b], d_keys[b], d_queries[b, t], d_score[b])  # fmt: skip
                copy(d_keys[b, t], d_key[r])
        if size > 0:
            products(d_key, keyed, keyed_sums, lanes)
        for r in range(last - first):
            b = first + r
            if size > 0:
                for j in range(n):
                    d_out[b, t, j] += keyed_sums[r, j]
                copy(d_queries[b, t], d_sums[r, at_query:])
            if cell >= LSTM:
                if t > 0:
                    copy(cells[b, t - 1], before)
                else:
                    before[:] = out.dtype.type(0)
            if cell == LSTM:
                gates_back(gates[b, t], before, cells[b, t], d_out[b, t], d_c[r], d_driven[b, t])
            elif cell == GATED:
                _gated_back(gates[b, t], before, threshold, d_out[b, t], d_c[r], d_driven[b, t], d_threshold[b])
            else:
                nudged = nudge[b, t] if nudge.size > 0 else nudge[0, 0]
                _activation_back(out[b, t], nudged, cell, d_out[b, t], d_driven[b, t], d_threshold[b])
            copy(d_driven[b, t], d_sums[r])
            if cell == GATED:
                for j in range(n):
                    d_sums[r, 2 * n + j] *= gates[b, t, j]
        products(d_sums, stacked, back, lanes)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def sequences(piece: int, batch: int) -> tuple[int, int, int]:
    """First and last sequence of a piece, and their number up to a multiple of 4, as the products want it."""
    first = piece * PIECE
    last = min(first + PIECE, batch)
    return first, last, (last - first + 3) // 4 * 4


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _whole_lanes(units: int) -> int:
    """The next multiple of LANES."""
    return (units + LANES - 1) // LANES * LANES


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def products(matrix: Any, panels: Any, out: Any, lanes: Any) -> None:
    """out = matrix times the matrix of the panels; `lanes` is room for one panel of it."""
    for panel in range(panels.shape[0]):
        multiply(matrix, panels[panel], lanes)
        for r in range(matrix.shape[0]):
            store(out[r], panel * LANES, load(lanes, r * LANES))


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _next_hidden(sums: Any, driven: Any, threshold: Any, cell: int, gates: Any, c: Any, out: Any) -> None:
    """h_t of one sequence, and the gates and c_t of a cell that has them."""
    n = out.size
    if cell == LSTM:
        next_of_lstm(sums, driven, gates, c, out)
    elif cell == GATED:
        _next_gated(sums, driven, threshold, gates, c, out)
    elif cell == MODRELU:
        for j in range(n):
            out[j] = _modrelu(sums[j] + driven[j], threshold[j])
    else:
        for j in range(n):
            out[j] = fast_tanh(sums[j] + driven[j])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _modrelu(z: Any, threshold: Any) -> Any:
    """sign(z) max(0, |z| + threshold)."""
    nothing = z * 0
    length = abs(z) + threshold
    length = nothing if length < nothing else length
    return -length if z < nothing else (length if z > nothing else z)  # 0 stays 0, and NaN what it is


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def next_of_lstm(sums: Any, driven: Any, gates: Any, c: Any, out: Any) -> None:
    """Gates i, f, g, o, c_t in the place of c_{t-1}, and h_t of one sequence."""
    n = out.size
    new, leave = gates[2 * n : 3 * n], gates[3 * n :]
    for j in range(2 * n):
        gates[j] = fast_sigmoid(sums[j] + driven[j])
    for j in range(n):
        new[j] = fast_tanh(sums[2 * n + j] + driven[2 * n + j])
    for j in range(n):
        leave[j] = fast_sigmoid(sums[3 * n + j] + driven[3 * n + j])
    for j in range(n):
        c[j] = gates[n + j] * c[j] + gates[j] * new[j]
        out[j] = leave[j] * fast_tanh(c[j])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _next_gated(sums: Any, driven: Any, threshold: Any, gates: Any, c: Any, out: Any) -> None:
    """h_t of a gated orthogonal cell, in the place of c = h_{t-1} too, and r, g, Q h and the z that modReLU is of."""
    n, one = out.size, out.dtype.type(1)
    for j in range(2 * n):
        gates[j] = fast_sigmoid(sums[j] + driven[j])
    for j in range(n):
        z, g = gates[j] * sums[2 * n + j] + driven[2 * n + j], gates[n + j]
        gates[2 * n + j], gates[3 * n + j] = sums[2 * n + j], z
        c[j] = g * c[j] + (one - g) * _modrelu(z, threshold[j])
        out[j] = c[j]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _gated_back(gates: Any, before: Any, threshold: Any, d_h: Any, d_c: Any, d_driven: Any, d_threshold: Any) -> None:
    """Gradients of what drives the gates and z; d_c goes from what h_{t+1} = g h_t + .. gives h_t to the same of t."""
    n, nothing, one = before.size, before.dtype.type(0), before.dtype.type(1)
    for j in range(n):
        r, g, turned, z = gates[j], gates[n + j], gates[2 * n + j], gates[3 * n + j]
        new, d = _modrelu(z, threshold[j]), d_h[j] + d_c[j]
        d_z = nothing if new == nothing else d * (one - g)
        d_threshold[j] += d_z if new > nothing else -d_z
        d_driven[j] = d_z * turned * r * (one - r)
        d_driven[n + j] = d * (before[j] - new) * g * (one - g)
        d_driven[2 * n + j] = d_z
        d_c[j] = d * g


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _activation_back(h: Any, nudge: Any, cell: int, d_h: Any, d_sum: Any, d_threshold: Any) -> None:
    """Gradient of what tanh or modReLU was taken of, from its value: modReLU is flat just where it is 0."""
    nothing, one = h.dtype.type(0), h.dtype.type(1)
    for j in range(h.size):
        value = h[j] - nudge[j] if nudge.size > 0 else h[j]
        if cell == MODRELU:
            d_sum[j] = nothing if value == nothing else d_h[j]
            d_threshold[j] += nothing if value == nothing else (d_h[j] if value > nothing else -d_h[j])
        else:
            d_sum[j] = d_h[j] * (one - value * value)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def gates_back(gates: Any, before: Any, now: Any, d_h: Any, d_c: Any, d_sums: Any) -> None:
    """Gradients of the sums in the gates; d_c goes from that of c_t to that of c_{t-1}."""
    n, one = before.size, before.dtype.type(1)
    for j in range(n):
        enter, forget, new, leave = gates[j], gates[n + j], gates[2 * n + j], gates[3 * n + j]
        squashed = fast_tanh(now[j])
        d_cell = d_c[j] + d_h[j] * leave * (one - squashed * squashed)
        d_sums[j] = d_cell * new * enter * (one - enter)
        d_sums[n + j] = d_cell * before[j] * forget * (one - forget)
        d_sums[2 * n + j] = d_cell * enter * (one - new * new)
        d_sums[3 * n + j] = d_h[j] * squashed * leave * (one - leave)
        d_c[j] = d_cell * forget
