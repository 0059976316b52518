"""Fingerprints: what tiny runs of an experiment give, kept, so that no edit of the code changes a result unnoticed.

Every point of the `fingerprint` grid of an experiment's file is run for a few updates on the CPU. Its numbers stand
in `results/fingerprints/<name>.json` beside the `version` of the experiment. Where the code gives other numbers, either
the edit is undone, or `version` is raised, and with it every record of the experiment is made again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from lib import ROOT
from lib.machine import write_whole
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.loading import place_of
from lib.processes.corpora.places import cache_folder
from lib.runs.definition import Experiment
from lib.runs.summaries import Entries, compare, gradients, numbers_of

FOLDER = ROOT / "results" / "fingerprints"
READERS = {"smollm2": ("transformers", "gguf", "accelerate")}  # packages that weights are read with
RESERVED = ("family", "needs")  # keys of a point that are no parameters


@dataclass(frozen=True)
class Point:
    """One tiny run. name: what its grid says of it; needs: corpora and models of the catalogue that not all have."""

    name: str
    parameters: Mapping[str, Any]
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What it needs and is not on this machine."""
        return [name for name in self.needs if not _is_here(name)]

    @property
    def why(self) -> str:
        """How to get what is missing."""
        names = " ".join(self.missing)
        packages = [package for name in self.missing for package in READERS.get(name, ())]
        return f"it needs `python -m lib data fetch {names}`" + (f" and {', '.join(packages)}" if packages else "")


@dataclass(frozen=True)
class Check:
    """The fingerprint of an experiment as its code gives it now, beside the kept one.

    found: of the grid's points whose data are here. changed: differing numbers, one line each, those of points that
    have left the grid among them. new, left: names of points that only the grid has, or only the file. absent: points
    whose data are not here.
    """

    experiment: Experiment
    version: int  # of the kept file, 0 if there is none
    kept: Entries
    found: Entries
    changed: list[str]
    new: list[str]
    left: list[str]
    absent: list[Point]

    @property
    def faults(self) -> list[str]:
        """Everything that does not fit, as sentences; empty if the code gives what is kept."""
        name, now = self.experiment.name, self.experiment.version
        renew = f"`python -m lib fingerprint {name} --write`"
        if now < self.version:
            return [f"{name}: {self.experiment.where} has version {now}, and the kept fingerprint is of {self.version}"]
        if not self.version:
            return [f"{name}: no fingerprint is kept yet: {renew} makes it"]
        if now > self.version:
            return [f"{name}: the kept fingerprint is of version {self.version}, not of {now}: {renew} makes it anew"]
        faults = [f"{name}: {line}" for line in self.changed]
        if faults:
            faults.append(
                f"{name}: results changed; undo it, or raise `version` in {self.experiment.where} and train again"
            )
        faults += [f"{name}: {point}: in the grid and not kept: {renew} adds it" for point in self.new]
        return faults + [f"{name}: {point}: kept and not in the grid: {renew} removes it" for point in self.left]


def points(experiment: Experiment) -> list[Point]:
    """The fingerprint grid of an experiment. Raises ValueError for two points of one name."""
    found: dict[str, Point] = {}
    for point, parameters in experiment.points(experiment.fingerprint, RESERVED):
        own = {key: value for key, value in point.items() if key != "needs"}
        name = " ".join(f"{key}={_word(value)}" for key, value in leaves(own))
        if name in found:
            raise ValueError(f"fingerprint of {experiment.name}: two points are {name!r}")
        found[name] = Point(name, parameters, tuple(point.get("needs", "").split()))
    return list(found.values())


