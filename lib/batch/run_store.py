"""Where runs live: a working folder each while they go on, one JSON file each when they are done."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib import ROOT
from lib.experiments.definition import Experiment, Run
from lib.report import provenance

RECORDED = ROOT / "results" / "runs"  # in git
WORK = ROOT / "_build" / "sweeps"  # checkpoints, weights, and finished runs of profile smoke
DIGITS = 7  # significant ones that a record keeps: float32 has no more


class RunningElsewhere(RuntimeError):
    """Another process has this run in hand."""


@dataclass(frozen=True)
class Store:
    """Finished runs below `recorded`, unfinished ones below `work`; machines that work together share both folders."""

    recorded: Path = RECORDED
    work: Path = WORK

    def record_path(self, run: Run) -> Path:
        return self.recorded / run.experiment / f"{run.identity}.json"

    def work_folder(self, run: Run) -> Path:
        return self.work / run.experiment / run.identity

    def is_done(self, run: Run) -> bool:
        return self.record_path(run).exists()

    def load(self, run: Run) -> dict[str, Any] | None:
        """The record of this very run; None if there is none. Raises ValueError for a record that is damaged."""
        path = self.record_path(run)
        return _read(path) if path.exists() else None

    def execute(
        self, run: Run, device: str = "cpu", threads: int | None = None, progress: bool = False, wait: bool = False
    ) -> str:
        """Do the run unless it is done: resume from its checkpoint, then write its record under its final name.

        Returns "done", or "was done". If another process is at it, wait for that one, or raise RunningElsewhere.
        """
        if self.is_done(run):
            return "was done"
        folder = self.work_folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / "lock", wait):
            if self.is_done(run):
                return "was done"
            if threads is not None:
                import torch

                torch.set_num_threads(threads)
            started = time.perf_counter()
            module = importlib.import_module(run.module)
            result = module.run(run.parameters, run.seed, folder, device=device, progress=progress)
            record = {
                "experiment": run.experiment,
                "identity": run.identity,
                "question": run.question,
                "code": run.code,
                "parameters": dict(run.parameters),
                "seed": run.seed,
                "result": _rounded(result),
                "provenance": _provenance(device, time.perf_counter() - started),
            }
            _write(self.record_path(run), record)
            (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return "done"

    def records(self, runs: Iterable[Run]) -> list[dict[str, Any]]:
        """The records of these runs that exist, in their order, each with `stale`: written by another code version.

        A question answered by several versions of the code gives the present one's answer, or the latest.
        """
        wanted = list(runs)
        answers: dict[str, list[dict[str, Any]]] = {}
        for folder in {self.recorded / run.experiment for run in wanted}:
            for path in sorted(folder.glob("*.json")):
                record = _read(path)
                answers.setdefault(record["question"], []).append(record)
        found = []
        for run in wanted:
            given = answers.get(run.question, [])
            if given:
                best = max(given, key=lambda record: (record["code"] == run.code, record["provenance"]["date"]))
                found.append({**best, "stale": best["code"] != run.code})
        return found


def recorded(experiment: str, profiles: Iterable[str] = ("paper", "laptop")) -> tuple[str, list[dict[str, Any]], int]:
    """The recorded runs of the first of these profiles that is complete: its name, the records, and how many it has.

    If none is complete, those of the profile with the largest share of its runs: profiles may have runs in common.
    Raises ValueError if there is no recorded run at all.
    """
    definition = Experiment(experiment)
    share, chosen = 0.0, None
    for profile in profiles:
        if profile in definition.profiles:
            runs = definition.runs(profile)
            found = Store().records(runs)
            if len(found) > share * len(runs):
                share, chosen = len(found) / len(runs), (profile, found, len(runs))
    if chosen is None:
        raise ValueError(
            f"no runs of {experiment} are recorded; python -m lib sweep {experiment} --profile laptop makes them"
        )
    return chosen


def complete(experiment: str, profile: str, store: Store | None = None, progress: bool = False) -> list[dict[str, Any]]:
    """The records of all runs of a profile, after doing here, one by one, what is not done.

    Two pages may want the same runs at the same time: the second waits for the first.
    """
    runs = Experiment(experiment).runs(profile)
    store = store or store_of(profile)
    for run in runs:
        store.execute(run, progress=progress, wait=True)
    return store.records(runs)


def store_of(profile: str) -> Store:
    """Runs of profile smoke show that the code works and are no results: they stay out of git."""
    return Store(recorded=WORK / "finished") if profile == "smoke" else Store()


@contextlib.contextmanager
def _alone(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock file, at once or not at all (RunningElsewhere) or when it is free; it is if its owner dies."""
    with path.open("a") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows
            pass
        except OSError as error:
            raise RunningElsewhere(f"{path.parent.name} is being run by another process") from error
        yield


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.write_text(json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for key in ("question", "code", "parameters", "seed", "result", "provenance"):
            record[key]
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is no record of a run ({error!r}); remove it to run it again") from error
    return record


def _rounded(value: Any) -> Any:
    """Numbers to DIGITS digits; null for those that are not finite, which JSON cannot hold."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


def _provenance(device: str, seconds: float) -> dict[str, Any]:
    import torch

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = {
        **provenance.collect(),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 2),
        "peak_memory_MB": round(peak / 1e6, 1),  # of the process, which may have done other runs before
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if device.startswith("cuda"):
        found["peak_gpu_memory_MB"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    return found
