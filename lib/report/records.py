"""Records of checked claims: one JSON line each, appended by chapters, read by the scorecard."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import reprlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from lib import ROOT, inputs
from lib.machine import append_line

Record = dict[str, Any]

Profile = Literal["smoke", "laptop", "paper"]
PROFILES: tuple[str, ...] = get_args(Profile)  # from the smallest to the largest

# From good to bad, for a claim is as its worst part. A check that fails is the worst: the book contradicts itself. One
# part that differs makes the claim differ, whatever the others do, and a counterexample needs no other part; without
# these, an undecided part leaves the claim open. Among what agrees, a part at reduced scale comes first: the sizes of
# the paper may still say otherwise. Where there is a misprint the result stands at full size.
Outcome = Literal["holds", "misprint", "reduced", "undecided", "false", "differs", "fails"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)

Reason = Literal["not converged", "seeds disagree", "interval too wide", "comparisons disagree", "precondition not met"]
REASONS: tuple[str, ...] = get_args(Reason)  # why what ran decides nothing

Condition = Literal["", "as printed", "to plateau"]
CONDITIONS: tuple[str, ...] = get_args(Condition)  # a training as the paper prescribes it, or until nothing is gained

LONGEST_VERBATIM = 32  # entries; a longer array is recorded by its shape, range and first values


def _dated(text: str) -> str:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a date such as 2026-01-31T12:00:00+00:00 is needed") from None
    return text


def _leaves(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _leaves(entry)
    else:
        yield value


def _no_nan(value: JsonValue) -> JsonValue:
    if "nan" in _leaves(value):  # as `plain` writes what JSON cannot say
        raise ValueError("NaN is no value")
    return value


def _numeric(value: JsonValue) -> JsonValue:
    for leaf in _leaves(_no_nan(value)) if value is not None else ():
        if leaf is None or (isinstance(leaf, str) and not _is_number(leaf)):
            raise ValueError("a number is needed, or numbers in lists")
    return value


def _is_number(text: str) -> bool:
    for kind in (Fraction, complex):
        try:
            kind(text)
        except ValueError:
            continue
        return True
    return False


Value = Annotated[JsonValue, AfterValidator(_no_nan)]
Numbers = Annotated[JsonValue, AfterValidator(_numeric)]
Words = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Origin(_Strict):
    """Where and when a check was made; versions of packages, device and seed stand beside these."""

    model_config = ConfigDict(extra="allow")

    date: Annotated[str, AfterValidator(_dated)]
    code: Words
    commit: Words = "unknown"


class ClaimRecord(_Strict):
    """One line of a file of records. Numbers are finite; exact rationals, complex numbers and infinity are text."""

    claim: Words
    part: str
    outcome: Outcome
    sentence: Words
    profile: Profile
    page: str
    anchor: Words
    provenance: Origin
    reason: Reason | None = Field(default=None, validate_default=True)  # of what is undecided
    stated: Outcome | None = None  # by the chapter, of a check that fails
    condition: Condition = ""  # of a part about trained networks
    remark: bool = False  # beside the claim: counted among the parts, no part of what the claim itself says
    measured: Numbers = None
    expected: Numbers = None
    tolerance: float | None = Field(default=None, ge=0)
    relative: bool = False
    within: Numbers = None
    confidence: float | None = Field(default=None, gt=0, lt=1)
    at_least: Numbers = None
    at_most: Numbers = None
    deviation: float | Literal["inf"] | None = None
    printed: Numbers = None
    erratum: int | None = None
    paper: Value = None
    note: str = ""

    @field_validator("reason")
    @classmethod
    def _belongs_to_undecided(cls, reason: str | None, fields: ValidationInfo) -> str | None:
        if "outcome" in fields.data and (fields.data["outcome"] == "undecided") is (reason is None):
            raise ValueError("one is needed with outcome 'undecided', and with no other")
        return reason


def checked(record: object, where: str) -> Record:
    """The record as it is. Raises ``ValueError`` that says ``where`` it stands, which fields are wrong, and how."""
    try:
        ClaimRecord.model_validate(record)
    except ValidationError as error:
        wrong = {_field(detail["loc"]): complaint(detail) for detail in reversed(error.errors())}
        told = "; ".join(f"field {name}: {text}" if name else text for name, text in reversed(wrong.items()))
        raise ValueError(f"{where} is no record of a claim: {told}") from error
    assert isinstance(record, dict)
    return record


def _field(place: tuple[int | str, ...]) -> str:
    # below a field of values pydantic names the kinds that it tried; the field says enough
    return ".".join(map(str, place[:2] if place[:1] == ("provenance",) else place[:1]))


def complaint(detail: Any) -> str:
    """What pydantic finds wrong with a field, and what was given."""
    message = str(detail["msg"]).removeprefix("Value error, ")
    return message if detail["type"] == "missing" else f"{message}, given {reprlib.repr(detail['input'])}"


def plain(value: Any) -> Any:
    """``value`` as strict JSON: exact rationals and complex numbers as text, long arrays summarised."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        if array.size > LONGEST_VERBATIM:
            return _summary(array)
        return [plain(entry) for entry in (array.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction | complex):
        return str(value)
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _summary(array: np.ndarray[Any, Any]) -> Record:
    summary: Record = {"shape": list(array.shape), "first": plain(array.ravel()[:4])}
    if array.dtype.kind in "biuf":
        summary |= {"smallest": plain(array.min()), "largest": plain(array.max())}
    return summary


def append(path: Path, record: Record) -> None:
    """Add one record to ``path`` as a line of its own; see `lib.machine.append_line`.

    Raises ``ValueError`` for what `read` would refuse.
    """
    checked(record, "what is to be kept")
    append_line(path, json.dumps(record, ensure_ascii=False, allow_nan=False, sort_keys=True))


def read(path: Path) -> Iterator[Record]:
    """The records of one file. A last line without its line break was cut off by a kill and is left out.

    Raises ``ValueError`` with file, line and fields for any other line that is not a `ClaimRecord`.
    """
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}, line {number} is not JSON: {error}") from error
        yield checked(record, f"{name}, line {number}")


