"""The torch path of hierarchical Gaussians makes the numbers of the NumPy path."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from lib.processes.gaussian import tree
from lib.processes.gaussian.hierarchical import FAMILIES, HierarchicalGaussian

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
devices = pytest.mark.parametrize("device", DEVICES)


@devices
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("coupling", ["symmetric", "cholesky"])
def test_the_same_noise_makes_the_same_sequences(device: str, family: str, coupling: str) -> None:
    law = HierarchicalGaussian(5, family, coupling)
    noise = np.random.default_rng(0).standard_normal((law.length, 8))
    expected = tree.from_noise(law.levels(), noise)
    made = law.on_device(device).from_noise(torch.from_numpy(noise))
    assert made.dtype == torch.float32 and made.device.type == device
    assert np.abs(made.cpu().numpy() - expected).max() < 1e-5
    exact = law.on_device(device, torch.float64).from_noise(torch.from_numpy(noise)).cpu().numpy()
    assert np.abs(exact - expected).max() < 1e-13


@devices
@pytest.mark.parametrize("family", FAMILIES)
def test_conditionals_of_tokens_agree(device: str, family: str) -> None:
    law = HierarchicalGaussian(6, family)
    on_device = law.on_device(device)
    tokens, means = on_device.sample_tokens_with_means(2, copies=5, seed=0)
    assert tokens.shape == means.shape == (2, law.length, 5)
    expected, variances = law.conditionals(tokens.double().cpu().numpy(), axis=1)
    again, spread = on_device.conditionals(tokens)
    for found in (means, again):
        assert np.abs(found.cpu().numpy() - expected).max() < 1e-5
    assert spread.shape == tokens.shape
    assert np.abs(spread.cpu().numpy() - variances).max() < 1e-6
    assert torch.equal(tokens, on_device.sample_tokens(2, copies=5, seed=0))


@devices
def test_every_device_draws_the_same_noise(device: str) -> None:
    law = HierarchicalGaussian(4)
    found, expected = (law.on_device(place, torch.float64).sample_tokens(2, 3, 5) for place in (device, "cpu"))
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=1e-12)


@devices
def test_a_generator_moves_on_and_a_seed_does_not(device: str) -> None:
    on_device = HierarchicalGaussian(2).on_device(device)
    draw = on_device.generator(1)
    first, second = on_device.sample_tokens(1, 4, draw), on_device.sample_tokens(1, 4, draw)
    assert not torch.equal(first, second)
    assert torch.equal(first, on_device.sample_tokens(1, 4, seed=1))


def test_samples_on_a_device_have_the_covariance_of_the_law() -> None:
    law = HierarchicalGaussian(2)
    x = law.on_device("cpu", torch.float64).sample_tokens(1, copies=100_000, seed=0)[0].numpy()
    spread = np.sqrt((1 + law.covariance() ** 2) / x.shape[1])  # standard error of a product of unit normals
    assert (np.abs(x @ x.T / x.shape[1] - law.covariance()) < 5 * spread).all()
    assert not (np.abs(x @ x.T / x.shape[1] - HierarchicalGaussian(2, "critical").covariance()) < 5 * spread).all()


def test_wrong_tensors_are_refused() -> None:
    law = HierarchicalGaussian(2)
    on_device = law.on_device("cpu")
    for shape in ((16, 4), (1, 15, 4), (1, 4, 16)):
        with pytest.raises(ValueError, match="shape"):
            on_device.conditionals(torch.zeros(shape))
    with pytest.raises(ValueError, match="dtype"):
        law.on_device("cpu", torch.float16)
    with pytest.raises(ValueError, match="n:"):
        on_device.sample_tokens(0)
    with pytest.raises(ValueError, match="seed"):
        on_device.generator(-1)


def test_torch_is_imported_only_when_asked_for() -> None:
    code = "import sys; from lib.processes.gaussian.hierarchical import HierarchicalGaussian as H; H(2).sample(1, 0); "
    code += "assert 'torch' not in sys.modules; H(2).on_device('cpu'); assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
