"""A build after an edit writes the pages that have changed, all of them, and no more than it must."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pybtex.plugin
import pytest
import sphinxcontrib.bibtex.plugin
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from lib.batch.publish import rewriting

PAGES = {
    "index.md": "# Book\n\nWords.\n",
    "first.md": "(first-page)=\n# First\n\nOne.\n\n(lemma)=\n## A lemma\n\nTwo.\n\n$$ a $$ (eq-one)\n",
    "second.md": "# Second\n\nSee {ref}`first-page`, {ref}`lemma`, {numref}`fig-one`, {eq}`eq-one`, {cite:t}`ada`.\n",
    "third.md": "# Third\n\n```{figure} one.png\n:name: fig-one\n\nA caption.\n```\n",
    "fourth.md": "# Fourth\n\n```{bibliography}\n```\n",
}
CONTENTS = """format: jb-book
root: index
parts:
- numbered: true
  chapters:
  - file: first
  - file: second
- numbered: true
  chapters:
  - file: third
  - file: fourth
"""
BOOK = "@book{{{key}, title = {{{title}}}, author = {{{author}}}, year = {{1843}}, publisher = {{R}}}}\n"
CITED = BOOK.format(key="ada", title="Notes", author="Lovelace, Ada")
OTHER = BOOK.format(key="babbage", title="Passages", author="Babbage, Charles")
SETTINGS = {
    "extensions": ["myst_parser", "sphinx_external_toc", "sphinxcontrib.bibtex"],
    "numfig": True,
    "use_multitoc_numbering": True,
    "external_toc_path": "_toc.yml",
    "bibtex_bibfiles": ["books.bib"],
    "bibtex_reference_style": "author_year",
    "myst_enable_extensions": ["dollarmath"],
    "html_theme": "basic",
    "exclude_patterns": [],
}


class Built(NamedTuple):
    """What a build did: the pages that it wrote, and its warnings."""

    written: set[str]
    warned: str


class Book:
    """Five pages of which one refers to all kinds of things on others."""

    def __init__(self, folder: Path) -> None:
        self.source, self.folder = folder / "book", folder
        self.source.mkdir(parents=True)
        for name, text in {**PAGES, "_toc.yml": CONTENTS, "books.bib": CITED + OTHER, "one.png": ""}.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        (self.source / name).write_text(text, encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.source / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def build(
        self, out: str = "html", *, limited: bool = True, during: Callable[[Sphinx], None] = lambda app: None
    ) -> Built:
        """With `limited` the pages of `rewriting` alone, else as Sphinx has it; `during`: called before it begins."""
        written: set[str] = set()
        warned = io.StringIO()
        with docutils_namespace():
            app = Sphinx(
                self.source, None, self.folder / out, self.folder / f"{out}-trees", "html", SETTINGS,
                status=None, warning=warned, keep_going=True,
            )  # fmt: skip
            app.connect("html-page-context", lambda app, name, *_: written.add(name))
            if limited:
                rewriting.setup(app)
            during(app)
            app.build()
        lines = [line for line in warned.getvalue().splitlines() if "already registered" not in line]
        return Built({f"{name}.md" for name in written} & set(PAGES), "\n".join(lines))

    def pages(self, out: str = "html") -> dict[str, str]:
        return {name: (self.folder / out / name).with_suffix(".html").read_text(encoding="utf-8") for name in PAGES}


@pytest.fixture(scope="module", autouse=True)
def quick_builds() -> Iterator[None]:
    """Each of the many builds would look for plug-ins in all installed packages, and for a collector in all objects."""
    looked_up = functools.lru_cache(importlib.metadata.entry_points)
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        for module in (pybtex.plugin, sphinxcontrib.bibtex.plugin):
            patch.setattr(module, "entry_points", looked_up)
        yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """A book that every edit leaves as it was."""
    made = Book(tmp_path_factory.mktemp("standing"))
    made.build()
    return made


@pytest.fixture
def book(tmp_path: Path) -> Book:
    made = Book(tmp_path / "edited")
    assert made.build().written == set(PAGES)
    assert made.build().written == set()
    return made


FIGURE = "```{figure} one.png\n:name: fig-zero\n\nZero.\n```\n"
EDITS = {
    "words": ("first.md", "One.", "Another one."),
    "another heading": ("first.md", "Two.", "Two.\n\n## Another heading\n\nThree."),
    "equation without a label": ("first.md", "Two.", "Two.\n\n$$ b $$\n"),
    "title": ("first.md", "# First\n", "# The first\n"),
    "title of a labelled heading": ("first.md", "## A lemma", "## The lemma"),
    "number of a labelled heading": ("first.md", "(lemma)=", "## Before\n\n(lemma)="),
    "another equation before": ("first.md", "One.", "One.\n\n$$ b $$ (eq-zero)\n"),
    "caption": ("third.md", "A caption", "The caption"),
    "another figure before": ("third.md", "# Third\n", f"# Third\n\n{FIGURE}"),
    "another label": ("third.md", "# Third", "(third)=\n# Third"),
    "one more citation": ("first.md", "One.", "One {cite:t}`babbage`."),
    "author": ("books.bib", "Lovelace, Ada", "King, Ada"),
    "order": ("_toc.yml", "  - file: first\n  - file: second\n", "  - file: second\n  - file: first\n"),
    "parts": ("_toc.yml", "- numbered: true\n  chapters:\n  - file: third", "- chapters:\n  - file: third"),
}
ALONE = ("words", "equation without a label")


@pytest.mark.parametrize("edit", EDITS)
def test_pages_are_those_of_a_book_that_is_made_anew(standing: Book, edit: str) -> None:
    name, old, new = EDITS[edit]
    before, text = standing.pages(), (standing.source / name).read_text(encoding="utf-8")
    standing.change(name, old, new)
    built = standing.build()
    standing.build(edit, limited=False)
    assert not built.warned
    assert built.written == ({name, "index.md"} if edit in ALONE else set(PAGES))  # the first page lists the others
    assert standing.pages() == standing.pages(edit)
    standing.write(name, text)
    standing.build()
    assert standing.pages() == before


def test_as_it_comes_sphinx_leaves_pages_behind(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.build(limited=False)
    book.change("first.md", "# First\n", "# The first\n")
    book.build(limited=False)
    book.build("anew", limited=False)
    assert book.pages() != book.pages("anew")  # if they are alike, `rewriting` may have done its work


def test_what_surrounds_all_pages_is_written_on_all(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "ROOT", tmp_path)
    style = tmp_path / "book" / "_static" / "book.css"
    style.parent.mkdir(parents=True)
    style.write_text("p {color: red}")
    assert book.build().written == set(PAGES) and book.build().written == set()
    style.write_text("p {color: blue}")
    assert book.build().written == set(PAGES) and book.build().written == set()


def test_other_sources_are_written_on_all_for_notebooks_beside_pages_fetch_the_book_from_there(book: Book) -> None:
    def published(address: str) -> Callable[[Sphinx], None]:
        return lambda app: setattr(app, "_book_repository", address)

    for address in ("https://git.example.org/someone/book", "https://other.example.org/someone/book"):
        assert book.build(during=published(address)).written == set(PAGES)
        assert book.build(during=published(address)).written == set()
    assert book.build().written == set(PAGES)


def test_a_build_that_warned_warns_again(book: Book) -> None:
    book.change("first.md", "One.", "One {ref}`nowhere`.")
    for _ in range(2):
        built = book.build()
        assert "nowhere" in built.warned and built.written >= {"first.md"}
    book.change("first.md", "One {ref}`nowhere`.", "One.")
    built = book.build()
    assert not built.warned and built.written == set(PAGES)
    assert book.build().written == set()


def test_a_build_that_was_cut_short_is_made_anew(book: Book) -> None:
    class Killed(BaseException):
        """As a signal would: Sphinx does not tidy up."""

    def kill(app: Sphinx, name: str, *_: object) -> None:
        if name == "second":
            raise Killed

    book.change("first.md", "# First\n", "# The first\n")
    with pytest.raises(Killed):
        book.build(during=lambda app: app.connect("html-page-context", kill))
    assert book.build().written == set(PAGES)
    book.build("anew", limited=False)
    assert book.pages() == book.pages("anew")


def test_other_code_reads_every_page_again(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting.sources, "digest", lambda: "other")
    assert book.build().written == set(PAGES) and book.build().written == set()
