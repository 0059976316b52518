"""Steps of second order: the gradient of every sequence, the step itself, when it is taken back, and where it ends."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lib.models import create
from lib.processes import CopyTask, IsingChain
from lib.training import FitSettings, LevenbergMarquardt, NextToken, StepLabels, fit, sequence_gradients
from lib.training.loop import FINISHED_BY_CURVATURE
from lib.training.newton import GOOD, LEAST, MOST, POOR, START, TRUSTED

CHAIN = IsingChain(coupling=-1.0, beta=1.0)
NETWORKS = [
    ("rnn", 3, 1, {"start": "slow", "longest": 20}),
    ("rnn", 2, 3, {}),
    ("lstm", 3, 1, {}),
    ("lstm", 2, 2, {"start": "chrono", "longest": 9, "embedding": 3}),
    ("relu_rnn", 3, 2, {"embedding": 2}),
]


def chains(n, length, seed):
    return (CHAIN.sample(n, length, seed) > 0).astype(np.uint8)


def network(architecture, width, depth, options, vocabulary=2):
    return create(architecture, vocabulary, width, depth, seed=1, **options).double()


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def loss_of(model, row):
    tokens = torch.from_numpy(row).long()[None]
    return F.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:], reduction="sum")


def by_autograd(model, data):
    """Loss and gradient of every sequence, one after the other."""
    losses = [loss_of(model, row) for row in data]
    grads = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    rows = [torch.cat([part.flatten() for part in grad]).numpy() for grad in grads]
    return np.array([loss.item() for loss in losses]), np.array(rows)


@pytest.mark.parametrize(("architecture", "width", "depth", "options"), NETWORKS)
def test_the_gradient_of_every_sequence_is_that_of_the_sequence_alone(architecture, width, depth, options):
    data = np.random.default_rng(0).integers(0, 5, (7, 13))
    model = network(architecture, width, depth, options, vocabulary=5)
    losses, gradients = sequence_gradients(model, torch.from_numpy(data))
    expected_losses, expected = by_autograd(model, data)
    assert np.allclose(losses, expected_losses, rtol=1e-12)
    assert np.allclose(gradients, expected, rtol=1e-10, atol=1e-12)
    assert not np.allclose(gradients[0], expected[1])  # of another sequence
    assert torch.equal(sequence_gradients(model, torch.from_numpy(data).int())[1], gradients)
    assert not any(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("damping", [0.01, 3.0])
def test_a_step_solves_the_damped_equations(damping):
    data = chains(40, 12, 0)
    model = network(*NETWORKS[0])
    losses, rows = by_autograd(model, data)
    fisher, gradient = rows.T @ rows / len(rows), rows.mean(axis=0)
    expected = np.linalg.solve(fisher + damping * np.diag(fisher.diagonal()), gradient)
    before = weights(model)

    class Taken(LevenbergMarquardt):
        def loss(self, model):
            return -1e9  # whatever the step, it is not taken back

    loss, moved = Taken(data, damping).step(model)
    assert moved and loss == pytest.approx(losses.mean(), rel=1e-12)
    assert np.allclose(before - weights(model), expected, rtol=1e-7, atol=1e-10)


def test_a_damping_below_rounding_grows_until_the_equations_have_a_solution():
    """Of fewer sequences than parameters the Fisher matrix has eigenvalues of zero: rounding makes negative ones."""
    data = chains(6, 12, 3)
    model = network(*NETWORKS[2])
    method = LevenbergMarquardt(data, 1e-300)
    before = method.loss(model)
    _, moved = method.step(model)
    assert moved and method.loss(model) < before
    assert method.damping >= LEAST


@pytest.mark.parametrize(
    ("shares", "dampings"),
    [
        ([GOOD + 0.01], [START / 3]),
        ([(GOOD + POOR) / 2], [START]),
        ([POOR - 0.01], [2 * START]),
        ([TRUSTED - 0.01, GOOD + 0.01], [4 * START / 3]),
        ([-1.0, -1.0, POOR - 0.01], [32 * START]),
    ],
)
def test_the_damping_follows_the_share_of_the_promise_that_was_kept(shares, dampings):
    data = chains(30, 10, 1)
    model = network(*NETWORKS[2])
    _, rows = by_autograd(model, data)
    fisher, gradient = rows.T @ rows / len(rows), rows.mean(axis=0)

    class Promising(LevenbergMarquardt):
        """Tells of every trial that it kept the next share of its promise."""

        def loss(self, trial):
            step = (start - weights(trial)).numpy()
            return mean - kept.pop(0) * float(gradient @ step - 0.5 * step @ fisher @ step)

    start, kept = weights(model), list(shares)
    mean = float(np.mean(by_autograd(model, data)[0]))
    method = Promising(data)
    assert method.step(model)[1]
    assert [method.damping] == pytest.approx(dampings)
    assert not kept


def test_where_no_step_gains_the_network_stays_as_it_is():
    class Stuck(LevenbergMarquardt):
        def loss(self, model):
            return float("inf")

    model = network(*NETWORKS[0])
    before = weights(model)
    method = Stuck(chains(20, 8, 2))
    assert method.step(model)[1] is False
    assert torch.equal(weights(model), before) and method.damping == START


@pytest.mark.parametrize("damping", [START, 2 * MOST])
def test_after_a_step_that_gained_nothing_another_one_is_tried(damping):
    """A step that kept little of its promise leaves twice its damping, which may be above the most that is tried."""
    data, flat = chains(20, 8, 2), network(*NETWORKS[0])
    with torch.no_grad():
        for parameter in flat.parameters():
            parameter.zero_()  # of mirror symmetric data the gradient is then zero: nothing can be gained
    method = LevenbergMarquardt(np.concatenate([data, 1 - data]))
    method.damping = damping
    assert not method.step(flat)[1] and not weights(flat).any()
    fresh = LevenbergMarquardt(method.sequences, min(damping, MOST))
    one, other = network(*NETWORKS[0]), network(*NETWORKS[0])
    assert method.step(one) == fresh.step(other) and method.damping == fresh.damping
    assert method.loss(one) < method.loss(network(*NETWORKS[0])) and torch.equal(weights(one), weights(other))


def test_a_training_ends_with_the_first_step_that_gains_nothing(monkeypatch):
    monkeypatch.setattr(LevenbergMarquardt, "loss", lambda self, model: float("inf"))
    settings = FitSettings(epochs=0, newton=5, patience=None)
    course = fit(network(*NETWORKS[0]), NextToken(chains(20, 8, 2), chains(9, 8, 3)), settings, progress=False)
    assert course.reason == FINISHED_BY_CURVATURE and len(course.training_losses) == 1


def test_a_gradient_that_is_not_finite_is_no_step():
    model = network(*NETWORKS[0])
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    loss, moved = LevenbergMarquardt(chains(20, 8, 2)).step(model)
    assert np.isnan(loss) and not moved
    course = fit(model, NextToken(chains(20, 8, 2), chains(9, 8, 3)), FitSettings(epochs=0, newton=3), progress=False)
    assert course.diverged and not course.best_epoch


def test_steps_never_raise_the_loss_and_end_below_the_likeliest_markov_chain():
    data = chains(300, 30, 3)
    model = network("rnn", 2, 1, {})
    settings = FitSettings(optimizer="adam", learning_rate=0.02, epochs=2, newton=40, batch=30, patience=None)
    course = fit(model, NextToken(data, chains(50, 30, 4)), settings, progress=False)
    second = course.training_losses[2:]
    assert all(late <= early for early, late in itertools.pairwise(second))
    pairs = np.zeros((2, 2))
    np.add.at(pairs, (data[:, :-1].ravel(), data[:, 1:].ravel()), 1)
    chain = -float(np.sum(pairs * np.log(pairs / pairs.sum(axis=1, keepdims=True))) / pairs.sum())
    assert chain - 2e-3 < second[-1] < chain + 1e-5  # a network of more memory fits the sample a little better
    assert course.training_losses[0] > chain + 0.01  # control: where the epochs of the first order had come


def test_the_damping_stays_above_its_least_value():
    method = LevenbergMarquardt(chains(200, 10, 5), damping=LEAST)
    model = network("rnn", 2, 1, {})
    for _ in range(4):
        method.step(model)
    assert method.damping >= LEAST


def test_fixed_parameters_and_a_damping_beyond_its_end_are_refused():
    model = create("lstm", 2, 3, seed=1)
    model.embedding.weight.requires_grad_(False)
    with pytest.raises(ValueError, match=r"gradients of all parameters are needed, embedding\.weight require none"):
        fit(model, NextToken(chains(9, 6, 0), chains(9, 6, 1)), FitSettings(epochs=0, newton=2), progress=False)
    with pytest.raises(ValueError, match=r"damping: numbers > 0 and at most 1e\+06 are allowed, got 1e7|10000000"):
        LevenbergMarquardt(chains(9, 6, 0), damping=1e7)


def test_a_run_that_is_stopped_among_its_steps_goes_on_to_the_same_numbers(tmp_path):
    class Interrupted(NextToken):
        left = 4

        def validation_loss(self, model, device):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().validation_loss(model, device)

    settings = FitSettings(optimizer="adam", epochs=2, newton=5, batch=20, learning_rate=0.01)
    data = (chains(60, 20, 0), chains(40, 20, 1))
    whole, resumed = (create("lstm", 2, 3, seed=seed) for seed in (1, 2))
    course = fit(whole, NextToken(*data), settings, progress=False)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        fit(create("lstm", 2, 3, seed=1), Interrupted(*data), settings, checkpoint=path, progress=False)
    again = fit(resumed, NextToken(*data), settings, checkpoint=path, progress=False)
    assert len(again.training_losses) == settings.passes == 7
    assert again.training_losses == course.training_losses and again.validation_losses == course.validation_losses
    assert torch.equal(weights(whole), weights(resumed))


@pytest.mark.parametrize(
    ("architecture", "options"),
    [("transformer", {}), ("mamba", {}), ("lstm", {"dropout": 0.2}), ("lstm", {"embedding": None, "tied": True})],
)
def test_networks_without_these_gradients_are_refused_before_they_are_trained(architecture, options):
    class Untouched(NextToken):
        def batches(self, batch, epoch, device):
            raise AssertionError

    model, data = create(architecture, 2, 4, 1, **options), chains(4, 6, 0)
    for asked in (
        lambda: sequence_gradients(model, torch.zeros(2, 5, dtype=torch.int64)),
        lambda: fit(model, Untouched(data, data), FitSettings(epochs=2, newton=1), progress=False),
    ):
        with pytest.raises(ValueError, match="VanillaRNN, LSTM or ReluRNN without dropout and tied weights is allowed"):
            asked()


@pytest.mark.parametrize(
    "tokens",
    [
        np.zeros((2, 5), dtype=np.int64),
        torch.zeros(0, 5, dtype=torch.int64),
        torch.zeros(5, dtype=torch.int64),
        torch.zeros(2, 1, dtype=torch.int64),
        torch.zeros(2, 5),
        torch.zeros(2, 5, dtype=torch.bool),
        [[0, 1]],
        None,
    ],
)
def test_anything_but_sequences_of_whole_numbers_is_refused(tokens):
    with pytest.raises(ValueError, match=r"tokens: an int32 or int64 tensor of shape \(n >= 1, T >= 2\) is allowed"):
        sequence_gradients(network(*NETWORKS[0]), tokens)


def test_a_network_that_is_none_of_ours_is_refused():
    with pytest.raises(ValueError, match="tied weights is allowed, got Linear"):
        sequence_gradients(torch.nn.Linear(2, 2), torch.zeros(2, 5, dtype=torch.int64))


def test_another_task_and_no_epochs_at_all_are_refused():
    task = StepLabels(CopyTask(3), validation=5)
    with pytest.raises(ValueError, match="newton: steps of second order need the task NextToken, got StepLabels"):
        fit(create("rnn", 10, 3), task, FitSettings(epochs=1, newton=1), progress=False)
    with pytest.raises(ValueError, match="epochs: at least 1 without steps of second order, got 0"):
        FitSettings(epochs=0)


def test_other_tokens_and_dampings_are_refused():
    model, data = network(*NETWORKS[0]), np.array([[0, 1, 0, 7]])
    for asked in (
        lambda: sequence_gradients(model, torch.from_numpy(data)),
        lambda: LevenbergMarquardt(data).loss(model),
    ):
        with pytest.raises(ValueError, match=r"tokens: 0 \.\. 1 are in the vocabulary, got 0 \.\. 7"):
            asked()
    for damping in (float("nan"), 0.0, -1.0):
        with pytest.raises(ValueError, match="damping: "):
            LevenbergMarquardt(chains(2, 5, 0), damping)
    with pytest.raises(ValueError, match="sequences: "):
        LevenbergMarquardt(chains(2, 5, 0)[0])
