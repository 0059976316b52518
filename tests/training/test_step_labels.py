"""Classes of steps, learnt from fresh batches: what is drawn, what is measured, how training ends by success."""

import math

import numpy as np
import pytest
import torch

from lib.models import create
from lib.processes import CopyTask
from lib.training import FitSettings, StepLabels, fit, label_scores
from lib.training.checkpoint import load_checkpoint, save_checkpoint
from lib.training.loop import FINISHED_BY_EPOCHS, FINISHED_BY_PATIENCE, FINISHED_BY_SUCCESS
from lib.training.tasks import Evaluation

CPU = torch.device("cpu")
TASK = CopyTask(2, symbols=2, recall=1)  # four steps, of which the last one asks for the first


def labels(updates=20, seed=0, validation=50, **more):
    return StepLabels(TASK, seed=seed, updates=updates, validation=validation, scored=TASK.recall_steps, **more)


def network(seed=0, **options):
    return create("lstm", TASK.vocabulary, 8, seed=seed, embedding=TASK.vocabulary, **options)


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


class Told:
    """A model whose logits are given for every input token."""

    training = False

    def __init__(self, table):
        self.table = torch.as_tensor(table)

    def train(self, mode=True):
        pass

    def eval(self):
        pass

    def __call__(self, tokens):
        return self.table[tokens]


def test_batches_are_fresh_and_depend_on_seed_and_epoch_alone():
    task = labels(updates=3)
    first, again, later = ([x for x, _ in task.batches(4, epoch, CPU)] for epoch in (0, 0, 1))
    assert task.steps(4) == len(first) == 3
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(torch.cat(first), torch.cat(later))
    assert not torch.equal(first[0], first[1])
    other = [x for x, _ in labels(updates=3, seed=1).batches(4, 0, CPU)]
    assert not torch.equal(torch.cat(first), torch.cat(other))


def test_what_is_measured_on_does_not_depend_on_the_seed_and_is_no_training_batch():
    many = CopyTask(2, symbols=50, recall=20)
    one, two = (StepLabels(many, seed=seed, validation=30, updates=40) for seed in (0, 1))
    assert np.array_equal(one.inputs, two.inputs)
    fixed = set(map(tuple, one.targets.tolist()))
    fresh = {tuple(row) for epoch in range(3) for _, y in one.batches(30, epoch, CPU) for row in y.tolist()}
    assert not fixed & fresh
    assert len(fresh) == 3 * 40 * 30


def test_the_loss_is_the_mean_over_all_steps_and_the_accuracy_that_at_the_scored_ones():
    table = np.zeros((TASK.vocabulary, TASK.vocabulary))
    table[:, TASK.vocabulary - 1] = 9.0  # no class of the task: must not take part
    table[0, 1] = 1.0  # after a blank: symbol 1
    inputs, targets = TASK.sample(400, 3)
    law = np.exp(table[:, : TASK.classes])
    law /= law.sum(axis=1, keepdims=True)
    expected = -np.log(np.take_along_axis(law[inputs], targets[..., None], axis=2)).mean()
    found = label_scores(Told(table), inputs, targets, TASK.classes, scored=TASK.recall_steps, batch=33)
    assert found.loss == pytest.approx(expected, rel=1e-12)
    assert found.accuracy == np.mean(targets[:, -1] == 1)
    everywhere = label_scores(Told(table), inputs, targets, TASK.classes)
    guess = np.where(inputs == 0, 1, 0)
    assert everywhere.accuracy == np.mean(guess == targets) != found.accuracy
    loss = labels().loss(Told(table), (torch.from_numpy(inputs), torch.from_numpy(targets)))
    assert float(loss) == pytest.approx(expected, rel=1e-12)
    # negative control: with the output that is no class the loss is another
    whole = label_scores(Told(table), inputs, targets, TASK.vocabulary)
    assert whole.loss > expected + 1.0


def test_a_model_with_too_few_outputs_is_refused():
    with pytest.raises(ValueError, match="at least 3 outputs"):
        label_scores(Told(np.zeros((4, 2))), *TASK.sample(3, 0), TASK.classes)


def test_training_ends_with_success_on_fresh_sequences():
    model = network()
    settings = FitSettings(
        optimizer="adam", learning_rate=0.02, batch=10, epochs=40, patience=None, clip=1.0, success=0.99
    )
    course = fit(model, labels(), settings, progress=False)
    assert course.reason == FINISHED_BY_SUCCESS
    assert len(course.accuracies) == len(course.validation_losses) < 40
    assert min(course.accuracies[-2:]) >= 0.99 > course.accuracies[-3]
    found = label_scores(model, *TASK.sample(500, 9), TASK.classes, scored=TASK.recall_steps)
    assert found.accuracy >= 0.99 and found.loss < 0.05


