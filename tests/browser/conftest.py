"""A headless Chromium on the built pages; every request that leaves the book is refused and remembered."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from playwright.sync_api import Browser, BrowserContext, Request, Response, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from xdist.scheduler import LoadScopeScheduling

from lib import ROOT
from lib.batch.publish import printing

HTML = ROOT / "_build" / "html"
DESK, PHONE = 1280, 390  # widths in pixels
HIGHLIGHT = "?highlight="  # words that Sphinx marks on a page, as it does for who comes from the search
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # a route refuses too, but switches the cache off
OPTIONS = (*printing.OPTIONS, "--disable-background-networking", ALONE)


DRAWN = """() => document.querySelectorAll('.cell_output script.playable').length
  === document.querySelectorAll('.playable svg').length"""

TURN = """scheme => {
  const root = document.documentElement;
  if (!document.getElementById('at-once'))
    document.head.insertAdjacentHTML('beforeend', '<style id="at-once">* { transition: none !important; }</style>');
  for (let press = 0; press < 3 && root.dataset.mode !== scheme; press++)
    document.querySelector('.theme-switch-button').click();
  if (root.dataset.mode !== scheme) throw new Error(`the page stays ${root.dataset.mode}`);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        """A browser asks for an icon of the site where a page names none, as the one that sends readers on does not."""
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def end_headers(self) -> None:
        """The book does not change while it is tested: the browser keeps the scripts that pages share, compiled."""
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()


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
    """The Chromium of this machine, best the one that draws no window, else the one that Playwright installed."""
    names = ("chromium-headless-shell", *printing.CHROMIUMS)
    here = next((path for name in names if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=here,
                args=OPTIONS,
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


@pytest.fixture(scope="session")
def context(browser: Browser) -> BrowserContext:
    """One for all pages, for what it has loaded it does not load again."""
    return browser.new_context()


class Visit:
    """A page that keeps what went wrong, and what it asked of others than the book, which it does not get."""

    def __init__(self, context: BrowserContext, address: str, scheme: str = "light", width: int = DESK) -> None:
        self.address, self.name = address, ""
        self.page = context.new_page()
        self.page.add_init_script(f"for (const name of ['mode', 'theme']) localStorage.setItem(name, '{scheme}');")
        # A search leaves its words for the page that is opened next, which is then another test's.
        self.page.add_init_script("localStorage.removeItem('sphinx_highlight_terms');")
        self.refused: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", self._request)
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", self._response)
        self._show(scheme, width)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self.refused.append(request.url)

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def _show(self, scheme: str, width: int) -> None:
        self.scheme = scheme
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": 900})

    def open(self, name: str) -> None:
        self.name = ""  # until it is open
        self.errors.clear()
        self.refused.clear()
        self.page.goto(f"{self.address}/{name}", wait_until="load")
        if name == "index.html":  # sends readers on to the first page
            self.page.wait_for_url("**/book/index.html")
        self.page.evaluate("async () => { if (window.MathJax?.startup) await MathJax.startup.promise; }")
        self.page.wait_for_function(DRAWN)
        self.name = name

    def turn(self, scheme: str, width: int) -> None:
        """The page as it is, in another window and colour scheme: by the button that readers have for that."""
        self._show(scheme, width)
        self.page.evaluate(TURN, scheme)


@contextlib.contextmanager
def visiting(context: BrowserContext, address: str, scheme: str = "light", width: int = DESK) -> Iterator[Visit]:
    visit = Visit(context, address, scheme, width)
    yield visit
    visit.page.close()


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Iterator[Visit]:
    with visiting(context, address) as visit:
        yield visit


@pytest.fixture(scope="session")
def standing(context: BrowserContext, address: str) -> Iterator[Visit]:
    with visiting(context, address) as visit:
        yield visit


@pytest.fixture
def opened(standing: Visit, request: pytest.FixtureRequest) -> Visit:
    """A page that is opened once for all tests of it, since to load and typeset it takes longer than most tests."""
    name, scheme, width = request.param
    if standing.name != name:
        standing.open(name)
    standing.turn(scheme, width)
    return standing


def each(names: Iterable[str], schemes: Iterable[str] = ("light",), width: int = DESK) -> list[ParameterSet]:
    """Parameters of `opened`."""
    return [pytest.param((name, scheme, width), id=f"{name}-{scheme}") for name in names for scheme in schemes]


def group(test: str) -> str:
    """What goes to one process: all tests that have a page's name among their parameters, each other by itself."""
    named = re.search(r"\[(\S+?\.html)", test)
    return named[1] if named else test


class ByPage(LoadScopeScheduling):  # type: ignore[misc]
    """In place of the groups of xdist (`--dist loadgroup`), which pytest 9.2 does not see: it would not say so."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPage:
    return ByPage(config, log)


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
