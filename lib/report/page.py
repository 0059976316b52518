"""What a page shows: objects as HTML, or as text where there is no page; tables in Markdown; links between pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lib.sources import current_page


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


def link(page: str, anchor: str = "") -> str:
    """Relative address of another page of the book, as seen from the current one."""
    address = f"{'../' * current_page().count('/')}{page}.html"
    return f"{address}#{anchor}" if anchor else address


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """One line a row; cells are shown as they are."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
