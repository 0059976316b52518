"""Truncated backpropagation through a text: carried state, cut gradient, resets, and a resumed training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.training import CarriedText, FitSettings, NextToken, fit, text_loss
from lib.training.checkpoint import CheckpointError
from lib.training.text import changed, empty_state, tensors_of

VOCABULARY, ROWS, WINDOW = 5, 3, 4
CPU = torch.device("cpu")


def text(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(VOCABULARY, size=length)


def task(windows: int = 3, **options: Any) -> CarriedText:
    length = ROWS * WINDOW * windows + 1
    return CarriedText(text(length), text(length, 1), window=WINDOW, vocabulary=VOCABULARY, **options)


def network(architecture: str = "lstm", **options: Any) -> Any:
    return create(architecture, VOCABULARY, 8, 2, seed=1, **options).double()


def read_in_windows(model: Any, given: CarriedText) -> tuple[float, list[Tensor]]:
    losses = [float(given.loss(model, batch).detach()) for batch in given.batches(ROWS, 0, CPU)]
    return float(np.mean(losses)), tensors_of(given._state)


def one_pass(model: Any, given: CarriedText) -> tuple[float, list[Tensor]]:
    rows = np.concatenate([batch.tokens[:, :-1] for batch in given.batches(ROWS, 0, CPU)], axis=1)
    last = next(iter([batch.tokens[:, -1:] for batch in given.batches(ROWS, 0, CPU)][::-1]))
    whole = torch.from_numpy(np.concatenate([rows, last], axis=1))
    loss = torch.nn.functional.cross_entropy(model(whole[:, :-1]).flatten(0, 1), whole[:, 1:].flatten())
    state = model.initial_state(ROWS)
    for token in whole[:, :-1].T:
        _, state = model.step(token, state)
    return float(loss.detach()), tensors_of(state)


@pytest.mark.parametrize("architecture", ["lstm", "rnn", "mamba", "goru"])
def test_windows_with_their_state_are_one_long_pass(architecture: str) -> None:
    model = network(architecture).eval()
    (loss, state), (whole, last) = read_in_windows(model, task()), one_pass(model, task())
    assert loss == pytest.approx(whole, rel=1e-12)
    assert all(torch.allclose(mine, theirs, rtol=1e-10) for mine, theirs in zip(state, last, strict=True))
    assert read_in_windows(model, task(reset=1.0))[0] != pytest.approx(whole, rel=1e-6)  # state lost at every window


@pytest.mark.parametrize("architecture", ["transformer", "sliding_window", "lstm", "mamba"])
def test_reading_from_a_state_is_reading_on(architecture: str) -> None:
    model, tokens = network(architecture).eval(), torch.from_numpy(text(24).reshape(2, 12))
    whole = model(tokens)
    state = model.initial_state(2)
    for part in tokens.split(5, dim=1):
        logits, state = model.forward_from(part, state)
    assert torch.allclose(logits, whole[:, 10:], rtol=1e-10)
    alone, _ = model.forward_from(tokens[:, 10:], model.initial_state(2))
    assert not torch.allclose(alone, whole[:, 10:], rtol=1e-3)


@pytest.mark.parametrize("architecture", ["lstm", "rnn"])
def test_rows_go_on_where_the_one_before_ended(architecture: str) -> None:
    given = task()
    rows = [
        row for batch in zip(*(b.tokens.numpy() for b in given.batches(ROWS, 0, CPU)), strict=True) for row in batch
    ]
    assert np.array_equal(np.concatenate([row[:-1] for row in rows]), given.training[:-1])


def gradient_at(model: Any, given: CarriedText, cut: Callable[[Any], Any]) -> Tensor:
    """Of the loss of the second window by the embedding, where the first was read as `cut` leaves its state."""
    first, second, *_ = given.batches(ROWS, 0, CPU)
    _, state = model.forward_from(first.tokens[:, :-1], empty_state(model, ROWS))
    logits, _ = model.forward_from(second.tokens[:, :-1], cut(state))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), second.tokens[:, 1:].flatten())
    return torch.autograd.grad(loss, model.embedding.weight)[0]


@pytest.mark.parametrize("architecture", ["lstm", "rnn"])
def test_the_gradient_is_cut_at_the_window_and_nowhere_else(architecture: str) -> None:
    model, given = network(architecture), task()
    first, second, *_ = given.batches(ROWS, 0, CPU)
    given.loss(model, first)
    found = torch.autograd.grad(given.loss(model, second), model.embedding.weight)[0]
    known = gradient_at(model, given, lambda state: changed(state, Tensor.detach))
    through = gradient_at(model, given, lambda state: state)
    assert torch.allclose(found, known, rtol=1e-10)
    assert not torch.allclose(found, through, rtol=1e-3)
    # inside the window it is whole: finite differences of the same loss, the state before it held
    state = changed(model.forward_from(first.tokens[:, :-1], empty_state(model, ROWS))[1], Tensor.detach)
    weight, step = model.embedding.weight, 1e-6

    def loss() -> float:
        logits = model.forward_from(second.tokens[:, :-1], state)[0]
        return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), second.tokens[:, 1:].flatten()))

    with torch.no_grad():
        weight[2, 1] += step
        above = loss()
        weight[2, 1] -= 2 * step
        below = loss()
        weight[2, 1] += step
    assert float(found[2, 1]) == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-9)


NETWORKS: dict[str, dict[str, Any]] = {
    "linear_attention": {},
    "sliding_window": {"window": 3},
    "rel_rnn": {"buffer": 3, "relevant": 2},
    "rel_lstm": {"buffer": 3, "relevant": 2},
    "mamba2": {},
    "diagonal_ssm": {"size": 4},  # whose state is complex
}
SETTINGS = {"optimizer": "rmsprop", "learning_rate": 0.01, "batch": ROWS, "patience": None}


def trained(
    path: Path | None, epochs: int, seed: int = 0, architecture: str = "lstm", **options: Any
) -> tuple[Any, Any]:
    model = network(architecture, **NETWORKS.get(architecture, {"dropout": 0.3}))
    given = task(windows=5, reset=0.3, seed=seed, **options)
    settings = FitSettings(epochs=epochs, **SETTINGS)
    return fit(model, given, settings, checkpoint=path, progress=False), model


class Killed(Exception):
    pass


@pytest.mark.parametrize("architecture", ["lstm", *NETWORKS])
def test_a_killed_training_goes_on_to_the_same_numbers(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs of two windows end anywhere in a pass of five, so that the state in the checkpoint is used, counts too."""
    whole, model = trained(tmp_path / "whole", 6, architecture=architecture, updates=2)
    resumed = []
    read = CarriedText.validation_loss

    def dying(self: CarriedText, *given: Any) -> float:
        resumed.append(0)
        if len(resumed) == 4:
            raise Killed
        return read(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(CarriedText, "validation_loss", dying)
        with pytest.raises(Killed):
            trained(tmp_path / "killed", 6, architecture=architecture, updates=2)
    again, other = trained(tmp_path / "killed", 6, architecture=architecture, updates=2)
    assert again.training_losses == whole.training_losses and again.validation_losses == whole.validation_losses
    assert all(torch.equal(mine, other.state_dict()[name]) for name, mine in model.state_dict().items())
    assert trained(None, 6, seed=1, architecture=architecture, updates=2)[0].training_losses != whole.training_losses


def test_a_state_without_its_counts_is_not_carried_on() -> None:
    given, model = task(), network("linear_attention")
    read_in_windows(model, given)
    kept = given.carried()
    assert [int(kept[name]) for name in sorted(kept) if "count" in name] == [3 * WINDOW]
    task().carry_on(model, kept, CPU)
    with pytest.raises(CheckpointError, match="state of another LinearTransformer"):
        task().carry_on(model, {name: one for name, one in kept.items() if "count" not in name}, CPU)


def test_a_training_that_forgets_its_state_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = trained(None, 6, updates=2)
    read = CarriedText.validation_loss
    epochs = []

    def dying(self: CarriedText, *given: Any) -> float:
        epochs.append(0)
        if len(epochs) == 5:
            raise Killed
        return read(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(CarriedText, "validation_loss", dying)
        with pytest.raises(Killed):
            trained(tmp_path / "killed", 6, updates=2)
    monkeypatch.setattr(CarriedText, "carry_on", lambda self, model, tensors, device: None)
    assert trained(tmp_path / "killed", 6, updates=2)[0].training_losses != whole.training_losses


def test_resets_come_at_their_rate_and_with_the_seed() -> None:
    given = task(reset=0.1, seed=3)
    drawn = np.array([given.is_reset(step) for step in range(4000)])
    assert abs(drawn.mean() - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 4000)
    assert [given.is_reset(step) for step in range(50)] == drawn[:50].tolist()
    assert [task(reset=0.1, seed=4).is_reset(step) for step in range(200)] != drawn[:200].tolist()
    assert not any(task().is_reset(step) for step in range(50))
    fresh = [batch.fresh for batch in given.batches(ROWS, 1, CPU)]
    assert fresh == [True, *(given.is_reset(step) for step in (4, 5))]  # a pass begins without a state


def test_validation_is_one_pass_whatever_the_window() -> None:
    model = network().eval()
    data = text(ROWS * 12 + 1, 2)
    losses = [text_loss(model, data, rows=ROWS, window=window) for window in (12, 4, 3)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-12)
    assert text_loss(model, data, rows=1, window=4) != pytest.approx(losses[0], rel=1e-6)  # other rows, other states
    for window, length in ((5, 10), (7, 7), (8, 8)):  # what is behind shorter pieces is left out
        shorter = text_loss(model, data[: ROWS * length + 1], rows=ROWS, window=length)
        found = text_loss(model, data, rows=ROWS, window=window)
        assert found == pytest.approx(shorter, rel=1e-12) and found != pytest.approx(losses[0], rel=1e-6)


def test_what_cannot_be_carried_is_refused() -> None:
    with pytest.raises(ValueError, match=r"state stays of one size.*Transformer"):
        task().loss(create("transformer", VOCABULARY, 8), next(iter(task().batches(ROWS, 0, CPU))))
    with pytest.raises(ValueError, match=r"training: 3 rows of 4 \+ 1 tokens, 13, are needed, got 12"):
        list(CarriedText(text(12), text(99), window=WINDOW).batches(ROWS, 0, CPU))
    with pytest.raises(ValueError, match=r"validation: .* are needed"):
        CarriedText(text(99), text(5), window=WINDOW).steps(ROWS)
    with pytest.raises(ValueError, match="reset: a probability"):
        task(reset=1.5)
    with pytest.raises(ValueError, match=r"tokens 0 .. 4 are allowed, got 0 .. 9"):
        CarriedText(np.arange(10), text(9), window=2, vocabulary=5)


def test_a_text_that_the_network_has_seen_is_learned() -> None:
    repeated = np.tile(np.arange(VOCABULARY), 30)
    given = CarriedText(repeated, repeated, window=5, reset=0.1)
    settings = FitSettings(optimizer="adam", learning_rate=0.03, batch=2, epochs=12, patience=None)
    assert fit(network().float(), given, settings, progress=False).best_loss < 0.1
    shuffled = CarriedText(text(150), text(150, 1), window=5)
    assert fit(network().float(), shuffled, settings, progress=False).best_loss > 1.2


def test_the_rate_is_annealed_after_every_epoch_that_gained_nothing() -> None:
    settings = FitSettings(optimizer="sgd", learning_rate=20, anneal=4)
    losses = [3.0, 2.0, 2.5, 2.0]
    assert [settings.annealing(losses[:epochs]) for epochs in range(5)] == [1.0, 1.0, 1.0, 1 / 4, 1 / 16]
    assert settings.annealing([3.0, 2.0, 2.5, 1.0]) == 1 / 4  # what was lost once stays lost
    assert FitSettings(learning_rate=20).annealing([1.0, 2.0]) == 1.0


def test_an_annealed_training_takes_smaller_steps(tmp_path: Path) -> None:
    def moved(anneal: float | None) -> float:
        model, data = network().float(), text(60).reshape(6, 10)
        before = [p.detach().clone() for p in model.parameters()]
        settings = FitSettings(optimizer="sgd", learning_rate=1.0, epochs=3, batch=6, patience=None, anneal=anneal)
        worse = iter([1.0, 2.0, 0.5])
        given = NextToken(data, data)
        given.validation_loss = lambda model, device: next(worse)  # type: ignore[method-assign]
        fit(model, given, settings, progress=False)
        return sum(float((p.detach() - b).abs().sum()) for p, b in zip(model.parameters(), before, strict=True))

    assert moved(1000.0) < moved(None)


def test_the_decay_of_the_embedding_is_the_gradient_of_its_square() -> None:
    model = network(embedding=4)
    moved = {}
    for decay in (0.0, 0.5):
        settings = FitSettings(optimizer="sgd", learning_rate=1e-3, embedding_decay=decay)
        optimizer = settings.make_optimizer(model.parameters(), (), [model.embedding.weight])
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        moved[decay] = {name: (p.detach() - before[name]).abs().max() for name, p in model.named_parameters()}
        if decay:
            change = model.embedding.weight.detach() - before["embedding.weight"]
            assert torch.allclose(change, -1e-3 * 2 * decay * before["embedding.weight"])
    assert not any(moved[0.0].values())
    assert [name for name, change in moved[0.5].items() if change] == ["embedding.weight"]


def test_dropout_is_of_seed_and_update_and_leaves_other_draws_alone() -> None:
    data = text(40).reshape(4, 10)
    settings = FitSettings(epochs=2, batch=2, patience=None)

    def losses(seed: int, dropout: float) -> list[float]:
        return fit(network(dropout=dropout), NextToken(data, data, seed=seed), settings, progress=False).training_losses

    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = losses(0, 0.5)
    assert torch.equal(torch.rand(3), expected)
    assert losses(0, 0.5) == first
    assert losses(0, 0.0) != first


def test_a_tied_head_is_the_embedding() -> None:
    model = network(embedding=None, tied=True).eval()
    names = [name for name, _ in model.named_parameters()]
    assert "head.weight" not in names and "head.bias" in names
    tokens = torch.from_numpy(text(8)[None])
    x = model.embedding(tokens)
    for layer in model.layers:
        x = layer(x)
    assert torch.allclose(model(tokens), x @ model.embedding.weight.T + model.head.bias, rtol=1e-12)
    with torch.no_grad():
        before = model(tokens)
        model.embedding.weight[0] += 1.0
    assert not torch.allclose(model(tokens)[..., 0], before[..., 0])
    with pytest.raises(ValueError, match="tied: an embedding as wide as the layers, 8, is allowed, got 2"):
        network(tied=True)
    with pytest.raises(ValueError, match="dropout: a share"):
        network(dropout=1.0)
    with pytest.raises(ValueError, match="embedding_start"):
        network(embedding_start="diagonal")


def test_an_orthogonal_start_is_orthonormal() -> None:
    weight = create("lstm", 7, 4, embedding=3, embedding_start="orthogonal").embedding.weight
    assert torch.allclose(weight.T @ weight, torch.eye(3), atol=1e-6)
    plain = create("lstm", 7, 4, embedding=3).embedding.weight
    assert not torch.allclose(plain.T @ plain, torch.eye(3), atol=0.1)
