"""The scorecard: statuses come from records alone, the worst part and the highest profile decide, nothing is hidden."""

from __future__ import annotations

import errno
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lib.report import records, scorecard
from lib.report.catalogue import PAPERS, catalogue
from lib.report.claims import check
from lib.report.comparison import recorded
from lib.report.scorecard import counting, counts, load_records, part_counts, rows, text_table
from lib.report.scorecard.page import Counts, Filters, Table, paper_value
from lib.runs import provenance

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


def counts_of(*made_up: records.Record) -> Counts:
    shown = rows(made_up)
    older = counts([row for row in shown if row.older])
    return Counts({}, counts(shown), older, part_counts(shown), "")


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
        (["holds", "misprint"], "misprint"),
        (["misprint", "reduced", "holds"], "reduced"),
        (["reduced", "undecided", "holds"], "undecided"),
        (["undecided", "misprint"], "undecided"),
        (["holds", "false", "misprint", "reduced", "undecided"], "false"),
        (["false", "differs"], "differs"),
        (["holds", "differs", "misprint", "reduced", "undecided"], "differs"),
        (["differs", "fails", "holds"], "fails"),
    ],
)
def test_a_claim_has_the_worst_verdict_of_its_parts(outcomes: list[str], worst: str) -> None:
    parts = [record(outcome=outcome, part=str(number)) for number, outcome in enumerate(outcomes)]
    assert status(*parts) == worst
    assert status(*reversed(parts)) == worst


REMARK = {"remark": True, "part": "a remark"}


def test_a_claim_does_not_fail_with_its_remarks() -> None:
    for outcome in ("false", "differs", "misprint"):
        wrong = record(outcome=outcome, **REMARK)
        row = next(row for row in rows([record(part="theorem"), wrong]) if row.parts)
        assert (row.status, row.decisive["part"], len(row.parts)) == ("holds", "theorem", 2)
        assert row.share == "1 of 2 parts holds" and row.share in text_table(row.parts)
        assert part_counts([row])[outcome] == 1 and counts([row])[outcome] == 0
        assert status(record(part="theorem"), wrong | {"remark": False}) == outcome  # as a part of the claim it decides


def test_what_decides_nothing_about_a_remark_leaves_its_claim_alone() -> None:
    open_remark = record(outcome="undecided", reason="not converged", **REMARK)
    assert status(record(part="theorem"), open_remark) == "holds"
    assert status(record(part="theorem"), open_remark | {"remark": False}) == "undecided"


def test_a_claim_fails_with_the_check_of_a_remark() -> None:
    broken = record(outcome="fails", **REMARK)
    assert status(record(part="theorem"), broken) == "fails"
    row = next(row for row in rows([record(part="theorem"), broken]) if row.parts)
    assert row.decisive["part"] == "a remark" and row.share == "1 of 2 parts fails"


def test_a_claim_of_which_only_remarks_were_checked_is_as_the_worst_of_these() -> None:
    assert status(record(**REMARK)) == "holds"
    both = [record(outcome="misprint", part="theorem"), record(outcome="misprint", **REMARK)]
    assert next(row for row in rows(both) if row.parts).share == ""
    assert status(record(**REMARK), record(outcome="false", remark=True, part="b")) == "false"


def test_not_yet_means_that_nothing_ran() -> None:
    for part in (record(outcome="undecided", reason="precondition not met"), record(outcome="fails"), record(**REMARK)):
        assert status(part) != "not yet" and counts(rows([part]))["not yet"] == len(catalogue()) - 1
    assert status(record(claim="shen-eq47")) == "not yet"


def test_each_part_shows_its_condition_and_that_it_is_a_remark(folders: tuple[Path, Path]) -> None:
    parts = [
        made_by("new", part="a", condition="as printed"),
        made_by("new", part="b", condition="to plateau", outcome="undecided", reason="not converged",
                sentence="not converged: nats above the optimum"),
        made_by("new", part="c", remark=True),
        made_by("new", part="d", condition="as printed", remark=True),
        made_by("new", part="e"),
    ]  # fmt: skip
    write(folders[0], *parts)
    text, page = text_table(loaded(folders)), table(*loaded(folders)).text
    assert "✓ a [as printed]: 1 against 1" in text and "◇ b [to plateau]: not converged: nats above" in text
    assert "✓ c [remark]: " in text and "✓ d [as printed, remark]: " in text and "✓ e: " in text
    for told in ("a [as printed]", "b [to plateau]", "c [remark]", "d [as printed, remark]"):
        assert told in page
    assert page.count("[as printed") == 2 and "e [" not in page
    assert "not converged" in page.split("more checks")[0]  # b decides, and says why it does not


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
    assert found.pop("holds") == 1 and found.pop("not yet") == len(catalogue()) - 1
    assert set(found) == {"reduced", "misprint", "false", "undecided", "differs", "fails"} and not any(found.values())


