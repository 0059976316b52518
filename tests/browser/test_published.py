"""The pages where readers find them: on another host than their own, at addresses that do not exist, in print."""

from __future__ import annotations

import io
import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route
from pypdf import PdfReader

from lib.batch.publish.printing import print_page

from .conftest import HTML, built

pytestmark = pytest.mark.browser

PAGE = "notebooks/two_point/repetitive_sequences.html"
HOST = "http://book.example"
HERE = ".dropdown-launch-buttons a[href^='http://127.0.0.1:8888/lab/tree/']"


def without_the_rest(route: Route) -> None:
    """Let through the page and the script that is asked about; the other hundred files take long and change nothing."""
    if route.request.url.partition("?")[0].endswith((".html", "/own_machine.js")):
        route.fallback()
    else:
        route.abort()


@pytest.fixture
def prefix() -> str:
    """The folder below the host that the pages were built for."""
    found = re.search(r'href="(/(?:[\w.-]+/)*)_static/', built("404.html").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


@pytest.fixture
def hosted(context: BrowserContext, prefix: str) -> Page:
    """A page of a browser that finds the book on a host, which answers what is missing with the page for that."""
    page = context.new_page()

    def answer(route: Route) -> None:
        path = HTML / route.request.url.removeprefix(HOST).partition("?")[0].partition("#")[0].removeprefix(prefix)
        there = path.is_file()
        route.fulfill(status=200 if there else 404, path=path if there else built("404.html"))

    page.route(f"{HOST}/**", answer)
    yield page
    page.close()


def test_the_jupyter_of_the_own_machine_is_offered_there_only(
    context: BrowserContext, address: str, hosted: Page, prefix: str
) -> None:
    page = context.new_page()
    for one in (hosted, page):
        one.route("**/*", without_the_rest)
    hosted.goto(f"{HOST}{prefix}{PAGE}", wait_until="domcontentloaded")
    assert hosted.locator(HERE).count() == 0
    for menu in hosted.locator(".dropdown-launch-buttons").all():
        assert menu.locator("a").count() > 0  # a menu with nothing in it goes too
    for own in (f"{address}/{PAGE}", built(PAGE).as_uri()):
        page.goto(own, wait_until="domcontentloaded")
        assert page.locator(HERE).count() == 1
    page.close()


@pytest.mark.parametrize("depth", ["gone.html", "notebooks/gone.html", "notebooks/two_point/much/deeper/gone"])
def test_an_address_that_does_not_exist_leads_back_into_the_book(hosted: Page, prefix: str, depth: str) -> None:
    lost: list[str] = []
    hosted.on("response", lambda response: lost.append(response.url) if response.status == 404 else None)
    hosted.goto(f"{HOST}{prefix}{depth}")
    assert lost == [f"{HOST}{prefix}{depth}"], "what the page is made of is found"
    assert hosted.locator("article h1").inner_text() == "Page not found"
    links = hosted.locator("a[href]").evaluate_all("links => links.map(link => link.href)")
    inside = [link.partition("#")[0] for link in links if link.startswith(f"{HOST}{prefix}") and "gone" not in link]
    assert len(inside) > 30
    assert not [link for link in inside if not (HTML / link.removeprefix(f"{HOST}{prefix}")).exists()]


def test_a_page_is_printed_with_its_mathematics_and_without_what_is_folded(browser: Browser) -> None:
    title, data = print_page(browser, built(PAGE))
    assert re.fullmatch(r"\d+\. Repetitive sequences", title)
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)
    assert "What it means" in text and "How to cite" in text
    assert "code cell source" not in text and "\\frac" not in text
