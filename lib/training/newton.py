"""Steps of second order for small recurrent networks: the Fisher matrix of whole sequences in place of a rate.

Where first-order steps crawl along a narrow valley of the loss, as they do for recurrent networks of a few hundred
weights that are to remember for hundreds of steps, steps that know the curvature reach its floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from torch import Tensor

from lib.checks import real_number
from lib.models.base import SequenceModel
from lib.models.kernels.embedding import refuse_unknown
from lib.models.recurrent.basic import RecurrentLayer
from lib.training.tasks import sequences_of_tokens

PIECE = 500  # sequences at once
START, LEAST, MOST = 0.01, 1e-7, 1e6  # of the damping
TRUSTED, GOOD, POOR = 0.1, 0.7, 0.3  # shares of the gain that was promised


class LevenbergMarquardt:
    """theta <- theta - (F + mu diag F)^-1 g on all sequences at once, F = mean of g_i g_i^T, g = mean of g_i.

    g_i is the gradient of the loss of sequence i. Near the optimum F, the empirical Fisher matrix, is the Hessian of
    the mean loss (Amari 1998, Natural gradient works efficiently in learning). The damping mu, from 0.01, falls to a
    third after a step that gained more than 0.7 of what the quadratic form promised, doubles below 0.3, and below 0.1
    the step is taken back and mu grows fourfold (Marquardt 1963). Where no mu up to 1e6 gains, it is again what it was.
    sequences: tokens (n, length), all from one distribution, first token given. Raises ValueError for networks that are
    not a plain stack of `VanillaRNN`, `LSTM` or `ReluRNN` layers or have fixed parameters, other arrays, and a damping
    not above 0 or above 1e6. Nothing is drawn at random. Cost per step: a parallel pass forward and back, n P^2
    multiplications for P parameters, P^3 / 6 for the Cholesky factor and a forward pass per trial.
    """

    def __init__(self, sequences: ArrayLike, damping: float = START) -> None:
        self.sequences = sequences_of_tokens(sequences, "sequences", None)
        self.damping = real_number(damping, "damping")
        if not 0.0 < self.damping <= MOST:
            raise ValueError(f"damping: numbers > 0 and at most {MOST:g} are allowed, got {damping!r}")

    def step(self, model: Any) -> tuple[float, bool]:
        """One step in place; the mean loss of a sequence before it, nats, and whether any step lowered that.

        The loss is NaN, and the model as it was, where a gradient is not finite.
        """
        parameters = list(model.parameters())
        loss, gradient, fisher = self._moments(model)
        if not (np.isfinite(loss) and np.isfinite(fisher).all()):
            return float("nan"), False
        scale = np.sqrt(np.maximum(fisher.diagonal(), 1e-12 * max(fisher.diagonal().max(), 1e-300)))
        fisher /= np.outer(scale, scale)
        slope = gradient / scale
        before, begun = torch.nn.utils.parameters_to_vector(parameters).detach(), self.damping
        while self.damping <= MOST:
            try:
                move = damped_solution(fisher, self.damping, slope)
            except LinAlgError:  # a damping below what rounding left of eigenvalues that are zero
                self.damping *= 4
                continue
            promised = float(slope @ move - 0.5 * move @ fisher @ move)
            step = torch.from_numpy(move / scale).to(before)
            torch.nn.utils.vector_to_parameters(before - step, parameters)
            gain = (loss - self.loss(model)) / promised if promised > 0 else 0.0
            if gain > TRUSTED:
                factor = 1 / 3 if gain > GOOD else 2 if gain < POOR else 1
                self.damping = max(self.damping * factor, LEAST)
                return loss, True
            self.damping *= 4
        torch.nn.utils.vector_to_parameters(before, parameters)
        self.damping = min(begun, MOST)  # above it no later step, not even of another network, would be tried
        return loss, False

    def loss(self, model: Any) -> float:
        """Mean over sequences of -ln Q(x_2 .. x_T | x_1), nats."""
        with torch.no_grad():
            losses = (_losses(model(tokens[:, :-1]), tokens).double().sum() for tokens in self._pieces(model))
            return float(sum(losses)) / len(self.sequences)

    def _moments(self, model: Any) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        size = sum(parameter.numel() for parameter in model.parameters())
        total, first, second = 0.0, np.zeros(size), np.zeros((size, size))
        for tokens in self._pieces(model):
            losses, gradients = sequence_gradients(model, tokens)
            found = gradients.double().cpu().numpy()
            total += float(losses.double().sum())
            first += found.sum(axis=0)
            second += found.T @ found
        count = len(self.sequences)
        return total / count, first / count, second / count

    def _pieces(self, model: Any) -> Iterator[Tensor]:
        refuse_unknown(torch.from_numpy(self.sequences), model.vocabulary)
        device = next(iter(model.parameters())).device
        for start in range(0, len(self.sequences), PIECE):
            yield torch.from_numpy(self.sequences[start : start + PIECE]).to(device).long()


def refuse_other_networks(model: Any) -> None:
    """ValueError for all but `VanillaRNN`, `LSTM` and `ReluRNN`, and for dropout, tied weights and fixed parameters."""
    known = isinstance(model, SequenceModel) and all(isinstance(layer, RecurrentLayer) for layer in model.layers)
    plain = known and isinstance(model.norm, torch.nn.Identity) and isinstance(model.head, torch.nn.Linear)
    if not plain or model.dropout:
        allowed = "VanillaRNN, LSTM or ReluRNN without dropout and tied weights"
        raise ValueError(f"model: {allowed} is allowed, got {type(model).__name__}")
    if fixed := [name for name, one in model.named_parameters() if not one.requires_grad]:
        raise ValueError(f"model: gradients of all parameters are needed, {', '.join(fixed)} require none")


def sequence_gradients(model: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """-ln Q(x_2 .. x_T | x_1) of every sequence (n, T), nats, and its gradient (n, P) in the order of `parameters()`.

    What enters the gates of a layer has a gradient delta_t at every step; those of its weights are sums over t of
    delta_t times what they act on. Numbers that are zero, added to the gates, have that gradient: all that is needed
    is one pass forward and back through the layers as they are, whatever their kernels. Raises ValueError for what
    `refuse_other_networks` refuses, for anything but an int32 or int64 tensor with n >= 1 and T >= 2, and for tokens
    outside the vocabulary.
    """
    refuse_other_networks(model)
    known = isinstance(tokens, Tensor) and tokens.dtype in (torch.int32, torch.int64) and tokens.ndim == 2
    if not known or not len(tokens) or tokens.shape[1] < 2:
        allowed = "an int32 or int64 tensor of shape (n >= 1, T >= 2)"
        given = f"{getattr(tokens, 'dtype', type(tokens).__name__)} of shape {tuple(np.shape(tokens))}"
        raise ValueError(f"tokens: {allowed} is allowed, got {given}")
    tokens = tokens.long()
    refuse_unknown(tokens, model.vocabulary)
    given = tokens[:, :-1]
    embedded = model.embedding.weight.detach()[given].requires_grad_()
    hidden, passed = embedded, []
    for layer in model.layers:
        added = hidden.new_zeros(*given.shape, layer.weight_hh.shape[0], requires_grad=True)
        kernel = torch.cat([layer.weight_ih, torch.eye(added.shape[2]).to(added)], dim=1).detach()
        weights = {"weight_ih": kernel, "weight_hh": layer.weight_hh.detach(), "bias": layer.bias.detach()}
        out = torch.func.functional_call(layer, weights, (torch.cat([hidden, added], dim=2),))
        passed.append((hidden, added, out))
        hidden = out
    logits = F.linear(hidden, model.head.weight.detach(), model.head.bias.detach())
    losses = _losses(logits, tokens)
    wanted = [embedded, logits, *(added for _, added, _ in passed)]
    d_embedded, d_logits, *d_added = torch.autograd.grad(losses.sum(), wanted)
    with torch.no_grad():
        found = [_outer(F.one_hot(given, model.vocabulary).to(d_embedded), d_embedded)]
        for (below, _, out), delta in zip(passed, d_added, strict=True):
            earlier = F.pad(out, (0, 0, 1, 0))[:, :-1]
            found += [_outer(delta, below), _outer(delta, earlier), delta.sum(dim=1)]
        found += [_outer(d_logits, hidden), d_logits.sum(dim=1)]
        return losses.detach(), torch.cat([part.flatten(1) for part in found], dim=1)


def damped_solution(matrix: NDArray[np.float64], damping: float, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M + damping I)^-1 right, M symmetric; LinAlgError where M + damping I has no Cholesky factor."""
    damped = np.array(matrix, order="F")
    damped[np.diag_indices_from(damped)] += damping
    solved: NDArray[np.float64] = cho_solve(cho_factor(damped, lower=True, overwrite_a=True), right)
    return solved


def _outer(left: Tensor, right: Tensor) -> Tensor:
    """Sum over time of left_t right_t^T, by sequence."""
    return left.transpose(1, 2) @ right


def _losses(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").sum(dim=1)
