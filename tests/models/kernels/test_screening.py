"""The compiled cell that screens its memories, and its steps in torch, against the rule written for one sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models.kernels.screening.attention_cpu import LARGEST_DOUBLE, LARGEST_SINGLE
from lib.models.kernels.screening.cell import (
    NEVER,
    Rule,
    Screened,
    ScreeningState,
    Weights,
    initial_state,
    restarted,
    screening,
    screening_step,
    stepped,
)
from lib.models.kernels.screening.cell_cpu import PIECE

GATES = {"tanh": 1, "modrelu": 1, "lstm": 4}
MEAN = {"own": 0.5, "other": 0.5}


class Problem(NamedTuple):
    driven: Tensor
    weights: Weights
    nudge: Tensor

    @property
    def leaves(self) -> list[Tensor]:
        return [y for y in (self.driven, *self.weights, self.nudge) if y is not None]


def problem(
    cell: str = "tanh",
    n: int = 5,
    batch: int = 2,
    time: int = 60,
    seed: int = 0,
    dtype: Any = torch.float64,
    **other: Any,
) -> Problem:
    """Random numbers; `scale` of the alignment, `attends` whether there is one."""
    random, scale = np.random.default_rng(seed), other.get("scale", 2.0)

    def draw(*shape: int, by: float = 1.0) -> Tensor:
        return torch.from_numpy(by * random.standard_normal(shape)).to(dtype).requires_grad_()

    recurrent = draw(GATES[cell] * n, n, by=0.7 * n**-0.5)
    aligned = [draw(n, n, by=n**-0.5), draw(n, n, by=n**-0.5), draw(n, by=scale)] if other.get("attends", True) else []
    threshold = draw(n, by=0.3) if cell == "modrelu" else None
    weights = Weights(recurrent, *aligned)._replace(threshold=threshold)
    return Problem(draw(batch, time, GATES[cell] * n), weights, draw(batch, time, n, by=0.1))


class Course(NamedTuple):
    """What one sequence did: rows are times."""

    hidden: list[Tensor]
    mixed: list[Tensor]  # s
    alpha: list[dict[int, Tensor]]  # by the time attended to
    relevant: list[list[int]]  # -1 for a free place
    scores: list[Tensor]  # all that were added up


def course(
    driven: Tensor,
    nudge: Tensor,
    weights: Weights,
    rule: Rule,
    *,
    ties: bool = False,
    longer: int = 0,
    after_entry: bool = False,
    attached: bool = False,
    empty: bool = False,
) -> Course:
    """Section by section the rule of the authors' code, for one sequence; each option is a mistake."""
    V, W, U, v, threshold = weights
    n, nu = V.shape[1], None if rule.buffer is None else rule.buffer + longer
    s, c = torch.zeros(n, dtype=V.dtype), torch.zeros(n, dtype=V.dtype)
    h: list[Tensor] = []
    S: list[int] = []
    R: list[int | None] = [None] * rule.relevant
    beta: dict[int, Tensor] = {}
    found = Course([], [], [], [], [])
    for t in range(len(driven)):
        z = V @ s + driven[t]
        if rule.cell == "lstm":
            i, f, g, o = z.view(4, n)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            new = torch.sigmoid(o) * torch.tanh(c)
        elif rule.cell == "modrelu":
            assert threshold is not None
            new = torch.sign(z) * torch.clamp(torch.abs(z) + threshold, min=0)
        else:
            new = torch.tanh(z)
        h.append(new + nudge[t])
        S.append(t)  # 1. the new state enters, and the oldest may leave
        if nu is not None and len(S) == nu + 1:
            leaving = S.pop(0)
            if None in R:
                R[R.index(None)] = leaving
            elif R:
                smallest = min(range(len(R)), key=lambda place: float(beta[R[place]].detach()))  # type: ignore[index]
                kept = float(beta[R[smallest]].detach())  # type: ignore[index]
                if float(beta[leaving].detach()) > kept or (ties and float(beta[leaving].detach()) == kept):
                    R[smallest] = leaving
        times = S + [i for i in R if i is not None]  # 2. one softmax over both
        assert W is not None and U is not None and v is not None
        e = torch.stack([v @ torch.tanh(W @ s + U @ h[i]) for i in times])
        if empty:
            e = torch.cat([e, e.new_zeros(R.count(None) + (0 if nu is None else nu - len(S)))])
        alpha = torch.softmax(e, 0)
        context = sum((alpha[k] * h[i] for k, i in enumerate(times)), torch.zeros(n, dtype=V.dtype))
        s = rule.own * h[t] + rule.other * context
        for k, i in enumerate(times):  # 3. scores of the buffer
            if k < len(S) or after_entry:
                beta[i] = beta.get(i, torch.zeros((), dtype=V.dtype)) + (alpha[k] if attached else alpha[k].detach())
        found.hidden.append(h[t])
        found.mixed.append(s)
        found.alpha.append(dict(zip(times, alpha, strict=False)))
        found.relevant.append([-1 if i is None else i for i in R])
    found.scores.extend(beta.values())
    return found


