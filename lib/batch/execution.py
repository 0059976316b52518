"""Executing a notebook in a private kernel: nothing is written half."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

from lib import inputs
from lib.batch.pages import Page
from lib.machine import locked, write_whole
from lib.report.records import keep_of_failed_page
from lib.runs.endings import in_one_line

if TYPE_CHECKING:
    from lib.batch.kernels import WaitingKernel

QUIET = {"TQDM_DISABLE": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # settings of every kernel
CELL_TIMEOUT = 3600  # seconds; a hung cell must not hang the book for ever
PARTIAL = re.compile(r"(?P<whose>.+\.partial-\d+)\.(ipynb|jsonl|inputs|lock)")


@dataclass(frozen=True)
class Job:
    """One execution: a page, what to change in its parameters, and where its files go (a path without suffix)."""

    page: Page
    parameters: Mapping[str, Any]
    profile: str
    target: Path
    key: str = ""
    keeps: bool = False  # what an interruption leaves, as a failed execution does

    @property
    def notebook(self) -> Path:
        return with_suffix(self.target, ".ipynb")

    @property
    def records(self) -> Path:
        return with_suffix(self.target, ".jsonl")

    @property
    def stamp(self) -> Path:
        return with_suffix(self.target, ".stamp.json")

    @property
    def failed_notebook(self) -> Path:
        return with_suffix(self.target, ".failed.ipynb")

    @property
    def log(self) -> Path:
        return with_suffix(self.target, ".log")

    def is_done(self) -> bool:
        """True when a complete execution with this very key lies there, and nothing that it read has changed."""
        if not (self.key and self.notebook.exists() and self.records.exists() and self.stamp.exists()):
            return False
        from lib.batch.identity import unchanged  # the processes that execute pages do not need it

        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
            whole = stamp["key"] == self.key and stamp["sizes"] == self.sizes()
            return whole and unchanged([inputs.parse(one) for one in stamp["inputs"]])
        except (OSError, ValueError, KeyError, TypeError):  # cut off, or written by a former version of the book
            return False

    def sizes(self) -> list[int]:
        """Bytes of the notebook and of the records, which a power cut may leave short."""
        return [path.stat().st_size for path in (self.notebook, self.records)]

    def current_key(self) -> str:
        """The key as files are now; empty for a job without one."""
        if not self.key:
            return ""
        from lib.batch.identity import page_key

        return page_key(Page(self.page.name, self.page.root), self.profile, self.parameters)

    def weight(self) -> tuple[bool, float]:
        """What to sort by for the longest first: seconds of the last execution; before all where there is none."""
        try:
            return False, float(json.loads(self.stamp.read_text(encoding="utf-8"))["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return True, float(len(self.page.text))

    def execution(self) -> str:
        """A text that tells this execution from every other of the page; empty where there is none."""
        return self.stamp.read_text(encoding="utf-8") if self.stamp.exists() else ""


@dataclass(frozen=True)
class Outcome:
    page: str
    seconds: float
    error: str = ""  # the failing cell and its traceback; empty when all is well
    reason: str = ""  # the same in one line
    files: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return bool(self.error)


def execute(job: Job, progress: bool = False, kernel: WaitingKernel | None = None) -> Outcome:
    """Run one page through papermill, in this process; in the kernel that waits for it, if there is one.

    The executed notebook appears under its name only when every cell has run. When one fails, the copy as far as it
    came and the traceback are left beside it as `.failed.ipynb` and `.log`, and the records so far, a failing check
    among them, are kept where the scorecard reads those of the page. What is half-written carries the number of this
    process and `.partial-` in its name, and is held by a lock file: if this process is killed, the next execution of
    the page, or `clear_partials`, finds the lock free and removes it.
    """
    job.target.parent.mkdir(parents=True, exist_ok=True)
    clear_partials(job.target.parent.glob(f"{glob.escape(job.target.name)}.partial-*"))
    partial = with_suffix(job.target, f".partial-{os.getpid()}")
    with locked(with_suffix(partial, ".lock")):
        try:
            return _execute(job, partial, progress, kernel)
        finally:
            _remove(partial)


def _execute(job: Job, half: Path, progress: bool, kernel: WaitingKernel | None) -> Outcome:
    import papermill  # half a second that readers of the other functions need not wait for

    from lib.batch.kernels import private_kernels

    partial, partial_records, partial_inputs = (with_suffix(half, end) for end in (".ipynb", ".jsonl", ".inputs"))
    for leftover in (job.failed_notebook, job.log, job.stamp):
        leftover.unlink(missing_ok=True)
    settings = {
        "BOOK_PAGE": job.page.name,
        "BOOK_PROFILE": job.profile,
        "BOOK_RECORDS": str(partial_records.absolute()),  # the kernel works in the folder of the page
        inputs.VARIABLE: str(partial_inputs.absolute()),
        "BOOK_RECORDS_DIR": str(job.target.absolute().parents[job.page.name.count("/")]),
    } | QUIET
    lock = with_suffix(half, ".lock")
    start, before, locks = time.monotonic(), job.current_key(), lock.exists()
    try:
        with environment(settings), private_kernels(kernel) as manager:
            papermill.execute_notebook(
                job.page.notebook(),
                str(partial),
                parameters=dict(job.parameters),
                kernel_name="python3",
                progress_bar={"desc": job.page.name, "unit": "cell"} if progress else False,
                cwd=str(job.page.source.parent),
                execution_timeout=CELL_TIMEOUT,
                engine_name=_sparing_engine(),
                kernel_manager_class=manager,
                shutdown_kernel="immediate",
            )
    except Exception as error:  # papermill's own, a dead kernel, a timeout: each ends this page and no other
        message = str(error) if type(error).__name__ == "PapermillExecutionError" else traceback.format_exc()
        keep_of_failed_page(partial_records, job.records)  # first of all: the disk may be full, and the rest tells less
        if partial.exists():
            partial.replace(job.failed_notebook)
        with contextlib.suppress(OSError):
            write_whole(job.log, f"{job.page.name}\n{message}\n")
        files = tuple(str(path) for path in (job.failed_notebook, job.log) if path.exists())
        return Outcome(job.page.name, time.monotonic() - start, message, in_one_line(error), files)
    except KeyboardInterrupt:
        if job.keeps and partial.exists():
            partial.replace(job.failed_notebook)
        raise
    seconds = time.monotonic() - start
    if locks and not lock.exists():  # and with it the records and inputs that were there at that moment
        what = f"{job.target.parent} was removed while the page ran; start again"
        return Outcome(job.page.name, seconds, what, what)
    _strip_run_metadata(partial)
    partial_records.touch()
    partial_records.replace(job.records)
    partial.replace(job.notebook)
    # code that was changed while the page ran, and maybe changed back: nobody knows which of it ran
    key = job.key if before == job.current_key() == job.key else "changed meanwhile"
    stamp = {"key": key, "seconds": round(seconds, 1), "profile": job.profile, "ended": time.time_ns()}
    write_whole(job.stamp, json.dumps(stamp | {"sizes": job.sizes(), "inputs": _noted(partial_inputs)}, indent=0))
    return Outcome(job.page.name, seconds, files=(str(job.notebook),))


def _sparing_engine() -> str:
    """The name of papermill's engine with one difference: it writes the notebook every half minute and when it ends,
    however it ends, and not before and after each cell, which took a tenth of the time of a build.
    """
    from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

    class Sparing(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: NotebookExecutionManager, *words: Any, **options: Any) -> None:
            write = nb_man.save

            def seldom() -> None:
                if (nb_man.now() - nb_man.last_save_time).total_seconds() >= nb_man.autosave_cell_every:
                    write()

            nb_man.save = seldom
            try:
                super().execute_managed_notebook(nb_man, *words, **options)
            finally:
                nb_man.save = write

    papermill_engines.register("sparing", Sparing)
    return "sparing"


def _noted(path: Path) -> list[inputs.Input] | None:
    """The inputs noted by a page; None where that is not to be known, so that the page is executed again."""
    try:
        return inputs.read(path)
    except ValueError:
        return None


def clear_partials(files: Iterable[Path]) -> None:
    """Remove those of these files that an execution left half-written when it was killed; no others are touched."""
    matches = [(path, PARTIAL.fullmatch(path.name)) for path in files]
    for half in {path.with_name(match["whose"]) for path, match in matches if match}:
        with locked(with_suffix(half, ".lock"), wait=False) as is_orphan:
            if is_orphan:
                _remove(half)


def _remove(half: Path) -> None:
    for end in (".ipynb", ".jsonl", ".inputs", ".lock"):
        with_suffix(half, end).unlink(missing_ok=True)


def clear_after(jobs: Sequence[Job]) -> None:
    """After the processes of these jobs were killed: end their kernels, then remove what is half-written."""
    from lib.batch.kernels import clear_kernels

    clear_kernels()
    for job in jobs:
        clear_partials(job.target.parent.glob(f"{glob.escape(job.target.name)}.partial-*"))


def with_suffix(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)


class environment:
    """Environment variables for the kernel that is started inside the block."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._new = dict(variables)

    def __enter__(self) -> None:
        self._old = {name: os.environ.get(name) for name in self._new}
        os.environ.update(self._new)

    def __exit__(self, *_: object) -> None:
        for name, value in self._old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _strip_run_metadata(path: Path) -> None:
    """Remove papermill's paths and times: they name this machine and differ from run to run."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
    nbformat.write(notebook, path)
