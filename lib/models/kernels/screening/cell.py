"""A recurrent cell that attends to its last states and to a few screened ones (Kerg et al. 2020, App. C and D).

    h_t = cell(V s_{t-1} + driven_t),   s_t = own h_t + other c_t,   c_t = sum_i alpha_{i,t} h_i,
    alpha = softmax over the states attended to, h_t among them, of v . tanh(W_a s_{t-1} + U_a h_i),

with s_0 = 0 and s_t = h_t without attention. At time t, h_t enters the buffer. The state that leaves a full one becomes
relevant if a place is free, the first one, or if its score is strictly above the smallest score of a relevant state,
the first of several, whose place it takes; else it is dropped. Then c_t is formed, and every state in the buffer adds
its weight to its score, which stays as it is from when the state leaves. No gradient goes through scores and choices.
One loop over time, compiled on the CPU, the steps of torch elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.kernels.lanes import LANES
from lib.models.kernels.screening import cell_cpu as kernels
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives, share

CELLS = {"tanh": kernels.TANH, "modrelu": kernels.MODRELU, "lstm": kernels.LSTM, "gated": kernels.GATED}
# Scores are at least 0. Below it are marks: of a state that is never to be relevant, and in empty places.
NEVER, NO_RELEVANT, NO_BUFFERED = -1.0, -1.0, -2.0


class Rule(NamedTuple):
    """What is computed, numbers aside."""

    cell: str  # "tanh", "modrelu", "lstm", or "gated" as in `GatedOrthogonalLayer`, which has no steps here
    buffer: int | None = 0  # states of the buffer; None for all there are, 0 for no attention
    relevant: int = 0  # states kept beyond them
    own: float = 1.0  # share of h_t in s_t
    other: float = 0.0  # share of c_t


class Weights(NamedTuple):
    recurrent: Tensor  # V, (gates n, n); gates of an LSTM in order i, f, g, o; W_r, W_g and Q of a gated cell
    query: Tensor | None = None  # W_a, (n, n)
    key: Tensor | None = None  # U_a, (n, n)
    score: Tensor | None = None  # v, (n,)
    threshold: Tensor | None = None  # b of modReLU, sign(z) max(0, |z| + b), (n,)


class ScreeningState(NamedTuple):
    """All that later output depends on."""

    hidden: Tensor  # s, (batch, n)
    cell: Tensor  # c of an LSTM, (batch, n), else (batch, 0)
    buffer: Tensor  # states, (batch, places, n): that of step t lies in place t mod `Rule.buffer`
    buffer_keys: Tensor  # U_a times each
    scores: Tensor  # (batch, places)
    relevant: Tensor  # states, (batch, `Rule.relevant`, n)
    relevant_keys: Tensor  # U_a times each
    frozen: Tensor  # their scores, (batch, `Rule.relevant`)
    steps: int  # done so far


class Step(NamedTuple):
    hidden: Tensor  # h_t, (batch, n)
    state: ScreeningState
    weights: Tensor  # alpha, (batch, places of the buffer and of the relevant set)
    enters: Tensor  # which relevant place the state that left the buffer has taken, (batch, `Rule.relevant`)


class Screened(NamedTuple):
    hidden: Tensor  # h, (batch, time, n)
    relevant: Tensor  # 0-based times in the relevant set, -1 in an empty place, (batch, time, `Rule.relevant`)
    weights: Tensor  # alpha of the buffer, of no more places than times, and of the set, (batch, time, both)


def screening(
    driven: Tensor,
    weights: Weights,
    rule: Rule,
    *,
    priorities: Tensor | None = None,
    nudge: Tensor | None = None,
    trace: bool = False,
) -> Screened:
    """All states of sequences, from driven = U x + b, (batch, time, gates n).

    priorities: (batch, time), in the place of the scores: numbers at least 0, or `NEVER`. nudge: (batch, time, n),
    added to h; zeros there get the whole gradient of the loss by h_t. trace: whether times and weights are needed; they
    have one time if they are not, and no gradient is asked for.

    The compiled loop has first derivatives only. With k states attended to at a time it costs O(batch time n (n + k))
    and keeps O(batch time (n + k)) numbers for the gradients; k is the number of times for a buffer without end. The
    steps of torch keep O(batch time n k).
    """
    given = [driven, *weights, priorities, nudge]
    tensors = [y for y in given if y is not None]
    alike = all(y.device.type == "cpu" and y.dtype == driven.dtype for y in tensors)
    if alike and driven.dtype in (torch.float32, torch.float64):
        keep = trace or (torch.is_grad_enabled() and any(y.requires_grad for y in tensors))
        return Screened(*CompiledScreening.apply(*given, rule, keep))
    return stepped(driven, weights, rule, priorities=priorities, nudge=nudge)


def stepped(
    driven: Tensor, weights: Weights, rule: Rule, *, priorities: Tensor | None = None, nudge: Tensor | None = None
) -> Screened:
    """The same, step by step with torch's operations, on any device."""
    batch, time, _ = driven.shape
    state = initial_state(batch, weights, rule)
    times = torch.full((batch, rule.relevant), -1, device=driven.device)
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    for t in range(time):
        priority = None if priorities is None else priorities[:, t]
        found = screening_step(driven[:, t], state, weights, rule, priority, None if nudge is None else nudge[:, t])
        state = found.state
        if rule.buffer is not None:
            times = torch.where(found.enters, t - rule.buffer, times)
        buffered, chosen = found.weights.split([found.weights.shape[1] - rule.relevant, rule.relevant], dim=1)
        size = 0 if rule.buffer == 0 else min(time, time if rule.buffer is None else rule.buffer)
        buffered = F.pad(buffered, (0, size - buffered.shape[1]))
        rows.append((found.hidden, times, torch.cat([buffered, chosen], dim=1).detach()))
    return Screened(*(torch.stack(row, dim=1) for row in zip(*rows, strict=True)))


