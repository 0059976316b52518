"""A copy of the code in which mistakes are made, and run, without importing and compiling again what has none."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from lib import ROOT
from lib.batch.side_by_side import FORKS, LIBRARIES
from lib.machine import folder_of_kernels

SERVER = """
import gc, importlib, json, multiprocessing, os, runpy, sys

def become(words, folder, environment, output):
    output = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.dont_write_bytecode = False  # the place is our own
    module, *sys.argv = words if words[0] == "-m" else ["", *words]
    if module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")

for name in sys.argv[1:]:
    importlib.import_module(name)
assert not {"lib", "experiments"} & sys.modules.keys()
gc.collect()
gc.freeze()
for request in sys.stdin:
    # These end without taking apart what they have loaded, which would copy it all: seconds for every one.
    child = multiprocessing.get_context("fork").Process(target=become, kwargs=json.loads(request))
    child.start()
    child.join()
    print(child.exitcode, flush=True)
"""


class ForkedPython:
    """`python` with words, again and again, forked from a process that has loaded libraries and nothing of the book.

    Where nothing can be forked, each is a process from the start.
    """

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self._libraries = libraries
        self._server: subprocess.Popen[str] | None = None

    def run(self, folder: Path, output: Path, environment: dict[str, str], *words: str) -> tuple[int, str]:
        """Exit status and output, which goes through a file, of a run in this folder, from which it imports."""
        if not FORKS:
            done = subprocess.run(
                [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            return done.returncode, done.stdout + done.stderr
        if self._server is None:
            command = [sys.executable, "-c", SERVER, *self._libraries]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._server = subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)
        assert self._server.stdin and self._server.stdout
        asked = {"words": words, "folder": str(folder), "environment": environment, "output": str(output)}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        return status, output.read_text(encoding="utf-8")

    def close(self) -> None:
        if self._server is not None:
            self._server.communicate()


class EditedCode:
    """Folders of the book in a place of their own; `edited` makes mistakes in them, `run` shows what comes of these.

    All runs are of one place. So the machine code that Numba keeps of unedited code serves for every edit that its
    sources do not read: only a run after an edit, and the first of all, compile. They are forked from a process that
    has loaded the slow libraries and nothing of the book.
    """

    def __init__(
        self, folder: Path, *folders: str, source: Path = ROOT, libraries: tuple[str, ...] = LIBRARIES
    ) -> None:
        self.root, self.compiled, self._output = folder / "code", folder / "compiled", folder / "output.txt"
        self._python = ForkedPython(libraries)
        for name in folders:
            shutil.copytree(source / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        self._sound = folder_of_kernels(self.root)
        take_over(source, self.root, self.compiled)
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def edited(self, *changes: tuple[str, str, str]) -> Iterator[None]:
        """Inside the block, texts of files are replaced: (file, old, new); `ValueError` where old is not there once."""
        before: dict[Path, tuple[str, os.stat_result]] = {}
        try:
            for file, old, new in changes:
                path = self.root / file
                text = path.read_text(encoding="utf-8")
                if (times := text.count(old)) != 1:
                    raise ValueError(f"one place is needed, {old!r} is {times} times in {file}: name the text of today")
                before.setdefault(path, (text, path.stat()))
                path.write_text(text.replace(old, new), encoding="utf-8")
                number = next(
                    self._numbers
                )  # Python and Numba know a file by its size and time: no two edits share one
                os.utime(path, (number, number))
            self._carry_over(set(before))
            yield
        finally:
            for path, (text, state) in before.items():
                path.write_text(text, encoding="utf-8")
                os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and output of `python` with these words, in the copied folder."""
        own = {"PYTHONPATH": str(self.root), "NUMBA_CACHE_DIR": str(self.compiled)}
        environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        return self._python.run(self.root, self._output, environment, *words)

    def close(self) -> None:
        self._python.close()

    def _carry_over(self, edited: set[Path]) -> None:
        """Let the edited code use the machine code of files that read no edited one, directly or through others."""
        before, now = (self.compiled / name for name in (self._sound, folder_of_kernels(self.root)))
        if before == now or not before.is_dir() or now.exists():
            return
        stale = {(path.parent.name, path.stem) for path in readers(self.root, edited)}

        def left_out(place: str, names: list[str]) -> list[str]:
            room = Path(place).name.rpartition("_")[0]  # Numba names a folder by that of the sources and a digest
            return [name for name in names if (room, name.partition(".")[0]) in stale]

        shutil.copytree(before, now, ignore=left_out)


def take_over(source: Path, copy: Path, compiled: Path) -> None:
    """Let a copy of the code use what the tests have compiled of the source so far, from a folder of its own.

    For copies with the times of the source, in which no kernel differs. What they compile stays in that folder.
    """
    made = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if made.name != folder_of_kernels(source):
        return
    now = compiled / folder_of_kernels(copy)
    half = shutil.ignore_patterns("*.tmp.*")  # what another process is writing there
    for room in {path.parent for name in ("lib", "experiments") for path in (copy / name).rglob("*.py")}:
        kept = made / numba_name(source / room.relative_to(copy))
        if kept.is_dir():
            shutil.copytree(kept, now / numba_name(room), ignore=half, dirs_exist_ok=True)


def numba_name(folder: Path) -> str:
    """What Numba calls the folder in which it keeps the machine code of the files of this one."""
    return f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"


def readers(root: Path, files: Iterable[Path], folders: Iterable[str] = (".",)) -> set[Path]:
    """These files, and those in folders of the root that import from them, directly or through others."""
    imports = {path: imported(path, root) for name in folders for path in (root / name).rglob("*.py")}
    found, more = set[Path](), set(files)
    while more - found:
        found |= more
        more = {path for path, used in imports.items() if used & found}
    return found


def imported(path: Path, root: Path) -> set[Path]:
    """Files below the root that a file may import from, wherever in it; some of them may not be there."""
    names = imported_names(path.read_text(encoding="utf-8"), path.relative_to(root).parts)
    places = [root.joinpath(*name.split(".")) for name in names]
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}


@functools.cache  # an edit changes one file of hundreds
def imported_names(text: str, place: tuple[str, ...]) -> frozenset[str]:
    """Modules, and what may be one, that a source imports; its place is its path below the root."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.update(itertools.accumulate(alias.name.split("."), "{}.{}".format))
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(place[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (package, node.module)))
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
