"""Training on a device that stands in for a GPU: batches, losses, updates and checkpoints, as on the CPU."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

import lib.training
from experiments.books.task import DocumentWindows
from experiments.gaussians.continuous import LAYERS
from experiments.gaussians.task import GaussianPrediction
from experiments.key_values.task import KeyValues
from experiments.ngram_rules.task import EXAMPLES, REDUCTIONS, SentencePrediction
from lib import ROOT
from lib.models import create
from lib.processes import CopyTask, HierarchicalGaussian, SantaFeProcess
from lib.training import CarriedText, FitSettings, NextToken, StepLabels, fit
from lib.training import settings as settings_module
from lib.training.settings import PRECISIONS
from tests.models.rehearsed_networks import VOCABULARY, gaussian_network, tokens_in_rows
from tests.models.stand_in_device import DEVICE, OnDevice, stand_in_device

DOCUMENTS = [np.random.default_rng(3).integers(VOCABULARY, size=size) for size in (30, 40)]
TEXT = np.random.default_rng(4).integers(VOCABULARY, size=81)
SENTENCES = [[0, 1, 2, 3], [2, 2], [3, 0, 1], [1, 1], [0, 3]]
GAUSSIAN, COPY = HierarchicalGaussian(2), CopyTask(3, symbols=3, recall=2)
FACTS = SantaFeProcess(0.7, topics=4, values=3)


class Lesson(NamedTuple):
    """A task, and a network that it can train."""

    task: Callable[[], Any]
    model: Callable[[], Any]


def lessons() -> dict[str, Lesson]:
    def network() -> Any:  # not a Transformer: the keys' bias has no gradient but rounding, which Adam makes large
        return create("mamba", VOCABULARY, 4, size=3, seed=5).double()

    def labeller() -> Any:
        return create("mamba", COPY.vocabulary, 4, size=3, seed=5).double()

    def reader() -> Any:
        return create("lstm", VOCABULARY, 4, seed=5).double()

    def recaller() -> Any:
        return create("mamba", FACTS.values + FACTS.topics, 4, size=3, seed=5).double()

    def penalty(model: Any) -> Tensor:
        return model.head.weight.square().sum()

    def windows() -> Any:
        starts = [np.arange(len(document)) for document in DOCUMENTS]
        validation = tokens_in_rows(3).astype(np.int64)
        return DocumentWindows(DOCUMENTS, starts, validation, length=6, epoch_steps=3, vocabulary=VOCABULARY)

    found = {
        "NextToken": Lesson(lambda: NextToken(tokens_in_rows(9), tokens_in_rows(4, seed=5)), network),
        "DocumentWindows": Lesson(windows, network),
        "CarriedText": Lesson(lambda: CarriedText(TEXT, TEXT, window=5, reset=0.3), reader),
        "StepLabels": Lesson(lambda: StepLabels(COPY, updates=3, validation=5, scored=COPY.recall_steps), labeller),
        "KeyValues": Lesson(lambda: KeyValues(FACTS, 5, updates=3, validation=4), recaller),
    }
    for examples in EXAMPLES:
        for reduction in REDUCTIONS:
            options = {"examples": examples, "reduction": reduction, "penalty": penalty}
            found[f"SentencePrediction, {examples}, {reduction}"] = Lesson(
                lambda options=options: SentencePrediction(SENTENCES, VOCABULARY - 1, **options), network
            )
    for name in LAYERS:
        for precision in PRECISIONS:
            found[f"GaussianPrediction of {name}, {precision}"] = Lesson(
                lambda precision=precision: GaussianPrediction(
                    GAUSSIAN, 2, copies=3, validation=3, precision=precision
                ),
                lambda name=name: gaussian_network(name, GAUSSIAN.length),
            )
    return found


LESSONS = lessons()


def trained(lesson: Lesson, settings: FitSettings, device: torch.device, checkpoint: Path | None = None) -> Any:
    """Course and weights of a training; the weights on the CPU."""
    model = lesson.model().to(device)
    course = fit(model, lesson.task(), settings, checkpoint=checkpoint, progress=False)
    assert all(parameter.device == device for parameter in model.parameters())
    assert all(isinstance(parameter.detach(), OnDevice) == (device == DEVICE) for parameter in model.parameters())
    return course, {name: tensor.cpu() for name, tensor in model.state_dict().items()}


def assert_same_course(found: Any, expected: Any, tolerance: float | None = None) -> None:
    double = all(tensor.dtype == torch.float64 for tensor in expected[1].values())
    tolerance = tolerance or (1e-7 if double else 2e-4)  # of rounding, which an optimizer makes larger
    for name in ("training_losses", "validation_losses"):
        assert getattr(found[0], name) == pytest.approx(getattr(expected[0], name), rel=tolerance, abs=tolerance)
    assert found[0].reason == expected[0].reason
    for name, tensor in expected[1].items():
        torch.testing.assert_close(found[1][name], tensor, rtol=tolerance, atol=tolerance)


CPU = torch.device("cpu")
CHOICES = {name: get_args(FitSettings.model_fields[name].annotation) for name in ("optimizer", "schedule", "clip_by")}


def test_every_task_has_a_lesson() -> None:
    tasks = set()
    modules = [module.name for module in pkgutil.iter_modules(lib.training.__path__, "lib.training.")]
    modules += [f"experiments.{path.parent.name}.task" for path in (ROOT / "experiments").glob("*/task.py")]
    for module in modules:
        for name, value in vars(importlib.import_module(module)).items():
            if (
                inspect.isclass(value)
                and not getattr(value, "_is_protocol", False)
                and {"steps", "batches", "loss"} <= set(dir(value))
            ):
                tasks.add(name)
    assert {re.split("[, ]", name)[0] for name in LESSONS} == tasks


@pytest.fixture(autouse=True)
def one_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same step on both: where a gradient is nearly zero, Adam makes large what two kernels round differently."""
    monkeypatch.setattr(settings_module, "has_fused_step", lambda parameters: False)


