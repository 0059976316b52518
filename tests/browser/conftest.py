"""A headless Chromium on the built pages; every request that leaves the book is refused and remembered."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from playwright.sync_api import Browser, BrowserContext, Route, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from lib import ROOT

HTML = ROOT / "_build" / "html"
DESK, PHONE = 1280, 390  # widths in pixels
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    if not (HTML / "book" / "index.html").exists():
        pytest.fail("the book is not built: run `make book` first")
    handler = functools.partial(Quiet, directory=str(HTML))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine, else the one that Playwright installed."""
    here = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=here,
                args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
            )
        except PlaywrightError as error:
            reason = (
                "NO BROWSER, SO THE PAGES ARE NOT TESTED: install Chromium (apt-get install chromium) "
                f"or run `.venv/bin/playwright install chromium`. {str(error).splitlines()[0]}"
            )
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        yield opened
        opened.close()


class Visit:
    """A context that refuses the network and keeps what went wrong."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context, self.address = context, address
        self.page = context.new_page()
        self.name = ""
        self.refused: list[str] = []
        self.errors: list[str] = []
        context.route("**/*", self._route)
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", self._response)

    def _route(self, route: Route) -> None:
        if route.request.url.startswith((self.address, "data:", "blob:")):
            route.continue_()
        else:
            self.refused.append(route.request.url)
            route.abort()

    def _response(self, response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def open(self, name: str) -> None:
        self.name = name
        self.errors.clear()
        self.refused.clear()
        self.page.goto(f"{self.address}/{name}", wait_until="load")
        if name == "index.html":  # sends readers on to the first page
            self.page.wait_for_url("**/book/index.html")
        self.page.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }")


@contextlib.contextmanager
def visiting(browser: Browser, address: str, scheme: str = "light", width: int = DESK) -> Iterator[Visit]:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    context.add_init_script(f"localStorage.setItem('mode', '{scheme}'); localStorage.setItem('theme', '{scheme}');")
    yield Visit(context, address)
    context.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as visit:
        yield visit


@pytest.fixture(scope="module")
def opened(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A page that is opened once for all tests of it, since to load and typeset it takes longer than any test."""
    name, scheme, width = request.param
    with visiting(browser, address, scheme, width) as visit:
        visit.open(name)
        yield visit


def each(names: Iterable[str], schemes: Iterable[str] = ("light",), width: int = DESK) -> list[ParameterSet]:
    """Parameters of `opened`; tests of one page in one scheme stay in one process."""
    return [
        pytest.param((name, scheme, width), marks=pytest.mark.xdist_group(f"{name} {scheme}"), id=f"{name}-{scheme}")
        for name in names
        for scheme in schemes
    ]


def _page(item: pytest.Item) -> tuple[str, ...]:
    call = getattr(item, "callspec", None)
    return call.params.get("opened", ()) if call else ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one page follow each other; all others stay where they are."""
    items.sort(key=_page)


def page_names() -> list[str]:
    """Every page that the build wrote, as addresses below the book's root."""
    from lib.batch.pages import table_of_contents

    return [f"{name}.html" for name in table_of_contents()]


def built(name: str) -> Path:
    return HTML / name
