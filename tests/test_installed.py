"""What others get: a wheel with every package and setting, rooms that need no PyTorch, tests in the same rooms."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lib import ROOT, sources

BLOCKED = """
import sys
class Refused:
    def find_spec(name, *_):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is not to be imported here")
sys.meta_path.insert(0, Refused)
import {name}
"""  # a None in sys.modules would do, but SciPy looks there for what is loaded
KINDS = {"browser", "claims"}  # folders of tests that stand for no room of lib


def needed(root: Path) -> set[str]:
    """Sources, settings and templates that an installation has to hold, relative to the root."""
    paths = [*sources.files_below(root / "lib"), *sources.files_below(root / "experiments")]
    return {path.relative_to(root).as_posix() for path in paths}


def wheel_of(root: Path, folder: Path) -> set[str]:
    """Names in the wheel that setuptools makes of a tree."""
    command = [sys.executable, "-m", "pip", "wheel", str(root), "--no-deps", "--no-build-isolation", "-q", "-w"]
    made = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_package_and_setting(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("lib", "experiments"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    (tree / "lib" / "theory" / "forgotten").mkdir()
    (tree / "lib" / "theory" / "forgotten" / "table.txt").write_text("no setting\n")
    (tree / "lib" / "theory" / "table.yml").write_text("a: 1\n")
    held = wheel_of(tree, tmp_path / "wheel")
    assert {
        "lib/report/figures/book.mplstyle",
        "lib/report/scorecard/scorecard.html",
        "lib/report/scorecard/filters.js",
    } <= held
    assert {"experiments/books/counts.yml", "lib/theory/table.yml"} <= held
    assert needed(tree) <= held
    assert "lib/theory/forgotten/table.txt" not in held  # a file of another kind is not taken along by chance


@pytest.mark.parametrize("name", ["lib.processes", "lib.information", "lib.theory", "lib.report.claims"])
def test_a_room_needs_no_torch(name: str) -> None:
    assert subprocess.run([sys.executable, "-c", BLOCKED.format(name=name)], cwd=ROOT, check=False).returncode == 0


def test_a_room_that_needs_torch_is_seen() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED.format(name="lib.models.base")], cwd=ROOT, capture_output=True)
    assert done.returncode and b"torch" in done.stderr


def strangers(root: Path) -> set[str]:
    """Folders of tests that are no package, or stand for no room of lib and no question."""
    found = set()
    for folder in {path.parent for path in (root / "tests").rglob("*.py")}:
        parts = folder.relative_to(root / "tests").parts
        place = root / "lib" / Path(*parts) if parts[:1] != ("experiments",) else root / Path(*parts)
        known = place.is_dir() or parts[0] in KINDS
        if not known or not all((above / "__init__.py").is_file() for above in (folder, *folder.parents[: len(parts)])):
            found.add("/".join(parts))
    return found


def test_tests_stand_in_the_rooms_of_what_they_test() -> None:
    assert not strangers(ROOT)


def test_a_folder_of_tests_without_its_room_is_seen(tmp_path: Path) -> None:
    for name in (
        "lib/runs",
        "experiments",
        "tests",
        "tests/runs",
        "tests/attic",
        "tests/experiments",
        "tests/experiments/none",
    ):
        (tmp_path / name).mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/attic/__init__.py", "tests/experiments/__init__.py"):
        (tmp_path / name).touch()
    for name in ("tests/runs/test_a.py", "tests/attic/test_b.py", "tests/experiments/none/__init__.py"):
        (tmp_path / name).touch()
    assert strangers(tmp_path) == {"runs", "attic", "experiments/none"}
