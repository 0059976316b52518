"""CUDA graphs: what a GPU is to do, captured once and launched as a whole, for one network or several side by side."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

SWITCH = "BOOK_CUDA_GRAPHS"  # 0 in the environment: nothing is captured
KEPT = 8  # graphs of a group at a time
_THREAD = threading.local()


class Branch(NamedTuple):
    """Work for a graph: run(inputs, enter) leaves gradients in the parameters.

    enter: whether it may change anything else. It reads no number of the device, and does the same whenever it is run.
    """

    run: Callable[[Sequence[Tensor], bool], None]
    inputs: Sequence[Tensor]
    parameters: Sequence[Any]


class Replay:
    """What branches do with their inputs, as one CUDA graph: called, it does the same with other numbers in these.

    Branches are run once or twice before they are captured, on a stream of their own, without `enter`. checked: the
    first of these runs raises RuntimeError if something reads a number of the device; it would also hit other threads.
    In the graph each branch has a stream, so that the GPU can work on several at a time. Gradients lie in memory of the
    graph, to which the parameters' point after each call.
    """

    def __init__(self, branches: Sequence[Branch], checked: bool = True) -> None:
        self.inputs = [[part.clone() for part in branch.inputs] for branch in branches]
        device = self.inputs[0][0].device
        aside, now = torch.cuda.Stream(device), torch.cuda.current_stream(device)
        aside.wait_stream(now)
        with torch.cuda.stream(aside):
            for branch, inputs in zip(branches, self.inputs, strict=True):
                with _waiting_refused() if checked else contextlib.nullcontext():
                    branch.run(inputs, False)
                branch.run(inputs, False)
        now.wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        self._streams = [torch.cuda.Stream(device) for _ in branches]  # kept as long as the graph
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            main = torch.cuda.current_stream(device)
            for branch, inputs, stream in zip(branches, self.inputs, self._streams, strict=True):
                stream.wait_stream(main)
                with torch.cuda.stream(stream):
                    branch.run(inputs, True)
            for stream in self._streams:
                main.wait_stream(stream)
        self.gradients = [(one, one.grad) for branch in branches for one in branch.parameters]

    def __call__(self, inputs: Sequence[Sequence[Tensor]]) -> None:
        for owns, parts in zip(self.inputs, inputs, strict=True):
            for own, given in zip(owns, parts, strict=True):
                own.copy_(given)
        self.graph.replay()
        for parameter, gradient in self.gradients:
            parameter.grad = gradient


def captured(branches: Sequence[Branch], checked: bool = True) -> Replay | None:
    """A `Replay`, or None if a branch reads a number of the device or does something else that no graph can hold."""
    try:
        return Replay(branches, checked)
    except RuntimeError:  # also where memory is short: more than one batch is held for a moment
        torch.cuda.synchronize()
        return None


def may_capture(device: torch.device) -> bool:
    """Whether work on this device is captured at all."""
    return device.type == "cuda" and os.environ.get(SWITCH, "1") != "0"


def parts_of(batch: Any) -> tuple[Tensor, ...] | None:
    """The tensors of a batch that is one, or a plain tuple of some; None for others."""
    parts = (batch,) if isinstance(batch, Tensor) else batch
    whole = type(parts) is tuple and parts and all(isinstance(part, Tensor) for part in parts)
    return parts if whole else None


class Stopped(RuntimeError):
    """Raised in the threads of a group that was stopped, or in which a launch failed."""


class Together:
    """Trainings in `count` threads of this process, whose updates are branches of one graph.

    Each thread works inside `member()`. An update is done once all threads that are still there have arrived at one;
    the last to arrive launches it. A thread whose training is over leaves, and goes on by itself. Raises ValueError for
    counts below 1.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count: at least 1 is allowed, got {count!r}")
        self._awaited = self._count = count
        self._arrived: dict[Any, tuple[Hashable, Branch]] = {}
        self._graphs: dict[Any, Replay | None] = {}
        self._round, self._replayed = 0, False
        self._fault: BaseException | None = None
        self._turn = threading.Condition()

    @contextlib.contextmanager
    def member(self) -> Iterator[None]:
        """This thread belongs to the group."""
        _THREAD.group, _THREAD.here = self, True
        try:
            yield
        finally:
            self.leave()
            _THREAD.group = None

    def here(self) -> bool:
        """Whether this thread is still awaited."""
        return bool(_THREAD.here)

    def leave(self) -> None:
        """The others need not wait for this thread any more; again, it changes nothing."""
        with self._turn:
            if _THREAD.here:
                _THREAD.here = False
                self._awaited -= 1
                self._graphs.clear()  # they have this thread's branch
                self._launch_if_all_are_here()

    def stop(self, fault: BaseException) -> None:
        """End the trainings of all threads: where they next meet, they raise Stopped."""
        with self._turn:
            self._fault = fault
            self._turn.notify_all()

    def update(self, who: Any, shape: Hashable, branch: Branch) -> bool:
        """Do what this branch is to do, together with the others'; False if no graph could hold them."""
        with self._turn:
            self._arrived[who] = shape, branch
            mine = self._round
            self._launch_if_all_are_here()
            self._turn.wait_for(lambda: self._round > mine or self._fault is not None)
            if self._fault is not None:
                raise Stopped(f"another training of this process ended it: {self._fault}") from self._fault
            return self._replayed

    def _launch_if_all_are_here(self) -> None:
        if not self._arrived or len(self._arrived) < self._awaited or self._fault is not None:
            return
        given = dict(sorted(self._arrived.items(), key=lambda item: id(item[0])))
        self._arrived = {}
        key = tuple((id(who), shape) for who, (shape, _) in given.items())
        branches = [branch for _, branch in given.values()]
        try:
            if key not in self._graphs:
                while len(self._graphs) >= KEPT:
                    del self._graphs[next(iter(self._graphs))]
                self._graphs[key] = captured(branches, checked=self._awaited == self._count)
            graph = self._graphs[key]
            if graph is not None:
                graph([branch.inputs for branch in branches])
            self._replayed = graph is not None
        except BaseException as fault:
            self._fault = fault
            raise
        finally:
            self._round += 1
            self._turn.notify_all()


def group() -> Together | None:
    """The group of this thread, if it has one."""
    return getattr(_THREAD, "group", None)


@contextlib.contextmanager
def _waiting_refused() -> Iterator[None]:
    """Whatever makes the program wait for the GPU raises RuntimeError."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is young
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
