"""GORU against its equations, its orthogonal matrix against a product of plane rotations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.models.base import seeded
from lib.models.recurrent.gated_orthogonal import GatedOrthogonalLayer


def layer_of(width: int, inputs: int = 3) -> GatedOrthogonalLayer:
    with seeded(2):
        layer = GatedOrthogonalLayer(inputs, width).double()
    with torch.no_grad():
        for parameter in (layer.weight_ih, layer.weight_hh):
            parameter.mul_(60)  # as released, gates hardly depend on anything at first
        layer.threshold.uniform_(-0.2, 0.2)
    return layer


def rotations(layer: GatedOrthogonalLayer, neighbours_first: bool = False) -> np.ndarray:
    """Q as a product of rotations of two units each, one angle after the other."""
    n, angles = layer.width, layer.angles.detach().numpy()
    Q = np.eye(n)
    for number in range(len(angles)):
        block = 2 << number if neighbours_first else n >> number
        for place, angle in enumerate(angles[number]):
            start, within = divmod(place, block // 2)
            i, j = start * block + within, start * block + within + block // 2
            turn = np.eye(n)
            turn[[i, i, j, j], [i, j, i, j]] = [np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)]
            Q = turn @ Q
    return Q


@pytest.mark.parametrize("width", [1, 2, 8, 16])
def test_the_matrix_is_a_product_of_rotations(width: int) -> None:
    layer = layer_of(width)
    Q = layer.rotation().detach().numpy()
    np.testing.assert_allclose(Q, rotations(layer), atol=1e-14)
    np.testing.assert_allclose(Q @ Q.T, np.eye(width), atol=1e-14)
    if width > 2:
        assert np.abs(Q - rotations(layer, neighbours_first=True)).max() > 0.1
        assert np.abs(Q).min() > 0  # every unit reaches every other


@pytest.mark.parametrize(("width", "batch", "time"), [(2, 2, 9), (8, 21, 17), (32, 3, 40)])
def test_the_compiled_loop_is_the_steps_of_torch(width: int, batch: int, time: int) -> None:
    layer = layer_of(width)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((batch, time, 3))).requires_grad_()
    factors = torch.from_numpy(np.random.default_rng(2).standard_normal((batch, time, width)))
    nothing, ones = torch.zeros(batch, width).double(), torch.ones(batch, width).double()

    def found(outputs: Tensor) -> list[Tensor]:
        return [outputs, *torch.autograd.grad((outputs * factors).sum(), [x, *layer.parameters()])]

    def agree(one: list[Tensor], other: list[Tensor]) -> bool:
        return all(torch.allclose(a, b, rtol=1e-9, atol=1e-10) for a, b in zip(one, other, strict=True))

    compiled = found(layer(x))
    assert agree(compiled, found(layer(x, nothing)))
    assert not agree(compiled, found(layer(x, ones)))


def test_states_are_those_of_the_equations() -> None:
    layer, n = layer_of(8), 8
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 7, 3)))
    U, W, b, Q = (y.detach().numpy() for y in (layer.weight_ih, layer.weight_hh, layer.bias, layer.rotation()))

    def expected(rotated_after_the_gate: bool) -> np.ndarray:
        states = np.zeros((2, 7, n))
        for row in range(2):
            h = np.zeros(n)
            for t in range(7):
                of_r, of_g, of_c = np.split(U @ x[row, t].numpy(), 3)
                r = 1 / (1 + np.exp(-(of_r + W[:n] @ h + b[:n])))
                g = 1 / (1 + np.exp(-(of_g + W[n:] @ h + b[n:])))
                z = (Q @ (r * h) if rotated_after_the_gate else r * (Q @ h)) + of_c
                c = np.sign(z) * np.maximum(0, np.abs(z) + layer.threshold.detach().numpy())
                h = g * h + (1 - g) * c
                states[row, t] = h
        return states

    found = layer(x).detach().numpy()
    np.testing.assert_allclose(found, expected(False), atol=1e-13)
    assert np.abs(found - expected(True)).max() > 1e-3


def test_weights_start_as_released() -> None:
    with seeded(0):
        layer = GatedOrthogonalLayer(40, 64)
    for kernel in (layer.weight_ih, layer.weight_hh):
        assert 0.0099 < float(kernel.detach().abs().max()) <= 0.01
    assert layer.angles.shape == (6, 32)
    assert 3 < float(layer.angles.detach().abs().max()) <= 3.14
    assert (layer.bias[:64] == 2).all() and (layer.threshold == 0.01).all()
    largest = (3 / 64) ** 0.5
    assert 0.9 * largest < float(layer.bias[64:].detach().abs().max()) <= largest


def test_a_width_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(ValueError, match="width: a power of 2 is allowed, got 6"):
        create("goru", 5, 6)
