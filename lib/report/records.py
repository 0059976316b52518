"""Records of checked claims: one JSON line each, appended by chapters, read by the scorecard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lib import inputs
from lib.machine import append_line

Record = dict[str, Any]

PROFILES = ("smoke", "laptop", "paper")  # from the smallest to the largest
LONGEST_VERBATIM = 32  # entries; a longer array is recorded by its shape, range and first values


def plain(value: Any) -> Any:
    """``value`` as strict JSON: exact rationals and complex numbers as text, long arrays summarised."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        if array.size > LONGEST_VERBATIM:
            return _summary(array)
        return [plain(entry) for entry in (array.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction | complex):
        return str(value)
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _summary(array: np.ndarray[Any, Any]) -> Record:
    summary: Record = {"shape": list(array.shape), "first": plain(array.ravel()[:4])}
    if array.dtype.kind in "biuf":
        summary |= {"smallest": plain(array.min()), "largest": plain(array.max())}
    return summary


def append(path: Path, record: Record) -> None:
    """Add one record to ``path`` as a line of its own; see `lib.machine.append_line`."""
    append_line(path, json.dumps(record, ensure_ascii=False, allow_nan=False, sort_keys=True))


def read(path: Path) -> Iterator[Record]:
    """The records of one file. A last line without its line break was cut off by a kill and is left out.

    Raises ``ValueError`` with file and line for any other line that is not a record.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            return
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path.name}, line {number} is not JSON: {error}") from error
        missing = {"claim", "part", "outcome", "profile", "page"} - set(record)
        if missing:
            raise ValueError(f"{path.name}, line {number} is no record: {', '.join(sorted(missing))} missing")
        if record["profile"] not in PROFILES:
            known = ", ".join(PROFILES)
            raise ValueError(f"{path.name}, line {number}: profile {record['profile']!r}, known: {known}")
        yield record


def load(folders: Iterable[Path]) -> list[Record]:
    """Every record below the given folders, in the order of folders and file names; a missing folder holds none.

    Files of executions that have not ended (``.partial-`` in the name) are left out.
    """
    folders = list(folders)
    for folder in folders:
        inputs.note_folder(folder, ".jsonl")
    files = (path for folder in folders for path in sorted(folder.rglob("*.jsonl")) if ".partial-" not in path.name)
    return [record for path in files for record in read(path)]


def profile() -> str:
    """The profile of this process: the environment variable ``BOOK_PROFILE``, ``smoke`` if unset."""
    name = os.environ.get("BOOK_PROFILE") or PROFILES[0]
    if name not in PROFILES:
        raise ValueError(f"BOOK_PROFILE is {name!r}, known profiles: {', '.join(PROFILES)}")
    return name
