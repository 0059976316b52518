"""Gradients of the loss of recall by every state: against finite differences, and where theory says what they are."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from experiments.recall.inside.gradients import gradient_norms
from lib.models import create
from lib.processes import CopyTask

TASK = CopyTask(3, symbols=2, recall=2)


def loss_with(model, inputs, targets, time, change):
    """Loss of recall of one sequence when h_t is moved by `change`, by hand."""
    state, total = model.initial_state(1), 0.0
    for step, (token, target) in enumerate(zip(inputs.T, targets.T, strict=True)):
        _, state = model.step(token, state)
        (layer,) = state.layers
        if step == time:
            layer = layer._replace(hidden=layer.hidden + change)
            state = state._replace(layers=(layer,))
        logits = model.head(layer.hidden)[:, : TASK.classes]
        if step in TASK.recall_steps:
            total = total + F.cross_entropy(logits, target) / TASK.recall
    return float(total.detach())


@pytest.mark.parametrize("architecture", ["rnn", "lstm"])
def test_gradients_are_those_of_finite_differences(architecture):
    model = create(architecture, TASK.vocabulary, 4, seed=0, embedding=3).double()
    inputs, targets = TASK.sample(6, 0)
    found = np.exp(gradient_norms(model, TASK, inputs, targets))[::-1]
    expected = np.zeros(TASK.length)
    for row in range(6):
        some = torch.from_numpy(inputs[row : row + 1]), torch.from_numpy(targets[row : row + 1])
        for time in range(TASK.length):
            steps = [1e-6 * unit[None] for unit in torch.eye(4, dtype=torch.float64)]
            slope = [(loss_with(model, *some, time, d) - loss_with(model, *some, time, -d)) / 2e-6 for d in steps]
            expected[time] += np.linalg.norm(slope) / 6
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-9)
    assert not np.allclose(found, expected[::-1], rtol=0.05)  # negative control: distances, not times


def test_a_linear_recurrence_has_gradients_that_fall_with_its_eigenvalue():
    # near zero tanh is linear: dL/dh_t = U^T dL/dh_{t+1} before the steps of recall
    task = CopyTask(30, symbols=2, recall=1)
    model = create("rnn", task.vocabulary, 3, seed=0, embedding=2)
    with torch.no_grad():
        model.layers[0].weight_hh.copy_(0.8 * torch.eye(3))
        model.layers[0].weight_ih.mul_(1e-4)
    norms = np.array(gradient_norms(model, task, *task.sample(8, 0)))
    assert len(norms) == task.length
    assert np.allclose(np.diff(norms)[:-2], np.log(0.8), atol=1e-4)
    assert norms[-1] < norms[0] - 5  # and does not underflow
    with torch.no_grad():
        model.layers[0].weight_hh.copy_(torch.eye(3))
    flat = np.array(gradient_norms(model, task, *task.sample(8, 0)))
    assert np.allclose(np.diff(flat), 0.0, atol=1e-4)


def test_the_network_is_left_as_it_was():
    model = create("lstm", TASK.vocabulary, 4, seed=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradient_norms(model, TASK, *TASK.sample(3, 0))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.dtype == torch.float32 for parameter in model.parameters())


CELLS = [
    ("orth_rnn", {"activation": "modrelu"}),
    ("exp_rnn", {}),
    ("mem_rnn", {}),
    ("rel_rnn", {"buffer": 2, "relevant": 2}),
    ("rel_rnn", {"buffer": 1, "relevant": 0, "combine": "sum"}),
    ("mem_lstm", {}),
    ("rel_lstm", {"buffer": 2, "relevant": 2}),
]


@pytest.mark.parametrize(("architecture", "options"), CELLS)
def test_gradients_agree_with_those_of_a_state_that_is_nudged(architecture, options):
    # the layers take what is added to every h_t: its gradient, in the parallel form, is found in another way
    task = CopyTask(6, symbols=3, recall=3)
    model = create(architecture, task.vocabulary, 8, seed=0, **options).double()
    inputs, targets = task.sample(7, 0)
    found = np.exp(gradient_norms(model, task, inputs, targets))[::-1]
    nudge = torch.zeros(7, task.length, 8, dtype=torch.float64, requires_grad=True)
    vectors = torch.eye(task.vocabulary, dtype=torch.float64)[torch.from_numpy(inputs)]
    logits = model.head(model.layers[0](vectors, nudge))[..., : task.classes]
    recalled = logits[:, task.recall_steps].flatten(0, 1)
    loss = F.cross_entropy(recalled, torch.from_numpy(targets[:, task.recall_steps]).flatten(), reduction="sum") / 3
    (gradient,) = torch.autograd.grad(loss, nudge)
    expected = gradient.norm(dim=2).mean(dim=0).numpy()
    assert np.allclose(found, expected, rtol=1e-8, atol=1e-14)
