"""The state space model of Def. 3.6 and the RNN of Def. A.5 against their equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.models import ReluRNN, ReluSSM
from lib.models.recurrent.relu import LinearStateLayer, _LinearRecurrence


def tokens(seed=0, shape=(3, 9)):
    return torch.from_numpy(np.random.default_rng(seed).integers(5, size=shape))


def test_states_are_the_sum_of_powers_of_the_transition() -> None:
    model = ReluSSM(5, 7, embedding=3, seed=1).double()
    layer, read = model.layers[0], tokens()
    x = model.embedding(read)
    states = layer.states(x)
    for t in range(read.shape[1]):
        expected = sum(
            x[:, t - i] @ (torch.linalg.matrix_power(layer.transition, i) @ layer.input_matrix).T for i in range(t + 1)
        )
        assert torch.allclose(states[:, t], expected, atol=1e-13)
    logits = torch.relu(states + layer.bias) @ model.head.weight.T
    assert torch.allclose(model(read), logits, atol=1e-14)
    assert model.head.bias is None


def test_gradients_of_the_recurrence_are_those_of_its_definition() -> None:
    layer = LinearStateLayer(3, 4).double()
    x = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def outputs(x, transition, inputs, bias):
        hidden, found = torch.zeros(2, 4, dtype=torch.float64), []
        for t in range(x.shape[1]):
            hidden = hidden @ transition.T + x[:, t] @ inputs.T
            found.append(torch.relu(hidden + bias))
        return torch.stack(found, dim=1)

    weights = [layer.weight_hh, layer.input_matrix, layer.bias]
    with torch.no_grad():
        layer.bias.uniform_(-0.1, 0.1)
    probe = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad((layer(x) * probe).sum(), [x, *weights])
    plain = torch.autograd.grad((outputs(x, *weights) * probe).sum(), [x, *weights])
    for one, other in zip(ours, plain, strict=True):
        assert torch.allclose(one, other, atol=1e-13)


def test_numerical_gradients_agree() -> None:
    draw = torch.Generator().manual_seed(3)
    driven = torch.randn(2, 4, 3, dtype=torch.float64, generator=draw, requires_grad=True)
    transition = torch.randn(3, 3, dtype=torch.float64, generator=draw, requires_grad=True)
    assert torch.autograd.gradcheck(_LinearRecurrence.apply, (driven, transition))


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_a_window_makes_a_power_of_the_transition_exactly_zero(window) -> None:
    layer = LinearStateLayer(3, 11, "orthogonal", window)
    assert not torch.linalg.matrix_power(layer.transition, window).any()
    if window > 1:
        assert torch.linalg.matrix_power(layer.transition, window - 1).any()
    model = ReluSSM(5, 11, embedding=3, window=window, seed=4)
    read, other = tokens(1, (4, 10)), tokens(2, (4, 10))
    other[:, -window:] = read[:, -window:]
    assert torch.allclose(model(read)[:, -1], model(other)[:, -1], atol=1e-7)
    longer = read.clone()
    longer[:, -window - 1] = (longer[:, -window - 1] + 1) % 5
    assert torch.allclose(model(read)[:, -1], model(longer)[:, -1], atol=1e-7)
    nearer = read.clone()
    nearer[:, -window] = (nearer[:, -window] + 1) % 5
    assert not torch.allclose(model(read)[:, -1], model(nearer)[:, -1], atol=1e-4)


def test_a_window_survives_training() -> None:
    model = ReluSSM(5, 8, embedding=3, window=2, seed=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(tokens()).square().sum().backward()
        optimizer.step()
    assert not torch.linalg.matrix_power(model.layers[0].transition, 2).any()


def test_initial_transitions_have_the_spectra_they_are_named_for() -> None:
    width = 400
    uniform = np.abs(np.linalg.eigvals(LinearStateLayer(2, width, "uniform").transition.detach().double().numpy()))
    assert abs(np.mean(uniform <= 3**-0.5 * 1.05) - 1) < 0.01
    assert np.mean(uniform <= 3**-0.5 / 2**0.5) == pytest.approx(
        0.5, abs=0.05
    )  # the circular law: half in half the area
    orthogonal = np.abs(np.linalg.eigvals(LinearStateLayer(2, width, "orthogonal").transition.detach().numpy()))
    assert orthogonal == pytest.approx(1.0, abs=1e-4)
    assert not LinearStateLayer(2, width, "zero").transition.any()


def test_the_rnn_steps_through_its_relu() -> None:
    model = ReluRNN(5, 7, embedding=3, seed=1).double()
    layer, read = model.layers[0], tokens()
    hidden = torch.zeros(3, 7, dtype=torch.float64)
    for t, x in enumerate(model.embedding(read).unbind(1)):
        hidden = torch.relu(hidden @ layer.transition.T + x @ layer.input_matrix.T + layer.bias)
        assert torch.allclose(model(read)[:, t], hidden @ model.head.weight.T + model.head.bias, atol=1e-13)


@pytest.mark.parametrize(
    "choices", [{"initial": "normal"}, {"window": 0}, {"window": 9}, {"embedding": 0}, {"depth": 0}, {"width": 0}]
)
def test_other_sizes_and_names_are_refused(choices) -> None:
    with pytest.raises(ValueError):
        ReluSSM(**{"vocabulary": 5, "width": 8, **choices})