def initial_state(batch: int, weights: Weights, rule: Rule) -> ScreeningState:
    """The state before the first step."""
    like, n, places = weights.recurrent, weights.recurrent.shape[1], rule.buffer or 0
    buffer, relevant = like.new_zeros(batch, places, n), like.new_zeros(batch, rule.relevant, n)
    return ScreeningState(
        like.new_zeros(batch, n),
        like.new_zeros(batch, n if rule.cell == "lstm" else 0),
        buffer,
        buffer,
        like.new_full((batch, places), NO_BUFFERED),
        relevant,
        relevant,
        like.new_full((batch, rule.relevant), NO_RELEVANT),
        0,
    )


def restarted(state: ScreeningState, rows: Tensor) -> ScreeningState:
    """The state in which the sequences `rows`, (batch,) of bool, have read nothing yet.

    `steps`, that of all sequences, goes on: what follows is that of a fresh start unless priorities depend on it.
    """
    some = rows[:, None]
    return state._replace(
        hidden=state.hidden.masked_fill(some, 0.0),
        cell=state.cell.masked_fill(some, 0.0),
        scores=state.scores.masked_fill(some, NO_BUFFERED),
        frozen=state.frozen.masked_fill(some, NO_RELEVANT),
    )


def screening_step(
    driven: Tensor,
    state: ScreeningState,
    weights: Weights,
    rule: Rule,
    priority: Tensor | None = None,
    nudge: Tensor | None = None,
) -> Step:
    """One step: driven (batch, gates n), priority (batch,), nudge (batch, n)."""
    hidden, cell = _cell(driven + state.hidden @ weights.recurrent.T, state.cell, weights, rule)
    hidden = hidden if nudge is None else hidden + nudge
    if weights.query is None or weights.key is None or weights.score is None:
        after = state._replace(hidden=hidden, cell=cell, steps=state.steps + 1)
        return Step(hidden, after, state.scores, state.frozen > 0)
    relevant, relevant_keys, frozen, enters = _offer(state, rule)
    key, score = hidden @ weights.key.T, state.hidden.new_zeros(hidden.shape[0]) if priority is None else priority
    place = state.steps if rule.buffer is None else state.steps % rule.buffer
    buffer, keys = _put(state.buffer, hidden, place), _put(state.buffer_keys, key, place)
    scores = _put(state.scores, score, place)
    empty = torch.cat([scores <= NO_BUFFERED, frozen <= NO_RELEVANT], dim=1)
    query = (state.hidden @ weights.query.T)[:, None]
    e = (torch.tanh(query + torch.cat([keys, relevant_keys], dim=1)) @ weights.score[:, None])[..., 0]
    alpha = torch.softmax(e.masked_fill(empty, -torch.inf), dim=1)
    context = (alpha[:, None] @ torch.cat([buffer, relevant], dim=1))[:, 0]
    if priority is None:
        scores = scores + alpha[:, : scores.shape[1]].detach()
    mixed = rule.own * hidden + rule.other * context
    after = ScreeningState(mixed, cell, buffer, keys, scores, relevant, relevant_keys, frozen, state.steps + 1)
    return Step(hidden, after, alpha, enters)


