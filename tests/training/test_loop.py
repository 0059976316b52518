"""Training: the optimizers' equations, schedules, stopping, and runs that are killed and go on."""

import itertools
import json
import multiprocessing
import time

import numpy as np
import pytest
import torch

from lib.models import create
from lib.processes import IsingChain
from lib.training import FitSettings, NextToken, fit, position_losses

CHAIN = IsingChain(coupling=-1.0, beta=1.0)


def chain_data(n, length, seed):
    return (CHAIN.sample(n, length, seed) > 0).astype(np.uint8)


def small_task(seed=0):
    return NextToken(chain_data(60, 20, 0), chain_data(40, 20, 1), seed=seed, vocabulary=2)


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_rmsprop_is_the_one_of_keras():
    # v <- 0.9 v + 0.1 g^2,  x <- x - rate g / (sqrt v + 1e-7)
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    optimizer = FitSettings(optimizer="rmsprop", learning_rate=0.01).make_optimizer([x])
    value, v = x.detach().clone(), torch.zeros(2, dtype=torch.float64)
    for _ in range(5):
        optimizer.zero_grad()
        (x**4).sum().backward()
        optimizer.step()
        gradient = 4 * value**3
        v = 0.9 * v + 0.1 * gradient**2
        value = value - 0.01 * gradient / (v.sqrt() + 1e-7)
    assert torch.allclose(x, value, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_in_one_kernel_is_adam(dtype, decoupled):
    # m <- 0.9 m + 0.1 g,  v <- b v + (1 - b) g^2,  x <- x - rate m / (1 - 0.9^t) / (sqrt(v / (1 - b^t)) + 1e-8);
    # decay w: in g (Adam), or x <- (1 - rate w) x before the step (AdamW, Loshchilov and Hutter 2019)
    rate, beta2, decay = 0.05, 0.99, 0.1
    x = torch.tensor([1.0, -2.0, 0.3], dtype=dtype, requires_grad=True)
    settings = FitSettings(
        optimizer="adamw" if decoupled else "adam", learning_rate=rate, beta2=beta2, weight_decay=decay
    )
    optimizer = settings.make_optimizer([x])
    assert optimizer.defaults["fused"]
    value, m, v = x.detach().double().clone(), torch.zeros(3).double(), torch.zeros(3).double()
    for t in range(1, 21):
        optimizer.zero_grad()
        (x**4).sum().backward()
        optimizer.step()
        gradient = 4 * value**3 + (0 if decoupled else decay * value)
        value = value * (1 - rate * decay) if decoupled else value
        m, v = 0.9 * m + 0.1 * gradient, beta2 * v + (1 - beta2) * gradient**2
        value = value - rate * (m / (1 - 0.9**t)) / ((v / (1 - beta2**t)).sqrt() + 1e-8)
    assert torch.allclose(x.double(), value, rtol=1e-11 if dtype == torch.float64 else 1e-4)


def test_parameters_elsewhere_get_the_plain_step():
    x = torch.zeros(3, device="meta", requires_grad=True)
    assert not FitSettings(optimizer="adam").make_optimizer([x]).defaults["fused"]


def test_the_cosine_falls_to_its_final_fraction_and_never_rises():
    settings = FitSettings(learning_rate=0.5, schedule="cosine", epochs=3)
    rates = [settings.learning_rate_at(step, 30) for step in range(30)]
    assert rates[0] == 0.5
    assert rates[-1] == pytest.approx(0.5 / 32)
    assert all(late <= early for early, late in itertools.pairwise(rates))
    assert rates[14] + rates[15] == pytest.approx(0.5 * (1 + 1 / 32))  # symmetric around the middle


def test_warm_up_grows_in_equal_steps_to_the_full_rate():
    settings = FitSettings(learning_rate=1.0, warm_up=4)
    assert [settings.learning_rate_at(step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("clip_by", "expected"), [("norm", [0.15, 0.2]), ("value", [0.25, 0.25])])
def test_gradients_are_clipped_by_norm_or_by_value(clip_by, expected):
    x = torch.zeros(2, requires_grad=True)
    x.grad = torch.tensor([3.0, 4.0])
    FitSettings(clip=0.25, clip_by=clip_by).clip_gradients([x])
    assert torch.allclose(x.grad, torch.tensor(expected), atol=1e-6)


def test_the_loss_is_the_mean_of_minus_log_probability_of_every_next_token():
    model = create("lstm", 2, 3, seed=0).double()
    data = chain_data(7, 9, 2)
    total = 0.0
    for row in data:
        state = model.initial_state(1)
        for token, following in itertools.pairwise(row):
            logits, state = model.step(torch.tensor([int(token)]), state)
            total -= float(logits.detach().log_softmax(-1)[0, int(following)])
    expected = total / (7 * 8)
    task = NextToken(data, data)
    assert float(task.loss(model, torch.from_numpy(data)).detach()) == pytest.approx(expected, rel=1e-12)
    assert task.validation_loss(model, torch.device("cpu")) == pytest.approx(expected, rel=1e-12)
    assert position_losses(model, data, batch=2).mean() == pytest.approx(expected, rel=1e-12)


def test_training_reaches_the_entropy_rate_of_a_markov_chain_and_no_less():
    model = create("rnn", 2, 4, seed=0)
    task = NextToken(chain_data(400, 64, 0), chain_data(400, 64, 1), vocabulary=2)
    course = fit(model, task, FitSettings(learning_rate=0.01, epochs=12, batch=20), progress=False)
    p = 1 / (1 + np.exp(-2.0))  # of equal neighbours
    rate = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    sampling = 5 * np.sqrt(p * (1 - p)) * np.log(p / (1 - p)) / np.sqrt(400 * 63)
    assert rate - sampling < course.best_loss < rate + sampling + 0.003
    # negative control: a distribution of single symbols cannot get there
    assert np.log(2) > rate + sampling + 0.003


def test_the_model_is_left_with_the_weights_of_its_best_epoch():
    model = create("lstm", 2, 4, seed=0)
    task = small_task()
    settings = FitSettings(learning_rate=0.5, epochs=8, batch=5, patience=None, clip=None)  # too fast on purpose
    course = fit(model, task, settings, progress=False)
    assert task.validation_loss(model, torch.device("cpu")) == pytest.approx(min(course.validation_losses), rel=1e-6)
    assert course.validation_losses.index(min(course.validation_losses)) + 1 == course.best_epoch < 8


def test_patience_ends_training_after_that_many_epochs_without_gain():
    class Worse(NextToken):
        losses = iter([3.0, 2.0, 2.5, 2.0, 2.1, 1.0])

        def validation_loss(self, model, device):
            return next(self.losses)

    data = chain_data(10, 8, 0)
    course = fit(create("rnn", 2, 2), Worse(data, data), FitSettings(patience=3, epochs=50), progress=False)
    assert (course.best_epoch, len(course.validation_losses), course.reason) == (2, 5, "no better validation loss")


def test_a_loss_that_is_not_finite_ends_the_run_with_its_reason_and_keeps_the_best_weights():
    class Broken(NextToken):
        calls = 0

        def loss(self, model, batch):
            Broken.calls += 1
            loss = super().loss(model, batch)
            return loss * float("nan") if Broken.calls > 2 else loss

    data = chain_data(50, 8, 0)
    model = create("rnn", 2, 2, seed=0)
    course = fit(model, Broken(data, data), FitSettings(batch=25, epochs=5), progress=False)
    assert course.diverged
    assert course.reason.endswith("epoch 2")
    assert course.best_epoch == 1
    assert torch.isfinite(weights(model)).all()


def test_a_run_that_a_large_gradient_ends_says_how_large_it_was():
    class Steep(NextToken):
        calls, steep = 0, 1.0

        def loss(self, model, batch):
            Steep.calls += 1
            return super().loss(model, batch) * (Steep.steep, float("nan"))[Steep.calls > 1]

    data = chain_data(50, 8, 0)
    model = create("rnn", 2, 2, seed=0)
    first = torch.from_numpy(data[:25])
    NextToken(data, data).loss(model, first).backward()
    norm = float(torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in model.parameters()])))
    for steep, told in ((1e10, f"of norm {1e10 * norm:.3g}"), (1e30, "whose norm is too large for its type")):
        Steep.calls, Steep.steep = 0, steep
        task = Steep(data, data)
        task.batches = lambda batch, epoch, device: iter([first, first])
        course = fit(create("rnn", 2, 2, seed=0), task, FitSettings(batch=25, epochs=1), progress=False)
        assert course.diverged and course.reason.endswith(f" in epoch 1, after a gradient {told}")


