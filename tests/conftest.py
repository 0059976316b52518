"""Shared by all tests: hypothesis profiles, a folder that looks like a small book."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lib import ROOT
from lib.batch.pages import Page

LONGEST = (
    "batch/test_page_inputs.py",
    "runs/test_cluster.py",
    "runs/test_fingerprints.py",
    "runs/test_fingerprint_mutants.py",
    "batch/test_endings.py",
    "runs/test_experiments_on_device.py",
    "batch/test_execution.py",
    "batch/test_book.py",
    "batch/test_measuring.py",
    "test_page_guards.py",
    "models/attention/test_transformer.py",
)  # 20 to 50 seconds of a core each; all others take a few

settings.register_profile("book", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("book")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: no worker begins one when the others have nothing left to do."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


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
