"""Sphinx extension: pages are rendered from their executed copies, and the build is strict.

With it, `jupyter-book build .` gives the same pages as `make book`: it executes what is not up to date through the
same papermill runs, hands the executed copies to MyST-NB, and fails on a warning or an image without alternative text.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError
from sphinx.util import logging

from lib.batch.book import BuildFailed, execute_book, executed_folder
from lib.batch.execution import Job, Outcome
from lib.batch.publish.address import colab_url, launch_options, on_its_own, repository_url
from lib.machine import write_whole
from lib.report.figures import interactive, readable_width

logger = logging.getLogger(__name__)
TABLE_BOX = '<div class="pst-scrollable-table-container">'
LOCAL_JUPYTER = "http://127.0.0.1:8888"
UNLOADED = (
    "*/*.map",  # what debuggers of the theme would ask for
    "locales",  # the theme in other languages
    "vendor/fontawesome/*/webfonts/*.ttf",  # for browsers without woff2
    "mathjax/adaptors",  # for Node
    "mathjax/input/asciimath.js",
    "mathjax/input/mml/extensions",
    "mathjax/input/tex*.js",  # inside the build that pages load, as is the next
    "mathjax/output/chtml.js",
)
"""Below `_static`; what the menu of a formula loads, other output and speech, stays."""
SOLUTION = re.compile(r"# Exercise (\d+)\n")  # how the cell begins that answers an exercise
NARROW = 365  # pixels that a picture has on a narrow phone; where that is enough for its labels, nothing scrolls
PLAYING = f"playing-{interactive.script_version()}.js"


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("lib.batch.publish.answer")
    app.setup_extension("lib.batch.publish.rewriting")
    app.connect("config-inited", _execute_pages)
    app.add_domain(References, override=True)
    app.connect("builder-inited", _be_strict)
    app.connect("env-get-outdated", _changed_pages)
    app.connect("doctree-read", _require_alternative_text)
    app.connect("doctree-resolved", _frame_figures)
    app.connect("html-page-context", _mend_bibliography)
    app.connect("html-page-context", _reach_tables)
    app.connect("html-page-context", _let_play)
    app.connect("html-page-context", _offer_notebook, priority=400)
    app.connect("html-page-context", _offer_jupyter, priority=900)
    app.connect("html-page-context", _write_notebook, priority=900)
    app.connect("build-finished", _prune_static, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class References(StandardDomain):  # type: ignore[misc]
    """For every reference to a figure Sphinx loads the page of it, outputs and all; here once for all of them."""

    def resolve_xref(self, env: Any, *where: Any) -> Any:
        self._looked_at: dict[str, nodes.document] = getattr(self, "_looked_at", {})
        return super().resolve_xref(_Remembering(env, self._looked_at), *where)


class _Remembering:
    """The environment, but a page that was asked for is kept: for those who only look at it."""

    def __init__(self, env: Any, pages: dict[str, nodes.document]) -> None:
        self._env, self._pages = env, pages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def get_doctree(self, name: str) -> nodes.document:
        if name not in self._pages:
            self._pages[name] = self._env.get_doctree(name)
        return self._pages[name]


def executed_notebook(_: str, *, path: str) -> nbformat.NotebookNode:
    """Reader for MyST-NB: the executed copy in place of the source text."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if found := SOLUTION.match(cell.source):
            name = f"olution of exercise {found[1]}"
            cell.metadata["mystnb"] = {"code_prompt_show": f"S{name}", "code_prompt_hide": f"Hide s{name}"}
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "solution"]  # which the style sheet prints open
    return interactive.page_outputs(notebook)


def _execute_pages(app: Sphinx, config: Any) -> None:
    profile = os.environ.get("BOOK_PROFILE", "smoke")
    try:
        app._book_repository = repository_url()
        jobs = execute_book(profile, report=_report)
    except (BuildFailed, ValueError) as error:
        raise ExtensionError(str(error)) from error
    app._book_jobs = {job.page.name: job for job in jobs}
    config.nb_custom_formats = {
        f"/{job.page.name}.md": [f"{__name__}.executed_notebook", {"path": str(job.notebook)}, False] for job in jobs
    }
    options = config.html_theme_options
    options.update(launch_options(app._book_repository, options.get("launch_buttons", {})))


def _report(outcome: Outcome) -> None:
    logger.info("%s %s (%.0f s)", "failed" if outcome.failed else "executed", outcome.page, outcome.seconds)


def _be_strict(app: Sphinx) -> None:
    # As `-W --keep-going` does: every warning is shown, and any of them makes the build fail at its end.
    app.keep_going, app.warningiserror = True, False


