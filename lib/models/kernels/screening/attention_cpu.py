"""Attention of one sequence at one time to the states in its slots, compiled: weights, their gradients, and the slots.

A slot holds the number of a time, or -1 if it is empty. With E = exp(2 W_a s) and F_i = exp(2 U_a h_i), tanh(W_a s +
U_a h_i) = 1 - 2 r with r = 1 / (E F_i + 1): exponentials are taken once for every state and time, but for rows with
numbers so large that a product might overflow. r is computed again on the way back: nothing of the size of all pairs of
times and units is kept.

past: h, U_a h and F, (time, n), and which rows of F are clipped, (time,). now: W_a s and E, (n,), and whether E is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lib.models.kernels.exponential import ANY_ORDER, fast_exp

LARGEST_SINGLE, LARGEST_DOUBLE = 21.0, 176.0  # of W_a s and U_a h: the product of both exponentials is finite


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def squared_exponentials(numbers: Any, out: Any) -> bool:
    """out = exp(2 x), and whether an x had to be clipped."""
    largest = out.dtype.type(LARGEST_SINGLE if out.itemsize == 4 else LARGEST_DOUBLE)
    clipped = 0
    for j in range(out.size):
        x = numbers[j]
        clipped += abs(x) > largest
        x = largest if x > largest else x
        x = -largest if x < -largest else x
        out[j] = fast_exp(x + x)
    return clipped > 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def offer(priority: Any, time: int, frozen: Any, chosen: Any) -> None:
    """What leaves the buffer takes the first of the relevant places with the smallest score, if strictly above it."""
    if frozen.size > 0:
        place = np.argmin(frozen)
        if priority > frozen[place]:
            frozen[place], chosen[place] = priority, time


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def times_of_slots(t: int, size: int, chosen: Any, index: Any) -> None:
    """The time in every slot after time t: state i lies in slot i mod size of the buffer; then the relevant ones."""
    newest = t % size
    for slot in range(size):
        time = t - newest + slot if slot <= newest else t - newest - size + slot
        index[slot] = time if time >= 0 else -1
    for place in range(chosen.size):
        index[size + place] = chosen[place]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def attend(index: Any, past: Any, now: Any, score: Any, weights: Any, context: Any) -> None:
    """Fill in the weights of the slots and c = sum_i w_i h_i; what all scores have in common is left out of them."""
    (h, keys, powers, clipped), (query, power, query_clipped) = past, now
    n, top, whole, nothing = query.size, query.dtype.type(-np.inf), query.dtype.type(0), query.dtype.type(0)
    one, two = query.dtype.type(1), query.dtype.type(2)
    for slot in range(index.size):
        if index[slot] >= 0:
            key, other, total = keys[index[slot]], powers[index[slot]], nothing
            if query_clipped or clipped[index[slot]]:
                for j in range(n):
                    total += score[j] / (fast_exp(two * (query[j] + key[j])) + one)
            else:
                for j in range(n):
                    total += score[j] / (power[j] * other[j] + one)
            weights[slot] = -two * total
            top = top if weights[slot] <= top else weights[slot]
    for slot in range(index.size):
        weights[slot] = fast_exp(weights[slot] - top) if index[slot] >= 0 else nothing
        whole += weights[slot]
    context[:] = nothing
    for slot in range(index.size):
        if index[slot] >= 0:
            weights[slot] /= whole
            weight, state = weights[slot], h[index[slot]]
            for j in range(n):
                context[j] += weight * state[j]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ANY_ORDER)  # type: ignore[untyped-decorator]
def attend_back(
    index: Any,
    past: Any,
    now: Any,
    score: Any,
    weights: Any,
    d_context: Any,
    shares: Any,
    d_h: Any,
    d_keys: Any,
    d_query: Any,
    d_score: Any,
) -> None:
    """Add to the gradients of h_i, U_a h_i, W_a s and v. That of a score is w_i (g_i - sum_k w_k g_k), g_i = d_c . h_i.

    shares: room for a number of every slot.
    """
    (h, keys, powers, clipped), (query, power, query_clipped) = past, now
    n, mean, nothing = query.size, query.dtype.type(0), query.dtype.type(0)
    for slot in range(index.size):
        if index[slot] >= 0:
            state, total = h[index[slot]], nothing
            for j in range(n):
                total += d_context[j] * state[j]
            shares[slot] = total
            mean += weights[slot] * total
    one, two, four = query.dtype.type(1), query.dtype.type(2), query.dtype.type(4)
    for slot in range(index.size):
        if index[slot] >= 0:
            weight, key, other = weights[slot], keys[index[slot]], powers[index[slot]]
            d_state, d_key = d_h[index[slot]], d_keys[index[slot]]
            d_e = weight * (shares[slot] - mean)
            slow = query_clipped or clipped[index[slot]]
            for j in range(n):
                product = fast_exp(two * (query[j] + key[j])) if slow else power[j] * other[j]
                r = one / (product + one)
                through = four * d_e * score[j] * (r * (one - r))
                d_state[j] += weight * d_context[j]
                d_query[j] += through
                d_key[j] += through
                d_score[j] -= two * d_e * r
