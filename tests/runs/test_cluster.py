"""Sweeps on a cluster of processes started by hand: workers die, the scheduler goes away, nothing finished is lost."""

import contextlib
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import dask
import psutil
import pytest
from distributed import Client, LocalCluster

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


def listening():
    """Addresses and ports at which this process and its children wait for connections."""
    here = psutil.Process()
    sockets = [each for process in (here, *here.children(recursive=True)) for each in process.net_connections()]
    return {tuple(each.laddr) for each in sockets if each.status == psutil.CONN_LISTEN}


def within_reach(sockets):
    """Those of them that another machine can reach."""
    return {(address, port) for address, port in sockets if not ipaddress.ip_address(address).is_loopback}


@contextlib.contextmanager
def scheduler(port):
    """One that answers: to start takes it long where other tests are at work, and a client waits five seconds."""
    with process("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard") as started:
        wait_for(lambda: answers(port) or started.poll() is not None)
        yield started


def answers(port):
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def worker(port, folder):
    return process(
        "worker", f"tcp://127.0.0.1:{port}", "--no-nanny", "--nthreads", "1", "--no-dashboard",
        "--local-directory", str(folder), "--death-timeout", "180",
    )  # fmt: skip


def wait_for(condition, seconds=180):  # kernels may have to be compiled first
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
        client.wait_for_workers(2, timeout=180)

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


def test_a_client_that_was_closed_is_a_lost_scheduler(tmp_path, store):
    runs = experiment(tmp_path, profiles={"smoke": {"set": LONG, "seeds": 1}}).runs("smoke")[:2]
    with local_client(1) as client:
        client.close()
        with pytest.raises(ConnectionError, match="scheduler is gone; what was finished is kept"):
            run_on_cluster(runs, store, client)


def test_a_scheduler_that_goes_away_leaves_what_was_finished_and_a_second_start_does_the_rest(tmp_path, store):
    runs = experiment(tmp_path, profiles={"smoke": {"set": LONG, "seeds": 1}}).runs("smoke")[:4]
    port = free_port()
    with scheduler(port) as head, worker(port, tmp_path), client_of(f"127.0.0.1:{port}") as client:
        client.wait_for_workers(1, timeout=180)

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
    before = listening()
    with local_client(2) as client:
        kept = client.run(lambda: [os.environ.get(name) for name in KEEP_MEMORY])
        assert len(kept) == 2 and all(
            values == [f"{value}" for value in KEEP_MEMORY.values()] for values in kept.values()
        )
        assert listening() - before and not within_reach(listening() - before)
        outcome = run_on_cluster(runs, store, client)
        assert finished <= set(outcome.were_done)
        assert set(outcome.done) | set(outcome.were_done) == {run.identity for run in runs}
        again = run_on_cluster(runs, store, client)
    assert (len(again.were_done), again.done, again.failed) == (len(runs), [], {})


def test_workers_that_were_silent_for_long_are_waited_for(tmp_path, store):
    """As after a machine has slept: the scheduler looks before any worker could say that it is there."""
    (run, *_) = experiment(tmp_path).runs("smoke")
    with dask.config.set({"distributed.scheduler.worker-ttl": "1s"}), local_client(1) as client:
        (worker,) = client.run(os.getpid).values()
        os.kill(worker, signal.SIGSTOP)
        threading.Timer(2, os.kill, (worker, signal.SIGCONT)).start()
        for state in client.cluster.scheduler.workers.values():
            state.last_seen -= 3600
        outcome = run_on_cluster([run], store, client)
        assert list(client.run(os.getpid).values()) == [worker]
    assert (outcome.done, outcome.failed) == ([run.identity], {})


def test_a_scheduler_that_is_not_there_is_an_error_with_its_address():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=re.escape(address)), client_of(address):
        pass


def test_workers_of_several_threads_are_refused(tmp_path, store):
    """Settings by which torch rounds belong to a process: threads in it would change them for each other."""
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as several:
        with (
            Client(several) as client,
            pytest.raises(ValueError, match="workers of one thread are allowed"),
        ):
            run_on_cluster(experiment(tmp_path).runs("smoke")[:1], store, client)
    assert not list(tmp_path.rglob("*.json"))


def test_on_a_worker_of_several_threads_that_comes_late_runs_fail(tmp_path, store):
    runs = experiment(tmp_path).runs("smoke")[:2]
    with LocalCluster(n_workers=0, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        late = threading.Timer(0.5, cluster.scale, (1,))
        late.start()
        with Client(cluster) as client:
            outcome = run_on_cluster(runs, store, client)
        late.join()
    assert set(outcome.failed) == {run.identity for run in runs} and not outcome.done
    assert all("workers of one thread are allowed" in why and "got one of 2" in why for why in outcome.failed.values())


def test_a_run_for_a_gpu_on_a_worker_without_one_fails_with_one_line_and_its_log_is_named(tmp_path, store, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    runs, told, port = experiment(tmp_path).runs("smoke")[:2], [], free_port()
    with scheduler(port), worker(port, tmp_path), client_of(f"127.0.0.1:{port}") as client:
        client.wait_for_workers(1, timeout=180)
        outcome = run_on_cluster(runs, store, client, "cuda", tell=told.append)
    assert set(outcome.failed) == {run.identity for run in runs} and not outcome.done
    for run in runs:
        (line,) = [line for line in told if run.identity in line]
        assert "CUDA finds no GPU" in line and "\n" not in line
        log = store.work_folder(run) / "error.log"
        assert str(log) in line and "Traceback" in log.read_text(encoding="utf-8")
