"""The table of architectures as HTML and as text, with a sample of each architecture's line and marker.

`architectures.html` has the elements, this file what stands in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.markers import MarkerStyle

from experiments.landing.cells import Grade, Statement, grade
from lib.report import figures
from lib.report.page import link, macros
from lib.report.records import OUTCOMES
from lib.report.shown import WORDS

DASHES = {"-": (), "--": (4, 2), "-.": (5, 2, 1, 2), ":": (1, 2)}
SIZE = 5.0  # of a marker, in the units of a sample, which is 28 by 12


@dataclass(frozen=True)
class Table:
    """Statements by row and column. names: of the rows, by the key of their look."""

    columns: tuple[str, ...]
    names: Mapping[str, str]
    rows: Mapping[str, Sequence[Sequence[Statement]]]

    @cached_property
    def grades(self) -> dict[str, Grade]:
        """What each row rests on."""
        return {name: grade(cells) for name, cells in self.rows.items()}

    def column(self, head: str) -> dict[str, Sequence[Statement]]:
        """The cells of a column by row. Raises ValueError for a head that there is not."""
        if head not in self.columns:
            raise ValueError(f"column: one of {', '.join(self.columns)} is allowed, got {head!r}")
        place = self.columns.index(head)
        return {name: cells[place] for name, cells in self.rows.items()}

    def __repr__(self) -> str:
        width = max(map(len, self.columns))
        lines = []
        for name, cells in self.rows.items():
            told = [
                f"  {head:<{width}}  {'; '.join(map(str, cell))}"
                for head, cell in zip(self.columns, cells, strict=True)
            ]
            lines += [self.names[name], *told, f"  {'evidence':<{width}}  {self.grades[name]}", ""]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        used = {outcome for found in self.grades.values() for outcome in found.outcomes}
        legend = [WORDS[outcome] for outcome in OUTCOMES if outcome in used]
        return str(_template().architectures(self, legend))


@dataclass(frozen=True)
class Sources:
    """What stands behind one column. Raises ValueError, when shown, for a column that there is not."""

    table: Table
    head: str

    def __repr__(self) -> str:
        cells = self.table.column(self.head)
        return "\n".join(f"{self.table.names[name]}: {'; '.join(map(str, cell))}" for name, cell in cells.items())

    def _repr_html_(self) -> str:
        return str(_template().sources(self.table, self.head, self.table.column(self.head)))


def sample(name: str) -> dict[str, str]:
    """Colour, dashes and outline of the marker of an architecture's look, for a small picture of its line."""
    (look,) = figures.looks([name])
    marker = MarkerStyle(look["marker"])
    outlines = marker.get_path().transformed(marker.get_transform()).to_polygons(closed_only=False)
    corners = [np.array([SIZE, -SIZE]) * np.asarray(outline, dtype=np.float64) for outline in outlines]
    drawn = ("M" + " L".join(f"{x:.2f} {y:.2f}" for x, y in outline) for outline in corners)
    filled = look["color"] if marker.is_filled() else "none"
    line = look["linestyle"]
    dashes = DASHES[line] if isinstance(line, str) else line[1]  # else an offset and the lengths
    return {
        "color": look["color"],
        "dashes": " ".join(map(str, dashes)),
        "marker": " ".join(drawn),
        "fill": filled,
    }


def address(statement: Statement) -> str:
    """Where a statement is checked or computed, "" if nowhere; the check itself if its page has it."""
    record = statement.record
    if record is None:
        return link(statement.page) if statement.page else ""
    return link(record["page"], record["anchor"] if record.get("on_page", True) else "")


@lru_cache(maxsize=1)
def _template() -> Any:
    given = {"words": WORDS, "sample": sample, "address": address, "link": link}
    return macros(Path(__file__).with_name("architectures.html"), given)
