"""Which sources decide what a page shows: all of `lib`, and those packages of `experiments` that the page imports."""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib import ROOT

SUFFIXES = (".py", ".yml", ".html", ".js", ".mplstyle")
EXPERIMENTS = "experiments"
ALL = "*"  # every experiment, as in `from experiments import *`
_CELL = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})\{code-cell\}[^\n]*\n(?P<code>.*?)^[ \t]*(?P=fence)[ \t]*$", re.M | re.S
)
_OPTIONS = re.compile(r"\A(?:---\n.*?^---[ \t]*\n|(?::[\w-]+:[^\n]*\n)+)", re.M | re.S)
_MAGIC = re.compile(r"^[ \t]*[%!][^\n]*$", re.M)
_NAMED = re.compile(rf"(?<![\w.]){EXPERIMENTS}\.(\w+)")
_LINE = re.compile(rf"^[ \t]*(?:from|import)[ \t]+{EXPERIMENTS}\.(\w+)[\w.]*(?:[ \t]+import\b|[ \t]*$)", re.M)
_RELATIVE = re.compile(r"\bfrom[\s\\]*\.")


def current_page() -> str:
    """Name of the page being executed, such as ``book/scorecard`` (environment variable ``BOOK_PAGE``), or nothing."""
    return os.environ.get("BOOK_PAGE", "")


def digest(page: str | None = None, root: Path = ROOT) -> str:
    """SHA-256 over names and contents of `sources(page)`, as hexadecimal digits. About 10 ms."""
    return digest_of(sources(page, root), root)


def digests(pages: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """`digest` of several pages, an empty name for no page; `lib`, which is the same for all, is read once."""
    of_lib, every = _hashed(files_below(root / "lib"), root), dict.fromkeys(pages)
    return {page: _hashed(_of_page(page, root), root, of_lib.copy()).hexdigest() for page in every}


def sources(page: str | None = None, root: Path = ROOT) -> list[Path]:
    """Files that decide a page, such as ``notebooks/two_point/ising_chain``; without a page, those of `lib`.

    They are the code and settings of `lib`, and of each package of `experiments` that a code cell imports or names in a
    text, with what these import of other experiments. A page without a source in the book imports nothing. Nothing is
    executed; where a cell is not Python, every experiment counts.
    """
    return files_below(root / "lib") + _of_page(page, root)


def _of_page(page: str | None, root: Path) -> list[Path]:
    source = root / f"{page}.md"
    if not page or not source.is_file():
        return []
    return _experiments(code_cells(source.read_text(encoding="utf-8")), root / EXPERIMENTS)


def files_below(folder: Path) -> list[Path]:
    """Code and settings below a folder, in a fixed order."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [Path(place, name) for name in names if name.endswith(SUFFIXES)]
    return sorted(found, key=Path.as_posix)


def digest_of(files: Iterable[Path], root: Path) -> str:
    """SHA-256 over contents and names, relative to ``root``, of files in the given order, as hexadecimal digits."""
    return str(_hashed(files, root).hexdigest())


def _hashed(files: Iterable[Path], root: Path, before: Any = None) -> Any:
    total, above = before or hashlib.sha256(), len(root.as_posix()) + 1  # `relative_to` would take longest
    for path in files:
        content = path.read_bytes()
        total.update(f"{path.as_posix()[above:]}\0{len(content)}\0".encode() + content)
    return total


def code_cells(text: str) -> list[str]:
    """The code of the cells of a MyST text, without their options."""
    cells = (textwrap.dedent(found["code"]) for found in _CELL.finditer(text))
    return [_OPTIONS.sub("", cell, count=1) for cell in cells]


def _experiments(code: Iterable[str], folder: Path) -> list[Path]:
    waiting = {name for cell in code for name in _named_in(cell, (EXPERIMENTS,), folder)}
    done: set[str] = set()
    files: set[Path] = set()
    while waiting - done:
        name = (waiting - done).pop()
        done.add(name)
        module = folder / f"{name}.py"
        own = files_below(folder / name) + ([module] if module.is_file() else [])
        files |= set(own)
        for path in (path for path in own if path.suffix == ".py"):
            inside = (EXPERIMENTS, *path.relative_to(folder).parts[:-1])
            waiting |= _named_in(path.read_text(encoding="utf-8"), inside, folder)
    head = folder / "__init__.py"
    return sorted(files | ({head} if files and head.is_file() else set()), key=Path.as_posix)


def _named_in(code: str, inside: tuple[str, ...], folder: Path) -> set[str]:
    names = set(_imported(code, inside))
    return names - {ALL} | set(_all(folder)) if ALL in names else names


@functools.cache  # the scorecard asks for each of its pages, and most of these import the same
def _imported(code: str, inside: tuple[str, ...]) -> frozenset[str]:
    """Names of experiments that a text imports, wherever in it, or ALL; ``inside``: the package that holds the text."""
    try:
        tree = ast.parse(_MAGIC.sub("", code))
    except SyntaxError:
        return frozenset({ALL})
    lines = _LINE.findall(code)
    if len(lines) == code.count(EXPERIMENTS) and not _RELATIVE.search(code):
        return frozenset(lines)  # most texts name them in no other way: there is no need to look through the tree
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(_NAMED.findall(node.value))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names.update([ALL] if alias.name == EXPERIMENTS else _NAMED.findall(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + 1] if node.level else ()
            module = [*base, *(node.module or "").split(".")] if node.module else [*base]
            if module[:1] == [EXPERIMENTS]:
                names.update([module[1]] if len(module) > 1 else [alias.name for alias in node.names])
    return frozenset(names)


def _all(folder: Path) -> list[str]:
    return sorted({path.stem for path in folder.glob("*") if path.is_dir() or path.suffix == ".py"} - {"__pycache__"})
