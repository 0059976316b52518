"""What is kept of a result: few numbers that tell it from others, and whether two are the same but for rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
