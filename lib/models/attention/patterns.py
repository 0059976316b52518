"""Which positions attend to which, and which keys are therefore still needed. Positions count from 0.

Keys and values of the past: a state that is never changed, and yet does not copy itself at every token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.checks import whole_number

Positions = NDArray[np.int64]
LEAST_SPARE = 8  # positions


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
        object.__setattr__(self, "size", whole_number(self.size, "window", 1))

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
        object.__setattr__(self, "stride", whole_number(self.stride, "stride", 1))
        object.__setattr__(self, "window", whole_number(self.window, "window", 1))

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
        object.__setattr__(self, "stride", whole_number(self.stride, "stride", 1))
        object.__setattr__(self, "window", whole_number(self.window, "window", 1))

    def attends(self, query: Any, key: Any) -> NDArray[np.bool_]:
        distance = query - key
        return np.asarray((distance >= 0) & ((distance < self.window) | (distance % self.stride == 0)))

    def kept(self, length: int) -> Positions:
        return np.arange(length)

    def kept_count(self, length: int) -> int:
        return length


class KeyValueCache(NamedTuple):
    keys: Tensor  # (batch, heads, kept, head width)
    values: Tensor  # the same shape
    position: int  # tokens read so far: says which positions the kept keys have


class Room:
    """Space for more positions than there are; caches that grew out of one another look at parts of one room."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        batch, heads, kept, width = keys.shape
        capacity = kept + max(LEAST_SPARE, kept // 4)
        # time comes last: that is how products with one query per head read fastest
        self.keys, self.values = (keys.new_empty(batch, heads, width, capacity) for _ in range(2))
        self.capacity, self.filled = capacity, 0
        self.write(keys, values)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Fill in the next positions. What is filled never changes again."""
        start, self.filled = self.filled, self.filled + keys.shape[2]
        self.keys[..., start : self.filled] = keys.transpose(-2, -1)
        self.values[..., start : self.filled] = values.transpose(-2, -1)

    def can_go_on(self, stop: int) -> bool:
        """Whether one more position may be written behind position `stop` of the room."""
        changeable = torch.is_inference_mode_enabled() or not self.keys.is_inference()
        return self.filled == stop < self.capacity and changeable

    def part(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of some positions, (batch, heads, stop - start, head width), not copied."""
        return self.keys[..., start:stop].transpose(-2, -1), self.values[..., start:stop].transpose(-2, -1)


class RoomyCache(KeyValueCache):
    """A cache that is a part of a room and ends at `stop` there; without a room it is a plain cache."""

    room: Room | None = None
    stop: int = 0


def extended(
    cache: KeyValueCache, key: Tensor, value: Tensor, pattern: Pattern
) -> tuple[Tensor, Tensor, KeyValueCache]:
    """Keys and values that the next token attends to, its own among them, and the cache that is left behind it.

    key, value (batch, heads, 1, head width). The given cache stays as it is and can be extended again, in another way.
    Without gradients the new position is written into spare room, if the pattern keeps the latest positions and no
    other cache has taken the place; a room that is full or taken is copied with a quarter more, so that a token costs
    O(1) copied positions in the long run. Otherwise everything is copied, which can be differentiated.
    """
    now = cache.position
    kept = pattern.kept_count(now + 1)
    if torch.is_grad_enabled() or not pattern.keeps_latest:
        keys, values = torch.cat([cache.keys, key], dim=2), torch.cat([cache.values, value], dim=2)
        index = _places(pattern, now).to(key.device) if kept <= keys.shape[2] - 1 else slice(None)
        return keys, values, KeyValueCache(keys[:, :, index], values[:, :, index], now + 1)
    held = cache.keys.shape[2]
    room, stop = (cache.room, cache.stop) if isinstance(cache, RoomyCache) else (None, 0)
    if room is None or not room.can_go_on(stop):
        room, stop = Room(cache.keys, cache.values), held
    room.write(key, value)
    after = RoomyCache(*room.part(stop + 1 - kept, stop + 1), now + 1)
    after.room, after.stop = room, stop + 1
    return *room.part(stop - held, stop + 1), after


def _places(pattern: Pattern, now: int) -> Tensor:
    """Which of the positions held at `now`, its own the last, are needed later."""
    held = np.append(pattern.kept(now), now)
    return torch.from_numpy(np.flatnonzero(np.isin(held, pattern.kept(now + 1))))
