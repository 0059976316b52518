"""What a reader meets: pages that load offline, typeset mathematics, described figures, search, both colour schemes."""

from __future__ import annotations

import re

import nbformat
import pytest
from playwright.sync_api import BrowserContext

from lib import ROOT
from lib.batch.publish.address import COLAB, NOTEBOOK_BRANCH
from lib.report.figures import readable_width
from lib.report.shown import WORDS

from .accessibility import LEVELS, LOOKS, violations
from .conftest import HIGHLIGHT, PHONE, Visit, built, each, page_names, visiting

pytestmark = pytest.mark.browser

# Known and harmless: a script of the theme is loaded twice; the theme validates its own switch before it is set.
HARMLESS = ("THEBE_JS_URL' has already been declared", "invalid theme mode")
PAGES = page_names()
EXECUTED = [name for name in PAGES if name.startswith("notebooks/")]
PASSED: set[str] = set()  # kinds of texts and links whose colours can be read, of all pages that this process has seen


def real(errors: list[str]) -> list[str]:
    return [error for error in errors if not any(known in error for known in HARMLESS)]


# What a cell wrote to standard error, as MyST-NB renders it, and objects that have nothing to show.
SPILLED = re.compile(r'<div class="output[^"]* stderr\b|&lt;[\w.]+ object(?: at 0x|&gt;)')


# Code that shows without unfolding anything, and the first words of what of it is wider than its box.
WIDE_CODE = """() => {
  const shown = [...document.querySelectorAll('article .cell_input pre')].filter(one => one.checkVisibility());
  return [shown.length, shown.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText.slice(0, 60))];
}"""


# How many tables of results a page has, and the heads of those that are wider than their boxes.
WIDE_TABLES = """() => {
  const boxes = [...document.querySelectorAll('article .pst-scrollable-table-container')];
  const shown = boxes.filter(one => one.checkVisibility());
  const wide = shown.filter(one => one.scrollWidth > one.clientWidth + 1);
  return [shown.length, wide.map(one => one.innerText.slice(0, 60))];
}"""


# Of each picture in a figure its file, how wide it is shown, and of its frame: does it scroll, and who reaches it?
PICTURES = """() => [...document.querySelectorAll('article figure img[src$=".svg"]')].flatMap(one => {
  const frame = one.parentElement, scrolls = frame.scrollWidth > frame.clientWidth;
  const seen = [one.src.split('/').pop(), one.clientWidth, scrolls, frame.tabIndex, frame.ariaLabel ?? ''];
  return one.clientWidth ? [seen] : [];
})"""
SMALLEST = 7  # pixels


def smallest_label(file: str, width: float) -> float:
    """Height of the smallest font of a picture that is shown so wide, in pixels."""
    return width / readable_width(built(f"_images/{file}").read_text(encoding="utf-8"), 1.0)


def overflow(visit: Visit) -> int:
    """Pixels by which a page is wider than its window."""
    width = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert isinstance(width, int)
    return width


@pytest.mark.parametrize("opened", each([*PAGES, "index.html", "search.html", "genindex.html"]), indirect=True)
def test_a_page_loads_without_errors_and_without_the_network(opened: Visit) -> None:
    assert not real(opened.errors)
    assert not opened.refused


@pytest.mark.parametrize("opened", each(PAGES), indirect=True)
def test_mathematics_is_typeset(opened: Visit) -> None:
    formulas = opened.page.locator("article .math").count()
    assert opened.page.locator("article mjx-container").count() >= formulas
    assert opened.page.locator("mjx-merror, article [data-mjx-error]").count() == 0
    if opened.name in EXECUTED:
        assert formulas > 0
    text = opened.page.locator("article").evaluate(
        "article => { const copy = article.cloneNode(true);"
        " copy.querySelectorAll('pre, code, mjx-container, script').forEach(part => part.remove());"
        " return copy.textContent; }"
    )
    assert not re.search(r"\\(frac|ln|tau|sum|begin)\b", text), "TeX source shows on the page"


@pytest.mark.parametrize("opened", each(PAGES), indirect=True)
def test_every_figure_has_alternative_text_that_describes_it(opened: Visit) -> None:
    figures = opened.page.locator("article img")
    for index in range(figures.count()):
        alt = figures.nth(index).get_attribute("alt") or ""
        assert len(alt.split()) >= 4, f"{opened.name}: {alt!r} does not describe a figure"
        assert figures.nth(index).evaluate("image => image.complete && image.naturalWidth > 0")
    if opened.name in EXECUTED:
        assert figures.count() > 0
        captions = opened.page.locator("article figure figcaption").count()
        assert captions == opened.page.locator("article figure").count()


