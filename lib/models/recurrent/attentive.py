"""A recurrent network that attends to its own past states (Kerg et al. 2020, App. A): real weights for the theory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lib.checks import attended_times, real_number, whole_number
from lib.models.base import Module, seeded

Combination = Callable[[Tensor, Tensor], Tensor]
Activation = Callable[[Tensor], Tensor]
Function = TypeVar("Function", bound=Callable[..., Tensor])

ACTIVATIONS: dict[str, Activation] = {"tanh": torch.tanh, "relu": torch.relu, "linear": lambda a: a}
COMBINATIONS = ("sum", "mean", "gated")
ATTENTION = ("learned", "uniform", "none")


class AttentiveTrace(NamedTuple):
    """All that one sequence made the network compute; row t - 1 belongs to time t."""

    h: Tensor  # (time, hidden)
    c: Tensor  # (time, hidden)
    s: Tensor  # (time, hidden): s_1 ... s_T, and s_0 = 0
    # (time, time): e[t - 1, i - 1] is the score e_{i,t}, 0 where attention is not learned, "none" too; -inf for i > t
    # and for the i that `attended` leaves out
    e: Tensor
    alpha: Tensor  # (time, time): alpha[t - 1, i - 1] is the weight alpha_{i,t}
    preactivations: Tensor  # (time, hidden): row t - 1 is V s_{t-1} + U x_t + b, so that h_t = phi of it


class AttentiveRNN(Module):
    """h_{t+1} = phi(V s_t + U x_{t+1} + b), s_t = f(h_t, c_t), c_t = sum_{i<=t} alpha_{i,t} h_i (Eq. 50-53, 95, 105).

    alpha_{i,t} is the softmax over the attended i of e_{i,t} = v_a . tanh(W_a s_{t-1} + U_a h_i), and s_0 = 0. Times
    count from 1. Parameters: V (hidden, hidden), U (hidden, inputs), b (hidden,), W_a and U_a (alignment size,
    hidden), v_a (alignment size,); assign to them to set a spectrum.

    activation: phi, "tanh", "relu", "linear" or a function of a tensor, applied to each entry.
    combination: f, "sum" h + c, "mean" (h + c) / 2, "gated" g h + (1 - g) c with g = sigmoid(G_h h + G_c c) and the
    further parameters G_h, G_c (hidden, hidden), or a function f(h, c) of tensors (..., hidden), same in all rows.
    attention: "learned"; "uniform", equal weights; or "none", c_t = 0.
    attended: None, s_t attends to all of h_1 ... h_t; or a list with attended[t - 1] the times that s_t attends to,
    and c_t = 0 where it is empty.
    gain: V starts as this number times an orthogonal matrix.
    Raises ValueError for unknown names, attended times that are repeated or not among 1 ... t, and inputs that have
    the wrong shape or type or go beyond the attended times. Cost of T steps: O(T^2 hidden) and O(T hidden^2).
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        activation: str | Activation = "tanh",
        combination: str | Combination = "sum",
        attention: str = "learned",
        attended: Sequence[Sequence[int]] | None = None,
        alignment_size: int | None = None,
        gain: float = 1.0,
        seed: int | np.random.Generator = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.inputs = whole_number(inputs, "inputs", 1)
        self.hidden = whole_number(hidden, "hidden", 1)
        aligned = self.hidden if alignment_size is None else whole_number(alignment_size, "alignment_size", 1)
        self.activation = _one_of(activation, tuple(ACTIVATIONS), "activation")
        self.combination = _one_of(combination, COMBINATIONS, "combination")
        if attention not in ATTENTION:
            raise ValueError(f"attention: {', '.join(ATTENTION)} are allowed, got {attention!r}")
        self.attention = attention
        self.attended = None if attended is None else attended_times(attended)
        scale = real_number(gain, "gain")
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"dtype: torch.float32 or torch.float64 is allowed, got {dtype!r}")

        def glorot(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns, dtype=dtype)))

        with seeded(seed):
            self.V = nn.Parameter(nn.init.orthogonal_(torch.empty(hidden, hidden, dtype=dtype), scale))
            self.U = glorot(hidden, inputs)
            self.b = nn.Parameter(torch.zeros(hidden, dtype=dtype))
            self.W_a, self.U_a = glorot(aligned, hidden), glorot(aligned, hidden)
            self.v_a = nn.Parameter(nn.init.uniform_(torch.empty(aligned, dtype=dtype), -1, 1))
            if combination == "gated":
                self.G_h, self.G_c = glorot(hidden, hidden), glorot(hidden, hidden)

    def forward(self, inputs: Tensor) -> Tensor:
        """The states s_1 ... s_T of every sequence: (batch, time, inputs) -> (batch, time, hidden)."""
        return self._run(inputs, {}).s

    def trace(self, inputs: Tensor, replace: Mapping[int, Tensor] | None = None) -> AttentiveTrace:
        """All states, scores and weights for one sequence (time, inputs).

        replace: hidden states (hidden,) to put in the place of h_t at 1-based times t, so that the network can be
        differentiated with respect to h_t while all before it stays.
        """
        if getattr(inputs, "ndim", 0) != 2:
            given = type(inputs).__name__
            raise ValueError(f"inputs: a tensor (time, {self.inputs}) is allowed, got {given} {np.shape(inputs)}")
        if replace is not None and not isinstance(replace, Mapping):
            raise ValueError(f"replace: hidden states by their times are allowed, got {type(replace).__name__}")
        return AttentiveTrace(*(part[0] for part in self._run(inputs[None], replace or {})))

    def state(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """s_t = Psi_t(h_1, ..., h_t, s_{t-1}) of Eq. 9, one step: hidden (t, hidden), previous (hidden,) -> (hidden,).

        Its derivatives, each argument on its own, are the partial ones of Lemmas 5 and 6. Raises ValueError for other
        shapes and types, and for more states than there are attended times.
        """
        self._refuse_foreign("hidden", hidden)
        self._refuse_foreign("previous", previous)
        given, previously = hidden.shape, previous.shape
        if len(given) != 2 or given[1] != self.hidden or not given[0] or previously != (self.hidden,):
            allowed = f"hidden (t, {self.hidden}) with t >= 1 and previous ({self.hidden},) are allowed"
            raise ValueError(f"{allowed}, got shapes {tuple(given)} and {tuple(previously)}")
        t = given[0]
        if self.attended is not None and t > len(self.attended):
            raise ValueError(f"hidden: attended times are given up to {len(self.attended)}, got {t} states")
        scores = self._scores(previous[None], (hidden @ self.U_a.T)[None], t)
        return self._attend(scores, hidden[None], t)[2][0]

    def combine(self, h: Tensor, c: Tensor) -> Tensor:
        """s = f(h, c), of tensors (..., hidden)."""
        if callable(self.combination):
            return self.combination(h, c)
        if self.combination == "gated":
            gate = torch.sigmoid(h @ self.G_h.T + c @ self.G_c.T)
            return gate * h + (1 - gate) * c
        return h + c if self.combination == "sum" else (h + c) / 2

    def activate(self, a: Tensor) -> Tensor:
        """h = phi(a), entry by entry."""
        return self.activation(a) if callable(self.activation) else ACTIVATIONS[self.activation](a)

    def _run(self, inputs: Tensor, replace: Mapping[int, Tensor]) -> AttentiveTrace:
        self._refuse_unfit(inputs, replace)
        batch, time, _ = inputs.shape
        driven = inputs @ self.U.T + self.b  # (batch, time, hidden)
        s = driven.new_zeros(batch, self.hidden)
        rows: list[list[Tensor]] = [[], [], [], [], [], []]
        keys: list[Tensor] = []  # U_a h_i, once for every i
        for t in range(1, time + 1):
            a = s @ self.V.T + driven[:, t - 1]
            h = replace[t].expand(batch, -1) if t in replace else self.activate(a)
            rows[0].append(h)
            keys.append(h @ self.U_a.T)
            e = self._scores(s, torch.stack(keys, dim=1), t)  # (batch, t)
            alpha, c, s = self._attend(e, torch.stack(rows[0], dim=1), t)
            later = (0, time - t)
            padded = nn.functional.pad(e, later, value=-torch.inf), nn.functional.pad(alpha, later)
            for row, value in zip(rows[1:], (c, s, *padded, a), strict=True):
                row.append(value)
        return AttentiveTrace(*(torch.stack(row, dim=1) for row in rows))

    def _scores(self, s: Tensor, keys: Tensor, t: int) -> Tensor:
        """e_{i,t} for i = 1 ... t (batch, t), from s_{t-1} and U_a h_i (batch, t, alignment size)."""
        if self.attention == "learned":
            e = torch.tanh((s @ self.W_a.T)[:, None] + keys) @ self.v_a
        else:
            e = s.new_zeros(s.shape[0], t)
        if self.attended is None:
            return e
        unseen = torch.ones(t, dtype=torch.bool, device=e.device)
        unseen[torch.tensor(self.attended[t - 1], dtype=torch.int64, device=e.device) - 1] = False
        return e.masked_fill(unseen, -torch.inf)

    def _attend(self, e: Tensor, hidden: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor]:
        """alpha_{i,t} (batch, t), c_t and s_t (batch, hidden), from scores and h_1 ... h_t (batch, t, hidden)."""
        silent = self.attention == "none" or (self.attended is not None and not self.attended[t - 1])
        alpha = torch.zeros_like(e) if silent else torch.softmax(e, dim=1)
        c = torch.einsum("bi,bih->bh", alpha, hidden)
        return alpha, c, self.combine(hidden[:, -1], c)

    def _refuse_foreign(self, name: str, value: Any) -> None:
        if not isinstance(value, Tensor) or value.dtype != self.V.dtype:
            given = f"{type(value).__name__} of {getattr(value, 'dtype', 'no type')}"
            raise ValueError(f"{name}: a tensor of {self.V.dtype} is allowed, got {given}")

    def _refuse_unfit(self, inputs: Tensor, replace: Mapping[int, Tensor]) -> None:
        self._refuse_foreign("inputs", inputs)
        if inputs.ndim != 3 or inputs.shape[-1] != self.inputs or 0 in inputs.shape:
            raise ValueError(f"inputs: (batch, time, {self.inputs}) is allowed, got shape {tuple(inputs.shape)}")
        time = inputs.shape[1]
        if self.attended is not None and time > len(self.attended):
            raise ValueError(f"inputs: attended times are given up to {len(self.attended)}, got {time} steps")
        for t in replace:
            whole_number(t, "replace", 1)
            if t > time:
                raise ValueError(f"replace: times 1 .. {time} are allowed, got {t}")
            self._refuse_foreign(f"replace[{t}]", replace[t])
            if (shape := tuple(replace[t].shape)) != (self.hidden,):
                raise ValueError(f"replace: a state ({self.hidden},) is allowed, got shape {shape} at time {t}")


def _one_of(value: str | Function, names: tuple[str, ...], argument: str) -> str | Function:
    if callable(value) or value in names:
        return value
    raise ValueError(f"{argument}: {', '.join(names)} or a function is allowed, got {value!r}")
