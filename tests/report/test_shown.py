"""What a page shows of checks: a line for one, a table for all that one cell has checked, and nothing is lost in it."""

from __future__ import annotations

import html.parser
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from lib.report import claims, page
from lib.report.catalogue import find
from lib.report.claims import check
from lib.report.shown import LONGEST_NOTE, Verdict, Verdicts, anchor

KNOWN, OTHER = "shen-eq46", "shen-eq47"
ONE = "check('shen-eq46', 1.0, 1.0, 0.1, part='{}')"


class Outline(html.parser.HTMLParser):
    """Elements of a piece of HTML, and the text of each cell of a table by the name of its column."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[dict[str, str]] = []
        self.text, self.column = "", ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append({})
        elif tag in ("th", "td"):
            self.column = dict(attributes).get("data-column") or "Part"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows:
            self.rows[-1][self.column] = self.rows[-1].get(self.column, "") + data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """What is checked on a page, instead of being displayed."""
    monkeypatch.setenv("BOOK_PAGE", "notebooks/two_point/binary_sequences")
    found: list[Verdict] = []
    monkeypatch.setattr(claims, "show_together", lambda verdict, _: found.append(verdict))
    return found


def test_a_verdict_is_a_line_with_anchor_word_and_link(shown: list[Verdict]) -> None:
    check(KNOWN, 1.0, 1.0, 0.1, part="<angle> & more", outcome="reduced")
    outline = Outline(shown[0]._repr_html_())
    assert outline.found[0][1] == {
        "class": "claim-verdict claim-reduced",
        "id": anchor(KNOWN, "<angle> & more"),
    }
    assert ("a", {"href": "../../book/scorecard.html#scorecard-shen-eq46"}) in outline.found
    assert "holds at reduced scale" in outline.text and "<angle> & more" in outline.text
    claims.undecided(KNOWN, part="x", reason="seeds disagree", sentence="1 < 2")
    assert 'class="claim-verdict claim-undecided"' in shown[1]._repr_html_() and "1 &lt; 2" in shown[1]._repr_html_()


def test_anchors_are_plain() -> None:
    assert anchor("shen-eq46") == "claim-shen-eq46"
    assert anchor("shen-eq46", "γ = 0.1 … lag 1") == "claim-shen-eq46-0-1-lag-1"


def test_a_verdict_leads_to_the_errata_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_PAGE", "notebooks/two_point/page")
    line = Verdict(find("shen-eq46"), "", "differs", "of erratum 12 & more; see erratum 3")._repr_html_()
    for number in (12, 3):
        assert f'<a href="../../book/errata.html#erratum-{number}">erratum {number}</a>' in line
    assert "&amp; more" in line
    assert "errata.html" not in Verdict(find("shen-eq46"), "", "differs", "an erratum has 12 lines")._repr_html_()


# --- several of one cell


def test_a_row_says_what_the_line_of_its_verdict_says(shown: list[Verdict]) -> None:
    check(KNOWN, 0.41, 0.4, within=(0.39, 0.43), part="<a> & b", condition="as printed", remark=True, paper=0.42)
    check(KNOWN, 0.5, 0.501, 0.01, part="c", outcome="misprint", erratum=8, printed=0.7, note="half of it")
    check(KNOWN, [1.0, 2.0], at_most=1.0, part="d", outcome="differs", note="of another size")
    claims.undecided(KNOWN, part="e", reason="seeds disagree", sentence="4 values in [1, 2]", note="few")
    check(KNOWN, [1.0, 2.0, 3.0, 4.5], [1.0, 2.0, 3.0, 4.0], 1.0, part="f")
    outline = Outline(Verdicts(shown)._repr_html_())
    head, *rows = outline.rows
    assert head == {"Part": "PartVerdictFoundAsked for"}
    assert rows == [
        {"Part": "<a> & b as printed, a remark", "Verdict": "✓ holds", "Found": "0.41",
         "Asked for": "0.4 in [0.39, 0.43] (95 %)paper: 0.42"},
        {"Part": "c", "Verdict": "✎ misprint erratum 8", "Found": "0.5, off by 0.001half of it",
         "Asked for": "0.501 ± 0.01printed form: 0.7"},
        {"Part": "d", "Verdict": "✗ differs", "Found": "1, 2of another size", "Asked for": "≤ 1"},
        {"Part": "e", "Verdict": "◇ ran, undecided", "Found": "seeds disagree4 values in [1, 2]; few"},
        {"Part": "f", "Verdict": "✓ holds", "Found": "4 values in [1, 4.5], off by at most 0.5",
         "Asked for": "4 values in [1, 4] ± 1"},
    ]  # fmt: skip
    assert [row.get("class") for row in outline.all("tr")[1:]] == [
        f"claim-{outcome}" for outcome in ("holds", "misprint", "differs", "undecided", "holds")
    ]
    assert [row.get("id") for row in outline.all("tr")[1:]] == [verdict.anchor for verdict in shown]
    assert [link["href"] for link in outline.all("a")] == [
        "../../book/scorecard.html#scorecard-shen-eq46",  # once, above the table
        "../../book/errata.html#erratum-8",
    ]
    assert repr(Verdicts(shown)).splitlines() == [str(verdict) for verdict in shown]


def test_rows_of_several_claims_name_theirs_and_a_row_without_a_part_does_too(shown: list[Verdict]) -> None:
    check(KNOWN, 1.0, 1.0, 0.1, part="a")
    check(OTHER, 1.0, 1.0, 0.1)
    rows = Outline(Verdicts(shown)._repr_html_()).rows[1:]
    assert [row["Part"] for row in rows] == ["shen-eq46 a", "shen-eq47"]
    check(KNOWN, 1.0, 1.0, 0.1)
    rows = Outline(Verdicts([shown[0], shown[2]])._repr_html_()).rows[1:]
    assert [row["Part"] for row in rows] == ["a", "shen-eq46"]


@pytest.mark.parametrize(("length", "folds"), [(LONGEST_NOTE, 0), (LONGEST_NOTE + 1, 1)])
def test_long_notes_are_folded_and_whole(length: int, folds: int, shown: list[Verdict]) -> None:
    for part in "ab":
        check(KNOWN, 1.0, 2.0, 0.1, part=part, outcome="differs", note="x" * length)
    outline = Outline(Verdicts(shown)._repr_html_())
    assert len(outline.all("details")) == 2 * folds
    assert outline.text.count("x" * length) == 2


def test_a_single_verdict_stays_a_line(shown: list[Verdict]) -> None:
    check(KNOWN, 1.0, 1.0, 0.1)
    assert Verdicts(shown)._repr_html_() == shown[0]._repr_html_()
    assert repr(Verdicts(shown)) == str(shown[0])


class Notebook(InteractiveShell):  # type: ignore[misc]
    """A shell that has a kernel, and keeps what it displays."""

    kernel = None
    outputs: list[dict[str, Any]]

    def run(self, *lines: str) -> list[tuple[str, str]]:
        """Outputs of a cell, HTML and text, as a notebook keeps them: what is displayed again takes its old place."""
        self.display_pub.outputs.clear()
        self.run_cell("\n".join(lines))
        kept: dict[Any, tuple[str, str]] = {}
        for number, output in enumerate(self.display_pub.outputs):
            data, name = output["data"], (output["transient"] or {}).get("display_id", number)
            assert output["update"] is (name in kept)
            kept[name] = data["text/html"], data["text/plain"]
        return list(kept.values())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.delenv("BOOK_RECORDS", raising=False)
    shell = Notebook(display_pub_class=CapturingDisplayPublisher)
    monkeypatch.setattr(page, "running_shell", lambda: shell)
    monkeypatch.setattr(InteractiveShell, "initialized", lambda: True)
    monkeypatch.setattr(InteractiveShell, "instance", lambda *_: shell)
    shell.run_cell("from lib.report.claims import check")
    yield shell
    shell.history_manager.end_session()


def parts(table: str) -> list[str]:
    return [row["Part"] for row in Outline(table).rows[1:]]


def test_what_one_cell_checks_is_one_output(notebook: Notebook) -> None:
    ((table, text),) = notebook.run(*(ONE.format(part) for part in "abc"))
    assert parts(table) == ["a", "b", "c"] and len(text.splitlines()) == 3
    ((line, text),) = notebook.run(ONE.format("d"))  # the next cell begins anew
    assert line.startswith("<p") and "(d)" in text and "(c)" not in text
    assert [line.count("<tr") for line, _ in notebook.run(ONE.format("a"), ONE.format("b"))] == [3]


def test_a_cell_that_fails_shows_what_it_had_checked(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    failing = "check('shen-eq46', 1.0, 2.0, 0.1, part='wrong')"
    ((table, _),) = notebook.run(ONE.format("a"), ONE.format("b"), failing, ONE.format("c"))
    assert parts(table) == ["a", "b"]
    assert "shen-eq46 (wrong) does not hold" in capsys.readouterr().out
    ((line, _),) = notebook.run(ONE.format("c"))
    assert line.startswith("<p")


def test_where_there_is_no_notebook_each_check_is_shown_by_itself(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(Notebook, "kernel")  # IPython in a terminal
    assert [text for _, text in notebook.run(ONE.format("a"), ONE.format("b"))] == [
        f"✓ holds · shen-eq46 ({part}): 1 against 1; |difference| 0 ≤ 0.1" for part in "ab"
    ]
    monkeypatch.setattr(page, "running_shell", lambda: None)  # plain Python
    check(KNOWN, 1.0, 1.0, 0.1, part="c")
    check(KNOWN, 1.0, 1.0, 0.1, part="d")
    assert [line[:26] for line in capsys.readouterr().out.splitlines()] == [
        f"✓ holds · shen-eq46 ({part}): 1" for part in "cd"
    ]
