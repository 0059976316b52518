"""SLURM jobs: what their script says, what may be asked of them, and a machine that refuses them."""

from __future__ import annotations

import signal
import sys

import pytest
from click.testing import CliRunner

from lib.batch import cli
from lib.runs import slurm
from lib.runs.slurm import slurm_cluster
from lib.runs.store import Store
from tests.runs.test_cluster import listening, within_reach

SWEEP = ["sweep", "binary_sequences", "--profile", "smoke"]


def test_of_a_slurm_cluster_only_its_scheduler_is_within_reach_and_only_while_it_is_open():
    before = listening()
    with slurm_cluster(0, cores=1, memory="1GB") as cluster:
        assert {port for _, port in within_reach(listening() - before)} == {cluster.scheduler.port}
    assert listening() <= before
    arguments = ["sweep", "binary_sequences", "--profile", "smoke", "--dry-run", "--slurm", "2"]
    assert CliRunner().invoke(cli.main, arguments).exit_code == 0
    assert listening() <= before


def test_a_worker_does_one_run_at_a_time_on_all_cores_of_its_job():
    with slurm_cluster(0, cores=4, memory="1GB") as cluster:
        script = cluster.job_script()
    assert "--nthreads 1 " in script and "#SBATCH --cpus-per-task=4" in script


@pytest.mark.parametrize(("asked", "threads"), [([], 4), (["--threads", "2"], 2)])
def test_a_run_has_the_threads_of_its_job_where_nothing_is_said(monkeypatch, tmp_path, asked, threads):
    seen = []
    monkeypatch.setattr("lib.runs.store.store_of", lambda profile: Store(tmp_path / "results", tmp_path / "work"))
    monkeypatch.setattr("lib.runs.commands._sweep", lambda runs, store, device, threads, *more: seen.append(threads))
    monkeypatch.setattr("lib.runs.commands._report", lambda outcome: None)
    CliRunner().invoke(cli.main, [*SWEEP, "--slurm", "2", "--cores", "4", *asked], catch_exceptions=False)
    assert seen == [threads]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--slurm", "2", "--memory", "8"], "memory: a size with its unit, such as 8GB, is allowed, got '8'"),
        (["--slurm", "2", "--memory", "8000"], "memory: a size with its unit"),
        (["--slurm", "2", "--walltime", "4h"], "walltime: a time such as 04:00:00"),
        (["--queue", "long"], "--queue: allowed with --slurm"),
        (
            ["--account", "me", "--walltime", "01:00:00", "--shard", "1/2"],
            "--account, --walltime: allowed with --slurm",
        ),
    ],
)
def test_what_no_job_can_have_is_refused(asked, message):
    done = CliRunner().invoke(cli.main, [*SWEEP, "--dry-run", *asked])
    assert done.exit_code == 1 and message in done.output


def test_times_are_those_of_slurm():
    for time in ("30", "30:00", "04:00:00", "2-00", "2-12:30", "2-12:30:00"):
        with slurm_cluster(0, memory="1GB", walltime=time) as cluster:
            assert f"#SBATCH -t {time}" in cluster.job_script()


def test_a_machine_without_sbatch_or_that_refuses_the_jobs_ends_the_sweep_with_its_words(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="needs sbatch, which is not on the PATH"):
        slurm_cluster(1, memory="1GB")
    monkeypatch.undo()
    for name in ("sbatch", "scancel"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    before = listening()
    with pytest.raises(ValueError, match=r"^sbatch refused the job: sbatch: error: Invalid account$"):
        slurm_cluster(2, memory="1GB")
    assert listening() <= before


def test_jobs_that_are_taken_are_started_and_asked_to_end(tmp_path, monkeypatch):
    log = tmp_path / "log"
    said = {"sbatch": "echo taken >> LOG; echo Submitted batch job 17", "scancel": "echo ended $1 >> LOG"}
    for name, words in said.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{words.replace('LOG', str(log))}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with slurm_cluster(2, memory="1GB"):
        assert log.read_text().split() == ["taken", "taken"]
    assert log.read_text().count("ended 17") == 2


def test_ctrl_c_stays_what_it_is(monkeypatch):
    """As dask-jobqueue is imported it makes ctrl-C end the process without a word, and with status 0."""
    for name in [name for name in sys.modules if name.split(".")[0] == "dask_jobqueue"]:
        monkeypatch.delitem(sys.modules, name)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with slurm_cluster(0, memory="1GB"):
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
