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
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from lib import ROOT
from lib.machine import write_whole
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.loading import place_of
from lib.processes.corpora.places import cache_folder
from lib.runs.definition import Experiment

FOLDER = ROOT / "results" / "fingerprints"
DIGITS = 7  # significant ones that are kept: float32 has no more
SHORT = 4  # numbers of an array that are kept as they are
PHASES = (math.sqrt(2.0), math.pi * (3.0 - math.sqrt(5.0)))  # of the waves that longer arrays are projected on
CLOCKS = {
    "training_seconds",
    "writing_seconds",
    "tokens_per_second",
    "data_share",
}  # of a result: other numbers at every run
UNORDERED = {"eigenvalues"}  # equal moduli, whose order rounding decides
READERS = {"smollm2": ("transformers", "gguf", "accelerate")}  # packages that weights are read with
RESERVED = ("family", "needs")  # keys of a point that are no parameters

TOLERANCES = {"float32": (3e-4, 1e-4), "tf32": (3e-2, 3e-2), "bfloat16": (3e-2, 3e-2)}
"""By the precision of a point: how far a number may be from the kept one, relative to its size, and absolutely.

Measured on all points: the arithmetic of a processor with AVX-512 against that of one with AVX2 and of one without any
vectors (in torch, NumPy, BLAS and the compiled loops), one thread against two, and compiled loops against torch.
float32: numbers move by less than 5e-5 of their size, and differences of large sums of nats by up to 2e-5; bfloat16: by
0.01 of their size, or 0.02. What rounding moves further is in no grid: long trainings, large rates, states that are all
alike. A broken kernel moves some number by 0.005 and more.
"""
LOOSE = {"probe": 0.02, "gradients": 0.01, "accuracy": 0.06, "accuracies": 0.06}
"""Absolutely, where it is more: shares of points whose label wins by a hair, and `gradients`: those of a network that
starts as a construction, which vanish but for rounding, moved by 0.002, all others by less than 0.0003."""
FLOOR = 1e-5  # of all gradients together

Entries = Mapping[str, Mapping[str, Any]]
"""Points by name, each with "parameters", "numbers", and "needs" if there are any."""


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


def compare(kept: Entries, found: Entries, tolerances: Mapping[str, tuple[float, float]] = TOLERANCES) -> list[str]:
    """The differences of the points that both have, one line each: point, number, kept and found.

    Whole numbers and words must be the same. tolerances: by precision, relative and absolute; an array's numbers are
    measured by its norm.
    """
    lines = []
    for name in sorted(kept.keys() & found.keys()):
        before, now = kept[name]["numbers"], found[name]["numbers"]
        relative, absolute = tolerances[found[name]["parameters"].get("precision", "float32")]
        for key in sorted(before.keys() | now.keys()):
            loose = max((LOOSE.get(part, 0.0) for part in key.split(".")), default=0.0)
            pair = before.get(key, "nothing"), now.get(key, "nothing")
            lines += [f"{name}: {key}{line}" for line in _differences(*pair, relative, max(absolute, loose))]
    return lines


def numbers_of(result: Any, path: str = "") -> dict[str, Any]:
    """A result as one flat mapping, {"inside.radius": 0.98}; of arrays of numbers what `summary` keeps, without clocks.

    Numbers that are not finite become text.
    """
    if isinstance(result, Mapping):
        parts = [numbers_of(value, f"{path}.{key}".lstrip(".")) for key, value in result.items() if key not in CLOCKS]
    elif not isinstance(result, list | tuple):
        return {path: _short(result)}
    elif all(isinstance(leaf, int | float | None) for leaf in _inside(result)):
        return {path: summary(result, ordered=path.rpartition(".")[2] not in UNORDERED)}
    else:
        parts = [numbers_of(value, f"{path}[{number}]") for number, value in enumerate(result)]
    return {key: value for part in parts for key, value in part.items()}