@pytest.mark.parametrize("name", LESSONS)
def test_a_training_on_the_device_is_that_of_the_cpu(name: str) -> None:
    settings = FitSettings(optimizer="adam", learning_rate=0.01, batch=4, epochs=2)
    expected = trained(LESSONS[name], settings, CPU)
    with stand_in_device():
        found = trained(LESSONS[name], settings, DEVICE)
    # the CPU rounds to bfloat16, the device that stands in has no such products
    assert_same_course(found, expected, 0.05 if name.endswith("bfloat16") else None)


@pytest.mark.parametrize("clip_by", CHOICES["clip_by"])
@pytest.mark.parametrize("optimizer", CHOICES["optimizer"])
def test_a_training_goes_on_from_a_checkpoint_of_any_device(optimizer: Any, clip_by: Any, tmp_path: Path) -> None:
    lesson = LESSONS["NextToken"]
    choices = {"optimizer": optimizer, "clip_by": clip_by, "clip": 0.1, "weight_decay": 0.01}
    settings = FitSettings(schedule="cosine", warm_up=2, learning_rate=0.01, batch=5, epochs=3, **choices)
    expected = trained(lesson, settings, CPU)

    def interrupted(device: torch.device, file: Path) -> Path:
        class Stopped(NextToken):
            def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
                if epoch == 2:
                    raise KeyboardInterrupt
                return super().batches(batch, epoch, device)

        with pytest.raises(KeyboardInterrupt):
            task = Stopped(tokens_in_rows(9), tokens_in_rows(4, seed=5))
            fit(lesson.model().to(device), task, settings, checkpoint=file, progress=False)
        return file

    def optimizers(patch: pytest.MonkeyPatch) -> list[torch.optim.Optimizer]:
        made: list[torch.optim.Optimizer] = []
        make = FitSettings.make_optimizer
        patch.setattr(FitSettings, "make_optimizer", lambda *given: made.append(make(*given)) or made[-1])
        return made

    from_cpu = interrupted(CPU, tmp_path / "cpu")
    with stand_in_device(), pytest.MonkeyPatch.context() as patch:
        assert_same_course(trained(lesson, settings, DEVICE), expected)
        from_device = interrupted(DEVICE, tmp_path / "device")
        made = optimizers(patch)
        for file in (from_cpu, from_device):
            again = file.with_name(f"{file.name}-copy")
            again.write_bytes(file.read_bytes())
            assert_same_course(trained(lesson, settings, DEVICE, again), expected)
        for state in (state for one in made for state in one.state.values()):
            assert all(x.device == DEVICE or not x.ndim for x in state.values() if isinstance(x, Tensor))
    assert_same_course(trained(lesson, settings, CPU, from_device), expected)


def test_a_device_is_not_waited_for_within_an_epoch() -> None:
    class Reading(NextToken):
        def loss(self, model: Any, batch: Tensor) -> Tensor:
            loss = super().loss(model, batch)
            float(loss.detach())
            return loss

    def reads(kind: type[NextToken], rows: int) -> int:
        with stand_in_device() as waiting:
            model = create("mamba", VOCABULARY, 4).to(DEVICE)
            fit(model, kind(tokens_in_rows(rows), tokens_in_rows(2)), FitSettings(batch=1, epochs=1), progress=False)
            return waiting.reads

    assert reads(NextToken, 2) == reads(NextToken, 6)
    assert reads(Reading, 2) + 4 == reads(Reading, 6)
