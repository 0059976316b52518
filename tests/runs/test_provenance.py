"""What this process is: true, in a fixed order, and of the page that it executes."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

import pytest

from lib.runs import provenance


def test_the_collected_facts_are_true_and_in_a_fixed_order() -> None:
    found = provenance.collect()
    assert list(found) == ["python", "numpy", "scipy", "numba", "torch", "commit", "code", "device"]
    assert found["python"] == platform.python_version()
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert "core" in found["device"]


def test_a_package_that_is_missing_is_said_to_be() -> None:
    assert provenance._version("no-such-package-anywhere") == "not installed"


def test_outside_a_checkout_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance._commit() == "unknown"


def test_a_process_that_executes_a_page_tells_the_code_of_that_page(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(provenance.sources, "digest", lambda page=None: seen.append(page) or f"{page}".ljust(64, "0"))
    assert provenance.code_version() == "None00000000"
    assert provenance.code_version("book/index") == "book/index00"
    monkeypatch.setenv("BOOK_PAGE", "notebooks/a")
    assert provenance.collect()["code"] == "notebooks/a0"
    monkeypatch.setenv("BOOK_PAGE", "notebooks/b")
    assert provenance.collect()["code"] == "notebooks/b0"
    assert seen == [None, "book/index", "notebooks/a", "notebooks/b"]
