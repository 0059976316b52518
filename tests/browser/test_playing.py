"""Figures to play with: keys move their sliders, numbers follow, and without a script or on paper stands a picture."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator

from lib.report.figures.interactive import CLASS, READOUT

from .accessibility import violations
from .conftest import DESK, HTML, PHONE, Visit, built, page_names

pytestmark = pytest.mark.browser

BUDGET = 1_500_000  # bytes of script
KEY = """one => one.matches('select')
  ? (one.selectedIndex < one.length - 1 ? 'ArrowDown' : 'ArrowUp')
  : (one.valueAsNumber < Number(one.max) ? 'ArrowRight' : 'ArrowLeft')"""
SCRIPT = re.compile(r'src="[^"]*/(playing-\w+\.js)')


def pages() -> list[str]:
    """Pages with a figure to play with; those of the contents where nothing is built, which the fixture says."""
    return [name for name in page_names() if not built(name).exists() or f'class="{CLASS}"' in text(name)]


def text(name: str) -> str:
    return built(name).read_text(encoding="utf-8")


def said(chart: Locator) -> str:
    return chart.locator(f".{READOUT}_marks text").inner_html()


def curves(chart: Locator) -> list[str | None]:
    found = chart.locator("svg path").evaluate_all("paths => paths.map(path => path.getAttribute('d'))")
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", pages())
def test_keys_move_what_is_drawn_and_what_is_said(visit: Visit, name: str) -> None:
    visit.open(name)
    chart = visit.page.locator(f"article .{CLASS}").first
    for control in chart.locator("input, select").all():
        before, drawn = said(chart), curves(chart)
        control.focus()
        visit.page.keyboard.press(control.evaluate(KEY))
        visit.page.wait_for_function(
            "([place, before]) => place.querySelector(before[0]).innerHTML !== before[1]",
            arg=[chart.element_handle(), [f".{READOUT}_marks text", before]],
        )
        assert curves(chart) != drawn
        status = chart.locator("[role=status]")
        visit.page.wait_for_function("one => one.textContent.length > 0", arg=status.element_handle())
        assert status.text_content() == chart.locator(f".{READOUT}_marks text").text_content()
    visit.page.keyboard.press("Tab")  # no trap


@pytest.mark.parametrize("name", pages())
def test_a_chart_is_named_accessible_and_fits_a_phone(visit: Visit, name: str) -> None:
    visit.page.set_viewport_size({"width": PHONE, "height": 900})
    visit.open(name)
    chart = visit.page.locator(f"article .{CLASS}").first
    assert len((chart.get_attribute("aria-label") or "").split()) >= 4
    assert chart.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    sizes = chart.locator("svg text").evaluate_all(
        "texts => texts.map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.getScreenCTM().a)"
    )
    assert min(sizes) >= 7
    assert not violations(visit.page)
    chart.locator("label span").first.evaluate("one => { one.style.color = '#bbbbbb'; }")
    assert "color-contrast" in {one.rule for one in violations(visit.page)}


@pytest.mark.parametrize("name", pages())
def test_without_a_script_and_on_paper_stands_the_picture(visit: Visit, browser: Browser, name: str) -> None:
    visit.open(name)
    figure = visit.page.locator(f"article figure:has(.{CLASS})").first
    shown = [figure.locator(f".{CLASS}").is_visible(), figure.locator("img").is_visible()]
    visit.page.emulate_media(media="print")
    assert shown == [True, False]
    assert not figure.locator(f".{CLASS}").is_visible() and figure.locator("img").is_visible()
    place = figure.get_attribute("id")
    plain = browser.new_context(java_script_enabled=False)
    page = plain.new_page()
    page.goto(f"{visit.address}/{name}", wait_until="domcontentloaded")
    assert page.locator(f"#{place} img").is_visible() and page.locator(f"article .{CLASS}:visible").count() == 0
    plain.close()


def test_the_script_is_small_and_only_pages_that_use_it_load_it() -> None:
    (script,) = (HTML / "_static").glob("playing-*.js")
    assert script.stat().st_size < BUDGET
    for name in page_names():
        expected = {script.name} if f'class="{CLASS}"' in text(name) else set()
        assert set(SCRIPT.findall(text(name))) == expected, name


def test_desks_are_wide_enough_for_two_charts_side_by_side() -> None:
    assert PHONE < 600 < DESK  # where the script puts them below each other