def by_time(found: Screened, rule: Rule, b: int, t: int) -> dict[int, float]:
    """alpha of one sequence at one time, by the time attended to; the buffer's places are counted here, not there."""
    places = found.weights.shape[2] - rule.relevant
    held = {i % (rule.buffer or len(found.hidden[b])): i for i in range(t + 1)}  # later ones overwrite earlier ones
    times = [held.get(place, -1) for place in range(places)] + found.relevant[b, t].tolist()
    return {i: float(w) for i, w in zip(times, found.weights[b, t], strict=True) if i >= 0}


def gradients(hidden: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    weights = torch.from_numpy(np.random.default_rng(9).standard_normal(hidden.shape)).to(hidden.dtype)
    return list(torch.autograd.grad((hidden * weights).sum(), leaves, materialize_grads=True))


def differences(given: Problem, rule: Rule, **mistakes: Any) -> dict[str, float]:
    """Largest ones between the compiled loop, the steps, and the written rule: values, sets, and gradients by share."""
    courses = [course(d, u, given.weights, rule, **mistakes) for d, u in zip(given.driven, given.nudge, strict=True)]
    found = screening(given.driven, given.weights, rule, nudge=given.nudge, trace=True)
    hidden = torch.stack([torch.stack(one.hidden) for one in courses])
    state, mixed = initial_state(len(courses), given.weights, rule), []
    for t in range(given.driven.shape[1]):
        state = screening_step(given.driven[:, t], state, given.weights, rule, nudge=given.nudge[:, t]).state
        mixed.append(state.hidden)
    alpha, sets = 0.0, 0.0
    for b, one in enumerate(courses):
        for t, expected in enumerate(one.alpha):
            seen = by_time(found, rule, b, t)
            alpha = max(
                [alpha]
                + [
                    abs(seen.get(i, 0) - float(torch.as_tensor(expected.get(i, 0)).detach()))
                    for i in {*seen, *expected}
                ]
            )
            sets += one.relevant[t] != found.relevant[b, t].tolist()
    pairs = zip(gradients(found.hidden, given.leaves), gradients(hidden, given.leaves), strict=True)
    return {
        "h": float((found.hidden - hidden).detach().abs().max()),
        "s": float(
            (torch.stack(mixed, 1) - torch.stack([torch.stack(one.mixed) for one in courses])).detach().abs().max()
        ),
        "alpha": alpha,
        "sets": sets,
        "gradients": max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in pairs),
    }


def agree(found: dict[str, float]) -> bool:
    return found["sets"] == 0 and all(value < 1e-10 for value in found.values())


