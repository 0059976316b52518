"""Prose pages: what they cite and link to exists, and nothing on them needs a script."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from pybtex.database import parse_file

from lib import ROOT
from lib.batch.pages import Page, table_of_contents
from lib.report import benchmarks

BOOK = ROOT / "book"
CHAPTERS = [ROOT / f"{name}.md" for name in table_of_contents() if name.startswith("notebooks/")]
CHAPTERS = [path for path in CHAPTERS if path.exists()]  # that none is missing is the build's own test
PAGES = [*sorted(BOOK.glob("*.md")), *CHAPTERS]
REQUIRED = {
    "shen2019", "l2m2025", "kerg2020", "ngram2024", "grassberger2003", "grassberger2008", "miller1955", "paninski2003",
    "davies1987", "dietrich1997", "wood1994", "polya1949", "jacobs1978", "merity2016", "marcus1993", "mahoney2011",
    "radford2019", "lin2017", "ebeling1994", "sennrich2016",
}  # fmt: skip


def names(pages: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in pages]


def bibliography() -> set[str]:
    return set(parse_file(BOOK / "references.bib").entries)


def test_the_bibliography_is_complete() -> None:
    assert bibliography() >= REQUIRED
    for key, entry in parse_file(BOOK / "references.bib").entries.items():
        assert {"title", "year"} <= set(entry.fields) and entry.persons["author"], key


@pytest.mark.parametrize("page", names(PAGES))
def test_what_a_page_cites_is_in_the_bibliography(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    cited = {key.strip() for keys in re.findall(r"\{cite[:a-z]*\}`([^`]*)`", text) for key in keys.split(",")}
    assert cited <= bibliography()


@pytest.mark.parametrize("page", names(CHAPTERS))
def test_an_erratum_that_a_chapter_names_is_on_the_errata_page(page: str) -> None:
    listed = set(re.findall(r"^\(erratum-(\d+)\)=$", (BOOK / "errata.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"erratum\s*=\s*(\d+)", (ROOT / page).read_text(encoding="utf-8"))) <= listed


def exercises(page: Page) -> tuple[list[int], list[int]]:
    """Numbers of the questions that a chapter asks at its end, and of the folded cells that assert an answer."""
    cells = page.notebook().cells
    starts = [place for place, cell in enumerate(cells) if "## Exercises\n" in cell.source]
    if not starts:
        return [], []
    later = [cell.source for cell in cells[starts[-1] + 1 :] if cell.cell_type == "markdown"]
    section = "\n".join([cells[starts[-1]].source.partition("## Exercises\n")[2], *later])
    asked = re.findall(r"^(\d+)\. ", section, re.MULTILINE)
    folded = [cell.source for cell in cells[starts[-1] + 1 :] if "hide-cell" in cell.metadata.get("tags", [])]
    asserting = [code for code in folded if any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code)))]
    answered = [match for match in (re.match(r"# Exercise (\d+)\n", code) for code in asserting) if match]
    return [int(number) for number in asked], [int(match[1]) for match in answered]


def are_whole(asked: list[int], answered: list[int]) -> bool:
    return asked == answered == list(range(1, len(asked) + 1)) and 2 <= len(asked) <= 4


@pytest.mark.parametrize("page", names(CHAPTERS))
def test_a_chapter_ends_in_exercises_whose_solutions_assert_their_answers(page: str) -> None:
    asked, answered = exercises(Page(page.removesuffix(".md")))
    assert are_whole(asked, answered)


@pytest.mark.parametrize(
    ("text", "damage"),
    [
        ("## Exercises\n", "## Questions\n"),
        ("\n2. ", "\n3. "),
        (":tags: [hide-cell]\n# Exercise 1", ":tags: [hide-input]\n# Exercise 1"),
        ("# Exercise 1\n", "# A solution\n"),
        ("assert ", "print() if 0 else "),
    ],
)
def test_exercises_that_are_not_whole_are_seen(text: str, damage: str) -> None:
    page = Page("notebooks/two_point/entropy_estimators")
    whole, section, end = page.text.partition("## Exercises\n")
    page.__dict__["text"] = whole + (section + end).replace(text, damage)
    assert not are_whole(*exercises(page))


def test_every_erratum_has_printed_and_right_form_a_smallest_case_and_a_proof() -> None:
    entries = re.split(r"^\(erratum-\d+\)=$", (BOOK / "errata.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        for piece in ("**Printed:**", "**Right:**", "**Smallest case:**", "```{code-cell}", "Proof: {ref}`"):
            assert piece in entry, (piece, entry[:60])


def test_static_files_hold_one_script_and_no_page() -> None:
    assert [path.name for path in (BOOK / "_static").rglob("*") if path.suffix in (".js", ".html")] == [
        "own_machine.js"
    ]


def test_every_page_has_one_title_and_a_label() -> None:
    for path in sorted(BOOK.glob("*.md")):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, path.name
        assert re.search(r"^\([a-z-]+\)=\n# ", text, re.MULTILINE), path.name


def test_a_recorded_benchmark_becomes_a_table(tmp_path: Path) -> None:
    recorded = {
        "title": "Counting <pairs>",
        "description": "One core.",
        "provenance": {"device": "a CPU", "versions": {"numpy": "2"}},
        "tables": [
            {
                "title": "All",
                "rows": [{"tool": "ours", "seconds": 0.1234, "ratio": 1}, {"tool": "theirs", "seconds": 1.5}],
            }
        ],
    }
    (tmp_path / "counting.json").write_text(json.dumps(recorded))
    (table,) = benchmarks.load(tmp_path)
    markup = table._repr_html_()
    assert "Counting &lt;pairs&gt;" in markup
    assert "<td>0.123</td><td>1</td>" in markup and "<td>1.5</td><td></td>" in markup
    assert "device a CPU; versions numpy 2" in markup
    assert "theirs  1.5" in str(table)


def test_a_recorded_benchmark_is_read_back(tmp_path: Path) -> None:
    rows = [{"tool": "ours", "seconds": 0.5}, {"tool": "theirs", "seconds": 1.5}]
    written = benchmarks.record(tmp_path / "b.json", "Title", "What.", {"All": rows}, packages=("numpy",), repeats=3)
    (read,) = benchmarks.load(tmp_path)
    assert read.tables == {"All": rows} and str(read) == str(written)
    assert {"date", "commit", "code", "device", "numpy", "repeats"} <= set(read.provenance)


@pytest.mark.parametrize("text", ["{", "[]", '{"title": "x"}'])
def test_a_file_that_is_no_benchmark_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(ValueError, match=r"odd\.json"):
        benchmarks.load(tmp_path)


def test_the_committed_benchmarks_are_readable() -> None:
    assert all(rows for benchmark in benchmarks.load() for rows in benchmark.tables.values())
