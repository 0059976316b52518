"""Networks as distributions over token sequences: log-probabilities in batches, NumPy in and out.

Of a small model the exact distribution: the probability of every sequence, step by step.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lib.checks import plain_array, real_array, sum_tolerance, whole_number

LARGEST_TABLE = 2**20  # sequences


class NetworkScorer:
    """A network of the book as a distribution: ln q(w_t | w_<t), optionally after a beginning that all sequences share.

    model: anything with `vocabulary` and logits = model(tokens), (batch, time) -> (batch, time, vocabulary). start: the
    token, or the tokens, that every sequence is taken to follow: a begin-of-sequence token, a line break, or a neutral
    stretch of text for a network whose first outputs from an empty state are poor; None: the model has no distribution
    of a first token. cells: logits held at a time, which bounds the memory. The model is left on `device`, in
    evaluation mode. ``ValueError`` for a start outside the vocabulary.
    """

    def __init__(
        self,
        model: Any,
        start: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
        *,
        device: torch.device | str = "cpu",
        cells: int = 2**24,
    ) -> None:
        self.vocabulary = int(model.vocabulary)
        given = np.atleast_1d(plain_array([] if start is None else start, "start"))
        if start is not None and (given.size == 0 or given.ndim != 1):
            raise ValueError(f"start: a token, at least one token, or None is allowed, got {start!r}")
        if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= self.vocabulary):
            raise ValueError(f"start: tokens 0 .. {self.vocabulary - 1} or None are allowed, got {start!r}")
        self.model = model.to(device).eval()
        self.start = torch.from_numpy(given.astype(np.int64)).to(device)
        self.device, self.cells = torch.device(device), whole_number(cells, "cells", 1)

    def log_probabilities(self, tokens: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """ln q(w_t | w_<t) of tokens (rows, time), the same shape; NaN at t = 1 without a start.

        ``ValueError`` for another shape or tokens outside the vocabulary. One parallel pass over rows x (start + time)
        tokens.
        """
        array = token_rows(tokens, self.vocabulary)
        result = np.full(array.shape, np.nan)
        first = 0 if len(self.start) else 1
        if array.shape[1] > first:
            rows = max(1, self.cells // ((len(self.start) + array.shape[1]) * self.vocabulary))
            for begin in range(0, len(array), rows):
                batch = torch.from_numpy(array[begin : begin + rows]).to(self.device)
                with torch.no_grad():
                    result[begin : begin + rows, first:] = self._scored(batch, first)
        return result

    def _scored(self, batch: Tensor, first: int) -> NDArray[np.float64]:
        begun = torch.cat([self.start.expand(len(batch), -1), batch], dim=1)  # (rows, start + time)
        expected = batch[:, first:]
        return logarithms(self.model(begun[:, :-1])[:, -expected.shape[1] :], expected)


def logarithms(logits: Tensor, expected: Tensor) -> NDArray[np.float64]:
    """ln softmax(logits) at the expected tokens: (rows, time, vocabulary), (rows, time) -> (rows, time), float64."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    chosen = wide.gather(-1, expected[..., None])[..., 0]
    return np.asarray((chosen.double() - wide.logsumexp(dim=-1).double()).cpu().numpy())


def token_rows(tokens: NDArray[np.integer[Any]], vocabulary: int) -> NDArray[np.int64]:
    """Tokens (rows, time) as int64; ``ValueError`` for anything else or outside the vocabulary."""
    array = plain_array(tokens, "tokens")
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"tokens: whole numbers of shape (rows, time) are allowed, got {array.dtype} of {array.shape}")
    if array.min() < 0 or array.max() >= vocabulary:
        raise ValueError(f"tokens: 0 .. {vocabulary - 1} are in the vocabulary, got {array.min()} .. {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode, without gradients; afterwards in the mode it was in, whatever happened."""
    was_training = getattr(model, "training", False)
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()


def sequence_probabilities(
    model: Any, length: int, first: ArrayLike | None = None, *, device: torch.device | str = "cpu"
) -> NDArray[np.float64]:
    """P(x_1 ... x_j) prod_{t>j} Q(x_t | x_1 ... x_{t-1}) of all K^L sequences, shape (K,) * L.

    model: Q, anything with `vocabulary`, initial_state(batch) and step(token, state). first: P, the distribution of the
    first j tokens, shape (K,) * j; by default one token, uniform. device: where the model is. Raises ValueError for
    length < j, more than 2^20 sequences, or a `first` that is no distribution. Cost L steps of a batch of K^L.
    """
    symbols, steps = model.vocabulary, whole_number(length, "length", 1)
    if steps > 32 or symbols**steps > LARGEST_TABLE:  # arrays have at most so many axes
        raise ValueError(f"length: at most 2^20 sequences can be enumerated, got {symbols}^{steps}")
    law = np.full(symbols, 1.0 / symbols) if first is None else real_array(first, "first")
    given, off = law.ndim, abs(float(law.sum()) - 1.0)
    if law.shape != (symbols,) * given or not 1 <= given <= steps:
        raise ValueError(f"first: probabilities of 1 to {steps} tokens, shape ({symbols},) * j, got shape {law.shape}")
    if not np.all(law >= 0.0) or off > (1e-9 if first is None else sum_tolerance(first, "first")):
        raise ValueError(f"first: probabilities >= 0 that sum to one are allowed, the sum is {float(law.sum())!r}")
    sequences = torch.from_numpy(np.indices((symbols,) * steps).reshape(steps, -1)).to(device)  # (length, K^length)
    logarithm = torch.zeros(sequences.shape[1], dtype=torch.float64, device=device)
    state = model.initial_state(sequences.shape[1])
    with evaluating(model):
        for place, (token, following) in enumerate(itertools.pairwise(sequences), start=1):
            logits, state = model.step(token, state)
            if place >= given:
                conditional = logits.double().log_softmax(dim=-1)  # (K^length, K)
                logarithm += conditional.gather(1, following[:, None])[:, 0]
    law = law.reshape(law.shape + (1,) * (steps - given))
    return np.asarray(law * np.exp(logarithm.cpu().numpy()).reshape((symbols,) * steps))
