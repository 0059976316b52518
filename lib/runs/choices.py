"""What is chosen in an experiment where nothing is said: defaults of parameters, which never change.

A run is named by the parameters that differ from their defaults, so that another default would give old records another
meaning. A new parameter is a new field, whose default does what was done before it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lib.runs.definition import Experiment
from lib.runs.fingerprints import FOLDER, write_json
from lib.training.settings import FitSettings

RULE = "a default is never changed, a new field is added"


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
    models = {one.name: one.known_parameters for one in experiments}
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
