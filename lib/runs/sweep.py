"""Sweeps: all runs of an experiment, on this machine, on a Dask cluster, through SLURM, or a share of them alone."""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm.auto import tqdm

from lib.machine import available_cores
from lib.runs.definition import Run
from lib.runs.store import RunningElsewhere, Store

GONE = "the scheduler is gone; what was finished is kept, start again to go on"
RETRIES = 3  # times a run may lose its worker before it counts as failed
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**33, "MALLOC_MMAP_THRESHOLD_": 2**30, "MALLOC_ARENA_MAX": 1}
"""For glibc in a worker: keep freed memory, which the next update needs again. Dask lets it return every 64 KiB to the
system at once, and then half of the time of a training on a CPU goes into taking it back page by page."""


@dataclass
class Outcome:
    """What became of a sweep."""

    done: list[str] = field(default_factory=list)
    were_done: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # identity -> traceback

    def enter(self, identity: str, state: str, error: str) -> None:
        if state == "failed":
            self.failed[identity] = error
        else:
            {"done": self.done, "was done": self.were_done, "elsewhere": self.elsewhere}[state].append(identity)


def shard(runs: Sequence[Run], text: str) -> list[Run]:
    """Part i of n of the runs, for `i/n`: every n-th from the i-th on, so that parts cost about the same.

    Raises ValueError unless 1 <= i <= n.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, parts = (int(group) for group in match.groups()) if match else (0, 0)
    if not 1 <= number <= parts:
        raise ValueError(f"shard: i/n with 1 <= i <= n is allowed, got {text!r}")
    return list(runs[number - 1 :: parts])


def chosen(runs: Sequence[Run], where: Mapping[str, Any]) -> list[Run]:
    """The runs whose parameters (or seed) have these values. Raises ValueError for a name that no run has."""
    for name in where:
        known = {"seed", *(key for run in runs for key in run.parameters)}
        if name not in known:
            raise ValueError(f"where: one of {', '.join(sorted(known))} is allowed, got {name!r}")
    return [
        run for run in runs if all({**run.parameters, "seed": run.seed}[key] == value for key, value in where.items())
    ]


def execute(run: Run, store: Store, device: str, threads: int | None, progress: bool = False) -> tuple[str, str, str]:
    """One run, in whatever process this is: identity, state, and the traceback if it failed."""
    try:
        return run.identity, store.execute(run, _place(device), threads, progress), ""
    except RunningElsewhere:
        return run.identity, "elsewhere", ""
    except Exception:  # one failed run must not end the others
        return run.identity, "failed", traceback.format_exc()


def _place(device: str) -> str:
    """The GPU of this worker, where there are several."""
    if device != "cuda":
        return device
    import torch
    from distributed import get_worker

    with contextlib.suppress(ValueError):
        name = str(get_worker().name)
        if name.isdigit():
            return f"cuda:{int(name) % torch.cuda.device_count()}"
    return "cuda"


def run_here(runs: Sequence[Run], store: Store, device: str = "cpu", threads: int | None = None) -> Outcome:
    """All runs one after the other in this process."""
    outcome = Outcome()
    for run in tqdm(runs, unit="run", desc="sweep"):
        outcome.enter(*execute(run, store, device, threads, progress=True))
    return outcome


def run_on_cluster(
    runs: Sequence[Run],
    store: Store,
    client: Any,
    device: str = "cpu",
    threads: int | None = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """All runs as tasks of a Dask cluster; a run whose worker dies goes on elsewhere from its checkpoint.

    Raises ConnectionError when the scheduler is gone for good; whatever was finished is kept.
    """
    from distributed import as_completed

    outcome = Outcome()
    waiting = []
    for run in runs:
        if store.is_done(run):
            outcome.were_done.append(run.identity)
        else:
            waiting.append(run)
    if not waiting:
        return outcome
    names = {run.identity: run for run in waiting}
    futures = [
        client.submit(execute, run, store, device, threads, key=task_key(run), pure=False, retries=RETRIES)
        for run in waiting
    ]
    with tqdm(total=len(runs), initial=len(outcome.were_done), unit="run", desc="sweep") as bar:
        for future in as_completed(futures, raise_errors=False):
            identity = future.key[-1]
            state, error = _fate(future, client)
            outcome.enter(identity, state, error)
            if state == "failed":
                tell(f"failed: {names[identity]} {dict(names[identity].parameters)}")
            bar.update()
    return outcome


def task_key(run: Run) -> tuple[str, str]:
    """Runs of an experiment are one group for the scheduler, which hands out and moves only tasks of a known group."""
    return run.experiment, run.identity


def _fate(future: Any, client: Any) -> tuple[str, str]:
    """State of a run whose task has ended, and its traceback if it failed; ConnectionError without a scheduler."""
    try:
        if future.status == "finished":
            _, state, error = future.result()
            return str(state), str(error)
        if future.status == "error" and client.status == "running":
            return "failed", repr(future.exception())
    except (OSError, concurrent.futures.CancelledError) as gone:
        raise ConnectionError(GONE) from gone
    raise ConnectionError(GONE)


@contextlib.contextmanager
def local_client(workers: int | None = None) -> Iterator[Any]:
    """A cluster of processes on this machine, one thread each, one process a core by default."""
    import dask
    from distributed import Client, LocalCluster

    count = workers or available_cores()
    setting = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEEP_MEMORY.items()}
    with (
        dask.config.set(setting),
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextlib.contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client of a running scheduler; ConnectionError if none answers there."""
    from distributed import Client

    try:
        client = Client(address, timeout="5s")
    except (OSError, ValueError) as error:
        raise ConnectionError(f"no scheduler answers at {address}: {error}") from error
    with client:
        yield client


def slurm_cluster(jobs: int, **options: Any) -> Any:
    """A SLURM cluster by dask-jobqueue with `jobs` jobs of one worker; without jobs it only has a script."""
    from dask_jobqueue import SLURMCluster

    exports = [f"export {name}={value}" for name, value in KEEP_MEMORY.items()]
    cluster = SLURMCluster(
        processes=1, scheduler_options={"dashboard_address": None}, job_script_prologue=exports, **options
    )
    if jobs:
        cluster.scale(jobs=jobs)
    return cluster
