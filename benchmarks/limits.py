"""Kernels beside what one core can do: our time, the best peer's, and the least time that the machine allows.

    python benchmarks/limits.py              # prints tables, writes results/benchmarks/limits.json

The first table measures the core: how fast it reads memory, multiplies and adds, computes exponentials, looks up a
table of counters, counts bits; of several ways to do such a thing, and of many turns, the fastest counts. The second
counts, for each kernel, how often it has to do these at least, which gives a limit in seconds: that of its scarcest
kind, as if all the others were free. What an algorithm computes twice to save memory is counted once, as if keeping it
were free too. Three times the limit is good, since kinds rarely overlap in full. The best peer is the fastest of all
other ways that were timed in the same run; the third table has them all. They give the same numbers as ours, but for
samples, which are drawn. The last two say how time grows with length, batch and cores. Ways take turns, medians count,
all on one core and one thread but where cores are counted.
"""

from __future__ import annotations

import os
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from one_core import COUNTER, FAR_COUNTER, rates
from raced import Kernel
from raced_counting import PLUGIN, counting, text
from raced_networks import attention, recurrent, sampling, scan
from timing import as_in_a_sweep, median_seconds
from torch import Tensor
from training import seconds_in_turn

from lib.information.counting.pairs import pair_sums, relabel
from lib.machine import available_cores
from lib.models import create
from lib.report import benchmarks

OURS = "ours"
Rows = list[dict[str, Any]]


def least_time(needed: dict[str, float], speeds: dict[str, float]) -> tuple[float, str]:
    """Seconds of the scarcest kind, and that kind."""
    return max((count / speeds[kind], kind) for kind, count in needed.items())


def against_limits(kernels: list[Kernel], speeds: dict[str, float], repeats: int) -> tuple[Rows, Rows]:
    """Each kernel beside its limit and its best peer; and all of its peers."""
    rows, ways = [], []
    for kernel in kernels:
        kernel.check()
        seconds = seconds_in_turn({OURS: kernel.ours, **kernel.peers}, repeats, 60.0)
        least, scarce = least_time(kernel.needed, speeds)
        best = min(kernel.peers, key=seconds.__getitem__)
        raised = kernel.needed.get(COUNTER, 0.0)
        rows.append(
            {
                "kernel": kernel.name,
                "ours, ms": 1e3 * seconds[OURS],
                "limit, ms": 1e3 * least,
                "limited by": scarce,
                "ours over limit": seconds[OURS] / least,
                "best peer": best,
                "peer over ours": seconds[best] / seconds[OURS],
                "why": kernel.why.format(far=1e3 * raised / speeds[FAR_COUNTER]),
            }
        )
        ways += [
            {"kernel": kernel.name, "way": way, "ms": 1e3 * taken, "over ours": taken / seconds[OURS]}
            for way, taken in seconds.items()
        ]
        click.echo(str(rows[-1]))
    return rows, ways


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """d ln seconds / d ln size at the larger half, where what is constant counts least."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def growth(repeats: int) -> list[dict[str, Any]]:
    """Seconds of forward and backward of one layer against length and batch, with the exponent beside the theory's."""
    theory = {
        "transformer": {"length": 2.0, "batch": 1.0},
        "mamba": {"length": 1.0, "batch": 1.0},
        "lstm": {"length": 1.0, "batch": 1.0},
    }
    axes = {"length": ([256, 512, 1024, 2048, 4096], 2), "batch": ([4, 8, 16, 32, 64], 256)}
    rows = []
    for name, expected in theory.items():
        model = create(name, 2, 16)
        for axis, (sizes, other) in axes.items():
            taken = []
            for size in sizes:
                tokens = torch.randint(0, 2, (other, size + 1) if axis == "length" else (size, other + 1))

                def step(tokens: Tensor = tokens, model: Any = model) -> None:
                    model.zero_grad()
                    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()

                taken.append(median_seconds(step, repeats)[0])
            row: dict[str, Any] = {"network": f"{name}, width 16", "against": axis}
            row |= {f"size {place + 1}, ms": 1e3 * value for place, value in enumerate(taken)}
            rows.append(row | {"exponent": exponent(sizes, taken), "theory": expected[axis]})
            click.echo(str(rows[-1]))
    return rows


def cores(repeats: int) -> list[dict[str, Any]]:
    """Seconds of kernels that share their work, by workers."""
    symbols = relabel(np.random.default_rng(0).integers(0, 90, (1, 1_000_000)))
    lags, rows = np.arange(1, 101), []
    model = create("transformer", 2, 16)
    tokens = torch.randint(0, 2, (48, 513))
    for workers in range(1, available_cores() + 1):
        torch.set_num_threads(workers)

        def counted(workers: int = workers) -> Any:
            return pair_sums(symbols, lags, PLUGIN, workers=workers, progress=False)

        def step() -> None:
            model.zero_grad()
            F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()

        ways = {"pairs of characters, 100 lags, ms": counted, "Transformer of width 16, a step, ms": step}
        rows.append({"cores": workers} | {name: 1e3 * median_seconds(run, repeats)[0] for name, run in ways.items()})
        click.echo(str(rows[-1]))
    torch.set_num_threads(1)
    return rows


@click.command(help=__doc__)
@click.option("--repeats", default=7, show_default=True, help="Turns of each way; medians count.")
def main(repeats: int) -> None:
    as_in_a_sweep()
    places = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if places:
        os.sched_setaffinity(0, places[:1])
    speeds = rates(10 * repeats)
    networks = [attention(), scan(), recurrent(48), recurrent(50), sampling()]
    rows, ways = against_limits([*counting(), *text(), *networks], speeds, repeats)
    grown = growth(repeats)
    if places:
        os.sched_setaffinity(0, places)
    recorded = benchmarks.record(
        benchmarks.FOLDER / "limits.json",
        "Kernels beside the limits of a core",
        "Our time, that of the fastest other way that was timed in the same run, and the least time that one core "
        "allows: how often the kernel has to do a thing at least, over how often this core does it in a second. Of "
        "several kinds the scarcest counts, as if the others were free; what our kernels compute twice to save memory "
        "is counted once. A peer over ours below one is faster than ours. All ways of a kernel give the same numbers, "
        "but for Gaussians, which are drawn; peers that count stop at their tables. Networks forward and backward, "
        "float32, one core, one thread.",
        {
            "What this core does in a second": [{"kind": kind, "in a second": speed} for kind, speed in speeds.items()],
            "Kernels": rows,
            "All ways that were timed": ways,
            "A step of training against length 256 to 4096 (2 sequences) and batch 4 to 64 (256 tokens)": grown,
            "By cores": cores(repeats),
        },
        packages=["torch", "numba", "mambapy"],
        threads=1,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
