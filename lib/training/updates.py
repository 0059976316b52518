"""One update of the weights after another; on a GPU each is replayed as one CUDA graph, several networks side by side.

An update of a small network is some hundred kernels of a few microseconds, and a GPU waits for their launches. A graph
(`lib.training.graphs`) launches them together: the same kernels on the same numbers, captured once for every shape that
batches have. The graph of a `Together` has the updates of several networks as branches.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lib.models.base import seeded
from lib.training import graphs
from lib.training.settings import FitSettings
from lib.training.tasks import NOISE, CarryingTask, Task

FEWEST = 50  # updates left in a training for which capturing pays
SHAPES = 2  # of batches, that have a graph: the usual one and that of the last batch of an epoch


@dataclass(frozen=True)
class GradientNorms:
    """Gradients of one epoch before they were clipped; none where nothing is clipped.

    largest: the largest norm that is a number, infinite if its square is too large for its type. lost: some gradient of
    a loss that was a number was none.
    """

    largest: float = math.nan
    lost: bool = False

    @property
    def told(self) -> str:
        """What the reason of a training that diverged says of them; empty if nothing is known."""
        known = "whose norm is too large for its type" if math.isinf(self.largest) else f"of norm {self.largest:.3g}"
        if self.lost:
            return ", after a gradient that is no number" + ("" if math.isnan(self.largest) else f", and one {known}")
        return "" if math.isnan(self.largest) else f", after a gradient {known}"


class Updates:
    """The updates of one training, and what they were since `begin`: mean loss, largest norm of a gradient.

    left: updates that are still to come. On a GPU they are captured if the loss is a function of the model and the
    batch alone (no `CarryingTask`, no dropout, a batch of tensors), and if no number is read on the way; the step is
    part of it where it is one kernel (`settings.has_fused_step`), which then has its rate rounded to float32. Others
    are launched kernel by kernel, and so are all where `graphs.SWITCH` says so. In a thread of a `graphs.Together` an
    update is done with those of the other threads. Sums stay on the device until `found` reads them, so that it is not
    waited for.
    """

    def __init__(
        self, model: Any, task: Task, settings: FitSettings, optimizer: torch.optim.Optimizer, left: int
    ) -> None:
        self.model, self.task, self.settings, self.optimizer = model, task, settings, optimizer
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.device = self.parameters[0].device
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)
        self.largest = torch.full((), math.nan, dtype=torch.float64, device=self.device)
        self.lost = torch.zeros((), dtype=torch.bool, device=self.device)
        self.count = 0
        self.capturing = left >= FEWEST and graphs.may_capture(self.device) and not isinstance(task, CarryingTask)
        self.capturing = self.capturing and not getattr(model, "dropout", 0.0)
        self.stepping = self.capturing and all(group.get("fused") for group in optimizer.param_groups)
        for group in optimizer.param_groups if self.stepping else ():
            group["capturable"] = True
            group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=self.device)
        self.together = graphs.group()
        if self.together is not None and not self.capturing:
            self.together.leave()
        self.graphs: dict[Any, graphs.Replay | None] = {}
        self._seen: Counter[Any] = Counter()

    def begin(self) -> None:
        """Forget the sums, before an epoch."""
        self.count = 0
        self.total.zero_()
        self.lost.zero_()
        self.largest.fill_(math.nan)

    def found(self) -> tuple[float, GradientNorms]:
        """Mean loss since `begin`, nats, and what the gradients were; waits for the device."""
        return float(self.total) / max(1, self.count), GradientNorms(float(self.largest), bool(self.lost))

    def __call__(self, batch: Any, rate: float, step: int) -> None:
        """One update at this learning rate; step: its number in the training, from 0, which dropout is drawn from."""
        for group in self.optimizer.param_groups:
            own = rate * group.get("fraction", 1.0)
            if self.stepping:
                group["lr"].fill_(own)
            else:
                group["lr"] = own
        done = self.replayed(batch)
        if not done:
            with _noise(self.model, getattr(self.task, "seed", 0), step):
                self.gradients(batch)
        if not (done and self.stepping):
            self.optimizer.step()
        self.count += 1

    def gradients(self, batch: Any, enter: bool = True) -> None:
        """Gradients of the loss, clipped; enter: whether they count in the sums."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.task.loss(self.model, batch)
        loss.backward()
        norm = self.settings.clip_gradients(self.parameters)
        if enter:
            self.total += loss.detach()
        if enter and norm is not None:
            self.largest.copy_(torch.fmax(self.largest, norm))
            self.lost |= loss.detach().isfinite() & norm.isnan()

    def close(self) -> None:
        """Training is over: others are not to wait for it."""
        if self.together is not None:
            self.together.leave()

    def branch(self, batch: Any, parts: Sequence[Tensor]) -> graphs.Branch:
        """An update by a batch of this shape, for a graph."""
        alone = isinstance(batch, Tensor)

        def run(given: Sequence[Tensor], enter: bool) -> None:
            self.gradients(given[0] if alone else tuple(given), enter)
            if enter and self.stepping:
                self.optimizer.step()

        return graphs.Branch(run, parts, self.parameters)

    def replayed(self, batch: Any) -> bool:
        """Do what a graph holds, from the second batch of a shape on; False where there is none."""
        parts = graphs.parts_of(batch) if self.capturing else None
        if parts is None:
            return False
        shape = tuple((part.shape, part.dtype) for part in parts)
        self._seen[shape] += 1
        if self._seen[shape] == 1:  # what is made once, such as the optimizer's memory, is made before a capture
            return False
        if self.together is not None and self.together.here():
            return self.together.update(self, shape, self.branch(batch, parts))
        if shape not in self.graphs and len(self.graphs) < SHAPES:
            self.graphs[shape] = graphs.captured([self.branch(batch, parts)], checked=self.together is None)
        graph = self.graphs.get(shape)
        if graph is not None:
            graph([parts])
        return graph is not None


@contextlib.contextmanager
def _noise(model: Any, seed: int, step: int) -> Iterator[None]:
    """Random numbers for the dropout of one update, of its own seed; torch's generator comes out as it went in."""
    if not getattr(model, "dropout", 0.0):
        yield
        return
    with seeded(np.random.default_rng([seed, step, NOISE])):
        yield
