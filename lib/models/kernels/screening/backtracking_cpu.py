"""An LSTM with sparse attention to its stored states, on the CPU: compiled loops over time, forward and backward.

Pieces of work, panels and rows are those of `cell_cpu`. Place i >= 1 of the memory is h of time i every - 1, which
stays where it is in `out`; place 0 is a zero state, whose part of the score is 0.

Arrays are C-contiguous: driven (batch, time, 4 n), out (batch, time, 2 n), h and the context; gates (batch, time, 4 n),
cells (batch, time, n), weights (batch, time, places), edges and totals (batch, time), keys (batch, places), zero at
first as the weights are. An edge is the place of the `top`-th largest score, -1 as long as there are no more places
than that, place 0 among them, and a total what weights were divided by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_tanh
from lib.models.kernels.lanes import LANES, copy
from lib.models.kernels.screening.cell_cpu import gates_back, next_of_lstm, products, sequences

MARGIN = 1e-7  # above the threshold, and of the sum that weights are divided by


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backtracking_forward(
    driven: Any,
    panels: Any,
    score: Any,
    every: int,
    top: int,
    out: Any,
    gates: Any,
    cells: Any,
    keys: Any,
    weights: Any,
    edges: Any,
    totals: Any,
    piece: int,
) -> None:
    """Fill in all from out on, of one piece."""
    first, last, rows = sequences(piece, driven.shape[0])
    time, n = driven.shape[1], out.shape[2] // 2
    states, c = np.zeros((rows, n + n % 2), out.dtype), np.zeros((rows, n), out.dtype)
    sums, lanes = np.zeros((rows, panels.shape[0] * LANES), out.dtype), np.zeros(rows * LANES, out.dtype)
    scores, ranks = np.empty(keys.shape[1], out.dtype), np.empty(top, np.int64)
    for t in range(time):
        products(states, panels, sums, lanes)
        places = 1 + t // every
        for r in range(last - first):
            b = first + r
            h, context = out[b, t, :n], out[b, t, n:]
            next_of_lstm(sums[r], driven[b, t], gates[b, t], c[r], h)
            copy(c[r], cells[b, t])
            own = _score(score[:n], h)
            for place in range(places):
                scores[place] = own + keys[b, place]
            edges[b, t], totals[b, t] = _weigh(scores[:places], ranks, weights[b, t])
            context[:] = out.dtype.type(0)
            for place in range(1, places):
                weight, memory = weights[b, t, place], out[b, place * every - 1, :n]
                if weight != 0:
                    for j in range(n):
                        context[j] += weight * memory[j]
            for j in range(n):
                h[j] += context[j]
            copy(h, states[r])
            if (t + 1) % every == 0:
                keys[b, places] = _score(score[n:], h)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def backtracking_backward(
    panels: Any,
    score: Any,
    every: int,
    truncation: int,
    out: Any,
    gates: Any,
    cells: Any,
    weights: Any,
    edges: Any,
    totals: Any,
    d_out: Any,
    d_driven: Any,
    d_score: Any,
    piece: int,
) -> None:
    """Fill in the gradients of one piece, that of the scores zero at first; d_out is used up.

    Beyond `top` states the sum of the gradients of all scores is 0: nothing reaches what they have in common.
    """
    first, last, rows = sequences(piece, out.shape[0])
    time, n, nothing = out.shape[1], out.shape[2] // 2, out.dtype.type(0)
    back, lanes = np.zeros((rows, panels.shape[0] * LANES), out.dtype), np.zeros(rows * LANES, out.dtype)
    d_sums, d_c = np.zeros((rows, 4 * n), out.dtype), np.zeros((rows, n), out.dtype)
    d_keys, d_scores = np.zeros((rows, weights.shape[2]), out.dtype), np.empty(weights.shape[2], out.dtype)
    before, fresh = np.zeros(n, out.dtype), np.empty(n, out.dtype)
    for t in range(time - 1, -1, -1):
        places = 1 + t // every
        for r in range(last - first):
            b = first + r
            d_h, d_context = d_out[b, t, :n], d_out[b, t, n:]
            for j in range(n):
                d_h[j] += back[r, j]
            if (t + 1) % every == 0:
                _score_back(d_keys[r, places], score[n:], out[b, t, :n], d_h, d_score[b, n:])
            for j in range(n):
                d_context[j] += d_h[j]
            for place in range(places):
                weight, d_scores[place] = weights[b, t, place], nothing
                if place > 0 and (weight != 0 or edges[b, t] < 0):
                    memory, d_memory = out[b, place * every - 1, :n], d_out[b, place * every - 1, :n]
                    total = nothing
                    for j in range(n):
                        total += d_context[j] * memory[j]
                        d_memory[j] += weight * d_context[j]
                    d_scores[place] = total
            _weigh_back(weights[b, t, :places], edges[b, t], totals[b, t], d_scores[:places])
            for place in range(1, places):
                d_keys[r, place] += d_scores[place]
            if edges[b, t] < 0:
                for j in range(n):
                    fresh[j] = out[b, t, j] - out[b, t, n + j]
                _score_back(d_scores[:places].sum(), score[:n], fresh, d_h, d_score[b, :n])
            for j in range(n):
                before[j] = cells[b, t - 1, j] if t > 0 else nothing
            gates_back(gates[b, t], before, cells[b, t], d_h, d_c[r], d_driven[b, t])
            copy(d_driven[b, t], d_sums[r])
        products(d_sums, panels, back, lanes)
        if (t + 1) % truncation == 0:
            back[:] = nothing
            d_c[:] = nothing


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _score(score: Any, state: Any) -> Any:
    """w . tanh(h)."""
    total = state.dtype.type(0)
    for j in range(state.size):
        total += score[j] * fast_tanh(state[j])
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _score_back(d_total: Any, score: Any, state: Any, d_state: Any, d_score: Any) -> None:
    """Add to the gradients of h and w."""
    one = state.dtype.type(1)
    for j in range(state.size):
        squashed = fast_tanh(state[j])
        d_score[j] += d_total * squashed
        d_state[j] += d_total * score[j] * (one - squashed * squashed)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _weigh(scores: Any, ranks: Any, weights: Any) -> Any:
    """Fill in the weights; the place of the last of the largest scores, or -1, and what the weights were divided by."""
    top, nothing = ranks.size, scores.dtype.type(0)
    if scores.size <= top:
        copy(scores, weights)
        return -1, nothing
    for place in range(scores.size):
        rank = min(place, top)  # of the next larger one
        while rank > 0 and not scores[ranks[rank - 1]] >= scores[place]:
            if rank < top:
                ranks[rank] = ranks[rank - 1]
            rank -= 1
        if rank < top:
            ranks[rank] = place
    edge, total = ranks[top - 1], scores.dtype.type(MARGIN)
    threshold = scores[edge] + total
    for place in range(scores.size):
        above = scores[place] - threshold
        weights[place] = nothing if above <= nothing else above  # NaN stays NaN
        total += weights[place]
    for place in range(scores.size):
        weights[place] /= total
    return edge, total


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def _weigh_back(weights: Any, edge: int, total: Any, d_weights: Any) -> None:
    """The gradients of the scores in the place of those of the weights."""
    if edge >= 0:
        mean, down = d_weights.dtype.type(0), d_weights.dtype.type(0)
        for place in range(weights.size):
            mean += weights[place] * d_weights[place]
        for place in range(weights.size):
            if weights[place] != 0:
                d_weights[place] = (d_weights[place] - mean) / total
                down += d_weights[place]
        d_weights[edge] = -down
