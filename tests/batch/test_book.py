"""The build fails, and says why: a failing cell, a broken link, a figure without alternative text."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml

from lib import ROOT, sources
from lib.batch import book
from lib.batch.execution import Job
from lib.batch.identity import digest, installed, page_key
from lib.batch.pages import Page, find_page
from lib.batch.publish.address import colab_url, setup_cell
from lib.batch.sphinx_pages import _changed_pages
from lib.report import claims, records

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
HOME = "https://github.com/someone/book"  # of its sources
FIGURE = """```{code-cell} python
---
mystnb:
  figure:
    name: fig-line
    caption: A line.
  image:
    ALT: A rising line.
---
import matplotlib.pyplot as plt
plt.plot([0, 1]); plt.show()
```
"""


@pytest.fixture
def small_book(tmp_path: Path) -> Path:
    return house(tmp_path)


def house(tmp_path: Path) -> Path:
    """A copy of the house with one chapter in it."""
    for name in ("lib", "book"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("_config.yml", "requirements.lock", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path / name)
    contents = {"format": "jb-book", "root": "book/index", "chapters": [{"file": "notebooks/chapter"}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents))
    (tmp_path / "book" / "index.md").write_text("# A small book\n\nWelcome.\n")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "profiles.yml").write_text("laptop: {}\n")
    return tmp_path


def build(folder: Path, *chapter: str, **settings: str) -> tuple[int, str]:
    (folder / "notebooks" / "chapter.md").write_text(HEAD + "# A chapter\n\n" + "\n".join(chapter))
    done = subprocess.run(
        [sys.executable, "-m", "lib", "book"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), **settings},
    )
    return done.returncode, done.stdout + done.stderr


Sound = tuple[Path, Callable[[], tuple[int, str]]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A sound book, and how to build it; its chapter shows a figure, fills the cache and counts its executions."""
    folder = house(tmp_path_factory.mktemp("sound"))
    chapter = (
        "```{code-cell} python\nfrom lib.processes import corpora\n"
        'corpora.load("sotu").head(20_000).tokens("bpe", vocabulary_size=300)\n'
        "with open('../executions', 'a') as file:\n    file.write('once ')\n```\n"
    )
    settings = {"BOOK_CACHE": str(folder / "cache"), "BOOK_REPOSITORY": HOME}
    return folder, lambda: build(folder, FIGURE.replace("ALT", "alt"), chapter, **settings)


@pytest.fixture(scope="module")
def first_build(sound: Sound) -> tuple[int, str]:
    return sound[1]()


def test_a_sound_book_is_built_and_its_address_printed(sound: Sound, first_build: tuple[int, str]) -> None:
    folder, (status, log) = sound[0], first_build
    assert status == 0, log
    assert (folder / "_build" / "html" / "book" / "index.html").as_uri() in log
    page = (folder / "_build" / "html" / "notebooks" / "chapter.html").read_text()
    assert 'alt="A rising line."' in page
    assert str(folder) not in page


