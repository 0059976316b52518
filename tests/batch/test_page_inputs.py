"""A page is executed once, and again exactly when something that it reads has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lib import ROOT, inputs
from lib.batch.identity import Digests
from lib.processes import corpora
from lib.processes.corpora import model_files
from lib.report import benchmarks, records
from lib.runs.definition import Experiment
from lib.runs.store import RECORDED, Store, store_of

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
PAGES = {
    "notebooks/pairs": """
        from lib.processes import corpora
        corpora.load("sotu").head(20_000).tokens("bpe", vocabulary_size=300)
    """,
    "notebooks/novel": """
        from lib.processes import corpora
        try:
            corpora.load("books", "emma", download=False)
        except corpora.CorpusUnavailable:
            print("not here")
    """,
    "notebooks/listing": "from lib.processes import corpora; len(corpora.available())",
    "notebooks/drawn": "from experiments.first import figures; print(figures.title)",
    "notebooks/trained": """
        from lib.runs.store import Store
        from lib.runs.definition import Experiment
        print(len(Store().records(Experiment("book-counts").runs("laptop"))))
    """,
    "notebooks/checked": """
        from lib.report import claims
        claims.check("shen-eq46", 1.0, 1.0, tolerance=0.0)
    """,
    "book/index": "from lib.report import scorecard; scorecard.show_counts()",
    "book/benchmarks": "from lib.report import benchmarks; benchmarks.show_all()",
}
CHANGES: dict[str, tuple[str, set[str]]] = {
    "a file beside the corpora in the cache": ("cache/notes.txt", set()),
    "byte pairs that somebody else trained": ("cache/bpe/0123.json", set()),
    "a novel that appears": ("data/books/158_emma.txt", {"notebooks/novel", "notebooks/listing"}),
    "a recorded run": ("results/runs/book-counts/*.json", {"notebooks/trained"}),
    "a recorded run that nobody shows": ("results/runs/other/a.json", set()),
    "the figures of a question": ("experiments/first/figures.py", {"notebooks/drawn"}),
    "a record of a claim that was kept": ("results/claims/laptop/a.jsonl", {"book/index"}),
    "a record of a claim in this build": (
        "_build/executed/smoke/notebooks/checked.jsonl",
        {"book/index", "notebooks/checked"},  # whose records are not as it left them
    ),
    "a recorded benchmark": ("results/benchmarks/*.json", {"book/benchmarks"}),
    "a chapter": ("notebooks/novel.md", {"notebooks/novel"}),
    "the library": ("lib/machine.py", set(PAGES)),
    "the lock": ("requirements.lock", set(PAGES)),
    "a claim of a paper": ("book/claims/*.yml", set(PAGES)),
}
EXECUTE = """
from lib.batch import side_by_side
from lib.batch.book import execute_book
side_by_side.LIBRARIES = ("scipy.signal",)  # of those that chapters use, these pages have no other
if __name__ == "__main__":
    execute_book("smoke", 2, lambda outcome: print(outcome.page, outcome.error, flush=True))
"""
STALE = """
import json, os
from pathlib import Path
from lib.batch.book import page_job
from lib.batch.pages import executable_pages

def stale():
    jobs = [page_job(page, "smoke") for page in executable_pages()]
    return [job.page.name for job in jobs if not job.is_done()]

book = Path.cwd()
found = {"nothing": stale()}
for change, pattern in json.loads(os.environ["CHANGES"]).items():
    path = next(book.glob(pattern), book / pattern)
    before = path.read_text() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((before or "") + "\\n")
    found[change] = stale()
    path.write_text(before) if before is not None else path.unlink()
