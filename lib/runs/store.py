"""Where runs live: a working folder each while they go on, one JSON file each when they are done."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lib import ROOT, inputs, sources
from lib.machine import locked, write_whole
from lib.runs import provenance
from lib.runs.definition import Experiment, Run, check

RECORDED = ROOT / "results" / "runs"  # in git
WORK = ROOT / "_build" / "sweeps"  # checkpoints, weights, and finished runs of profile smoke
DIGITS = 7  # significant ones that a record keeps: float32 has no more


class RunningElsewhere(RuntimeError):
    """Another process has this run in hand."""


class Provenance(BaseModel):
    """Where a record comes from; versions of packages and the like may stand beside these."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    date: str = Field(pattern=r"^\d{4}-\d\d-\d\dT")
    seconds: float = Field(ge=0)
    peak_memory_MB: float = Field(ge=0)
    device: str
    commit: str
    code: str  # version of the sources, see lib.runs.provenance


class RunRecord(BaseModel):
    """The file of a finished run: its question, the version of the behaviour that answered, and the answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    experiment: str = Field(min_length=1)
    identity: str = Field(pattern="^[0-9a-f]{16}$")
    version: int = Field(ge=1)
    parameters: dict[str, Any]
    seed: int = Field(ge=0)
    data: list[str]
    result: dict[str, Any] = Field(min_length=1)
    provenance: Provenance

    @classmethod
    def read(cls, path: Path, run: Run) -> RunRecord:
        """The record of `run` in this file. Raises ValueError, with the file and what to do, if it is none."""
        try:
            text = path.read_text(encoding="utf-8")
            found = json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_once)
            record = cls.model_validate(found)
            asked = Run(record.experiment, run.module, record.parameters, record.seed)
            if (record.identity, asked.identity, record.data) != (run.identity, run.identity, asked.data):
                raise ValueError(f"it answers {asked} and names itself {record.identity}, but {run} is asked")
        except (OSError, ValueError, RecursionError) as error:  # the last for what is nested too deeply
            raise ValueError(
                f"{path} is no record of a run: {_first_fault(error)}. Restore it (it may be in git), or remove it and "
                f"make it again with: python -m lib sweep {run.experiment}"
            ) from None
        return record


@dataclass(frozen=True)
class Store:
    """Finished runs below `recorded`, unfinished ones below `work`; machines that work together share both folders."""

    recorded: Path = RECORDED
    work: Path = WORK

    def record_path(self, run: Run) -> Path:
        return self.recorded / run.experiment / f"{run.identity}.json"

    def work_folder(self, run: Run) -> Path:
        return self.work / run.experiment / f"{run.identity}-{run.version}"

    def load(self, run: Run) -> RunRecord | None:
        """The record of this question, of whatever version; None if there is none.

        Raises ValueError for a file that is damaged, or answers another question.
        """
        path = self.record_path(run)
        return RunRecord.read(path, run) if path.exists() else None

    def is_done(self, run: Run) -> bool:
        """Whether the present version has answered. Raises ValueError for a record that is damaged."""
        return self.state(run) == "current"

    def state(self, run: Run) -> str:
        """ "current", "not yet", or "of version n"."""
        record = self.load(run)
        if record is None:
            return "not yet"
        return "current" if record.version == run.version else f"of version {record.version}"

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
        (folder / "lock").touch()  # a folder that nobody can write to is not one that another process holds
        with locked(folder / "lock", wait) as held:
            if not held:
                raise RunningElsewhere(f"{folder.name} is being run by another process")
            if self.is_done(run):
                return "was done"
            if threads is not None:
                import torch

                torch.set_num_threads(threads)
            started = time.perf_counter()
            module = importlib.import_module(run.module)
            result = module.run(run.parameters, run.seed, folder, device=device, progress=progress)
            record = RunRecord(
                experiment=run.experiment,
                identity=run.identity,
                version=run.version,
                parameters=dict(run.parameters),
                seed=run.seed,
                data=run.data,
                result=_rounded(result),
                provenance=Provenance(**_provenance(device, time.perf_counter() - started)),
            )
            path = self.record_path(run)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(record.model_dump(), indent=1, sort_keys=True, allow_nan=False) + "\n")
            (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return "done"

    def records(self, runs: Iterable[Run]) -> list[dict[str, Any]]:
        """The records of these runs that exist, in their order, each with `stale`: answered by another version."""
        wanted = list(runs)
        for folder in sorted({self.recorded / run.experiment for run in wanted}):
            if not folder.is_relative_to(WORK):  # what the page made itself is no input
                inputs.note_folder(folder, ".json")
        found = ((self.load(run), run.version) for run in wanted)
        return [{**record.model_dump(), "stale": record.version != version} for record, version in found if record]


def recorded(experiment: str, profiles: Iterable[str] = ("paper", "laptop")) -> tuple[str, list[dict[str, Any]], int]:
    """The recorded runs of the first of these profiles that is complete: its name, the records, and how many it has.

    If none is complete, those of the profile with the largest share of its runs: profiles may have runs in common.
    Raises ValueError if there is no recorded run at all.
    """
    found = so_far(experiment, profiles)
    if not found[1]:
        raise ValueError(
            f"no runs of {experiment} are recorded; python -m lib sweep {experiment} --profile laptop makes them"
        )
    return found


def so_far(
    experiment: str, profiles: Iterable[str] = ("paper", "laptop"), store: Store | None = None
) -> tuple[str, list[dict[str, Any]], int]:
    """The same for pages that show what there is: where nothing is recorded, no records of the last of the profiles.

    Raises ValueError for an experiment that has none of the profiles, and for a profile without runs.
    """
    definition, asked, store = Experiment(experiment), list(profiles), store or Store()
    there = [profile for profile in asked if profile in definition.profiles]
    if not there:
        raise ValueError(f"{experiment}: profiles {list(definition.profiles)} are allowed, got {asked}")
    planned = {profile: definition.runs(profile) for profile in there}
    if empty := [profile for profile, runs in planned.items() if not runs]:
        raise ValueError(f"{experiment}: profiles of at least one run are allowed, got {empty} without any")
    found = {profile: store.records(runs) for profile, runs in planned.items()}
    share = {profile: len(found[profile]) / len(planned[profile]) for profile in there}
    chosen = max(there, key=lambda profile: share[profile]) if any(found.values()) else there[-1]
    return chosen, found[chosen], len(planned[chosen])


def complete(experiment: str, profile: str, store: Store | None = None, progress: bool = False) -> list[dict[str, Any]]:
    """The records of all runs of a profile, after doing here, one by one, what is not done.

    Two pages may want the same runs at the same time: the second waits for the first.
    """
    runs = Experiment(experiment).runs(profile)
    store = store or store_of(profile)
    check(runs)
    for run in runs:
        store.execute(run, progress=progress, wait=True)
    return store.records(runs)


def store_of(profile: str) -> Store:
    """Runs of profile smoke show that this very code works and are no results: out of git, for this code alone."""
    if profile != "smoke":
        return Store()
    code = [*sources.files_below(ROOT / "lib"), *sources.files_below(ROOT / "experiments")]
    now = WORK / "smoke" / sources.digest_of(code, ROOT)[:12]
    return Store(recorded=now / "finished", work=now)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"each name is allowed once in an object, got {twice!r} {names.count(twice)} times")
    return found


def _first_fault(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    fault = error.errors()[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}, got {fault['input']!r:.60}"


def _rounded(value: Any) -> Any:
    """Numbers to DIGITS digits, those of NumPy as Python's; null for what is not finite, which JSON cannot hold."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key.item() if isinstance(key, np.generic) else key: _rounded(entry) for key, entry in value.items()}
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
