"""From sources to pages: execute what is not up to date, then let Jupyter Book render the executed notebooks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lib import ROOT
from lib.batch import BUILD
from lib.batch.execution import Job, Outcome, clear_partials
from lib.batch.identity import digests, page_key
from lib.batch.pages import Page, executable_pages, profile_parameters
from lib.batch.side_by_side import Workers
from lib.machine import available_cores
from lib.report.records import append, read
from lib.runs.sweep import clear_half_written


class BuildFailed(RuntimeError):
    """The book could not be made; the message holds the log of what failed."""


def executed_folder(profile: str) -> Path:
    return BUILD / "executed" / profile


def page_job(page: Page, profile: str) -> Job:
    parameters = profile_parameters(page, profile)
    return Job(page, parameters, profile, executed_folder(profile) / page.name, page_key(page, profile, parameters))


def default_workers() -> int:
    return min(4, available_cores())


def clear_leftovers() -> None:
    """Remove what was left by executions that were killed: running kernels, their sockets, half-written files."""
    from lib.batch.kernels import clear_kernels

    clear_kernels()
    for name in ("executed", "runs"):
        clear_partials((BUILD / name).rglob("*.partial-*"))
    clear_half_written(BUILD / "sweeps")


def execute_book(
    profile: str, workers: int | None = None, report: Callable[[Outcome], None] = lambda outcome: None
) -> list[Job]:
    """Execute every page that is not up to date at this profile, chapters before the pages that show their results.

    Raises BuildFailed when a page fails, after all others have run; the message holds the failing cells with their
    tracebacks.
    """
    jobs = [page_job(page, profile) for page in executable_pages()]
    clear_leftovers()
    with Workers(workers or default_workers()) as pages:
        for stage in (True, False):
            stale = [job for job in jobs if job.page.is_chapter is stage and not job.is_done()]
            # after a chapter its results have to be shown anew
            outcomes = pages.execute(stale, report, others_follow=stage)
            failed = [outcome for outcome in outcomes if outcome.failed]
            if failed:
                raise BuildFailed("\n\n".join(_describe(outcome) for outcome in failed))
    digests.keep()
    return jobs


def _describe(outcome: Outcome) -> str:
    files = "".join(f"\n  {name}" for name in outcome.files)
    return f"{outcome.page} failed after {outcome.seconds:.0f} s:\n{outcome.error}\nLeft behind:{files or ' nothing'}"


def render(profile: str, clean: bool = False) -> Path:
    """Render the pages with Jupyter Book, warnings as errors; returns the first page.

    Raises BuildFailed when Sphinx warns or fails; its own output stands above the message.
    """
    if clean:
        for name in ("html", ".doctrees", "jupyter_execute"):
            shutil.rmtree(BUILD / name, ignore_errors=True)
    start = f"import lib.batch; from lib.runs.endings import at_once, end_with; end_with({os.getpid()})"
    start += "; from jupyter_book.cli.main import main; at_once(main)"
    command = [sys.executable, "-c", start, "build", str(ROOT), "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(command, env={**os.environ, "BOOK_PROFILE": profile}, cwd=ROOT, check=False)
    first = BUILD / "html" / "book" / "index.html"
    if done.returncode or not first.exists():
        raise BuildFailed(f"Jupyter Book ended with exit status {done.returncode}; the warnings above say where")
    return first


def record_claims(jobs: list[Job], profile: str) -> list[Path]:
    """Keep the claim records of this profile in `results/claims`, for the scorecard of later builds.

    A check that fails is never kept there: it belongs to the code of one moment, and the scorecard shows it live.
    """
    kept = []
    for job in jobs:
        if not job.page.is_chapter:
            continue
        found = [record for record in read(job.records) if record["outcome"] != "fails"]
        target = ROOT / "results" / "claims" / profile / f"{job.page.name.removeprefix('notebooks/')}.jsonl"
        if not found:
            target.unlink(missing_ok=True)
        else:
            partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
            partial.unlink(missing_ok=True)
            for record in found:
                append(partial, record)
            partial.replace(target)
            kept.append(target)
    return kept