print(json.dumps(found))
"""


def ask(book: Path, script: str, **settings: str) -> str:
    (book / "script.py").write_text(script)
    places = {"PYTHONPATH": str(book), "BOOK_CACHE": str(book / "cache"), "BOOK_DATA": str(book / "data")}
    environment = {**os.environ, **places, **settings}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=book, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small book that was executed once, on a machine with an empty cache."""
    book = tmp_path_factory.mktemp("book")
    for name in ("lib", "experiments", "book/claims", "results/runs/book-counts", "results/benchmarks"):
        shutil.copytree(ROOT / name, book / name, dirs_exist_ok=True)
    shutil.copy(ROOT / "requirements.lock", book)
    for name in ("cache", "data", "notebooks", "experiments/first"):
        (book / name).mkdir(exist_ok=True)
    (book / "experiments" / "first" / "__init__.py").write_text("")
    (book / "experiments" / "first" / "figures.py").write_text("title = 'a'\n")
    (book / "notebooks" / "profiles.yml").write_text("laptop: {}\n")
    for name, code in PAGES.items():
        (book / f"{name}.md").write_text(f"{HEAD}# A page\n\n```{{code-cell}} python\n{_level(code)}\n```\n")
    first, *others = (name for name in PAGES if name.startswith("book/"))
    chapters = [*others, *(name for name in PAGES if name.startswith("notebooks/"))]
    contents = {"format": "jb-book", "root": first, "chapters": [{"file": name} for name in chapters]}
    (book / "_toc.yml").write_text(yaml.safe_dump(contents))
    assert sorted(ask(book, EXECUTE).split()) == sorted(PAGES)
    return book


def _level(code: str) -> str:
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines).strip()


def test_on_an_empty_machine_every_page_is_executed_once(executed: Path) -> None:
    assert list((executed / "cache" / "bpe").glob("*.json")), "the run filled the cache, and still"
    assert ask(executed, EXECUTE) == ""


