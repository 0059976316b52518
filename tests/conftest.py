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
    "runs/test_fingerprints.py",
    "batch/test_endings.py",
    "runs/test_experiments_on_device.py",
    "batch/test_side_by_side.py",
    "runs/test_cluster.py",
    "models/test_device_rehearsal.py",
    "test_types.py",
    "batch/test_measuring.py",
    "batch/test_question.py",
    "experiments/uniform_attention/test_playing.py",
    "test_machine.py",
    "runs/test_fingerprint_mutants.py",  # this and the next take over what has been compiled by then
    "test_page_guards.py",
    "test_paper_cost.py",
    "models/attention/test_transformer.py",
    "runs/test_sweep.py",
    "batch/test_book.py",
    "experiments/binary_sequences/law/test_likelihood.py",
    "processes/ngram/test_language.py",
    "experiments/minigrid/test_ceilings.py",
    "experiments/key_values/test_statements.py",
    "batch/test_page_inputs.py",
    "information/documents/test_block_scores.py",
    "experiments/gaussians/test_clock.py",
    "theory/attention/test_sparse.py",
    "batch/publish/test_address.py",
    "batch/test_execution.py",
)  # 10 to 90 seconds of a core each; all others take a few. `make test-fast` leaves them out

settings.register_profile("book", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("book")


@pytest.hookimpl(tryfirst=True)  # before markers choose
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long are `slow` and come first: no worker begins one when others have nothing left to do."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if item.path in places:
            item.add_marker("slow")


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
