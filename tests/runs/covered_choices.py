"""What the profiles of an experiment choose, and whether a point of its fingerprint chooses it too."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lib.runs.definition import Experiment
from lib.runs.fingerprints import RESERVED
from lib.training.settings import FitSettings

FREE_TEXT = {"corpus", "name", "start"}  # names of data, and what a text begins with: the code is the same for all
SIZED = {"size"}  # names of sizes, such as mamba-2x32: what stands before the hyphen is the choice
AMOUNTS = {"documents"}  # of which null means all: a number like any other
LEFT_OUT, NUMBER = "left out", "a number"

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


def _choices(experiment: Experiment, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Every option of one point with what is chosen; under "" the network."""
    model: type[BaseModel] = importlib.import_module(experiment.module).Parameters
    values = dict(_values(model, parameters))
    named = (str(values[key]) for key in ("architecture", "model.kind", "size", "corpus") if key in values)
    network = next(named, "")  # an experiment may have no network
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
