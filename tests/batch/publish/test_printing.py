"""The book in print: order and bookmarks as in the contents, links that stay inside, names that two chapters share."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject, NumberObject

from lib import ROOT
from lib.batch.pages import table_of_contents
from lib.batch.publish import printing
from lib.batch.publish.printing import CHROMIUMS, OPTIONS, bind, parts, print_book, print_page

CONTENTS = [("", ["book/index"]), ("I · First", ["notebooks/one/a", "notebooks/one/b"]), ("II · Second", ["book/last"])]
BOX = ArrayObject([FloatObject(value) for value in (0, 0, 10, 10)])


def sheets(count: int, links: list[str], place: int | None = None) -> bytes:
    """A PDF of empty sheets, as Chromium makes them: links on the first, one to the place `here` by its name."""
    writer = PdfWriter()
    for _ in range(count):
        writer.add_blank_page(100, 100)
    for link in links:
        writer.add_annotation(0, Link(rect=(0, 0, 10, 10), url=link))
    if place is not None:
        where = ArrayObject([writer.pages[place].indirect_reference, NameObject("/XYZ"), *(NumberObject(0),) * 3])
        writer.root_object[NameObject("/Dests")] = DictionaryObject({NameObject("/here"): where})
        jump = {
            "/Type": NameObject("/Annot"),
            "/Subtype": NameObject("/Link"),
            "/Rect": BOX,
            "/Dest": NameObject("/here"),
        }
        writer.add_annotation(0, DictionaryObject({NameObject(name): value for name, value in jump.items()}))
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def bound(prints: dict[str, tuple[str, bytes]], html: Path, address: str = "") -> PdfReader:
    made = io.BytesIO()
    bind(CONTENTS, prints, html, address).write(made)
    return PdfReader(made)


def prints(html: Path, links: list[str] = []) -> dict[str, tuple[str, bytes]]:  # noqa: B006
    return {
        "book/index": ("The book", sheets(1, [f"{html.as_uri()}/{link}" for link in links])),
        "notebooks/one/a": ("1. A", sheets(3, ["https://example.org/"], place=2)),
        "notebooks/one/b": ("2. B", sheets(2, [], place=1)),
        "book/last": ("Last", sheets(1, [])),
    }


def targets(reader: PdfReader, sheet: int) -> list[int | str | None]:
    """Where the links of a sheet lead: another sheet, an address or nowhere."""
    found: list[int | str | None] = []
    for link in reader.pages[sheet].get("/Annots", ()):
        link = link.get_object()
        if "/Dest" in link:
            found.append(next(i for i, page in enumerate(reader.pages) if page.indirect_reference == link["/Dest"][0]))
        else:
            found.append(str(link["/A"]["/URI"]) if "/A" in link else None)
    return found


def test_bookmarks_are_the_parts_and_chapters_in_their_order(tmp_path: Path) -> None:
    reader = bound(prints(tmp_path), tmp_path)
    assert len(reader.pages) == 7

    def told(items: list) -> list:
        return [
            told(one) if isinstance(one, list) else (one.title, reader.get_destination_page_number(one))
            for one in items
        ]

    assert told(reader.outline) == [
        ("The book", 0),
        ("I · First", 1),
        [("1. A", 1), ("2. B", 4)],
        ("II · Second", 6),
        [("Last", 6)],
    ]
    assert reader.metadata is not None and reader.metadata.title == "The book"


def test_links_lead_to_where_a_chapter_is_printed(tmp_path: Path) -> None:
    links = ["notebooks/one/b.html", "notebooks/one/a.html#section", "_sources/a.ipynb", "book/last.html?q=1"]
    reader = bound(prints(tmp_path, links), tmp_path)
    assert targets(reader, 0) == [4, 1, None, 6]
    published = bound(prints(tmp_path, links), tmp_path, "https://someone.github.io/book/")
    assert targets(published, 0) == [4, 1, "https://someone.github.io/book/_sources/a.ipynb", 6]


def test_a_place_that_two_chapters_name_alike_is_found_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = bound(prints(tmp_path), tmp_path)
    assert targets(reader, 1) == ["https://example.org/", 3]
    assert targets(reader, 4) == [5]
    monkeypatch.setattr(printing, "_spell_out_destinations", lambda reader: None)
    by_name = bound(prints(tmp_path), tmp_path)
    named = [link.get_object()["/Dest"] for sheet in (1, 4) for link in by_name.pages[sheet]["/Annots"][-1:]]
    assert named == ["/here", "/here"] and len(by_name.named_destinations) == 1


def test_parts_hold_every_page_of_the_contents_once(tmp_path: Path) -> None:
    found = parts()
    assert [name for _, names in found for name in names] == table_of_contents()
    assert [caption.partition(" ")[0] for caption, _ in found] == ["", "The", "I", "II", "III", "IV", "V"]
    small = {"format": "jb-book", "root": "book/index", "chapters": [{"file": "a", "sections": [{"file": "b"}]}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(small, sort_keys=False))
    assert parts(tmp_path / "_toc.yml") == [("", ["book/index", "a", "b"])]


def test_a_book_that_is_not_built_is_not_printed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"book/index.*make book"):
        print_book(tmp_path, tmp_path / "book.pdf")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not any(map(shutil.which, CHROMIUMS)), reason="no Chromium on the PATH, which prints the book")
def test_on_paper_solutions_are_open_and_other_folded_cells_are_left_out(tmp_path: Path) -> None:
    def cell(tags: str, inside: str) -> str:
        folded = f'<details class="hide above-input"><summary>{inside} named</summary><p>{inside} told</p></details>'
        return f'<div class="cell {tags}">{folded}</div>'

    style = (ROOT / "book" / "_static" / "book.css").as_uri()
    cells = cell("tag_hide-cell tag_solution", "Solution") + cell("tag_hide-cell", "Plumbing")
    page = tmp_path / "page.html"
    page.write_text(f'<link rel="stylesheet" href="{style}"><article><h1>A page#</h1>{cells}</article>')
    here = next(path for name in CHROMIUMS if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=here, args=OPTIONS)
        title, made = print_page(browser, page)
        browser.close()
    told = " ".join(sheet.extract_text() for sheet in PdfReader(io.BytesIO(made)).pages)
    assert title == "A page" and "Solution named" in told and "Solution told" in told
    assert "Plumbing" not in told
