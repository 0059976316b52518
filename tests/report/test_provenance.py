"""The table that ends a chapter: complete, and markup that can be read aloud."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

import pytest

from lib.report import provenance


@dataclass
class _Corpus:
    name: str
    split: str | None
    sha256: str


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
