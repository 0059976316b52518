"""One network that learns to copy or to denoise: how soon, what it attends to, what gradients reach (Kerg 2020)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.recall.inside.attention import attention
from experiments.recall.inside.gradients import gradient_norms
from experiments.recall.inside.relevance import readable, relevance
from lib.models import create
from lib.processes import CopyTask, DenoiseTask
from lib.processes.discrete.recall import RecallTask
from lib.runs.training import RunParameters, trained
from lib.training import StepLabels, label_scores
from lib.training.loop import FINISHED_BY_SUCCESS
from lib.training.settings import matrix_products
from lib.training.tasks import Evaluation

TASKS = {"copy": CopyTask, "denoise": DenoiseTask}
BUFFER = 10  # states that the networks with a relevant set keep besides it, where nothing is said
WITH_SET = ("rel_rnn", "rel_lstm")
TRAINED_EMBEDDING = ("rnn", "lstm")  # here they read one-hot vectors, as all others do
READS_ITS_OUTPUT = (  # and so the gradient of the output of a step is that of all that it leaves behind
    "rnn", "lstm", "relu_rnn", "orth_rnn", "exp_rnn", "goru", "mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm",
)  # fmt: skip
TEST, TRANSFER, WATCHED = 3, 4, 5  # streams of random numbers


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the model accept.

    An epoch of `fit` is `updates` updates, each on a fresh batch.
    """

    architecture: str
    task: Literal["copy", "denoise"]
    delay: int = Field(100, ge=1)
    symbols: int = Field(8, ge=1)  # different ones
    recall: int = Field(10, ge=1)  # symbols of a sequence
    width: int = Field(128, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    updates: int = Field(250, ge=1)  # between two evaluations
    evaluated: int = Field(1000, ge=1)  # fixed sequences, as many to end a training by and to test it on
    labels: Literal["true", "shuffled"] = "true"  # or those of another sequence
    transfer: list[int] = Field(default_factory=list)  # other delays to test at, in multiples of the delay
    transferred: int = Field(100, ge=1)  # sequences
    watched: int = Field(64, ge=1)  # sequences whose attention and gradients are recorded
    gradients: bool = False
    relevance: bool = False  # which states are attended to, and what the gradient is without the others; tanh alone


class ShuffledLabels:
    """Inputs of a task with the targets of other sequences: nothing can be learnt but when a symbol is due."""

    def __init__(self, task: RecallTask) -> None:
        self.task = task
        self.classes = task.classes

    def sample(self, n: int, seed: int | np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As of the task, targets of the next sequence in the place of its own. Raises ValueError for n < 2."""
        inputs, targets = self.task.sample(n, seed)
        if len(inputs) < 2:
            raise ValueError("labels: shuffled ones need batches of at least 2 sequences")
        return inputs, np.roll(targets, 1, axis=0)


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built once, and dropped."""
    chosen = Parameters.read(parameters, "recall")
    if chosen.labels == "shuffled" and min(chosen.evaluated, chosen.fit.get("batch", 2)) < 2:
        raise ValueError("labels: shuffled ones need batches of at least 2 sequences")
    if any(multiple < 1 for multiple in chosen.transfer):
        raise ValueError(f"transfer: multiples of the delay from 1 are allowed, got {chosen.transfer}")
    if chosen.gradients and chosen.architecture not in READS_ITS_OUTPUT:
        raise ValueError(f"gradients: one of {', '.join(READS_ITS_OUTPUT)} is allowed, got {chosen.architecture}")
    model = _network(chosen, task_of(chosen), 0)
    if chosen.relevance and not readable(model):
        raise ValueError(
            "relevance: mem_rnn and rel_rnn with tanh and the mean of state and context are allowed, got "
            f"{chosen.architecture} with options {chosen.options}"
        )
    return chosen.model_dump()


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network, with the weights of its best evaluation at the end, and measure it.

    Returns the losses and accuracies of every evaluation on fixed sequences, the updates to success (None if there was
    none), loss and accuracy on as many others, and at other delays; of networks that attend to past states, where their
    attention goes; if asked for, the gradients of the states; of these two what they were before training too.
    """
    chosen = Parameters(**parameters)
    task = task_of(chosen)
    source = ShuffledLabels(task) if chosen.labels == "shuffled" else task
    model = _network(chosen, task, seed).to(device)
    before = inside(model, chosen, seed, device, trained_already=False)
    course, result = trained(
        model,
        StepLabels(source, seed=seed, updates=chosen.updates, validation=chosen.evaluated, scored=task.recall_steps),
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.task} {chosen.delay} seed {seed}",
        progress=progress,
    )
    updates = len(course.validation_losses) * chosen.updates
    succeeded = course.reason == FINISHED_BY_SUCCESS
    result |= {"updates": updates, "updates_to_success": updates if succeeded else None}
    result |= {"baseline_loss": task.baseline_loss, "baseline_accuracy": task.baseline_accuracy}
    if before:
        result["before"] = before
    if not course.best_epoch:
        return result
    result |= _scores(model, source, task, chosen.evaluated, [0, 0, TEST], device)._asdict()
    if chosen.transfer:
        result["transfer"] = {}
    for multiple in chosen.transfer:
        longer = type(task)(multiple * task.delay, task.symbols, task.recall)
        found = _scores(model, longer, longer, chosen.transferred, [multiple, 0, TRANSFER], device)
        result["transfer"][str(longer.delay)] = found._asdict()
    after = inside(model, chosen, seed, device, trained_already=True)
    return result | ({"after": after} if after else {})


def inside(model: Any, chosen: Parameters, seed: int, device: str, *, trained_already: bool) -> dict[str, Any]:
    """Attention and gradients of a network on fresh sequences, the same before and after training; {} where none is.

    The map of the attention is kept of the first seed alone, after training: it is large.
    """
    task = task_of(chosen)
    found: dict[str, Any] = {}
    inputs, targets = task.sample(chosen.watched, np.random.default_rng([seed, 0, WATCHED]))
    if hasattr(model, "attended"):
        found["attention"] = attention(model, task, inputs, buffer_of(chosen), device)
        if seed or not trained_already:
            found["attention"].pop("map", None)
    if chosen.gradients:
        found["gradient_norms"] = gradient_norms(model, task, inputs, targets)
    if chosen.relevance:
        found["relevance"] = relevance(copy.deepcopy(model), task, inputs, targets)
    return found


def task_of(chosen: Parameters) -> RecallTask:
    """The task that a run is about."""
    return TASKS[chosen.task](chosen.delay, chosen.symbols, chosen.recall)


def buffer_of(chosen: Parameters) -> int | None:
    """How many of the last states a network with a relevant set keeps; None for the others."""
    return int(chosen.options.get("buffer", BUFFER)) if chosen.architecture in WITH_SET else None


def _scores(model: Any, source: Any, task: RecallTask, count: int, stream: list[int], device: str) -> Evaluation:
    """Loss and accuracy on fresh sequences."""
    inputs, targets = source.sample(count, np.random.default_rng(stream))
    return label_scores(model, inputs, targets, task.classes, scored=task.recall_steps, device=device)


def _network(chosen: Parameters, task: RecallTask, seed: int) -> Any:
    """The network with its initial weights; its inputs are one-hot vectors, and it has an output for each input."""
    options = {"seed": np.random.default_rng([seed, 0]), **chosen.options}
    if chosen.architecture in TRAINED_EMBEDDING:
        options.setdefault("embedding", task.vocabulary)
    model = create(chosen.architecture, max(task.vocabulary, task.classes), chosen.width, 1, **options)
    if chosen.architecture in TRAINED_EMBEDDING and options["embedding"] == task.vocabulary:
        with torch.no_grad():
            model.embedding.weight.copy_(torch.eye(task.vocabulary))
        model.embedding.weight.requires_grad_(False)
    return model