def test_a_record_of_an_unknown_claim_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown claim 'shen-eq999'"):
        rows([record(claim="shen-eq999")])


def test_an_unknown_paper_lists_the_papers() -> None:
    with pytest.raises(ValueError, match="shen2019, l2m2025, kerg2020, ngram2024"):
        text_table([], paper="shen1999")


def test_the_text_table_names_every_claim_once_with_symbol_word_and_counts() -> None:
    text = text_table([record(part="angle"), record(claim="shen-eq53", outcome="misprint", erratum=12, printed=2.0)])
    lines = text.splitlines()
    for claim in catalogue().values():
        assert sum(f" {claim.id} " in line for line in lines) == 1
    assert any(line.startswith("✓ holds") and "shen-eq46" in line for line in lines)
    assert any("angle: 1 against 1" in line and "[smoke]" in line for line in lines)
    assert lines[-1] == (
        f"{len(catalogue())} claims: 1 holds · 0 holds at reduced scale · 1 misprint · 0 false as stated · 0 differs · "
        f"0 ran, undecided · {len(catalogue()) - 2} not yet; of which 0 rest on records of older code"
    )
    assert lines[-2].startswith("2 parts: 1 holds · 0 holds at reduced scale · 1 misprint · ")
    assert lines[-2].endswith("· 0 ran, undecided")
    assert text_table([], paper="ngram2024").count("\n") == 2 + sum(
        claim.paper == "ngram2024" for claim in catalogue().values()
    )


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


def test_records_of_a_page_that_is_no_longer_there_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorecard, "COMMITTED", tmp_path / "committed")
    write(tmp_path / "live" / "x.jsonl", record())
    write(tmp_path / "live" / "old.jsonl", record(page="notebooks/two_point/old_name", outcome="differs", note="why"))
    (left,) = load_records([tmp_path / "live"])
    assert left["page"] == PAGE and status(left) == "holds"


def write(path: Path, *made_up: records.Record) -> None:
    for entry in made_up:
        records.append(path, entry)


def test_a_check_that_the_pages_at_hand_do_not_hold_is_linked_to_its_page_without_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorecard, "COMMITTED", tmp_path / "committed")
    (tmp_path / "committed").mkdir()
    (tmp_path / "live").mkdir()
    here, elsewhere = (record(part=part, profile="laptop", anchor=f"claim-{part}") for part in ("here", "elsewhere"))
    write(tmp_path / "committed" / "a.jsonl", here, elsewhere)
    write(tmp_path / "live" / "a.jsonl", here | {"profile": "smoke"})
    markup = Table("shen2019", rows(load_records([tmp_path / "live"])), "")._repr_html_()
    assert f'{PAGE}.html#claim-here"' in markup
    assert f'{PAGE}.html"' in markup and "#claim-elsewhere" not in markup


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


def table(*made_up: records.Record, paper: str = "shen2019") -> _Page:
    return _Page(Table(paper, rows(made_up, paper), "")._repr_html_())


def test_the_page_links_to_the_verdict_and_to_the_erratum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_PAGE", "book/scorecard")
    corrected = record(claim="shen-eq53", outcome="misprint", erratum=12, printed=0.0, part="bias", note="<small>")
    page = table(record(), corrected)
    assert page.all("a", "href") == [
        f"../{PAGE}.html#claim-shen-eq46",
        f"../{PAGE}.html#claim-shen-eq53",
        "../book/errata.html#erratum-12",
    ]
    assert "<small>" in page.text and "1 ± 0.1" in page.text


def test_every_claim_has_its_anchor_once_whether_checked_or_not() -> None:
    for paper in PAPERS:
        expected = [f"scorecard-{claim.id}" for claim in catalogue().values() if claim.paper == paper]
        untouched = table(paper=paper)
        assert untouched.all("li", "id") == expected
        assert untouched.all("table", "class") == [] and untouched.text.count("not yet: ") == 1
        first = expected[0].removeprefix("scorecard-")
        page = table(record(claim=first), paper=paper)
        assert page.all("th", "id") == expected[:1] and page.all("li", "id") == expected[1:]
        assert page.all("div", "tabindex") == ["0"] and page.all("div", "aria-label") != []
        assert "holds" in page.text


