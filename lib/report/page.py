"""Show an object as HTML on a page, or as text where there is no page; link from one page to another."""

from __future__ import annotations

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