def test_a_run_that_a_gradient_ends_which_is_no_number_says_so_beside_the_largest_that_is_one():
    class Rooted(NextToken):
        """From its second update on the loss has the root of zero added, whose derivative is infinite times zero."""

        calls = 0

        def loss(self, model, batch):
            Rooted.calls += 1
            found = super().loss(model, batch)
            return found + (0 * found).sqrt() if Rooted.calls > 1 else found

    first = torch.from_numpy(chain_data(50, 8, 0)[:25])
    for updates, told in ((3, ", after a gradient that is no number, and one of norm "), (1, "")):
        Rooted.calls = 0
        task = Rooted(first.numpy(), first.numpy())
        task.batches = lambda batch, epoch, device, updates=updates: iter([first] * updates)
        course = fit(create("rnn", 2, 2, seed=0), task, FitSettings(batch=25, epochs=1), progress=False)
        assert course.diverged == bool(told) and told in course.reason


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    def trained(seed):
        model = create("lstm", 2, 3, seed=0)
        fit(model, small_task(seed), FitSettings(epochs=2, batch=7), progress=False)
        return weights(model)

    assert torch.equal(trained(0), trained(0))
    assert not torch.equal(trained(0), trained(1))


def test_torchs_global_generator_is_not_touched():
    before = torch.random.get_rng_state()
    fit(create("rnn", 2, 2, seed=3), small_task(), FitSettings(epochs=1), progress=False)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "adamw", "sgd"])
