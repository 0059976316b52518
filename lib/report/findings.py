"""What was found, in plain words: a sentence for every claim and the verdict it has, filled from its records.

The sentences stand in ``book/findings/*.yml``: of each claim what it says, and for each status that it has or can soon
have, what is found. Numbers are taken from the records when a page is made, so that none is typed:

    some-claim:
      says: The exponent of the text is the one that is put in.
      false: The exponent is {{ ours("exponent") }}, not the one that is put in.
"""

from __future__ import annotations

import contextlib
import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from lib import ROOT, inputs, plain_yaml
from lib.report.catalogue import Claim
from lib.report.comparison import flat, recorded
from lib.report.page import link
from lib.report.records import Record
from lib.report.shown import WORDS

FOLDER = ROOT / "book" / "findings"
SAYS = "says"


class JudgedClaim(Protocol):
    """A claim, the records that count for it, its status, and which record decides that."""

    @property
    def claim(self) -> Claim: ...
    @property
    def parts(self) -> tuple[Record, ...]: ...
    @property
    def status(self) -> str: ...
    @property
    def decisive(self) -> Record: ...


class NoSuchPart(ValueError):
    """A sentence names a part that the claim does not have, or asks for numbers of one that has none."""


def sentences(folder: Path = FOLDER) -> dict[str, dict[str, str]]:
    """Claim -> what it ``says``, and status -> what was found, from every file of the folder, which is read once.

    Raises ``ValueError`` for a file that is not such a table, an unknown status, and a claim that stands twice.
    """
    inputs.note_folder(folder, ".yml")
    return _read(folder)


@lru_cache(maxsize=4)
def _read(folder: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.yml")):
        try:
            table = plain_yaml.load(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path.name} is not YAML: {error}") from error
        if not isinstance(table, dict):
            raise ValueError(f"{path.name}: expected claims with their sentences, found {type(table).__name__}")
        for claim, entry in table.items():
            found[claim] = _checked(path.name, claim, entry, found)
    return found


def _checked(name: str, claim: Any, entry: Any, before: Mapping[str, Any]) -> dict[str, str]:
    known = (SAYS, *WORDS)
    if claim in before:
        raise ValueError(f"{name}: {claim} has its sentences already")
    if not isinstance(entry, dict) or SAYS not in entry:
        raise ValueError(f"{name}, {claim}: expected {SAYS!r} and a sentence for each status, given {entry!r:.60}")
    for status, text in entry.items():
        if status not in known:
            raise ValueError(f"{name}, {claim}: unknown status {status!r}, known: {', '.join(known)}")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}, {claim}, {status}: a sentence is needed, given {text!r:.60}")
    return {status: " ".join(text.split()) for status, text in entry.items()}


@dataclass(frozen=True)
class Finding:
    """One claim in plain words: what it says, its status, and what was found; ``page`` and ``place`` of the check."""

    claim: str
    says: str
    status: str
    sentence: str
    page: str
    place: str

    def __str__(self) -> str:
        symbol, word = WORDS[self.status]
        return f"{symbol} {word} · {self.claim}: {self.sentence}"


def finding(row: JudgedClaim, table: Mapping[str, Mapping[str, str]] | None = None) -> Finding:
    """What was found of the claim of this row of the scorecard.

    A status without a sentence is told by the record that decides it, as is one whose sentence asks for what has not
    run; a claim without sentences says its statement.
    """
    entry = (sentences() if table is None else table).get(row.claim.id, {})
    says, template = entry.get(SAYS, row.claim.statement), entry.get(row.status)
    if not row.parts:
        return Finding(row.claim.id, says, row.status, template or "Nothing has run for it.", "", "")
    decisive = row.decisive
    told = str(decisive["sentence"])
    with contextlib.suppress(NoSuchPart):
        told = filled(row, template) if template else told
    return Finding(row.claim.id, says, row.status, told, decisive["page"], decisive["anchor"])


def filled(row: JudgedClaim, template: str) -> str:
    """The sentence with what was recorded in the place of its fields.

    ``ours(part)``: what a part measured, in short; ``low(part)``, ``high(part)``: the smallest and largest of these
    numbers; ``paper(part)``: the paper's own; ``agrees(part)``: if it holds, at whatever scale; ``differs(part)``: if
    it does; ``held()``: how many parts have the claim's status, as in "3 of 8"; ``why()``: why parts are undecided, as
    in "seeds disagree (2)"; ``decides()``: the part that decides. ValueError for a sentence that is no template;
    `NoSuchPart` is one.
    """
    parts = {part["part"]: part for part in row.parts}

    def of(name: str) -> Mapping[str, Any]:
        if name not in parts:
            known = "; ".join(map(repr, parts))
            raise NoSuchPart(f"{row.claim.id} has no part {name!r}, which its sentence names; its parts: {known}")
        return parts[name]

    same = sum(part["outcome"] == row.status for part in row.parts)
    reasons = Counter(str(part.get("reason")) for part in row.parts if part["outcome"] == "undecided")
    fields: dict[str, Any] = {
        "ours": lambda part="": recorded(of(part).get("measured")),
        "paper": lambda part="": recorded(of(part).get("paper")),
        "low": lambda part="": _numbers(of(part))[0],
        "high": lambda part="": _numbers(of(part))[-1],
        "agrees": lambda part="": of(part)["outcome"] in ("holds", "reduced"),
        "differs": lambda part="": of(part)["outcome"] == "differs",
        "held": lambda: f"{same} of {len(row.parts)}",
        "why": lambda: ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common()),
        "decides": lambda: str(row.decisive["part"]),
    }
    try:
        return str(_words().from_string(template).render(fields))
    except jinja2.TemplateError as error:
        raise ValueError(f"{row.claim.id}, {row.status}: {error} in {template!r}") from error


def _numbers(record: Mapping[str, Any]) -> list[float]:
    """The recorded numbers in rising order; of a summary its ends."""
    value = record.get("measured")
    if isinstance(value, dict) and "shape" in value:
        value = [value["smallest"], value["largest"]]
    found = sorted(float(number) for number in flat(value) if number is not None)
    if not found:
        raise NoSuchPart(f"{record['claim']}, {record['part']!r}: its sentence asks for numbers, and none are recorded")
    return found


@lru_cache(maxsize=1)
def _words() -> SandboxedEnvironment:
    return SandboxedEnvironment(undefined=jinja2.StrictUndefined)


class Listed:
    """Findings as a list of links to their chapters, with their verdicts."""

    def __init__(self, found: Sequence[Finding]) -> None:
        self.found = found

    def __repr__(self) -> str:
        return "\n".join(map(str, self.found))

    def _repr_html_(self) -> str:
        return f'<ul class="findings">{"".join(map(_item, self.found))}</ul>'


def _item(found: Finding) -> str:
    symbol, word = WORDS[found.status]
    status = found.status.replace(" ", "-")
    address = link(found.page, found.place) if found.page else link("book/scorecard", f"scorecard-{found.claim}")
    return (
        f'<li><span class="claim-word claim-{status}"><span aria-hidden="true">{symbol}</span> {word}</span> '
        f'{html.escape(found.sentence)} <a href="{address}"><code>{found.claim}</code></a></li>'
    )