def test_a_claim_that_no_chapter_checked_says_what_a_check_has_to_compare() -> None:
    text = table().text
    assert all(claim.must in text for claim in catalogue().values() if claim.paper == "shen2019")
    assert "Paper: rnn_saturation 100; training_baseline 420." in text


def test_a_claim_says_what_was_found_and_its_checks_are_folded_under_it() -> None:
    parts = [
        record(part=name, outcome=outcome) for name, outcome in zip("abc", ("holds", "differs", "holds"), strict=True)
    ]
    markup = Table("shen2019", rows([*parts, record(claim="shen-eq47")], "shen2019"), "")._repr_html_()
    first, second = markup.split("<tbody")[1:]
    assert first.count("<tr") == second.count("<tr") == 2
    shown, folded = first.split("<details>")
    assert "1 of 3 parts differs" in shown and not any(f">{name}</a>" in shown for name in "abc")
    assert folded.index(">b</a>") < folded.index(">a</a>") < folded.index(">c</a>")  # what decides comes first
    assert "3 checks" in folded and "1 check " in second
    columns = markup.split("</thead>")[0].count("<th ")
    assert shown.count("<th ") + shown.count("<td ") - 1 == columns == first.split("<tr")[1].count("role=") - 1
    assert f'colspan="{columns}"' in shown


def test_the_bar_of_a_paper_counts_its_claims_and_the_words_beneath_say_the_same() -> None:
    shown = rows([record(), record(claim="shen-eq47", outcome="differs")], "shen2019")
    markup = Table("shen2019", shown, "")._repr_html_()
    bar, rest = markup.split("</div>", 1)
    assert re.findall(r"flex-grow: (\d+)", bar) == ["1", "1", str(len(shown) - 2)] and "aria-hidden" in bar
    legend = re.sub(r"<[^>]+>|\s+", " ", rest.split("</p>")[0]).split()
    assert " ".join(legend) == f"✓ holds 1 · ✗ differs 1 · ○ not yet {len(shown) - 2}"


def test_what_can_be_chosen_is_what_the_claims_have() -> None:
    shown = rows([record(), record(claim="kerg-prop4", outcome="false", page="notebooks/other_page")])
    choices = [re.findall(r'<option value="([^"]+)"', part) for part in Filters(shown)._repr_html_().split("<select")]
    assert choices[1:] == [
        list(PAPERS), ["holds", "false", "not yet"], ["notebooks/two_point/binary_sequences", "notebooks/other_page"]
    ]  # fmt: skip
    markup = "".join(
        Table(paper, [row for row in shown if row.claim.paper == paper], "")._repr_html_() for paper in PAPERS
    )
    assert markup.count("data-paper=") == markup.count("data-verdict=") == len(shown)
    assert set(re.findall(r'data-chapters="([^"]+)"', markup)) == set(choices[3])


def test_a_folded_check_names_its_page_and_profile_only_where_they_are_others() -> None:
    same, elsewhere = record(part="b"), record(part="c", page="notebooks/other_page", profile="paper")
    text = table(record(part="a"), same, elsewhere).text
    assert "[other page, paper]" in text and "[binary sequences, smoke]" not in text


@pytest.mark.parametrize(
    ("parts", "decisive"),
    [
        ([("a", "holds", None), ("b", "holds", None)], "a"),
        ([("a", "holds", None), ("b", "holds", 0.79)], "b"),
        ([("a", "holds", 0.79), ("b", "differs", None)], "b"),
        ([("a", "reduced", None), ("b", "misprint", 0.79), ("c", "reduced", 1.0)], "c"),
    ],
)
def test_the_worst_part_decides_and_of_several_the_one_with_a_value_of_the_paper(
    parts: list[tuple[str, str, float | None]], decisive: str
) -> None:
    row = rows([record(part=part, outcome=outcome, paper=paper) for part, outcome, paper in parts])
    assert next(one for one in row if one.parts).decisive["part"] == decisive


def test_no_part_decides_where_nothing_was_checked() -> None:
    with pytest.raises(ValueError, match="was not checked"):
        _ = rows([])[0].decisive


