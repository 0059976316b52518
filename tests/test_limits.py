"""Kernels beside the limits of a core: the best peer is the fastest one, and other numbers are refused."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lib import ROOT

BESIDE = ("one_core", "plain_networks", "raced", "timing", "training", "limits", "counting", "raced_counting")


@pytest.fixture(scope="module")
def imported() -> Iterator[Callable[[str], Any]]:
    """Scripts by name. Those of networks are not among them: they need mambapy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        names = ("attention", "recurrent", "sampling", "scan")
        patch.setitem(sys.modules, "raced_networks", SimpleNamespace(**dict.fromkeys(names)))
        yield importlib.import_module
    for name in BESIDE:
        sys.modules.pop(name, None)


def constant(seconds: float, value: float = 1.0) -> Callable[[], Any]:
    def way() -> Any:
        time.sleep(seconds)
        return np.array([value])

    return way


def same(value: Any) -> Any:
    return [value]


def test_the_best_peer_is_the_fastest_that_was_timed(imported: Any) -> None:
    limits, raced, core = imported("limits"), imported("raced"), imported("one_core")
    peers = {"slow": constant(0.03), "fast": constant(0.002), "middle": constant(0.012)}
    kernel = raced.Kernel("waiting", constant(0.008), peers, {core.READ: 2.0, core.BITS: 30.0}, alike=(same, same))
    speeds = {core.READ: 1000.0, core.BITS: 10_000.0, core.FAR_COUNTER: 1.0}
    (row,), ways = limits.against_limits([kernel], speeds, 2)
    assert row["best peer"] == "fast" and row["peer over ours"] < 0.6  # ours is the slower one, and that is told
    assert (row["limited by"], row["limit, ms"]) == (core.BITS, pytest.approx(3.0))
    assert {way["way"] for way in ways} == {"ours", *peers}
    slowest = max(ways, key=lambda way: way["ms"])
    assert slowest["way"] == "slow" and slowest["over ours"] > 1


def test_a_peer_with_other_numbers_is_refused(imported: Any) -> None:
    raced = imported("raced")
    right, wrong = constant(0.0), constant(0.0, 1.0 + 1e-6)
    raced.Kernel("equal", right, {"peer": right}, {}, alike=(same, same)).check()
    with pytest.raises(AssertionError, match="unequal, another"):
        raced.Kernel("unequal", right, {"peer": right, "another": wrong}, {}, alike=(same, same)).check()
    raced.Kernel("rounded", right, {"peer": wrong}, {}, alike=(same, same), tolerance=1e-5).check()


def test_bits_are_counted_alike_by_all_peers(imported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = imported("raced_counting")
    whole = np.random.default_rng

    class Short:
        """As many symbols less."""

        def __init__(self, seed: int) -> None:
            self.random = whole(seed)

        def integers(self, low: int, high: int, count: int) -> Any:
            return self.random.integers(low, high, count // 1000 + 7)

        def zipf(self, power: float, count: int) -> Any:
            return self.random.zipf(power, count // 1000 + 7)

    monkeypatch.setattr(np.random, "default_rng", Short)
    for kernel in counting.counting():
        kernel.check()
        ((_, needed),) = kernel.needed.items()
        size = 4007 if "bits" in kernel.name else 1007
        pairs = sum(size - lag for lag in range(1, 51))
        assert needed == pytest.approx(pairs / 64 if "bits" in kernel.name else pairs)


def test_one_thread_is_left_to_torch_and_to_both_libraries_and_freed_memory_is_kept(
    imported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    before, kept = torch.get_num_threads(), []
    monkeypatch.setattr(imported("timing"), "keep_freed_memory", lambda: kept.append(True))
    try:
        with threadpool_limits(2):
            torch.set_num_threads(2)
            imported("timing").as_in_a_sweep()
            assert kept
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert torch.get_num_threads() == 1 and len(pools) >= 2  # NumPy's and SciPy's
            assert all(pool["num_threads"] == 1 for pool in pools)
    finally:
        torch.set_num_threads(before)


def test_short_calls_are_timed_many_at_once(imported: Any) -> None:
    training, calls = imported("training"), []
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    found = training.seconds_in_turn({"ours": lambda: calls.append(layer(x)), "waits": constant(0.02)}, 3, 60.0)
    assert len(calls) > 30 and found["ours"] < 0.01 < found["waits"]
