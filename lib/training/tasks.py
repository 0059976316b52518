"""What a network is trained on: batches, their loss, and the loss that decides when to stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import plain_array, whole_number
from lib.models.kernels.embedding import refuse_unknown
from lib.models.scoring import evaluating

# streams of random numbers: for all seeds the same, of one seed and epoch, of one seed and update
FIXED, FRESH, NOISE, RESETS = 1, 2, 3, 4


class Task(Protocol):
    """Anything `fit` can train on. An epoch is whatever the task calls one."""

    def steps(self, batch: int) -> int:
        """Updates per epoch."""
        ...

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Any]:
        """The batches of one epoch; the same for the same arguments, so that a resumed run sees what it would have."""
        ...

    def loss(self, model: Any, batch: Any) -> Tensor:
        """Scalar to minimise, mean nats per prediction."""
        ...

    def validation_loss(self, model: Any, device: torch.device) -> float:
        """Mean nats per prediction on data that are not trained on."""
        ...


class Evaluation(NamedTuple):
    """What a model does on data that are not trained on."""

    loss: float  # mean nats per prediction
    accuracy: float | None = None  # share of right predictions, of those that count; None for tasks that have none


@runtime_checkable
class ScoredTask(Task, Protocol):
    """A task that has an accuracy as well, which training may end by."""

    def evaluation(self, model: Any, device: torch.device) -> Evaluation:
        """`validation_loss` and the accuracy on the same data."""
        ...


@runtime_checkable
class CarryingTask(Task, Protocol):
    """A task that carries something from epoch to epoch, which a resumed training needs."""

    def carried(self) -> dict[str, Tensor]:
        """What is carried now, by name."""
        ...

    def carry_on(self, model: Any, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Take up what `carried` gave."""
        ...


