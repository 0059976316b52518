"""Prediction of hierarchical Gaussians: fresh sequences at every step, and the exact distribution to compare with.

Sequences that a Gaussian language model draws, and how probable it finds given ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.gaussians.scores import normal_divergence, normal_loss
from lib.checks import whole_number
from lib.models.scoring import evaluating
from lib.processes.gaussian.hierarchical import HierarchicalGaussian
from lib.processes.gaussian.on_device import HierarchicalGaussianOnDevice
from lib.training.settings import checked_precision, forward_pass

Batch = tuple[Tensor, Tensor]
TRAINING, VALIDATION = 0, 1  # streams of random numbers


class GaussianPrediction:
    """Minimise the mean of KL(p(x_i | x_<i) || q(x_i | x_<i)) over positions and copies, nats per number (L2M, E.35).

    law: the process p; no sequence is seen twice. epoch_steps: updates that count as one epoch. copies: numbers of a
    token. validation: sequences of the fixed set, made from `validation_seed`, the same for all runs. precision: of
    the forward pass, a name of `lib.training.settings`. Batch number `step` of an epoch is made on the training device
    of noise from (seed, epoch, step) alone, the same on every device, so that a resumed run goes on with the data it
    would have seen.
    Raises ValueError for sizes below 1 and unknown precisions.
    """

    def __init__(
        self,
        law: HierarchicalGaussian,
        epoch_steps: int,
        *,
        copies: int = 64,
        validation: int = 32,
        seed: int = 0,
        validation_seed: int = 0,
        precision: str = "float32",
    ) -> None:
        self.law = law
        self.epoch_steps = whole_number(epoch_steps, "epoch_steps", 1)
        self.copies = whole_number(copies, "copies", 1)
        self.validation = whole_number(validation, "validation", 1)
        self.seed = whole_number(seed, "seed", 0)
        self.validation_seed = whole_number(validation_seed, "validation_seed", 0)
        self.precision = checked_precision(precision)
        self.data_seconds = 0.0  # that the device spent on making batches
        self.seconds = 0.0  # of wall time in epochs, validation left out
        self.tokens = 0  # trained on in that time
        self._on_device: dict[torch.device, HierarchicalGaussianOnDevice] = {}
        self._validation_batches: list[Batch] = []

    def steps(self, batch: int) -> int:
        return self.epoch_steps

    def batches(self, batch: int, epoch: int, device: torch.device) -> Iterator[Batch]:
        """Tokens and their exact conditional means, each (batch, length, copies)."""
        law = self.on_device(device)
        watch = Stopwatch(device)
        started = time.perf_counter()
        for step in range(self.epoch_steps):
            with watch:
                made = self._made(law, batch, (TRAINING, self.seed, epoch, step))
            yield made
        self.data_seconds += watch.total()
        self.seconds += time.perf_counter() - started
        self.tokens += self.epoch_steps * batch * self.law.length

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Mean KL in nats per number."""
        tokens, means = batch
        law = self.on_device(tokens.device)
        with forward_pass(self.precision, tokens.device):
            model_means, deviations = model.predictions(tokens)
        return normal_divergence(means, law.variances[:, None], model_means, deviations).mean()

    def validation_loss(self, model: Any, device: torch.device) -> float:
        law = self.on_device(device)
        if not self._validation_batches:  # kept: making them anew would take as long as a pass
            rows = max(1, 2**14 // self.law.length)
            counts = [min(rows, self.validation - start) for start in range(0, self.validation, rows)]
            self._validation_batches = [
                self._made(law, count, (VALIDATION, self.validation_seed, number))
                for number, count in enumerate(counts)
            ]
        total = 0.0
        with evaluating(model):
            for tokens, means in self._validation_batches:
                total += float(self.loss(model, (tokens.to(device), means.to(device)))) * len(tokens)
        return total / self.validation

    @property
    def data_share(self) -> float:
        """Share of the time of training that went into making data; 0 before the first epoch."""
        return self.data_seconds / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens trained on per second, data and update together; 0 before the first epoch."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def on_device(self, device: torch.device) -> HierarchicalGaussianOnDevice:
        """The process on a device, set up once."""
        if device not in self._on_device:
            self._on_device[device] = self.law.on_device(device)
        return self._on_device[device]

    def _made(self, law: HierarchicalGaussianOnDevice, batch: int, key: tuple[int, ...]) -> Batch:
        number = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        return law.sample_tokens_with_means(batch, self.copies, law.generator(number % 2**63))


class Stopwatch:
    """Time that a device spends inside `with`: by events on CUDA, which lags behind the program, else by the clock."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self._seconds = 0.0
        self._started = 0.0
        self._events: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        if self.cuda:
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
            self._events[-1][0].record(torch.cuda.current_stream(self.device))
        else:
            self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if self.cuda:
            self._events[-1][1].record(torch.cuda.current_stream(self.device))
        else:
            self._seconds += time.perf_counter() - self._started

    def total(self) -> float:
        """Seconds so far; waits for the device."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
            self._seconds += sum(start.elapsed_time(stop) for start, stop in self._events) / 1e3
            self._events.clear()
        return self._seconds


def draw_tokens(
    model: Any, n: int, length: int, seed: int, device: torch.device | str = "cpu", batch: int | None = None
) -> Tensor:
    """n sequences (n, length, copies) from the model's own distribution, token by token, each given those before it.

    model: step, initial_state and copies as `GaussianLanguageModel` has them. batch: sequences drawn together, all by
    default. The same noise for the same seed and batch, on every device. Raises ValueError for n, length or batch below
    1 and a bad seed. Cost `length` steps of n rows.
    """
    rows, steps = whole_number(n, "n", 1), whole_number(length, "length", 1)
    random = torch.Generator().manual_seed(whole_number(seed, "seed", 0))
    kind = next(iter(model.parameters())).dtype
    tokens = torch.zeros(rows, steps + 1, model.copies, dtype=kind, device=device)  # BOS first
    with torch.no_grad():
        for part in tokens.split(rows if batch is None else whole_number(batch, "batch", 1)):  # views: filled in place
            state = model.initial_state(len(part))
            for place in range(steps):
                (means, deviations), state = model.step(part[:, place], state)
                noise = torch.randn(means.shape, generator=random, dtype=kind).to(device)
                part[:, place + 1] = means + deviations * noise
    return tokens[:, 1:].clone()


def log_densities(model: Any, tokens: Tensor, batch: int = 16) -> NDArray[np.float64]:
    """ln q(w_i | w_<i) of every token, all its numbers together, nats: (n, length, copies) -> (n, length).

    Cost of one parallel pass.
    """
    found = []
    with torch.no_grad():
        for part in tokens.split(whole_number(batch, "batch", 1)):
            means, deviations = (value.double() for value in model.predictions(part))
            found.append(-normal_loss(part.double(), means, deviations).sum(dim=-1))
    return np.asarray(torch.cat(found).cpu().numpy())
