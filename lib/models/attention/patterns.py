"""Which positions attend to which, and which keys are therefore still needed. Positions count from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number

Positions = NDArray[np.int64]


class Pattern(Protocol):
    """A causal pattern; every position attends to itself."""

    @property
    def keeps_latest(self) -> bool:
        """Whether the positions kept are always the latest ones, without a gap."""

    @property
    def reads_all(self) -> bool:
        """Whether every position attends to all that is kept when it comes."""

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        """Whether position `query` attends to position `key`, arrays that broadcast."""

    def kept(self, length: int) -> Positions:
        """Positions below `length` that some position >= `length` attends to: their keys cannot be thrown away."""

    def kept_count(self, length: int) -> int:
        """How many those are. Cost O(1)."""


@dataclass(frozen=True)
class Full:
    """Everything up to now."""

    keeps_latest = reads_all = True

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        return np.asarray(key <= query)

    def kept(self, length: int) -> Positions:
        return np.arange(length)

    def kept_count(self, length: int) -> int:
        return length


@dataclass(frozen=True)
class Window:
    """The last `size` positions, this one among them: size - 1 keys are kept."""

    keeps_latest = reads_all = True
    size: int

    def __post_init__(self) -> None:
        whole_number(self.size, "window", 1)

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        return np.asarray((key <= query) & (query - key < self.size))

    def kept(self, length: int) -> Positions:
        return np.arange(length - self.kept_count(length), length)

    def kept_count(self, length: int) -> int:
        return min(length, self.size - 1)


@dataclass(frozen=True)
class FixedStride:
    """A window, and every stride-th position for good: stride - 1, 2 stride - 1, ... (Child et al. 2019, "fixed").

    All later positions read the same columns, so the others can be thrown away: about length / stride keys are kept.
    """

    keeps_latest, reads_all = False, True
    stride: int
    window: int

    def __post_init__(self) -> None:
        whole_number(self.stride, "stride", 1)
        whole_number(self.window, "window", 1)

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        column = key % self.stride == self.stride - 1
        return np.asarray((key <= query) & ((query - key < self.window) | column))

    def kept(self, length: int) -> Positions:
        recent = length - min(length, self.window - 1)
        return np.concatenate([np.arange(self.stride - 1, recent, self.stride), np.arange(recent, length)])

    def kept_count(self, length: int) -> int:
        recent = min(length, self.window - 1)
        return recent + (length - recent) // self.stride


@dataclass(frozen=True)
class Strided:
    """A window, and every stride-th position counted back from this one (Child et al. 2019, "strided").

    As few keys are read at a time as in `FixedStride`, but every key is read again by some later position: all are
    kept.
    """

    keeps_latest, reads_all = True, False
    stride: int
    window: int

    def __post_init__(self) -> None:
        whole_number(self.stride, "stride", 1)
        whole_number(self.window, "window", 1)

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        distance = query - key
        return np.asarray((distance >= 0) & ((distance < self.window) | (distance % self.stride == 0)))

    def kept(self, length: int) -> Positions:
        return np.arange(length)

    def kept_count(self, length: int) -> int:
        return length