@pytest.fixture(scope="module")
def stale(executed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Pages that are stale after each change, and those after none: in another place, at other times, without cache."""
    book = tmp_path_factory.mktemp("moved") / "another place"
    shutil.copytree(executed, book)
    shutil.rmtree(book / "cache")
    for path in book.rglob("*"):
        os.utime(path, (1, 1))
    patterns = {change: pattern for change, (pattern, _) in CHANGES.items()}
    found: dict[str, list[str]] = json.loads(ask(book, STALE, CHANGES=json.dumps(patterns)))
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_exactly_the_pages_stale_that_read_it(stale: dict[str, list[str]], change: str) -> None:
    assert set(stale[change]) == CHANGES[change][1]


def test_place_and_times_of_files_and_a_lost_cache_change_nothing(stale: dict[str, list[str]]) -> None:
    assert stale["nothing"] == []


def test_the_scorecard_is_made_again_when_a_chapter_was(executed: Path, tmp_path: Path) -> None:
    book = tmp_path / "book"
    shutil.copytree(executed, book)
    chapter = book / "notebooks" / "checked.md"
    chapter.write_text(chapter.read_text().replace("1.0, 1.0", "2.0, 2.0"))
    assert ask(book, EXECUTE).split() == ["notebooks/checked", "book/index"]


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[inputs.Input]]:
    """What is noted from now on, as in the execution of a page."""
    monkeypatch.setenv(inputs.VARIABLE, str(tmp_path / "noted"))
    return lambda: inputs.read(tmp_path / "noted")


def test_nothing_is_noted_outside_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs.note("corpus", "a", "b")
    inputs.note_file(tmp_path / "a")
    inputs.note_folder(tmp_path, ".json")
    assert not list(tmp_path.iterdir())


def test_loaders_note_what_they_read(noted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    corpora.load("sotu")
    (tmp_path / "own.txt").write_text("some text")
    corpora.load(tmp_path / "own.txt")
    with pytest.raises(corpora.CorpusUnavailable):
        corpora.load("books", "emma", download=False)
    with pytest.raises(corpora.CorpusUnavailable):
        model_files.model_bytes("smollm2", next(iter(corpora.entry("smollm2").files)), download=False)
    benchmarks.load()
    records.load([ROOT / "results" / "claims"])
    Store().records(Experiment("book-counts").runs("laptop"))
    found = {(one.kind, one.name): one.digest for one in noted()}
    assert found["package", "sotu"] == corpora.entry("sotu").package.checksum
    assert found["corpus", "books/158_emma.txt"] == inputs.ABSENT
    assert [digest for (_, name), digest in found.items() if name.startswith("smollm2/")] == [inputs.ABSENT]
    assert found["files", (tmp_path / "own.txt").as_posix()] != inputs.ABSENT
    folders = ("results/benchmarks/**/*.json", "results/claims/**/*.jsonl", "results/runs/book-counts/**/*.json")
    for name in (*folders, "experiments/books/**/*.yml", "experiments/books/**/*.py"):
        assert found["files", name] != inputs.ABSENT


def test_what_a_page_made_itself_is_no_input(noted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    runs = Experiment("book-counts").runs("laptop")
    store_of("smoke").records(runs)
    corpora.load("sotu").head(20_000).tokens("bpe", vocabulary_size=300)
    names = [one.name for one in noted()]
    assert "sotu" in names
    assert not [name for name in names if "_build" in name or "bpe" in name]
    Store(RECORDED).records(runs)
    assert "results/runs/book-counts/**/*.json" in [one.name for one in noted()]


def test_a_definition_in_a_package_brings_the_package(noted, tmp_path: Path) -> None:
    (tmp_path / "sweep.yml").write_text("name: a\n")
    inputs.note_definition(tmp_path / "sweep.yml")
    (tmp_path / "__init__.py").write_text("")
    inputs.note_definition(tmp_path / "sweep.yml")
    folder = tmp_path.as_posix()
    assert [one.name for one in noted()] == [f"{folder}/sweep.yml", f"{folder}/**/*.yml", f"{folder}/**/*.py"]


def test_partial_hidden_and_empty_files_are_no_inputs(tmp_path: Path) -> None:
    name = f"{tmp_path.as_posix()}/**/*.jsonl"
    assert inputs.files_digest(name) == inputs.ABSENT
    for other in (".hidden.jsonl", "a.partial-7.jsonl", "a.txt"):
        (tmp_path / other).write_text("{}")
    (tmp_path / "empty.jsonl").touch()
    assert inputs.files_digest(name) == inputs.ABSENT
    (tmp_path / "a.jsonl").write_text("{}")
    assert inputs.files_digest(name) != inputs.ABSENT


def test_a_note_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "noted"
    for wrong in ("{", "[1, 2]", '["files", "a"]', '["files", "a", 1]', '"abc"'):
        path.write_text(f'["corpus", "a", "b"]\n{wrong}\n')
        with pytest.raises(ValueError, match="noted, line 2"):
            inputs.read(path)


def test_digests_are_kept_and_a_damaged_store_of_them_is_made_anew(tmp_path: Path, monkeypatch) -> None:
    text, store = tmp_path / "a.txt", tmp_path / "kept" / "digests.json"
    text.write_text("first")
    os.utime(text, (1, 1))
    before = Digests(store)
    found = before.now("files", text.as_posix())
    before.keep()
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "files_digest", lambda name: pytest.fail("a file that did not change was read again"))
        assert Digests(store).now("files", text.as_posix()) == found
    text.write_text("other")
    assert Digests(store).now("files", text.as_posix()) != found
    text.write_text("first")
    for damage in ("", "{", "[]", '{"files": 3}', json.dumps({f"files {text.as_posix()}": ["state"]})):
        store.write_text(damage)
        assert Digests(store).now("files", text.as_posix()) == found


def test_a_file_written_a_moment_ago_is_always_read_again(tmp_path: Path) -> None:
    text, digests = tmp_path / "a.txt", Digests(tmp_path / "kept.json")
    text.write_text("first")
    state = text.stat()
    found = digests.now("files", text.as_posix())
    text.write_text("other")  # of the same size, within the grain of the clock
    os.utime(text, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert digests.now("files", text.as_posix()) != found


def test_weights_that_only_lie_unpacked_are_there(tmp_path: Path, monkeypatch, noted) -> None:
    from lib.processes.corpora import catalogue, page_inputs
    from lib.processes.corpora.model_files import model_file, unpacked_path
    from lib.processes.corpora.reading import digest

    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    entry = catalogue.entry("smollm2")
    file = next(iter(entry.files))
    changed = entry.files[file].model_copy(update={"checksum": digest(b"weights")})
    entry = entry.model_copy(update={"files": {file: changed}})
    monkeypatch.setitem(catalogue.entries(), "smollm2", entry)
    path = unpacked_path(entry, file)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    assert model_file("smollm2", file, download=False) == path
    assert noted() == [("corpus", f"smollm2/{file}", changed.checksum)]
    assert page_inputs.present("corpus", f"smollm2/{file}").digest() == changed.checksum
    path.write_bytes(b"damaged")
    assert page_inputs.present("corpus", f"smollm2/{file}").digest() != changed.checksum
