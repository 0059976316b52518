"""Updates that are captured once and replayed are those that are launched one by one.

What CUDA itself does is told by `tests/models/test_on_cuda.py`. Here a stand-in for a graph does what a graph does: it
runs what was captured again, on the memory that was there when it was captured, and is called with nothing else.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.processes import CopyTask
from lib.training import CarriedText, FitSettings, NextToken, StepLabels, fit, graphs
from lib.training.graphs import Stopped, Together, captured, may_capture, parts_of
from lib.training.tasks import moved
from lib.training.updates import FEWEST, GradientNorms, Updates

ROWS = np.random.default_rng(0).integers(4, size=(27, 9))
RATE = 2.0**-6  # a number of float32, as a captured step has it
SETTINGS = FitSettings(optimizer="adam", learning_rate=RATE, batch=4, epochs=10, patience=None, clip=0.05)


class Graph:
    """Holds what branches do, with their inputs; a call writes new numbers into them, and gradients into own memory."""

    made: list[Graph]

    def __init__(self, branches: Sequence[graphs.Branch], checked: bool = True) -> None:
        self.branches, self.checked, self.calls = list(branches), checked, 0
        self.inputs = [[part.clone() for part in branch.inputs] for branch in branches]
        for branch, inputs in zip(branches, self.inputs, strict=True):
            for _ in range(2):
                branch.run(inputs, False)
        parameters = [one for branch in branches for one in branch.parameters]
        self.gradients = [(one, None if one.grad is None else one.grad.clone()) for one in parameters]
        type(self).made.append(self)

    def __call__(self, inputs: Sequence[Sequence[Tensor]]) -> None:
        for branch, owns, parts in zip(self.branches, self.inputs, inputs, strict=True):
            for own, given in zip(owns, parts, strict=True):
                own.copy_(given)
            branch.run(owns, True)
        for parameter, own in self.gradients:
            if own is not None:
                own.copy_(parameter.grad)
            parameter.grad = own
        self.calls += 1


@contextlib.contextmanager
def stand_ins() -> Iterator[list[Graph]]:
    """Updates are captured on the CPU too, by stand-ins."""
    Graph.made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "may_capture", lambda device: True)
        patch.setattr(graphs, "Replay", Graph)
        yield Graph.made


def trained(task: Any, settings: FitSettings = SETTINGS, name: str = "lstm", **options: Any) -> Any:
    model = create(name, 4, 5, seed=1, **options)
    course = fit(model, task, settings, progress=False)
    return course, model.state_dict()


def copying() -> StepLabels:
    return StepLabels(CopyTask(3, symbols=2, recall=2), updates=7, validation=5)


class OtherBatch(NamedTuple):
    tokens: Tensor


class Wrapped(NextToken):
    """Its batches are more than tensors."""

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Any]:
        return map(OtherBatch, super().batches(batch, epoch, device))

    def loss(self, model: Any, batch: Any) -> Tensor:
        return super().loss(model, batch.tokens)


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop"])  # with and without the step in the graph
@pytest.mark.parametrize("clip", [0.05, None])
@pytest.mark.parametrize("kind", ["rows", "labels"])
def test_replayed_updates_are_those_launched_one_by_one(kind: str, clip: float | None, optimizer: str) -> None:
    settings = SETTINGS.model_copy(update={"clip": clip, "optimizer": optimizer})

    def task() -> Any:
        return NextToken(ROWS, ROWS[:5]) if kind == "rows" else copying()

    expected, weights = trained(task(), settings)
    with stand_ins() as made:
        found, others = trained(task(), settings)
    assert found.training_losses == expected.training_losses
    assert found.validation_losses == expected.validation_losses
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    # 27 rows are six batches of four and one of three; the first batch of each shape is launched by itself
    assert [graph.calls for graph in made] == ([6 * 10 - 1, 9] if kind == "rows" else [7 * 10 - 1])


def test_gradients_are_those_of_the_batch_whichever_graph_made_them() -> None:
    with stand_ins() as made:
        model, task = create("rnn", 4, 5, seed=1), NextToken(ROWS, ROWS[:5])
        settings = SETTINGS.model_copy(update={"optimizer": "sgd", "learning_rate": 1e-300, "clip": None})
        every = Updates(model, task, settings, settings.make_optimizer(model.parameters()), left=FEWEST)
        for rows in ([0, 1], [2, 3], [4], [5], [6, 7], [8]):
            batch = torch.from_numpy(ROWS[rows])
            every(batch, 1e-300, 0)
            expected = torch.autograd.grad(task.loss(model, batch), list(model.parameters()))
            for parameter, gradient in zip(model.parameters(), expected, strict=True):
                assert torch.equal(parameter.grad, gradient)
        assert [graph.calls for graph in made] == [2, 2]


def test_sums_are_those_of_the_updates_and_not_of_what_came_before_them() -> None:
    with stand_ins() as made:
        model, task = create("rnn", 4, 5, seed=1), NextToken(ROWS, ROWS[:5])
        every = Updates(model, task, SETTINGS, SETTINGS.make_optimizer(model.parameters()), left=FEWEST)
        for _ in range(2):
            every.begin()
            losses, norms = [], []
            for start in range(0, 24, 4):
                batch = torch.from_numpy(ROWS[start : start + 4])
                loss = task.loss(model, batch)
                gradients = torch.autograd.grad(loss, list(model.parameters()))
                losses.append(float(loss.detach()))
                norms.append(float(torch.stack([gradient.norm() for gradient in gradients]).norm()))
                every(batch, RATE, 0)
            mean, told = every.found()
            assert mean == pytest.approx(np.mean(losses), rel=1e-6)
            assert told.largest == pytest.approx(max(norms), rel=1e-5) and not told.lost
        assert made[0].calls == 11


@pytest.mark.parametrize(
    ("task", "settings", "options"),
    [
        (lambda: CarriedText(ROWS.ravel(), ROWS[:9].ravel(), window=5), SETTINGS, {}),
        (lambda: Wrapped(ROWS, ROWS[:5]), SETTINGS, {}),
        (lambda: NextToken(ROWS, ROWS[:5]), SETTINGS, {"dropout": 0.1}),
        (lambda: NextToken(ROWS, ROWS[:5]), SETTINGS.model_copy(update={"epochs": 7}), {}),  # 49 updates
    ],
)
def test_what_no_graph_can_hold_or_pays_for_is_launched_one_by_one(task: Any, settings: Any, options: Any) -> None:
    expected, _ = trained(task(), settings, **options)
    with stand_ins() as made:
        found, _ = trained(task(), settings, **options)
    assert not made and found.training_losses == expected.training_losses


def test_a_graph_that_cannot_be_made_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(Graph):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            raise RuntimeError("called a synchronizing CUDA operation")

    expected, weights = trained(NextToken(ROWS, ROWS[:5]))
    waited: list[None] = []
    with stand_ins() as made:
        monkeypatch.setattr(graphs, "Replay", Waits)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(None))
        found, others = trained(NextToken(ROWS, ROWS[:5]))
        assert captured([graphs.Branch(lambda given, enter: None, [torch.zeros(1)], [])]) is None
    assert len(made) == 3 and len(waited) == 3  # once for each shape, and the call above
    assert found.training_losses == expected.training_losses
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_only_cuda_captures_and_a_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(graphs.SWITCH, raising=False)
    assert may_capture(torch.device("cuda", 1))
    assert not any(may_capture(torch.device(kind)) for kind in ("cpu", "meta"))
    monkeypatch.setenv(graphs.SWITCH, "0")
    assert not may_capture(torch.device("cuda"))


def test_the_parts_of_a_batch_are_its_tensors() -> None:
    one, other = torch.zeros(2), torch.ones(3)
    assert parts_of(one) == (one,) and parts_of((one, other)) == (one, other)
    assert all(parts_of(given) is None for given in ([one], (one, 3), (), OtherBatch(one), None))


def test_what_is_told_of_gradients() -> None:
    assert GradientNorms().told == ""
    assert GradientNorms(2.5).told == ", after a gradient of norm 2.5"
    assert GradientNorms(math.inf).told == ", after a gradient whose norm is too large for its type"
    assert GradientNorms(lost=True).told == ", after a gradient that is no number"
    assert GradientNorms(2.5, True).told == ", after a gradient that is no number, and one of norm 2.5"


def test_arrays_are_moved_without_waiting_through_memory_that_a_gpu_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(moved(array, torch.device("cpu")), torch.from_numpy(array))
    how: list[Any] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: how.append("pinned") or self)
    monkeypatch.setattr(Tensor, "to", lambda self, device, non_blocking=False: how.append((device, non_blocking)))
    moved(array, torch.device("cuda", 1))
    assert how == ["pinned", (torch.device("cuda", 1), True)]


def side_by_side(tasks: Sequence[Any], several: Sequence[FitSettings]) -> list[Any]:
    """What `trained` finds for each, all in threads of one group."""
    together = Together(len(tasks))

    def one(task: Any, settings: FitSettings) -> Any:
        with together.member():
            return trained(task, settings)

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(60) for future in [pool.submit(one, *pair) for pair in zip(tasks, several, strict=True)]]


def test_networks_side_by_side_are_those_that_train_alone() -> None:
    several = [SETTINGS.model_copy(update=some) for some in ({}, {"epochs": 12}, {"learning_rate": 2.0**-7}, {})]

    def tasks() -> list[Any]:
        return [NextToken(ROWS, ROWS[:5]), NextToken(ROWS, ROWS[:5], seed=1), copying(), copying()]

    expected = [trained(task, settings) for task, settings in zip(tasks(), several, strict=True)]
    with stand_ins() as made:
        found = side_by_side(tasks(), several)
    for (course, weights), (other, others) in zip(expected, found, strict=True):
        assert course.training_losses == other.training_losses and course.validation_losses == other.validation_losses
        assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert {len(graph.branches) for graph in made} >= {4, 1}  # the longest goes on alone
    assert sum(graph.calls * len(graph.branches) for graph in made) > 0.9 * sum(7 * each.epochs for each in several)


def test_a_training_that_fails_or_never_was_one_does_not_keep_the_others_waiting() -> None:
    class Failing(NextToken):
        def validation_loss(self, model: Any, device: torch.device) -> float:
            raise ZeroDivisionError

    together = Together(3)

    def one(task: Any) -> Any:
        with together.member():
            return trained(task)[0].training_losses if task else None

    with stand_ins(), ThreadPoolExecutor(3) as pool:
        tasks = (NextToken(ROWS, ROWS[:5]), Failing(ROWS, ROWS[:5]), None)
        course, failed, nothing = [pool.submit(one, task) for task in tasks]
        assert course.result(60) == trained(tasks[0])[0].training_losses and nothing.result(60) is None
        with pytest.raises(ZeroDivisionError):
            failed.result(60)


def test_a_group_that_is_stopped_ends_all_its_trainings() -> None:
    together = Together(2)

    class Stopping(NextToken):
        def validation_loss(self, model: Any, device: torch.device) -> float:
            together.stop(KeyboardInterrupt("by hand"))
            return super().validation_loss(model, device)

    def one(task: Any) -> Any:
        with together.member():
            return trained(task)

    with stand_ins(), ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(one, kind(ROWS, ROWS[:5])) for kind in (NextToken, Stopping)]:
            with pytest.raises(Stopped, match="by hand"):
                future.result(60)


def test_a_launch_that_fails_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise MemoryError("none left")

    with stand_ins():
        monkeypatch.setattr(graphs, "captured", broken)
        together = Together(2)

        def one() -> Any:
            with together.member():
                return trained(NextToken(ROWS, ROWS[:5]))

        with ThreadPoolExecutor(2) as pool:
            faults = [type(future.exception(60)) for future in [pool.submit(one) for _ in range(2)]]
        assert sorted(fault.__name__ for fault in faults) == ["MemoryError", "Stopped"]


def test_a_group_has_somebody() -> None:
    with pytest.raises(ValueError, match="at least 1 is allowed, got 0"):
        Together(0)
