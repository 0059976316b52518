"""The device that stands in for a GPU computes as the CPU does, and refuses what a GPU refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.models import create
from lib.training import FitSettings, NextToken, fit
from tests.models.stand_in_device import DEVICE, WrongDevice, held, stand_in_device

ROWS = [[0, 1, 2, 1, 0, 2], [2, 2, 1, 0, 1, 1]]


def numbers(*shape: int, kind: Any = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=kind)


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "products": lambda x: (x @ x.mT).softmax(-1) @ x,
    "transposed in place": lambda x: x.clone().transpose_(0, 1).unsqueeze_(0) * 2,
    "written into a part": lambda x: torch.zeros_like(x).index_put((torch.arange(2),), x[:2]) + x.new_ones(3, 4),
    "conjugated": lambda x: (torch.complex(x, 2 * x) * torch.complex(x.exp(), x).conj()).abs(),
    "transformed": lambda x: torch.fft.irfft(torch.fft.rfft(x, 8) * torch.fft.rfft(x.flip(0), 8), 8),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "an accumulator": lambda x: torch.zeros((), dtype=x.dtype, device=x.device).add_(x.square().sum()),
    "data": lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device) + x.new_tensor(0.5),
    "parts": lambda x: torch.stack([part * number for number, part in enumerate(x.unbind(1))]),
    "an index from the CPU": lambda x: x[torch.tensor([2, 0, 0])],
    "a number from the CPU": lambda x: x * torch.tensor(3.0),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_numbers_and_gradients_are_those_of_the_cpu(name: str) -> None:
    formula = FORMULAS[name]
    x = numbers(3, 4).requires_grad_()
    expected = formula(x)
    gradient = torch.autograd.grad(expected.square().sum(), x)[0]
    with stand_in_device():
        y = x.detach().to(DEVICE).requires_grad_()
        found = formula(y)
        assert found.device == DEVICE and found.shape == expected.shape
        torch.testing.assert_close(held(found.detach()), expected.detach(), rtol=1e-12, atol=1e-12)
        slope = torch.autograd.grad(found.square().sum(), y)[0]
        torch.testing.assert_close(held(slope), gradient, rtol=1e-12, atol=1e-12)


REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a sum": lambda here, there: here + there,
    "a product": lambda here, there: there @ here.mT,
    "a list": lambda here, there: torch.cat([there, here]),
    "a list with a single number": lambda here, there: torch.stack([there.sum(), here.sum()]),
    "an accumulator of the CPU": lambda here, there: here.sum().add_(there.sum()),
    "rows of the CPU by an index of the device": lambda here, there: here[there.argmax(0)],
    "values of the CPU written at an index": lambda here, there: there.index_put((torch.tensor([0]),), here[:1]),
    "targets on the CPU": lambda here, there: F.cross_entropy(there, torch.zeros(3, dtype=torch.int64)),
    "a generator of the CPU": lambda here, there: torch.randn(3, device=DEVICE, generator=torch.Generator()),
    "drawing in place": lambda here, there: there.normal_(generator=torch.Generator()),
    "no generator": lambda here, there: torch.rand(3, device=DEVICE),
    "a generator of the device on the CPU": lambda here, there: torch.rand(3, generator=torch.Generator(DEVICE)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_refuses_is_refused(name: str) -> None:
    with stand_in_device():
        here = numbers(3, 4)
        with pytest.raises(RuntimeError):
            REFUSED[name](here, here.to(DEVICE))


def test_numpy_and_compiled_loops_refuse_its_tensors() -> None:
    with stand_in_device():
        there = numbers(3).to(DEVICE)
        for convert in (Tensor.numpy, np.asarray):
            with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported"):
                convert(there)
        assert there.cpu().numpy().shape == (3,)


def test_a_number_that_is_read_makes_the_program_wait() -> None:
    with stand_in_device() as waiting:
        there = numbers(3).to(DEVICE)
        (there * 2).sum().add_(1)
        assert waiting.reads == 0
        float(there.sum())
        there.cpu()
        assert bool(torch.equal(there, there))
        assert waiting.reads == 3


def test_the_same_seed_draws_the_same_numbers() -> None:
    with stand_in_device():
        first, second = (
            torch.randn(4, generator=torch.Generator(DEVICE).manual_seed(5), device=DEVICE) for _ in range(2)
        )
        assert torch.equal(first, second)


class BufferLeftBehind(nn.Module):  # type: ignore[misc]
    """A model with a tensor that `to` does not know of."""

    vocabulary = 3

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 3)
        self.shift = torch.ones(3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens) + self.shift


class TargetsOnTheCPU(NextToken):
    def loss(self, model: Any, batch: Tensor) -> Tensor:
        return F.cross_entropy(model(batch[:, :-1].long()).flatten(0, 1), torch.tensor(ROWS)[:, 1:].flatten())


def train(model: Any, task: NextToken) -> None:
    fit(model, task, FitSettings(epochs=1, batch=2), progress=False)


@pytest.mark.parametrize(
    ("model", "task"), [(BufferLeftBehind, NextToken), (lambda: create("rnn", 3, 2), TargetsOnTheCPU)]
)
def test_a_buffer_left_behind_and_targets_on_the_cpu_are_caught(model: Any, task: Any) -> None:
    train(model(), task(ROWS, ROWS))  # nothing to see on the CPU
    with stand_in_device(), pytest.raises(WrongDevice, match="tensors of the device and of the CPU"):
        train(model().to(DEVICE), task(ROWS, ROWS))
    with pytest.raises(RuntimeError, match="device"):  # and by torch itself, without numbers
        network = model().to(DEVICE)
        task(ROWS, ROWS).loss(network, torch.tensor(ROWS, device=DEVICE)).backward()
