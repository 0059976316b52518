"""Experiments: which runs a sweep consists of, read from `experiments/*/*.yml` and checked before anything starts."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lib import ROOT, inputs, plain_yaml

FOLDER = ROOT / "experiments"
KEYS = {"name", "title", "source", "run", "version", "defaults", "families", "profiles", "fingerprint"}
PROFILE_KEYS = {"includes", "set", "seeds", "grid"}
FINGERPRINT_KEYS = {"set", "grid"}


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
        try:
            text = json.dumps(self.question, sort_keys=True, allow_nan=False)
        except ValueError as error:
            name, value = next(_not_finite(self.question["parameters"]), ("parameters", error))
            raise ValueError(f"{self.experiment}: {name}: a finite number is allowed, got {value}") from None
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
    an axis and a mapping is merged. Order of precedence: grid, set, family, defaults. `includes` names a profile above
    it whose runs are among its own. `fingerprint` has `set` and `grid` alone. Raises ValueError, with the place in the
    file, for one that is otherwise.
    """

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        files = experiment_files(folder)
        if name not in files:
            known = ", ".join(sorted(files)) or "none"
            raise ValueError(f"experiment: one of {known} is allowed, got {name!r}")
        path = files[name]
        here = path.relative_to(folder).as_posix()
        inputs.note_definition(path)
        try:
            content = plain_yaml.load(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{here}: YAML is allowed, got a fault: {error}") from None
        content = _mapping(content, here)
        _only(content, KEYS, here)
        self.name = name
        missing = sorted({"title", "source", "run", "version", "profiles"} - set(content))
        if missing:
            raise ValueError(f"{here}: {', '.join(missing)} missing")
        for key in ("title", "source", "run"):
            if not isinstance(content[key], str) or not content[key]:
                raise ValueError(f"{here}: {key}: a text is allowed, got {content[key]!r:.60}")
        self.title, self.source, self.module = content["title"], content["source"], content["run"]
        self.version = content["version"]
        if not isinstance(self.version, int) or isinstance(self.version, bool) or self.version < 1:
            raise ValueError(f"{here}: version: a whole number from 1 is allowed, got {self.version!r}")
        self.defaults: dict[str, Any] = _parameters(content.get("defaults"), f"{here}: defaults", optional=True)
        self.families: dict[str, Any] = _mapping(content.get("families"), f"{here}: families", optional=True)
        for family, given in self.families.items():
            _parameters(given, f"{here}: family {family}")
        self.profiles: dict[str, Any] = _mapping(content["profiles"], f"{here}: profiles")
        above: list[str] = []
        for profile, given in self.profiles.items():
            _check_profile(given, f"{here}: profile {profile}", above)
            above.append(profile)
        self.file = path
        self.where = f"{folder.name}/{here}"
        self.fingerprint: dict[str, Any] = {"grid": []}
        if content.get("fingerprint") is not None:
            self.fingerprint = content["fingerprint"]
            _check_fingerprint(self.fingerprint, f"{here}: fingerprint of {name}")

    def runs(self, profile: str) -> list[Run]:
        """All runs of one profile, those of one that it includes first, in the order of the grid, seeds innermost.

        No network is built.

        Raises ValueError for an unknown profile, parameter, family or module, and for a value of another type.
        """
        if profile not in self.profiles:
            there = f"one of {', '.join(self.profiles)} is allowed" if self.profiles else "no profiles are defined"
            raise ValueError(f"profile of {self.name}: {there}, got {profile!r}")
        chosen = self.profiles[profile]
        known = self.known_parameters
        found = {run.identity: run for run in self.runs(chosen["includes"])} if "includes" in chosen else {}
        for point, given in self.points(chosen):
            parameters = known.read(given, self.name).model_dump()
            for seed in range(point["seeds"] if "seeds" in point else chosen["seeds"]):
                run = Run(self.name, self.module, parameters, seed, self.version)
                found.setdefault(run.identity, run)  # grids may cross
        return list(found.values())

    @property
    def known_parameters(self) -> Any:
        """The class `Parameters` of the module that does its runs. Raises ValueError where there is none."""
        module: Any = None
        if all(part.isidentifier() for part in self.module.split(".")):
            try:
                module = importlib.import_module(self.module)
            except ModuleNotFoundError as error:
                if not f"{self.module}.".startswith(f"{error.name}."):  # a package that the module itself needs
                    raise
        if not hasattr(module, "Parameters"):
            allowed = "a module with Parameters, check and run is allowed"
            raise ValueError(f"{self.where}: run: {allowed}, got {self.module!r}")
        return module.Parameters

    def points(
        self, section: Mapping[str, Any], reserved: tuple[str, ...] = ("family", "seeds")
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Every point of a grid: as it is written there, and with what `set`, family and defaults add, unchecked.

        reserved: keys that are no parameters. Raises ValueError for an unknown family.
        """
        for entry in section["grid"]:
            for point in _points(entry):
                family = point.get("family")
                if family is not None and not (isinstance(family, str) and family in self.families):
                    names = ", ".join(self.families)
                    there = f"one of {names} is allowed" if names else "no families are defined"
                    raise ValueError(f"{self.where}: family: {there}, got {family!r}")
                own = {key: value for key, value in point.items() if key not in reserved}
                layer = {} if family is None else self.families[family]
                yield point, merged(self.defaults, layer, section.get("set") or {}, own)


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
    unknown = sorted(set(given) - allowed, key=str)
    if unknown:
        raise ValueError(f"{where}: {', '.join(sorted(allowed))} are allowed, got {', '.join(map(repr, unknown))}")


def _mapping(given: Any, where: str, optional: bool = False) -> dict[str, Any]:
    """What is given, if it is a mapping whose names are texts; an optional one may be left empty."""
    if given is None and optional:
        return {}
    if not isinstance(given, dict):
        raise ValueError(f"{where}: a mapping is allowed, got {given!r:.60}")
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"{where}: names that are texts are allowed, got {name!r}")
    return given


def _parameters(given: Any, where: str, optional: bool = False) -> dict[str, Any]:
    """The same for parameters, and for the mappings and lists inside them."""
    found = _mapping(given, where, optional)
    for name, value in found.items():
        for inside in value if isinstance(value, list) else [value]:
            if isinstance(inside, dict):
                _parameters(inside, f"{where}: {name}")
    return found


def _check_grid(section: Mapping[str, Any], where: str) -> None:
    """`set`, and the points of a grid: every choice has something to choose from."""
    _parameters(section.get("set"), f"{where}: set", optional=True)
    grid = section.get("grid")
    if not isinstance(grid, list) or not grid:
        got = f"{grid!r:.60}" if "grid" in section else "none"
        raise ValueError(f"{where}: grid: a list of at least one mapping is allowed, got {got}")
    for number, entry in enumerate(grid, 1):
        for name, value in _parameters(entry, f"{where}: grid: entry {number}").items():
            if value == []:
                place = f"{where}: grid: entry {number}: {name}"
                raise ValueError(f"{place}: a value, or a list of at least one, is allowed, got []")


def _check_profile(given: Any, where: str, above: list[str]) -> None:
    _only(_mapping(given, where), PROFILE_KEYS, where)
    _check_grid(given, where)
    if "includes" in given and given["includes"] not in above:
        allowed = f"one of {', '.join(above)} is allowed" if above else "no profile stands above it"
        raise ValueError(f"{where}: includes: {allowed}, got {given['includes']!r:.60}")
    if "seeds" in given:
        _check_seeds(given["seeds"], f"{where}: seeds")
    for number, entry in enumerate(given["grid"], 1):
        if "seeds" in entry:
            choices = entry["seeds"] if isinstance(entry["seeds"], list) else [entry["seeds"]]
            for seeds in choices:
                _check_seeds(seeds, f"{where}: grid: entry {number}: seeds")
        elif "seeds" not in given:
            needed = "a whole number from 1 is needed in the profile or in every entry of its grid"
            raise ValueError(f"{where}: seeds: {needed}, got none for entry {number}")


def _check_fingerprint(given: Any, where: str) -> None:
    _only(_mapping(given, where), FINGERPRINT_KEYS, where)
    _check_grid(given, where)
    for number, entry in enumerate(given["grid"], 1):
        needs = entry.get("needs", "")
        for needed in needs if isinstance(needs, list) else [needs]:
            if not isinstance(needed, str):
                raise ValueError(f"{where}: grid: entry {number}: needs: a text is allowed, got {needed!r:.60}")


def _check_seeds(seeds: Any, where: str) -> None:
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise ValueError(f"{where}: a whole number from 1 is allowed, got {seeds!r:.60}")


def _not_finite(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Names with dots and values of the numbers that are not finite, at whatever depth."""
    if isinstance(value, float) and not math.isfinite(value):
        yield name, value
    inside = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    for key, entry in inside:
        yield from _not_finite(entry, f"{name}.{key}" if name else str(key))