def gradients(checkpoint: Path) -> dict[str, list[float]]:
    """What an optimizer remembers of the gradients of each parameter, {"gradients.3": [size, wave]}; {} without a file.

    Losses tell too little: an optimizer that divides gradients by their size takes nearly the same steps after wrong
    ones. x, the running mean (or mean square) of a gradient, has size ln(|x| + floor) and wave sum_i x_i cos(i phase) /
    (|x| + floor); floor, 1e-5 of the length of all gradients together, is where rounding begins.
    """
    if not checkpoint.exists():
        return {}
    from safetensors import safe_open

    with safe_open(checkpoint, framework="pt") as file:
        names = sorted(name for name in file.keys() if name.endswith((".exp_avg", ".square_avg")))
        held = {name.split(".")[1]: file.get_tensor(name).double().flatten().numpy() for name in names}
    lengths = {number: float(np.linalg.norm(x)) for number, x in held.items()}
    floor = FLOOR * math.hypot(*lengths.values()) + np.finfo(np.float64).tiny
    found = {}
    for number, x in held.items():
        wave = float(x @ np.cos(PHASES[0] * np.arange(1, x.size + 1))) / (lengths[number] + floor)
        found[f"gradients.{number}"] = [_short(math.log(lengths[number] + floor)), _short(wave)]
    return found


def summary(array: Sequence[Any], ordered: bool = True) -> Any:
    """An array of numbers and nulls, nested or not, in a few numbers that tell it from others of its shape.

    {"length"; "shape"; "sum"; "norm"; "first"; "last"; "waves": sum_i x_i cos(i phase) over i = 1 .. length for two
    phases, which a permutation or a swap of axes changes; "not finite": how many, nulls among them, if any; they count
    as zero}. Up to SHORT numbers stay as they are. ordered false: nothing that depends on the order.
    """
    entries = list(_inside(array))
    if len(entries) <= SHORT and ordered:
        return [_short(value) for value in entries]
    finite = [value is not None and math.isfinite(value) for value in entries]
    x = np.array([float(value) if good else 0.0 for value, good in zip(entries, finite, strict=True)])
    kept = {"length": x.size, "shape": _shape(array), "sum": float(x.sum()), "norm": float(np.linalg.norm(x))}
    if ordered:
        place = np.arange(1, x.size + 1)
        kept |= {"first": entries[0], "last": entries[-1]}
        kept["waves"] = [_short(float(x @ np.cos(phase * place))) for phase in PHASES]
    if not all(finite):
        kept["not finite"] = finite.count(False)
    return {key: _short(value) for key, value in kept.items()}


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


def _differences(kept: Any, found: Any, relative: float, absolute: float) -> list[str]:
    """What is different about one entry, as ends of lines."""
    before, now, nothing = _parts(kept), _parts(found), ("nothing", 0.0)
    lines = []
    for part in dict.fromkeys([*before, *now]):
        (old, size), (new, new_size) = before.get(part, nothing), now.get(part, nothing)
        if not _agree(old, new, relative * max(size, new_size) + absolute):
            lines.append(f"{part}: kept {old}, found {new}")
    return lines


def _parts(kept: Any) -> dict[str, tuple[Any, float]]:
    """The numbers of one entry, each with the size that its rounding errors are measured by."""
    if isinstance(kept, list):
        return {f"[{place}]": part for place, value in enumerate(kept) for part in _parts(value).values()}
    if not isinstance(kept, dict):
        return {"": (kept, abs(kept) if _is_real(kept) else 0.0)}
    norm, root = kept["norm"], math.sqrt(max(1, kept["length"]))
    sizes = {"norm": norm, "first": norm / root, "last": norm / root}
    parts = {f".{key}": (value, sizes.get(key, norm * root)) for key, value in kept.items() if key != "waves"}
    waves = {f".waves[{place}]": (value, norm * root) for place, value in enumerate(kept.get("waves", []))}
    return parts | waves


def _agree(kept: Any, found: Any, allowed: float) -> bool:
    if _is_real(kept) and _is_real(found) and not (isinstance(kept, int) and isinstance(found, int)):
        return bool(abs(kept - found) <= allowed)
    return bool(kept == found) and isinstance(kept, bool) == isinstance(found, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _inside(value: Any) -> Iterator[Any]:
    """Everything that nested lists hold, in order."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _inside(part)
    else:
        yield value


def _shape(array: Any) -> list[Any]:
    """As NumPy has it; "ragged" stands for what lies inside parts of different shapes."""
    if not isinstance(array, list | tuple):
        return []
    shapes = [_shape(part) for part in array]
    same = all(shape == shapes[0] for shape in shapes)
    return [len(array), *(shapes[0] if shapes and same else [] if same else ["ragged"])]


def _short(value: Any) -> Any:
    """A number to DIGITS digits; text where it is not finite, which JSON cannot hold."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


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
