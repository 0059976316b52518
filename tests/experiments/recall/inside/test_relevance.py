"""Which states are relevant, and the gradient without the others: on weights that are given, and against autograd."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from experiments.recall.inside import relevance as module
from experiments.recall.inside import statements
from experiments.recall.inside.relevance import kinds, over_uniform, readable, relevance
from experiments.recall.run import Parameters, _network, check, task_of
from lib.models import create
from lib.processes import CopyTask

TASK = CopyTask(4, symbols=3, recall=2)
INPUTS, TARGETS = TASK.sample(3, 0)


def network(architecture: str, **options):
    return create(architecture, TASK.vocabulary, 6, 1, seed=1, **options)


def weights(rows) -> np.ndarray:
    """alpha of a table [t][i] of weights, times from 1 on."""
    alpha = np.zeros((len(rows) + 1, len(rows) + 1))
    for t, row in enumerate(rows, start=1):
        alpha[1 : len(row) + 1, t] = row
    return alpha


def test_kinds_of_states_are_told_by_their_weights_at_later_steps() -> None:
    rows = [[1.0], [0.5, 0.5], *([0.9, 0.001, *[0.0] * (t - 3), 0.099] for t in range(3, 9))]
    kind = kinds(weights(rows))
    assert kind.relevant.tolist()[:2] == [True, False]  # always looked at; hardly ever
    assert kind.other.tolist()[:2] == [False, True]
    # uniform attention: every state is relevant, none is not
    uniform = kinds(weights([[1 / t] * t for t in range(1, 9)]))
    assert uniform.relevant.all() and not uniform.other.any()
    # one step in four: neither
    rows = [[1.0]] + [[0.5 if t % 4 == 0 else 0.0, *[0.0] * (t - 2), 0.5 if t % 4 == 0 else 1.0] for t in range(2, 10)]
    assert not kinds(weights(rows)).relevant[0] and not kinds(weights(rows)).other[0]


def test_weights_are_compared_with_uniform_ones_over_what_is_attended_to() -> None:
    assert np.allclose(over_uniform(weights([[1.0], [0.25, 0.75], [0.5, 0.0, 0.5]]))[1:, 2], [0.5, 1.5, 0.0])
    assert np.allclose(over_uniform(weights([[1.0], [0.25, 0.75], [0.5, 0.0, 0.5]]))[1:, 3], [1.0, 0.0, 1.0])


@pytest.mark.parametrize(("architecture", "options"), [("mem_rnn", {}), ("rel_rnn", {"buffer": 2, "relevant": 2})])
def test_gradients_are_those_of_the_network(architecture, options) -> None:
    model = network(architecture, **options)
    found = relevance(model, TASK, INPUTS, TARGETS)
    assert found["difference"] < 1e-12
    # of all parameters, by automatic differentiation
    plain = model.double()
    states, by_hidden = module.read_network(plain, TASK, INPUTS[0], TARGETS[0])
    ours = module._parameters(states, np.zeros_like(by_hidden), by_hidden)
    scores = plain(torch.from_numpy(INPUTS[:1]))[0, TASK.recall_steps, : TASK.classes]
    (layer,) = plain.layers
    parameters = [layer.weight_hh, layer.weight_ih, layer.bias]
    parameters += [layer.weight_query, layer.weight_key, layer.weight_score]
    loss = F.cross_entropy(scores, torch.from_numpy(TARGETS[0, TASK.recall_steps]))
    theirs = np.concatenate([one.numpy().ravel() for one in torch.autograd.grad(loss, parameters)])
    assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-14)
    # a wrong alpha gives another gradient
    assert module._compared(ours, states, np.zeros_like(by_hidden), by_hidden, states.alpha > 0)[0] > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_an_untrained_network_whose_attention_is_sharp_meets_the_bounds_on_trained_ones(seed: int) -> None:
    """The control of `judge_relevance`: what it asks for is of the softmax, and not of what was learned."""
    chosen = Parameters(architecture="mem_rnn", task="copy", delay=30, width=64)  # as they are recorded
    task = task_of(chosen)
    inputs, targets = task.sample(8, np.random.default_rng(5))

    def inside(sharper: float):
        model = _network(chosen, task, seed)
        with torch.no_grad():
            model.layers[0].weight_score.mul_(sharper)
        return relevance(model, task, inputs, targets)

    found = inside(100.0)
    assert found["relevant"] + found["other"] > statements.OF_EITHER_KIND
    assert found["other"] > statements.NOT_RELEVANT
    assert found["without_other"][1] > statements.APPROXIMATED > found["without_random"][1]
    assert inside(1.0)["other"] == 0.0  # as it starts


def test_nothing_left_out_is_no_number_and_shares_are_shares() -> None:
    found = relevance(network("mem_rnn"), TASK, INPUTS, TARGETS)
    assert found["relevant"] == 1.0 and found["other"] == 0.0  # untrained: nearly uniform
    assert found["without_other"] is None and found["without_random"] is None
    assert sum(found["away"]) == pytest.approx(1.0) and found["away"][-1] == 1.0
    assert len(found["by_glances"]) == module.GLANCES + 2 and found["by_glances"][1] > found["by_glances"][0]


def test_weights_that_are_small_carry_little() -> None:
    model = network("mem_rnn")
    (layer,) = model.layers
    with torch.no_grad():  # sharp attention
        for weight in (layer.weight_query, layer.weight_key):
            weight.mul_(4)
        layer.weight_score.mul_(12)
    found = relevance(model, TASK, INPUTS, TARGETS)
    assert found["other"] > 0 and found["without_small"][0] < 0.2
    assert found["without_other"][0] < 0.2 < found["without_random"][0]  # control: as many others are missed


@pytest.mark.parametrize(
    ("architecture", "options"),
    [("orth_rnn", {}), ("rel_rnn", {"activation": "modrelu"}), ("mem_rnn", {"combine": "sum"}), ("rel_lstm", {})],
)
def test_other_networks_are_refused(architecture, options) -> None:
    assert not readable(network(architecture, **options)) and readable(network("mem_rnn"))
    asked = {"architecture": architecture, "task": "copy", "options": options, "relevance": True, "width": 6}
    with pytest.raises(ValueError, match="relevance: mem_rnn and rel_rnn with tanh"):
        check(asked)
    assert check(asked | {"relevance": False})["relevance"] is False
