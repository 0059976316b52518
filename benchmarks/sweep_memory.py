"""A training in a worker of a sweep that keeps freed memory, and in one with Dask's own setting.

    python benchmarks/sweep_memory.py       # prints a table, writes results/benchmarks/sweep_memory.json

Each way is a local cluster of one process. The same updates of the same network are made in both, in turn; the share of
the system is that of the CPU time of these updates which the kernel takes, for memory that comes and goes.
"""

from __future__ import annotations

import contextlib
import resource
import time
from typing import Any

import click
import numpy as np
import torch
from distributed import Client, LocalCluster

from experiments.gaussians.sizes import gaussian_language_model
from experiments.gaussians.task import GaussianPrediction
from lib.processes import HierarchicalGaussian
from lib.report import benchmarks
from lib.runs.sweep import DASHBOARD, local_client

LAYERS = 4


def updates(name: str, tokens: int, count: int) -> dict[str, float]:
    """Wall seconds of one update and the share of CPU time that was the system's; the first ones do not count."""
    torch.set_num_threads(1)
    law = HierarchicalGaussian(LAYERS)
    task = GaussianPrediction(law, count + 3, copies=8)
    model = gaussian_language_model(name, copies=8, longest=law.length)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    start, before = 0.0, resource.getrusage(resource.RUSAGE_SELF)
    for number, batch in enumerate(task.batches(tokens // law.length, 0, torch.device("cpu"))):
        if number == 3:
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        optimizer.zero_grad(set_to_none=True)
        task.loss(model, batch).backward()
        optimizer.step()
    after = resource.getrusage(resource.RUSAGE_SELF)
    system, user = after.ru_stime - before.ru_stime, after.ru_utime - before.ru_utime
    return {"seconds": (time.perf_counter() - start) / count, "system": system / (system + user)}


@click.command(help=__doc__)
@click.option("--size", "sizes", multiple=True, default=("gpt2-2x64", "mamba-2x64", "mamba2-2x64"), show_default=True)
@click.option("--tokens", default=2048, show_default=True, help="Tokens of an update.")
@click.option("--count", default=30, show_default=True, help="Updates of a turn.")
@click.option("--repeats", default=5, show_default=True, help="Turns; the median counts.")
def main(sizes: tuple[str, ...], tokens: int, count: int, repeats: int) -> None:
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=DASHBOARD)
        )
        theirs = stack.enter_context(Client(cluster))  # first: the setting of the other holds from its start on
        clients = {"memory is kept": stack.enter_context(local_client(1)), "Dask's setting": theirs}
        for size in sizes:
            found: dict[str, list[dict[str, float]]] = {way: [] for way in clients}
            for _ in range(repeats):
                for way, client in clients.items():
                    found[way].append(client.submit(updates, size, tokens, count, pure=False).result())
            row: dict[str, Any] = {"size": size}
            for way, turns in found.items():
                row[f"{way}: ms"] = 1e3 * float(np.median([turn["seconds"] for turn in turns]))
                row[f"{way}: system"] = float(np.median([turn["system"] for turn in turns]))
            rows.append(row)
            click.echo(str(row))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "sweep_memory.json",
        "Memory of sweeps",
        "One update in a worker of a sweep, in milliseconds, and the share of its CPU time that the system takes; "
        "medians of turns in one run.",
        {"Milliseconds for one update, share of the system": rows},
        threads=1,
        tokens=tokens,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
