"""A cluster of SLURM jobs, and what may be asked of one."""

from __future__ import annotations

import re
import shutil
import signal
import threading
from typing import Any

from distributed.core import Status

from lib.runs.endings import in_one_line
from lib.runs.sweep import DASHBOARD, KEEP_MEMORY

_MEMORY = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B")
_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}")  # minutes, hours:minutes:seconds, days-hours and so on


def slurm_cluster(
    jobs: int,
    *,
    memory: str = "8GB",
    walltime: str = "04:00:00",
    cores: int = 1,
    queue: str | None = None,
    account: str | None = None,
) -> Any:
    """A cluster by dask-jobqueue with `jobs` jobs of one worker; without jobs it only has a script.

    A worker does one run at a time, on all cores of its job: runs in threads of one process would change the settings
    by which torch rounds for each other. memory: a size with its unit, such as 8GB. walltime: as SLURM writes times,
    such as 04:00:00 or 2-00. Raises ValueError for others, for a machine without `sbatch`, and with what `sbatch` said
    where it refuses the jobs; then none is left.
    """
    if not _MEMORY.fullmatch(memory):
        raise ValueError(f"memory: a size with its unit, such as 8GB, is allowed, got {memory!r}")
    if not _TIME.fullmatch(walltime):
        raise ValueError(f"walltime: a time such as 04:00:00, or 2-00 for two days, is allowed, got {walltime!r}")
    if jobs and shutil.which("sbatch") is None:
        raise ValueError(
            "--slurm needs sbatch, which is not on the PATH; --shard I/N does a part of a sweep without it"
        )
    cluster = _jobqueue()(
        scheduler_options={"dashboard_address": DASHBOARD},
        job_script_prologue=[f"export {name}={value}" for name, value in KEEP_MEMORY.items()],
        cores=1,
        processes=1,
        job_cpu=cores,
        memory=memory,
        walltime=walltime,
        queue=queue,
        account=account,
    )

    async def submitted() -> None:
        while len(cluster.worker_spec) < jobs:  # as `scale` does, but for what it leaves to the background
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster._correct_state()  # else what goes wrong is written to a log, and the sweep waits for ever

    if jobs:
        try:
            cluster.sync(submitted)
        except (RuntimeError, OSError) as error:
            for job in cluster.workers.values():
                if job.status is Status.created:  # refused; a cluster closes only what has begun or is closed
                    job.status = Status.closed
            cluster.close()
            raise ValueError(f"sbatch refused the job: {_said(error)}") from error
    return cluster


def _said(error: Exception) -> str:
    """What a command wrote to its standard error, if dask-jobqueue tells it."""
    return " ".join(str(error).rpartition("stderr:")[2].split()) or in_one_line(error)


def _jobqueue() -> Any:
    """The class of clusters; importing it takes over ctrl-C, after which a sweep would end without a word."""
    before = signal.getsignal(signal.SIGINT)
    from dask_jobqueue import SLURMCluster

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    return SLURMCluster
