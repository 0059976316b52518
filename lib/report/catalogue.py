"""The catalogue of claims: those of the four papers and of the book itself, read from ``book/claims/*.yml``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lib import ROOT
from lib.report.records import complaint

CLAIMS_FOLDER = ROOT / "book" / "claims"

PAPERS = {
    "shen2019": "Shen 2019",
    "l2m2025": "Chen et al. 2025",
    "kerg2020": "Kerg et al. 2020",
    "ngram2024": "Nandakumar et al. 2025",
    "book": "this book",
}
"""Whose claims these are, in the order of the book: citation key and short name; the book's own come last."""

Kind = Literal["identity", "inequality", "scaling", "figure", "table", "number", "construction"]


class Claim(BaseModel):
    """One claim of one paper: what it says, where it stands, what a check of it has to compare."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

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
    Raises ``ValueError`` for a folder without claims and, with file, line and field, for a malformed entry, a field or
    an identifier used twice.
    """
    claims: dict[str, Claim] = {}
    places: dict[str, str] = {}
    order = list(PAPERS)
    found = sorted(folder.glob("*.yml"))
    for path in sorted(found, key=lambda path: order.index(path.stem) if path.stem in order else len(order)):
        for entry, line, fields in _entries(path):
            try:
                claim = Claim.model_validate({**entry, "paper": path.stem})
            except ValidationError as error:
                wrong = [
                    f"line {fields.get(name, line)}, field {name}: {complaint(detail)}"
                    for detail in error.errors()
                    for name in [str(detail["loc"][0])]
                ]
                raise ValueError(f"{path.name}: {entry.get('id')!r} is not a claim: {'; '.join(wrong)}") from error
            place = f"{path.name}, line {fields['id']}"
            if claim.id in claims:
                raise ValueError(f"{place}, field id: {claim.id!r} is already in {places[claim.id]}")
            claims[claim.id], places[claim.id] = claim, place
    if not claims:
        raise ValueError(f"no claims in {folder}: expected files such as shen2019.yml")
    return claims


def _entries(path: Path) -> Iterator[tuple[dict[str, Any], int, Mapping[str, int]]]:
    """The entries of a file, the line on which each begins, and those of its fields."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path.name} is not YAML: {error}") from error
    if not isinstance(node, yaml.SequenceNode):
        found = node.tag.rpartition(":")[2] if node else "nothing"
        raise ValueError(f"{path.name}, line 1: expected a list of claims, found {found}")
    for entry in node.value:
        line = entry.start_mark.line + 1
        if not isinstance(entry, yaml.MappingNode):
            raise ValueError(f"{path.name}, line {line}: a claim is a mapping of fields, given {entry.value!r:.60}")
        fields: dict[str, int] = {}
        for key, _ in entry.value:
            if key.value in fields:
                again = key.start_mark.line + 1
                raise ValueError(f"{path.name}, line {again}, field {key.value}: already on line {fields[key.value]}")
            fields[key.value] = key.start_mark.line + 1
        yield yaml.SafeLoader("").construct_document(entry), line, fields


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
