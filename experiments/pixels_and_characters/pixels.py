"""One network that reads images some pixels at a time and tells what they show (Kerg 2020, Fig. 8 and 9, Table 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.pixels_and_characters.attention import WATCHED_AT_A_TIME, spread
from experiments.pixels_and_characters.images import (
    CLASSES,
    SHUFFLED,
    SIDE,
    Labelled,
    in_steps,
    order_of,
    parts,
    pooled,
)
from experiments.pixels_and_characters.networks import PixelClassifier
from experiments.pixels_and_characters.tasks import PixelClasses, Pixels, class_scores
from lib.processes.corpora.catalogue import entry
from lib.runs.training import RunParameters, trained
from lib.training import FitSettings
from lib.training.settings import matrix_products
from lib.training.tasks import FIXED


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the layer accept."""

    architecture: str
    images: Literal["mnist", "bars"] = "mnist"
    side: int = Field(14, ge=1)  # of the image that is read: means over squares of the 28 x 28 pixels
    together: int = Field(1, ge=1)  # pixels at a step
    order: Literal["rows", "permuted", "anew"] = "rows"
    labels: Literal["true", "shuffled"] = "true"  # of the training images: or those of other ones
    width: int = Field(64, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    training: int | None = Field(None, ge=1)  # images, the first ones; all if null
    evaluated: int | None = Field(None, ge=1)  # images to validate by, and as many to test on; all if null
    watched: int = Field(64, ge=1)  # images of the validation whose attention is recorded


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built once, and dropped."""
    chosen = Parameters.read(parameters, "pixels")
    if SIDE % chosen.side:
        raise ValueError(f"side: a divisor of {SIDE} is allowed, got {chosen.side}")
    if chosen.side**2 % chosen.together:
        raise ValueError(f"together: a divisor of {chosen.side**2} pixels is allowed, got {chosen.together}")
    _network(chosen, 0)
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the files of images."""
    return entry("mnist").checksums if parameters["images"] == "mnist" else []


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network, with the weights of its smallest validation loss at the end, and test it.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns losses and accuracies of
    every epoch on the validation images, loss and accuracy on the test images, the share of the most frequent class
    there, and of networks that attend how attention is spread before and after. Raises CorpusUnavailable where the
    files of the images are neither here nor to be had.
    """
    chosen = Parameters(**parameters)
    training, validation, test = (
        Pixels(pooled(one.images, chosen.side), one.labels) for one in _parts(chosen, seed)
    )  # fmt: skip
    order = order_of(chosen.order, chosen.side**2)
    task = PixelClasses(training, validation, order=order, together=chosen.together, seed=seed)
    model = _network(chosen, seed).to(device)
    before = watched(model, task.validation[: chosen.watched], device)
    course, result = trained(
        model,
        task,
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.order} seed {seed}",
        progress=progress,
    )
    counts = np.bincount(test.labels, minlength=CLASSES)
    updates = len(course.training_losses) * task.steps(FitSettings(**chosen.fit).batch)
    result |= {"updates": updates, "steps": task.validation.shape[1]}
    result["largest_class"] = float(counts.max() / counts.sum())
    if before:
        result["before"] = before
    if not course.best_epoch:
        return result
    found = class_scores(model, in_steps(test.values, order, chosen.together, [1, 0, FIXED]), test.labels, device)
    result |= {"test_loss": found.loss, "test_accuracy": found.accuracy}
    after = watched(model, task.validation[: chosen.watched], device, keep_map=seed == 0)
    return result | ({"after": after} if after else {})


def watched(model: PixelClassifier, values: NDArray[np.float32], device: str, keep_map: bool = False) -> dict[str, Any]:
    """How attention is spread while sequences (n, steps, inputs) are read; {} of a network without.

    The map is kept where all states are attended to.
    """
    if not hasattr(model.layer, "attended"):
        return {}

    def groups() -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        for start in range(0, len(values), WATCHED_AT_A_TIME):
            some = torch.from_numpy(values[start : start + WATCHED_AT_A_TIME]).to(device)
            times, weights = model.layer.attended(some)
            yield times.cpu().numpy(), weights.double().cpu().numpy()

    return spread(groups(), keep_map and model.layer.rule.buffer is None)


def _parts(chosen: Parameters, seed: int) -> tuple[Labelled, Labelled, Labelled]:
    """Images to train on, to validate by and to test on."""
    training, validation, test = parts(chosen.images, chosen.training, chosen.evaluated)
    if chosen.labels == "shuffled":
        training = training._replace(labels=np.random.default_rng([seed, 0, SHUFFLED]).permutation(training.labels))
    return training, validation, test


def _network(chosen: Parameters, seed: int) -> PixelClassifier:
    weights = np.random.default_rng([seed, 0])
    return PixelClassifier(chosen.architecture, chosen.together, chosen.width, seed=weights, **chosen.options)