@pytest.mark.usefixtures("first_build")
def test_a_book_with_an_address_can_be_launched_and_its_notebook_runs_elsewhere(sound: Sound) -> None:
    html = sound[0] / "_build" / "html"
    page = (html / "notebooks" / "chapter.html").read_text()
    assert "mybinder.org/v2/gh/someone/book/main?urlpath=lab/tree/notebooks/chapter.md" in page
    assert colab_url(HOME, "notebooks/chapter") in page and "/lab/tree/notebooks/chapter.md" in page
    notebook = nbformat.read(html / "_sources" / "notebooks" / "chapter.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.cells[0].source == setup_cell(HOME) and any(cell.outputs for cell in code[1:])
    assert (html / "sitemap.xml").exists() and "/book/notebooks/chapter.html" in (html / "404.html").read_text()


@pytest.mark.usefixtures("first_build")
def test_rendering_finds_done_what_filled_the_cache(sound: Sound) -> None:
    folder, again = sound
    assert (folder / "executions").read_text() == "once "
    status, log = again()
    assert status == 0 and (folder / "executions").read_text() == "once ", log
    assert list((folder / "cache" / "bpe").iterdir())


def test_a_failing_cell_fails_the_build_and_its_traceback_is_printed(small_book: Path) -> None:
    status, log = build(small_book, "```{code-cell} python\nraise RuntimeError('the reason')\n```\n")
    assert status != 0
    assert "RuntimeError" in log and "the reason" in log
    assert not (small_book / "_build" / "html").exists()


def test_broken_links_and_figures_without_alternative_text_fail_the_build(small_book: Path) -> None:
    status, log = build(small_book, FIGURE.replace("ALT", "width"), "[nowhere](no-such-label) {ref}`gone`")
    assert status != 0
    assert "image without alternative text" in log
    assert "no-such-label" in log and "gone" in log


def test_the_key_of_a_page_changes_with_all_that_its_numbers_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    page = find_page("repetitive_sequences")
    key, sources_before = page_key(page, "smoke", {}), sources.digest(page.name)
    assert key == page_key(page, "smoke", {})
    assert key != page_key(page, "laptop", {})
    assert key != page_key(page, "smoke", {"seed": 1})
    assert key != page_key(find_page("ising_chain"), "smoke", {})
    with monkeypatch.context() as patch:
        patch.setattr("platform.python_version", lambda: "3.0")
        assert key != page_key(page, "smoke", {})
    with monkeypatch.context() as patch:
        patch.setattr("lib.sources.digest_of", lambda files, root: digest(["other claims"]))
        patch.setattr("lib.sources.digest", lambda page: sources_before)
        assert key != page_key(page, "smoke", {})
    with monkeypatch.context() as patch:
        other = tuple("torch-2.0.0" if name.startswith("torch-") else name for name in installed())
        patch.setattr("lib.batch.identity.installed", lambda: other)
        assert other != installed() and key != page_key(page, "smoke", {})
    monkeypatch.setattr("lib.sources.digest", lambda page: digest(["another lib"]))
    assert key != page_key(page, "smoke", {})


def test_packages_are_those_of_the_environment_that_the_lock_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {name for name in installed() if name.partition("-")[0] in ("torch", "jupyter_book", "PyYAML", "pyyaml")}
    assert {name.partition("-")[2] for name in named} == {version(it) for it in ("torch", "jupyter-book", "PyYAML")}
    installed.cache_clear()
    monkeypatch.setattr("sys.path", [])
    assert installed() == ()
    installed.cache_clear()


def test_checks_that_fail_are_never_kept_for_later_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "ROOT", tmp_path)
    pages = [Page(f"notebooks/{name}", tmp_path) for name in ("some", "none", "empty")]
    jobs = [Job(page, {}, "laptop", tmp_path / page.name) for page in pages]
    monkeypatch.setenv("BOOK_PROFILE", "laptop")
    for work, parts in zip(jobs, ("ab", "b", ""), strict=True):
        monkeypatch.setenv("BOOK_RECORDS", str(work.records))
        for part in parts:
            with contextlib.suppress(claims.ClaimFailed):
                claims.check("shen-eq46", 1, 1 if part == "a" else 2, 0.1, part=part)
    jobs[2].records.touch()
    (kept,) = book.record_claims(jobs, "laptop")
    assert kept == tmp_path / "results" / "claims" / "laptop" / "some.jsonl"
    assert list(records.read(kept)) == [one for one in records.read(jobs[0].records) if one["part"] == "a"]
    assert [path.name for path in kept.parent.iterdir()] == ["some.jsonl"]
    jobs[0].records.write_text("")  # a chapter that checks nothing any more
    assert book.record_claims(jobs, "laptop") == [] and not kept.exists()


def test_sphinx_reads_a_page_again_that_was_executed_again_with_the_same_key(make_page, tmp_path: Path) -> None:
    jobs = [Job(make_page(name), {}, "smoke", tmp_path / name, "k") for name in ("a", "b")]
    names = [job.page.name for job in jobs]
    app = SimpleNamespace(_book_jobs=dict(zip(names, jobs, strict=True)))
    env = SimpleNamespace(found_docs=set(names))
    for job in jobs:
        job.stamp.write_text("first")
    assert _changed_pages(app, env, set(), set(), set()) == names
    assert _changed_pages(app, env, set(), set(), set()) == []
    jobs[1].stamp.write_text("second")
    assert _changed_pages(app, env, set(), set(), set()) == names[1:]
