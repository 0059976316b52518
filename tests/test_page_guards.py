"""Chapters notice a broken kernel: the cells tagged `guards-…` fail on every mutant of lib that is named for them."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Callable, Iterator

import pytest
import yaml

from lib import ROOT
from lib.batch.pages import Page, executable_pages
from tests.edited_code import EditedCode

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


def run(code: str, place: EditedCode) -> tuple[int, str]:
    """Exit status and output of cells that run with the code in this place."""
    (place.root / "cells.py").write_text(code, encoding="utf-8")
    return place.run("cells.py")


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {page.name: page for page in executable_pages()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditedCode]:
    place = EditedCode(tmp_path_factory.mktemp("code"), "lib", "experiments", "book/claims")
    yield place
    place.close()


@pytest.fixture(scope="module")
def as_lib_is(pages: dict[str, Page], place: EditedCode) -> tuple[int, str]:
    """What becomes of all guards in one process, each with names of its own, before lib has a mistake."""
    parts = [f"exec(compile({guarding_code(pages[page], guard)!r}, {guard!r}, 'exec'), {{}})" for page, guard in GUARDS]
    return run("\n".join(parts), place)


def test_guards_pass_as_lib_is(as_lib_is: tuple[int, str]) -> None:
    status, errors = as_lib_is
    assert status == 0, errors


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
@pytest.mark.usefixtures("as_lib_is")  # its machine code serves for all that a mutant leaves as it is
def test_a_page_fails_on(mutant: dict[str, str], pages: dict[str, Page], place: EditedCode) -> None:
    code = guarding_code(pages[mutant["page"]], mutant["guard"])
    with place.edited((mutant["file"], mutant["text"], mutant["replacement"])):
        status, errors = run(code, place)
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


def test_a_mutant_that_is_nowhere_or_everywhere_is_refused(place: EditedCode) -> None:
    for text in ("no such text", "import"):
        with pytest.raises(ValueError, match="one place"), place.edited((MUTANTS[0]["file"], text, "")):
            pass


def test_only_the_cells_that_a_guard_needs_are_run(make_page: Callable[..., Page], place: EditedCode) -> None:
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
    assert run(guarding_code(page, "x"), place)[0] == 0
    page.source.write_text(page.source.read_text(encoding="utf-8").replace("> 3", "> 4"), encoding="utf-8")
    status, errors = run(guarding_code(Page(page.name, page.root), "x"), place)
    assert status != 0 and re.search(NOTICED, errors, re.MULTILINE)
    with pytest.raises(ValueError, match="guards-y"):
        guarding_code(page, "y")
