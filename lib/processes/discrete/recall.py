"""Tasks of recall: symbols, a long delay, and after a cue the same symbols again; how much memory helps is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, plain_array, whole_number

BLANK = 0
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


class RecallTask(ABC):
    """What both tasks share: `recall` symbols, independent and uniform over 1 .. `symbols`; everything else is blank.

    The cue stands `recall` + 1 steps before the end. The target is blank up to it, and then the symbols in their order:
    at every step a class. The length is delay + 2 recall. Raises ValueError for a delay, symbols or recall below one,
    and for more symbols than 64-bit integers can write with the cue.
    """

    unused = 0  # numbers between the symbols and the cue that no input has

    def __init__(self, delay: int, symbols: int = 8, recall: int = 10) -> None:
        self.delay = whole_number(delay, "delay", 1)
        self.symbols = whole_number(symbols, "symbols", 1)
        if self.cue > np.iinfo(np.int64).max:
            raise ValueError(f"symbols: at most 2^63 - {2 + self.unused} are allowed, got {symbols!r}")
        self.recall = whole_number(recall, "recall", 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.delay}, symbols={self.symbols}, recall={self.recall})"

    @property
    def length(self) -> int:
        """Steps of a sequence."""
        return self.delay + 2 * self.recall

    @property
    def cue(self) -> int:
        """The input that asks for the symbols, the largest there is."""
        return self.symbols + 1 + self.unused

    @property
    def cue_time(self) -> int:
        """The step of the cue, counted from 0."""
        return self.length - self.recall - 1

    @property
    def vocabulary(self) -> int:
        """Numbers that inputs are written with: 0 .. vocabulary - 1."""
        return self.cue + 1

    @property
    def classes(self) -> int:
        """Numbers that targets are written with, and those of inputs below the cue: 0 .. classes - 1."""
        return self.cue

    @property
    def recall_steps(self) -> NDArray[np.int64]:
        """The steps at which the target is a symbol, (recall,), counted from 0."""
        return np.arange(self.cue_time + 1, self.length)

    @property
    def baseline_loss(self) -> float:
        """Nats per step of the best predictor that knows the time and the present input, and nothing of the past.

        At the steps of recall it sees a blank and knows that a symbol is due, no more: recall ln(symbols) / length.
        """
        return self.recall * log(self.symbols) / self.length

    @property
    def baseline_accuracy(self) -> float:
        """Its share of right symbols at the steps of recall: 1 / symbols."""
        return 1.0 / self.symbols

    def sample(self, n: int, seed: int | np.random.Generator) -> Pair:
        """n independent inputs and their targets, each int64 (n, length). Raises ValueError for n < 1 or a bad seed."""
        rows = whole_number(n, "n", 1)
        random = generator(seed)
        drawn = random.integers(1, self.symbols + 1, size=(rows, self.recall))
        inputs, targets = np.full((2, rows, self.length), BLANK)
        inputs[np.arange(rows)[:, None], self._places(rows, random)] = drawn
        inputs[:, self.cue_time] = self.cue
        targets[:, self.recall_steps] = drawn
        return inputs, targets

    def symbol_times(self, inputs: ArrayLike) -> NDArray[np.int64]:
        """The steps at which these inputs (n, length) show symbols, counted from 0, in order: (n, recall).

        Raises ValueError for arrays that are no inputs of this task.
        """
        given = plain_array(inputs, "inputs")
        if given.ndim != 2 or given.shape[1] != self.length or given.dtype.kind not in "iu":
            raise ValueError(
                f"inputs: whole numbers of shape (n, {self.length}) are allowed, got {given.dtype} of {given.shape}"
            )
        shown = (given > BLANK) & (given <= self.symbols)
        if np.any(shown.sum(axis=1) != self.recall):
            raise ValueError(f"inputs: {self.recall} symbols in every sequence are needed")
        return np.nonzero(shown)[1].reshape(-1, self.recall)

    @abstractmethod
    def _places(self, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Where each sequence shows its symbols, increasing: (rows, recall)."""


class CopyTask(RecallTask):
    """The symbols stand at the beginning; then come delay - 1 blanks, the cue, and as many blanks as symbols.

    Inputs: 0 is the blank, 1 .. symbols are the symbols, symbols + 1 is the cue. Source: Kerg et al. (2020), App. D.
    """

    def _places(self, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        return np.broadcast_to(np.arange(self.recall), (rows, self.recall))


class DenoiseTask(RecallTask):
    """The symbols stand at distinct steps, every set of them alike, before the cue, blanks between them.

    Inputs: 0 is the blank, 1 .. symbols are the symbols, symbols + 2 is the cue; symbols + 1 is not used, as in the
    code of the paper, whose one-hot vectors have a place for it. Cost of a sample O(n length).
    Source: Kerg et al. (2020), App. D.
    """

    unused = 1

    def _places(self, rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        order = random.random((rows, self.cue_time)).argsort(axis=1)
        return np.sort(order[:, : self.recall], axis=1)
