"""Experiments: which runs a sweep consists of, read from `experiments/*.yml` and checked before anything starts."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from lib import ROOT
from lib.experiments.code_version import code_digest
from lib.processes.checks import whole_number

FOLDER = ROOT / "experiments"
KEYS = {"title", "source", "run", "version", "defaults", "families", "profiles", "fingerprint"}
PROFILE_KEYS = {"set", "seeds", "grid"}
FINGERPRINT_KEYS = {"set", "grid"}


@dataclass(frozen=True)
class Run:
    """One training: an experiment, all its parameters, a seed."""

    experiment: str
    module: str
    parameters: Mapping[str, Any]
    seed: int

    @cached_property
    def question(self) -> str:
        """Digest of experiment, parameters, seed and data: what is asked, whatever the code that answers."""
        module = importlib.import_module(self.module)
        data = module.data(self.parameters) if hasattr(module, "data") else []
        return _digest([self.experiment, self.parameters, self.seed, data])

    @cached_property
    def code(self) -> str:
        """Version of the modules that decide the answer."""
        return code_digest(importlib.import_module(self.module).modules(self.parameters))

    @cached_property
    def identity(self) -> str:
        """Name of the run: the question and the version of the code."""
        return _digest([self.question, self.code])[:16]

    def __reduce__(self) -> Any:
        return type(self), (self.experiment, self.module, dict(self.parameters), self.seed)

    def __str__(self) -> str:
        return f"{self.experiment}/{self.identity}"


class Experiment:
    """The sweep behind a figure.

    A file holds `title`, `source`, `run` (a module of lib.experiments with check, modules and run), `version` (a whole
    number, raised when the same question gets another answer), `defaults` (of parameters), `families` (named sets of
    parameters) and `profiles`. A profile has `set` (parameters of all its runs), `seeds` (how many, from 0) and `grid`:
    a list of mappings, each with `family` if it starts from one, and `seeds` if it has its own number of them, in which
    a list is an axis and a mapping is merged. Order of precedence: grid, set, family, defaults. `fingerprint` has `set`
    and `grid` alone: `lib.experiments.fingerprints` says what for.
    """

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        path = folder / f"{name}.yml"
        if not path.exists():
            known = ", ".join(sorted(file.stem for file in folder.glob("*.yml"))) or "none"
            raise ValueError(f"experiment: one of {known} is allowed, got {name!r}")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        _only(content, KEYS, path.name)
        self.name = name
        self.title, self.source, self.module = content["title"], content["source"], content["run"]
        self.version = whole_number(content.get("version", 1), f"version of {name}", 1)
        self.defaults: dict[str, Any] = content.get("defaults") or {}
        self.families: dict[str, Any] = content.get("families") or {}
        self.profiles: dict[str, Any] = content["profiles"]
        self.fingerprint: dict[str, Any] = content.get("fingerprint") or {"grid": []}
        _only(self.fingerprint, FINGERPRINT_KEYS, f"fingerprint of {name}")

    def runs(self, profile: str) -> list[Run]:
        """All runs of one profile, in the order of the grid, seeds innermost; every one is checked.

        Raises ValueError for an unknown profile, parameter or family, and for parameters that cannot run.
        """
        if profile not in self.profiles:
            raise ValueError(f"profile of {self.name}: one of {', '.join(self.profiles)} is allowed, got {profile!r}")
        chosen = self.profiles[profile]
        _only(chosen, PROFILE_KEYS, f"profile {profile} of {self.name}")
        check = importlib.import_module(self.module).check
        found: dict[str, Run] = {}
        for point, given in self.points(chosen):
            parameters = check(given)
            for seed in range(int(point.get("seeds", chosen["seeds"]))):
                run = Run(self.name, self.module, parameters, seed)
                found.setdefault(run.question, run)  # grids may cross
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


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()
