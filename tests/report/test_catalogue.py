"""The catalogue: every claim is well-formed, and a malformed one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.report.catalogue import PAPERS, catalogue, find, load_catalogue

GOOD = '- {id: shen-x, where: "Eq. 1", kind: identity, statement: "One.", must: "two"}\n'


def test_every_claim_of_the_four_papers_is_there() -> None:
    claims = catalogue()
    counts = {paper: sum(claim.paper == paper for claim in claims.values()) for paper in PAPERS}
    first = {"shen2019": 26, "l2m2025": 19, "kerg2020": 17, "ngram2024": 12}  # of the first edition; none was dropped
    assert all(counts[paper] >= number for paper, number in first.items())


def test_papers_come_in_the_order_of_the_book() -> None:
    assert list(dict.fromkeys(claim.paper for claim in catalogue().values())) == list(PAPERS)


@pytest.mark.parametrize("name", catalogue())
def test_a_claim_says_what_where_and_how_to_check(name: str) -> None:
    claim = find(name)
    prefix = {"shen2019": "shen-", "l2m2025": "l2m-", "kerg2020": "kerg-", "ngram2024": "ngram-"}.get(
        claim.paper, "book-"
    )
    assert claim.id.startswith(prefix)
    assert len(claim.statement) > 10 and len(claim.must) > 10


SPREAD = """- id: shen-x
  where: Eq. 1
  kind: identity
  statement: One.
  must: two

- id: shen-y
  where: Eq. 2
  kind: scaling
  statement: Two.
  must: three
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SPREAD.replace("shen-y", "shen-x"), r"line 7, field id: 'shen-x' is already in shen2019\.yml, line 1"),
        (SPREAD.replace("  statement: Two.\n", ""), "'shen-y' is not a claim: line 7, field statement: Field required"),
        (SPREAD.replace("  where: Eq. 2\n", ""), "line 7, field where: Field required"),
        (SPREAD.replace("  kind: scaling\n", ""), "line 7, field kind: Field required"),
        (SPREAD.replace("  must: three\n", ""), "line 7, field must: Field required"),
        (SPREAD.replace("- id: shen-y\n  where", "- where"), "None is not a claim: line 7, field id: Field required"),
        (SPREAD.replace("Two.", ""), "line 10, field statement: .*string, given None"),
        (SPREAD.replace("Two.", "' '"), "line 10, field statement: .*at least 1 character, given ' '"),
        (SPREAD.replace("Eq. 2", "''"), "line 8, field where: .*at least 1 character, given ''"),
        (SPREAD.replace("Eq. 2", "2"), "line 8, field where: .*string, given 2"),
        (SPREAD.replace("scaling", "theorem"), "line 9, field kind: .*'identity', 'inequality'.*given 'theorem'"),
        (SPREAD.replace("shen-y", "Shen Y"), "line 7, field id: .*pattern.*given 'Shen Y'"),
        (SPREAD.replace("must: three", "mast: 3"), "line 7, field must: .*; line 11, field mast: .*not permitted"),
        (SPREAD + "  kind: table\n", "line 12, field kind: already on line 9"),
        (SPREAD + "- just text\n", "line 12: a claim is a mapping of fields, given 'just text'"),
        (SPREAD + "- [a, b]\n", "line 12: a claim is a mapping"),
        ("claims: {}\n", "line 1: expected a list of claims, found map"),
        ("", "line 1: expected a list of claims, found nothing"),
        (SPREAD + "  - [", "is not YAML: (.|\n)*line 1[23]"),
        (GOOD + GOOD, "shen-x"),
        (GOOD.replace("}", ", extra: 1}"), "extra"),
    ],
)  # fmt: skip
def test_a_malformed_catalogue_is_refused_by_file_line_and_field(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "shen2019.yml").write_text(SPREAD)
    assert len(load_catalogue(tmp_path)) == 2
    (tmp_path / "shen2019.yml").write_text(text)
    with pytest.raises(ValueError, match=rf"^shen2019\.yml.*{problem}"):
        load_catalogue(tmp_path)


def test_one_identifier_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shen2019.yml").write_text(GOOD)
    (tmp_path / "l2m2025.yml").write_text("\n" + GOOD)
    twice = r"l2m2025\.yml, line 2, field id: 'shen-x' is already in shen2019\.yml, line 1"
    with pytest.raises(ValueError, match=twice):
        load_catalogue(tmp_path)


def test_a_folder_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no claims"):
        load_catalogue(tmp_path)
