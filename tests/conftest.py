"""Shared by all tests: hypothesis profiles, a folder that looks like a small book."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lib.batch.pages import Page

settings.register_profile("book", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("book")


@pytest.fixture(autouse=True)
def no_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks made inside tests are not results of the book."""
    for name in [name for name in os.environ if name.startswith("BOOK_") and name != "BOOK_DATA"]:
        monkeypatch.delenv(name)


@pytest.fixture
def make_page(tmp_path: Path) -> Callable[..., Page]:
    """Write a chapter from cells of code and return its page."""

    def make(name: str, *cells: str, parameters: str | None = None) -> Page:
        head = (
            "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n"
            "kernelspec: {display_name: Python 3, language: python, name: python3}\n---\n\n# A chapter\n"
        )
        blocks = [f"```{{code-cell}} python\n:tags: [parameters]\n{parameters}\n```"] if parameters else []
        blocks += [f"```{{code-cell}} python\n{textwrap.dedent(cell).strip()}\n```" for cell in cells]
        page = Page(f"notebooks/{name}", tmp_path)
        page.source.parent.mkdir(parents=True, exist_ok=True)
        page.source.write_text(head + "\n" + "\n\n".join(blocks) + "\n", encoding="utf-8")
        return page

    return make