@runtime_checkable
class LabelSource(Protocol):
    """Where `StepLabels` has its sequences from."""

    @property
    def classes(self) -> int:
        """How many targets have: 0 .. classes - 1."""
        ...

    def sample(self, n: int, seed: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets, each (n, length)."""
        ...


class NextToken:
    """Predict every token from those before it: mean of -ln Q(x_t | x_<t) over t >= 2, in nats.

    training, validation: whole numbers (n, length), two or more tokens long. The first token is given, not
    predicted: there is no begin-of-sequence token. The order of rows is drawn anew in every epoch from seed and epoch.
    Raises ValueError for other arrays and for tokens outside the vocabulary, of the network if none is given.
    """

    def __init__(
        self, training: ArrayLike, validation: ArrayLike, *, seed: int = 0, vocabulary: int | None = None
    ) -> None:
        self.training = sequences_of_tokens(training, "training", vocabulary)
        self.validation = sequences_of_tokens(validation, "validation", vocabulary)
        self.seed = whole_number(seed, "seed", 0)
        self._largest = max(int(self.training.max()), int(self.validation.max()))

    def steps(self, batch: int) -> int:
        return -(-len(self.training) // whole_number(batch, "batch", 1))

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Tensor]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.training))
        for start in range(0, len(order), whole_number(batch, "batch", 1)):
            yield moved(self.training[order[start : start + batch]], device)

    def loss(self, model: Any, batch: Tensor) -> Tensor:
        tokens = batch.long()
        logits = model(tokens[:, :-1])
        refuse_unknown(self._largest, logits.shape[-1])
        return mean_loss(logits, tokens[:, 1:])

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(position_losses(model, self.validation, device=device).mean())


class StepLabels:
    """Tell the class of every step from the inputs so far: mean of -ln Q(y_t | x_1 .. x_t) over all steps, in nats.

    Inputs and targets are different numbers, and every batch is drawn anew from `source`: the batches of an epoch, one
    for each of its `updates`, depend on seed and epoch alone. Evaluated is on `validation` sequences that no seed
    changes and none trains on; its accuracy is that at the steps `scored` (from 0; all by default). A model may have
    more outputs than there are classes: those behind them are not used. Raises ValueError for sizes below one and what
    `label_scores` refuses.
    """

    def __init__(
        self,
        source: LabelSource,
        *,
        seed: int = 0,
        updates: int = 250,
        validation: int = 1000,
        scored: ArrayLike | None = None,
    ) -> None:
        if not isinstance(source, LabelSource):
            raise ValueError(f"source: one with classes and sample(n, seed) is allowed, got {source!r}")
        self.source, self.seed = source, whole_number(seed, "seed", 0)
        self.updates = whole_number(updates, "updates", 1)
        fixed = np.random.default_rng([0, 0, FIXED])
        drawn = source.sample(whole_number(validation, "validation", 1), fixed)
        self.inputs, self.targets = labelled(*drawn, source.classes)
        self.scored = scored_steps(scored, self.inputs.shape[1])

    def steps(self, batch: int) -> int:
        return self.updates

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        random = np.random.default_rng([self.seed, epoch, FRESH])
        for _ in range(self.updates):
            inputs, targets = labelled(*self.source.sample(batch, random), self.source.classes)
            yield moved(inputs, device), moved(targets, device)

    def loss(self, model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return mean_loss(label_logits(model, inputs, self.source.classes), targets)

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return self.evaluation(model, device).loss

    def evaluation(self, model: Any, device: torch.device) -> Evaluation:
        return label_scores(model, self.inputs, self.targets, self.source.classes, scored=self.scored, device=device)


def moved(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array as a tensor on the device, to which a GPU copies it while the program goes on."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def label_scores(
    model: Any,
    inputs: ArrayLike,
    targets: ArrayLike,
    classes: int,
    *,
    scored: ArrayLike | None = None,
    batch: int = 100,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Mean of -ln Q(y_t | x_1 .. x_t) over all steps, nats, and the accuracy of the likeliest class where it counts.

    inputs, targets: whole numbers (n, length). scored: steps that count, from 0; all by default. Raises ValueError for
    other shapes, targets that are no classes, steps that are not there or repeated, and a mask of steps. Cost one
    parallel pass.
    """
    given, wanted = labelled(inputs, targets, classes)
    rows = whole_number(batch, "batch", 1)
    steps = torch.from_numpy(scored_steps(scored, given.shape[1])).to(device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    right = torch.zeros((), dtype=torch.int64, device=device)
    with evaluating(model):
        for start in range(0, len(given), rows):
            labels = torch.from_numpy(wanted[start : start + rows]).to(device)
            logits = label_logits(model, torch.from_numpy(given[start : start + rows]).to(device), classes)
            total += F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").double().sum()
            right += (logits[:, steps].argmax(dim=-1) == labels[:, steps]).sum()
    return Evaluation(float(total) / wanted.size, float(right) / (len(wanted) * len(steps)))


def labelled(inputs: ArrayLike, targets: ArrayLike, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Inputs and targets (n, length) as torch can hold them; ValueError for others, and for targets of no class."""
    given, wanted = plain_array(inputs, "inputs"), plain_array(targets, "targets")
    count = whole_number(classes, "classes", 1)
    for name, array in (("inputs", given), ("targets", wanted)):
        if array.dtype.kind not in "iu" or array.ndim != 2 or array.size == 0 or array.shape != given.shape:
            found = f"{array.dtype} of {array.shape}"
            raise ValueError(
                f"{name}: whole numbers (n, length), inputs and targets of one shape, are allowed, got {found}"
            )
    if wanted.min() < 0 or wanted.max() >= count:
        raise ValueError(f"targets: 0 .. {count - 1} are allowed, got {wanted.min()} .. {wanted.max()}")
    return np.ascontiguousarray(given, np.int64), np.ascontiguousarray(wanted, np.int64)


def scored_steps(scored: ArrayLike | None, length: int) -> NDArray[np.int64]:
    """The steps that count, all if None; ValueError unless different whole numbers among 0 .. length - 1, no mask."""
    steps = np.arange(length) if scored is None else plain_array(scored, "scored")
    known = steps.ndim == 1 and steps.dtype.kind in "iu" and steps.size and steps.min() >= 0 and steps.max() < length
    if not known or len(np.unique(steps)) < len(steps):  # a repeated one would weigh more than the others
        raise ValueError(f"scored: a list of different steps among 0 .. {length - 1} is allowed, got {scored!r}")
    return np.ascontiguousarray(steps, np.int64)


def label_logits(model: Any, inputs: Tensor, classes: int) -> Tensor:
    """Logits (batch, time, classes) of inputs (batch, time); ValueError for a model with fewer outputs than classes."""
    logits = model(inputs)
    if logits.shape[-1] < classes:
        raise ValueError(f"model: at least {classes} outputs, one a class, are needed, got {logits.shape[-1]}")
    return logits[..., :classes]


def mean_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean of -ln softmax(logits)[token], nats: logits (batch, time, vocabulary), tokens (batch, time).

    Of two symbols it is the loss of a logistic regression on the difference of their logits, which torch computes for
    neighbouring numbers at once; a softmax over an axis of two takes longer than a small network. ValueError for tokens
    outside the vocabulary, but on a GPU, where whoever made the batch has to look.
    """
    refuse_unknown(tokens, logits.shape[-1])
    if logits.shape[-1] == 2:
        odds = logits[..., 1] - logits[..., 0]
        return F.binary_cross_entropy_with_logits(odds, tokens.to(odds.dtype))
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def position_losses(
    model: Any, sequences: ArrayLike, *, batch: int = 250, device: torch.device | str = "cpu"
) -> NDArray[np.float64]:
    """Mean over sequences of -ln Q(x_t | x_<t), nats, for t = 2 .. length: shape (length - 1,), float64.

    sequences: tokens (n, length). Cost one parallel pass.
    """
    data, rows = sequences_of_tokens(sequences, "sequences", None), whole_number(batch, "batch", 1)
    total, largest = torch.zeros(data.shape[1] - 1, dtype=torch.float64, device=device), int(data.max())
    with evaluating(model):
        for start in range(0, len(data), rows):
            tokens = torch.from_numpy(data[start : start + rows]).to(device).long()
            logits = model(tokens[:, :-1])
            refuse_unknown(largest, logits.shape[-1])
            total += F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").double().sum(dim=0)
    return np.asarray(total.cpu().numpy() / len(data))


def sequences_of_tokens(given: ArrayLike, name: str, vocabulary: int | None) -> NDArray[Any]:
    """The array (n, length) in a type torch can hold, or ValueError."""
    array = plain_array(given, name)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: whole numbers of shape (n >= 1, length >= 2) are allowed, got {array.dtype} of {array.shape}"
        )
    low, high = int(array.min()), int(array.max())
    size = None if vocabulary is None else whole_number(vocabulary, "vocabulary", 1)
    if low < 0 or (size is not None and high >= size):
        allowed = "of at least 0" if size is None else f"0 .. {size - 1}"
        raise ValueError(f"{name}: tokens {allowed} are allowed, got {low} .. {high}")
    return np.ascontiguousarray(array) if array.dtype == np.uint8 else array.astype(np.int64)
