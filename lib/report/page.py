"""What a page shows: objects as HTML, or as text where there is no page; tables in Markdown; links between pages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.sources import current_page

MISSING = "–"
Column = tuple[str, Callable[[Any], Any]]
"""The head of a column, and what its cell shows of a row."""


def running_shell() -> Any:
    """The running IPython, or None in a plain Python process."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def show_on_page(thing: Any) -> None:
    """Display ``thing`` (through its ``_repr_html_``) in a notebook; print it elsewhere."""
    if running_shell() is None:
        print(thing)
        return
    from IPython.display import display

    display(thing)


def macros(template: Path, facts: Mapping[str, Any]) -> Any:
    """The macros of a Jinja template of HTML, which may use these facts; whatever they are given is escaped."""
    import jinja2  # by the few pages that have templates

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= facts
    return environment.get_template(template.name).module


def show_together(thing: Any, all_of_cell: Callable[[Sequence[Any]], Any]) -> None:
    """Display ``thing`` with what the same cell has shown so before, as one object that ``all_of_cell`` makes of them.

    It stands where the first one stood, and is there as far as it came if the cell fails. Outside of a notebook each
    thing is shown by itself, for a terminal cannot change what it has printed.
    """
    shell = running_shell()
    if not hasattr(shell, "kernel"):
        show_on_page(thing)
        return
    from IPython.display import display

    shell.events.register("post_execute", _of_cell.clear)
    things, place = _of_cell.get(all_of_cell, ([], None))
    things.append(thing)
    if place is None:
        place = display(all_of_cell(things), display_id=True)
    else:
        place.update(all_of_cell(things))
    _of_cell[all_of_cell] = things, place


_of_cell: dict[Callable[[Sequence[Any]], Any], tuple[list[Any], Any]] = {}
"""What the running cell has shown together, and the handle of its place."""


def link(page: str, anchor: str = "") -> str:
    """Relative address of another page of the book, as seen from the current one."""
    address = f"{'../' * current_page().count('/')}{page}.html"
    return f"{address}#{anchor}" if anchor else address


def table(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """A table in Markdown, a line for each row; a cell that is None or NaN shows that it is missing."""
    return markdown_table([head for head, _ in columns], ([cell(row) for _, cell in columns] for row in rows))


def markdown_table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """The same where all cells of a row are made together."""
    lines = ["| " + " | ".join(map(_cell, cells)) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _cell(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return MISSING if missing else re.sub(r"(?<!\\)\|", r"\|", str(value))  # a bar would begin another cell


def span(values: Sequence[float], form: str) -> str | None:
    """ "smallest to largest", one number where both are written alike, or None for no values."""
    ends = dict.fromkeys(f"{end:{form}}" for end in (min(values), max(values))) if len(values) else ()
    return " to ".join(ends) or None


def mean_and_span(values: Sequence[float], form: str) -> str | None:
    """ "mean (smallest to largest)", one number for one value, or None for no values."""
    ends = span(values, form)
    return f"{sum(values) / len(values):{form}} ({ends})" if len(values) > 1 else ends


def listed(values: Iterable[float], form: str) -> str:
    """All of them, as in "1.0, 2.0"."""
    return ", ".join(f"{value:{form}}" for value in values)