@pytest.mark.parametrize("opened", each([name for name in EXECUTED if "/measure/" not in name]), indirect=True)
def test_a_chapter_begins_with_what_was_found(opened: Visit) -> None:
    (box,) = opened.page.locator("article .answer").all()
    assert box.evaluate("box => box.getBoundingClientRect().bottom + scrollY") <= 900, "below the first screen"
    found = box.locator("li").all_inner_texts()
    assert found and all(any(text.startswith(f"{symbol} {word} ") for symbol, word in WORDS.values()) for text in found)
    (figure,) = box.locator(".answer-figure a").all()
    assert opened.page.locator(f"article {figure.get_attribute('href')}").count() == 1
    (small,) = box.locator(".answer-picture").all()
    assert small.is_visible() and small.get_attribute("href") == figure.get_attribute("href")
    assert small.locator("img").evaluate("one => one.naturalWidth > 0 && one.clientHeight > 50")


@pytest.mark.parametrize("opened", each(EXECUTED[:1], width=PHONE), indirect=True)
def test_a_phone_leaves_out_the_small_picture_whose_labels_nobody_could_read(opened: Visit) -> None:
    assert not opened.page.locator("article .answer-picture").is_visible()


@pytest.mark.parametrize("opened", each(PAGES, ("light", "dark")), indirect=True)
def test_no_serious_accessibility_violation(opened: Visit) -> None:
    """By all rules as it is opened; turned dark it is the same page, and what its looks decide is asked again."""
    serious = [
        f"{violation.rule}: {place}"
        for violation in violations(opened.page, LOOKS if opened.scheme == "dark" else LEVELS, PASSED)
        if violation.impact in ("serious", "critical")
        for place in violation.places[:5]
    ]
    assert not serious, "\n".join(serious)


def test_no_page_shows_warnings_of_its_code_and_what_is_not_for_readers() -> None:
    assert not [name for name in PAGES if SPILLED.search(built(name).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("markup", "spilled"),
    [
        ('<div class="output stderr highlight-myst-ansi notranslate"><div class="highlight"><pre>', True),
        ("<pre><span></span>&lt;IPython.core.display.Markdown object&gt;\n</pre>", True),
        ("<pre><span></span>&lt;matplotlib.lines.Line2D object at 0x7f00&gt;\n</pre>", True),
        ('<div class="output text_html">stderr: an object of 3 &lt; 4</div>', False),
    ],
)
def test_what_is_not_for_readers_would_be_seen(markup: str, spilled: bool) -> None:
    assert bool(SPILLED.search(markup)) == spilled


@pytest.mark.parametrize("opened", each(PAGES, width=PHONE), indirect=True)
def test_a_page_fits_a_phone(opened: Visit) -> None:
    assert overflow(opened) <= 1, f"{opened.name} is {overflow(opened)} px wider than a phone"


@pytest.mark.parametrize("opened", each(EXECUTED), indirect=True)
def test_no_code_that_shows_scrolls_sideways(opened: Visit) -> None:
    shown, wide = opened.page.evaluate(WIDE_CODE)
    assert shown and not wide


@pytest.mark.parametrize("opened", each(EXECUTED[:1]), indirect=True)
def test_code_that_scrolls_sideways_is_noticed_unless_it_is_folded(opened: Visit) -> None:
    long = "one => one.append(Object.assign(document.createElement('b'), {textContent: '#'.repeat(120)}))"
    folded = opened.page.locator("article details:not([open]) .cell_input pre").first
    folded.evaluate(long)
    assert not opened.page.evaluate(WIDE_CODE)[1]
    seen = opened.page.locator("article .cell_input pre >> visible=true").first
    seen.evaluate(long)
    assert len(opened.page.evaluate(WIDE_CODE)[1]) == 1
    for pre in (folded, seen):
        pre.evaluate("one => one.lastElementChild.remove()")


@pytest.mark.parametrize("opened", each(EXECUTED), indirect=True)
def test_no_table_scrolls_sideways_on_a_desk(opened: Visit) -> None:
    assert not opened.page.evaluate(WIDE_TABLES)[1]


@pytest.mark.parametrize("opened", each(["notebooks/memorisation/inside_trained_networks.html"]), indirect=True)
def test_a_table_that_scrolls_sideways_is_noticed(opened: Visit) -> None:
    count, wide = opened.page.evaluate(WIDE_TABLES)
    assert count and not wide
    cell = opened.page.locator("article .pst-scrollable-table-container th >> visible=true").first
    cell.evaluate("one => one.append(Object.assign(document.createElement('b'), {textContent: '#'.repeat(150)}))")
    assert len(opened.page.evaluate(WIDE_TABLES)[1]) == 1
    cell.evaluate("one => one.lastElementChild.remove()")


@pytest.mark.parametrize("opened", each(EXECUTED, width=PHONE), indirect=True)
def test_labels_can_be_read_on_a_phone(opened: Visit) -> None:
    pictures = opened.page.evaluate(PICTURES)
    assert pictures or opened.page.locator("article .playable").count()
    for file, width, scrolls, index, name in pictures:
        assert smallest_label(file, width) >= SMALLEST
        assert (index == 0 and name) or not scrolls, "a picture that scrolls is reached by keyboard"


@pytest.mark.parametrize("opened", each(EXECUTED[:1], width=PHONE), indirect=True)
def test_labels_that_are_too_small_are_noticed(opened: Visit) -> None:
    style = opened.page.add_style_tag(content=".figure-frame img { min-width: 0 !important; max-width: 200px; }")
    assert any(smallest_label(file, width) < SMALLEST for file, width, *_ in opened.page.evaluate(PICTURES))
    style.evaluate("one => one.remove()")


def test_search_finds_grassberger(visit: Visit) -> None:
    visit.open("search.html?q=Grassberger")
    visit.page.wait_for_selector("#search-results li a", timeout=15000)
    links = visit.page.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
    assert any("entropy_estimators" in link for link in links)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "word"),
    [("book/changelog.html", "scorecard"), ("notebooks/two_point/entropy_estimators.html", "entropy")],
)
def test_what_a_search_found_can_be_read(
    context: BrowserContext, address: str, scheme: str, name: str, word: str
) -> None:
    with visiting(context, address, scheme) as visit:
        visit.open(f"{name}{HIGHLIGHT}{word}")
        found = visit.page.locator("article span.highlighted")
        found.first.wait_for(state="attached")
        assert {text.lower() for text in found.all_text_contents()} == {word}
        assert not violations(visit.page, LOOKS, PASSED)
        visit.page.add_style_tag(content="span.highlighted { color: #b08d4c !important; }")
        assert any(violation.rule == "color-contrast" for violation in violations(visit.page, LOOKS, PASSED))


