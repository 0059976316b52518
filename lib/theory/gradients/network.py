"""The gradient through an attentive recurrent network, from its partial derivatives (Kerg et al. 2020, App. A.2).

Total derivatives come from the chain rule alone, never from automatic differentiation of the network:

    C_k = ds_{t+k}/dh_t = sum_{j=0}^{k} (ds_{t+k}/dh_{t+j} partial) G_j + (ds_{t+k}/ds_{t+k-1} partial) C_{k-1},
    G_0 = I,  G_{j+1} = dh_{t+j+1}/dh_t = J_{t+j} C_j,

which is Lemma 1 with the term j = 0 written as E_k. `lib.theory.gradients.blocks` has the same as matrices E_k and
F_{k,j} (Cor. 1), the form of Lemma 2 and Prop. 1.

The gradients of the weights are those of Lemmas 7 and 8, and Remark 6. A loss reads the states: L(s_1, ..., s_T), given
by the rows dL/ds_t taken with all other states fixed. Two passes follow. `total_gradients` adds what reaches the loss
through later states; Lemmas 7 and 8 then read the weights' gradients off, step by step. Gradients have the shapes of
their parameters, as programs store them: the transpose of the rows and columns of Eq. 106.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import real_array, whole_lags, whole_number
from lib.theory.gradients.states import Array, AttentiveStates, read_states

Form = Literal["corrected", "printed"]


def attentive_rnn_gradient(network: Any, inputs: Any, t: int, k: ArrayLike) -> Array:
    """ds_{t+k}/dh_t, the total derivative of a later state in the hidden state h_t (Prop. 1 from Cor. 1).

    Entry (a, b) is the derivative of component a of s_{t+k} in component b of h_t, over all ways: through the
    recurrence, through the attended values and through the attention weights.

    network: a `lib.models.AttentiveRNN`, or any object with its attributes, see `lib.theory.gradients.states`.
    inputs: x_1 ... x_T (T, inputs), array or tensor. t >= 1, k >= 0, t + k <= T; k may be an array.
    Returns (hidden, hidden) in float64, or k.shape + (hidden, hidden).
    Raises ValueError for t < 1, k < 0, t + k > T, shapes that do not fit, and numbers that are not finite, states and
    gradients up to the largest k too.
    Cost O(k^2 m^2 + k m^3) for the largest k and m hidden units, after a forward pass of t + k steps.
    """
    start, asked = whole_number(t, "t", 1), whole_lags(k, name="k")
    length, last = _length(inputs), start + int(asked.max(initial=0))
    if last > length:
        raise ValueError(f"t, k: t + k <= {length}, the number of inputs, is allowed, got t + k = {last}")
    gradients = gradients_from(read_states(network, inputs, last), start)
    return np.asarray(gradients[asked])


@np.errstate(over="ignore", invalid="ignore")
def gradients_from(states: AttentiveStates, t: int) -> Array:
    """C_0, C_1, ... up to the last step, (time - t + 1, m, m), by Lemma 1; ValueError at an overflow. Cost as above."""
    m, count = states.hidden, states.time - t + 1
    C, G = np.empty((count, m, m)), np.empty((count, m, m))
    G[0] = np.eye(m)
    for k in range(count):
        if k:
            G[k] = states.J(t + k - 1) @ C[k - 1]
        C[k] = _through_hidden(states, t, t + k, G[: k + 1])
        if k:
            C[k] += states.second[t + k] @ query_response(states, t + k) @ C[k - 1]
        if not np.all(np.isfinite(C[k])):
            raise ValueError(f"network, inputs: finite gradients are allowed, got an overflow of ds_{t + k}/dh_{t}")
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


class TotalGradients(NamedTuple):
    """Total derivatives of the loss, rows by time, row 0 unused in h."""

    s: Array  # (time + 1, m): dL/ds_t
    h: Array  # (time + 1, m): dL/dh_t


def total_gradients(
    states: AttentiveStates, loss_gradient: ArrayLike, hidden_gradient: ArrayLike | None = None
) -> TotalGradients:
    """dL/ds_t and dL/dh_t over all ways to the loss, by the transposed recursion, latest time first.

    loss_gradient: dL/ds_t with the other states fixed, (T, m) for t = 1 ... T <= states.time; later states are not
    read. hidden_gradient: dL/dh_t with all else fixed, of that shape, of a loss that reads h_t too. Equals
    dL/dh_t = sum_k (dL/ds_{t+k}) C_k with C_k of `attentive_rnn_gradient`, in O(time^2 m + time m^2)
    in place of O(time^3 m^2). Raises ValueError for another shape, numbers that are not finite, and an overflow.
    """
    s, h = gradients_by_glances(states, loss_gradient, hidden_gradient, most=0, rest=True)
    return TotalGradients(s[0], h[0])


@np.errstate(over="ignore", invalid="ignore")
def gradients_by_glances(
    states: AttentiveStates,
    loss_gradient: ArrayLike,
    hidden_gradient: ArrayLike | None = None,
    *,
    most: int,
    rest: bool = False,
) -> TotalGradients:
    """The same, split by the number of times that a path goes through attention.

    A path from the loss to h_t has one *glance* for each s on it that is reached by its c, whose derivative in the
    weights is part of it; all else is recurrence. Returns arrays (most + 1, time + 1, m): entry n is the sum over
    paths with n glances, and with `rest` those with more are added to the last. Cost `most` + 1 times that of all.
    """
    m, degrees = states.hidden, whole_number(most, "most", 0) + 1
    given = _given(loss_gradient, "loss_gradient", states)
    direct = np.zeros_like(given) if hidden_gradient is None else _given(hidden_gradient, "hidden_gradient", states)
    if len(direct) != len(given):
        raise ValueError(f"hidden_gradient: {len(given)} steps are allowed, as in loss_gradient, got {len(direct)}")
    s, h = np.zeros((2, degrees, states.time + 1, m))
    s[0, 1 : len(given) + 1], h[0, 1 : len(given) + 1] = given, direct
    for t in range(len(given), 0, -1):
        onwards = s[:, t] @ states.second[t]  # (degrees, m), one glance more than s
        through_context = np.concatenate([np.zeros((1, m)), onwards[:-1]])
        if rest:
            through_context[-1] += onwards[-1]
        alpha = states.alpha[1 : t + 1, t]
        by_key = states.score_gradients(t)[0]
        apart = states.h[1 : t + 1] - states.c[t]
        moved = (through_context @ apart.T)[:, :, None] * by_key  # (degrees, t, m)
        h[:, 1 : t + 1] += alpha[:, None] * (through_context[:, None] + moved)
        h[:, t] += s[:, t] @ states.first[t]
        s[:, t - 1] += through_context @ query_response(states, t) + h[:, t] @ states.J(t - 1)
        if not np.all(np.isfinite(s[:, t - 1])):
            raise ValueError(f"network, inputs: finite gradients are allowed, got an overflow of dL/ds_{t - 1}")
    return TotalGradients(s, h)


def _given(gradient: ArrayLike, name: str, states: AttentiveStates) -> Array:
    """The rows of a gradient by time, checked."""
    given, m = real_array(gradient, name), states.hidden
    if given.ndim != 2 or given.shape[1] != m or not 1 <= len(given) <= states.time or not np.all(np.isfinite(given)):
        raise ValueError(f"{name}: finite (T, {m}) with T = 1 .. {states.time} is allowed, got {given.shape}")
    return given


def alignment_gradient(states: AttentiveStates, totals: TotalGradients) -> dict[str, Array]:
    """dL/dW_a, dL/dU_a, dL/dv_a of Lemma 7 (Eq. 98), one summand for each attended state.

    sum_t alpha_{i,t} (dL/ds_t d2f (h_i - c_t)) de_{i,t}/dtheta. Returns arrays (time + 1, *shape of the parameter):
    row i is what attention to h_i adds, and the sum over i is the gradient. Cost O(time^2 n m).
    """
    if states.W_a is None or states.U_a is None or states.v_a is None:
        raise ValueError("states: a network with learned attention is allowed, got one without alignment parameters")
    n, m = states.W_a.shape
    parts = {"W_a": np.zeros((states.time + 1, n, m)), "U_a": np.zeros((states.time + 1, n, m))}
    parts["v_a"] = np.zeros((states.time + 1, n))
    for t in range(1, states.time + 1):
        through_context = totals.s[t] @ states.second[t]
        apart = states.h[1 : t + 1] - states.c[t]
        by_score = states.alpha[1 : t + 1, t] * (apart @ through_context)  # (t,): dL/de_{i,t}
        inner, weighted = states.alignment(t)
        parts["v_a"][1 : t + 1] += by_score[:, None] * inner
        moved = by_score[:, None] * weighted  # (t, n)
        parts["W_a"][1 : t + 1] += moved[:, :, None] * states.s[t - 1]
        parts["U_a"][1 : t + 1] += moved[:, :, None] * states.h[1 : t + 1, None, :]
    return parts


def recurrent_gradient(states: AttentiveStates, totals: TotalGradients, form: Form = "corrected") -> dict[str, Array]:
    """dL/dV, dL/dU, dL/db of Lemma 8: sum_t [s_{t-1}, x_t, 1] dL/dh_t diag(phi'(a_{t-1})), a_{t-1} that makes h_t.

    form: "printed" takes phi'(a_t) as Eq. 106 has it, of the step after; it needs one more input than the loss reads.
    Returns (m, m), (m, inputs), (m,). Cost O(time m (m + inputs)).
    """
    if form not in ("corrected", "printed"):
        raise ValueError(f"form: 'corrected' or 'printed' is allowed, got {form!r}")
    last = int(np.flatnonzero(np.any(totals.h != 0, axis=1)).max(initial=0))
    shift = int(form == "printed")
    if last + shift > states.time:
        raise ValueError(f"form: 'printed' reads a_{last}, which needs x_{last + 1}; there are {states.time} inputs")
    times = np.arange(1, last + 1)
    into = totals.h[times] * states.slope[times - 1 + shift]  # (last, m): dL/da_{t-1}
    return {"V": into.T @ states.s[times - 1], "U": into.T @ states.x[times], "b": into.sum(axis=0)}
