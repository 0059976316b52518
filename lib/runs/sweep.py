"""Sweeps: all runs of an experiment, on this machine, on a Dask cluster, through SLURM, or a share of them alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from lib.machine import available_cores, locked, needs_scheduler
from lib.runs.definition import Run
from lib.runs.endings import in_one_line
from lib.runs.forecast import Clock, dotted, in_words, seconds_of
from lib.runs.store import RunningElsewhere, Store

THEN = "what was finished is kept, start again to go on"  # if the scheduler goes away
DASHBOARD = "127.0.0.1:0"  # it asks for no password; without an address here it is the one that workers come to
ONE_THREAD = "workers of one thread are allowed (dask worker --nthreads 1), got one of {}"
RETRIES = 3  # times a run may lose its worker before it counts as failed
HALF_WRITTEN = ("*.safetensors.partial-*", "*.safetensors.*.partial", ".tmp??????")  # the last two: of former versions
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**33, "MALLOC_MMAP_THRESHOLD_": 2**30, "MALLOC_ARENA_MAX": 1}
"""For glibc in a worker: keep freed memory, which the next update needs again. Dask lets it return every 64 KiB to the
system at once, and then half of the time of a training on a CPU goes into taking it back page by page."""


@dataclass
class Outcome:
    """What became of a sweep."""

    done: list[str] = field(default_factory=list)
    were_done: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # identity -> one line: what went wrong, where the log is

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
    """The runs whose parameters (or seed) have these values; `fit.epochs` names the parameter epochs inside fit.

    Raises ValueError for a name that no run has, and for a value that no run, or none of those left, has: the message
    lists those there are.
    """
    left = [(run, _asked(run)) for run in runs]
    known = sorted({name for _, asked in left for name in asked})
    for name, value in where.items():
        if name not in known:
            raise ValueError(f"where: one of {', '.join(known)} is allowed, got {name!r}")
        values = [asked[name] for _, asked in left if name in asked]
        left = [(run, asked) for run, asked in left if name in asked and _is_meant(asked[name], value)]
        if not left:
            there = ", ".join(sorted({_as_given(each) for each in values}, key=_in_order)) or "nothing"
            others = " and ".join(f"{key}={_as_given(where[key])}" for key in where if key != name)
            among = f" of the runs with {others}" if others else ""
            raise ValueError(f"where: {name}{among} is one of {there}, got {_as_given(value)}")
    return [run for run, _ in left]


def _asked(run: Run) -> dict[str, Any]:
    """All that a run can be chosen by: its seed and its parameters, those inside others by names with dots."""
    return {"seed": run.seed, **dotted(run.parameters)}


def _is_meant(there: Any, given: Any) -> bool:
    """The value itself, or one that is written alike: on the command line a text "true" looks like the truth."""
    alike = isinstance(there, bool) == isinstance(given, bool)  # in Python True is 1, and would choose seed 1
    return _as_given(there) == _as_given(given) or (alike and bool(there == given))


def _as_given(value: Any) -> str:
    """A value as it is written on the command line: YAML on one line."""
    return json.dumps(value, default=str) if not isinstance(value, str) else value


def _in_order(text: str) -> tuple[float, str]:
    try:
        return float(text), ""
    except ValueError:
        return math.inf, text


def in_short(run: Run) -> str:
    """The parameters of a run that are plain values, and its seed, in one line."""
    plain = {key: value for key, value in run.parameters.items() if not isinstance(value, Mapping)}
    return " ".join(f"{key}={value}" for key, value in {**plain, "seed": run.seed}.items())


def execute(run: Run, store: Store, device: str, threads: int | None, progress: bool = False) -> tuple[str, str, str]:
    """One run, in whatever process this is: identity, state, and in one line what went wrong if it failed.

    The traceback of a failed run goes to `error.log` in its work folder.
    """
    log = store.work_folder(run) / "error.log"
    try:
        _refuse_threads()
        state = store.execute(run, _place(device), threads, progress)
        with contextlib.suppress(OSError):
            log.unlink()
        return run.identity, state, ""
    except RunningElsewhere:
        return run.identity, "elsewhere", ""
    except Exception as error:  # one failed run must not end the others
        return run.identity, "failed", f"{in_one_line(error)}; {_keep_traceback(log, run)}"


def _worker() -> Any:
    """The worker of a cluster whose task this is, or None."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):
            return get_worker()
    return None


def _refuse_threads() -> None:
    """Raises ValueError in a worker that runs several tasks in one process, also one that came late."""
    worker = _worker()
    if worker is not None and (threads := worker.state.nthreads) > 1:
        raise ValueError(ONE_THREAD.format(threads))


def _keep_traceback(log: Path, run: Run) -> str:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{run} {in_short(run)}\n{traceback.format_exc()}", encoding="utf-8")
    except OSError as error:  # a full disk may be why the run failed
        return f"its traceback could not be kept in {log}: {error}"
    return f"its traceback is in {log}"


