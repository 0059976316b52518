"""The catalogue of claims: every claim of the four papers, read from ``book/claims/*.yml``."""

from __future__ import annotations

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lib import ROOT

CLAIMS_FOLDER = ROOT / "book" / "claims"

PAPERS = {
    "shen2019": "Shen 2019",
    "l2m2025": "Chen et al. 2025",
    "kerg2020": "Kerg et al. 2020",
    "ngram2024": "Nandakumar et al. 2025",
}
"""The four papers in the order of the book: citation key and short name."""

Kind = Literal["identity", "inequality", "scaling", "figure", "table", "number", "construction"]


class Claim(BaseModel):
    """One claim of one paper: what it says, where it stands, what a check of it has to compare."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9]+(-[A-Za-z0-9]+)+$")
    paper: str = Field(pattern=r"^[a-z0-9]+$")
    where: str = Field(min_length=1)
    kind: Kind
    statement: str = Field(min_length=1)
    must: str = Field(min_length=1)
    paper_value: Any = None


def load_catalogue(folder: Path = CLAIMS_FOLDER) -> dict[str, Claim]:
    """Read every claim below ``folder``; the name of a file is the citation key of its paper.

    Returns ``{claim id: Claim}``, papers in the order of ``PAPERS``, claims in the order of their file.
    Raises ``ValueError`` for a folder without claims, a malformed entry, or an identifier used twice.
    """
    claims: dict[str, Claim] = {}
    order = list(PAPERS)
    found = sorted(folder.glob("*.yml"))
    for path in sorted(found, key=lambda path: order.index(path.stem) if path.stem in order else len(order)):
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise ValueError(f"{path.name}: expected a list of claims, found {type(entries).__name__}")
        for entry in entries:
            try:
                claim = Claim.model_validate({**entry, "paper": path.stem})
            except (ValidationError, TypeError) as error:
                raise ValueError(f"{path.name}: {entry!r} is not a claim: {error}") from error
            if claim.id in claims:
                raise ValueError(f"{path.name}: {claim.id!r} is already in {claims[claim.id].paper}.yml")
            claims[claim.id] = claim
    if not claims:
        raise ValueError(f"no claims in {folder}: expected files such as shen2019.yml")
    return claims


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Claim]:
    """The book's own catalogue, read once."""
    return load_catalogue()


def find(claim: str) -> Claim:
    """The claim with this identifier; ``ValueError`` with the nearest known identifiers if there is none."""
    known = catalogue()
    if claim not in known:
        near = difflib.get_close_matches(claim, known, n=3, cutoff=0.4)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise ValueError(f"unknown claim {claim!r}{hint}; all {len(known)} claims are in book/claims/*.yml")
    return known[claim]
