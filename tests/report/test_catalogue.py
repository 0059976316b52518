"""The catalogue: every claim is well-formed, and a malformed one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.report.catalogue import PAPERS, catalogue, find, load_catalogue

GOOD = '- {id: shen-x, where: "Eq. 1", kind: identity, statement: "One.", must: "two"}\n'


def test_every_claim_of_the_four_papers_is_there() -> None:
    claims = catalogue()
    counts = {paper: sum(claim.paper == paper for claim in claims.values()) for paper in PAPERS}
    assert counts == {"shen2019": 26, "l2m2025": 26, "kerg2020": 17, "ngram2024": 12}


def test_papers_come_in_the_order_of_the_book() -> None:
    assert list(dict.fromkeys(claim.paper for claim in catalogue().values())) == list(PAPERS)


@pytest.mark.parametrize("name", catalogue())
def test_a_claim_says_what_where_and_how_to_check(name: str) -> None:
    claim = find(name)
    prefix = {"shen2019": "shen-", "l2m2025": "l2m-", "kerg2020": "kerg-", "ngram2024": "ngram-"}[claim.paper]
    assert claim.id.startswith(prefix)
    assert len(claim.statement) > 10 and len(claim.must) > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD + GOOD, "shen-x"),
        (GOOD.replace("identity", "theorem"), "kind"),
        (GOOD.replace("kind:", "sort:"), "sort"),
        (GOOD.replace("}", ", extra: 1}"), "extra"),
        (GOOD.replace("shen-x", "Shen X"), "id"),
        (GOOD.replace(', must: "two"', ""), "must"),
        ("- just text\n", "just text"),
        ("claims: {}\n", "list of claims"),
    ],
)
def test_a_malformed_catalogue_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "shen2019.yml").write_text(text)
    with pytest.raises(ValueError, match=problem):
        load_catalogue(tmp_path)


def test_one_identifier_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shen2019.yml").write_text(GOOD)
    (tmp_path / "l2m2025.yml").write_text(GOOD)
    with pytest.raises(ValueError, match=r"l2m2025\.yml: 'shen-x' is already in shen2019\.yml"):
        load_catalogue(tmp_path)


def test_a_folder_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no claims"):
        load_catalogue(tmp_path)
