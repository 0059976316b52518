"""What a page reads while it is executed, noted by name and content: when that changes the page is executed again.

Loaders call `note`, `note_file` and `note_folder`; outside the execution of a page these do nothing. What a page
derives itself (trained vocabularies, compiled kernels, checkpoints) is no input.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lib import ROOT
from lib.machine import append_line
from lib.sources import digest_of

VARIABLE = "BOOK_INPUTS"  # the file that the page under way notes its inputs in
ABSENT = "absent"  # the digest of what was looked for and not found
FILES = "files"  # the kind of inputs that are files, named by their place
_BELOW = "/**/*"


class Input(NamedTuple):
    """One thing that a page has read: its kind, a name that is the same on every machine, a digest of its content."""

    kind: str
    name: str
    digest: str


def under_way() -> bool:
    """Whether this process executes a page whose inputs are wanted."""
    return bool(os.environ.get(VARIABLE))


def note(kind: str, name: str, digest: str) -> None:
    """Note that the page read this, or looked for it in vain (`ABSENT`)."""
    if under_way():
        append_line(Path(os.environ[VARIABLE]), json.dumps([kind, name, digest], ensure_ascii=False))


def note_file(path: Path) -> None:
    """Note that the page reads this file; call it before reading, so that a change meanwhile is seen."""
    if under_way():
        _note_files(_place(path))


def note_folder(folder: Path, suffix: str) -> None:
    """Note that the page reads all files with this suffix below a folder; call it before reading."""
    if under_way():
        _note_files(f"{_place(folder)}{_BELOW}{suffix}")


def note_definition(path: Path) -> None:
    """Note that the page reads this definition of an experiment, and what stands beside it if that is a package."""
    if (path.parent / "__init__.py").is_file():
        note_folder(path.parent, ".yml")
        note_folder(path.parent, ".py")
    else:
        note_file(path)


def _note_files(name: str) -> None:
    note(FILES, name, files_digest(name))


def _place(path: Path) -> str:
    """A path as the book names it: from the book's folder if it lies there."""
    whole = Path(os.path.normpath(path.absolute()))
    return (whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else whole).as_posix()


def files(name: str) -> list[Path]:
    """The files that an input of kind `FILES` consists of at present.

    Empty files say nothing: a page that makes no record leaves one. Hidden and partial files are not finished.
    """
    folder, several, suffix = name.rpartition(_BELOW)
    found = sorted((ROOT / folder).rglob(f"*{suffix}")) if several else [ROOT / name]
    return [path for path in found if _is_written(path)]


def _is_written(path: Path) -> bool:
    try:
        finished = not path.name.startswith(".") and ".partial" not in path.name
        return finished and path.is_file() and path.stat().st_size > 0
    except OSError:  # gone, or not to be looked at
        return False


def files_digest(name: str) -> str:
    """Digest of an input of kind `FILES` at present; `ABSENT` without any file."""
    found = files(name)
    folder, several, _ = name.rpartition(_BELOW)
    try:
        return digest_of(found, ROOT / folder if several else (ROOT / name).parent) if found else ABSENT
    except OSError:  # gone since it was listed, or not to be read
        return ABSENT


def read(path: Path) -> list[Input]:
    """The different inputs noted in a file, in order; none if there is no file.

    Raises ``ValueError`` with file and line for a line that is no note.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found: dict[Input, None] = {}
    for number, line in enumerate(lines, start=1):
        try:
            found[parse(json.loads(line))] = None
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number} is no note of an input: {error}") from error
    return list(found)


def parse(given: object) -> Input:
    """An input from its three texts; ``ValueError`` for anything else."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        texts = tuple(given)
        if len(texts) == 3 and all(isinstance(text, str) for text in texts):
            return Input(*texts)
    raise ValueError(f"kind, name and digest are needed, got {given!r}")