@pytest.mark.parametrize("opened", each(EXECUTED), indirect=True)
def test_a_chapter_offers_its_notebook_and_the_notebook_is_the_executed_one(opened: Visit) -> None:
    link = opened.page.locator("a[href$='.ipynb']:not([href^='https:'])").first.get_attribute("href")
    assert link and link.endswith(".ipynb")
    path = (built(opened.name).parent / link).resolve()
    notebook = nbformat.read(path, as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code")
    assert str(ROOT) not in path.read_text(encoding="utf-8")
    published = opened.page.locator(f".dropdown-launch-buttons a[href^='{COLAB}']").count() > 0
    assert not published or '"clone"' in notebook.cells[0].source


@pytest.mark.parametrize("opened", each(EXECUTED), indirect=True)
def test_launch_buttons_open_the_source_of_this_very_page(opened: Visit) -> None:
    links = opened.page.locator(".dropdown-launch-buttons a").evaluate_all("links => links.map(link => link.href)")
    assert links
    source = opened.name.removesuffix(".html") + ".md"
    assert (ROOT / source).exists()
    notebook = f"/blob/{NOTEBOOK_BRANCH}/{source.removesuffix('.md')}.ipynb"  # Colab opens no text notebooks
    assert all(link.endswith(notebook if link.startswith(COLAB) else source) for link in links), links


def test_the_scorecard_links_to_checks_that_exist(visit: Visit) -> None:
    visit.open("book/scorecard.html")
    links = visit.page.locator("article a[href*='#claim-']").evaluate_all("links => links.map(link => link.href)")
    assert links
    for link in links:
        page, _, anchor = link.removeprefix(visit.address + "/").partition("#")
        assert f'id="{anchor}"' in built(page).read_text(encoding="utf-8"), link


def test_the_pages_name_no_folder_of_the_machine_that_built_them() -> None:
    for name in PAGES:
        assert str(ROOT) not in built(name).read_text(encoding="utf-8"), name


def test_a_table_that_scrolls_is_reached_by_keyboard(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": PHONE, "height": 844})
    visit.open("notebooks/memorisation/inside_trained_networks.html")
    boxes = visit.page.locator(".pst-scrollable-table-container").evaluate_all(
        "boxes => boxes.map(box => [box.scrollWidth > box.clientWidth, box.tabIndex, box.getAttribute('aria-label')])"
    )
    assert any(scrolls for scrolls, *_ in boxes)
    assert all(index == 0 and label for _, index, label in boxes)