def test_a_run_in_two_parts_ends_with_the_numbers_of_one_in_a_piece(tmp_path, optimizer):
    class Interrupted(NextToken):
        epochs_left = 2

        def validation_loss(self, model, device):
            if not self.epochs_left:
                raise KeyboardInterrupt
            self.epochs_left -= 1
            return super().validation_loss(model, device)

    settings = FitSettings(optimizer=optimizer, epochs=5, batch=9, schedule="cosine", clip=1.0)
    data = (chain_data(60, 20, 0), chain_data(40, 20, 1))
    whole = create("lstm", 2, 3, seed=1)
    course = fit(whole, NextToken(*data), settings, progress=False)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        fit(create("lstm", 2, 3, seed=1), Interrupted(*data), settings, checkpoint=path, progress=False)
    resumed = create("lstm", 2, 3, seed=2)  # other weights: what counts is the checkpoint
    again = fit(resumed, NextToken(*data), settings, checkpoint=path, progress=False)
    assert again.training_losses == course.training_losses
    assert again.validation_losses == course.validation_losses
    assert torch.equal(weights(whole), weights(resumed))


def train(checkpoint, told):
    """All of a short training, from a checkpoint if there is one; what came of it goes to the file `told`."""
    torch.set_num_threads(1)
    data = np.random.default_rng(0).integers(0, 2, (400, 40), dtype=np.uint8)
    model, settings = create("lstm", 2, 8, seed=0), FitSettings(epochs=12, batch=20, patience=None)
    course = fit(model, NextToken(data[:300], data[300:]), settings, checkpoint=checkpoint, progress=False)
    total = float(weights(model).double().sum())
    told.write_text(json.dumps([course.training_losses, course.validation_losses, total]), encoding="utf-8")


def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_numbers(tmp_path):
    server = multiprocessing.get_context("forkserver")  # processes that have loaded torch already
    server.set_forkserver_preload([__name__])
    path, resumed, whole = (tmp_path / name for name in ("checkpoint.safetensors", "resumed.json", "whole.json"))

    def start(*arguments):
        process = server.Process(target=train, args=arguments)
        process.start()
        return process

    kills = 0
    for _ in range(40):
        seen = path.stat().st_mtime_ns if path.exists() else 0
        process = start(path, resumed)
        while process.is_alive() and kills < 3:
            if path.exists() and path.stat().st_mtime_ns > seen:
                process.kill()
                kills += 1
                break
            time.sleep(0.002)
        process.join()
        if process.exitcode == 0:
            break
    assert kills >= 1
    start(None, whole).join()
    assert json.loads(resumed.read_text(encoding="utf-8")) == json.loads(whole.read_text(encoding="utf-8"))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_decay_of_the_embedding_comes_after_clipping_and_is_in_no_loss(optimizer):
    def trained(decay):
        model, task = create("rnn", 2, 2, seed=0).double(), small_task()
        start = model.embedding.weight.detach().clone()
        settings = {"optimizer": optimizer, "learning_rate": 0.1, "epochs": 1, "batch": 60, "clip": 1e-9}
        course = fit(model, task, FitSettings(**settings, embedding_decay=decay), progress=False)
        return start, model.embedding.weight.detach(), course.training_losses

    (start, plain, losses), (_, decayed, with_decay) = trained(0.0), trained(0.5)
    assert losses == with_decay
    assert torch.allclose(decayed - plain, -0.1 * 2 * 0.5 * start, rtol=1e-9, atol=0)


