"""How the loss of recall depends on every state before it: the gradient that a training would send back in time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch.nn.utils import parametrize

from lib.processes.discrete.recall import RecallTask

GROUP = 4  # sequences at a time: the stepwise form keeps everything that it computes


def gradient_norms(model: Any, task: RecallTask, inputs: NDArray[np.int64], targets: NDArray[np.int64]) -> list[float]:
    """ln of the mean over sequences of |dL/dh_t|, by distance from the last step (0, 1, .. length - 1).

    L is the mean of -ln Q over the steps of recall of a sequence, and h_t the output of the cell at step t, whose total
    gradient is meant: through the recurrence, the cell and the memory. inputs, targets: (n, length). It is found by
    automatic differentiation of the stepwise form in float64, so that gradients that vanish do not underflow; those
    that are zero count as the smallest number there is. Cost n steps forward and back for each time.
    """
    plain = copy.deepcopy(model).to("cpu").double().train()
    total = np.zeros(inputs.shape[1])
    for start in range(0, len(inputs), GROUP):
        rows = slice(start, start + GROUP)
        total += _norms(plain, task, torch.from_numpy(inputs[rows]), torch.from_numpy(targets[rows]))
    mean = np.maximum(total / len(inputs), np.finfo(np.float64).tiny)
    return [float(value) for value in np.log(mean)[::-1]]


def _norms(model: Any, task: RecallTask, inputs: torch.Tensor, targets: torch.Tensor) -> NDArray[np.float64]:
    """Sum over sequences of the norms of the gradients of each step."""
    outputs: list[torch.Tensor] = []
    # What the head reads is the output of the cell itself, the one that the recurrence and the memory read too.
    hook = model.norm.register_forward_pre_hook(lambda module, given: outputs.append(given[0]))
    try:
        with parametrize.cached():  # a constrained matrix is computed once, not at every step
            state, logits = model.initial_state(len(inputs)), []
            for token in inputs.T:
                scores, state = model.step(token, state)
                logits.append(scores[:, : task.classes])
    finally:
        hook.remove()
    recalled = [F.cross_entropy(logits[step], targets[:, step], reduction="sum") for step in task.recall_steps]
    gradients = torch.autograd.grad(torch.stack(recalled).mean(), outputs, materialize_grads=True)
    return np.array([float(gradient.norm(dim=1).sum()) for gradient in gradients])
