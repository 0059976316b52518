"""A sweep on Dask clusters of one, two and four workers, and what a killed worker or a killed scheduler costs it.

    python benchmarks/cluster.py           # prints tables, writes results/benchmarks/cluster.json

The smoke runs of an experiment, in more seeds, each time into a new folder. A cluster is a scheduler and workers of one
thread, processes of this machine as they are started by hand on several; starting them and loading the libraries does
not count. Then on two workers: one of them is killed when half of the runs are recorded, and is replaced by its nanny;
and the scheduler is killed then, after which a new cluster is started at its address and the sweep called again. What
is lost is the time beyond that of an undisturbed sweep. Results that differ between sweeps are an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from lib import ROOT
from lib.machine import available_cores
from lib.report import benchmarks
from lib.runs.definition import Experiment, Run
from lib.runs.store import Store
from lib.runs.sweep import KEEP_MEMORY, client_of, run_on_cluster

PATIENCE = 120.0  # seconds to wait for a process to answer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited for {PATIENCE:g} seconds in vain")
        time.sleep(0.02)


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask and those that it starts, killed at the end."""
    kept = {name: f"{value}" for name, value in KEEP_MEMORY.items()}
    environment = {**os.environ, **kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextlib.contextmanager
def cluster(port: int, workers: int, module: str, folder: Path) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """A client of a new cluster whose workers have loaded the module of the runs, and the scheduler's process."""
    with contextlib.ExitStack() as stack:
        head = stack.enter_context(process("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"))
        wait_for(lambda: answers(port))
        for _ in range(workers):
            stack.enter_context(
                process(
                    "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard",
                    "--local-directory", str(folder),
                )
            )  # fmt: skip
        client = stack.enter_context(client_of(f"127.0.0.1:{port}"))
        client.wait_for_workers(workers, timeout=PATIENCE)
        client.run(importlib.import_module, module)
        yield client, head


def records(store: Store) -> list[Path]:
    return list(store.recorded.rglob("*.json"))


@contextlib.contextmanager
def killed_halfway(store: Store, runs: Sequence[Run], kill: Callable[[], None]) -> Iterator[None]:
    """Meanwhile a thread that kills something when half of the runs are recorded."""

    def watch() -> None:
        wait_for(lambda: 2 * len(records(store)) >= len(runs))
        kill()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join()


def undisturbed(runs: Sequence[Run], store: Store, workers: int) -> float:
    """Seconds of a sweep."""
    with cluster(free_port(), workers, runs[0].module, store.work) as (client, _):
        start = time.perf_counter()
        run_on_cluster(runs, store, client)
        return time.perf_counter() - start


def without_a_worker(runs: Sequence[Run], store: Store, workers: int) -> dict[str, Any]:
    with cluster(free_port(), workers, runs[0].module, store.work) as (client, _):
        one = min(client.run(os.getpid).values())
        with killed_halfway(store, runs, lambda: os.kill(one, signal.SIGKILL)):
            start = time.perf_counter()
            run_on_cluster(runs, store, client)
            return {"seconds": time.perf_counter() - start, "starting again: s": 0.0}


def without_the_scheduler(runs: Sequence[Run], store: Store, workers: int) -> dict[str, Any]:
    """Seconds of both calls, those until the loss was told among them, and of starting the second cluster."""
    port, module = free_port(), runs[0].module
    with cluster(port, workers, module, store.work) as (client, head):
        ready = time.perf_counter()
        with killed_halfway(store, runs, lambda: os.killpg(head.pid, signal.SIGKILL)):
            try:
                run_on_cluster(runs, store, client)
            except ConnectionError:
                first = time.perf_counter() - ready
            else:
                raise RuntimeError("the sweep ended before its scheduler was killed; take more seeds")
    kept, start = len(records(store)), time.perf_counter()
    with cluster(port, workers, module, store.work) as (client, _):
        ready = time.perf_counter()
        outcome = run_on_cluster(runs, store, client)
        if len(outcome.were_done) != kept:
            raise RuntimeError(f"{kept} runs were recorded, and {len(outcome.were_done)} of them were found again")
        return {"seconds": first + time.perf_counter() - ready, "starting again: s": ready - start, "kept": kept}


def check_same(runs: Sequence[Run], store: Store, known: Store) -> None:
    """RuntimeError unless both stores have all records, with the same results but for the seconds that they took."""
    for run in runs:
        one, other = store.load(run), known.load(run)
        if one is None or other is None:
            raise RuntimeError(f"{run} has no record")
        differ = [name for name in {**one.result, **other.result} if one.result.get(name) != other.result.get(name)]
        if differ := [name for name in differ if not name.endswith("seconds")]:
            raise RuntimeError(f"{run} has another {', '.join(differ)} than in an undisturbed sweep")


@click.command(help=__doc__)
@click.option("--experiment", default="binary_sequences", show_default=True, help="Whose smoke runs are made.")
@click.option("--seeds", default=6, show_default=True, help="Of each setting.")
@click.option("--limit", type=int, help="Runs, for a trial; all by default.")
@click.option(
    "--workers", "counts", multiple=True, default=(1, 2, 4), show_default=True, help="Processes of a cluster."
)
@click.option("--output", type=click.Path(path_type=Path), default=benchmarks.FOLDER / "cluster.json")
def main(experiment: str, seeds: int, limit: int | None, counts: tuple[int, ...], output: Path) -> None:
    settings = [run for run in Experiment(experiment).runs("smoke") if run.seed == 0]
    runs = [dataclasses.replace(run, seed=seed) for seed in range(seeds) for run in settings][:limit]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:

        def new_store(name: str) -> Store:
            store = Store(Path(place) / name / "results", Path(place) / name / "work")
            store.work.mkdir(parents=True)
            return store

        undisturbed(settings[:limit], new_store("first"), 1)  # compiles what is kept for all that follow
        stores = {workers: new_store(f"{workers}") for workers in sorted({*counts, 2})}
        seconds: dict[int, float] = {}
        for workers, store in stores.items():
            seconds[workers] = undisturbed(runs, store, workers)
            check_same(runs, store, next(iter(stores.values())))
            rate = 60 * len(runs) / seconds[workers]
            first = rows[0]["runs/minute"] if rows else rate
            rows.append({"workers": workers, "seconds": seconds[workers], "runs/minute": rate, "ratio": rate / first})
            click.echo(str(rows[-1]))
        lost: list[dict[str, Any]] = [{"two workers": "undisturbed", "seconds": seconds[2]}]
        for way, disturbed in {
            "a worker is killed": without_a_worker,
            "the scheduler is killed": without_the_scheduler,
        }.items():
            store = new_store(way.replace(" ", "-"))
            found = disturbed(runs, store, 2)
            check_same(runs, store, stores[2])
            lost.append({"two workers": way, **found, "lost: s": found["seconds"] - seconds[2]})
            click.echo(str(lost[-1]))
    recorded = benchmarks.record(
        output,
        "Sweeps on clusters",
        f"{len(runs)} runs of {experiment} at profile smoke on this machine: runs per minute by workers; and seconds "
        "lost when a worker, or the scheduler, is killed with half of the runs recorded. If it is the scheduler, both "
        "calls of the sweep count, with the time until the first one gives up; starting the second cluster stands "
        "beside. All results are identical.",
        {"Runs per minute": rows, "What is lost": lost},
        packages=["distributed"],
        cores=available_cores(),
        runs=len(runs),
        seeds=seeds,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
