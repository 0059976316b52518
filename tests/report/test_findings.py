"""What was found in plain words: a sentence for every claim and its status, with numbers from the records alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lib import ROOT
from lib.information import fit_power_law
from lib.processes import PowerLawBinary
from lib.report import benchmarks, findings, scorecard
from lib.report.catalogue import find
from lib.report.scorecard import Row
from lib.report.shown import WORDS
from lib.runs.definition import Experiment, experiment_files

CLAIM = "shen-eq47"


def part(outcome: str, name: str = "", **fields: Any) -> dict[str, Any]:
    plain = {
        "claim": CLAIM, "part": name, "outcome": outcome, "sentence": f"{outcome}: 1 against 2", "profile": "laptop",
        "page": "notebooks/two_point/binary_sequences", "anchor": f"claim-{CLAIM}",
        "provenance": {"date": "2026-01-01", "code": "abc"}, "measured": None,
    }  # fmt: skip
    return plain | fields


def row(*parts: dict[str, Any]) -> Row:
    return Row(find(CLAIM), parts)


def told(sentence: str, *parts: dict[str, Any]) -> str:
    made = row(*parts)
    return findings.finding(made, {CLAIM: {"says": "It says.", made.status: sentence}}).sentence


@pytest.fixture(scope="module")
def recorded() -> list[Row]:
    return scorecard.rows(scorecard.load_records([]))


def test_every_claim_has_a_plain_sentence_and_one_for_the_verdict_that_is_recorded(recorded: list[Row]) -> None:
    table = findings.sentences()
    without = [row.claim.id for row in recorded if row.claim.id not in table]
    assert not without, without
    silent = [(row.claim.id, row.status) for row in recorded if row.status not in table[row.claim.id]]
    assert not silent, silent
    assert set(table) == {row.claim.id for row in recorded}


@pytest.mark.parametrize("claim", sorted(findings.sentences()))
def test_a_sentence_can_be_filled_and_is_one_sentence_or_two(claim: str, recorded: list[Row]) -> None:
    (row,) = (row for row in recorded if row.claim.id == claim)
    found = findings.finding(row)
    template = findings.sentences()[row.claim.id].get(row.status)
    assert not template or not row.parts or found.sentence == findings.filled(row, template)
    for text in (found.says, found.sentence):
        assert text[0].isupper() or not text[0].isalpha()
        assert text.endswith(".") and len(text) <= 300
        assert "{" not in text and "$" not in text and "`" not in text


def test_numbers_come_from_the_records() -> None:
    parts = (part("holds", "a", measured=[3.0, 1.5], paper=2), part("holds", "b", measured=0.25))
    assert told("{{ ours('a') }}; {{ ours('b') }}.", *parts) == "3, 1.5; 0.25."
    assert told("{{ '%.1f' | format(low('a')) }} to {{ '%.1f' | format(high('a')) }}.", *parts) == "1.5 to 3.0."
    assert told("{{ paper('a') }}, {{ held() }}.", *parts) == "2, 2 of 2."
    assert told("{{ decides() }}.", *parts, part("differs", "c")) == "c."
    open_ones = [part("undecided", name, reason=why) for name, why in zip("abc", ("late", "wide", "late"), strict=True)]
    assert told("{{ why() }}.", *open_ones, part("reduced", "d")) == "late (2), wide (1)."
    mixed = (part("undecided", "a"), part("reduced", "b"), part("holds", "c"), part("differs", "d"))
    asked = "{% for name in 'abcd' %}{{ 'y' if agrees(name) else 'n' }}{% endfor %}."
    assert told(asked, *mixed) == "nyyn."
    summary = {"shape": [50], "first": [4.0], "smallest": 1.0, "largest": 9.0}
    assert told("{{ low('') }} {{ high('') }}.", part("holds", measured=summary)) == "1.0 9.0."


def test_another_status_is_told_by_another_sentence_and_by_the_record_where_there_is_none() -> None:
    table = {CLAIM: {"says": "It says.", "holds": "It holds.", "differs": "It does not."}}
    assert findings.finding(row(part("holds")), table).sentence == "It holds."
    assert findings.finding(row(part("holds"), part("differs", "b")), table).sentence == "It does not."
    assert findings.finding(row(part("undecided")), table).sentence == "undecided: 1 against 2"
    nothing = findings.finding(row(), table)
    assert nothing.status == "not yet" and nothing.sentence == "Nothing has run for it."
    assert findings.finding(row(), {}).says == find(CLAIM).statement


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [("{{ ours('c') }}.", "no part 'c'"), ("{{ theirs('a') }}.", "theirs"), ("{{ ours('a') .", "unexpected|expected")],
)
def test_a_sentence_that_cannot_be_filled_is_refused(sentence: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        findings.filled(row(part("holds", "a", measured=1.0)), sentence)


def test_a_part_that_has_not_run_leaves_the_record_to_speak() -> None:
    assert told("{{ ours('c') }}.", part("holds", "a", measured=1.0)) == "holds: 1 against 2"
    assert told("{{ low('a') }}.", part("holds", "a")) == "holds: 1 against 2"  # it ran and measured nothing


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- shen-eq47\n", "expected claims with their sentences, found list"),
        ("shen-eq47: {holds: It holds.}\n", "expected 'says'"),
        ("shen-eq47: {says: It., hold: It holds.}\n", "unknown status 'hold', known: says, holds"),
        ("shen-eq47: {says: It., holds: ''}\n", "a sentence is needed"),
        ("shen-eq47: {says: [", "is not YAML"),
    ],
)
def test_a_malformed_file_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "shen2019.yml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        findings.sentences(tmp_path)


def test_a_claim_has_its_sentences_once(tmp_path: Path) -> None:
    for name in ("a.yml", "b.yml"):
        (tmp_path / name).write_text("shen-eq47: {says: It.}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has its sentences already"):
        findings.sentences(tmp_path)


def test_the_list_links_to_the_check_and_escapes_what_it_shows() -> None:
    found = findings.finding(row(part("holds", measured=1.0)), {CLAIM: {"says": "It.", "holds": "It is < 2."}})
    shown = findings.Listed([found])._repr_html_()
    assert f'href="notebooks/two_point/binary_sequences.html#claim-{CLAIM}"' in shown and "It is &lt; 2." in shown
    assert all(word in shown for word in WORDS["holds"])
    assert repr(findings.Listed([found])) == f"✓ holds · {CLAIM}: It is < 2."
    with pytest.raises(ValueError, match="unknown claims shen-nothing"):
        scorecard.findings(["shen-nothing"], [row()])


def test_the_readme_says_what_the_landing_page_finds(recorded: list[Row]) -> None:
    landing = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r'"([a-z0-9-]+)"', landing[landing.index("show_findings(") :].partition(")")[0])
    expected = [f"- *{WORDS[found.status][1]}*: {found.sentence}" for found in scorecard.findings(shown, recorded)]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme[readme.index("## What was found") :].split("\n\n")[1]
    assert section.splitlines() == expected and len(expected) >= 5


ALL = "Of all runs of profile paper"
FRONT = ("README.md", "book/index.md", "book/running.md")
TO_WRITE = {"copied_pairs"}  # the experiment, and its chapter, that a reader is shown how to add


@pytest.mark.parametrize("page", FRONT)
def test_commands_name_experiments_and_chapters_that_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    chapters = {path.stem for path in (ROOT / "notebooks").glob("*/*.md")} | {"all"}
    trained, executed = (set(re.findall(rf"-m lib {command} ([\w-]+)", text)) for command in ("sweep", "run"))
    assert trained and trained - TO_WRITE <= set(experiment_files())
    assert executed - TO_WRITE <= chapters
    assert not trained & executed - TO_WRITE  # an experiment is no chapter: no example is the name of both


def test_the_readme_says_what_is_trained_on_a_gpu_as_it_was_counted() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"lib sweep (\S+) --profile paper --device cuda", readme)
    ((runs, hours),) = re.findall(r"(\d+) trainings, some (\d+) hours", readme)
    (table,) = (one.tables[ALL] for one in benchmarks.load() if ALL in one.tables)
    planned = {row["experiment"]: row["runs"] for row in table if row["experiment"] != "text-information"}  # reads, too
    assert planned == {other: len(Experiment(other).runs("paper")) for other in planned}
    (counted,) = (row for row in table if row["experiment"] == name)
    assert int(runs) == counted["runs"] == len(Experiment(name).runs("paper"))
    assert int(hours) == round(counted["one after the other, h"])
    assert name in (ROOT / "book" / "index.md").read_text(encoding="utf-8")


def test_the_shortest_call_gives_what_its_comment_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (said,) = re.findall(r"# (0\.\d+) is also", code)
    names: dict[str, Any] = {}
    exec(code, names)
    process, lags = names["process"], names["lags"]
    found = [fit_power_law(lags, curve).exponent for curve in (names["curve"], process.mutual_information(lags))]
    assert {f"{exponent:.2f}" for exponent in found} == {said}
    throughout = PowerLawBinary(1000, process.amplitude, process.exponent, exact=True).mutual_information(lags)
    assert fit_power_law(lags, throughout).exponent == pytest.approx(process.exponent, abs=1e-9)
