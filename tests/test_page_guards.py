"""Chapters notice a broken kernel: the cells tagged `guards-…` fail on every mutant of lib that is named for them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import symtable
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from lib import ROOT
from lib.batch.pages import Page, executable_pages

MUTANTS = yaml.safe_load((ROOT / "tests" / "mutants.yml").read_text(encoding="utf-8"))
NAMES = [mutant["name"] for mutant in MUTANTS]
GUARDS = sorted({(mutant["page"], mutant["guard"]) for mutant in MUTANTS})
NOTICED = r"^(AssertionError|lib\.report\.claims\.ClaimFailed)"  # any other error is a check that did not run


def guarding_code(page: Page, guard: str) -> str:
    """The page's cells with the tag of this guard, after the imports and cells that bind the names they use."""
    cells = [cell for cell in page.notebook().cells if cell.cell_type == "code"]
    tagged = [number for number, cell in enumerate(cells) if f"guards-{guard}" in cell.metadata.get("tags", [])]
    if not tagged:
        raise ValueError(f"{page.name} has no cell tagged guards-{guard}")
    chosen: list[str] = []
    needed: set[str] = set()
    for number in range(tagged[-1], -1, -1):
        for part in reversed(parts_of(cells[number].source)):
            bound, taken = names_in(part)
            if number in tagged or bound & needed:
                chosen.append(ast.unparse(part))
                needed = (needed - bound) | taken
    return "\n".join(reversed(chosen))


def parts_of(source: str) -> list[ast.Module]:
    """The imports of a cell one by one, for they are slow, and all else in one piece."""
    statements = ast.parse(source).body
    imports = [statement for statement in statements if isinstance(statement, ast.Import | ast.ImportFrom)]
    others = [statement for statement in statements if statement not in imports]
    return [ast.Module(part, []) for part in ([statement] for statement in imports)] + [ast.Module(others, [])]


def names_in(part: ast.Module) -> tuple[set[str], set[str]]:
    """Names that statements bind, and names that they take from earlier ones."""
    bound: set[str] = set()
    taken: set[str] = set()
    for statement in part.body:
        scopes = [symtable.symtable(ast.unparse(statement), "cell", "exec")]
        own = scopes[0].get_symbols()
        used = {symbol.get_name() for symbol in own if symbol.is_referenced()}
        if isinstance(statement, ast.AugAssign):
            used |= {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
        for scope in scopes:
            scopes += scope.get_children()
            used |= {name.get_name() for name in scope.get_symbols() if name.is_global() and name.is_referenced()}
        taken |= used - bound
        bound |= {symbol.get_name() for symbol in own if symbol.is_assigned() or symbol.is_imported()}
    return bound, taken


def copy_of_lib(root: Path, mutant: Mapping[str, str] | None = None) -> Path:
    """`root`, with lib and what it reads in it, and the mistake."""
    for folder in ("lib", "experiments", "book/claims"):
        shutil.copytree(ROOT / folder, root / folder)
    if mutant is not None:
        path = root / mutant["file"]
        source = path.read_text(encoding="utf-8")
        if (times := source.count(mutant["text"])) != 1:
            raise ValueError(f"{mutant['name']}: one place is needed, {mutant['text']!r} is in {times} of its file")
        path.write_text(source.replace(mutant["text"], mutant["replacement"]), encoding="utf-8")
    return root


def run(code: str, root: Path) -> tuple[int, str]:
    """Exit status and errors of code that runs with the lib below `root`."""
    script = root / "cells.py"
    script.write_text(code, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(root / "numba"),  # machine code from elsewhere may lack the mistake
    }
    done = subprocess.run([sys.executable, script], cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {page.name: page for page in executable_pages()}


def test_guards_pass_as_lib_is(pages: dict[str, Page], tmp_path: Path) -> None:
    """All in one process, each with names of its own."""
    parts = [f"exec(compile({guarding_code(pages[page], guard)!r}, {guard!r}, 'exec'), {{}})" for page, guard in GUARDS]
    status, errors = run("\n".join(parts), copy_of_lib(tmp_path))
    assert status == 0, errors


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_a_page_fails_on(mutant: dict[str, str], pages: dict[str, Page], tmp_path: Path) -> None:
    code = guarding_code(pages[mutant["page"]], mutant["guard"])
    status, errors = run(code, copy_of_lib(tmp_path, mutant))
    assert status != 0
    assert re.search(NOTICED, errors, re.MULTILINE), errors


def test_every_guard_of_a_page_has_a_mutant(pages: dict[str, Page]) -> None:
    tags = {
        (page.name, tag.removeprefix("guards-"))
        for page in pages.values()
        for cell in page.notebook().cells
        for tag in cell.metadata.get("tags", [])
        if tag.startswith("guards-")
    }
    assert tags == set(GUARDS)
    assert len(set(NAMES)) == len(NAMES)


def test_a_mutant_that_is_nowhere_or_everywhere_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("no such text", "import")):
        mutant = {**MUTANTS[0], "text": text}
        with pytest.raises(ValueError, match="one place"):
            copy_of_lib(tmp_path / str(number), mutant)


def test_only_the_cells_that_a_guard_needs_are_run(make_page: Callable[..., Page], tmp_path: Path) -> None:
    unneeded = "raise RuntimeError('not needed')"
    page = make_page(
        "a", "import none\nimport numpy as np", unneeded, "x = [1 for z in 'z'][0]\ny = 2", "x += np.e", "z = 3"
    )
    text = page.source.read_text(encoding="utf-8")
    guard = "```{code-cell} python\n:tags: [guards-x]\nassert min(x for x in [x]) > 3\n```\n"
    page.source.write_text(text + "\n" + guard, encoding="utf-8")
    assert guarding_code(page, "x").splitlines()[:-1] == [
        "import numpy as np", "x = [1 for z in 'z'][0]", "y = 2", "x += np.e",
    ]  # fmt: skip
    (tmp_path / "lib").mkdir()
    assert run(guarding_code(page, "x"), tmp_path)[0] == 0
    page.source.write_text(page.source.read_text(encoding="utf-8").replace("> 3", "> 4"), encoding="utf-8")
    status, errors = run(guarding_code(Page(page.name, page.root), "x"), tmp_path)
    assert status != 0 and re.search(NOTICED, errors, re.MULTILINE)
    with pytest.raises(ValueError, match="guards-y"):
        guarding_code(page, "y")
