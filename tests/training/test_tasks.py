"""The loss of a batch: -ln softmax by its definition, whatever way it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lib.models import create
from lib.training import CarriedText, FitSettings, NextToken, fit, generate, position_losses, text_loss
from lib.training.tasks import mean_loss


@pytest.mark.parametrize("vocabulary", [2, 3, 7])
@pytest.mark.parametrize("scale", [1.0, 300.0])  # differences that exp cannot hold in float32
def test_the_loss_is_its_definition_with_its_gradient(vocabulary: int, scale: float) -> None:
    rng = np.random.default_rng(vocabulary)
    given, tokens = scale * rng.standard_normal((4, 9, vocabulary)), rng.integers(vocabulary, size=(4, 9))
    logits = torch.from_numpy(given).requires_grad_()
    loss = mean_loss(logits, torch.from_numpy(tokens))
    loss.backward()
    largest = given.max(axis=-1, keepdims=True)
    weights = np.exp(given - largest)
    chosen = np.take_along_axis(given - largest, tokens[..., None], axis=-1)[..., 0]
    assert float(loss.detach()) == pytest.approx((np.log(weights.sum(axis=-1)) - chosen).mean(), rel=1e-13)
    shares = weights / weights.sum(axis=-1, keepdims=True)
    assert np.allclose(logits.grad, (shares - np.eye(vocabulary)[tokens]) / tokens.size, rtol=1e-12, atol=1e-17)
    assert torch.isfinite(mean_loss(torch.from_numpy(given).float(), torch.from_numpy(tokens)))


def test_a_token_mistaken_for_the_other_shows() -> None:
    logits, tokens = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]]), torch.tensor([[1, 0]])
    assert float(mean_loss(logits, 1 - tokens)) > float(mean_loss(logits, tokens)) + 1


GOOD, BAD = np.tile([0, 1], (4, 2)), np.array([[0, 1, 0, 7]] * 8)
UNKNOWN = r"tokens: 0 \.\. \d are in the vocabulary, got 0 \.\. 7"


@pytest.mark.parametrize("vocabulary", [2, 3])
def test_a_token_that_is_only_predicted_has_to_be_in_the_vocabulary(vocabulary: int) -> None:
    model, settings = create("lstm", vocabulary, 4), FitSettings(epochs=1, batch=8)
    for task in (NextToken(BAD, GOOD), NextToken(GOOD, BAD), CarriedText([*GOOD[0], 7], GOOD[0], window=2)):
        with pytest.raises(ValueError, match=UNKNOWN):
            fit(model, task, settings.model_copy(update={"batch": 1}), progress=False)
    with pytest.raises(ValueError, match=UNKNOWN):
        text_loss(model, BAD[0], rows=1, window=3)
    model.train()
    with pytest.raises(ValueError, match=UNKNOWN):
        position_losses(model, BAD)
    assert model.training
    with pytest.raises(ValueError, match=r"got 0 \.\. 3"):
        mean_loss(torch.zeros(1, 2, vocabulary), torch.tensor([[0, 3]]))


def test_on_a_device_that_is_not_waited_for_the_host_knows_the_largest_token() -> None:
    with torch.device("meta"):
        model, batch = create("lstm", 2, 4), torch.zeros(8, 4, dtype=torch.int64)
    assert NextToken(GOOD, GOOD).loss(model, batch).device.type == "meta"
    with pytest.raises(ValueError, match=UNKNOWN):
        NextToken(BAD, GOOD).loss(model, batch)


def test_tokens_of_any_memory_order_are_taken() -> None:
    model, turned = create("lstm", 2, 4), GOOD.astype(np.uint8)[:, ::-1]
    assert np.array_equal(position_losses(model, turned), position_losses(model, turned.copy()))
    assert np.array_equal(NextToken(turned, turned).training, turned)
    assert text_loss(model, GOOD[0].astype(">i4"), rows=1, window=3) == text_loss(model, GOOD[0], rows=1, window=3)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_sizes_that_cannot_be_are_refused_by_name(size: Any) -> None:
    model, task = create("lstm", 2, 4), NextToken(GOOD, GOOD)
    for name, asked in (
        ("batch", lambda: position_losses(model, GOOD, batch=size)),
        ("batch", lambda: task.steps(size)),
        ("batch", lambda: list(task.batches(size, 0, torch.device("cpu")))),
        ("rows", lambda: text_loss(model, GOOD[0], rows=size, window=2)),
        ("window", lambda: text_loss(model, GOOD[0], rows=1, window=size)),
    ):
        with pytest.raises(ValueError, match=f"{name}: a whole number"):
            asked()


def test_texts_and_tokens_that_cannot_be_are_refused_by_name() -> None:
    model = create("lstm", 2, 4)
    for text in ([], [0.5, 1.0, 0.0], [[0, 1], [1]], GOOD, None):
        with pytest.raises(ValueError, match="text: "):
            text_loss(model, text, rows=1, window=1)
    for rows in ([[0, 1], [1]], [[0.5, 1.0]], [[]]):
        with pytest.raises(ValueError, match="sequences: "):
            position_losses(model, rows)
    with pytest.raises(ValueError, match="tokens of at least 0 are allowed, got -1"):
        NextToken(-GOOD, GOOD)


def test_a_model_is_left_in_the_mode_it_was_in_where_generating_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = create("lstm", 2, 4)
    monkeypatch.setattr(model, "step", lambda token, state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        generate(model, 2, 3, 0)
    assert model.training