@pytest.mark.parametrize(
    ("outcomes", "share"),
    [
        (["holds"], ""),
        (["differs", "differs"], ""),
        (["holds", "differs"], "1 of 2 parts differs"),
        (["differs", "misprint", "differs"], "2 of 3 parts differ"),
        (["holds", "misprint"], "1 of 2 parts has a misprint"),
        (["reduced", "holds", "reduced"], "2 of 3 parts hold at reduced scale"),
        (["undecided", "holds", "holds", "reduced"], "1 of 4 parts is undecided"),
        (["undecided", "undecided", "holds"], "2 of 3 parts are undecided"),
        (["undecided", "differs"], "1 of 2 parts differs"),
        (["false", "misprint"], "1 of 2 parts is false as stated"),
        (["false", "holds", "false"], "2 of 3 parts are false as stated"),
        (["fails", "holds"], "1 of 2 parts fails"),
        (["fails", "fails", "differs"], "2 of 3 parts fail"),
    ],
)
def test_a_row_says_how_many_parts_have_its_verdict_if_not_all_have(outcomes: list[str], share: str) -> None:
    parts = [record(outcome=outcome, part=str(number)) for number, outcome in enumerate(outcomes)]
    row = next(row for row in rows(parts) if row.parts)
    assert row.share == share
    assert share in table(*parts).text and share in text_table(parts)


def test_every_kind_of_comparison_is_shown() -> None:
    made_up = [
        record(part="interval", tolerance=None, within=[0.9, 1.1]),
        record(part="intervals", tolerance=None, measured=[1.0, 2.0], expected=[1, 2], within=[[0.9, 1.1], [1.9, 2.1]]),
        record(part="how sure", tolerance=None, within=[0.5, 1.5], confidence=0.99),
        record(part="bounds", tolerance=None, expected=None, at_least=0.5, at_most=2),
        record(part="summary", measured={"shape": [1000], "first": [0, 1], "smallest": 0.0, "largest": 3.5}),
        record(part="complex", measured={"shape": [1000], "first": ["1j"]}),
        record(part="published", paper={"pg19": [1.1, 0.91]}, relative=True),
        record(part="array", measured=[1.0, 2.0, 3.0, 4.0], expected=[1.0, 2.0, 3.0, 4.0], deviation=3.21e-16),
        record(part="long", measured={"shape": [20, 50]}, expected={"shape": [20, 50]}, deviation=0.01),
    ]
    text = table(*made_up).text
    for piece in (
        "1 (allowed: 1 in [0.9, 1.1])",
        "1, 2 (allowed: expected in each of 2 intervals)",
        "1 in [0.5, 1.5] (99 %)",
        "≥ 0.5, ≤ 2",
        "1000 values in [0, 3.5]",
        "pg19 1.1, 0.91",
        "± 0.1 relative",
        "4 values, largest deviation 3.2e-16 (allowed: ± 0.1)",
        "1000 values, largest deviation 0.01",
    ):
        assert piece in text, piece


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "True"),
        ("1/3", "1/3"),
        (2 / 3, "0.666667"),
        ([1190, 126], "1190, 126"),
        ([[1.0, 2.0], [0.5, 2.0]], "4 values in [0.5, 2]"),
        ([0.0] * 8, "8 values, all 0"),
        (["1/3"] * 8, "8 values"),
        ({"shape": [999], "first": [0.1], "smallest": 0.0063, "largest": 0.1}, "999 values in [0.0063, 0.1]"),
        ({"beta": 0.79}, "beta 0.79"),
        (
            {f"model {number}": number for number in range(20)},
            "20 entries: " + ", ".join(f"model {n}" for n in range(20)),
        ),
    ],
)
def test_a_value_is_told_in_short(value: Any, text: str) -> None:
    assert recorded(value) == text


def test_a_claim_that_differs_shows_what_the_paper_says() -> None:
    claim = catalogue()["shen-eq46"]
    assert paper_value(claim, record(outcome="differs", expected=0.25)) == "0.25"
    assert paper_value(claim, record(outcome="differs", expected=None, tolerance=None, at_most=0.5)) == "≤ 0.5"
    assert paper_value(claim, record(outcome="misprint", printed=0.75)) == "0.75"
    assert paper_value(claim, record(paper=0.79, printed=0.75)) == "0.79"
    assert paper_value(claim, record()) == ""
    assert paper_value(catalogue()["shen-params"], record()) == "1190, 126"


def test_the_note_of_the_decisive_check_is_whole_and_those_of_the_others_are_cut_at_a_word() -> None:
    note = " ".join(["word"] * 40)
    page = table(record(part="a", note=note), record(part="b", note="other " * 40))
    assert note in page.text
    assert "other …" in page.text and page.text.count("other") < 20


