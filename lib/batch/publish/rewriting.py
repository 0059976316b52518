"""Sphinx extension: no page is left behind that shows what has changed on another, and no build that did not end well.

Sphinx writes the pages that it has read again and those whose own numbers have changed, but not those that *show*
others: a title in the table of contents, a caption or a number in a reference, an author in a citation. So all are
written if anything has changed that another page can show. And a build that was cut short, or that warned, is not taken
for one that was made: the next one reads everything, and warns again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from lib import ROOT, sources

UNFINISHED = "unfinished"  # among the pages as read: a build has begun and has not ended well
SURROUNDINGS = ("book/_static", "CITATION.cff")  # which every page loads or names
AFTER_NUMBERS = 900  # the priority of a listener that comes after those that number sections and figures


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-get-outdated", _all_after_a_failure)
    app.connect("env-get-updated", _all_that_show_what_has_changed, priority=AFTER_NUMBERS)
    app.connect("build-finished", _note_success)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _all_after_a_failure(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    mark = Path(app.doctreedir) / UNFINISHED
    failed = mark.exists()
    mark.touch()
    contents = Path(app.srcdir) / "_toc.yml"  # to which `sphinx_external_toc` does not always follow page by page
    rests_on = sources.digest(), contents.read_bytes()  # the code reads and writes also pages that nobody executes
    known, env.book_rests_on = getattr(env, "book_rests_on", None), rests_on
    return sorted(env.found_docs) if failed or known != rests_on else []


def _all_that_show_what_has_changed(app: Sphinx, env: Any) -> list[str]:
    shown = hashlib.sha256("\n".join(shown_by_others(env)).encode()).hexdigest()
    known, env.book_shown = getattr(env, "book_shown", None), shown
    return sorted(env.found_docs) if known != shown else []


def _note_success(app: Sphinx, error: Exception | None) -> None:
    if error is None and not app._warncount:
        (Path(app.doctreedir) / UNFINISHED).unlink(missing_ok=True)


def shown_by_others(env: Any) -> Iterator[str]:
    """Whatever a page takes from elsewhere: titles of others, their order, what labels name and its number, citations.

    Also where the sources are: the notebooks beside pages fetch the book from there, on any host, while only the hosts
    that launch buttons know change a setting of Sphinx.
    """
    yield getattr(env.app, "_book_repository", "")
    places = [ROOT / name for name in SURROUNDINGS]
    files = [path for place in places for path in (place, *sorted(place.rglob("*"))) if path.is_file()]
    yield sources.digest_of(files, ROOT)
    yield repr(sorted(env.toctree_includes.items()))
    for name, title in sorted(env.titles.items()):
        yield f"{name} {title.get('secnumber')} {title.astext()}"
    standard = env.domaindata["std"]
    for kind in ("labels", "anonlabels", "objects", "terms"):
        yield from (f"{label} {' '.join(map(str, target))}" for label, target in sorted(standard[kind].items()))
    for numbers in (env.toc_secnumbers, env.toc_fignumbers):
        yield repr(sorted((name, sorted(own.items())) for name, own in numbers.items()))
    yield repr(sorted(env.domaindata.get("math", {}).get("objects", {}).items()))
    yield repr(sorted(getattr(env, "proof_list", {}).items()))
    for cited in env.domaindata.get("cite", {}).get("citations", []):
        yield f"{cited.key} {cited.citation_id} {cited.formatted_entry.label} {cited.entry!r}"
