"""Train one network: epochs, early stopping, and checkpoints from which a killed run goes on to the same end."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from lib.training.checkpoint import (
    CheckpointError,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from lib.training.newton import LevenbergMarquardt, refuse_other_networks
from lib.training.settings import FitSettings
from lib.training.tasks import CarryingTask, Evaluation, NextToken, ScoredTask, Task
from lib.training.updates import GradientNorms, Updates

FINISHED_BY_EPOCHS, FINISHED_BY_PATIENCE = "all epochs done", "no better validation loss"
FINISHED_BY_SUCCESS, FINISHED_BY_CURVATURE = "accuracy reached", "no step lowers the training loss"
DIVERGED = "diverged"  # the first word of the reason, before the losses
SUCCESSES = 2  # epochs in a row that have to reach it


@dataclass
class Fit:
    """The course of one training; losses in nats per prediction, one number per epoch.

    The training loss of an epoch is the mean over its updates, each while the weights were still moving, and counts a
    last batch with fewer rows like the others; of a step of second order it is the mean over all sequences before it.
    """

    training_losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)  # on the same data; none for tasks without
    best_epoch: int = 0  # counted from 1; 0: no epoch ended with finite losses
    reason: str = ""  # why it ended; empty while it has not
    seconds: float = 0.0  # of wall time, over all starts

    @property
    def best_loss(self) -> float:
        """Smallest validation loss, infinite if there is none."""
        return self.validation_losses[self.best_epoch - 1] if self.best_epoch else math.inf

    @property
    def diverged(self) -> bool:
        """Its last loss was no finite number."""
        return has_diverged(self.reason)


def has_diverged(reason: str) -> bool:
    """Whether a training that ended for this reason did so because a loss was no finite number."""
    return reason.startswith(DIVERGED)


def fit(
    model: Any,
    task: Task,
    settings: FitSettings,
    *,
    checkpoint: Path | str | None = None,
    configuration: Mapping[str, Any] | None = None,
    label: str = "",
    progress: bool = True,
) -> Fit:
    """Train `model` in place and leave it with the weights of its best epoch by validation loss.

    checkpoint: a file, written after every epoch; if it is there, training goes on from it, and ends with the very
    numbers of a run that was never stopped (on a CPU with the same number of threads). configuration: what the run is,
    in what JSON can hold, compared with the file's; the settings are added to it. A loss that is not finite ends the
    run, with the reason in `Fit.reason`; the best weights so far are kept. Raises CheckpointError before any work for a
    file that is corrupt, of another configuration or of a network with other weights, and ValueError, before any work
    too, for a configuration that JSON cannot hold or that names settings, for a network that has nothing to train, and
    if training is to end by an accuracy that the task does not have, or with steps of second order on anything but
    `NextToken` or on a network that `newton.refuse_other_networks` refuses; each of those steps counts as one epoch
    more.
    Parameters that a model names in `slow_parameters()` learn at `slow_fraction` of the rate. What a task carries from
    epoch to epoch is part of the checkpoint, and dropout is drawn from the task's seed and the number of the update. On
    a GPU updates are replayed as CUDA graphs where they can be (`lib.training.updates`). Cost: epochs x (one pass
    forward and back over the data + validation).
    """
    if settings.success is not None and not isinstance(task, ScoredTask):
        raise ValueError(f"success: {type(task).__name__} has no accuracy to end by; None is allowed")
    if settings.newton and not isinstance(task, NextToken):
        raise ValueError(f"newton: steps of second order need the task NextToken, got {type(task).__name__}")
    if settings.newton:
        refuse_other_networks(model)
    if "settings" in (configuration or {}):
        raise ValueError("configuration: the settings are added under 'settings'; another name is allowed")
    try:  # as the checkpoint will write it, which would fail after the first epoch
        json.dumps({**(configuration or {}), "settings": ""}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"configuration: what JSON can hold is allowed, got {configuration!r}: {error}") from error
    checkpoint = None if checkpoint is None else Path(checkpoint)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"model: one with parameters that require a gradient is allowed, got {type(model).__name__}")
    device = parameters[0].device
    embedding = [model.embedding.weight] if settings.embedding_decay else []
    optimizer = settings.make_optimizer(parameters, getattr(model, "slow_parameters", list)(), embedding)
    described = {**(configuration or {}), "settings": json.loads(settings.model_dump_json())}
    course, best, steps = Fit(), copy_of(model), task.steps(settings.batch)
    second = LevenbergMarquardt(task.training) if isinstance(task, NextToken) and settings.newton else None
    if checkpoint is not None and checkpoint.exists():
        tensors, kept = load_checkpoint(checkpoint, described)
        course = Fit(**kept)
        refuse_other_weights(model, part(tensors, "model."), checkpoint)
        model.load_state_dict(part(tensors, "model."))
        best = {name: tensor.to(device) for name, tensor in part(tensors, "best.").items()}
        restore_optimizer(optimizer, tensors)
        if isinstance(task, CarryingTask):
            task.carry_on(model, part(tensors, "carried."), device)
        if second:
            second.damping = float(tensors["damping"])
    done = len(course.training_losses)
    updates = Updates(model, task, settings, optimizer, left=(settings.epochs - done) * steps)
    with (
        contextlib.closing(updates),
        tqdm(total=settings.passes, initial=done, desc=label or "training", unit="epoch", disable=not progress) as bar,
    ):
        while not course.reason:
            started, norms = time.perf_counter(), GradientNorms()
            if second and done >= settings.epochs:
                loss, moved = second.step(model)
                loss /= second.sequences.shape[1] - 1
            else:
                factor, moved = settings.annealing(course.validation_losses), True
                loss, norms = _epoch(updates, done, steps, factor)
            done += 1
            found = _evaluation(model, task, device) if math.isfinite(loss) else Evaluation(math.nan)
            _judge(course, settings, loss, found, moved, norms)
            if course.best_epoch == len(course.validation_losses) == done:
                best = copy_of(model)
            course.seconds += time.perf_counter() - started
            bar.update()
            bar.set_postfix_str(f"validation {found.loss:.4f} nats, best {course.best_loss:.4f}")
            if checkpoint is not None:
                tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
                tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
                carried = task.carried() if isinstance(task, CarryingTask) else {}
                tensors |= {f"carried.{name}": tensor for name, tensor in carried.items()}
                tensors |= {"damping": torch.tensor(second.damping, dtype=torch.float64)} if second else {}
                save_checkpoint(checkpoint, tensors | optimizer_tensors(optimizer), asdict(course), described)
    model.load_state_dict(best)
    return course


def _epoch(updates: Updates, done: int, steps: int, factor: float) -> tuple[float, GradientNorms]:
    """One pass over the data, at `factor` of the rate: mean training loss, and what the gradients were."""
    settings = updates.settings
    updates.model.train()
    updates.begin()
    for number, batch in enumerate(updates.task.batches(settings.batch, done, updates.device)):
        step = done * steps + number
        updates(batch, settings.learning_rate_at(step, settings.epochs * steps) * factor, step)
    return updates.found()


def _evaluation(model: Any, task: Task, device: torch.device) -> Evaluation:
    """What the model does on data that are not trained on."""
    if isinstance(task, ScoredTask):
        return task.evaluation(model, device)
    return Evaluation(task.validation_loss(model, device))


def _judge(
    course: Fit, settings: FitSettings, loss: float, found: Evaluation, moved: bool, norms: GradientNorms
) -> None:
    """Enter one epoch, and decide whether it was the last; moved: whether it changed the model."""
    epoch, validation = len(course.training_losses) + 1, found.loss
    if not (math.isfinite(loss) and math.isfinite(validation)):
        course.reason = f"{DIVERGED}: losses {loss} and {validation} in epoch {epoch}"
        course.reason += norms.told
        return
    course.training_losses.append(loss)
    course.validation_losses.append(validation)
    if found.accuracy is not None:
        course.accuracies.append(found.accuracy)
    if validation < course.best_loss:
        course.best_epoch = epoch
    lately = course.accuracies[-SUCCESSES:]
    if settings.success is not None and len(lately) == SUCCESSES and min(lately) >= settings.success:
        course.reason = FINISHED_BY_SUCCESS
    elif settings.patience is not None and epoch - course.best_epoch >= settings.patience:
        course.reason = FINISHED_BY_PATIENCE
    elif not moved:
        course.reason = FINISHED_BY_CURVATURE
    elif epoch >= settings.passes:
        course.reason = FINISHED_BY_EPOCHS


def refuse_other_weights(model: Any, found: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raise CheckpointError for weights that are not those of the model by name, shape and type."""
    there = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in found.items()}
    due = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.state_dict().items()}
    for name in sorted(there.keys() | due.keys()):
        if there.get(name) != due.get(name):
            told = [f"{one[0]} {one[1]}" if one else "none" for one in (there.get(name), due.get(name))]
            raise CheckpointError(f"{path} is of another network ({name}: {told[0]} there, {told[1]} in the model)")


def copy_of(model: Any) -> dict[str, torch.Tensor]:
    """The model's tensors as they are now, which later training does not change."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Tensors whose names start with prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