def fingerprint(
    experiment: Experiment, chosen: Sequence[Point], progress: bool = False, device: str = "cpu"
) -> dict[str, dict[str, Any]]:
    """Parameters and numbers of each point: seed 0, one thread, byte pairs learned anew; kept are those of the CPU.

    Nothing that depends on the clock or the machine is in it. Cost: some seconds for all points of an experiment, ten
    more where kernels have to be compiled.
    """
    import torch

    module = importlib.import_module(experiment.module)
    found: dict[str, dict[str, Any]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _nothing_learned_before():
            for point in tqdm(chosen, experiment.name, unit="point", leave=False, disable=None if progress else True):
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        result = module.run(module.check(point.parameters), 0, Path(folder), device=device)
                    except ValueError as error:
                        raise ValueError(f"{experiment.name}: {point.name}: {error}") from error
                    numbers = numbers_of(result) | gradients(Path(folder) / "checkpoint.safetensors")
                found[point.name] = {"parameters": dict(point.parameters), "numbers": numbers}
                if point.needs:
                    found[point.name]["needs"] = " ".join(point.needs)
    finally:
        torch.set_num_threads(threads)
    return found


def check(
    experiment: Experiment,
    chosen: Callable[[Point], bool] = lambda point: True,
    folder: Path = FOLDER,
    progress: bool = False,
    device: str = "cpu",
) -> Check:
    """Run the chosen points of an experiment on a device, and compare them with the kept file, which is of the CPU.

    Points that have left the grid are run as the file describes them: they may go only if their numbers still hold.
    """
    version, entries = kept_fingerprint(experiment.name, folder)
    described = (Point(name, one["parameters"], tuple(one.get("needs", "").split())) for name, one in entries.items())
    held = {point.name: point for point in described if chosen(point)}
    grid = {point.name: point for point in points(experiment) if chosen(point)}
    same = {name for name, point in grid.items() if name in held and held[name].parameters == point.parameters}
    left = [point for name, point in held.items() if name not in same]
    found = fingerprint(experiment, [point for point in grid.values() if not point.missing], progress, device)
    changed = compare({name: entries[name] for name in same}, found)
    if experiment.version == version:
        again = fingerprint(experiment, [point for point in left if not point.missing], progress, device)
        changed += compare({point.name: entries[point.name] for point in left}, again)
    return Check(
        experiment,
        version,
        {name: entries[name] for name in held},
        found,
        changed,
        [name for name in found if name not in same],
        [point.name for point in left],
        [point for point in [*grid.values(), *left] if point.missing],
    )


def write(done: Check, folder: Path = FOLDER) -> Path:
    """Keep what was found: all of it if `version` was raised, else only points that are new.

    Raises ValueError where a kept number changed and the version did not: that would hide it.
    """
    name, now = done.experiment.name, done.experiment.version
    if now < done.version or (now == done.version and done.changed):
        raise ValueError("\n".join(done.faults))
    entries = dict(done.found)
    if now == done.version:
        stay = {name: point for name, point in done.kept.items() if name not in done.left}
        entries |= stay
    return write_json(folder / f"{name}.json", {"version": now, "points": entries})


def kept_fingerprint(name: str, folder: Path = FOLDER) -> tuple[int, Entries]:
    """Version and points that are kept of an experiment; 0 and none if there is no file."""
    path = folder / f"{name}.json"
    if not path.exists():
        return 0, {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept["version"], kept["points"]


def write_json(path: Path, content: Any) -> Path:
    """Write the file whole or not at all, a line for each number of a point."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _laid_out(content) + "\n")
    return path


def _laid_out(content: Any, depth: int = 0) -> str:
    """JSON with a line for each entry of the four outer mappings."""
    if not isinstance(content, Mapping) or not content or depth == 4:
        return json.dumps(content, sort_keys=True, allow_nan=False)
    lines = [f"{' ' * (depth + 1)}{json.dumps(key)}: {_laid_out(content[key], depth + 1)}" for key in sorted(content)]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def leaves(parameters: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of parameters, those inside with dots: ("fit.epochs", 2)."""
    for key, value in parameters.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _word(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def _is_here(name: str) -> bool:
    found = entry(name)
    packages = READERS.get(name, ())
    return all(place_of(found, file) for file in found.files) and all(map(importlib.util.find_spec, packages))


@contextlib.contextmanager
def _nothing_learned_before() -> Iterator[None]:
    """A cache with all downloads and no byte pairs: those that older code learned would hide what this code learns."""
    before, held = os.environ.get("BOOK_CACHE"), cache_folder()
    with tempfile.TemporaryDirectory() as folder:
        for path in held.iterdir() if held.is_dir() else []:
            if path.name != "bpe":
                (Path(folder) / path.name).symlink_to(path.resolve())
        os.environ["BOOK_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["BOOK_CACHE"]
            else:
                os.environ["BOOK_CACHE"] = before
