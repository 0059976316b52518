"""Which test files read what was changed: `python -m tests.changed` prints them, for `make test-fast`.

Changed is what differs from the last commit, or, if nothing does, what that commit changed. A test file reads a source
that it imports, directly or through others, and the `conftest.py` of its folders; a file that is no Python is read by
the sources beside it, and what makes pages by the tests of pages.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from lib import ROOT
from tests.edited_code import readers

CODE = ("lib", "experiments", "tests", "benchmarks")
ALWAYS = ("tests/test_repository_files.py", "tests/test_rooms.py")
OF_PAGES = ("tests/batch/test_pages.py", "tests/batch/test_sphinx_pages.py", "tests/report")


def changed_files(root: Path) -> set[Path]:
    """Files that differ from the last commit, with new ones, else those of that commit; below the root."""
    files = _git(root, "diff", "--name-only", "HEAD") + _git(root, "ls-files", "--others", "--exclude-standard")
    return {
        root / name for name in files or _git(root, "show", "--first-parent", "-m", "--name-only", "--format=", "HEAD")
    }


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def files_for(changed: Iterable[Path], root: Path) -> list[Path]:
    """Test files that read any of these, sorted, and those that look at every file."""
    chosen = {root / name for name in ALWAYS}
    sources: set[Path] = set()
    for path in changed:
        if path.relative_to(root).parts[0] not in CODE:
            chosen |= {file for name in OF_PAGES for file in _test_files(root / name)}
        elif path.name == "conftest.py":
            chosen |= _test_files(path.parent)
        else:
            sources |= {path} if path.suffix == ".py" else set(path.parent.glob("*.py"))
    read = readers(root, sources, CODE)
    return sorted((chosen | (read & _test_files(root / "tests"))) - _test_files(root / "tests" / "browser"))


def _test_files(place: Path) -> set[Path]:
    return {place} if place.suffix == ".py" else set(place.rglob("test_*.py"))


if __name__ == "__main__":
    print(*(path.relative_to(ROOT) for path in files_for(changed_files(ROOT), ROOT)))
