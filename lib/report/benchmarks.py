"""Tables of recorded timings: ``results/benchmarks/*.json``, one file a benchmark.

A file holds ``title``, ``description``, ``provenance`` (a mapping: device, versions, date) and ``rows``, a list of
mappings with the same keys, which become the columns of the table.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lib import ROOT
from lib.report.comparison import show
from lib.report.page import show_on_page

FOLDER = ROOT / "results" / "benchmarks"


class Benchmark:
    """One recorded benchmark as a table: HTML on a page, text in a terminal."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.title = str(recorded["title"])
        self.description = str(recorded.get("description", ""))
        self.provenance: dict[str, Any] = recorded.get("provenance", {})
        self.rows: Sequence[dict[str, Any]] = recorded["rows"]
        self.columns = list(dict.fromkeys(key for row in self.rows for key in row))

    def __str__(self) -> str:
        lines = [[str(row.get(column, "")) for column in self.columns] for row in self.rows]
        return "\n".join([self.title, "\t".join(self.columns), *("\t".join(line) for line in lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = html.escape(self.title)
        head = "".join(f'<th scope="col">{html.escape(column.replace("_", " "))}</th>' for column in self.columns)
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        facts = "; ".join(f"{key} {_flat(value)}" for key, value in self.provenance.items())
        return (
            f'<p>{html.escape(self.description)}</p><div class="scorecard-scroll" role="region" aria-label="{title}" '
            f'tabindex="0"><table class="benchmark"><caption>{title}</caption><thead><tr>{head}</tr></thead>'
            f'<tbody>{body}</tbody></table></div><p class="benchmark-facts">{html.escape(facts)}</p>'
        )

    def _cells(self, row: dict[str, Any]) -> str:
        first, *others = self.columns
        cells = "".join(f"<td>{html.escape(_flat(row.get(column)))}</td>" for column in others)
        return f'<th scope="row">{html.escape(_flat(row.get(first)))}</th>{cells}'


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
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Benchmark(json.loads(path.read_text(encoding="utf-8"))))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path.name} is not a recorded benchmark (title, rows): {error!r}") from error
    return found


def show_all() -> None:
    """Show every recorded benchmark on the page, or say that there is none yet."""
    found = load()
    if not found:
        print("No benchmark has been recorded yet: `make benchmarks` runs and records them.")
    for benchmark in found:
        show_on_page(benchmark)
