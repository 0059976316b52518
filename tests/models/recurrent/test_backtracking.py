"""Sparse attentive backtracking against its rule written out for one sequence, and what that rule implies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.models.base import seeded
from lib.models.recurrent.backtracking import BacktrackingLayer

EPSILON = 1e-7


def layer_of(width: int = 6, scale: float = 50.0, **options: Any) -> BacktrackingLayer:
    with seeded(4):
        layer = BacktrackingLayer(3, width, **options).double()
    with torch.no_grad():
        layer.weight_score.mul_(scale)  # as released, scores differ by so little that rounding would show
        if layer.weight_query is not None:
            layer.weight_query.mul_(20)
    return layer


def inputs(batch: int = 2, time: int = 15) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((batch, time, 3)))


def course(layer: BacktrackingLayer, x: Tensor, *, softmax: bool = False, kept: int = 0) -> tuple[Tensor, list[Tensor]]:
    """Outputs and weights of one sequence; the options are mistakes: another weighting, and one more of the scores."""
    n, cell = layer.width, torch.nn.LSTMCell(3, layer.width).double()
    state = {"weight_ih": layer.lstm.weight_ih, "weight_hh": layer.lstm.weight_hh, "bias_ih": layer.lstm.bias,
             "bias_hh": torch.zeros_like(layer.lstm.bias)}  # fmt: skip
    h = c = torch.zeros(1, n, dtype=torch.float64)
    memory, outputs, weights = [h[0]], [], []
    for t, one in enumerate(x):
        if (t + 1) % layer.truncation == 0:
            h, c = h.detach(), c.detach()
        h, c = torch.func.functional_call(cell, state, (one[None], (h, c)))
        if layer.weight_query is None:
            e = torch.stack([layer.weight_score @ torch.tanh(torch.cat([h[0], m])) for m in memory])
        else:
            mixed = [torch.tanh(layer.weight_query @ h[0] + layer.weight_key @ m) for m in memory]
            e = torch.stack([layer.weight_score @ z for z in mixed])
        w = e
        if softmax:
            w = torch.softmax(e, 0)
        elif len(memory) > layer.top:
            threshold = sorted(e, key=float, reverse=True)[layer.top - 1 + kept] + EPSILON
            w = torch.clamp(e - threshold, min=0)
            w = w / (w.sum() + EPSILON)
        context = sum((a * m for a, m in zip(w, memory, strict=True)), torch.zeros(n, dtype=torch.float64))
        h = h + context
        if (t + 1) % layer.every == 0:
            memory.append(h[0])
        outputs.append(torch.cat([h[0], context]))
        weights.append(w)
    return torch.stack(outputs), weights


def alike(layer: BacktrackingLayer, x: Tensor, **mistakes: Any) -> bool:
    """Whether outputs and all gradients are those of the rule."""
    expected, found = torch.stack([course(layer, one, **mistakes)[0] for one in x]), layer(x)
    factors = torch.from_numpy(np.random.default_rng(3).standard_normal(found.shape))
    both = [torch.autograd.grad((out * factors).sum(), list(layer.parameters())) for out in (found, expected)]
    pairs = [(found, expected), *zip(*both, strict=True)]
    return all(torch.allclose(one, other, rtol=1e-8, atol=1e-9) for one, other in pairs)


@pytest.mark.filterwarnings("ignore:Converting a tensor")
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("every", "top", "truncation"), [(2, 3, 5), (1, 4, 100), (3, 2, 1)])
def test_outputs_and_gradients_are_those_of_the_rule(aligned: bool, every: int, top: int, truncation: int) -> None:
    layer = layer_of(every=every, top=top, truncation=truncation, aligned=aligned)
    assert layer(inputs()).shape == (2, 15, 12)
    assert alike(layer, inputs())
    assert not alike(layer, inputs(), softmax=True)
    assert not alike(layer, inputs(), kept=-1)


@pytest.mark.parametrize(("width", "batch", "time"), [(6, 2, 15), (17, 21, 33)])
@pytest.mark.parametrize(("every", "top", "truncation"), [(1, 1, 4), (2, 10, 10), (3, 2, 1), (20, 5, 7)])
def test_the_compiled_loop_is_the_steps_of_torch(
    every: int, top: int, truncation: int, width: int, batch: int, time: int
) -> None:
    layer = layer_of(width, every=every, top=top, truncation=truncation)
    other = layer_of(width, every=every, top=top, truncation=truncation + 1)
    x = inputs(batch, time).requires_grad_()
    factors = torch.from_numpy(np.random.default_rng(3).standard_normal((batch, time, 2 * width)))

    def found(run: Callable[[Tensor], Tensor], of: BacktrackingLayer) -> list[Tensor]:
        outputs = run(x)
        return [outputs, *torch.autograd.grad((outputs * factors).sum(), [x, *of.parameters()])]

    def agree(ones: list[Tensor], others: list[Tensor]) -> bool:
        return all(torch.allclose(a, b, rtol=1e-9, atol=1e-10) for a, b in zip(ones, others, strict=True))

    compiled = found(layer, layer)
    assert agree(compiled, found(lambda x: layer.stepped(x)[0], layer))
    assert not agree(compiled, found(lambda x: other.stepped(x)[0], other))
    with torch.no_grad():
        assert torch.equal(layer(x), layer.stepped(x)[0])


def test_what_is_not_a_number_stays_so_in_the_compiled_loop() -> None:
    layer, x = layer_of(every=1, top=3), inputs(2, 9)
    x[0, 5, 0] = torch.nan
    out = layer(x).detach()
    assert out[0, 5:].isnan().all()
    assert out[0, :5].isfinite().all()
    assert out[1].isfinite().all()


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_second_derivatives_are_refused() -> None:
    layer = layer_of()
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(layer(inputs()).square().sum(), layer.lstm.weight_hh, create_graph=True)


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_another_truncation_has_the_same_values_and_other_gradients() -> None:
    short, long = layer_of(truncation=2, top=3), layer_of(truncation=99, top=3)
    assert torch.equal(short(inputs()), long(inputs()))
    one, other = (
        torch.autograd.grad(layer(inputs()).square().sum(), layer.lstm.weight_hh)[0] for layer in (short, long)
    )
    assert not torch.allclose(one, other)


def test_released_weights_do_not_depend_on_the_query_and_aligned_ones_do() -> None:
    def weights_at_the_end(aligned: bool, last: float) -> Tensor:
        x = inputs(1, 14)
        x[0, -1] = last  # what is asked at the end; memories stay
        return layer_of(top=3, aligned=aligned).attended(x)[1][0, -1]

    assert torch.allclose(weights_at_the_end(False, -2.0), weights_at_the_end(False, 2.0), atol=1e-6)
    assert float((weights_at_the_end(True, -2.0) - weights_at_the_end(True, 2.0)).abs().max()) > 1e-3


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_attended_times_are_those_of_the_stored_states() -> None:
    layer, x = layer_of(every=2, top=3), inputs(2, 9)
    times, weights = layer.attended(x)
    assert times.shape == weights.shape == (2, 9, 4)
    assert times[0].tolist() == [[1 + 2 * k if 1 + 2 * k < t else -1 for k in range(4)] for t in range(9)]
    assert not weights[times < 0].any()
    for b in range(2):
        for t, expected in enumerate(course(layer, x[b])[1]):
            torch.testing.assert_close(weights[b, t, : len(expected) - 1], expected[1:].detach(), rtol=1e-7, atol=1e-9)
    assert int((weights[:, -1] > 0).sum(1).max()) <= 2  # top - 1


@pytest.mark.parametrize("top", [1, 2, 4])
def test_the_zero_state_counts_among_the_top(top: int) -> None:
    """From the time on at which `top` states are stored, weights add up to one and at most top - 1 are not zero."""
    weights = layer_of(every=1, top=top).stepped(inputs(3, 9))[1].detach()
    for stored in range(9):  # before step number `stored` from 0
        total = weights[:, stored].sum(1)
        if stored < top:
            assert (weights[:, stored, : stored + 1] != 0).all() and ((total - 1).abs() > 1e-3).all()
        else:
            assert int((weights[:, stored] != 0).sum(1).max()) <= top - 1
            assert (total - float(top > 1)).abs().max() < 1e-3  # of one state none is above itself


def test_a_model_says_what_it_attends_to() -> None:
    model = create("sab", 5, 4, 2, top=3)
    tokens = torch.zeros(2, 7, dtype=torch.int64)
    for layer in (0, 1):
        times, weights = model.attended(tokens, layer)
        assert times.shape == weights.shape == (2, 7, 3)


@pytest.mark.parametrize("option", ["every", "top", "truncation"])
def test_bad_options_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}: a whole number of at least 1 is allowed, got 0"):
        create("sab", 5, 4, **{option: 0})
