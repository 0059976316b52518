"""The sources of a page: all of lib and the experiments that it imports, followed by name and content."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lib import ROOT, sources
from lib.batch.pages import executable_pages

HEAD = "---\nkernelspec: {name: python3}\n---\n\n# A chapter\n\n"
CELL = "```{code-cell} python\n:tags: [hide-input]\nCODE\n```\n"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book with three experiments; the second imports the third."""
    files = {
        "lib/kernel.py": "one = 1\n",
        "lib/catalogue.yml": "a: 1\n",
        "experiments/__init__.py": "",
        "experiments/first/__init__.py": "",
        "experiments/first/figures.py": "from . import runs\n",
        "experiments/first/runs.py": "two = 2\n",
        "experiments/first/sweep.yml": "name: first\n",
        "experiments/second/__init__.py": "def f():\n    from ..third import law\n",
        "experiments/third/__init__.py": "",
        "experiments/third/law.py": "three = 3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def write(book: Path, code: str) -> None:
    (book / "page.md").write_text(HEAD + CELL.replace("CODE", code))


def experiments_of(book: Path, code: str) -> set[str]:
    write(book, code)
    parts = (path.relative_to(book).parts for path in sources.sources("page", book))
    return {part[1] for part in parts if part[0] == "experiments"} - {"__init__.py"}


@pytest.mark.parametrize(
    "code, expected",
    [
        ("import numpy", set()),
        ("from lib.first import law", set()),
        ("from experiments.first.figures import draw", {"first"}),
        ("from experiments import first as f", {"first"}),
        ("import experiments.first.runs", {"first"}),
        ("import importlib; importlib.import_module('experiments.first.runs')", {"first"}),
        ("def later():\n    from experiments.second import f", {"second", "third"}),
        ("from experiments import *", {"first", "second", "third"}),
        ("import experiments", {"first", "second", "third"}),
        ("%matplotlib inline\nfrom experiments.first import runs", {"first"}),
        ("this is no Python", {"first", "second", "third"}),
        ("x = 'from experiments import first'", set()),
    ],
)
def test_a_page_rests_on_the_experiments_that_it_imports(book: Path, code: str, expected: set[str]) -> None:
    assert experiments_of(book, code) == expected


def test_every_source_counts_for_the_pages_that_it_decides_and_for_no_other(book: Path) -> None:
    write(book, "from experiments.second import f")
    before = {page: sources.digest(page, book) for page in (None, "page")}
    (book / "experiments" / "first" / "figures.py").write_text("other = 0\n")
    (book / "lib" / "notes.txt").write_text("not code")
    assert {page: sources.digest(page, book) for page in before} == before
    (book / "experiments" / "third" / "law.py").write_text("three = 4\n")
    assert sources.digest(None, book) == before[None] and sources.digest("page", book) != before["page"]
    for name in ("kernel.py", "catalogue.yml"):
        (book / "lib" / name).write_text("two = 2\n")
        assert sources.digest(None, book) != before[None]
        before[None] = sources.digest(None, book)


def test_the_sweep_of_an_experiment_is_a_source(book: Path) -> None:
    write(book, "from experiments.first import runs")
    before = sources.digest("page", book)
    (book / "experiments" / "first" / "sweep.yml").write_text("name: first\nseeds: 3\n")
    assert sources.digest("page", book) != before


def test_a_page_without_a_source_rests_on_lib_alone(book: Path) -> None:
    assert sources.digest("nowhere", book) == sources.digest(None, book)


def test_several_pages_have_the_digests_that_each_has_alone(book: Path) -> None:
    write(book, "from experiments.second import f")
    pages = ["page", "", "nowhere"]
    assert sources.digests(pages, book) == {page: sources.digest(page or None, book) for page in pages}


PLAIN = "from experiments.first.runs import run"


@pytest.mark.parametrize(
    "code",
    [
        PLAIN,
        f"    {PLAIN}  # of experiments.second",
        f"{PLAIN}; import experiments.second",
        f"{PLAIN}, experiments",
        f"text = '''\n{PLAIN}\nfrom experiments.second import f\n'''",
        f"# {PLAIN}",
        "from experiments.first import (\n    runs,\n)",
        "import experiments.first.runs as one",
        "import experiments.first, experiments.second",
        "import experiments.first\nimport experiments.second.runs",
        "from experiments.first import *\nfrom experiments import *",
        "my.experiments.first",
        "from .. import second\n" + PLAIN,
        "from \\\n  ..second import f",
        "if x:\n" + f"\t{PLAIN}\n",
    ],
)
def test_lines_that_import_are_read_as_the_tree_says(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree_and_lines([(code, ("experiments", "third"))], monkeypatch) == 1


def test_every_text_of_the_book_is_read_as_its_tree_says(monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = ROOT / "experiments"
    files = [path for path in sources.files_below(experiments) if path.suffix == ".py"]
    texts = [(path.read_text(), ("experiments", *path.relative_to(experiments).parts[:-1])) for path in files]
    texts += [(cell, ("experiments",)) for page in executable_pages() for cell in sources.code_cells(page.text)]
    assert tree_and_lines(texts, monkeypatch) == len(texts)


def tree_and_lines(texts: list[tuple[str, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many texts name the same experiments by their lines as by their trees, where nothing else is looked at."""
    quick = [sources._imported.__wrapped__(*text) for text in texts]
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_RELATIVE", re.compile(""))  # as if there were one: only the tree tells
        full = [sources._imported.__wrapped__(*text) for text in texts]
    return sum(one == other for one, other in zip(quick, full, strict=True))


def test_names_and_contents_of_files_both_count(tmp_path: Path) -> None:
    seen = set()
    for first, second in (("x\n", "y\n"), ("x\ny\n", ""), ("", "x\ny\n")):
        (tmp_path / "a.py").write_text(first)
        (tmp_path / "b.py").write_text(second)
        seen.add(sources.digest_of(sources.files_below(tmp_path), tmp_path))
    (tmp_path / "b.py").rename(tmp_path / "c.py")
    seen.add(sources.digest_of(sources.files_below(tmp_path), tmp_path))
    assert len(seen) == 4


def test_compiled_files_are_no_sources() -> None:
    assert not [path for path in sources.sources() if "__pycache__" in path.parts]
    assert ROOT / "lib" / "sources.py" in sources.sources()


@pytest.mark.parametrize("page", executable_pages(), ids=lambda page: page.name)
def test_the_code_of_a_page_is_read_as_jupytext_reads_it(page) -> None:
    cells = [cell.source for cell in page.notebook().cells if cell.cell_type == "code"]
    assert [code.strip() for code in sources.code_cells(page.text)] == [cell.strip() for cell in cells]
