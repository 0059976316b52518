"""Sweeps on a cluster of processes started by hand: workers die, the scheduler goes away, nothing finished is lost."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from lib import ROOT
from lib.runs.store import Store
from lib.runs.sweep import KEEP_MEMORY, client_of, local_client, run_on_cluster
from tests.runs.test_sweep import experiment

LONG = {"fit": {"epochs": 12, "patience": 100}, "length": 64, "training": 400}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def scheduler(port):
    return process("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")


def worker(port, folder):
    return process(
        "worker", f"tcp://127.0.0.1:{port}", "--no-nanny", "--nthreads", "1", "--no-dashboard",
        "--local-directory", str(folder), "--death-timeout", "30",
    )  # fmt: skip


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results", tmp_path / "work")


def test_a_worker_that_is_killed_in_mid_run_costs_nothing_but_time(tmp_path, store):
    runs = experiment(tmp_path, profiles={"smoke": {"set": LONG, "seeds": 1}}).runs("smoke")[:4]
    port = free_port()
    killed = threading.Event()
    with (
        scheduler(port),
        worker(port, tmp_path) as first,
        worker(port, tmp_path),
        client_of(f"127.0.0.1:{port}") as client,
    ):
        client.wait_for_workers(2, timeout=60)

        def kill():
            wait_for(lambda: list(store.work.rglob("checkpoint.safetensors")))
            os.killpg(first.pid, signal.SIGKILL)
            killed.set()

        thread = threading.Thread(target=kill)
        thread.start()
        outcome = run_on_cluster(runs, store, client)
        thread.join()
    assert killed.is_set()
    assert sorted([*outcome.done, *outcome.were_done]) == sorted(run.identity for run in runs)
    assert not outcome.failed
    alone = Store(tmp_path / "alone", tmp_path / "alone-work")
    for run in runs:
        alone.execute(run, threads=1)
        one, other = (dict(place.load(run).result) for place in (store, alone))
        assert one["validation_losses"] == other["validation_losses"]
        assert one["information"] == other["information"]


def test_a_scheduler_that_goes_away_leaves_what_was_finished_and_a_second_start_does_the_rest(tmp_path, store):
    runs = experiment(tmp_path, profiles={"smoke": {"set": LONG, "seeds": 1}}).runs("smoke")[:4]
    port = free_port()
    with scheduler(port) as head, worker(port, tmp_path), client_of(f"127.0.0.1:{port}") as client:
        client.wait_for_workers(1, timeout=60)

        def kill():
            wait_for(lambda: list(store.recorded.rglob("*.json")))
            os.killpg(head.pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(ConnectionError, match="scheduler is gone"):
            run_on_cluster(runs, store, client)
        thread.join()
    finished = {path.stem for path in store.recorded.rglob("*.json")}
    assert 1 <= len(finished) < len(runs)
    with local_client(2) as client:
        kept = client.run(lambda: [os.environ.get(name) for name in KEEP_MEMORY])
        assert len(kept) == 2 and all(
            values == [f"{value}" for value in KEEP_MEMORY.values()] for values in kept.values()
        )
        outcome = run_on_cluster(runs, store, client)
        assert finished <= set(outcome.were_done)
        assert set(outcome.done) | set(outcome.were_done) == {run.identity for run in runs}
        again = run_on_cluster(runs, store, client)
    assert (len(again.were_done), again.done, again.failed) == (len(runs), [], {})


def test_a_scheduler_that_is_not_there_is_an_error_with_its_address():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=re.escape(address)), client_of(address):
        pass