@pytest.mark.parametrize("buffer", [1, 4, 10])
@pytest.mark.parametrize("relevant", [0, 1, 3, 10])
def test_values_sets_and_gradients_are_those_of_the_rule(buffer: int, relevant: int) -> None:
    found = differences(problem(seed=buffer), Rule("tanh", buffer, relevant, **MEAN))
    assert agree(found), found


@pytest.mark.parametrize(
    ("cell", "rule", "time"),
    [
        ("modrelu", {"buffer": 4, "relevant": 3}, 40),
        ("lstm", {"buffer": 4, "relevant": 3}, 40),
        ("lstm", {"buffer": None}, 30),
        ("tanh", {"buffer": None}, 30),
        ("tanh", {"buffer": 4, "relevant": 3}, 1),
        ("tanh", {"buffer": 12, "relevant": 10}, 7),
        ("tanh", {"buffer": 7, "relevant": 2}, 7),
    ],
)
def test_other_cells_all_states_and_memories_longer_than_the_sequence(cell: str, rule: Any, time: int) -> None:
    found = differences(problem(cell, time=time), Rule(cell, **rule, own=1.0, other=0.7 if cell == "tanh" else 0.1))
    assert agree(found), found


def test_equal_scores_leave_the_older_memory_where_it_is() -> None:
    """States rise so fast that each takes all the weight at its own time: a buffer of one gives all the score 1."""
    given = problem(time=12)
    weights = Weights(*(0 * w for w in given.weights[:2]), torch.eye(5).double(), torch.full((5,), 1e6).double())
    rising = Problem(0 * given.driven, weights, 0 * given.nudge + 0.01 * torch.arange(12.0).double()[:, None])
    rising = Problem(*(y.detach().requires_grad_() if torch.is_tensor(y) else y for y in rising))
    weights = Weights(*(None if w is None else w.detach().requires_grad_() for w in weights))
    rising, rule = rising._replace(weights=weights), Rule("tanh", 1, 3, **MEAN)
    assert agree(differences(rising, rule))
    assert differences(rising, rule, ties=True)["sets"] > 0


@pytest.mark.parametrize("mistake", [{"longer": 1}, {"after_entry": True}, {"empty": True}])
def test_mistakes_in_the_rule_are_found(mistake: dict[str, Any]) -> None:
    assert not agree(differences(problem(seed=4), Rule("tanh", 4, 3, **MEAN), **mistake))


def test_no_gradient_goes_through_scores() -> None:
    given, rule = problem(time=12), Rule("tanh", 2, 3, **MEAN)

    def carries(scores: list[Tensor]) -> bool:
        return any(score.requires_grad for score in scores)

    state = initial_state(2, given.weights, rule)
    for driven in given.driven.unbind(1):
        state = screening_step(driven, state, given.weights, rule).state
    assert state.relevant.requires_grad and not carries([state.scores, state.frozen])
    assert not carries(course(given.driven[0], given.nudge[0], given.weights, rule).scores)
    assert carries(course(given.driven[0], given.nudge[0], given.weights, rule, attached=True).scores)


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("rule", [{}, {"buffer": None, **MEAN}, {"buffer": 2, "relevant": 2, **MEAN}])
def test_gradients_are_those_of_small_differences(cell: str, rule: dict[str, Any]) -> None:
    given = problem(cell, n=3, batch=2, time=6, attends=bool(rule), seed=3)

    def run(*leaves: Tensor) -> Tensor:
        rest = list(leaves)
        driven, nudge = rest.pop(0), rest.pop()
        weights = Weights(*(None if y is None else rest.pop(0) for y in given.weights))
        return screening(driven, weights, Rule(cell, **rule), nudge=nudge).hidden

    assert torch.autograd.gradcheck(run, given.leaves)


