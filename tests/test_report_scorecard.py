"""The scorecard: statuses come from records alone, the worst part and the highest profile decide."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lib.report import records, scorecard
from lib.report.catalogue import PAPERS, catalogue
from lib.report.scorecard import counting, counts, load_records, rows, text_table
from lib.report.scorecard_html import Counts, Table

PAGE = "notebooks/two_point/binary_sequences"


def record(claim: str = "shen-eq46", outcome: str = "holds", part: str = "", **changes: Any) -> records.Record:
    date = changes.pop("date", "2026-01-01T00:00:00+00:00")
    return {
        "claim": claim,
        "part": part,
        "outcome": outcome,
        "sentence": "1 against 1; |difference| 0 ≤ 0.1",
        "measured": 1.0,
        "expected": 1.0,
        "tolerance": 0.1,
        "profile": "smoke",
        "page": PAGE,
        "anchor": f"claim-{claim}",
        "provenance": {"date": date, "code": "abc"},
        **changes,
    }


def status(*made_up: records.Record, claim: str = "shen-eq46") -> str:
    return next(row.status for row in rows(made_up) if row.claim.id == claim)


def test_without_records_every_claim_is_not_yet() -> None:
    everything = rows([])
    assert [row.claim.id for row in everything] == list(catalogue())
    assert {row.status for row in everything} == {"not yet"}
    assert counts(everything)["not yet"] == len(catalogue())


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        (["holds"], "holds"),
        (["holds", "reduced"], "reduced"),
        (["corrected", "reduced", "holds"], "corrected"),
        (["holds", "differs", "corrected", "reduced"], "differs"),
    ],
)
def test_a_claim_has_the_worst_verdict_of_its_parts(outcomes: list[str], worst: str) -> None:
    parts = [record(outcome=outcome, part=str(number)) for number, outcome in enumerate(outcomes)]
    assert status(*parts) == worst
    assert status(*reversed(parts)) == worst


def test_the_highest_profile_wins_whatever_the_order() -> None:
    runs = [record(outcome="differs"), record(profile="paper"), record(outcome="reduced", profile="laptop")]
    for order in (runs, runs[::-1], [runs[1], runs[0], runs[2]]):
        assert status(*order) == "holds"
        assert [kept["profile"] for kept in counting(order).values()] == ["paper"]


def test_at_one_profile_the_latest_record_wins() -> None:
    old, new = record(outcome="differs", date="2026-01-01"), record(date="2026-02-01")
    assert status(old, new) == status(new, old) == "holds"


def test_a_higher_profile_of_one_part_leaves_the_other_parts_alone() -> None:
    assert status(record(part="a", outcome="differs"), record(part="b", profile="paper")) == "differs"


def test_a_check_on_another_page_is_another_part() -> None:
    assert status(record(outcome="differs"), record(page="notebooks/other", profile="paper")) == "differs"


def test_records_of_one_claim_leave_the_others_not_yet() -> None:
    found = counts(rows([record()]))
    assert found == {"holds": 1, "reduced": 0, "corrected": 0, "differs": 0, "not yet": len(catalogue()) - 1}


def test_a_record_of_an_unknown_claim_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown claim 'shen-eq999'"):
        rows([record(claim="shen-eq999")])


def test_an_unknown_paper_lists_the_papers() -> None:
    with pytest.raises(ValueError, match="shen2019, l2m2025, kerg2020, ngram2024"):
        text_table([], paper="shen1999")


def test_the_text_table_names_every_claim_once_with_symbol_word_and_counts() -> None:
    text = text_table([record(part="angle"), record(claim="shen-eq53", outcome="corrected", erratum=12, printed=2.0)])
    lines = text.splitlines()
    for claim in catalogue().values():
        assert sum(f" {claim.id} " in line for line in lines) == 1
    assert any(line.startswith("✓ holds") and "shen-eq46" in line for line in lines)
    assert any("angle: 1 against 1" in line and "[smoke]" in line for line in lines)
    assert lines[-1] == "74 claims: 1 holds, 0 holds at reduced scale, 1 corrected, 0 differs, 72 not yet"
    assert text_table([], paper="ngram2024").count("\n") == 13


def test_records_come_from_the_committed_folder_and_from_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, live = tmp_path / "committed", tmp_path / "live"
    monkeypatch.setattr(scorecard, "COMMITTED", committed)
    write(committed / "laptop" / "two_point" / "x.jsonl", record(profile="laptop", outcome="reduced"))
    write(live / "notebooks" / "x.jsonl", record())
    write(live / "notebooks" / "y.partial-12.jsonl", record(claim="shen-eq47"))
    assert len(load_records()) == 1
    monkeypatch.setenv("BOOK_RECORDS_DIR", str(live))
    assert [entry["profile"] for entry in load_records()] == ["laptop", "smoke"]
    assert len(load_records([live, tmp_path / "missing"])) == 2
    assert status(*load_records()) == "reduced"


def write(path: Path, *made_up: records.Record) -> None:
    for entry in made_up:
        records.append(path, entry)


def test_committed_records_are_of_known_claims_and_profiles() -> None:
    assert len(rows(load_records())) == len(catalogue())


class _Page(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, name: str) -> list[str | None]:
        return [attributes.get(name) for found, attributes in self.tags if found == tag and name in attributes]


def test_the_page_links_to_the_verdict_and_to_the_erratum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_PAGE", "book/scorecard")
    corrected = record(claim="shen-eq53", outcome="corrected", erratum=12, printed=0.0, part="bias", note="<small>")
    page = _Page(Table("shen2019", rows([record(), corrected], "shen2019"), "")._repr_html_())
    assert page.all("a", "href") == [
        f"../{PAGE}.html#claim-shen-eq46",
        "../book/errata.html#erratum-12",
        f"../{PAGE}.html#claim-shen-eq53",
    ]
    assert "<small>" in page.text and "1 ± 0.1" in page.text


def test_every_claim_has_its_anchor_and_its_status_in_words() -> None:
    for paper in PAPERS:
        page = _Page(Table(paper, rows([], paper), "")._repr_html_())
        expected = [f"scorecard-{claim.id}" for claim in catalogue().values() if claim.paper == paper]
        assert page.all("th", "id") == expected
        assert page.text.count("not yet") == len(expected)
        assert page.all("div", "tabindex") == ["0"] and page.all("div", "aria-label") != []


def test_rows_of_the_table_have_as_many_cells_as_columns() -> None:
    made_up = [record(part="a"), record(part="b", outcome="reduced"), record(claim="shen-eq47")]
    markup = Table("shen2019", rows(made_up, "shen2019"), "")._repr_html_()
    width = markup.split("</thead>")[0].count("<th ")
    for body in markup.split("<tbody>")[1:]:
        lines = body.split("<tr>")[1:]
        cells = [line.count("<td") + line.count("<th ") for line in lines]
        spanned = 2 if len(lines) > 1 else 0  # claim and verdict stand once for all parts
        assert cells == [width, *([width - spanned] * (len(lines) - 1))]


def test_every_kind_of_comparison_is_shown() -> None:
    made_up = [
        record(part="interval", tolerance=None, within=[0.9, 1.1]),
        record(part="intervals", tolerance=None, measured=[1.0, 2.0], expected=[1, 2], within=[[0.9, 1.1], [1.9, 2.1]]),
        record(part="bounds", tolerance=None, expected=None, at_least=0.5, at_most=2),
        record(part="summary", measured={"shape": [1000], "first": [0, 1], "smallest": 0.0, "largest": 3.5}),
        record(part="complex", measured={"shape": [1000], "first": ["1j"]}),
        record(part="published", paper={"pg19": [1.1, 0.91]}, relative=True),
    ]
    text = _Page(Table("shen2019", rows(made_up, "shen2019"), "")._repr_html_()).text
    for piece in ("1 in [0.9, 1.1]", "1, 2 in [[0.9, 1.1], [1.9, 2.1]]", "≥ 0.5, ≤ 2", "shape [1000] in [0, 3.5]",
                  "array of shape [1000]", "pg19 1.1, 0.91", "1 ± 0.1 relative"):  # fmt: skip
        assert piece in text, piece


def test_counts_add_up() -> None:
    everything = rows([record(), record(claim="kerg-prop4", outcome="differs")])
    by_paper = {paper: counts([row for row in everything if row.claim.paper == paper]) for paper in PAPERS}
    markup = Counts(by_paper, counts(everything))._repr_html_()
    cells = [int(piece.split("</td>")[0]) for piece in markup.split("<td>")[1:]]
    lines = [cells[start : start + 5] for start in range(0, len(cells), 5)]
    assert [sum(column) for column in zip(*lines[:-1], strict=True)] == lines[-1]
    assert sum(lines[-1]) == len(catalogue())
    assert lines[0] == [1, 0, 0, 0, 25] and lines[2] == [0, 0, 0, 1, 16]


def test_the_page_functions_show_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scorecard, "COMMITTED", tmp_path)
    write(tmp_path / "smoke.jsonl", record())
    assert json.loads((tmp_path / "smoke.jsonl").read_text())["claim"] == "shen-eq46"
    scorecard.show("shen2019")
    scorecard.show_counts()
    shown = capsys.readouterr().out
    assert "✓ holds" in shown
    assert shown.strip().endswith("1 holds, 0 holds at reduced scale, 0 corrected, 0 differs, 73 not yet")
