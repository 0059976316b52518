"""The table of all architectures as a reader meets it: whole on a desk, in a box of its own on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext

from .conftest import DESK, PHONE, visiting

pytestmark = pytest.mark.browser

PAGE, BOX = "book/architectures.html", ".scorecard-scroll:has(table.architectures)"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_table_of_architectures_is_read_at_any_width(context: BrowserContext, address: str, width: int) -> None:
    with visiting(context, address, "light", width) as visit:
        visit.open(PAGE)
        box = visit.page.locator(BOX).first
        hidden, index, label = box.evaluate("box => [box.scrollWidth - box.clientWidth, box.tabIndex, box.ariaLabel]")
        assert (hidden > 0) is (width == PHONE)  # nothing is cut off on a desk
        assert index == 0 and label
        size = box.locator("td").first.evaluate("cell => parseFloat(getComputedStyle(cell).fontSize)")
        assert size >= 12
        box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
        names = box.locator("tbody th")
        left = box.evaluate("box => box.getBoundingClientRect().left")
        assert all(abs(names.nth(row).bounding_box()["x"] - left) < 1 for row in range(names.count()))  # type: ignore[index]