def _jobs(app: Sphinx) -> dict[str, Job]:
    return app._book_jobs  # type: ignore[no-any-return]


def _changed_pages(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages that were executed again since Sphinx last read them, although their source is the same."""
    keys = {name: f"{executed_folder(job.profile)} {job.execution()}" for name, job in _jobs(app).items()}
    known = getattr(env, "book_page_keys", {})
    env.book_page_keys = keys
    return [name for name, key in keys.items() if known.get(name) != key and name in env.found_docs]


def _require_alternative_text(app: Sphinx, doctree: nodes.document) -> None:
    for image in doctree.findall(nodes.image):
        if not str(image.get("alt", "")).strip():
            logger.warning("image without alternative text: %s", image.get("uri"), location=image)


def _frame_figures(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Each picture in a frame that knows how wide its labels need it: where there is less, it scrolls in the frame."""
    for figure in list(doctree.findall(nodes.figure)):
        for image in [child for child in figure.children if isinstance(child, nodes.image)]:
            source = Path(app.srcdir) / image["uri"]
            if source.suffix == ".svg" and source.exists():
                width = math.ceil(readable_width(source.read_text(encoding="utf-8")))
                reached = ' tabindex="0" role="region" aria-label="Figure"' if width > NARROW else ""
                frame = f'<div class="figure-frame" style="--readable: {width}px"{reached}>'
                place = figure.index(image)
                figure.insert(place + 1, nodes.raw("", "</div>", format="html"))
                figure.insert(place, nodes.raw("", frame, format="html"))


def _mend_bibliography(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """docutils calls the references a list, whose entries are none: screen readers are told of an empty list."""
    if "body" in context:
        context["body"] = context["body"].replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )


def _reach_tables(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A table that is wider than the page scrolls in a box of the theme: let the keyboard reach it."""
    if context.get("body"):
        context["body"] = context["body"].replace(
            TABLE_BOX, TABLE_BOX.replace(">", ' tabindex="0" role="region" aria-label="Table">')
        )


def _let_play(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A page with a figure to play with loads the script that draws it, which all such pages share; no other does."""
    if f'class="{interactive.CLASS}"' in context.get("body", ""):
        target = Path(app.outdir) / "_static" / PLAYING
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            for former in target.parent.glob("playing-*.js"):
                former.unlink()
            write_whole(target, interactive.script())
        app.add_js_file(PLAYING, loading_method="defer")


def _executed(app: Sphinx, pagename: str) -> Path | None:
    """The executed notebook behind a page, if there is one, with all that Jupyter can show of its outputs."""
    job = _jobs(app).get(pagename)
    return job.notebook if job else None


def _offer_notebook(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell the theme's download button of the notebook, before it makes its buttons."""
    if _executed(app, pagename):
        context["ipynb_source"] = f"{pagename}.ipynb"


def _write_notebook(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """The executed notebook beside its page; after the theme, which puts a bare copy there if it has launch buttons."""
    if executed := _executed(app, pagename):
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(on_its_own(nbformat.read(executed, as_version=4), app._book_repository), target)


def _offer_jupyter(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Launch buttons beside those of the theme: Colab, and the Jupyter that `make lab` starts on this machine.

    The last needs no service. A script takes it off pages that come from elsewhere (`book/_static/own_machine.js`).
    """
    if pagename not in _jobs(app):
        return
    here = {
        "type": "link",
        "text": "Jupyter here",
        "icon": "fas fa-laptop-code",
        "tooltip": "Open in the Jupyter on this machine (start it with make lab)",
        "url": f"{LOCAL_JUPYTER}/lab/tree/{pagename}.md",
    }
    colab = {
        "type": "link",
        "text": "Colab",
        "icon": "_static/images/logo_colab.png",
        "tooltip": "Launch on Colab",
        "url": colab_url(app._book_repository, pagename),
    }
    added = [button for button in (colab, here) if button["url"]]
    buttons = context.setdefault("header_buttons", [])
    for group in buttons:
        if group.get("label") == "launch-buttons":
            group["buttons"].extend(added)
            return
    buttons.append(
        {"type": "group", "buttons": added, "icon": "fas fa-rocket", "tooltip": "Launch", "label": "launch-buttons"}
    )


def _prune_static(app: Sphinx, error: Exception | None) -> None:
    """Leave out what the theme and MathJax bring along and no page loads: 19 of 31 MB."""
    static = Path(app.outdir) / "_static"
    if error is None:
        mathjax = static / "mathjax"
        others = (build for build in mathjax.glob("*.js") if build.name != Path(app.config.mathjax_path).name)
        for path in [*others, *(path for pattern in UNLOADED for path in static.glob(pattern))]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
