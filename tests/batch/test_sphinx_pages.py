"""What the Sphinx extension adds to a page: the script of figures to play with where there is one, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import docutils_namespace

from lib.batch import sphinx_pages
from lib.report.figures import interactive


def test_the_script_is_written_once_and_loaded_only_where_a_figure_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    made: list[str] = []
    app: Any = SimpleNamespace(outdir=tmp_path, add_js_file=lambda name, **_: loaded.append(name))
    monkeypatch.setattr(interactive, "script", lambda: made.append("") or "draw()")
    former = tmp_path / "_static" / "playing-00000000.js"
    former.parent.mkdir()
    former.write_text("")
    plain, playing = "<p>playable</p>", f'<script type="application/json" class="{interactive.CLASS}">{{}}</script>'
    for body in (plain, playing, plain, playing):
        sphinx_pages._let_play(app, "page", "page.html", {"body": body}, None)
    sphinx_pages._let_play(app, "genindex", "genindex.html", {}, None)
    assert loaded == [sphinx_pages.PLAYING] * 2 and len(made) == 1
    assert [path.name for path in former.parent.iterdir()] == [sphinx_pages.PLAYING]
    assert (former.parent / sphinx_pages.PLAYING).read_text() == "draw()"


def test_another_start_of_the_charts_has_another_script(monkeypatch: pytest.MonkeyPatch) -> None:
    first = interactive.script_version()
    assert first == interactive.script_version()
    monkeypatch.setattr(interactive, "START", "")
    assert first != interactive.script_version()


def test_what_no_page_loads_is_left_out_of_a_sound_build_and_nothing_else(tmp_path: Path) -> None:
    fontawesome = "vendor/fontawesome/6.5.2/webfonts/fa-solid-900"
    loaded = {
        "mathjax/tex-chtml.js",
        "mathjax/input/mml.js",  # by what makes speech
        "mathjax/input/tex/extensions/cancel.js",
        "mathjax/output/svg.js",
        "scripts/bootstrap.js",
        f"{fontawesome}.woff2",
        "map.js",
    }
    others = {
        "mathjax/tex-svg.js",
        "mathjax/input/tex-full.js",
        "mathjax/adaptors/liteDOM.js",
        "scripts/bootstrap.js.map",
        "locales/de/LC_MESSAGES/booktheme.po",
        f"{fontawesome}.ttf",
    }
    static = tmp_path / "_static"
    for name in loaded | others:
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        (static / name).touch()
    app: Any = SimpleNamespace(outdir=tmp_path, config=SimpleNamespace(mathjax_path="mathjax/tex-chtml.js"))

    def found() -> set[str]:
        return {path.relative_to(static).as_posix() for path in static.rglob("*") if path.is_file()}

    sphinx_pages._prune_static(app, RuntimeError())
    assert found() == loaded | others
    for _ in range(2):
        sphinx_pages._prune_static(app, None)
        assert found() == loaded


def test_a_picture_stands_in_a_frame_that_keys_reach_where_it_may_scroll(tmp_path: Path) -> None:
    for name, size in (("small", 10), ("large", 30)):
        (tmp_path / f"{name}.svg").write_text(f'<svg width="600"><text font-size="{size}">a</text></svg>')
    page = nodes.container()
    for name in ("small.svg", "large.svg", "photo.png"):
        page += nodes.figure("", nodes.image(uri=name), nodes.caption("", "A caption"))
    sphinx_pages._frame_figures(SimpleNamespace(srcdir=tmp_path), page, "page")  # type: ignore[arg-type]
    small, large, photo = page.children
    frame, image, end, caption = small.children
    assert "--readable: 420px" in frame.astext() and 'tabindex="0"' in frame.astext()
    assert isinstance(image, nodes.image) and end.astext() == "</div>" and caption.astext() == "A caption"
    assert "--readable: 140px" in large[0].astext() and "tabindex" not in large[0].astext()
    assert len(photo) == 2


def test_a_folded_solution_is_named_after_its_exercise_and_other_cells_are_left_alone(tmp_path: Path) -> None:
    sources = ["# Exercise 2\nassert 1", "# Exercises of old\n1", "1  # Exercise 3\n"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbformat.write(notebook, tmp_path / "page.ipynb")
    named, *others = sphinx_pages.executed_notebook("", path=str(tmp_path / "page.ipynb")).cells
    assert named.metadata["mystnb"]["code_prompt_show"] == "Solution of exercise 2"
    assert named.metadata["tags"] == ["solution"]  # by which the style sheet opens it on paper
    assert not any({"mystnb", "tags"} & set(cell.metadata) for cell in others)


def test_pages_of_figures_are_loaded_once_and_references_lead_where_they_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = BuildEnvironment.get_doctree
    figures = "\n".join(f"```{{figure}} one.png\n:name: fig-{n}\n\nCaption {n}.\n```\n" for n in range(3))
    pages = {
        "index": "# Book\n\n```{toctree}\n:numbered:\nfigures\nother\n```\n",
        "figures": f"# Figures\n\n{figures}",
        "other": "# Other\n\n" + " ".join(f"{{numref}}`fig-{n}`, {{ref}}`fig-{n}`" for n in range(3)),
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    (tmp_path / "one.png").touch()

    def built(*domains: type[StandardDomain]) -> tuple[str, list[str]]:
        out, loaded = tmp_path / f"html{len(domains)}", list[str]()
        with docutils_namespace():
            settings = {"extensions": ["myst_parser"], "numfig": True, "exclude_patterns": ["html*"]}
            app = Sphinx(tmp_path, None, out, out, "html", settings, status=None, warning=None)
            for domain in domains:
                app.env.domains["std"] = domain(app.env)
            with monkeypatch.context() as patch:
                patch.setattr(BuildEnvironment, "get_doctree", lambda env, name: loaded.append(name) or load(env, name))
                app.build()
        return (out / "other.html").read_text(encoding="utf-8"), loaded

    (page, often), (same, once) = built(), built(sphinx_pages.References)
    assert page == same and "Fig. 1.3" in page and "Caption 2" in page
    assert often.count("figures") - once.count("figures") == 2
