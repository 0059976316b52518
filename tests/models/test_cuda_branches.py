"""What the code asks of CUDA alone, with stand-ins for torch's functions: the right device, exact products."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.gaussians.task import Stopwatch
from lib.models import create
from lib.models.kernels import recurrent
from lib.models.kernels.scan.plain import mamba_ssm_function
from lib.runs import store as run_store
from lib.training.settings import PRECISIONS, forward_pass, matrix_products


class Event:
    """Knows the stream it was recorded on, and counts in milliseconds as CUDA does."""

    clock = 0

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self, stream: Any = None) -> None:
        Event.clock += 250
        self.stream, self.time = stream, Event.clock

    def elapsed_time(self, later: Event) -> float:
        assert self.stream == later.stream
        return later.time - self.time


def test_a_stopwatch_measures_the_device_it_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: ("stream of", device))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waited.append(device))
    second = torch.device("cuda", 1)
    watch = Stopwatch(second)
    for _ in range(3):
        with watch:
            pass
    assert {event.stream for pair in watch._events for event in pair} == {("stream of", second)}
    assert watch.total() == pytest.approx(0.75)
    assert waited == [second]
    assert watch.total() == pytest.approx(0.75)  # what was counted is not counted again


def test_the_memory_of_a_run_is_that_of_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: {"cuda:1": 3e9}.get(device, 0.0))
    assert run_store._provenance("cuda:1", 1.0)["peak_gpu_memory_MB"] == 3000.0
    assert "peak_gpu_memory_MB" not in run_store._provenance("cpu", 1.0)


def settings() -> tuple[str, bool]:
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_precision_holds_for_cudnn_too_and_is_undone(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (("highest", True), ("high", False)):
        torch.set_float32_matmul_precision(before[0])
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before[1])
        with pytest.raises(KeyboardInterrupt), matrix_products(precision):
            assert settings() == (("highest", False) if precision == "float32" else ("high", True))
            raise KeyboardInterrupt
        assert settings() == before
    torch.set_float32_matmul_precision("highest")


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_rounding_is_asked_of_the_device_that_computes() -> None:
    for device in ("cuda", "cpu"):
        with forward_pass("bfloat16", torch.device(device, 0)) as autocast:
            assert autocast.device == device and autocast.fast_dtype == torch.bfloat16
    for precision in ("float32", "tf32"):
        with forward_pass(precision, torch.device("cuda")) as nothing:
            assert nothing is None


def refuses_backward_unless_trained(kernel: Any) -> Any:
    """A fused kernel with the rule of cuDNN's: a backward pass only behind a forward pass that was told of one."""

    def fused(*arguments: Any) -> Any:
        train = arguments[-3]
        results = kernel(*arguments)
        if not train and results[0].requires_grad:
            results[0].register_hook(lambda gradient: pytest.fail("backward behind a kernel that was not trained"))
        return results

    return fused


@pytest.mark.parametrize(("architecture", "kernel"), [("rnn", "rnn_tanh"), ("lstm", "lstm"), ("relu_rnn", "rnn_relu")])
def test_recurrent_networks_have_gradients_while_they_are_evaluated(
    architecture: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = refuses_backward_unless_trained(getattr(torch, kernel))
    monkeypatch.setattr(torch, kernel, fused)
    monkeypatch.setattr(recurrent, "_is_compiled", lambda *_: False)  # as on a GPU
    model = create(architecture, 3, 4).eval()
    model(torch.tensor([[0, 1, 2]])).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    layer = model.layers[0]  # the rule itself: told that it is not trained, it lets no gradient through
    x = torch.ones(1, 2, layer.weight_ih.shape[1], requires_grad=True)
    arguments = list(recurrent._arguments_of_torch(layer.weight_ih, layer.weight_hh, layer.bias))
    arguments[-3] = False
    zeros = layer.bias.new_zeros(1, 1, 4)
    with pytest.raises(pytest.fail.Exception):
        fused(x, (zeros, zeros) if kernel == "lstm" else zeros, *arguments)[0].sum().backward()


@pytest.fixture
def not_loaded() -> Iterator[None]:
    """mamba-ssm is as good as never imported, and what a test imports under its name is gone after it."""
    own = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "mamba_ssm"}
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "mamba_ssm"]:
        del sys.modules[name]
    sys.modules.update(own)


@pytest.mark.usefixtures("not_loaded")
def test_a_mamba_ssm_that_cannot_be_imported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    where = ("mamba_ssm.ops.selective_scan_interface", "selective_scan_fn")
    folder = tmp_path / "mamba_ssm" / "ops"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("import a_library_that_is_missing\n")
    with pytest.warns(UserWarning, match=r"mamba-ssm is installed and of no use.*a_library_that_is_missing"):
        assert mamba_ssm_function(*where) is None
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "selective_scan_interface.py").write_text("def selective_scan_fn(): return 'found'\n")
    assert mamba_ssm_function(*where)() == "found"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mamba_ssm_function("mamba_ssm.what_is_not_there", "selective_scan_fn") is None
