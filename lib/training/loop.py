"""Train one network: epochs, early stopping, and checkpoints from which a killed run goes on to the same end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from lib.training.checkpoint import load_checkpoint, optimizer_tensors, restore_optimizer, save_checkpoint
from lib.training.settings import FitSettings
from lib.training.tasks import Task

FINISHED_BY_EPOCHS, FINISHED_BY_PATIENCE = "all epochs done", "no better validation loss"


@dataclass
class Fit:
    """The course of one training; losses in nats a prediction, one number an epoch."""

    training_losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    best_epoch: int = 0  # counted from 1; 0: no epoch ended with finite losses
    reason: str = ""  # why it ended; empty while it has not
    seconds: float = 0.0  # of wall time, over all starts

    @property
    def best_loss(self) -> float:
        """Smallest validation loss, infinite if there is none."""
        return self.validation_losses[self.best_epoch - 1] if self.best_epoch else math.inf

    @property
    def diverged(self) -> bool:
        return self.reason.startswith("diverged")


def fit(
    model: Any,
    task: Task,
    settings: FitSettings,
    *,
    checkpoint: Path | None = None,
    configuration: Mapping[str, Any] | None = None,
    label: str = "",
    progress: bool = True,
) -> Fit:
    """Train `model` in place and leave it with the weights of its best epoch by validation loss.

    checkpoint: a file, written after every epoch; if it is there, training goes on from it, and ends with the very
    numbers of a run that was never stopped (on a CPU with the same number of threads). configuration: what the run is,
    compared with the file's; the settings are added to it. A loss that is not finite ends the run, with the reason in
    `Fit.reason`; the best weights so far are kept. Raises CheckpointError before any work for a file that is corrupt
    or of another configuration. Cost: epochs x (one pass forward and back over the data + validation).
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    device = parameters[0].device
    optimizer = settings.make_optimizer(parameters)
    described = {**(configuration or {}), "settings": settings.model_dump()}
    course, best = Fit(), copy_of(model)
    if checkpoint is not None and checkpoint.exists():
        tensors, kept = load_checkpoint(checkpoint, described)
        course = Fit(**kept)
        model.load_state_dict(part(tensors, "model."))
        best = {name: tensor.to(device) for name, tensor in part(tensors, "best.").items()}
        restore_optimizer(optimizer, tensors)
    steps = task.steps(settings.batch)
    done = len(course.training_losses)
    with tqdm(total=settings.epochs, initial=done, desc=label or "training", unit="epoch", disable=not progress) as bar:
        while not course.reason:
            started = time.perf_counter()
            loss, validation = _epoch(model, task, settings, optimizer, parameters, done, steps, device)
            done += 1
            _judge(course, settings, loss, validation)
            if course.best_epoch == len(course.validation_losses) == done:
                best = copy_of(model)
            course.seconds += time.perf_counter() - started
            bar.update()
            bar.set_postfix_str(f"validation {validation:.4f} nats, best {course.best_loss:.4f}")
            if checkpoint is not None:
                tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
                tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
                save_checkpoint(checkpoint, tensors | optimizer_tensors(optimizer), asdict(course), described)
    model.load_state_dict(best)
    return course


def _epoch(
    model: Any,
    task: Task,
    settings: FitSettings,
    optimizer: torch.optim.Optimizer,
    parameters: list[Any],
    done: int,
    steps: int,
    device: torch.device,
) -> tuple[float, float]:
    """One pass over the data; mean training loss while it went on, and validation loss after it."""
    model.train()
    total = torch.zeros((), dtype=torch.float64, device=device)
    count = 0
    for number, batch in enumerate(task.batches(settings.batch, done, device)):
        rate = settings.learning_rate_at(done * steps + number, settings.epochs * steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss = task.loss(model, batch)
        loss.backward()
        settings.clip_gradients(parameters)
        optimizer.step()
        total += loss.detach()  # not read before the epoch ends, so that a GPU does not wait for it
        count += 1
    mean = float(total) / max(1, count)
    return mean, task.validation_loss(model, device) if math.isfinite(mean) else math.nan


def _judge(course: Fit, settings: FitSettings, loss: float, validation: float) -> None:
    """Enter one epoch, and decide whether it was the last."""
    epoch = len(course.training_losses) + 1
    if not (math.isfinite(loss) and math.isfinite(validation)):
        course.reason = f"diverged: losses {loss} and {validation} in epoch {epoch}"
        return
    course.training_losses.append(loss)
    course.validation_losses.append(validation)
    if validation < course.best_loss:
        course.best_epoch = epoch
    if settings.patience is not None and epoch - course.best_epoch >= settings.patience:
        course.reason = FINISHED_BY_PATIENCE
    elif epoch >= settings.epochs:
        course.reason = FINISHED_BY_EPOCHS


def copy_of(model: Any) -> dict[str, torch.Tensor]:
    """The model's tensors as they are now, which later training does not change."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Tensors whose names start with prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
