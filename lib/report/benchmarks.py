"""Recorded timings: ``results/benchmarks/*.json``, one file per benchmark, written by the scripts in ``benchmarks``.

A file holds ``title``, ``description``, ``provenance`` and ``tables``: a list of {``title``, ``rows``}, each row a
mapping whose keys are the columns.
"""

from __future__ import annotations

import datetime
import html
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lib import ROOT, inputs
from lib.machine import write_whole
from lib.report.comparison import show
from lib.report.page import show_on_page
from lib.runs import provenance

FOLDER = ROOT / "results" / "benchmarks"
Row = Mapping[str, Any]


class Benchmark:
    """One recorded benchmark: HTML on a page, text in a terminal."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.title = str(recorded["title"])
        self.description = str(recorded["description"])
        self.provenance: dict[str, Any] = recorded["provenance"]
        self.tables: dict[str, Sequence[Row]] = {str(table["title"]): table["rows"] for table in recorded["tables"]}

    def __str__(self) -> str:
        return "\n\n".join([self.title, *(_as_text(title, rows) for title, rows in self.tables.items())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(_as_html(title, rows) for title, rows in self.tables.items())
        facts = "; ".join(f"{key} {_flat(value)}" for key, value in self.provenance.items())
        return (
            f"<h2>{html.escape(self.title)}</h2><p>{html.escape(self.description)}</p>{tables}"
            f'<p class="benchmark-facts">{html.escape(facts)}</p>'
        )


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _as_text(title: str, rows: Sequence[Row]) -> str:
    columns = _columns(rows)
    cells = [columns, *([_flat(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    return "\n".join([title, *("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)])


def _as_html(title: str, rows: Sequence[Row]) -> str:
    first, *others = _columns(rows)
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in (first, *others))
    body = "".join(
        f'<tr><th scope="row">{html.escape(_flat(row.get(first)))}</th>'
        + "".join(f"<td>{html.escape(_flat(row.get(column)))}</td>" for column in others)
        + "</tr>"
        for row in rows
    )
    name = html.escape(title)
    return (
        f'<div class="scorecard-scroll" role="region" aria-label="{name}" tabindex="0"><table class="benchmark">'
        f"<caption>{name}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _flat(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(_flat(entry) for entry in value)
    return f"{value:.3g}" if isinstance(value, float) else show(value)


def load(folder: Path = FOLDER) -> list[Benchmark]:
    """The recorded benchmarks in ``folder``, by file name; ``ValueError`` names a file that is not one."""
    inputs.note_folder(folder, ".json")
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Benchmark(json.loads(path.read_text(encoding="utf-8"))))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path.name} is not a recorded benchmark (title, tables): {error!r}") from error
    return found


def record(
    path: Path,
    title: str,
    description: str,
    tables: Mapping[str, Sequence[Row]],
    packages: Iterable[str] = (),
    **facts: Any,
) -> Benchmark:
    """Write a benchmark with its provenance to ``path`` and return it; ``packages`` adds their versions."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    recorded = {
        "title": title,
        "description": description,
        "provenance": {"date": when, **provenance.collect(), **versions, **facts},
        "tables": [{"title": name, "rows": rows} for name, rows in tables.items()],
    }
    found = Benchmark(recorded)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(recorded, indent=1) + "\n")
    return found


def show_all() -> None:
    """Show every recorded benchmark on the page, or say that there is none yet."""
    found = load()
    if not found:
        print("No benchmark has been recorded yet: `make benchmarks` runs and records them.")
    for benchmark in found:
        show_on_page(benchmark)
