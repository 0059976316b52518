"""The gradient through an attentive recurrent network, from its partial derivatives (Kerg et al. 2020, App. A.2).

Total derivatives come from the chain rule alone, never from automatic differentiation of the network:

    C_k = ds_{t+k}/dh_t = sum_{j=0}^{k} (ds_{t+k}/dh_{t+j} partial) G_j + (ds_{t+k}/ds_{t+k-1} partial) C_{k-1},
    G_0 = I,  G_{j+1} = dh_{t+j+1}/dh_t = J_{t+j} C_j,

which is Lemma 1 with the term j = 0 written as E_k. `lib.theory.gradients.blocks` has the same as matrices E_k and
F_{k,j} (Cor. 1), the form of Lemma 2 and Prop. 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_number
from lib.theory.gradients.states import Array, AttentiveStates, read_states


def attentive_rnn_gradient(network: Any, inputs: Any, t: int, k: ArrayLike) -> Array:
    """ds_{t+k}/dh_t, the total derivative of a later state in the hidden state h_t (Prop. 1 from Cor. 1).

    Entry (a, b) is the derivative of component a of s_{t+k} in component b of h_t, over all ways: through the
    recurrence, through the attended values and through the attention weights.

    network: a `lib.models.AttentiveRNN`, or any object with its attributes, see `lib.theory.gradients.states`.
    inputs: x_1 ... x_T (T, inputs), array or tensor. t >= 1, k >= 0, t + k <= T; k may be an array.
    Returns (hidden, hidden) in float64, or k.shape + (hidden, hidden).
    Raises ValueError for t < 1, k < 0, t + k > T, shapes that do not fit, and numbers that are not finite.
    Cost O(k^2 m^2 + k m^3) for the largest k and m hidden units, after a forward pass of t + k steps.
    """
    start = whole_number(t, "t", 1)
    asked = np.asarray(k)
    if asked.size == 0 or asked.dtype.kind not in "iu" or np.any(asked < 0):
        raise ValueError(f"k: whole numbers of at least 0 are allowed, got {k!r}")
    length, last = _length(inputs), start + int(asked.max())
    if last > length:
        raise ValueError(f"t, k: t + k <= {length}, the number of inputs, is allowed, got t + k = {last}")
    gradients = gradients_from(read_states(network, inputs, last), start)
    return np.asarray(gradients[asked])


def gradients_from(states: AttentiveStates, t: int) -> Array:
    """C_0, C_1, ... up to the last step, (time - t + 1, m, m), by Lemma 1. Cost as above."""
    m, count = states.hidden, states.time - t + 1
    C, G = np.empty((count, m, m)), np.empty((count, m, m))
    G[0] = np.eye(m)
    for k in range(count):
        if k:
            G[k] = states.J(t + k - 1) @ C[k - 1]
        C[k] = _through_hidden(states, t, t + k, G[: k + 1])
        if k:
            C[k] += states.second[t + k] @ query_response(states, t + k) @ C[k - 1]
    return C


def query_response(states: AttentiveStates, t: int) -> Array:
    """dc_t/ds_{t-1} = sum_i alpha_{i,t} Y_{i,t} of Lemma 5, (m, m): the last state moves the weights. Cost O(t m^2)."""
    alpha, h = states.alpha[1 : t + 1, t], states.h[1 : t + 1]
    by_query = states.score_gradients(t)[1]  # (t, m)
    return np.asarray((alpha[:, None] * h).T @ (by_query - alpha @ by_query))


def _through_hidden(states: AttentiveStates, t: int, later: int, G: Array) -> Array:
    """sum_j (ds_later/dh_{t+j} partial) G_j, with Lemma 6 and X = (h_j - c) de/dh_j, which has rank one."""
    alpha = states.alpha[t : later + 1, later]
    by_key = states.score_gradients(later)[0][t - 1 :]  # (k + 1, m)
    apart = states.h[t : later + 1] - states.c[later]  # (k + 1, m)
    moved = np.einsum("j,jb,jbd->jd", alpha, by_key, G, optimize=True)
    through_context = np.tensordot(alpha, G, axes=1) + apart.T @ moved
    return np.asarray(states.first[later] @ G[-1] + states.second[later] @ through_context)


def _length(inputs: Any) -> int:
    shape: tuple[int, ...] | NDArray[Any] = tuple(getattr(inputs, "shape", np.shape(inputs)))
    if len(shape) != 2:
        raise ValueError(f"inputs: shape (time, inputs) is allowed, got {tuple(shape)}")
    return int(shape[0])
