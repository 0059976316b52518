"""What an attentive network computed and its partial derivatives, in float64 (Kerg et al. 2020, Remarks 3 and 5).

    h_{t+1} = phi(V s_t + U x_{t+1} + b),  s_t = f(h_t, c_t),  c_t = sum_{i<=t} alpha_{i,t} h_i,  s_0 = 0,
    e_{i,t} = v_a . tanh(W_a s_{t-1} + U_a h_i),  alpha_{i,t} = softmax over i of e_{i,t}.

Times count from 1, as in the paper; arrays indexed by time hold an unused row 0, or s_0, so that indices agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checks import attended_times, real_array

Array = NDArray[np.float64]

SLOPES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "relu": (lambda a: np.maximum(a, 0.0), lambda a: (a > 0).astype(float)),
    "linear": (lambda a: a, np.ones_like),
}


@dataclass(frozen=True)
class AttentiveStates:
    """One sequence of `time` steps through a network with m hidden units and n alignment units."""

    h: Array  # (time + 1, m), row 0 unused
    c: Array  # (time + 1, m), row 0 unused
    s: Array  # (time + 1, m), row 0 is s_0 = 0
    x: Array  # (time + 1, inputs), row 0 unused
    alpha: Array  # (time + 1, time + 1): alpha[i, t] is alpha_{i,t}; row and column 0 unused
    slope: Array  # (time, m): row t is phi'(a_t), a_t = V s_t + U x_{t+1} + b, which makes h_{t+1}
    first: Array  # (time + 1, m, m): row t is d1 f(h_t, c_t), Jacobian in h; row 0 unused
    second: Array  # (time + 1, m, m): row t is d2 f(h_t, c_t), Jacobian in c; row 0 unused
    V: Array  # (m, m)
    W_a: Array | None  # (n, m); None where weights do not depend on states
    U_a: Array | None  # (n, m)
    v_a: Array | None  # (n,)

    @property
    def time(self) -> int:
        return len(self.h) - 1

    @property
    def hidden(self) -> int:
        return int(self.h.shape[1])

    def J(self, t: int) -> Array:
        """J_t = dh_{t+1}/ds_t = diag(phi'(a_t)) V, for 0 <= t < time."""
        return np.asarray(self.slope[t][:, None] * self.V)

    def alignment(self, t: int) -> tuple[Array, Array]:
        """tanh(W_a s_{t-1} + U_a h_i) for i = 1 ... t, and v_a times its slope, both (t, n), for Eq. 96 and 97."""
        if self.W_a is None or self.U_a is None or self.v_a is None:
            return np.zeros((t, 0)), np.zeros((t, 0))
        inner = np.tanh(self.s[t - 1] @ self.W_a.T + self.h[1 : t + 1] @ self.U_a.T)
        return inner, self.v_a * (1 - inner**2)

    def score_gradients(self, t: int) -> tuple[Array, Array]:
        """Rows de_{i,t}/dh_i (Eq. 96) and de_{i,t}/ds_{t-1} (Eq. 97) for i = 1 ... t. Both (t, m). Cost O(t n m)."""
        if self.W_a is None or self.U_a is None:
            return np.zeros((t, self.hidden)), np.zeros((t, self.hidden))
        weighted = self.alignment(t)[1]
        return weighted @ self.U_a, weighted @ self.W_a


@np.errstate(over="ignore", invalid="ignore")
def read_states(network: Any, inputs: Any, time: int | None = None) -> AttentiveStates:
    """Run a network over inputs (time, inputs), or their first `time` steps, in float64.

    network: a `lib.models.AttentiveRNN`, or anything with arrays or tensors V (m, m), U (m, inputs), b (m,), and for
    learned attention W_a (n, m), U_a (n, m), v_a (n,). Optional attributes, with what is assumed without them:
    activation ("tanh"; or "relu", "linear", a function of a tensor), combination ("sum"; or "mean", "gated" with
    G_h and G_c (m, m), a function f(h, c) of tensors), attention ("learned"; or "uniform", "none"), attended (None,
    all; or a list with attended[t - 1] the 1-based times that s_t attends to, c_t = 0 where it is empty).
    Raises ValueError for shapes that do not fit, numbers that are not finite, and unknown names.
    Cost O(time^2 m + time m^2), and for a function f also the Jacobians of f at every step.
    """
    attention = getattr(network, "attention", "learned")
    needed = ("V", "U", "b", "W_a", "U_a", "v_a") if attention == "learned" else ("V", "U", "b")
    missing = [name for name in needed if not hasattr(network, name)]
    if missing:
        raise ValueError(f"network: attributes {', '.join(needed)} are needed, missing {', '.join(missing)}")
    if attention not in ("learned", "uniform", "none"):
        raise ValueError(f"attention: learned, uniform, none are allowed, got {attention!r}")
    V = _array(network.V, "V", (None, None))
    m = len(V)
    V, b = _array(V, "V", (m, m)), _array(network.b, "b", (m,))
    U = _array(network.U, "U", (m, None))
    x = _array(inputs, "inputs", (None, U.shape[1]))[:time]
    steps = len(x)
    if steps == 0:
        raise ValueError("inputs: at least one step is allowed, got none")
    W_a, U_a, v_a = _alignment(network, m) if attention == "learned" else (None, None, None)
    attended = _masks(getattr(network, "attended", None), steps)
    phi, slope_of = _activation(getattr(network, "activation", "tanh"))
    f, partials = _combination(network, m)

    h, c, s = np.zeros((3, steps + 1, m))
    alpha, slope = np.zeros((steps + 1, steps + 1)), np.zeros((steps, m))
    for t in range(1, steps + 1):
        a = V @ s[t - 1] + U @ x[t - 1] + b
        h[t], slope[t - 1] = phi(a), slope_of(a)
        if attention != "none" and attended[t - 1].any():
            e = np.zeros(t)
            if W_a is not None and U_a is not None and v_a is not None:
                e = np.tanh(s[t - 1] @ W_a.T + h[1 : t + 1] @ U_a.T) @ v_a
            e = np.where(attended[t - 1, :t], e, -np.inf)
            weights = np.exp(e - e.max())
            alpha[1 : t + 1, t] = weights / weights.sum()
        c[t] = alpha[1 : t + 1, t] @ h[1 : t + 1]
        s[t] = f(h[t], c[t])
    if not np.all(np.isfinite(s)):
        raise ValueError("network, inputs: finite states are allowed, got an overflow")
    first, second = partials(h, c)
    return AttentiveStates(h, c, s, np.concatenate([0 * x[:1], x]), alpha, slope, first, second, V, W_a, U_a, v_a)


def _array(value: Any, name: str, shape: tuple[int | None, ...]) -> Array:
    """The value as a finite float64 array of this shape, None for any length; tensors are detached."""
    array = real_array(value, name)
    fits = array.ndim == len(shape) and all(size in (None, n) for size, n in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name}: shape ({wanted}) is allowed, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name}: finite numbers are allowed, got {array[~np.isfinite(array)].flat[0]}")
    return array


