"""Which states a trained network attends to, and whether the gradient is that of paths through them (Remark 6).

Kerg et al. call a state relevant if its weight stays away from 0 at most later steps, and not relevant if its weight is
about 0 at almost all of them. Here weights are compared with uniform ones, one over the number of states attended to,
by the bounds below. Gradients are those of the recursion of Prop. 1 in float64, which is compared with that of the
network's own kernel.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lib.processes.discrete.recall import RecallTask
from lib.theory.gradients.network import alignment_gradient, gradients_by_glances, recurrent_gradient, total_gradients
from lib.theory.gradients.states import AttentiveStates, read_states

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]

AWAY, MOST = 0.5, 0.5  # relevant: at least half the uniform weight, at more than half of the later steps
ABOUT_ZERO, ALMOST_ALL = 0.1, 0.9  # not relevant: less than a tenth of it, at nine tenths of the later steps and more
GLANCES = 4  # counted one by one; paths with more are taken together
BINS = 10  # of the histogram


class Kinds(NamedTuple):
    """Which of the states 1 ... T - 1 of a sequence are relevant, and which are not; the others are neither."""

    relevant: NDArray[np.bool_]
    other: NDArray[np.bool_]


def readable(model: Any) -> bool:
    """Whether `relevance` can be asked of a model: one layer, s = (h + c) / 2 with attention, tanh."""
    rules: list[Any] = [getattr(layer, "rule", None) for layer in getattr(model, "layers", [])]
    if len(rules) != 1 or rules[0] is None:
        return False
    return bool((rules[0].cell, rules[0].own, rules[0].other) == ("tanh", 0.5, 0.5) and rules[0].buffer != 0)


def kinds(alpha: Floats) -> Kinds:
    """alpha: (T + 1, T + 1), alpha[i, t] the weight of h_i at time t from 1 on, as in `AttentiveStates`."""
    over = over_uniform(alpha)
    return Kinds(_share_of_later(over >= AWAY) > MOST, _share_of_later(over < ABOUT_ZERO) >= ALMOST_ALL)


def over_uniform(alpha: Floats) -> Floats:
    """Weights over those of uniform attention to as many states, of the same shape."""
    return np.asarray(alpha * (alpha > 0).sum(axis=0))


def _share_of_later(there: NDArray[np.bool_]) -> Floats:
    """For each of the states 1 ... T - 1, the share of the later steps t at which there[i, t]."""
    last = len(there) - 1
    later = np.arange(last + 1)[None, :] > np.arange(1, last)[:, None]
    return np.asarray((later & there[1:last]).sum(axis=1) / later.sum(axis=1))


def relevance(model: Any, task: RecallTask, inputs: Whole, targets: Whole) -> dict[str, Any]:
    """Means over sequences (n, length) of what an RNN with attention to all states, or to a screened set, has inside.

    relevant, other: shares of the states of either kind. away: histogram of the share of later steps at which a state
    has at least half the uniform weight, in tenths. without_other, without_small, without_random: gradient of all
    parameters if the weights of states that are not relevant are 0 at later steps, if all weights below a tenth of
    uniform are, and if those of as many states drawn at random are: [relative error, cosine]; None where no state is
    left out. by_glances: norms of the gradient by the states of the symbols, by how often paths to them go through
    attention (0 .. 4, and more), over that of the whole. difference: of theory and kernel, largest relative one.
    """
    plain = model.to("cpu").double().eval()
    random = np.random.default_rng([0, 0, 7])
    found: list[dict[str, Any]] = []
    for number, (row, wanted) in enumerate(zip(inputs, targets, strict=True)):
        states, by_hidden = read_network(plain, task, row, wanted)
        kind = kinds(states.alpha)
        none = np.zeros_like(by_hidden)
        split = gradients_by_glances(states, none, by_hidden, most=GLANCES + 1, rest=True).h
        symbols = task.symbol_times(row[None])[0] + 1
        whole = split.sum(axis=0)
        exact = _parameters(states, none, by_hidden)
        small = over_uniform(states.alpha) < ABOUT_ZERO
        drawn = random.permutation(len(kind.other))[: int(kind.other.sum())]
        found.append(
            {
                "relevant": kind.relevant.mean(),
                "other": kind.other.mean(),
                "away": _histogram(states.alpha),
                "without_other": _compared(
                    exact, states, none, by_hidden, _of_states(states, np.flatnonzero(kind.other))
                ),
                "without_small": _compared(exact, states, none, by_hidden, small),
                "without_random": _compared(exact, states, none, by_hidden, _of_states(states, drawn)),
                "by_glances": np.linalg.norm(split[:, symbols], axis=(1, 2)) / np.linalg.norm(whole[symbols]),
            }
        )
        if number < 4:  # the same for every sequence; a few show it
            found[-1]["difference"] = difference(plain, task, row, wanted, whole[1:])
    return {name: _mean([one[name] for one in found if name in one]) for name in found[0]}


def read_network(model: Any, task: RecallTask, row: Whole, targets: Whole) -> tuple[AttentiveStates, Floats]:
    """One sequence through the recursion of the theory, and dL/dh_t with all other states fixed, (length, width)."""
    (layer,) = model.layers
    tokens = torch.from_numpy(row[None])
    attended = None
    if layer.rule.buffer is not None:
        times = layer.attended(model._embed(tokens, 2))[0][0].numpy()  # (length, slots)
        attended = [sorted(int(time) + 1 for time in slots if time >= 0) for slots in times]
    named = {"V": layer.weight_hh, "U": layer.weight_ih, "b": layer.bias}
    named |= {"W_a": layer.weight_query, "U_a": layer.weight_key, "v_a": layer.weight_score}
    network = SimpleNamespace(**named, activation=layer.rule.cell, combination="mean", attended=attended)
    states = read_states(network, model._embed(tokens, 2)[0])
    hidden = torch.from_numpy(states.h[None, 1:]).requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(model, task, hidden, targets), hidden)
    return states, gradient[0].numpy()


def _loss(model: Any, task: RecallTask, hidden: torch.Tensor, targets: Whole) -> torch.Tensor:
    """Mean of -ln Q over the steps of recall of one sequence, from the outputs of its cell (1, length, width)."""
    scores = model.head(model.norm(hidden))[0, task.recall_steps, : task.classes]
    return F.cross_entropy(scores, torch.from_numpy(targets[task.recall_steps]))


def difference(model: Any, task: RecallTask, row: Whole, targets: Whole, expected: Floats) -> float:
    """Largest difference of dL/dh_t from that of the kernel's own backward pass, over the largest entry."""
    (layer,) = model.layers
    nudge = torch.zeros(1, *expected.shape, dtype=torch.float64, requires_grad=True)
    hidden = layer(model._embed(torch.from_numpy(row[None]), 2), nudge)
    (gradient,) = torch.autograd.grad(_loss(model, task, hidden, targets), nudge)
    return float(np.abs(gradient[0].numpy() - expected).max() / np.abs(expected).max())


