"""The scorecard as a reader meets it: every status in words, in both colour schemes, and what rests on older code."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext

from lib.report.records import OUTCOMES, Record
from lib.report.scorecard import counts, part_counts, rows
from lib.report.scorecard.page import Counts, Table
from lib.report.shown import WORDS

from .accessibility import LEVELS, LOOKS, violations
from .conftest import DESK, PHONE, Visit, visiting

pytestmark = pytest.mark.browser

SCORECARD = "book/scorecard.html"
CLAIMS = ("shen-eq46", "shen-eq47", "shen-eq53", "shen-eq52", "shen-eq62", "shen-params", "shen-eq17")


def record(claim: str, outcome: str, part: str = "", older: bool = True) -> Record:
    made_up: Record = {
        "claim": claim, "part": part, "outcome": outcome, "sentence": f"{outcome}: 3 values in [1, 2] against 1",
        "measured": [1.0, 1.5, 2.0], "expected": 1.0, "tolerance": 0.1, "deviation": 1.0, "note": "at reduced size",
        "profile": "laptop", "page": "notebooks/two_point/binary_sequences", "anchor": f"claim-{claim}",
        "provenance": {"date": "2026-01-01", "code": "abc", "commit": "1234567"}, "older": older, "on_page": False,
        "reason": "seeds disagree" if outcome == "undecided" else None,
    }  # fmt: skip
    return made_up | ({"beside": record(claim, "differs", part, False) | {"profile": "smoke"}} if older else {})


def every_status() -> str:
    """Tables with a claim of every status, folded checks among them, all but one on records of older code."""
    pairs = zip(CLAIMS, OUTCOMES, strict=True)
    made_up = [record(claim, outcome, older=claim != CLAIMS[0]) for claim, outcome in pairs]
    made_up += [record(CLAIMS[-1], outcome, f"part {outcome}") for outcome in OUTCOMES]
    shown = rows(made_up, "shen2019")
    older = [row for row in shown if row.older]
    table = Table("shen2019", shown, "")._repr_html_().replace('id="', 'id="made-up-')
    return (
        Counts({"shen2019": counts(shown)}, counts(shown), counts(older), part_counts(shown), "")._repr_html_() + table
    )


def with_every_status(visit: Visit) -> None:
    visit.open(SCORECARD)
    visit.page.locator("article .cell_output .text_html").first.evaluate(
        "(place, markup) => { place.innerHTML = markup; }", every_status()
    )
    # The tables of the real claims are another test's.
    visit.page.evaluate("document.querySelectorAll('article section section').forEach(one => one.remove())")
    visit.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_status_is_accessible_and_fits(context: BrowserContext, address: str, scheme: str, width: int) -> None:
    with visiting(context, address, scheme, width) as visit:
        with_every_status(visit)
        assert not violations(visit.page, LOOKS if scheme == "dark" else LEVELS)
        overflow = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 1


def test_every_status_is_said_in_words(context: BrowserContext, address: str) -> None:
    with visiting(context, address) as visit:
        with_every_status(visit)
        shown = visit.page.locator("article .cell_output .text_html").first.inner_text()
        for symbol, word in WORDS.values():
            assert f"{symbol} {word}" in shown
        assert "↺ older code" in shown and "commit 1234567" in shown
        assert "the smoke check of the present code says: differs" in shown
        assert "of which ↺ 6 rest on records of older code" in shown


def test_an_unreadable_badge_is_noticed(context: BrowserContext, address: str) -> None:
    with visiting(context, address) as visit:
        with_every_status(visit)
        visit.page.add_style_tag(content=".claim-older { color: #d8d8d8 !important; }")
        assert any(one.rule == "color-contrast" for one in violations(visit.page, LOOKS))


@pytest.mark.parametrize("name", [SCORECARD, "book/index.html"])
def test_the_counts_say_how_many_claims_rest_on_older_code(visit: Visit, name: str) -> None:
    visit.open(SCORECARD)
    marked = visit.page.locator("table.scorecard [data-column='Verdict'] .claim-older").count()
    visit.open(name)
    row = visit.page.locator(".scorecard-counts .scorecard-older")
    said = re.fullmatch(r"of which ↺ (\d+) rests? on records of older code", row.locator("th").inner_text())
    assert said and int(said[1]) == marked
    numbers = [int(cell) for cell in row.locator("td").all_inner_texts() if cell != "–"]
    assert sum(numbers) == marked


def test_the_counts_have_room_for_every_status_and_one_word_too_long_is_noticed(visit: Visit) -> None:
    for name in (SCORECARD, "book/index.html"):
        visit.open(name)
        hidden = "one => one.parentElement.scrollWidth - one.parentElement.clientWidth"
        table = visit.page.locator("table.scorecard-counts")
        assert table.evaluate(hidden) <= 1
        visit.page.add_style_tag(content=".scorecard-counts .claim-word { white-space: nowrap !important; }")
        assert table.evaluate(hidden) > 1


def claims_shown(visit: Visit) -> list[str]:
    rows = visit.page.locator("table.scorecard th[id]:visible").all()
    return [str(row.get_attribute("id")).removeprefix("scorecard-") for row in rows]


def test_choices_leave_the_claims_that_match_and_stand_in_the_address(visit: Visit) -> None:
    visit.open(SCORECARD)
    everything = claims_shown(visit)
    form = visit.page.locator(".scorecard-filters")
    form.get_by_label("Paper").select_option("kerg2020")
    of_kerg = claims_shown(visit)
    assert of_kerg == [claim for claim in everything if claim.startswith("kerg-")] and of_kerg
    form.get_by_label("Verdict").select_option("false")
    false = claims_shown(visit)
    assert "kerg-thm1" in false and set(false) < set(of_kerg)
    assert form.locator("output").inner_text().startswith(f"{len(false)} of ")
    assert visit.page.url.endswith("?paper=kerg2020&verdict=false")
    form.get_by_label("Chapter").select_option("notebooks/two_point/ising_chain")
    assert claims_shown(visit) == [] and form.locator("output").inner_text().startswith("0 of ")


def test_an_address_chooses_and_a_link_to_a_hidden_claim_shows_it(visit: Visit) -> None:
    visit.open(f"{SCORECARD}?verdict=false&chapter=nothing#scorecard-kerg-thm1")
    shown = claims_shown(visit)
    assert "kerg-thm1" in shown and "shen-eq46" not in shown
    visit.page.evaluate("location.hash = 'scorecard-shen-eq46'")
    visit.page.locator("#scorecard-shen-eq46").wait_for()
    assert visit.page.locator(".scorecard-filters select").first.input_value() == ""


def test_without_a_script_every_claim_is_shown(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{SCORECARD}?verdict=false")
    assert page.locator("table.scorecard th[id]:visible").count() > 50
    assert not page.locator(".scorecard-filters").is_visible()
    context.close()
