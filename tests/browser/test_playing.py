"""Figures to play with: keys move their sliders, numbers follow, and without a script or on paper stands a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator

from lib.report.figures.interactive import CLASS, READOUT

from .accessibility import LOOKS, violations
from .conftest import DESK, HTML, PHONE, Visit, built, page_names, visiting
from .test_pages import overflow

pytestmark = pytest.mark.browser

BUDGET = 1_500_000  # bytes of script
KEYS = """one => {
  const list = one.matches('select'), keys = list ? ['ArrowDown', 'ArrowUp'] : ['ArrowRight', 'ArrowLeft'];
  const more = list ? one.selectedIndex < one.length - 1 : one.valueAsNumber < Number(one.max);
  return more ? keys : keys.reverse();
}"""
SPOKEN = "([place, before]) => ![before, ''].includes(place.querySelector('[role=status]').textContent)"
SIZES = "texts => texts.map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getScreenCTM().a)"
SCRIPT = re.compile(r'src="[^"]*/(playing-\w+\.js)')


def pages() -> list[str]:
    """Pages with a figure to play with; those of the contents where nothing is built, which the fixture says."""
    return [name for name in page_names() if not built(name).exists() or f'class="{CLASS}"' in text(name)]


def text(name: str) -> str:
    return built(name).read_text(encoding="utf-8")


def said(chart: Locator) -> str:
    return chart.locator(f".{READOUT}_marks text").text_content() or ""


def curves(chart: Locator) -> list[str]:
    """What is drawn and where it stands: the points of a figure all have the same shape."""
    drawn = "paths => paths.map(path => `${path.getAttribute('d')} ${path.getAttribute('transform')}`)"
    found = chart.locator("svg path").evaluate_all(drawn)
    assert isinstance(found, list)
    return found


@pytest.fixture(scope="module", params=pages())
def phone(context: BrowserContext, address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A page with a figure to play with, opened once for all tests of it."""
    with visiting(context, address, width=PHONE) as visit:
        visit.open(request.param)
        yield visit


def test_keys_move_what_is_drawn_and_what_is_said(phone: Visit) -> None:
    chart = phone.page.locator(f"article .{CLASS}").first
    status = chart.locator("[role=status]")
    for control in chart.locator("input, select").all():
        before, drawn = said(chart), curves(chart)
        control.focus()
        forth, back = control.evaluate(KEYS)
        phone.page.keyboard.press(forth)
        phone.page.wait_for_function(SPOKEN, arg=[chart.element_handle(), before])
        assert said(chart) != before and curves(chart) != drawn
        changed = said(chart)
        assert status.text_content() == changed
        phone.page.keyboard.press(back)
        phone.page.wait_for_function(SPOKEN, arg=[chart.element_handle(), changed])
        assert said(chart) == before and curves(chart) == drawn


def test_a_chart_has_a_name_and_labels_that_can_be_read(phone: Visit) -> None:
    chart = phone.page.locator(f"article .{CLASS}").first
    assert len((chart.get_attribute("aria-label") or "").split()) >= 4
    assert chart.evaluate("one => one.scrollWidth <= one.clientWidth + 1") and overflow(phone) <= 1
    assert min(chart.locator("svg text").evaluate_all(SIZES)) >= 7


def test_without_a_script_and_on_paper_stands_the_picture(phone: Visit, browser: Browser) -> None:
    figure = phone.page.locator(f"article figure:has(.{CLASS})").first
    chart, picture = figure.locator(f".{CLASS}"), figure.locator("img")
    assert chart.is_visible() and not picture.is_visible()
    phone.page.emulate_media(media="print")
    assert picture.is_visible() and not chart.is_visible()
    phone.page.emulate_media(media="screen")
    plain = browser.new_context(java_script_enabled=False)
    page = plain.new_page()
    page.goto(f"{phone.address}/{phone.name}", wait_until="domcontentloaded")
    still = page.locator(f"#{figure.get_attribute('id')} img")
    still.wait_for(state="visible")
    assert page.locator(f"article .{CLASS}:visible").count() == 0
    plain.close()


def test_the_script_is_small_and_only_pages_that_use_it_load_it() -> None:
    (script,) = (HTML / "_static").glob("playing-*.js")
    assert script.stat().st_size < BUDGET
    for name in page_names():
        expected = {script.name} if f'class="{CLASS}"' in text(name) else set()
        assert set(SCRIPT.findall(text(name))) == expected, name


def test_a_label_that_cannot_be_read_is_noticed(visit: Visit) -> None:
    visit.open(pages()[0])  # that all others are readable, in both schemes, is a test of every page
    label = visit.page.locator(f"article .{CLASS} label span").first
    label.evaluate("one => { one.style.color = '#bbbbbb'; }")
    assert "color-contrast" in {one.rule for one in violations(visit.page, LOOKS)}


def test_desks_are_wide_enough_for_two_charts_side_by_side() -> None:
    assert PHONE < 600 < DESK  # where the script puts them below each other
