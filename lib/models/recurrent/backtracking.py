"""Sparse attentive backtracking as its authors released it: an LSTM that attends to a few of its stored states.

Ke et al. (2018), Sparse Attentive Backtracking. Two properties of that code are kept, as they are no part of the text:
as long as there are no more than `top` states, the zero state that comes before those stored among them, the scores
themselves are the weights; and tanh is taken before the map that scores, w . tanh([h; m]) = g(h) + g'(m), so that
beyond `top` states the weights do not depend on h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import truth_value, whole_number
from lib.models.base import Module
from lib.models.kernels.screening import backtracking_cpu as kernels
from lib.models.kernels.screening.cell import panels, share_batch
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives
from lib.models.recurrent.basic import LSTMLayer
from lib.models.recurrent.orthogonal import AttendingModel


class BacktrackingState(NamedTuple):
    """All that later output depends on."""

    hidden: Tensor  # h, (batch, width)
    cell: Tensor  # c, (batch, width)
    memory: Tensor  # a zero state and those stored, (batch, places, width)
    keys: Tensor  # g'(m) of each, (batch, places, 1), or U_a m, (batch, places, width)
    steps: int  # done so far


class BacktrackingLayer(Module):
    """An LSTM gives h~_t and c_t; h_t = h~_t + sum_i w_i m_i, which goes on; the output is [h_t; sum_i w_i m_i].

    Every `every`-th h_t is stored, after a zero state. Scores e_i = w . tanh([h~_t; m_i]), or with `aligned` a true
    alignment v . tanh(W_a h~_t + U_a m_i). With more than `top` states, the zero state among them, thus from the time
    on at which `top` are stored, w_i is the positive part of e_i less the `top`-th largest score, by their sum, so that
    at most top - 1 of them are not zero; before that it is e_i. Gradients through h and c end every `truncation` steps;
    those through memories do not. Output (batch, time, 2 width).

    Weights of the LSTM and its bias start uniform in +-1/sqrt(width), w normal with deviation 0.01; W_a and U_a uniform
    in +-1/sqrt(width), v Xavier normal. Raises ValueError for every, top or truncation below 1. Cost of T steps
    O(T width^2 + T^2 width / every); where gradients are needed and without `aligned` a loop compiled for the CPU does
    with O(T width (width + top) + T^2 / every).
    """

    def __init__(
        self, inputs: int, width: int, *, every: int = 2, top: int = 10, truncation: int = 10, aligned: bool = False
    ) -> None:
        super().__init__()
        self.width = width
        self.every, self.top = whole_number(every, "every", 1), whole_number(top, "top", 1)
        self.truncation = whole_number(truncation, "truncation", 1)
        bound = width**-0.5
        self.lstm = LSTMLayer(inputs, width)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        self.weight_query = self.weight_key = None
        if truth_value(aligned, "aligned"):
            self.weight_query = nn.Parameter(torch.empty(width, width).uniform_(-bound, bound))  # W_a
            self.weight_key = nn.Parameter(torch.empty(width, width).uniform_(-bound, bound))  # U_a
            self.weight_score = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, width))[0])  # v
        else:
            self.weight_score = nn.Parameter(nn.init.normal_(torch.empty(2 * width), std=0.01))  # w

    def forward(self, x: Tensor) -> Tensor:
        needed = torch.is_grad_enabled() and any(y.requires_grad for y in (x, *self.parameters()))
        alike = x.device.type == "cpu" and x.dtype == self.weight_score.dtype
        if not needed or not alike or self.weight_query is not None or x.dtype not in (torch.float32, torch.float64):
            return self.stepped(x)[0]
        driven, rule = x @ self.lstm.weight_ih.T + self.lstm.bias, (self.every, self.top, self.truncation)
        found: Tensor = CompiledBacktracking.apply(driven, self.lstm.weight_hh, self.weight_score, *rule)
        return found

    def initial_state(self, batch: int) -> BacktrackingState:
        zeros = self.weight_score.new_zeros(batch, self.width)
        return BacktrackingState(zeros, zeros, zeros[:, None], self._keys(zeros)[:, None], 0)

    def step(self, x: Tensor, state: BacktrackingState) -> tuple[Tensor, BacktrackingState]:
        out, after, _ = self._step(x, state)
        return out, after

    def state_size(self, length: int) -> int:
        """h, c, and of each stored state itself and what its score needs."""
        keys = 1 if self.weight_key is None else self.width
        return 2 * self.width + (1 + length // self.every) * (self.width + keys)

    def attended(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """0-based times of the stored states, -1 for those not yet there, and their weights, 0 there; neither the zero
        state nor its weight is among them. Both (batch, time, slots), slots = time // every. Not differentiable.
        """
        with torch.no_grad():
            weights = self.stepped(x)[1]
        batch, time, _ = x.shape
        stored = torch.arange(time // self.every, device=x.device) * self.every + self.every - 1
        seen = torch.arange(time, device=x.device)[:, None] > stored
        return torch.where(seen, stored, -1).expand(batch, -1, -1), weights[..., 1:]

    def stepped(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, and weights (batch, time, 1 + time // every), the zero state first, to the last bit as `step` does.

        Where scores lie close to each other a rounding makes the weights jump, and where all do, the outputs.
        """
        state, outputs, weights = self.initial_state(x.shape[0]), [], []
        for one_x in x.unbind(1):
            out, state, one = self._step(one_x, state)
            outputs.append(out)
            weights.append(F.pad(one, (0, 1 + x.shape[1] // self.every - one.shape[1])))
        return torch.stack(outputs, dim=1), torch.stack(weights, dim=1)

    def _keys(self, states: Tensor) -> Tensor:
        if self.weight_key is None:
            return (states.tanh() @ self.weight_score[self.width :])[..., None]
        return states @ self.weight_key.T

    def _step(self, x: Tensor, state: BacktrackingState) -> tuple[Tensor, BacktrackingState, Tensor]:
        hidden, cell, steps = state.hidden, state.cell, state.steps + 1
        if steps % self.truncation == 0:
            hidden, cell = hidden.detach(), cell.detach()
        driven = x @ self.lstm.weight_ih.T + self.lstm.bias
        i, f, g, o = (driven + hidden @ self.lstm.weight_hh.T).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        if self.weight_query is None:
            scores = (hidden.tanh() @ self.weight_score[: self.width])[:, None] + state.keys[..., 0]
        else:
            scores = ((hidden @ self.weight_query.T)[:, None] + state.keys).tanh() @ self.weight_score
        weights = self._sparse(scores)
        context = (weights[:, None] @ state.memory)[:, 0]
        hidden = hidden + context
        memory, keys = state.memory, state.keys
        if steps % self.every == 0:
            memory, keys = (torch.cat([old, new[:, None]], 1) for old, new in ((memory, hidden),
                                                                              (keys, self._keys(hidden))))  # fmt: skip
        after = BacktrackingState(hidden, cell, memory, keys, steps)
        return torch.cat([hidden, context], dim=1), after, weights

    def _sparse(self, scores: Tensor) -> Tensor:
        if scores.shape[1] <= self.top:
            return scores
        threshold = scores.topk(self.top, dim=1).values[:, -1:] + kernels.MARGIN
        above = (scores - threshold).clamp(min=0)
        return above / (above.sum(dim=1, keepdim=True) + kernels.MARGIN)


class CompiledBacktracking(torch.autograd.Function):  # type: ignore[misc]
    """(W x + b, recurrent weights, w, every, top, truncation) -> outputs; first derivatives only."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        driven, recurrent, score, every, top, truncation = arguments
        (batch, time, gates), places = driven.shape, 1 + driven.shape[1] // every
        out, keys = driven.new_empty(batch, time, gates // 2), driven.new_zeros(batch, places)
        opened, cells = torch.empty_like(driven), driven.new_empty(batch, time, gates // 4)
        weights, totals = driven.new_zeros(batch, time, places), driven.new_empty(batch, time)
        edges = torch.empty(batch, time, dtype=torch.int32)
        given = [*numpy_arrays(driven, panels(recurrent.T), score), every, top]
        filled = numpy_arrays(out, opened, cells, keys, weights, edges, totals)
        share_batch([kernels.backtracking_forward, *given, *filled], batch)
        ctx.save_for_backward(recurrent, score, out, opened, cells, weights, edges, totals)
        ctx.every, ctx.truncation = every, truncation
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        recurrent, score, out, *kept = ctx.saved_tensors
        d_out = d_out.clone(memory_format=torch.contiguous_format)
        d_driven, d_score = torch.empty_like(kept[0]), out.new_zeros(out.shape[0], out.shape[2])
        given = [*numpy_arrays(panels(recurrent), score), ctx.every, ctx.truncation]
        filled = numpy_arrays(out, *kept, d_out, d_driven, d_score)
        share_batch([kernels.backtracking_backward, *given, *filled], out.shape[0])
        before = F.pad(out[..., : recurrent.shape[1]], (0, 0, 1, -1)).flatten(0, 1)  # h_0 = 0, h_1, ..
        return d_driven, d_driven.flatten(0, 1).T @ before, d_score.sum(0), None, None, None


class SAB(AttendingModel):
    """SAB of Ke et al. (2018), as released: an LSTM that attends to the best of every second of its past states.

    State: h, c and every stored state; it grows with the length. embedding: tokens are unit vectors, or have a trained
    embedding of this size. Other options: see `BacktrackingLayer`; every, top, truncation as released.
    """

    variants = ({}, {"top": 4, "every": 1, "truncation": 3}, {"aligned": True, "top": 3})

    def __init__(
        self,
        vocabulary: int,
        width: int,
        depth: int = 1,
        *,
        embedding: int | None = None,
        every: int = 2,
        top: int = 10,
        truncation: int = 10,
        aligned: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        def make(inputs: int) -> Module:
            return BacktrackingLayer(inputs, width, every=every, top=top, truncation=truncation, aligned=aligned)

        super().__init__(vocabulary, width, depth, make, embedding, seed, parts=2)
