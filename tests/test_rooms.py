"""The rooms of lib: what each may import, so that every arrow points from the particular to the general."""

from __future__ import annotations

import ast

import pytest

from lib import ROOT

BELOW = {
    "processes": set(),
    "information": {"processes"},
    "theory": {"processes"},
    "models": {"processes"},
    "training": {"processes", "models"},
    "report": {"processes", "information"},
    "experiments": {"processes", "information", "theory", "models", "training", "report"},
    "batch": {"processes", "report", "experiments"},
}


def rooms_imported(source: str) -> set[str]:
    """Rooms of lib that a text imports anything from, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "lib" else {module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("lib.")} & set(BELOW)


def test_every_room_is_in_the_plan():
    assert {path.name for path in (ROOT / "lib").iterdir() if any(path.glob("*.py"))} == set(BELOW)


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_from_those_below_it(room: str):
    upward = {
        str(path.relative_to(ROOT)): sorted(wrong)
        for path in sorted((ROOT / "lib" / room).rglob("*.py"))
        if (wrong := rooms_imported(path.read_text(encoding="utf-8")) - BELOW[room] - {room})
    }
    assert not upward


def test_an_arrow_that_points_upward_is_seen():
    assert rooms_imported("def f():\n    from lib.training.tasks import x\n") == {"training"}
    assert rooms_imported("import lib.batch.sweep\nfrom lib import ROOT, report\nimport numpy") == {"batch", "report"}