def test_a_checkpoint_may_be_named_by_a_string(tmp_path):
    path, settings = tmp_path / "run.safetensors", FitSettings(epochs=1)
    first = fit(create("rnn", 2, 2), small_task(), settings, checkpoint=str(path), progress=False)
    assert path.exists()
    assert fit(create("rnn", 2, 2, seed=9), small_task(), settings, checkpoint=path, progress=False) == first


def test_gradients_that_are_measured_and_never_clipped_can_be_kept(tmp_path):
    """clip = inf: the norm is recorded and nothing shortened, as with no clip at all."""
    settings = {"optimizer": "adam", "learning_rate": 0.01, "epochs": 2, "patience": None}
    path = tmp_path / "run.safetensors"
    measured, free = FitSettings(clip=float("inf"), **settings), FitSettings(clip=None, **settings)
    course = fit(create("rnn", 2, 2, seed=1), small_task(), measured, checkpoint=path, progress=False)
    unclipped = fit(create("rnn", 2, 2, seed=1), small_task(), free, progress=False)
    assert course.training_losses == unclipped.training_losses
    assert fit(create("rnn", 2, 2, seed=9), small_task(), measured, checkpoint=path, progress=False) == course
    with pytest.raises(ValueError, match="another configuration"):
        fit(create("rnn", 2, 2, seed=9), small_task(), free, checkpoint=path, progress=False)


@pytest.mark.parametrize("given", [{"seed": np.int64(3)}, {"rate": float("nan")}, {1: 2}, {"names": {"a"}}, [1]])
def test_a_configuration_that_json_cannot_hold_is_refused_before_any_work(given, tmp_path):
    with pytest.raises(ValueError, match="configuration: what JSON can hold is allowed, got "):
        fit(None, small_task(), FitSettings(), checkpoint=tmp_path / "x", configuration=given, progress=False)


def test_settings_in_a_configuration_and_a_network_without_parameters_to_train_are_refused():
    with pytest.raises(ValueError, match="configuration: the settings are added under 'settings'"):
        fit(None, small_task(), FitSettings(), configuration={"settings": "A"}, progress=False)
    with pytest.raises(ValueError, match="parameters that require a gradient is allowed, got Van"):
        fit(create("rnn", 2, 2).requires_grad_(requires_grad=False), small_task(), FitSettings(), progress=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": np.bool_(True)}, "no truth value"),
        ({"optimizer": "adagrad"}, "optimizer"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rat": 0.1}, "no such setting"),
        ({"batch": 0}, "batch"),
        ({"patience": 0}, "patience"),
        ({"schedule": "linear"}, "schedule"),
    ],
)
def test_wrong_settings_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        FitSettings(**given)


@pytest.mark.parametrize("vocabulary", ["a", 3.5, True, 0, -2])
def test_a_vocabulary_that_is_no_size_is_refused(vocabulary):
    with pytest.raises(ValueError, match="vocabulary: a whole number of at least 1 is allowed, got"):
        NextToken([[0, 1]], [[0, 1]], vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (np.zeros((0, 5), dtype=int), "n >= 1"),
        (np.zeros((3, 1), dtype=int), "length >= 2"),
        (np.zeros((3, 4)), "whole numbers"),
        (np.array([[0, 2, 1]]), r"tokens 0 \.\. 1 are allowed, got 0 \.\. 2"),
        (np.array([[0, -1, 1]]), "got -1"),
    ],
)
def test_data_that_are_no_sequences_of_tokens_are_refused(training, message):
    with pytest.raises(ValueError, match=message):
        NextToken(training, np.array([[0, 1]]), vocabulary=2)
