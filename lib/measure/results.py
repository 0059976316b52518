"""What `python -m lib measure` leaves in figures: the contract of ``measure.json``, and the same as rows of a table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy import stats

from lib.information.intervals import Interval
from lib.machine import write_whole
from lib.measure.laws import Verdict
from lib.measure.symbols import Level

JSON, CSV = "measure.json", "measure.csv"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Estimate(_Strict):
    """A number and its 95 % interval; an end that is not known, or infinite, is null."""

    value: float
    interval: tuple[float | None, float | None]

    @classmethod
    def of(cls, given: Interval | None) -> Estimate | None:
        """From an interval; None from none, and for a number that is not finite."""
        if given is None or not math.isfinite(given.value):
            return None
        ends = tuple(end if math.isfinite(end) else None for end in given.ends)
        return cls(value=given.value, interval=ends)  # type: ignore[arg-type]

    @property
    def as_interval(self) -> Interval:
        low, high = (math.nan if end is None else end for end in self.interval)
        return Interval(self.value, low, high)


class Band(_Strict):
    """Ends of 95 % intervals."""

    low: list[float]
    high: list[float]


class Composite(_Strict):
    """exponential exp(-lag/correlation_length) + power lag^-exponent, nats; `misfit`: squared residuals in spreads."""

    correlation_length: float
    exponent: float
    exponential: float
    power: float
    misfit: float


class TwoPoint(_Strict):
    """Information of two symbols at a distance, nats, as estimated: subtract `floor`, what is reported of nothing."""

    symbols: int  # in the text
    kinds: int  # different ones
    kept: int  # different ones that are counted; the rarer ones together are one of them
    covered: float = Field(ge=0, le=1)  # share of the text that is not one of the rarer ones
    lags: list[int]
    information: list[float]
    floor: list[float]
    band: Band  # of the information
    verdict: Verdict
    reason: str
    range: tuple[int, int] | None  # of distances that the verdict is about
    correlation_length: Estimate | None
    exponent: Estimate | None
    amplitude: float | None  # nats, at distance 0 of the exponential, at 1 of the power law
    composite: Composite | None
    drift: Estimate | None  # nats at any distance, from change of composition alone
    halves: Estimate | None  # ln of the information of the first half over that of the second

    @model_validator(mode="after")
    def _lengths(self) -> TwoPoint:
        rows = (self.information, self.floor, self.band.low, self.band.high)
        if any(len(row) != len(self.lags) for row in rows):
            raise ValueError("lags, information, floor and band must have one length")
        return self


class Betas(_Strict):
    """Exponents of information = A L^beta, null where there is none."""

    direct: Estimate | None
    vclub: Estimate | None


class State(_Strict):
    """What the model carries from its past, from its configuration, beside what the text asks for."""

    kind: Literal["cache per token", "window", "fixed state"]
    architecture: str
    numbers: list[float]  # that it holds after L/2 tokens, for each of the lengths
    growth: float  # exponent of the numbers in L at the longest lengths
    asked_nats: list[float]  # that the halves of L tell of each other, the larger of the two estimates
    asked_growth: Estimate | None  # beta


class Bipartite(_Strict):
    """Information of two halves of L tokens by a model; nats."""

    model: str
    windows: int
    lengths: list[int]
    direct: list[float]
    vclub: list[float]
    standard_errors: dict[Literal["direct", "vclub"], list[float]]
    beta: Betas
    positions: list[int]
    loss: list[float]  # nats per token at these positions
    state: State | None
    note: str

    @property
    def half_width(self) -> float:
        """Of 95 % intervals, in standard errors: Student's for so many windows."""
        return float(stats.t.ppf(0.975, self.windows - 1))


class Share(_Strict):
    """Information of the other text over that of the text, floors taken off, at distances of a range."""

    range: tuple[int, int]
    value: float
    interval: tuple[float | None, float | None]


class Comparison(_Strict):
    """Both texts cut to one length."""

    symbols: int
    lags: list[int]
    information: list[float]  # of the text, floor taken off
    other: list[float]  # of the other text, floor taken off
    ratio: list[Share]
    half_lost: int | None  # first distance at which the other text has less than half
    reason: str


