"""Experiments: which runs a sweep consists of, read from `experiments/*/*.yml` and checked before anything starts."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from lib import ROOT, inputs

FOLDER = ROOT / "experiments"
KEYS = {"name", "title", "source", "run", "version", "defaults", "families", "profiles", "fingerprint"}
PROFILE_KEYS = {"set", "seeds", "grid"}
FINGERPRINT_KEYS = {"set", "grid"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one, ten times as fast, is not everywhere


@dataclass(frozen=True)
class Run:
    """One training: an experiment, all its parameters, a seed, and the version of the behaviour that answers."""

    experiment: str
    module: str
    parameters: Mapping[str, Any]
    seed: int
    version: int = 1

    @cached_property
    def question(self) -> dict[str, Any]:
        """What is asked, whatever the code that answers: parameters that differ from their defaults, seed, data."""
        known = importlib.import_module(self.module).Parameters
        return {
            "experiment": self.experiment,
            "parameters": known.read(self.parameters, self.experiment).asked(),
            "seed": self.seed,
            "data": self.data,
        }

    @cached_property
    def data(self) -> list[str]:
        """Checksums of the corpora and pretrained weights that the run reads."""
        module = importlib.import_module(self.module)
        return module.data(self.parameters) if hasattr(module, "data") else []

    @cached_property
    def identity(self) -> str:
        """Name of the run: 16 hex digits of a digest of its question, the same on every machine."""
        text = json.dumps(self.question, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __reduce__(self) -> Any:
        return type(self), (self.experiment, self.module, dict(self.parameters), self.seed, self.version)

    def __str__(self) -> str:
        return f"{self.experiment}/{self.identity}"


def experiment_files(folder: Path = FOLDER) -> dict[str, Path]:
    """The file of every experiment, `<folder>/<question>/*.yml`, by the name that its line `name:` gives it.

    Raises ValueError for a file without a name and for a name that two files give themselves.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*/*.yml")):
        given = re.search(r"^name: *([\w-]+) *$", path.read_text(encoding="utf-8"), re.MULTILINE)
        here = path.relative_to(folder).as_posix()
        if given is None:
            raise ValueError(f"{here}: a line `name: ...` is needed, of letters, digits, _ and -")
        other = found.setdefault(given[1], path)
        if other is not path:
            both = f"{other.relative_to(folder).as_posix()} and {here}"
            raise ValueError(f"name {given[1]!r}: one file each is allowed, got {both}")
    return found


class Experiment:
    """The sweep behind a figure.

    A file holds `name`, `title`, `source`, `run` (a module with Parameters, check and run), `version` (a whole number,
    raised by hand when the meaning of results changes: then the records of older versions are stale), `defaults` (of
    parameters), `families` (named sets of parameters), `profiles`, and `fingerprint`, a tiny grid that takes every path
    of the code. A profile has `set` (parameters of all its runs), `seeds` (how many, from 0) and `grid`: a list of
    mappings, each with `family` if it starts from one, and `seeds` if it has its own number of them, in which a list is
    an axis and a mapping is merged. Order of precedence: grid, set, family, defaults. `fingerprint` has `set` and
    `grid` alone.
    """

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        files = experiment_files(folder)
        if name not in files:
            known = ", ".join(sorted(files)) or "none"
            raise ValueError(f"experiment: one of {known} is allowed, got {name!r}")
        path = files[name]
        here = path.relative_to(folder).as_posix()
        inputs.note_definition(path)
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        _only(content, KEYS, here)
        self.name = name
        missing = sorted({"title", "source", "run", "version", "profiles"} - set(content))
        if missing:
            raise ValueError(f"{here}: {', '.join(missing)} missing")
        self.title, self.source, self.module = content["title"], content["source"], content["run"]
        self.version = content["version"]
        if not isinstance(self.version, int) or isinstance(self.version, bool) or self.version < 1:
            raise ValueError(f"{here}: version: a whole number from 1 is allowed, got {self.version!r}")
        self.defaults: dict[str, Any] = content.get("defaults") or {}
        self.families: dict[str, Any] = content.get("families") or {}
        self.profiles: dict[str, Any] = content["profiles"]
        self.file = path
        self.where = f"{folder.name}/{here}"
        self.fingerprint: dict[str, Any] = content.get("fingerprint") or {"grid": []}
        _only(self.fingerprint, FINGERPRINT_KEYS, f"fingerprint of {name}")

    def runs(self, profile: str) -> list[Run]:
        """All runs of one profile, in the order of the grid, seeds innermost. No network is built.

        Raises ValueError for an unknown profile, parameter or family, and for a value of another type.
        """
        if profile not in self.profiles:
            raise ValueError(f"profile of {self.name}: one of {', '.join(self.profiles)} is allowed, got {profile!r}")
        chosen = self.profiles[profile]
        _only(chosen, PROFILE_KEYS, f"profile {profile} of {self.name}")
        known = importlib.import_module(self.module).Parameters
        found: dict[str, Run] = {}
        for point, given in self.points(chosen):
            parameters = known.read(given, self.name).model_dump()
            for seed in range(int(point.get("seeds", chosen["seeds"]))):
                run = Run(self.name, self.module, parameters, seed, self.version)
                found.setdefault(run.identity, run)  # grids may cross
        return list(found.values())

    def points(
        self, section: Mapping[str, Any], reserved: tuple[str, ...] = ("family", "seeds")
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Every point of a grid: as it is written there, and with what `set`, family and defaults add, unchecked.

        reserved: keys that are no parameters. Raises ValueError for an unknown family.
        """
        for entry in section["grid"]:
            for point in _points(entry):
                family = point.get("family")
                if family is not None and family not in self.families:
                    raise ValueError(f"family: one of {', '.join(self.families)} is allowed, got {family!r}")
                own = {key: value for key, value in point.items() if key not in reserved}
                yield point, merged(self.defaults, self.families.get(str(family), {}), section.get("set") or {}, own)


def check(runs: Iterable[Run]) -> None:
    """Raises ValueError if one of these runs cannot start; builds each network that they would train, and drops it."""
    last: Mapping[str, Any] = {}
    for run in runs:
        if run.parameters != last:  # seeds stand together
            importlib.import_module(run.module).check(run.parameters)
            last = run.parameters


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later mappings win; mappings inside are merged in the same way."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = result.get(key)
            result[key] = merged(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return result


def _points(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    axes = [value if isinstance(value, list) else [value] for value in entry.values()]
    for values in itertools.product(*axes):
        yield dict(zip(entry, values, strict=True))


def _only(given: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(given) - allowed)
    if unknown:
        raise ValueError(f"{where}: {', '.join(sorted(allowed))} are allowed, got {', '.join(map(repr, unknown))}")
