"""On a GPU: every network computes there what it computes on the CPU, by each of the ways that it may go there.

Skipped where there is no GPU. The same is rehearsed everywhere on a device that stands in for one
(`tests/models/test_device_rehearsal.py`, `tests/training/test_on_device.py`). How an experiment on a GPU differs from
the kept numbers of the CPU is told by `python -m lib fingerprint --device cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.models import ARCHITECTURES, create
from lib.models.kernels import recurrent
from lib.models.kernels.scan import scalar, selective
from lib.models.kernels.scan.plain import (
    chunked_scalar_decay_scan,
    chunked_selective_scan,
    sequential_selective_scan,
)
from lib.models.scoring import NetworkScorer
from lib.training import FitSettings, NextToken, fit, generate, graphs, position_losses, updates
from lib.training.settings import forward_pass, matrix_products
from tests.models.rehearsed_networks import NETWORKS, VOCABULARY, WIDTH, exercise, tokens_in_rows
from tests.training.test_on_device import LESSONS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
Both = list[list[Tensor]]


@pytest.fixture(autouse=True)
def full_factors() -> Iterator[None]:
    with matrix_products("float32"):
        yield


def alike(found: Any, expected: Any, tolerance: float) -> None:
    """Equal to `tolerance` of the largest number; AssertionError otherwise, and for what is not finite."""
    assert len(found) == len(expected)
    for number, (one, right) in enumerate(zip(found, expected, strict=True)):
        one, right = (torch.as_tensor(x).detach().cpu().double() for x in (one, right))
        assert torch.isfinite(one).all()
        scale = float(right.abs().max()) if right.numel() else 0.0
        torch.testing.assert_close(
            one, right, rtol=0, atol=tolerance * scale + 1e-12, msg=lambda m, n=number: f"{n}: {m}"
        )


def relative(found: Tensor, expected: Tensor) -> float:
    found, expected = (x.detach().cpu().double() for x in (found, expected))
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_float64_is_that_of_the_cpu(name: str) -> None:
    network = NETWORKS[name]
    expected = exercise(network.make().double(), network.inputs)
    alike(exercise(network.make().double().to(CUDA), network.inputs.to(CUDA)), expected, 1e-8)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_float32_is_that_of_the_cpu_in_float64(name: str) -> None:
    network = NETWORKS[name]
    expected = exercise(network.make().double(), network.inputs)
    inputs = network.inputs.float() if network.inputs.is_floating_point() else network.inputs
    found = exercise(network.make().float().to(CUDA), inputs.to(CUDA))
    total = max(float(x.abs().max()) for x in expected)
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.detach().cpu().double(), right, rtol=2e-3, atol=2e-5 * total + 1e-6)


@pytest.mark.parametrize("length", [150, 1025])
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_long_sequences_agree_in_value_and_gradient(name: str, length: int) -> None:
    if length > 200 and name not in ("transformer", "linear_attention", "mamba", "mamba2", "rnn", "lstm"):
        pytest.skip("a loop over time: the shorter length tells as much")
    tokens = torch.from_numpy(np.random.default_rng(2).integers(VOCABULARY, size=(3, length)))

    def computed(model: Any, tokens: Tensor) -> list[Tensor]:
        out = model(tokens[:, :-1])
        loss = F.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
        return [out, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)]

    expected = computed(create(name, VOCABULARY, WIDTH, 1, seed=3).double(), tokens)
    exact = computed(create(name, VOCABULARY, WIDTH, 1, seed=3).double().to(CUDA), tokens.to(CUDA))
    alike(exact, expected, 1e-6)
    found = computed(create(name, VOCABULARY, WIDTH, 1, seed=3).to(CUDA), tokens.to(CUDA))
    for one, right in zip(found[:1], expected[:1], strict=True):
        assert relative(one, right) < 1e-3
    size = torch.stack([x.norm() for x in expected[1:]]).norm()
    off = torch.stack([(a.cpu().double() - b).norm() for a, b in zip(found[1:], expected[1:], strict=True)]).norm()
    assert float(off / size) < 1e-3


def scan_inputs(
    kind: torch.dtype, batch: int = 2, length: int = 300, channels: int = 24, size: int = 16
) -> list[Tensor]:
    random = np.random.default_rng(0)
    shapes = [(batch, length, channels), (batch, length, channels), (channels, size)]
    shapes += [(batch, length, size), (batch, length, size), (channels,)]
    u, delta, A, B, C, D = (torch.from_numpy(random.standard_normal(shape)) for shape in shapes)
    return [x.to(kind).to(CUDA) for x in (u, 0.1 * delta.abs(), -A.abs() - 0.1, B, C, D)]


def with_gradients(function: Any, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = function(*leaves)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device, dtype=torch.float64).reshape(out.shape)
    return [out, *torch.autograd.grad((out.double() * weights).sum(), leaves)]


def sequential(u: Tensor, *rest: Tensor) -> Tensor:
    A = rest[1]
    return sequential_selective_scan(u, *rest, u.new_zeros(u.shape[0], *A.shape))[0]


@pytest.fixture
def installed() -> None:
    pytest.importorskip("mamba_ssm", reason="mamba-ssm is not installed", exc_type=ImportError)


@pytest.mark.parametrize("length", [1, 5, 300, 1024, 2049])
def test_the_scan_of_mamba_ssm_is_the_recursion(installed: None, length: int) -> None:
    exact = with_gradients(sequential, scan_inputs(torch.float64, length=length))
    assert selective.choose_way(torch.zeros(1, 1, 1, device=CUDA), 16, True, False) == "mamba-ssm"
    found = with_gradients(selective.selective_scan, scan_inputs(torch.float32, length=length))
    for one, right in zip(found, exact, strict=True):
        assert right.norm() > 0 or length == 1  # a single step starts from zero, and rates change nothing
        assert float((one.double() - right).norm()) <= 1e-4 * float(right.norm())


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_mamba_ssm_agrees_with_its_own_reference(installed: None, kind: torch.dtype) -> None:
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn, selective_scan_ref

    u, delta, A, B, C, D = scan_inputs(torch.float32)
    inputs = [u.mT.contiguous().to(kind), delta.mT.contiguous().to(kind), A, B.mT.contiguous().to(kind),
              C.mT.contiguous().to(kind), D]  # fmt: skip
    found, expected = (with_gradients(scan, inputs) for scan in (selective_scan_fn, selective_scan_ref))
    for one, right in zip(found, expected, strict=True):
        assert relative(one, right) < (1e-4 if kind == torch.float32 else 3e-2)


def test_the_torch_way_of_the_scan_is_the_recursion() -> None:
    def chunked(u: Tensor, *rest: Tensor) -> Tensor:
        return chunked_selective_scan(u, *rest, u.new_zeros(u.shape[0], *rest[1].shape))[0]

    alike(
        with_gradients(chunked, scan_inputs(torch.float64)),
        with_gradients(sequential, scan_inputs(torch.float64)),
        1e-9,
    )
    exact = with_gradients(sequential, scan_inputs(torch.float64))
    for one, right in zip(with_gradients(chunked, scan_inputs(torch.float32)), exact, strict=True):
        assert relative(one, right) < 1e-4


@pytest.mark.parametrize("length", [5, 128, 300, 1024])
@pytest.mark.parametrize(("heads", "width", "size"), [(4, 16, 16), (2, 64, 64), (8, 1, 16)])
def test_the_scan_of_mamba2_by_mamba_ssm_is_ours(
    installed: None, heads: int, width: int, size: int, length: int
) -> None:
    random = np.random.default_rng(0)
    shapes = [(2, length, heads, width), (2, length, heads), (heads,), (2, length, size), (2, length, size), (heads,)]
    u, delta, A, B, C, D = (torch.from_numpy(random.standard_normal(shape)).to(CUDA) for shape in shapes)
    exact = [u, 0.1 * delta.abs(), -A.abs() - 0.1, B, C, D]
    expected = with_gradients(chunked_scalar_decay_scan, exact)
    inputs = [x.float() for x in exact]
    for one, right in zip(with_gradients(scalar.scalar_decay_scan, inputs), expected, strict=True):
        assert relative(one, right) < 1e-4
    with matrix_products("tf32"):  # 11 bits of the factors
        found = with_gradients(scalar.scalar_decay_scan, inputs)
    for one, right in zip(found, expected, strict=True):
        assert relative(one, right) < 1e-2


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_recurrent_networks_are_those_of_cudnn(kind: str) -> None:
    torch.manual_seed(0)
    layer: Any = {"rnn": nn.RNN, "lstm": nn.LSTM}[kind](3, 20, batch_first=True).to(CUDA)
    x = torch.randn(7, 90, 3, device=CUDA)
    zero = x.new_zeros(7, 20)
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0 + layer.bias_hh_l0]
    ours = recurrent.rnn(x, *weights, zero) if kind == "rnn" else recurrent.lstm(x, *weights, zero, zero)[0]
    alike([ours], [layer(x)[0]], 1e-5)


ROUNDED = [("tf32", name) for name in ("transformer", "mamba", "mamba2", "lstm", "linear_attention")]
ROUNDED += [("bfloat16", name) for name in ("transformer", "mamba2", "lstm")]  # the scan of Mamba has no such tokens


@pytest.mark.parametrize(("precision", "name"), ROUNDED)
def test_rounded_products_move_a_loss_little(name: str, precision: str) -> None:
    tokens = torch.from_numpy(np.random.default_rng(2).integers(VOCABULARY, size=(8, 200)))
    model = create(name, VOCABULARY, 64, 2, seed=3).to(CUDA)

    def loss(precision: str) -> tuple[float, Tensor]:
        model.zero_grad()
        with matrix_products(precision), forward_pass(precision, CUDA):
            out = model(tokens[:, :-1].to(CUDA))
        found = F.cross_entropy(out.float().flatten(0, 1), tokens[:, 1:].flatten().to(CUDA))
        with matrix_products(precision):
            found.backward()
        return float(found.detach()), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    exact, found = loss("float32"), loss(precision)
    assert found[0] == pytest.approx(exact[0], rel=5e-3)
    assert relative(found[1], exact[1]) < 0.1


@pytest.mark.parametrize("name", LESSONS)
def test_a_training_on_the_gpu_is_that_of_the_cpu(name: str) -> None:
    settings = FitSettings(optimizer="adam", learning_rate=0.01, batch=4, epochs=2)

    def trained(device: torch.device) -> Any:
        model = LESSONS[name].model().to(device)
        course = fit(model, LESSONS[name].task(), settings, progress=False)
        assert {parameter.device for parameter in model.parameters()} == {device}
        return course

    expected, found = trained(CPU), trained(CUDA)
    tolerance = 0.05 if name.endswith("bfloat16") else 0.02 if name.endswith("tf32") else 2e-3
    for losses in ("training_losses", "validation_losses"):
        assert getattr(found, losses) == pytest.approx(getattr(expected, losses), rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop", "sgd"])
def test_a_training_goes_on_from_a_checkpoint_of_the_other_device(optimizer: Any, tmp_path: Any) -> None:
    settings = FitSettings(optimizer=optimizer, learning_rate=0.01, batch=5, epochs=3, clip=0.1)

    def going_on(first: torch.device, second: torch.device) -> Any:
        file = tmp_path / f"{first}-{second}"

        class Stopped(NextToken):
            def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
                if epoch == 2:
                    raise KeyboardInterrupt
                return super().batches(batch, epoch, device)

        def model(device: torch.device) -> Any:
            return create("mamba", VOCABULARY, 4, size=3, seed=5).double().to(device)

        with pytest.raises(KeyboardInterrupt):
            task = Stopped(tokens_in_rows(9), tokens_in_rows(4, seed=5))
            fit(model(first), task, settings, checkpoint=file, progress=False)
        task = NextToken(tokens_in_rows(9), tokens_in_rows(4, seed=5))
        return fit(model(second), task, settings, checkpoint=file, progress=False).validation_losses

    expected = going_on(CPU, CPU)
    for pair in ((CPU, CUDA), (CUDA, CPU), (CUDA, CUDA)):
        assert going_on(*pair) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_sequences_and_scores_are_those_of_the_cpu(name: str) -> None:
    model = create(name, VOCABULARY, WIDTH, seed=7).double()
    there = create(name, VOCABULARY, WIDTH, seed=7).double().to(CUDA)
    np.testing.assert_array_equal(
        generate(there, 3, 12, 0, device=CUDA, batch=2), generate(model, 3, 12, 0, device=CPU, batch=2)
    )
    rows = tokens_in_rows(5)
    for ask in (
        lambda model, device: position_losses(model, rows, batch=2, device=device),
        lambda model, device: NetworkScorer(model, [1, 2], device=device).log_probabilities(rows),
    ):
        np.testing.assert_allclose(ask(there, CUDA), ask(model, CPU), rtol=1e-7, atol=1e-9)


def by_graphs(allowed: bool, name: str, settings: FitSettings) -> tuple[Any, int, Any]:
    """Course, number of graphs and weights of a training, with updates captured or launched one by one."""
    made: list[graphs.Replay] = []

    class Counted(graphs.Replay):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(graphs.SWITCH, "1" if allowed else "0")
        patch.setattr(updates, "FEWEST", 1)
        patch.setattr(graphs, "Replay", Counted)
        model = create(name, VOCABULARY, WIDTH, seed=7).to(CUDA)
        task = NextToken(tokens_in_rows(22), tokens_in_rows(5, seed=5))
        course = fit(model, task, settings, progress=False)
    return course, len(made), {name: tensor.cpu() for name, tensor in model.state_dict().items()}


REPLAYED = ("transformer", "sliding_window", "linear_attention", "mamba", "mamba2", "rnn", "lstm")
"""Networks of which every update is captured; others that ask the GPU for a number are launched one by one."""


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_updates_that_are_replayed_are_those_launched_one_by_one(name: str, optimizer: Any) -> None:
    settings = FitSettings(optimizer=optimizer, learning_rate=0.003, batch=4, epochs=4, clip=0.1, patience=None)
    expected, none, weights = by_graphs(False, name, settings)
    found, count, others = by_graphs(True, name, settings)
    assert none == 0 and count in ((2,) if name in REPLAYED else (0, 2))  # batches of four rows, and one of two
    assert found.training_losses == pytest.approx(expected.training_losses, rel=1e-4)
    assert found.validation_losses == pytest.approx(expected.validation_losses, rel=1e-4)
    for one, other in weights.items():
        torch.testing.assert_close(others[one], other, rtol=2e-2, atol=2e-3)


def test_after_an_update_that_no_graph_can_hold_training_goes_on() -> None:
    class Reading(NextToken):
        def loss(self, model: Any, batch: Tensor) -> Tensor:
            loss = super().loss(model, batch)
            return loss * float(loss.detach() > 0)  # reads a number of the GPU

    def losses(task: Any) -> list[float]:
        model = create("transformer", VOCABULARY, WIDTH, seed=7).to(CUDA)
        settings = FitSettings(optimizer="adam", learning_rate=0.003, batch=4, epochs=12, patience=None)
        return fit(model, task, settings, progress=False).training_losses

    rows = tokens_in_rows(20), tokens_in_rows(5, seed=5)
    assert losses(Reading(*rows)) == pytest.approx(losses(NextToken(*rows)), rel=1e-3)
