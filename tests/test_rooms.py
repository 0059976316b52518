"""The rooms of lib: what each may import, so that every arrow points from the particular to the general."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lib import ROOT

BELOW = {
    "processes": set(),
    "information": {"processes"},
    "theory": {"processes"},
    "models": {"processes"},
    "training": {"processes", "models"},
    "report": {"processes", "information"},
    # A record of a run says where it comes from, in the words of the report; the report knows nothing of runs.
    "runs": {"processes", "information", "theory", "models", "training", "report"},
    "batch": {"processes", "report", "runs"},
}
QUESTIONS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/__init__.py"))
PACKAGES = ["information", "processes", "theory", "models", "training"]  # what others import from


def modules_imported(source: str) -> set[str]:
    """Dotted names of all that a text imports anything from, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            whole = module in ("lib", "experiments")
            names |= {f"{module}.{alias.name}" for alias in node.names} if whole else {module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def rooms_imported(source: str) -> set[str]:
    """Rooms of lib that a text imports anything from."""
    return {name.split(".")[1] for name in modules_imported(source) if name.startswith("lib.")} & set(BELOW)


def questions_imported(source: str) -> set[str]:
    """Questions that a text imports anything from."""
    return {name.split(".")[1] for name in modules_imported(source) if name.startswith("experiments.")}


def sources(folder: Path, pattern: str = "*.py") -> dict[str, str]:
    """Texts of all Python files in a folder, by their path."""
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(folder.rglob(pattern))}


def exported(package: str) -> set[str]:
    """Names that a package of lib hands on from its modules."""
    tree = ast.parse((ROOT / "lib" / package / "__init__.py").read_text(encoding="utf-8"))
    return {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_every_room_is_in_the_plan():
    assert {path.name for path in (ROOT / "lib").iterdir() if any(path.glob("*.py"))} == set(BELOW)


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_from_those_below_it(room: str):
    upward = {
        name: sorted(wrong)
        for name, text in sources(ROOT / "lib" / room).items()
        if (wrong := rooms_imported(text) - BELOW[room] - {room})
    }
    assert not upward


def test_what_stands_beside_the_rooms_imports_from_none():
    beside = [path for path in (ROOT / "lib").glob("*.py") if path.name != "__main__.py"]
    assert beside
    assert not {path.name for path in beside if rooms_imported(path.read_text(encoding="utf-8"))}


def test_lib_knows_no_question():
    assert not {name for name, text in sources(ROOT / "lib").items() if questions_imported(text)}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_knows_no_other(question: str):
    texts = sources(ROOT / "experiments" / question)
    assert texts
    assert not {name for name, text in texts.items() if questions_imported(text) - {question}}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_bears_a_name_that_its_package_exports(package: str):
    modules = {path.stem for path in (ROOT / "lib" / package).iterdir()}
    assert exported(package)
    assert not modules & exported(package)


def test_an_arrow_that_points_upward_is_seen():
    assert rooms_imported("def f():\n    from lib.training.tasks import x\n") == {"training"}
    assert rooms_imported("import lib.batch.sweep\nfrom lib import ROOT, report\nimport numpy") == {"batch", "report"}
    both = questions_imported("from experiments import books\nimport experiments.gaussians.run")
    assert both == {"books", "gaussians"}
    assert not questions_imported("from lib.runs import store\nimport lib.report.claims")