class Played(StepLabels):
    """Evaluations as given, whatever the model."""

    def __init__(self, evaluations):
        super().__init__(TASK, updates=1, validation=2)
        self.evaluations = iter(evaluations)

    def evaluation(self, model, device):
        return Evaluation(*next(self.evaluations))


@pytest.mark.parametrize(
    ("accuracies", "epochs", "reason"),
    [
        ([0.5, 0.99, 0.99, 1.0, 1.0], 3, FINISHED_BY_SUCCESS),
        ([0.99, 0.98, 0.99, 0.98, 0.99], 5, FINISHED_BY_EPOCHS),  # never twice in a row
        ([0.989, 0.989, 0.989, 0.989, 1.0], 5, FINISHED_BY_EPOCHS),
        ([0.5, 0.5, 0.5, 1.0, 1.0], 5, FINISHED_BY_SUCCESS),  # in the last epoch
    ],
)
def test_success_is_two_evaluations_in_a_row(accuracies, epochs, reason):
    task = Played([(1.0 / (number + 1), accuracy) for number, accuracy in enumerate(accuracies)])
    settings = FitSettings(epochs=5, patience=None, success=0.99, batch=2)
    course = fit(network(), task, settings, progress=False)
    assert (len(course.accuracies), course.reason) == (epochs, reason)
    assert course.accuracies == accuracies[:epochs]


def test_patience_still_ends_a_training_at_a_plateau():
    task = Played([(1.0, 0.1)] * 9)
    course = fit(network(), task, FitSettings(epochs=9, patience=3, success=0.99, batch=2), progress=False)
    assert (len(course.accuracies), course.reason) == (4, FINISHED_BY_PATIENCE)


def test_success_is_refused_where_there_is_no_accuracy():
    class Plain:
        def steps(self, batch):
            return 1

        def batches(self, batch, epoch, device):
            return iter(())

        def loss(self, model, batch):
            raise AssertionError

        def validation_loss(self, model, device):
            raise AssertionError

    with pytest.raises(ValueError, match="Plain has no accuracy"):
        fit(network(), Plain(), FitSettings(success=0.99), progress=False)


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a_run_in_two_parts_ends_with_the_numbers_of_one_in_a_piece(tmp_path, optimizer):
    class Interrupted(StepLabels):
        left = 2

        def evaluation(self, model, device):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().evaluation(model, device)

    settings = FitSettings(optimizer=optimizer, alpha=0.99, epochs=5, batch=4, patience=None, success=0.999)
    whole = Slow(0)
    course = fit(whole, labels(seed=3), settings, progress=False)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        broken = Interrupted(TASK, seed=3, updates=20, validation=50, scored=TASK.recall_steps)
        fit(Slow(0), broken, settings, checkpoint=path, progress=False)
    resumed = Slow(5)  # other weights: what counts is the checkpoint
    again = fit(resumed, labels(seed=3), settings, checkpoint=path, progress=False)
    assert (again.training_losses, again.validation_losses) == (course.training_losses, course.validation_losses)
    assert (again.accuracies, again.reason) == (course.accuracies, course.reason)
    assert torch.equal(weights(whole), weights(resumed))
    # negative control: other batches end elsewhere
    other = Slow(0)
    assert fit(other, labels(seed=4), settings, progress=False).training_losses != course.training_losses


def test_rmsprop_of_torch_is_a_setting():
    # v <- 0.99 v + 0.01 g^2,  x <- x - rate g / (sqrt v + 1e-8)
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    optimizer = FitSettings(optimizer="rmsprop", learning_rate=0.01, alpha=0.99, epsilon=1e-8).make_optimizer([x])
    value, v = x.detach().clone(), torch.zeros(2, dtype=torch.float64)
    for _ in range(5):
        optimizer.zero_grad()
        (x**4).sum().backward()
        optimizer.step()
        gradient = 4 * value**3
        v = 0.99 * v + 0.01 * gradient**2
        value = value - 0.01 * gradient / (v.sqrt() + 1e-8)
    assert torch.allclose(x, value, rtol=1e-12)


class Slow(torch.nn.Module):
    """An LSTM whose recurrent weights are to learn slowly."""

    def __init__(self, seed):
        super().__init__()
        self.inside = network(seed)

    def slow_parameters(self):
        return [self.inside.layers[0].weight_hh]

    def forward(self, tokens):
        return self.inside(tokens)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_slow_parameters_learn_at_a_fraction_of_the_rate(fraction):
    # one step of SGD moves by rate x gradient, whatever the group
    def moved(model, **settings):
        model = model.double()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        plain = FitSettings(optimizer="sgd", learning_rate=0.1, clip=None, epochs=1, batch=5, **settings)
        fit(model, labels(updates=1), plain, progress=False)
        return {name.removeprefix("inside."): value - before[name] for name, value in model.state_dict().items()}

    plain, slow = moved(network()), moved(Slow(0), slow_fraction=fraction)
    for name, change in plain.items():
        factor = fraction if name.endswith("weight_hh") else 1.0
        assert torch.allclose(slow[name], factor * change, rtol=1e-6, atol=1e-15), name
    assert plain["layers.0.weight_hh"].abs().max() > 1e-9


