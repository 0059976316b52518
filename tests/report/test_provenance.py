"""Provenance: complete, in a fixed order, and true."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lib.report import provenance


@dataclass
class _Corpus:
    name: str
    split: str | None
    sha256: str


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


def test_the_footer_names_profile_seed_data_and_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOK_PROFILE", "laptop")
    data = [_Corpus("sotu", None, "a" * 64), _Corpus("wikitext2", "test", "b" * 64)]
    provenance.footer(seed=7, corpora=data, runs=["run-1", "run-2"])
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["profile"].strip() == "laptop" and rows["seed"].strip() == "7"
    assert rows["data 1"].strip() == f"sotu, SHA-256 {'a' * 12}"
    assert rows["data 2"].strip() == f"wikitext2, test, SHA-256 {'b' * 12}"
    assert rows["runs"].strip() == "run-1, run-2"


def test_without_seed_data_and_runs_their_rows_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    provenance.footer()
    names = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["profile", "device", "versions", "commit", "code"]


def test_the_table_is_markup_with_row_headers_and_escapes() -> None:
    class Cells(HTMLParser):
        text = ""

        def handle_data(self, data: str) -> None:
            self.text += data

    markup = provenance.Footer({"device": "<odd> & sons"})._repr_html_()
    parser = Cells()
    parser.feed(markup)
    assert "<odd> & sons" in parser.text
    assert '<th scope="row">device</th>' in markup