def test_modrelu_is_flat_where_it_is_zero() -> None:
    driven = torch.tensor([[[0.5, -0.5, 0.1, -0.1, 0.2, 0.0]]], dtype=torch.float64, requires_grad=True)
    threshold = torch.tensor([-0.2, -0.2, -0.2, -0.2, -0.2, 0.3], dtype=torch.float64, requires_grad=True)
    weights = Weights(torch.zeros(6, 6, dtype=torch.float64), threshold=threshold)
    for way in (screening, stepped):
        h = way(driven, weights, Rule("modrelu")).hidden
        np.testing.assert_allclose(h[0, 0].tolist(), [0.3, -0.3, 0, 0, 0, 0], rtol=0, atol=1e-15)
        by_sum, by_threshold = torch.autograd.grad(h.sum(), [driven, threshold])
        assert by_sum[0, 0].tolist() == [1, 1, 0, 0, 0, 0]  # |z| + b = 0 and z = 0 are flat too
        assert by_threshold.tolist() == [1, -1, 0, 0, 0, 0]


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float32, LARGEST_SINGLE), (torch.float64, LARGEST_DOUBLE)])
def test_alignments_beyond_the_range_of_exponentials_are_those_of_tanh(dtype: Any, largest: float) -> None:
    given, rule = problem(n=4, time=20, dtype=dtype), Rule("tanh", 3, 2, **MEAN)
    weights = given.weights._replace(query=-given.weights.key * 8 * largest, key=given.weights.key * 8 * largest)
    given = given._replace(weights=weights)
    found, expected = (way(given.driven, weights, rule, nudge=given.nudge) for way in (screening, stepped))
    torch.testing.assert_close(found.hidden, expected.hidden, rtol=0, atol=1e-4 if dtype == torch.float32 else 1e-10)
    keys = (expected.hidden @ weights.key.T).detach()
    clipped = keys.clamp(-largest, largest)  # here clipping would have changed the alignments
    changes = torch.tanh(keys[:, 1:] - keys[:, :-1]) - torch.tanh(clipped[:, 1:] - clipped[:, :-1])
    assert float(changes.abs().max()) > 0.5


def test_single_precision_is_close_to_double() -> None:
    given, rule = problem(n=16, batch=3, time=40, dtype=torch.float32), Rule("tanh", 4, 3, **MEAN)
    double = Problem(*(y.detach().double().requires_grad_() if torch.is_tensor(y) else
                       Weights(*(None if w is None else w.detach().double().requires_grad_() for w in y))
                       for y in given))  # fmt: skip
    single = screening(given.driven, given.weights, rule, nudge=given.nudge, trace=True)
    exact = stepped(double.driven, double.weights, rule, nudge=double.nudge)
    assert torch.equal(single.relevant.long(), exact.relevant)
    assert float((single.hidden.double() - exact.hidden).detach().abs().max()) < 1e-5
    for one, other in zip(gradients(single.hidden, given.leaves), gradients(exact.hidden, double.leaves), strict=True):
        assert float((one.double() - other).abs().max() / other.abs().max()) < 1e-4


def test_a_sequence_does_not_depend_on_the_others_of_its_batch() -> None:
    batch = 2 * PIECE + 5
    given, rule = problem("lstm", batch=batch, time=15), Rule("lstm", 3, 2, **MEAN)
    together = screening(given.driven, given.weights, rule, trace=True)
    for b in (0, PIECE, batch - 1):
        alone = screening(given.driven[b : b + 1], given.weights, rule, trace=True)
        for part, whole in zip(alone, together, strict=True):
            torch.testing.assert_close(part[0], whole[b], rtol=0, atol=1e-13)