def test_settings_that_came_later_are_no_part_of_older_checkpoints(tmp_path):
    model, path = network(), tmp_path / "checkpoint.safetensors"
    settings = FitSettings(epochs=1, batch=2)
    fit(model, labels(updates=1), settings, checkpoint=path, progress=False)
    described = {"settings": settings.model_dump()}
    later = {"alpha", "epsilon", "slow_fraction", "success"}
    assert not later & set(described["settings"]) and later < set(FitSettings.model_fields)
    tensors, progress = load_checkpoint(path, described)
    del progress["accuracies"]  # as it was
    save_checkpoint(path, tensors, progress, described)
    course = fit(model, labels(updates=1), settings, checkpoint=path, progress=False)
    assert course.reason == FINISHED_BY_EPOCHS and math.isfinite(course.best_loss)
    with pytest.raises(ValueError, match="belongs to another configuration"):
        fit(model, labels(updates=1), FitSettings(epochs=1, batch=2, alpha=0.99), checkpoint=path, progress=False)


@pytest.mark.parametrize("given", [{"alpha": 1.0}, {"epsilon": 0.0}, {"slow_fraction": 0.0}, {"success": 1.1}])
def test_other_settings_are_refused(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        FitSettings(**given)


def test_scored_steps_shapes_and_classes_that_are_not_there_are_refused_by_name():
    (x, y), model = TASK.sample(5, 0), Told(np.zeros((TASK.vocabulary, TASK.classes)))
    for scored in (np.arange(4) == 3, [99], [4], [-1], [], [0.5], [[0]], [0, 0, 3]):
        with pytest.raises(ValueError, match="scored: "):
            label_scores(model, x, y, TASK.classes, scored=scored)
        with pytest.raises(ValueError, match="scored: "):
            StepLabels(TASK, validation=3, scored=scored)
    for inputs, targets in ((x[:3], y), (x, y[:3]), (x, y[:, :2]), (x, 1.0 * y), (x, y + TASK.classes), (x, y - 1)):
        with pytest.raises(ValueError, match="targets: "):
            label_scores(model, inputs, targets, TASK.classes)
    for inputs in (x[:0], x[0], 1.0 * x, [[0], [1, 2]]):
        with pytest.raises(ValueError, match="inputs: "):
            label_scores(model, inputs, y, TASK.classes)
    for classes in ("a", None, 3.5, True, 0):
        with pytest.raises(ValueError, match="classes: a whole number of at least 1"):
            label_scores(model, x, y, classes)
    for batch in (0, -1, 2.5):
        with pytest.raises(ValueError, match="batch: "):
            label_scores(model, x, y, TASK.classes, batch=batch)
    with pytest.raises(ValueError, match="source: "):
        StepLabels(None)


def test_labels_of_any_memory_order_and_type_are_taken():
    (x, y), model = TASK.sample(5, 0), network()
    expected = label_scores(model, x[::-1].copy(), y[::-1].copy(), TASK.classes)
    assert label_scores(model, x[::-1], y[::-1], TASK.classes) == expected
    assert label_scores(model, x[::-1].astype(np.uint8), y[::-1].astype(np.int32), TASK.classes) == expected


def test_a_source_that_draws_what_is_no_class_is_refused():
    class Wrong:
        classes = 2

        def sample(self, n, seed):
            return np.zeros((n, 3), dtype=np.int64), np.full((n, 3), 2 if n < 5 else 0)

    task = StepLabels(Wrong(), validation=5)
    with pytest.raises(ValueError, match=r"targets: 0 \.\. 1 are allowed, got 2 \.\. 2"):
        next(task.batches(4, 0, CPU))
    with pytest.raises(ValueError, match=r"0 \.\. 1 are in the vocabulary, got 2 \.\. 2"):
        task.loss(Told(np.zeros((1, 2))), tuple(map(torch.from_numpy, Wrong().sample(4, 0))))


@pytest.mark.parametrize(
    "given", [{"epochs": True}, {"learning_rate": True}, {"weight_decay": math.inf}, {"epsilon": math.inf}]
)
def test_truth_values_and_infinity_are_no_settings(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        FitSettings(**given)
    assert FitSettings(clip=math.inf).clip == math.inf  # which clips nothing