def _parameters(states: AttentiveStates, none: Floats, by_hidden: Floats) -> Floats:
    """The gradient of all parameters of recurrence and alignment, one after the other."""
    totals = total_gradients(states, none, by_hidden)
    parts = recurrent_gradient(states, totals)
    parts |= {name: part.sum(axis=0) for name, part in alignment_gradient(states, totals).items()}
    return np.concatenate([part.ravel() for part in parts.values()])


def _compared(
    exact: Floats, states: AttentiveStates, none: Floats, by_hidden: Floats, gone: NDArray[np.bool_]
) -> Floats | None:
    """Relative error and cosine of the gradient with these weights taken as 0; None if there are none."""
    if not (gone & (states.alpha > 0)).any():
        return None
    found = _parameters(replace(states, alpha=np.where(gone, 0.0, states.alpha)), none, by_hidden)
    cosine = found @ exact / (np.linalg.norm(found) * np.linalg.norm(exact))
    return np.array([np.linalg.norm(found - exact) / np.linalg.norm(exact), cosine])


def _of_states(states: AttentiveStates, chosen: Whole) -> NDArray[np.bool_]:
    """The weights of these of the states 1 ... T - 1 at all later steps, as an array like alpha."""
    gone = np.zeros(states.alpha.shape, dtype=bool)
    gone[chosen + 1] = True
    return gone & (np.arange(states.time + 1)[None, :] > np.arange(states.time + 1)[:, None])


def _histogram(alpha: Floats) -> Floats:
    """Share of the states by the share of later steps at which their weight is away from 0, in BINS bins."""
    away = _share_of_later(over_uniform(alpha) >= AWAY)
    return np.asarray(np.histogram(away, bins=BINS, range=(0.0, 1.0))[0] / len(away))


def _mean(values: list[Any]) -> Any:
    """Mean over the sequences that have a number, as plain numbers; None where none has."""
    known = [value for value in values if value is not None]
    return np.mean(known, axis=0).tolist() if known else None
