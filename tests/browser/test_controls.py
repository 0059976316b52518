"""What the browser tests rest on: each fault is noticed, and a page that was turned is the page that a reader opens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .accessibility import LEVELS, LOOKS, violations
from .conftest import DESK, PHONE, Visit, group, visiting
from .test_pages import overflow, real

pytestmark = pytest.mark.browser

PAGE = "notebooks/gradients/relevancy_screening.html"  # with some of everything, and not large
MANY_KINDS = "notebooks/memorisation/inside_trained_networks.html"
LOOK = """() => [...document.querySelectorAll('body, article *')].map(element => {
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  const size = [Math.round(box.width), Math.round(box.height)];
  return [element.tagName, style.color, style.backgroundColor, style.filter, ...size];
})"""


@pytest.fixture
def page(visit: Visit) -> Visit:
    visit.open(PAGE)
    return visit


def rules(visit: Visit, among: Sequence[str] = LEVELS) -> set[str]:
    return {violation.rule for violation in violations(visit.page, among)}


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_page_that_was_turned_looks_as_if_it_had_been_opened_so(visit: Visit, width: int) -> None:
    visit.open(MANY_KINDS)
    first = visit.page.evaluate(LOOK)
    visit.turn("dark", width)
    turned = visit.page.evaluate(LOOK)
    with visiting(visit.page.context, visit.address, "dark", width) as dark:
        dark.open(MANY_KINDS)
        assert dark.page.evaluate(LOOK) == turned != first
    visit.turn("light", DESK)
    assert visit.page.evaluate(LOOK) == first


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_unreadable_word_among_thousands_that_look_alike_is_noticed(page: Visit, scheme: str) -> None:
    page.turn(scheme, DESK)
    assert "color-contrast" not in rules(page, LOOKS)
    words = page.page.locator("article .highlight span.n:visible")
    assert words.count() > 100
    words.nth(words.count() // 2).evaluate("word => { word.textContent = 'unread'; word.style.color = '#808080'; }")
    assert "color-contrast" in rules(page, LOOKS)


def test_a_readable_colour_on_a_background_like_it_is_noticed(page: Visit) -> None:
    page.page.locator("article p:visible").nth(1).evaluate(
        "text => { text.style.background = getComputedStyle(text).color; }"
    )
    assert "color-contrast" in rules(page)


@pytest.mark.parametrize(
    ("first", "style"),
    [
        ('a word<i style="position: absolute; inset: 0; background: white"></i>', ""),
        ("a word", "display: none"),
        ("a", ""),
    ],
    ids=["covered", "hidden", "one letter"],
)
def test_an_unreadable_text_is_noticed_where_the_first_that_looks_like_it_cannot_be_measured(
    page: Visit, first: str, style: str
) -> None:
    faint = "position: relative; color: #ccc"
    more = f"<p style='{faint}; {style}'>{first}</p><p style='{faint}'>unread</p>"
    page.page.locator("article h1").evaluate("(title, more) => title.insertAdjacentHTML('afterend', more)", more)
    found = [place for one in violations(page.page, LOOKS) if one.rule == "color-contrast" for place in one.places]
    assert any("unread" in place for place in found)


def test_what_the_dark_theme_alone_spoils_is_noticed(page: Visit) -> None:
    page.turn("dark", DESK)
    assert not violations(page.page, LOOKS)
    faint = "<p style='color: #222'>unread</p>"
    page.page.locator("article h1").evaluate("(title, more) => title.insertAdjacentHTML('afterend', more)", faint)
    page.page.locator("article img").first.evaluate("image => image.removeAttribute('alt')")
    assert {one.rule for one in violations(page.page, LOOKS)} == {"color-contrast", "image-alt"}


def test_what_looks_as_something_that_passed_is_left_out_and_all_else_is_not(page: Visit) -> None:
    passed: set[str] = set()
    assert not violations(page.page, LEVELS, passed)
    seen = set(passed)
    assert len(seen) > 30 and any(kind.startswith("link ") for kind in seen)
    faint = (
        "<p style='color: #ccc'>unread</p><p>Words <a href='#' style='color: #444; text-decoration: none'>there</a></p>"
    )
    page.page.locator("article h1").evaluate("(title, more) => title.insertAdjacentHTML('afterend', more)", faint)
    page.page.locator("article p a:visible").nth(1).evaluate("link => { link.style.textDecoration = 'none'; }")
    for _ in range(2):  # what has failed is no kind that passed
        assert {one.rule for one in violations(page.page, LOOKS, passed)} == {"color-contrast", "link-in-text-block"}
    assert not any("204, 204, 204" in kind for kind in passed - seen)


def test_a_fault_that_is_no_matter_of_contrast_is_noticed(page: Visit) -> None:
    page.page.locator("article img").first.evaluate("image => image.removeAttribute('alt')")
    assert "image-alt" in rules(page)


@pytest.mark.parametrize("block", ["mjx-container", ".highlight pre"])
def test_a_fault_in_one_formula_or_block_of_code_among_many_is_noticed(page: Visit, block: str) -> None:
    blocks = page.page.locator(f"article {block}:visible")
    assert blocks.count() > 5 and not rules(page)
    before = page.page.locator("article").inner_html()
    blocks.nth(blocks.count() // 2).evaluate("block => block.lastElementChild.setAttribute('role', 'chekbox')")
    faulty = page.page.locator("article").inner_html()
    assert rules(page) == {"aria-roles"}
    assert page.page.locator("article").inner_html() == faulty != before


def test_a_page_wider_than_a_phone_is_noticed(page: Visit) -> None:
    page.turn("light", PHONE)
    assert overflow(page) <= 1
    page.page.locator("article h1").evaluate("title => { title.style.width = '500px'; }")
    assert overflow(page) > 1


def test_a_request_that_leaves_the_book_is_refused_and_noticed(page: Visit) -> None:
    assert not page.refused and not real(page.errors)
    asked = ["http://example.org/", "http://192.0.2.1/"]
    for elsewhere in asked:
        ask = "where => fetch(where, {mode: 'no-cors'}).then(() => 'got', () => 'refused')"
        assert page.page.evaluate(ask, elsewhere) == "refused"
    assert page.refused == asked
    assert sum("ERR_NAME_NOT_RESOLVED" in error for error in page.errors) == len(asked)


def test_a_page_that_asks_for_what_the_book_lacks_is_noticed(page: Visit) -> None:
    with page.page.expect_event("console"):
        page.page.evaluate("fetch('no-such-file.js')")
    assert any(error.startswith("404 ") for error in page.errors)


def test_all_tests_of_a_page_go_to_one_process_and_others_to_any(request: pytest.FixtureRequest) -> None:
    pages = {item.nodeid: call.params.get("opened") for item in request.session.items
             if (call := getattr(item, "callspec", None))}  # fmt: skip
    assert all(group(test) == page[0] for test, page in pages.items() if page)
    assert group(request.node.nodeid) == request.node.nodeid
