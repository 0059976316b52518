"""Timing that the benchmark scripts share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - its library for linear algebra is one of its own, limited once it is loaded
import torch
from threadpoolctl import threadpool_limits


def one_thread() -> None:
    """From here on torch, and the linear algebra of NumPy and SciPy, use one thread, which is what our loops have.

    Small products on more threads mostly measure how these wait for each other.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)


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
