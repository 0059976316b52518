"""Many pages at once, each in a process of its own; where that is safe, forked from one that has loaded the libraries.

To load what a page and its kernel import takes more than most pages do with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType

from tqdm.auto import tqdm

from lib.batch.execution import QUIET, Job, Outcome, clear_after, environment, execute, with_suffix
from lib.report.records import keep_of_failed_page
from lib.runs.endings import Terminated, end_with, in_one_line, terminable

FORKS = sys.platform == "linux"  # on macOS a process that has loaded system libraries may not be forked
SETTING = "BOOK_FORK"  # 0: every page loads its libraries itself
FIRST_LOADED = ("lib.batch.kernels", "papermill", "ipykernel.kernelapp")
LIBRARIES = (
    "altair",
    "matplotlib.pyplot",
    "numba",
    "pandas",
    "pydantic",
    "scipy.optimize",
    "scipy.signal",
    "scipy.stats",
    "seaborn",
    "sklearn.decomposition",
    "sympy",
    "torch",
    "torch._dynamo",  # which the first optimizer of a process loads
)
INLINE = "module://matplotlib_inline.backend_inline"  # what a kernel sets before it imports Matplotlib
LOOK = 0.5  # seconds between two looks whether Ctrl-C was lost

Start = Callable[[Job, Connection], BaseProcess]


class Workers:
    """Processes that execute pages, at most `number` at once. They share the cores: OMP_NUM_THREADS is set for each,
    unless it is already. At the end of the block, whatever its reason, those that still run are ended and their
    half-written files removed; what was finished stays. Raises ValueError for a BOOK_FORK that is neither 0 nor 1.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        setting = os.environ.get(SETTING) or "1"
        if setting not in ("0", "1"):
            raise ValueError(f"{SETTING}: 0 or 1 is allowed, got {setting!r}")
        self._forks = FORKS and setting == "1"
        self._server: tuple[BaseProcess, Connection] | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._server is not None:
            (process, pipe), self._server = self._server, None
            if kind is None:
                pipe.close()  # it has nothing left to do
            else:
                process.terminate()  # and not by both: the second would cut short what it does at the first
            process.join()
            pipe.close()

    def execute(
        self, jobs: Sequence[Job], report: Callable[[Outcome], None], *, others_follow: bool = False
    ) -> list[Outcome]:
        """Run jobs side by side, the longest first; one that fails does not stop the others.

        `report` is called as each ends. A single one runs in this process; if others follow, what these need is loaded
        meanwhile.
        """
        if len(jobs) == 1:
            if others_follow and self._forks:
                self._server = self._server or self._start(self._number)
            outcomes = [execute(jobs[0], progress=sys.stderr.isatty())]
            report(outcomes[0])
            return outcomes
        jobs = sorted(jobs, key=Job.weight, reverse=True)
        outcomes = []
        with tqdm(total=len(jobs), unit="notebook", disable=None if jobs else True) as bar, _heeding() as look:
            ending = self._on_server(jobs, look) if self._forks else self._spawned(jobs, look)
            with contextlib.closing(ending):
                for outcome in ending:
                    outcomes.append(outcome)
                    bar.update()
                    report(outcome)
        return outcomes

    def _spawned(self, jobs: Sequence[Job], look: Callable[[], None]) -> Generator[Outcome]:
        context = multiprocessing.get_context("spawn")
        threads = self._threads(len(jobs))

        def start(job: Job, sender: Connection) -> BaseProcess:
            process = context.Process(target=_execute_and_send, args=(job, sender, os.getpid()))
            with environment(threads):
                process.start()
            return process

        yield from _side_by_side(jobs, self._number, start, look)

    def _on_server(self, jobs: Sequence[Job], look: Callable[[], None]) -> Generator[Outcome]:
        if not jobs:
            return
        process, pipe = self._server = self._server or self._start(len(jobs))
        waiting = list(jobs)
        pipe.send((waiting, self._number))
        while waiting:
            while not pipe.poll(LOOK):
                look()
            try:
                outcome = pipe.recv()
            except EOFError:
                process.join()
                clear_after(waiting)
                what = f"the process that executes pages ended with exit code {process.exitcode}"
                yield from (Outcome(job.page.name, 0.0, what, what) for job in waiting)
                return
            if outcome is None:  # what it has loaded must not be forked
                self._forks = False
                yield from self._spawned(waiting, look)
                return
            waiting.remove(next(job for job in waiting if job.page.name == outcome.page))
            yield outcome

    def _start(self, jobs: int) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        pipe, other = context.Pipe()
        settings = QUIET | {"MPLBACKEND": os.environ.get("MPLBACKEND") or INLINE} | self._threads(jobs)
        with environment(settings):  # the libraries read them when they are loaded
            process = context.Process(target=_serve, args=(other, (*FIRST_LOADED, *LIBRARIES)))
            process.start()
        other.close()
        return process, pipe

    def _threads(self, jobs: int) -> dict[str, str]:
        # Two pages whose small matrix products each wait for threads on every core are ten times slower than one.
        threads = max(1, (os.cpu_count() or 1) // max(1, min(self._number, jobs)))
        return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(threads)}