def keep_of_failed_page(written: Path, kept: Path) -> None:
    """The records ``written`` by a page until it failed take the place of those ``kept`` of its last run.

    A check that failed in an earlier run stays, unless its part was checked again: only a page that passes clears it.
    """
    if not written.exists():  # it failed before its first check
        return
    again = {(record["claim"], record["part"]) for record in _readable(written)}
    with contextlib.suppress(OSError):  # on a full disk what fails now counts more than what failed before
        for record in _readable(kept):
            if record["outcome"] == "fails" and (record["claim"], record["part"]) not in again:
                append(written, record)
    written.replace(kept)


def _readable(path: Path) -> list[Record]:
    try:
        return list(read(path))
    except (OSError, ValueError):  # who reads the scorecard is told what is wrong with a file that stays
        return []


def load(folders: Iterable[Path]) -> list[Record]:
    """Every record below the given folders, in the order of folders and file names; a missing folder holds none.

    Files of executions that have not ended (``.partial-`` in the name) are left out.
    """
    folders = list(folders)
    for folder in folders:
        inputs.note_folder(folder, ".jsonl")
    files = (path for folder in folders for path in sorted(folder.rglob("*.jsonl")) if ".partial-" not in path.name)
    return [record for path in files for record in read(path)]


def profile() -> str:
    """The profile of this process: the environment variable ``BOOK_PROFILE``, ``smoke`` if unset."""
    name = os.environ.get("BOOK_PROFILE") or PROFILES[0]
    if name not in PROFILES:
        raise ValueError(f"BOOK_PROFILE is {name!r}, known profiles: {', '.join(PROFILES)}")
    return name