def test_counts_add_up() -> None:
    everything = rows([record(), record(claim="kerg-prop4", outcome="differs")])
    by_paper = {paper: counts([row for row in everything if row.claim.paper == paper]) for paper in PAPERS}
    lines = counted(Counts(by_paper, counts(everything), counts([]), part_counts(everything), ""))
    *told, whole, older, parts = lines
    papers = [[int(cell) for cell in line] for line in told]
    assert [sum(column) for column in zip(*papers, strict=True)] == [int(cell) for cell in whole]
    assert sum(map(int, whole)) == len(catalogue())
    sizes = Counter(claim.paper for claim in catalogue().values())
    assert papers[0] == [1, 0, 0, 0, 0, 0, sizes["shen2019"] - 1]
    assert papers[2] == [0, 0, 0, 0, 1, 0, sizes["kerg2020"] - 1]
    assert older == ["0", "0", "0", "0", "0", "0", "–"]
    assert parts == ["1", "0", "0", "0", "1", "0", "–"]


def counted(table: Counts) -> list[list[str]]:
    """The cells of the table, a list for each of its rows."""
    body = table._repr_html_().split("<tbody>")[1]
    return [[cell.split("</td>")[0] for cell in row.split("<td>")[1:]] for row in body.split("<tr")[1:]]


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
    assert shown.strip().endswith(
        "1 holds · 0 holds at reduced scale · 0 misprint · 0 false as stated · 0 differs · "
        f"0 ran, undecided · {len(catalogue()) - 1} not yet; of which 1 rests on records of older code"
    )