def _cell(sums: Tensor, cell: Tensor, weights: Weights, rule: Rule) -> tuple[Tensor, Tensor]:
    if rule.cell == "gated":
        raise ValueError("a gated cell has no steps here: those of GatedOrthogonalLayer are meant")
    if rule.cell == "lstm":
        i, f, g, o = sums.chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell
    if weights.threshold is not None:
        return sums.sign() * F.relu(sums.abs() + weights.threshold), cell
    return sums.tanh(), cell


def _offer(state: ScreeningState, rule: Rule) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The relevant states, their keys and scores after one has left the buffer, and the place that it has taken."""
    relevant = state.relevant, state.relevant_keys, state.frozen
    if rule.buffer is None or rule.relevant == 0:
        return *relevant, state.frozen > 0
    place = state.steps % rule.buffer
    least, first = state.frozen.min(dim=1, keepdim=True)
    leaving = state.scores[:, place, None]
    enters = (torch.arange(rule.relevant, device=first.device) == first) & (leaving > least)
    leaves = state.buffer[:, place, None], state.buffer_keys[:, place, None]
    states, keys = (torch.where(enters[..., None], new, old) for new, old in zip(leaves, relevant[:2], strict=True))
    return states, keys, torch.where(enters, leaving, state.frozen), enters


def _put(places: Tensor, new: Tensor, place: int) -> Tensor:
    """With a new entry in a place, or one place more."""
    return torch.cat([places[:, :place], new[:, None], places[:, place + 1 :]], dim=1)


class CompiledScreening(torch.autograd.Function):  # type: ignore[misc]
    """(driven, the five weights, priorities, nudge, rule, keep) -> what `Screened` holds; keep: for all times."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        driven, recurrent, query, key, score, threshold, priorities, nudge, rule, keep = arguments
        (batch, time, _), n = driven.shape, recurrent.shape[1]
        size = 0 if query is None else time if rule.buffer is None else min(rule.buffer, time)
        times, wide = time if keep else 1, 0 if query is None else n
        gated = (times, 4 * n, n) if rule.cell in ("lstm", "gated") else (1, 0, 0)
        out, states = driven.new_empty(batch, time, n), driven.new_empty(batch, times, wide)
        gates, cells = driven.new_empty(batch, gated[0], gated[1]), driven.new_empty(batch, gated[0], gated[2])
        queries, keys = driven.new_empty(batch, times, wide), driven.new_empty(batch, time, wide)
        weights = driven.new_empty(batch, times, size + rule.relevant)
        relevant = torch.empty(batch, times, rule.relevant, dtype=torch.int32)
        filled = [out, states, gates, cells, queries, keys, weights, relevant]
        stack = _stack(recurrent, query)
        given = [driven, *(panels(y.T) if y is not None else driven.new_empty(0, 0) for y in (stack, key))]
        given += [_or_empty(y, driven, axes) for y, axes in ((score, 1), (threshold, 1), (nudge, 3), (priorities, 2))]
        call = [kernels.screening_forward, *numpy_arrays(*given), *_settings(rule, size), *numpy_arrays(*filled)]
        share_batch(call, batch)
        saved = [recurrent, query, key, score, threshold, nudge, out, *filled[1:]]
        ctx.save_for_backward(*saved)
        ctx.rule, ctx.size = rule, size
        ctx.mark_non_differentiable(relevant, weights)
        return out, relevant, weights

    @staticmethod
    def backward(ctx: Any, d_hidden: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        recurrent, query, key, score, threshold, nudge, *filled = ctx.saved_tensors
        out, states, gates, cells, queries, keys, weights, times = filled
        (batch, _, n), gated = out.shape, ctx.rule.cell == "gated"
        d_out = d_hidden.clone(memory_format=torch.contiguous_format)
        d_driven = out.new_empty(*out.shape[:2], recurrent.shape[0])
        d_queries, d_keys = torch.zeros_like(queries), torch.zeros_like(keys)
        d_score, d_threshold = out.new_zeros(batch, n), out.new_zeros(batch, n)
        stack = _stack(recurrent, query)
        given = [*(panels(y) if y is not None else out.new_empty(0, 0) for y in (stack, key))]
        given += [_or_empty(y, out, axes) for y, axes in ((score, 1), (threshold, 1), (nudge, 3))]
        kept = [out, gates, cells, queries, keys, weights, times]
        blanks = [d_out, d_driven, d_queries, d_keys, d_score, d_threshold]
        call = [kernels.screening_backward, *numpy_arrays(*given), *_settings(ctx.rule, ctx.size)]
        share_batch([*call, *numpy_arrays(*kept, *blanks)], batch)
        before = F.pad(out if query is None else states, (0, 0, 1, -1)).flatten(0, 1)  # s_0 = 0, s_1, ..
        d_sums = torch.cat([d_driven[..., : 2 * n], d_driven[..., 2 * n :] * gates[..., :n]], 2) if gated else d_driven
        found: list[Tensor | None] = [d_driven, d_sums.flatten(0, 1).T @ before, None, None, None, None]
        if query is not None:
            found[2] = d_queries.flatten(0, 1).T @ before
            found[3] = d_keys.flatten(0, 1).T @ out.flatten(0, 1)
            found[4] = d_score.sum(0)
        if threshold is not None:
            found[5] = d_threshold.sum(0)
        return *found, None, None if nudge is None else d_out, None, None


def _settings(rule: Rule, size: int) -> list[Any]:
    return [CELLS[rule.cell], rule.own, rule.other, size]


def _stack(recurrent: Tensor, query: Tensor | None) -> Tensor:
    """V and, from the next whole panel on, W_a below it."""
    recurrent = recurrent.detach()
    if query is None:
        return recurrent
    return torch.cat([F.pad(recurrent, (0, 0, 0, -recurrent.shape[0] % LANES)), query.detach()])


def panels(matrix: Tensor) -> Tensor:
    """The columns of a matrix in panels of `LANES`, with an even number of rows: (panels, rows x LANES)."""
    rows, columns = matrix.shape
    padded = F.pad(matrix.detach(), (0, -columns % LANES, 0, rows % 2))
    return padded.unflatten(1, (-1, LANES)).transpose(0, 1).flatten(1)


def _or_empty(tensor: Tensor | None, like: Tensor, axes: int) -> Tensor:
    return like.new_empty(*[1] * (axes - 1), 0) if tensor is None else tensor


def share_batch(call: list[Any], batch: int) -> None:
    """Call a kernel, the first of the list, with its arguments for every piece of a batch."""
    kernel, *arguments = call
    largest = max(argument.size for argument in arguments if hasattr(argument, "size"))
    share(kernel, arguments, -(-batch // kernels.PIECE), batch * largest)
