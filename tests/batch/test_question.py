"""A new question: what is written works as it stands, and nothing that exists is written over."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lib import ROOT
from lib.batch.question import create
from tests.edited_code import take_over

CONTENTS = "format: jb-book\nroot: book/index\nchapters:\n  - file: notebooks/two_point/copied_pairs\n"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book without a question: code, settings, and the folder of one part."""
    for name in ("lib", "book"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("_config.yml", "pyproject.toml", "requirements.lock", "README.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("experiments", "tests", "tests/experiments", "notebooks/two_point"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("experiments", "tests", "tests/experiments"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "notebooks" / "profiles.yml").write_text("laptop: {}\n")
    return tmp_path


def at(book: Path, *command: str) -> str:
    """What `python -m <command>` prints in that book; it has to end well."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("BOOK_")}
    there = {**outer, "PYTHONPATH": str(book)}
    done = subprocess.run([sys.executable, "-m", *command], cwd=book, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_what_is_written_is_trained_shown_and_tested_as_it_stands(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_over(ROOT, book, book / "compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(book / "compiled"))
    told = at(book, "lib", "new", "copied_pairs", "--part", "two_point", "--title", "Copied pairs")
    assert "- file: notebooks/two_point/copied_pairs" in told
    (book / "_toc.yml").write_text(CONTENTS)
    assert "8 done" in at(book, "lib", "sweep", "copied_pairs", "--profile", "smoke", "--shard", "1/1")
    assert "done notebooks/two_point/copied_pairs" in at(book, "lib", "run", "copied_pairs")
    (book / "book" / "index.md").write_text("# The book\n")
    assert "The book is ready" in at(book, "lib", "book")  # Sphinx takes every warning for an error
    page = (book / "_build" / "html" / "notebooks" / "two_point" / "copied_pairs.html").read_text(encoding="utf-8")
    assert 'id="fig-copied-pairs"' in page and "8 of 8" in page
    assert "6 passed" in at(book, "pytest", "-p", "no:cacheprovider", "tests/experiments/copied_pairs")
    assert "All checks passed" in at(book, "ruff", "check", "experiments", "tests")


def test_nothing_that_exists_is_written_over(book: Path) -> None:
    written = create("copied_pairs", "two_point", root=book)
    before = {path: path.read_text(encoding="utf-8") for path in written}
    assert "# Copied pairs\n" in before[book / "notebooks" / "two_point" / "copied_pairs.md"]
    with pytest.raises(ValueError, match=r"a new name is allowed.*experiments/copied_pairs/run.py"):
        create("copied_pairs", "two_point", "Another title", root=book)
    (book / "notebooks" / "two_point" / "other.md").touch()
    with pytest.raises(ValueError, match=r"has notebooks/two_point/other\.md"):
        create("other", "two_point", root=book)
    assert not (book / "experiments" / "other").exists()
    assert before == {path: path.read_text(encoding="utf-8") for path in written}


@pytest.mark.parametrize(
    ("question", "title"),
    [("pairs", "'Tis"), ("pairs", "- a"), ("pairs", "no"), ("pairs", "2024"), ("pairs", "Für – zwei")],
)
def test_names_and_titles_are_texts_in_yaml(book: Path, question: str, title: str) -> None:
    create(question, "two_point", title, root=book)
    sweep = yaml.safe_load((book / "experiments" / question / "sweep.yml").read_text(encoding="utf-8"))
    assert (sweep["name"], sweep["title"]) == (question, title)
    assert f"# {title}\n" in (book / "notebooks" / "two_point" / f"{question}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("question", "part", "title", "message"),
    [
        ("Copied-Pairs", "two_point", "", "a name such as copied_words is allowed, got 'Copied-Pairs'"),
        ("../pairs", "two_point", "", "a name such as"),
        ("class", "two_point", "", "a name that is no word of Python or YAML is allowed, got 'class'"),
        ("no", "two_point", "", "a name that is no word of Python or YAML is allowed, got 'no'"),
        ("scorecard", "two_point", "", r"a new name is allowed, 'scorecard' has book/scorecard\.md"),
        ("erratum_5", "two_point", "", r"a new name is allowed, 'erratum_5' has book/errata\.md"),
        ("pairs", "three_point", "", "part: one of two_point is allowed, got 'three_point'"),
        ("pairs", "two_point", 'a """ b', "title: letters"),
    ],
)
def test_names_that_cannot_be_are_refused(book: Path, question: str, part: str, title: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(question, part, title, root=book)
    assert [path.name for path in (book / "experiments").iterdir()] == ["__init__.py"]
