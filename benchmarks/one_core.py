"""What one core does in a second: bytes, multiply-adds, exponentials, counters, bits, by the fastest way known here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit

from lib.models.kernels.exponential import fast_exp

READ, MULTIPLY, EXPONENTIAL, COUNTER, FAR_COUNTER, BITS = (
    "bytes read from memory",
    "multiply-adds, float32",
    "exponentials, float32",
    "counters raised, in cache",
    "counters raised, 32 MB apart",
    "words of 64 bits counted",
)
NORMAL = "normal numbers drawn, float32"


@njit(cache=True, fastmath=True)
def _total(values: Any) -> float:
    total = np.float32(0)
    for value in values:
        total += value
    return total


@njit(cache=True, fastmath=True)
def _multiply_add(lanes: Any, factor: Any, times: int) -> None:
    """So few numbers that they stay in registers."""
    for _ in range(times):
        for place in range(192):
            lanes[place] = lanes[place] * factor + factor


@njit(cache=True)
def _raise(places: Any, counters: Any) -> None:
    """Four tables in turn, so that no counter waits for the one before."""
    for start in range(0, places.size, 4):
        for table in range(4):
            counters[table, places[start + table]] += 1


@njit(cache=True, fastmath=True)
def _exponentials(values: Any, out: Any) -> None:
    for place in range(values.size):
        out[place] = fast_exp(values[place])


@njit(cache=True)
def _set_bits(words: Any, other: Any) -> int:
    total = 0
    for place in range(words.size):
        word = words[place] & other[place]
        word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return total


def least_seconds(run: Callable[[], Any], repeats: int) -> float:
    """The shortest of some turns of 10 ms each: what disturbs a core only makes it slower. The first call compiles."""
    run()
    calls, least = 1, np.inf
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        least = min(least, (time.perf_counter() - start) / calls)
        calls = max(1, int(0.01 / max(least, 1e-7)))
    return float(least)


def rates(repeats: int) -> dict[str, float]:
    """How many of each kind in a second: of several ways and all turns the fastest counts."""
    random = np.random.default_rng(0)
    long = np.ones(2**26, dtype=np.float32)  # 256 MB: more than a core's share of the caches
    tensor, few = torch.from_numpy(long), torch.ones(8192)
    square, small, room = torch.randn(1024, 1024), torch.randn(4096), torch.empty(4096)
    lanes, half, out = np.ones(192, dtype=np.float32), np.float32(0.5), np.empty(4096, dtype=np.float32)
    near, far = random.integers(0, 1024, 2**18).astype(np.uint16), random.integers(0, 2**21, 2**20).astype(np.uint32)
    tables, wide = np.zeros((4, 1024), dtype=np.uint32), np.zeros((4, 2**21), dtype=np.uint32)
    words, ones = random.integers(0, 2**63, 2**12).astype(np.uint64), np.empty(2**12, dtype=np.uint8)
    ways: list[tuple[str, float, Callable[[], Any]]] = [
        (READ, long.nbytes, lambda: _total(long)),
        (READ, long.nbytes, tensor.sum),
        (READ, long.nbytes, lambda: tensor.dot(tensor)),
        (READ, long.nbytes, lambda: tensor.view(-1, 8192) @ few),
        (READ, long.nbytes, long.max),
        (MULTIPLY, 1024.0**3, lambda: square @ square),
        (MULTIPLY, 192.0 * 100_000, lambda: _multiply_add(lanes, half, 100_000)),
        (EXPONENTIAL, small.numel(), lambda: torch.exp(small, out=room)),
        (EXPONENTIAL, small.numel(), lambda: _exponentials(small.numpy(), out)),
        (COUNTER, near.size, lambda: _raise(near, tables)),
        (FAR_COUNTER, far.size, lambda: _raise(far, wide)),
        (BITS, words.size, lambda: _set_bits(words, words)),
        (BITS, words.size, lambda: np.bitwise_count(words, out=ones)),
        (NORMAL, 2**18, lambda: torch.randn(2**18)),
        (NORMAL, 2**18, lambda: random.standard_normal(2**18, dtype=np.float32)),
    ]
    found: dict[str, float] = {}
    for kind, count, run in ways:
        found[kind] = max(found.get(kind, 0.0), count / least_seconds(run, repeats))
    return found