# --- older code


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Empty folders of committed and of live records; the present code of every page is "new"."""
    monkeypatch.setattr(scorecard, "COMMITTED", tmp_path / "committed")
    monkeypatch.setattr(scorecard, "current_codes", lambda pages: dict.fromkeys(pages, "new"))
    return tmp_path / "committed" / "laptop" / "x.jsonl", tmp_path / "live" / "smoke" / "x.jsonl"


def made_by(code: str, profile: str = "laptop", date: str = "2026-01-01", **changes: Any) -> records.Record:
    origin = {"date": f"{date}T12:00:00+00:00", "code": code, "commit": f"c-{code}"}
    return record(profile=profile, **changes) | {"provenance": origin}


def loaded(folders: tuple[Path, Path]) -> list[records.Record]:
    return load_records([folders[1].parent])


def test_a_record_of_older_code_says_so_everywhere(folders: tuple[Path, Path]) -> None:
    write(folders[0], made_by("old", date="2025-12-24"), made_by("new", claim="shen-eq53"))
    text, page = text_table(loaded(folders)), table(*loaded(folders))
    of_old, of_new = (next(line for line in text.splitlines() if name in line) for name in ("shen-eq46", "shen-eq53"))
    assert "(older code)" in of_old and "older" not in of_new
    assert "[laptop, older code of 2025-12-24, commit c-old]" in text and "[laptop]" in text
    assert text.endswith("of which 1 rests on records of older code")
    assert page.text.count("↺ older code") == 1
    assert "laptop, 2025-12-24, commit c-old, older code old" in page.text
    assert "laptop, 2026-01-01, commit c-new, code new" in page.text
    assert counted(counts_of(*loaded(folders))) == [
        ["2", "0", "0", "0", "0", "0", str(len(catalogue()) - 2)],
        ["1", "0", "0", "0", "0", "0", "–"],
        ["2", "0", "0", "0", "0", "0", "–"],
    ]


def test_the_counts_on_a_page_say_how_many_claims_rest_on_older_code(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folders[0], made_by("old"), made_by("old", claim="shen-eq53"), made_by("new", claim="shen-eq47"))
    scorecard.show_counts()
    assert "of which 2 rest on records of older code" in capsys.readouterr().out


def test_a_claim_says_how_many_of_its_parts_are_of_older_code(folders: tuple[Path, Path]) -> None:
    write(folders[0], made_by("old", part="a"), made_by("new", part="b"), made_by("old", part="c"))
    assert "2 of 3 parts of older code" in text_table(loaded(folders))
    page = table(*loaded(folders))
    assert "↺ 2 of 3 parts of older code" in page.text
    folded = Table("shen2019", rows(loaded(folders), "shen2019"), "")._repr_html_().split("<ul>")[1]
    assert folded.count("older code") == 1 and "older code of" not in folded  # the same day and commit as the row's own


def test_a_check_that_is_made_now_is_of_the_present_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorecard, "COMMITTED", tmp_path / "none")
    monkeypatch.setenv("BOOK_PAGE", PAGE)
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path / "x.jsonl"))
    check("shen-eq46", 1.0, 1.0, 0.1)
    (now,) = load_records([tmp_path])
    assert not now["older"]
    assert now["provenance"]["code"] == provenance.code_version(PAGE)
    (tmp_path / "x.jsonl").unlink()
    write(tmp_path / "x.jsonl", made_by("0" * 12))
    assert load_records([tmp_path])[0]["older"]


def test_at_one_profile_the_present_code_counts_whatever_the_dates(folders: tuple[Path, Path]) -> None:
    write(folders[0], made_by("old", outcome="differs", date="2026-03-03"))
    write(folders[1], made_by("new", date="2026-02-02"))
    assert status(*loaded(folders)) == "holds" and "older" not in text_table(loaded(folders)).split(";")[0]


@pytest.mark.parametrize(
    ("laptop", "smoke", "told"),
    [
        ("reduced", "reduced", "the smoke check of the present code agrees"),
        ("reduced", "holds", "the smoke check of the present code agrees"),
        ("differs", "differs", "the smoke check of the present code agrees"),
        ("reduced", "differs", "the smoke check of the present code says: differs"),
        ("differs", "undecided", "the smoke check of the present code says: ran, undecided"),
        ("holds", "misprint", "the smoke check of the present code says: misprint"),
    ],
)
def test_beside_a_laptop_record_of_older_code_stands_what_the_present_code_says(
    folders: tuple[Path, Path], laptop: str, smoke: str, told: str
) -> None:
    write(folders[0], made_by("old", outcome=laptop, measured=7.0))
    reason = {"reason": "seeds disagree"} if smoke == "undecided" else {}
    write(folders[1], made_by("new", "smoke", outcome=smoke, measured=1.0, **reason))
    (row,) = [row for row in rows(loaded(folders)) if row.parts]
    assert row.status == laptop and row.decisive["measured"] == 7.0  # the value is that of the higher profile
    page = table(*loaded(folders))
    assert told in page.text and told in text_table(loaded(folders))
    assert "↺ older code" in page.text


@pytest.mark.parametrize(
    ("laptop", "smoke"), [("new", "new"), ("new", "old"), ("old", "old")], ids=["fresh", "fresh laptop", "both old"]
)
def test_without_a_live_check_of_the_present_code_nothing_is_said_of_one(
    folders: tuple[Path, Path], laptop: str, smoke: str
) -> None:
    write(folders[0], made_by(laptop))
    write(folders[1], made_by(smoke, "smoke"))
    text = text_table(loaded(folders))
    assert "present code" not in text and "present code" not in table(*loaded(folders)).text
    assert ("older code of" in text) is (laptop == "old")


# --- checks that fail


@pytest.mark.parametrize("earlier", ["smoke", "laptop", "paper"])
def test_a_live_check_that_fails_is_hidden_by_no_earlier_record(folders: tuple[Path, Path], earlier: str) -> None:
    write(folders[0], made_by("new", earlier, part="a"), made_by("new", earlier, part="b"))
    assert status(*loaded(folders)) == "holds"
    failing = made_by("new", "smoke", "2026-02-02", part="a", outcome="fails", sentence="does not hold: 3 against 1")
    write(folders[1], failing)
    assert status(*loaded(folders)) == "fails"
    text, page = text_table(loaded(folders)), table(*loaded(folders))
    assert any(line.startswith("✗ check fails") and "(1 of 2 parts fails)" in line for line in text.splitlines())
    assert "1 check fails" in text.splitlines()[-1]
    for shown in (text, page.text):
        assert "does not hold: 3 against 1" in shown and "check fails" in shown
    assert [link for link in page.all("a", "href") if "#" not in str(link)]  # it stands on no page
    folders[1].unlink()
    write(folders[1], made_by("new", "smoke", "2026-02-03", part="a"))  # the page ran again and passed
    assert status(*loaded(folders)) == "holds" and "fails" not in text_table(loaded(folders))


def test_a_check_that_failed_and_then_passed_at_its_profile_has_passed(folders: tuple[Path, Path]) -> None:
    write(folders[1], made_by("new", "smoke", "2026-02-02", outcome="fails"), made_by("new", "smoke", "2026-02-03"))
    assert status(*loaded(folders)) == "holds"


def test_a_failing_check_is_shown_although_a_later_one_at_another_profile_passes(folders: tuple[Path, Path]) -> None:
    write(folders[1], made_by("new", "smoke", "2026-02-02", outcome="fails"), made_by("new", "laptop", "2026-02-03"))
    assert status(*loaded(folders)) == "fails"


def test_the_status_of_failing_checks_is_counted_where_there_are_any() -> None:
    for outcome, heads in (("holds", 0), ("fails", 1)):
        shown = counts_of(record(outcome=outcome))
        assert shown._repr_html_().count("check fails") == heads
        assert sum(int(cell) for cell in counted(shown)[0]) == len(catalogue())


# --- what ran and is undecided


def test_an_undecided_part_is_shown_with_reason_and_sentence_and_counted(folders: tuple[Path, Path]) -> None:
    open_part = made_by("new", part="b", outcome="undecided", reason="seeds disagree", paper=0.76,
                        sentence="seeds disagree: 4 values in [1, 2], asked for: at most 1; few epochs",
                        note="few epochs")  # fmt: skip
    for key in ("measured", "expected", "tolerance"):
        del open_part[key]
    write(folders[0], made_by("new", part="a"), open_part, made_by("new", part="c"))
    text, page = text_table(loaded(folders)), table(*loaded(folders))
    (line,) = [line for line in text.splitlines() if line.startswith("◇ ran, undecided")]
    assert "(1 of 3 parts is undecided)" in line
    for shown in (text, page.text):
        assert "4 values in [1, 2], asked for: at most 1" in shown and "seeds disagree" in shown
    assert "0.76" in page.text and page.text.count("few epochs") == 2  # what was found, and the check
    assert "1 ran, undecided" in text.splitlines()[-1]
    assert counts(rows(loaded(folders)))["not yet"] == len(catalogue()) - 1
    folded = table(*loaded(folders), made_by("new", part="d", outcome="differs")).text
    assert "◇ ran, undecided b: seeds disagree: 4 values" in folded


# --- files of records


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown outcome": ({"outcome": "true"}, "field outcome: .*'holds'.*given 'true'"),
    "former outcome": ({"outcome": "corrected"}, "field outcome: .*'misprint'.*'false'.*given 'corrected'"),
    "unknown condition": ({"condition": "for long"}, "field condition: .*'', 'as printed' or 'to plateau'.*given 'for"),
    "no condition": ({"condition": None}, "field condition: .*'as printed'.*given None"),
    "remark in words": ({"remark": "yes"}, "field remark: .*boolean.*given 'yes'"),
    "unknown profile": ({"profile": "huge"}, "field profile: .*'smoke', 'laptop' or 'paper'.*given 'huge'"),
    "number as text": ({"tolerance": "0.1"}, "field tolerance: .*number.*given '0.1'"),
    "NaN": ({"measured": float("nan")}, "field measured: .*finite.*given nan"),
    "NaN in a list": ({"within": [0.0, float("nan")]}, "field within: .*finite"),
    "infinite": ({"at_most": float("inf")}, "field at_most: .*finite"),
    "NaN in words": ({"expected": [1.0, "nan"]}, "field expected: NaN"),
    "text for a number": ({"measured": ["many"]}, "field measured: a number"),
    "nothing in a list": ({"printed": [None]}, "field printed: a number"),
    "text for a flag": ({"relative": "no"}, "field relative: .*boolean.*given 'no'"),
    "number for text": ({"sentence": 1}, "field sentence: .*string.*given 1"),
    "no number of an erratum": ({"erratum": "12"}, "field erratum: .*integer.*given '12'"),
    "confidence in per cent": ({"confidence": 95}, "field confidence: .*less than 1.*given 95"),
    "unknown field": ({"tolerence": 0.1}, "field tolerence: .*not permitted"),
    "unknown reason": ({"outcome": "undecided", "reason": "bored"}, "field reason: .*'not converged'.*given 'bored'"),
    "no reason": ({"outcome": "undecided"}, "field reason: one is needed .*given None"),
    "reason of a check": ({"reason": "seeds disagree"}, "field reason: .*with no other, given 'seeds disagree'"),
    "no date": ({"provenance": {"code": "abc"}}, "field provenance.date: .*required"),
    "no day": ({"provenance": {"code": "abc", "date": "today"}}, "field provenance.date: a date .*given 'today'"),
    "code as number": ({"provenance": {"code": 7, "date": "2026-01-01"}}, "field provenance.code: .*string.*given 7"),
    "provenance as text": ({"provenance": "here"}, "field provenance: .*given 'here'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_record_that_is_none_is_refused_by_file_line_and_field(case: str, tmp_path: Path) -> None:
    changes, message = BROKEN[case]
    path = tmp_path / "laptop" / "x.jsonl"
    write(path, record())
    with path.open("a") as file:
        file.write(json.dumps(record() | changes) + "\n")
    with pytest.raises(ValueError, match=rf"laptop/x\.jsonl, line 2 .*{message}") as refused:
        list(records.read(path))
    assert str(refused.value).count("field") == 1 and "\n" not in str(refused.value)
    with pytest.raises(ValueError, match=message):
        records.append(tmp_path / "y.jsonl", record() | changes)
    assert not (tmp_path / "y.jsonl").exists()


def test_all_wrong_fields_of_a_record_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record() | {"outcome": "true", "profile": "huge"}) + "\n")
    with pytest.raises(ValueError, match=r"x\.jsonl, line 1 .*field outcome: .*field profile: "):
        list(records.read(path))
    path.write_text('["a list"]\n')
    with pytest.raises(ValueError, match=r"x\.jsonl, line 1 .*ClaimRecord.*given \['a list'\]"):
        list(records.read(path))


@pytest.mark.parametrize(
    "changes",
    [
        {"measured": "1/3", "expected": ["inf", -1, 2.5], "at_least": "-inf", "deviation": "inf"},
        {"measured": {"shape": [1000], "first": ["1j", "(1+2j)"]}, "paper": "as printed", "printed": {"shape": [40]}},
        {"paper": {"pg19": [1.1, 0.91]}, "provenance": {"date": "2026-01-01", "code": "abc", "seed": None}},
        {"outcome": "false", "erratum": 8, "note": "for even n", "remark": True},
        {"outcome": "misprint", "erratum": 8, "printed": 2.0, "condition": "as printed"},
        {"condition": "to plateau", "remark": False},
        {"sentence": "two\u2028lines\u0085in one", "within": [[0, 1], [2, 3]], "confidence": 0.99},
    ],
)
def test_what_checks_record_is_read_as_it_was_written(changes: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", record() | changes)
    assert list(records.read(tmp_path / "x.jsonl")) == [record() | changes]


def test_a_record_of_before_conditions_and_remarks_is_read_and_counts_as_part_of_its_claim(tmp_path: Path) -> None:
    old = record()
    assert not {"condition", "remark"} & set(old)
    (tmp_path / "x.jsonl").write_text(json.dumps(old) + "\n")
    assert list(records.read(tmp_path / "x.jsonl")) == [old]
    assert status(old, record(outcome="differs", **REMARK)) == "holds"


def test_a_line_that_was_torn_inside_a_character_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", record())
    with (tmp_path / "x.jsonl").open("ab") as file:
        file.write('{"note": "≤'.encode()[:-1])
    assert len(list(records.read(tmp_path / "x.jsonl"))) == 1


def test_a_failing_check_stays_until_its_part_is_checked_again(tmp_path: Path) -> None:
    written, kept = tmp_path / "x.partial-1.jsonl", tmp_path / "x.jsonl"
    parts = lambda: [(entry["part"], entry["outcome"]) for entry in records.read(kept)]  # noqa: E731
    write(kept, record(part="a"), record(part="b", outcome="fails"), record(part="c", outcome="fails"))
    records.keep_of_failed_page(written, kept)  # it failed before its first check
    assert len(parts()) == 3
    write(written, record(part="a"), record(part="b"))
    records.keep_of_failed_page(written, kept)
    assert parts() == [("a", "holds"), ("b", "holds"), ("c", "fails")] and not written.exists()
    write(written, record(part="c", outcome="fails", sentence="anew"))
    records.keep_of_failed_page(written, kept)
    assert parts() == [("c", "fails")]
    kept.write_text("no record\n")
    write(written, record(part="a"))
    records.keep_of_failed_page(written, kept)
    assert parts() == [("a", "holds")]


def test_on_a_full_disk_a_check_that_fails_now_is_kept_before_one_that_failed_earlier(tmp_path: Path, monkeypatch):
    def full(path: Path, entry: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    written, kept = tmp_path / "x.partial-1.jsonl", tmp_path / "x.jsonl"
    write(kept, record(part="a"), record(part="c", outcome="fails"))
    write(written, record(part="a", outcome="fails"))
    monkeypatch.setattr(records, "append", full)
    records.keep_of_failed_page(written, kept)
    assert [(entry["part"], entry["outcome"]) for entry in records.read(kept)] == [("a", "fails")]
