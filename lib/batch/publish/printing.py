"""The book in print: headless Chromium prints each built page, and the prints become one PDF.

Its bookmarks are the parts and chapters of `_toc.yml`, in that order. A link to another page leads to the chapter as
printed; one to a file that is not printed leads to where the pages are published, if that is known.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

from lib import ROOT, plain_yaml
from lib.batch.pages import files_in
from lib.machine import write_whole

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
SCALE = 0.8  # text of 9.6 points: wide equations and most lines of code fit the sheet
PATIENCE = 300_000  # milliseconds for a page to load: it is the machine that is slow, for nothing comes from elsewhere
READY = """async () => {
  if (window.MathJax?.startup) await MathJax.startup.promise;
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
  return document.querySelector('article h1').textContent.replace(/[#¶]$/, '');
}"""
"""Mathematics typeset, pictures there; then the title with its number. The style sheet leaves out what is folded."""

Part = tuple[str, list[str]]
Print = tuple[str, bytes]


def parts(contents: Path = ROOT / "_toc.yml") -> list[Part]:
    """The caption of each part and the names of its pages, in reading order; what precedes the parts has no caption."""
    toc = plain_yaml.load(contents.read_text(encoding="utf-8"))
    found = [(str(part.get("caption", "")), list(files_in(part))) for part in toc.get("parts", [])]
    return [("", list(files_in({name: value for name, value in toc.items() if name != "parts"}))), *found]


def print_book(
    html: Path, target: Path, address: str = "", report: Callable[[str, int], None] = lambda page, length: None
) -> int:
    """Print the built pages below `html` into the PDF `target`; returns how many sheets it has.

    `address`: where the pages are published, if that is known. Seconds per page; `target` appears when it is whole.

    Raises ValueError when pages are not built, or there is no Chromium.
    """
    contents = parts()
    absent = [name for _, names in contents for name in names if not (html / f"{name}.html").exists()]
    if absent:
        others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ValueError(f"{absent[0]}{others}: not built; `make book` builds all pages")
    prints: dict[str, Print] = {}
    with sync_playwright() as playwright:
        here = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
        try:
            browser = playwright.chromium.launch(executable_path=here, args=OPTIONS)
        except PlaywrightError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"Chromium prints the book: install it, or `playwright install chromium`. {reason}"
            ) from error
        for name in (name for _, names in contents for name in names):
            prints[name] = print_page(browser, html / f"{name}.html")
            report(name, len(PdfReader(io.BytesIO(prints[name][1])).pages))
        browser.close()
    writer = bind(contents, prints, html, address)
    made = io.BytesIO()
    writer.write(made)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, made.getvalue())
    return len(writer.pages)


def print_page(browser: Browser, path: Path) -> Print:
    """Title and PDF of a page, which is opened from disk and asks nobody else for anything."""
    page = browser.new_page(color_scheme="light", offline=True)
    try:
        page.add_init_script("for (const name of ['mode', 'theme']) localStorage.setItem(name, 'light');")
        page.goto(path.as_uri(), wait_until="load", timeout=PATIENCE)
        title = str(page.evaluate(READY))
        margin = {"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
        return title, page.pdf(format="A4", scale=SCALE, print_background=True, margin=margin)  # type: ignore[arg-type]
    finally:
        page.close()


def bind(contents: Sequence[Part], prints: dict[str, Print], html: Path, address: str = "") -> PdfWriter:
    """One document of all prints, in the order of the contents, with bookmarks and with links that stay inside it."""
    writer = PdfWriter()
    first: dict[str, int] = {}
    for name in (name for _, names in contents for name in names):
        first[name] = len(writer.pages)
        reader = PdfReader(io.BytesIO(prints[name][1]))
        _spell_out_destinations(reader)
        writer.append(reader, import_outline=False)
    for caption, names in contents:
        part = writer.add_outline_item(title=caption, page_number=first[names[0]]) if caption and names else None
        for name in names:
            writer.add_outline_item(title=prints[name][0], page_number=first[name], parent=part)
    for link in _links(writer):
        _redirect(link, writer, first, html.resolve().as_uri() + "/", address)
    writer.add_metadata({"/Title": prints[contents[0][1][0]][0]} if contents[0][1] else {})
    return writer


def _links(pages: PdfReader | PdfWriter) -> Iterator[DictionaryObject]:
    for page in pages.pages:
        for found in page.get("/Annots") or ():
            annotation = found.get_object()
            if isinstance(annotation, DictionaryObject) and annotation.get("/Subtype") == "/Link":
                yield annotation


def _spell_out_destinations(reader: PdfReader) -> None:
    """Give places inside a page by sheet instead of by name: two chapters have names in common."""
    places = reader.named_destinations
    for link in _links(reader):
        name = link.get("/Dest")
        if name is not None and not isinstance(name, ArrayObject):
            place = places.get(str(name)) or places.get(str(name).removeprefix("/"))
            if place is None:
                del link["/Dest"]
            else:
                link[NameObject("/Dest")] = place.dest_array
    reader.root_object.pop("/Dests", None)


def _redirect(link: DictionaryObject, writer: PdfWriter, first: dict[str, int], base: str, address: str) -> None:
    """Lead a link to a page of the book to where it is printed, or to where it is published, or nowhere."""
    action = link.get("/A")
    target = str(action.get_object().get("/URI", "")) if action is not None else ""
    if not target.startswith("file:"):
        return
    name = urlsplit(target)._replace(fragment="", query="").geturl().removeprefix(base)
    del link["/A"]
    if name.removesuffix(".html") in first:
        sheet = writer.pages[first[name.removesuffix(".html")]]
        link[NameObject("/Dest")] = ArrayObject([sheet.indirect_reference, NameObject("/Fit")])
    elif address and not name.startswith("file:"):
        where = TextStringObject(urljoin(address, target.removeprefix(base)))
        action = {NameObject("/S"): NameObject("/URI"), NameObject("/URI"): where}
        link[NameObject("/A")] = DictionaryObject(action)