def test_priorities_take_the_place_of_scores() -> None:
    given, rule = problem(time=12), Rule("tanh", 2, 3, **MEAN)
    priorities = torch.full((2, 12), NEVER, dtype=torch.float64)
    priorities[0, [1, 4, 6, 8]] = torch.tensor([3.0, 1.0, 2.0, 1.0], dtype=torch.float64)  # the last one is no larger
    priorities[1] = 1.0
    for way in (screening, stepped):
        found = way(given.driven, given.weights, rule, priorities=priorities)
        assert found.relevant[0, -1].tolist() == [1, 4, 6]
        assert found.relevant[1, -1].tolist() == [0, 1, 2]
    priorities[0, 8] = 1.5
    found = screening(given.driven, given.weights, rule, priorities=priorities)
    assert found.relevant[0, -1].tolist() == [1, 8, 6] == stepped(
        given.driven, given.weights, rule, priorities=priorities).relevant[0, -1].tolist()  # fmt: skip


@pytest.mark.parametrize("cell", GATES)
def test_zeros_added_to_h_get_its_whole_gradient(cell: str) -> None:
    given, rule, total = problem(cell, time=9), Rule(cell, 2, 2, **MEAN), []
    state = initial_state(2, given.weights, rule)
    for driven in given.driven.unbind(1):
        hidden, state, *_ = screening_step(driven, state, given.weights, rule)
        hidden.retain_grad()
        total.append(hidden)
    total[-1].square().sum().backward()
    zeros = torch.zeros_like(given.nudge, requires_grad=True)
    last = screening(given.driven, given.weights, rule, nudge=zeros).hidden[:, -1]
    (found,) = torch.autograd.grad(last.square().sum(), [zeros])
    for t, hidden in enumerate(total):
        assert hidden.grad is not None and hidden.grad.abs().max() > 0
        torch.testing.assert_close(found[:, t], hidden.grad, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("buffer", [None, 2])
def test_a_sequence_that_starts_anew_remembers_nothing(buffer: int | None) -> None:
    given, rule = problem(time=14), Rule("tanh", buffer, 0 if buffer is None else 3, **MEAN)

    def run(state: ScreeningState, driven: Tensor) -> tuple[ScreeningState, Tensor]:
        hidden = []
        for one in driven.unbind(1):
            h, state, *_ = screening_step(one, state, given.weights, rule)
            hidden.append(h)
        return state, torch.stack(hidden, 1)

    with torch.no_grad():
        start = initial_state(2, given.weights, rule)
        before, _ = run(start, given.driven[:, :5])
        _, on = run(before, given.driven[:, 5:])
        _, anew = run(restarted(before, torch.tensor([True, False])), given.driven[:, 5:])
        _, fresh = run(start, given.driven[:, 5:])
    torch.testing.assert_close(anew[0], fresh[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(anew[1], on[1], rtol=0, atol=0)
    assert float((on[0] - fresh[0]).abs().max()) > 1e-3


def test_what_is_kept_for_gradients_is_kept_only_for_them() -> None:
    given, rule = problem(time=12), Rule("tanh", None, **MEAN)
    with torch.no_grad():
        assert screening(given.driven, given.weights, rule).weights.shape == (2, 1, 12)
        assert screening(given.driven, given.weights, rule, trace=True).weights.shape == (2, 12, 12)
    assert screening(given.driven, given.weights, rule).weights.shape == (2, 12, 12)


def test_second_derivatives_are_refused_and_what_is_no_number_stays_none() -> None:
    given, rule = problem(time=6), Rule("tanh", 2, 1, **MEAN)
    hidden = screening(given.driven, given.weights, rule).hidden
    with pytest.raises(RuntimeError, match="first derivatives"):
        torch.autograd.grad(hidden.sum(), given.driven, create_graph=True)
    with torch.no_grad():
        given.driven[0, 2, 0] = torch.nan
        found = screening(given.driven, given.weights, rule).hidden
    assert found[0, :2].isfinite().all() and found[0, 3:].isnan().all() and found[1].isfinite().all()


def test_a_gated_cell_has_no_steps_here() -> None:
    given = problem("modrelu", attends=False)
    with pytest.raises(ValueError, match="GatedOrthogonalLayer"):
        stepped(given.driven, given.weights, Rule("gated"))
