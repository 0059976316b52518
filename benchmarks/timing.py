"""Timing that the benchmark scripts share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - its library for linear algebra is one of its own, limited once it is loaded
import torch
from threadpoolctl import threadpool_limits

from lib.machine import keep_freed_memory


def as_in_a_sweep(threads: int = 1) -> None:
    """From here on this process computes as one that trains in a sweep does.

    Torch, and the linear algebra of NumPy and SciPy, use so many threads; one is what our loops have, and small
    products on more mostly measure how these wait for each other. Freed memory is kept, where the system can.
    """
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    keep_freed_memory()


def median_seconds(function: Callable[[], Any], repeats: int, long: float = 5.0) -> tuple[float, Any]:
    """Median wall time over `repeats` calls (many if short, one in all if longer than `long`), and the result.

    The first call, which may compile, does not count.
    """
    start = time.perf_counter()
    result = function()
    once = time.perf_counter() - start
    calls = max(1, int(0.01 / max(once, 1e-7)))
    times = []
    for _ in range(1 if once > long else repeats):
        start = time.perf_counter()
        for _ in range(calls):
            result = function()
        times.append((time.perf_counter() - start) / calls)
    return float(np.median(times)), result
