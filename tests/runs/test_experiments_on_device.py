"""Every experiment that trains is run to its end on a device that stands in for a GPU, and finds what the CPU finds.

Experiments and their runs are those of the files: a new one is rehearsed without being listed here. A training is cut
short after two updates, and what is only more of the same is made smaller; all that comes before and after is done.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lib.runs.definition import Experiment, Run, experiment_files
from lib.training import FitSettings, NextToken, fit
from tests.models.stand_in_device import DEVICE, OnDevice, WrongDevice, stand_in_device

UPDATES = 2
SHOWN = {"size", "layers", "architecture", "width"}  # parameters, where a rehearsal fails
AT_MOST = {"row": 256, "frames": 256, "episodes": 2}  # of what is written, played, or played as a test
ONLY_LONGER = {"layers"}  # of a process: runs that differ in nothing else take the same ways through the code
MEASURED_BY_THE_CLOCK = {"writing_seconds", "training_seconds", "tokens_per_second", "data_share"}


def experiments() -> list[str]:
    return sorted(experiment_files())


def runs(experiment: str) -> list[Run]:
    """One run for each set of parameters of profile smoke, the shortest of those that differ in length alone."""
    found: dict[str, Run] = {}
    every = [run for run in Experiment(experiment).runs("smoke") if run.seed == 0]
    for run in sorted(every, key=lambda run: [run.parameters.get(name, 0) for name in ONLY_LONGER]):
        others = {name: value for name, value in run.parameters.items() if name not in ONLY_LONGER}
        found.setdefault(str(others), smaller(run))
    return list(found.values())


def smaller(run: Run) -> Run:
    sizes = {name: min(size, run.parameters[name]) for name, size in AT_MOST.items() if name in run.parameters}
    return dataclasses.replace(run, parameters={**run.parameters, **sizes})


class FirstBatches:
    """A task with few batches an epoch."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Any]:
        return itertools.islice(self.task.batches(batch, epoch, device), UPDATES)


Watch = Callable[[Any, Any], None]


def cut_short(patch: pytest.MonkeyPatch, watch: Watch) -> list[Any]:
    """Let every training that is started from now on have one short epoch; returns the courses. `watch` sees models."""
    courses: list[Any] = []

    def short(model: Any, task: Any, settings: FitSettings, **options: Any) -> Any:
        course = fit(model, FirstBatches(task), settings.model_copy(update={"epochs": 1}), **options)
        watch(model, course)
        courses.append(course)
        return course

    for module in [module for name, module in sys.modules.items() if name.split(".")[0] in ("lib", "experiments")]:
        if getattr(module, "fit", None) is fit:
            patch.setattr(module, "fit", short)
    return courses


def executed(run: Run, folder: Path, device: str, watch: Watch = lambda model, course: None) -> tuple[Any, list[Any]]:
    module = importlib.import_module(run.module)
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        courses = cut_short(patch, watch)
        return module.run(run.parameters, run.seed, folder, device=device), courses


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part, path)
    else:
        yield path, value


def numbers(result: Any) -> dict[tuple[str, ...], Any]:
    """The numbers of a result, by where they stand, without what the clock says."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for path, value in leaves(result):
        if not MEASURED_BY_THE_CLOCK & set(path):
            found.setdefault(path, []).append(value)
    return found


def assert_same(found: Any, expected: Any) -> None:
    """Equal but for rounding of float32 and of what is written with four digits: 1e-4 of the largest number beside."""
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        if all(isinstance(value, float) for value in values):
            scale = max(map(abs, values))
            np.testing.assert_allclose(found[path], values, rtol=0, atol=1e-4 * scale + 1e-6, err_msg=str(path))
        elif not any(isinstance(value, float) for value in values):
            assert found[path] == values, path


def trains(run: Run) -> bool:
    return "fit" in str(run.parameters)


def test_experiments_are_found_and_most_of_them_train() -> None:
    assert len({name for name in experiments() if all(map(trains, runs(name)))}) >= 5


@pytest.mark.parametrize("experiment", experiments())
def test_an_experiment_finds_on_the_device_what_it_finds_on_the_cpu(
    experiment: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for number, run in enumerate(runs(experiment)):
        with subtests.test(f"run {number}", **{name: run.parameters[name] for name in SHOWN & run.parameters.keys()}):
            (tmp_path / str(number)).mkdir()
            rehearse(run, tmp_path / str(number))


def rehearse(run: Run, folder: Path) -> None:
    def stepped_on_device(model: Any, course: Any) -> None:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        assert all(isinstance(x, OnDevice) for x in (*(p.detach() for p in model.parameters()), *gradients))
        with torch.no_grad():
            assert isinstance(first(model.step(example(model), model.initial_state(2))), OnDevice)
        precision = run.parameters.get("precision", "float32")
        assert torch.backends.cudnn.allow_tf32 == (precision != "float32")

    expected, _ = executed(run, folder / "cpu", "cpu")
    with stand_in_device():
        found, courses = executed(run, folder / "device", str(DEVICE), stepped_on_device)
    assert len(courses) == trains(run)
    assert all(np.isfinite(course.validation_losses).all() and course.best_epoch == 1 for course in courses)
    assert_same(numbers(found), numbers(expected))


def first(found: tuple[Any, Any]) -> Any:
    """What a step says of the next token, or the first part of it."""
    said = found[0]
    return said[0] if isinstance(said, tuple) else said


def example(model: Any) -> torch.Tensor:
    """Two tokens of the kind that the model reads."""
    if hasattr(model, "vocabulary"):
        return torch.zeros(2, dtype=torch.int64, device=DEVICE)
    return torch.zeros(2, model.copies, device=DEVICE)


def test_a_task_that_leaves_something_behind_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rehearsal with batches that stay on the CPU, and with a result that was made on one device only."""
    run = runs("binary_sequences")[0]

    def stays(self: NextToken, batch: int, epoch: int, device: torch.device) -> Iterator[torch.Tensor]:
        return batches(self, batch, epoch, torch.device("cpu"))

    batches = NextToken.batches
    with monkeypatch.context() as patch:
        patch.setattr(NextToken, "batches", stays)
        executed(run, tmp_path / "cpu", "cpu")  # nothing to see on the CPU
        with pytest.raises(WrongDevice, match="tensors of the device and of the CPU"), stand_in_device():
            executed(run, tmp_path / "device", str(DEVICE))
    with pytest.raises(AssertionError, match="losses"):
        assert_same({("losses",): [1.0, 2.0, 3.0]}, {("losses",): [1.0, 2.0, 3.001]})
