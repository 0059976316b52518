"""`make test-fast` runs the tests that read what was changed, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.changed import ALWAYS, changed_files, files_for

FILES = {
    "lib/__init__.py": "",
    "lib/small.py": "",
    "lib/large.py": "from lib.small import x",
    "lib/other.py": "",
    "experiments/one/run.py": "from lib.other import y",
    "experiments/one/sweep.yml": "",
    "notebooks/one.md": "",
    "tests/helper.py": "import lib.large",
    "tests/one/test_large.py": "from tests.helper import z",
    "tests/one/conftest.py": "",
    "tests/two/test_other.py": "from lib.other import y",
    "tests/two/test_run.py": "from experiments.one import run",
    "tests/report/test_page.py": "",
    "tests/browser/test_pages.py": "from lib.large import z",
}


@pytest.fixture
def book(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("lib/small.py", ["tests/one/test_large.py"]),
        ("lib/other.py", ["tests/two/test_other.py", "tests/two/test_run.py"]),
        ("experiments/one/sweep.yml", ["tests/two/test_run.py"]),
        ("tests/helper.py", ["tests/one/test_large.py"]),
        ("tests/one/conftest.py", ["tests/one/test_large.py"]),
        ("tests/two/test_run.py", ["tests/two/test_run.py"]),
        (
            "notebooks/one.md",
            ["tests/batch/test_pages.py", "tests/batch/test_sphinx_pages.py", "tests/report/test_page.py"],
        ),
    ],
)
def test_tests_that_read_a_file_are_chosen_and_no_others(book: Path, changed: str, expected: list[str]) -> None:
    chosen = [path.relative_to(book).as_posix() for path in files_for([book / changed], book)]
    assert chosen == sorted([*expected, *ALWAYS])


def test_a_file_that_is_gone_has_its_readers(book: Path) -> None:
    (book / "lib/small.py").unlink()
    chosen = [path.relative_to(book).as_posix() for path in files_for([book / "lib/small.py"], book)]
    assert chosen == sorted(["tests/one/test_large.py", *ALWAYS])


def test_changed_is_what_differs_from_the_last_commit_else_what_that_one_changed(book: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=book, check=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    (book / "lib/small.py").write_text("x = 1\n", encoding="utf-8")
    git("commit", "--quiet", "--all", "--message", "second")
    assert changed_files(book) == {book / "lib/small.py"}
    (book / "lib/other.py").write_text("y = 1\n", encoding="utf-8")
    (book / "lib/new.py").touch()
    assert changed_files(book) == {book / "lib/other.py", book / "lib/new.py"}
