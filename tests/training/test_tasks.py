"""The loss of a batch: -ln softmax by its definition, whatever way it is computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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