def _alignment(network: Any, m: int) -> tuple[Array, Array, Array]:
    """W_a (n, m), U_a (n, m), v_a (n,) of a network that learns its weights."""
    v_a = _array(network.v_a, "v_a", (None,))
    return _array(network.W_a, "W_a", (len(v_a), m)), _array(network.U_a, "U_a", (len(v_a), m)), v_a


def _masks(attended: Iterable[Iterable[int]] | None, steps: int) -> NDArray[np.bool_]:
    """masks[t - 1, i - 1]: whether s_t attends to h_i."""
    if attended is None:
        return np.tri(steps, dtype=bool)
    rows = attended_times(attended)
    if len(rows) < steps:
        raise ValueError(f"attended: times for all of {steps} steps are allowed, got {len(rows)}")
    masks = np.zeros((steps, steps), dtype=bool)
    for mask, times in zip(masks, rows, strict=False):
        mask[np.array(times, dtype=int) - 1] = True
    return masks


def _activation(activation: Any) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """phi and phi' of an array."""
    if not callable(activation):
        if not isinstance(activation, str) or activation not in SLOPES:
            raise ValueError(f"activation: {', '.join(SLOPES)} or a function is allowed, got {activation!r}")
        return SLOPES[activation]
    import torch

    def slope(a: Array) -> Array:
        point = torch.from_numpy(a)
        return np.asarray(torch.func.jvp(activation, (point,), (torch.ones_like(point),))[1].numpy())

    return lambda a: activation(torch.from_numpy(a)).detach().numpy(), slope


def _combination(network: Any, m: int) -> tuple[Callable[[Array, Array], Array], Callable[..., tuple[Array, Array]]]:
    """f of two vectors, and its partial Jacobians d1 f, d2 f (time + 1, m, m) at rows of two arrays."""
    combination = getattr(network, "combination", "sum")
    if callable(combination):
        import torch

        jacobians = torch.func.vmap(torch.func.jacrev(combination, argnums=(0, 1)))

        def partials(h: Array, c: Array) -> tuple[Array, Array]:
            both = jacobians(torch.from_numpy(h), torch.from_numpy(c))
            return both[0].detach().numpy(), both[1].detach().numpy()

        return lambda h, c: combination(torch.from_numpy(h), torch.from_numpy(c)).detach().numpy(), partials
    if combination in ("sum", "mean"):
        scale = 1.0 if combination == "sum" else 0.5

        def equal(h: Array, c: Array) -> tuple[Array, Array]:
            both = np.broadcast_to(scale * np.eye(m), (len(h), m, m))
            return both, both

        return lambda h, c: scale * (h + c), equal
    if combination != "gated":
        raise ValueError(f"combination: sum, mean, gated or a function is allowed, got {combination!r}")
    missing = [name for name in ("G_h", "G_c") if not hasattr(network, name)]
    if missing:
        raise ValueError(f"network: attributes G_h, G_c are needed where it is gated, missing {', '.join(missing)}")
    G_h, G_c = _array(network.G_h, "G_h", (m, m)), _array(network.G_c, "G_c", (m, m))

    def gate(h: Array, c: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-(h @ G_h.T + c @ G_c.T))))

    def gated(h: Array, c: Array) -> tuple[Array, Array]:
        g = gate(h, c)
        turned = ((h - c) * g * (1 - g))[:, :, None]  # how f moves with what enters the gate
        one = np.eye(m)
        return g[:, :, None] * one + turned * G_h, (1 - g)[:, :, None] * one + turned * G_c

    return lambda h, c: gate(h, c) * h + (1 - gate(h, c)) * c, gated
