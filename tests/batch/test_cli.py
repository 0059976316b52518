"""The command line answers bad input with what exists, and says nothing happened when nothing did."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from lib import ROOT
from lib.batch import cli, pages
from lib.batch.pages import Page


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "binary_sequence"), "did you mean 'binary_sequences'?"),
        (("run", "repetitive_sequences", "-p", "pp=0.1"), "has no parameter 'pp'"),
        (("run", "repetitive_sequences", "-p", "p"), "name=value is allowed, got 'p'"),
        (("run", "repetitive_sequences", "-p", "p=[0.1"), "Error: p: a value in YAML is allowed, got '[0.1'"),
        (("sweep", "binary_sequences", "--where", "width=[1"), "Error: width: a value in YAML is allowed, got '[1'"),
        (("sweep", "binary_sequences", "--where", "width=2020-13-45"), "Error: width: a value in YAML is allowed"),
        (("sweep", "kerg-copy", "--scheduler", "127.0.0.1:1", "--budget", "2h"), "--budget needs to know how many run"),
        (("run", "all", "--profile", "huge"), "unknown profile 'huge'; there are: smoke, laptop, paper"),
        (("book", "--profile", "huge"), "unknown profile 'huge'"),
        (("data", "fetch", "wikitext3"), "wikitext2"),
        (("data", "verify", "wikitext3"), "wikitext2"),
        (("claims", "--paper", "shen2020"), "shen2019"),
    ],
)
def test_bad_input_ends_with_a_message_that_says_what_is_allowed(words: tuple[str, ...], message: str) -> None:
    status, output = call(*words)
    assert status == 1 and message in output


def test_nothing_is_written_when_one_of_several_notebooks_is_misspelt(tmp_path: Path) -> None:
    status, _ = call("run", "repetitive_sequences", "no_such_chapter", "-o", str(tmp_path / "out"))
    assert status == 1 and not (tmp_path / "out").exists()


def test_data_list_shows_every_corpus_and_whether_it_is_here() -> None:
    status, output = call("data", "list")
    assert status == 0
    for name in ("sotu", "books", "wikitext2", "wikitext103", "ptb", "text8", "gpt2_samples"):
        assert name in output


def test_claims_prints_every_paper() -> None:
    status, output = call("claims")
    assert status == 0
    for claim in ("shen-eq46", "l2m-fig4", "kerg-thm1", "ngram-thm41"):
        assert claim in output


SLOW = ["jupytext", "matplotlib", "numba", "papermill", "scipy", "torch"]  # to load
LOADED = f"""
import sys
from click.testing import CliRunner
from lib.batch.cli import main
assert CliRunner().invoke(main, sys.argv[1:]).exit_code == 0
print(*(name for name in {SLOW} if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["--help"], []),
        (["claims"], []),
        (["data", "list"], []),
        (["sweep", "binary_sequences", "--dry-run"], ["numba", "scipy", "torch"]),  # a control
    ],
)
def test_a_question_that_is_quickly_answered_loads_nothing_slow(words: list[str], loaded: list[str]) -> None:
    command = [sys.executable, "-c", LOADED, *words]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert found == loaded


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("raise ValueError('p: 0 < p is allowed,\\n got -1')", "notebooks/bad: p: 0 < p is allowed, got -1"),
        ("1 / 0", "notebooks/bad: ZeroDivisionError: division by zero"),
    ],
)
def test_a_page_that_fails_is_one_line_and_the_name_of_its_log(
    make_page: Callable[..., Page], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str, line: str
) -> None:
    page = make_page("bad", cell)
    monkeypatch.setattr(pages, "find_page", lambda name: page)
    status, output = call("run", "bad", "-o", str(tmp_path / "out"))
    log = tmp_path / "out" / "notebooks" / "bad.log"
    assert status == 1 and line in output.splitlines()
    assert str(log) in output and "Traceback" not in output
    assert "Traceback" in log.read_text(encoding="utf-8")