def execute_all(jobs: Sequence[Job], workers: int, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Run jobs with `Workers` that are there for these alone."""
    with Workers(workers) as pages:
        return pages.execute(jobs, report)


def _side_by_side(
    jobs: Sequence[Job], workers: int, start: Start, look: Callable[[], None], owner: Connection | None = None
) -> Generator[Outcome]:
    """Outcomes as pages end; those that run are ended when the generator is closed, or the owner's end of its pipe."""
    waiting = deque(jobs)
    running: dict[Connection, tuple[BaseProcess, Job]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                # papermill changes the working directory of its process, so notebooks cannot share one.
                receiver, sender = multiprocessing.Pipe(duplex=False)
                process = start(waiting[0], sender)
                sender.close()
                running[receiver] = process, waiting.popleft()
            for ready in connection.wait([*running, *([owner] if owner else [])], LOOK):
                assert isinstance(ready, Connection)
                if ready is owner:
                    return
                process, job = running.pop(ready)
                try:
                    outcome = ready.recv()
                except EOFError:
                    process.join()
                    keep_of_failed_page(with_suffix(job.target, f".partial-{process.pid}.jsonl"), job.records)
                    clear_after([job])
                    what = f"its process ended with exit code {process.exitcode}"
                    outcome = Outcome(job.page.name, 0.0, what, what)
                process.join()
                yield outcome
            look()
    finally:
        for process, _ in running.values():
            process.kill()
            process.join()
        if running:
            clear_after([job for _, job in running.values()])


def _serve(owner: Connection, modules: Sequence[str]) -> None:
    """Load modules, then execute the pages that the owner sends, in processes forked from this one, until it ends.

    This process starts no thread, so that what it forks is whole. If a library does, the owner gets None for an answer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which ends this process
    try:
        with terminable():
            for name in modules:
                importlib.import_module(name)
            if "numba" in modules:  # its first call sets up types and LLVM, a third of a second for every page
                sys.modules["numba"].njit(lambda number: number)(1)
            path = _path_of_python()
            gc.collect()
            gc.freeze()  # what is loaded stays: looking for garbage in it would copy it into every process
            context = multiprocessing.get_context("fork")

            def start(job: Job, sender: Connection) -> BaseProcess:
                process = context.Process(target=_execute_and_send, args=(job, sender, os.getpid(), path))
                process.start()
                return process

            with contextlib.suppress(EOFError, BrokenPipeError):
                while True:
                    jobs, workers = owner.recv()
                    if not _is_whole_when_forked():
                        owner.send(None)
                        continue
                    for outcome in _side_by_side(jobs, workers, start, lambda: None, owner):
                        owner.send(outcome)
    except Terminated:
        sys.exit(128 + signal.SIGTERM)


def _is_whole_when_forked() -> bool:
    """Threads would be missing in a process that is forked, and CUDA refuses to work there once it has begun."""
    torch = sys.modules.get("torch")
    return threading.active_count() == 1 and not (torch and torch.cuda.is_initialized())


def _path_of_python() -> list[str]:
    """Where a Python that is started now finds modules, whatever this one has added."""
    command = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    found: list[str] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def _execute_and_send(job: Job, sender: Connection, parent: int, path: Sequence[str] | None = None) -> None:
    with contextlib.ExitStack() as closing:
        kernel = None
        if path is not None:
            from lib.batch.kernels import WaitingKernel

            kernel = WaitingKernel(path, [sender])  # before this process has any thread
            closing.callback(kernel.close)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        try:
            with terminable():
                end_with(parent)
                try:
                    outcome = execute(job, kernel=kernel)
                except OSError as error:  # a place where nothing can be written, or no more
                    clear_after([job])
                    outcome = Outcome(job.page.name, 0.0, str(error), in_one_line(error))
                sender.send(outcome)
        except Terminated:
            sys.exit(128 + signal.SIGTERM)


@contextlib.contextmanager
def _heeding() -> Iterator[Callable[[], None]]:
    """What is yielded raises once more what Ctrl-C or SIGTERM has raised here; Python loses that in callbacks."""
    came: list[BaseException] = []

    def look() -> None:
        if came:
            raise came[0]

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def heed(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        assert callable(handler)
        try:
            handler(number, frame)
        except BaseException as error:
            came.append(error)
            raise

    taken = []
    with contextlib.suppress(ValueError):  # in another thread, which no signal reaches
        for number in [number for number, handler in before.items() if callable(handler)]:
            signal.signal(number, heed)
            taken.append(number)
    try:
        yield look
    finally:
        for number in taken:
            if signal.getsignal(number) is heed:
                signal.signal(number, before[number])