class Against(_Strict):
    """The other text beside the text; `ratio` and `half_lost` are those of characters, `levels` has all."""

    name: str
    sha256: str
    ratio: list[Share]
    half_lost: int | None
    levels: dict[Level, Comparison]


class Source(_Strict):
    name: str
    documents: int
    characters: int
    sha256: str
    cut: bool  # to a first look


class Levels(_Strict):
    character: TwoPoint | None = None
    word: TwoPoint | None = None
    byte_pair: TwoPoint | None = None


class Measured(_Strict):
    """All of ``measure.json``; what is not measured, or not yet, is null."""

    version: Literal[1] = 1
    finished: bool = False
    source: Source
    two_point: Levels = Field(default_factory=Levels)
    bipartite: Bipartite | None = None
    against: Against | None = None
    provenance: dict[str, Any]

    def save(self, folder: str | Path) -> None:
        """Write both files, each whole or not at all; nothing if no folder is named."""
        if str(folder):
            write_whole(Path(folder) / JSON, self.model_dump_json(indent=1))
            write_whole(Path(folder) / CSV, table(rows(self)))


def load(folder: str | Path) -> Measured:
    """What a folder holds; ``ValueError`` for a file that breaks the contract, ``OSError`` if there is none."""
    return Measured.model_validate_json((Path(folder) / JSON).read_text(encoding="utf-8"))


HEAD = ("part", "level", "quantity", "at", "value", "low", "high")


def rows(measured: Measured) -> Iterator[Sequence[Any]]:
    """Every number with its interval, a row each; `at` is a distance, length or position, or the ends of a range."""
    for level, found in measured.two_point:
        if found is None:
            continue
        for place, lag in enumerate(found.lags):
            yield "two_point", level, "information", lag, found.information[place], *_ends(found.band, place)
            yield "two_point", level, "floor", lag, found.floor[place], "", ""
        at = _range(found.range)
        yield "two_point", level, "verdict", at, found.verdict, "", ""
        for name in ("correlation_length", "exponent", "drift", "halves"):
            yield from _estimate("two_point", level, name, at, getattr(found, name))
        if found.composite:
            for name, value in found.composite:
                yield "two_point", level, f"composite {name}", at, value, "", ""
    if model := measured.bipartite:
        both = {"direct": (model.direct, model.beta.direct), "vclub": (model.vclub, model.beta.vclub)}
        for (name, (values, beta)), errors in zip(both.items(), model.standard_errors.values(), strict=True):
            for length, value, error in zip(model.lengths, values, errors, strict=True):
                error *= model.half_width
                yield "bipartite", "", name, length, value, value - error, value + error
            yield from _estimate("bipartite", "", f"beta {name}", "", beta)
        for position, loss in zip(model.positions, model.loss, strict=True):
            yield "bipartite", "", "loss", position, loss, "", ""
        if model.state:
            for length, numbers in zip(model.lengths, model.state.numbers, strict=True):
                yield "bipartite", "", "state", length, numbers, "", ""
    if other := measured.against:
        for level, one in other.levels.items():
            for share in one.ratio:
                yield "against", level, "ratio", _range(share.range), share.value, *map(_blank, share.interval)
            yield "against", level, "half lost", "", _blank(one.half_lost), "", ""


def table(given: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV with a head."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(given)
    return text.getvalue()


def numbers(values: Any) -> list[float]:
    """An array as a list that JSON can hold."""
    return [float(value) for value in np.asarray(values, dtype=np.float64)]


def _estimate(part: str, level: str, name: str, at: Any, given: Estimate | None) -> Iterator[Sequence[Any]]:
    if given is not None:
        yield part, level, name, at, given.value, *map(_blank, given.interval)


def _ends(band: Band, place: int) -> tuple[float, float]:
    return band.low[place], band.high[place]


def _range(ends: tuple[int, int] | None) -> str:
    return f"{ends[0]}-{ends[1]}" if ends else ""


def _blank(value: Any) -> Any:
    return "" if value is None else value
