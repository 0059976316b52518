"""What can be chosen in an experiment: what its profiles choose must be in its fingerprint, and defaults never change.

A run is named by the parameters that differ from their defaults, so that another default would give old records another
meaning. A new parameter is a new field, whose default does what was done before it came.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lib.runs.definition import Experiment
from lib.runs.fingerprints import FOLDER, RESERVED, write_json
from lib.training.settings import FitSettings

FREE_TEXT = {"corpus", "name", "start"}  # names of data, and what a text begins with: the code is the same for all
SIZED = {"size"}  # names of sizes, such as mamba-2x32: what stands before the hyphen is the choice
AMOUNTS = {"documents"}  # of which null means all: a number like any other
LEFT_OUT, NUMBER = "left out", "a number"
RULE = "a default is never changed, a new field is added"

Choice = tuple[str, str]
"""An option and what is chosen: a word, null, true, false, 0 or [] as they are, else "a number", "a text", "a list"."""


def uncovered(experiment: Experiment) -> dict[Choice, str]:
    """Choices that a profile makes and no point of the fingerprint does, each with such a profile.

    Defaults count as choices. Numbers do not tell choices apart, except 0, which switches something off. What is handed
    to a network by name belongs to that network: ("lstm: embedding", "a number"); where its other choices are no
    numbers, leaving it out is one too.
    """
    sections = {"": experiment.fingerprint, **experiment.profiles}
    given = {
        name: [_choices(experiment, parameters) for _, parameters in experiment.points(section, (*RESERVED, "seeds"))]
        for name, section in sections.items()
    }
    every = [choices for points in given.values() for choices in points]
    known: dict[str, set[str]] = {}  # by network, what is handed to it anywhere
    for choices in every:
        known.setdefault(choices[""], set()).update(name for name in choices if name.startswith(f"{choices['']}: "))
    for choices in every:
        choices.update(dict.fromkeys(known[choices.pop("")] - choices.keys(), LEFT_OUT))
    kinds = {name: {choices.get(name, NUMBER) for choices in every} for name in set().union(*known.values())}
    plain = {(name, LEFT_OUT) for name, found in kinds.items() if found <= {NUMBER, LEFT_OUT}}
    made = {name: {choice for choices in points for choice in choices.items()} for name, points in given.items()}
    return {choice: profile for profile in experiment.profiles for choice in sorted(made[profile] - made[""] - plain)}


def default_faults(experiments: Sequence[Experiment], kept: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Defaults of parameters and of the fit that are not as kept: what is wrong with them, and what is new.

    kept: {experiment or "FitSettings": {"required": [field, ...], "defaults": {field: default}}}.
    """
    faults, new = [], []
    for owner, now in defaults(experiments).items():
        before, present = _described(kept.get(owner, {})), _described(now)
        for field, default in before.items():
            if field not in present:
                faults.append(f"{owner}: {field} ({default}) is gone: {RULE}")
            elif present[field] != default:
                faults.append(f"{owner}: {field} was {default} and is {present[field]}: {RULE}")
        for field in present.keys() - before.keys():
            if owner in kept and field in now["required"]:
                faults.append(f"{owner}: {field} is new and has no default, which the runs of today would need")
            else:
                new.append(f"{owner}: {field}")
    return faults, sorted(new)


def defaults(experiments: Sequence[Experiment]) -> dict[str, dict[str, Any]]:
    """Fields and defaults of the parameters of these experiments and of `FitSettings`, as the kept file has them."""
    models = {one.name: importlib.import_module(one.module).Parameters for one in experiments}
    found = {}
    for owner, model in {**models, "FitSettings": FitSettings}.items():
        fields = dict(_fields(model))
        required = sorted(field for field, default in fields.items() if default is PydanticUndefined)
        found[owner] = {"required": required, "defaults": {k: v for k, v in fields.items() if k not in required}}
    return found


def kept_defaults(folder: Path = FOLDER) -> dict[str, Any]:
    """What is kept in `defaults.json`; nothing if there is no file."""
    path = folder / "defaults.json"
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return kept


def write_defaults(experiments: Sequence[Experiment], folder: Path = FOLDER) -> Path:
    """Enter fields that are new. Raises ValueError where a kept default changed: no version makes that good."""
    kept = kept_defaults(folder)
    faults, _ = default_faults(experiments, kept)
    if faults:
        raise ValueError("\n".join(faults))
    return write_json(folder / "defaults.json", {**kept, **defaults(experiments)})


def _fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, Any]]:
    """Names and defaults of all fields, those of a model inside with dots; PydanticUndefined where there is none."""
    for name, field in model.model_fields.items():
        inside = field.annotation
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            yield from _fields(inside, f"{path}{name}.")
        else:
            yield f"{path}{name}", field.get_default(call_default_factory=True)


def _described(owner: Mapping[str, Any]) -> dict[str, str]:
    """What becomes of each field that is left out, in words."""
    needed = dict.fromkeys(owner.get("required", []), "required")
    return needed | {field: json.dumps(value, sort_keys=True) for field, value in owner.get("defaults", {}).items()}


def _choices(experiment: Experiment, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Every option of one point with what is chosen; under "" the network."""
    model: type[BaseModel] = importlib.import_module(experiment.module).Parameters
    values = dict(_values(model, parameters))
    network = next(str(values[key]) for key in ("architecture", "model.kind", "size", "corpus") if key in values)
    network = str(values["model.architecture"]) if network == "network" else network.partition("-")[0]
    found = {"": network}
    for name, value in values.items():
        if isinstance(value, Mapping) and name.rpartition(".")[2] == "fit":
            fit = FitSettings(**value).model_dump()
            found |= {f"{name}.{setting}": _kind(setting, chosen) for setting, chosen in fit.items()}
        elif isinstance(value, Mapping):
            found |= {f"{network}: {option}": _kind(option, chosen) for option, chosen in value.items()}
        else:
            found[name] = _kind(name.rpartition(".")[2], value)
    return found


def _values(model: type[BaseModel], given: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field with what is given or else its default, those of a model inside with dots."""
    for name, field in model.model_fields.items():
        inside, default = field.annotation, field.get_default(call_default_factory=True)
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            yield from _values(inside, given.get(name, {}), f"{path}{name}.")
        elif name in given or default is not PydanticUndefined:
            yield f"{path}{name}", given.get(name, default)


def _kind(name: str, value: Any) -> str:
    if (isinstance(value, int | float) and not isinstance(value, bool)) or (name in AMOUNTS and value is None):
        return "0" if value == 0 else NUMBER
    if isinstance(value, str):
        return "a text" if name in FREE_TEXT else value.partition("-")[0] if name in SIZED else value
    return "a list" if isinstance(value, list | tuple) and value else json.dumps(value)
