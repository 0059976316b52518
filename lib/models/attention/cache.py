"""Keys and values of the past: a state that is never changed, and yet does not copy itself at every token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lib.models.attention.patterns import Pattern

LEAST_SPARE = 8  # positions


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