def _place(device: str) -> str:
    """The GPU of this worker, where there are several. Raises ValueError where there is none."""
    if device != "cuda":
        return device
    count = graphics_cards()
    name = str(getattr(_worker(), "name", ""))
    return f"cuda:{int(name) % count}" if name.isdigit() else "cuda"


def graphics_cards() -> int:
    """How many GPUs this process can compute on. Raises ValueError if there is none."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise ValueError(
            f"device: CUDA finds no GPU on {socket.gethostname()} (torch {torch.__version__}); --device cpu is allowed"
        )
    return count


def run_here(
    runs: Sequence[Run],
    store: Store,
    device: str = "cpu",
    threads: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
    costs: Mapping[str, float] | None = None,
) -> Outcome:
    """All runs one after the other in this process. costs: forecast seconds by identity, for the bar."""
    outcome, clock = Outcome(), Clock(costs or {})
    with tqdm(runs, unit="run", desc="sweep") as bar:
        tell_time(bar, clock)
        for run in bar:
            identity, state, error = execute(run, store, device, threads, progress=True)
            outcome.enter(identity, state, error)
            if state == "failed":
                tell(f"{run} failed ({in_short(run)}): {error}")
            tell_time(bar, clock, run, state, store)
    return outcome


def tell_time(bar: Any, clock: Clock, run: Run | None = None, state: str = "", store: Store | None = None) -> None:
    """What is left, beside the bar; a run that has ended corrects it."""
    if run is not None and store is not None and run.identity in clock.costs:
        record = store.load(run) if state == "done" else None
        clock.enter(run.identity, seconds_of(record.model_dump()) if record else None)
    if (left := clock.left()) > 0:
        bar.set_postfix_str(f"about {in_words(left)} left")


def clear_half_written(work: Path) -> None:
    """Remove the half-written checkpoints below this folder whose run is in nobody's hand."""
    for partial in itertools.chain.from_iterable(map(work.rglob, HALF_WRITTEN)):
        with locked(partial.parent / "lock", wait=False) as is_orphan:
            if is_orphan:
                partial.unlink(missing_ok=True)


def run_on_cluster(
    runs: Sequence[Run],
    store: Store,
    client: Any,
    device: str = "cpu",
    threads: int | None = 1,
    tell: Callable[[str], None] = lambda line: None,
    costs: Mapping[str, float] | None = None,
) -> Outcome:
    """All runs as tasks of a Dask cluster; a run whose worker dies goes on elsewhere from its checkpoint.

    They begin in the order given. costs: forecast seconds by identity, for the bar. Raises ConnectionError when the
    scheduler is gone for good; whatever was finished is kept. ValueError for workers of several threads, in which runs
    would change the settings by which torch rounds for each other; on one that comes later, runs fail.
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
    with needs_scheduler(THEN):
        workers = client.scheduler_info().get("workers", {}).values()  # none of a client that was closed
        if (most := max((worker["nthreads"] for worker in workers), default=1)) > 1:
            raise ValueError(ONE_THREAD.format(most))
        futures = [
            client.submit(execute, run, store, device, threads, key=task_key(run), pure=False, retries=RETRIES)
            for run in waiting
        ]
    clock = Clock(costs or {}, max(len(client.scheduler_info()["workers"]), 1))
    with tqdm(total=len(runs), initial=len(outcome.were_done), unit="run", desc="sweep") as bar:
        tell_time(bar, clock)
        for future in as_completed(futures, raise_errors=False):
            identity = future.key[-1]
            state, error = _fate(future, client)
            outcome.enter(identity, state, error)
            if state == "failed":
                tell(f"{names[identity]} failed ({in_short(names[identity])}): {error}")
            tell_time(bar, clock, names[identity], state, store)
            bar.update()
    return outcome


def task_key(run: Run) -> tuple[str, str]:
    """Runs of an experiment are one group for the scheduler, which hands out and moves only tasks of a known group."""
    return run.experiment, run.identity


def _fate(future: Any, client: Any) -> tuple[str, str]:
    """State of a run whose task has ended, and what went wrong if it failed; ConnectionError without a scheduler."""
    with needs_scheduler(THEN):
        if future.status == "finished":
            _, state, error = future.result()
            return str(state), str(error)
        if future.status == "error" and client.status == "running":
            return "failed", in_one_line(future.exception())
        raise CancelledError


@contextlib.contextmanager
def local_client(workers: int | None = None) -> Iterator[Any]:
    """A cluster of processes on this machine, one thread each, one process per core by default.

    A worker that is silent is waited for: a machine that slept goes on, and so does a sweep that Ctrl-Z had stopped. Of
    one that has died its nanny knows at once.
    """
    import dask
    from distributed import Client, LocalCluster

    count = workers or available_cores()
    setting: dict[str, Any] = {"distributed.scheduler.worker-ttl": None}
    setting |= {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEEP_MEMORY.items()}
    with (
        dask.config.set(setting),
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=DASHBOARD, host="127.0.0.1"
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
