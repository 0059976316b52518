"""How a network is trained: every choice by name, checked before any work starts.

How exactly a GPU multiplies matrices meanwhile is a named choice, undone when training ends.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

PRECISIONS = ("float32", "tf32", "bfloat16")


class FitSettings(BaseModel):
    """Optimizer, schedule and stopping rule of one training.

    optimizer: "rmsprop" is Keras' (`alpha` 0.9, `epsilon` 1e-7 outside the root; torch's own are 0.99 and 1e-8), "adam"
    has beta 0.9 and `beta2`, "adamw" adds decoupled weight decay, "sgd" is plain. schedule: "constant", or "cosine"
    from learning_rate to learning_rate x final_fraction over `epochs`, step by step, after `warm_up` steps of linear
    growth. clip: largest gradient, none if None; clip_by: "norm" of all gradients together, or "value" of each entry.
    patience: epochs without a better validation loss before training ends, never if None. success: training ends once
    the accuracy on validation data has been that high in two epochs in a row; never if None. slow_fraction: rate of the
    parameters that a model names in `slow_parameters()`, by that of the others. anneal: the rate is divided by it after
    every epoch that did not better the validation loss; never if None. embedding_decay d: the gradient of d |E|^2, E
    the embedding, is added after clipping, and is not part of the recorded losses (with "adamw" the decay is
    decoupled); the weight decay of E is that of the others plus 2 d. newton: steps of second order after the epochs,
    each on all training data at once (`lib.training.newton`), for small recurrent networks; `epochs` may then be 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings")

    optimizer: Literal["rmsprop", "adam", "adamw", "sgd"] = "rmsprop"
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    final_fraction: float = Field(1 / 32, ge=0, le=1)
    warm_up: int = Field(0, ge=0)
    batch: int = Field(50, ge=1)
    epochs: int = Field(200, ge=0)
    patience: int | None = Field(5, ge=1)
    clip: float | None = Field(0.25, gt=0, allow_inf_nan=True)
    clip_by: Literal["norm", "value"] = "norm"
    weight_decay: float = Field(0.0, ge=0)
    beta2: float = Field(0.999, ge=0, lt=1)
    # Left out where they are not chosen: checkpoints that were made before they came are still of the same settings.
    alpha: float = Field(0.9, ge=0, lt=1, exclude_if=lambda value: value == 0.9)
    epsilon: float = Field(1e-7, gt=0, exclude_if=lambda value: value == 1e-7)
    slow_fraction: float = Field(0.1, gt=0, exclude_if=lambda value: value == 0.1)
    success: float | None = Field(None, gt=0, le=1, exclude_if=lambda value: value is None)
    anneal: float | None = Field(None, gt=1, exclude_if=lambda value: value is None)
    embedding_decay: float = Field(0.0, ge=0, exclude_if=lambda value: value == 0)
    newton: int = Field(0, ge=0, exclude_if=lambda value: value == 0)

    def __init__(self, **values: Any) -> None:
        if truths := [name for name, value in values.items() if isinstance(value, bool | np.bool_)]:
            raise ValueError(f"settings of a fit: {', '.join(truths)}: no truth value is allowed, got one")
        try:
            super().__init__(**values)
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc']))}: {_fault(fault)}" for fault in error.errors())
            raise ValueError("settings of a fit: " + "; ".join(faults)) from None
        if not self.passes:
            raise ValueError("settings of a fit: epochs: at least 1 without steps of second order, got 0")

    @property
    def passes(self) -> int:
        """Times that training goes through all its data, those of the second order included."""
        return self.epochs + self.newton

    def make_optimizer(self, parameters: Any, slow: Any = (), embedding: Any = ()) -> torch.optim.Optimizer:
        """The optimizer over `parameters`, at the initial learning rate; one kernel per step of Adam where possible.

        Those of them that are `slow` make a second group, which says in "fraction" what its rate is to be times, and
        those of the `embedding` a last one if they have a decay of their own.
        """
        own = {"weight_decay": self.weight_decay + 2 * self.embedding_decay} if self.embedding_decay else {}
        groups = [({id(p) for p in slow}, {"fraction": self.slow_fraction}), ({id(p) for p in embedding if own}, own)]
        parameters = trained = list(parameters)
        if any(marks for marks, _ in groups):
            named = [{"params": [p for p in parameters if id(p) in marks], **own} for marks, own in groups if marks]
            marked = groups[0][0] | groups[1][0]
            parameters = [{"params": [p for p in parameters if id(p) not in marked]}, *named]
        rate, decay, betas = self.learning_rate, self.weight_decay, (0.9, self.beta2)
        one_kernel = has_fused_step(trained)
        match self.optimizer:
            case "rmsprop":
                return torch.optim.RMSprop(parameters, lr=rate, alpha=self.alpha, eps=self.epsilon, weight_decay=decay)
            case "adam":
                return torch.optim.Adam(parameters, lr=rate, betas=betas, weight_decay=decay, fused=one_kernel)
            case "adamw":
                return torch.optim.AdamW(parameters, lr=rate, betas=betas, weight_decay=decay, fused=one_kernel)
            case _:
                return torch.optim.SGD(parameters, lr=rate, weight_decay=decay)

    def learning_rate_at(self, step: int, steps: int) -> float:
        """The rate of update number `step` (from 0) out of `steps` in all."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        if self.schedule == "constant":
            return self.learning_rate
        passed = (step - self.warm_up) / max(1, steps - 1 - self.warm_up)
        wave = 0.5 * (1.0 + math.cos(math.pi * min(1.0, passed)))
        return self.learning_rate * (self.final_fraction + (1.0 - self.final_fraction) * wave)

    def annealing(self, losses: Sequence[float]) -> float:
        """Factor of the rate after epochs with these validation losses: anneal^-(epochs without a new best)."""
        if self.anneal is None:
            return 1.0
        best = itertools.accumulate(losses, min)
        worse = sum(loss >= before for before, loss in zip(best, losses[1:], strict=False))
        return float(self.anneal**-worse)

    def clip_gradients(self, parameters: list[Any]) -> torch.Tensor | None:
        """Shorten the gradients in place, if `clip` is set; their norm before that, where it is needed for it."""
        if self.clip is None:
            return None
        if self.clip_by == "norm":
            norm: torch.Tensor = torch.nn.utils.clip_grad_norm_(parameters, self.clip)
            return norm
        torch.nn.utils.clip_grad_value_(parameters, self.clip)
        return None


def has_fused_step(parameters: Iterable[Any]) -> bool:
    """Whether a step of Adam is one kernel for these parameters: on a CPU and with CUDA it is."""
    return {parameter.device.type for parameter in parameters} <= {"cpu", "cuda"}


def _fault(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return f"no such setting; there are {', '.join(FitSettings.model_fields)}"
    return f"{fault['msg'][0].lower()}{fault['msg'][1:]}, got {fault['input']!r}"


def checked_precision(precision: str) -> str:
    """The name, or ValueError."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision: one of {', '.join(PRECISIONS)} is allowed, got {precision!r}")
    return precision


@contextlib.contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Products of float32 matrices, forward and backward, with full factors ("float32"), or with 11 bits of them.

    "tf32" and "bfloat16" allow torch to round the factors of products to TF32 where the hardware does that; weights,
    sums and everything else stay float32. cuDNN, which computes recurrent networks and convolutions, has a setting of
    its own, and rounds unless it is told not to. Raises ValueError for another precision.
    """
    before, cudnn_before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    full = checked_precision(precision) == "float32"
    torch.set_float32_matmul_precision("highest" if full else "high")
    torch.backends.cudnn.allow_tf32 = not full
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = cudnn_before


def forward_pass(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """What a forward pass goes through: autocast for "bfloat16", nothing for the others."""
    if checked_precision(precision) != "bfloat16":
        return contextlib.nullcontext()
    autocast: contextlib.AbstractContextManager[None] = torch.autocast(device.type, torch.bfloat16)
    return autocast
