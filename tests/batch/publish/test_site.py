"""What surrounds the pages: with an address a list of them, pictures and a feed; without one nothing of that."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace
from sphinx.util.matching import get_matching_files
from sphinx_external_toc.parsing import parse_toc_yaml

from lib import ROOT
from lib.batch.publish import sphinx_site
from lib.batch.publish.sphinx_site import ATOM, Release, chapter_citation, citation, feed

HOME, PAGES = "https://github.com/someone/book", "https://someone.github.io/book/"
PLACES = {
    "index": "# A book\n\nWhat *it* says first.\n\n```{toctree}\nbook/changelog\nnotebooks/part/chapter\n```\n",
    "book/changelog": (
        "# Changelog\n\nNewest first.\n\n## Version 0.2.0 · 2026-02-03\n\n"
        "- {doc}`A chapter </notebooks/part/chapter>` & more.\n\n"
        "## Version 0.1.0 · 2025-12-31\n\n- It begins.\n"
    ),
    "notebooks/part/chapter": (
        "# Linear RNNs\n\n**Claim** ([Shen](https://example.org), Fig. 3(a) and 9). A linear network forgets.\n"
    ),
}


def build(folder: Path, repository: str, **pages: str) -> tuple[Path, str]:
    """Pages of a small book with the extension, as built where its sources are published there; and the warnings."""
    for name, text in (PLACES | pages).items():
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / f"{name}.md").write_text(text, encoding="utf-8")
    settings = {
        "extensions": ["myst_parser", "lib.batch.publish.sphinx_site"],
        "language": "en",
    }
    said, out = io.StringIO(), folder / "out"
    with pytest.MonkeyPatch.context() as patch, docutils_namespace():
        patch.setenv("BOOK_REPOSITORY", repository)
        patch.setattr("lib.batch.publish.address.origin", lambda root: "")
        app = Sphinx(str(folder / "src"), None, str(out), str(folder / "trees"), "html", settings, None, said)
        app.build()
    return out, said.getvalue()


def test_no_page_is_left_out_by_its_folder_alone() -> None:
    """The contents leave out other texts by a pattern that begins with the folder: one named a[1] is not matched."""
    patterns = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["exclude_patterns"]
    texts = {Path(name).with_suffix("").as_posix() for name in get_matching_files(ROOT, ["**.md"], patterns)}
    assert texts == set(parse_toc_yaml(ROOT / "_toc.yml"))


Built = tuple[Path, str]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("published"), HOME)


@pytest.fixture(scope="module")
def unpublished(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("unpublished"), "")


def head(built: Built, name: str) -> str:
    return (built[0] / f"{name}.html").read_text(encoding="utf-8").partition("</head>")[0]


def test_every_page_has_a_title_and_a_description_with_and_without_an_address(
    published: Built, unpublished: Built
) -> None:
    for built in (published, unpublished):
        assert not built[1]
        for name, text in {
            "index": "What it says first.",
            "notebooks/part/chapter": "A linear network forgets.",
        }.items():
            assert f'<meta name="description" content="{text}' in head(built, name)
            assert f'<meta property="og:description" content="{text}' in head(built, name)
            assert '<meta property="og:title"' in head(built, name)
        assert "<strong>Claim</strong>" in (built[0] / "notebooks/part/chapter.html").read_text(encoding="utf-8")


def test_with_an_address_there_are_pictures_a_list_of_pages_and_a_feed(published: Built) -> None:
    out = published[0]
    for name in PLACES:
        assert f'<meta property="og:url" content="{PAGES}{name}.html"' in head(published, name)
        (picture,) = (line for line in head(published, name).splitlines() if '"og:image"' in line)
        relative = picture.partition(PAGES)[2].partition('"')[0]
        assert relative.endswith(".png") and (out / relative).stat().st_size > 1000
        assert f'type="application/atom+xml" title="Changelog" href="{PAGES}changelog.xml"' in head(published, name)
    listed = {one.text for one in ElementTree.parse(out / "sitemap.xml").iter() if one.tag.endswith("loc")}
    assert listed == {f"{PAGES}{name}.html" for name in PLACES}


def test_without_an_address_nothing_is_absolute(unpublished: Built) -> None:
    out = unpublished[0]
    assert not (out / "sitemap.xml").exists() and not (out / "changelog.xml").exists()
    for name in (*PLACES, "404"):
        assert not any(mark in head(unpublished, name) for mark in ("og:image", "og:url", "canonical", "atom+xml"))


def test_a_page_that_is_not_there_finds_the_book_from_any_depth(published: Built, unpublished: Built) -> None:
    for built, prefix in ((published, "/book/"), (unpublished, "/")):
        page = (built[0] / "404.html").read_text(encoding="utf-8")
        found = [part.partition('"')[0] for start in ("href=", "src=") for part in page.split(f'{start}"')[1:]]
        assert f"{prefix}index.html" in found
        assert all(link.startswith((prefix, "#", "http")) for link in found), found


def test_links_of_the_theme_start_at_the_root_on_that_page_only() -> None:
    class App:
        class config:
            notfound_urls_prefix = "/book/"

    made = '<a href="notebooks/a.html">A</a><a href="#">here</a><a href="https://example.org">out</a><a href="/x">x</a>'
    for page, first in (("404", "/book/notebooks/a.html"), ("index", "notebooks/a.html")):
        context = {"generate_toctree_html": lambda kind: made}
        sphinx_site._mend_not_found(App, page, "", context, None)
        links = [part.partition('"')[0] for part in context["generate_toctree_html"]("sidebar").split('href="')[1:]]
        assert links == [first, "#", "https://example.org", "/x"]


def test_a_chapter_says_at_its_foot_how_it_is_cited(published: Built, unpublished: Built) -> None:
    book = citation()
    for built, where in ((published, f"{PAGES}notebooks/part/chapter.html"), (unpublished, "")):
        text = (built[0] / "notebooks/part/chapter.html").read_text(encoding="utf-8")
        assert text.count("How to cite:") == 1
        assert f"How to cite: {chapter_citation(book, 'Linear RNNs', where)}" in text
        assert "How to cite:" not in (built[0] / "index.html").read_text(encoding="utf-8")
    line = chapter_citation(book, "Linear <RNNs>", "")
    assert "“Linear &lt;RNNs&gt;”" in line and f"version {book['version']}" in line and "href" not in line


def test_the_feed_has_an_entry_for_each_version(published: Built) -> None:
    names = {"a": ATOM}
    root = ElementTree.parse(published[0] / "changelog.xml").getroot()
    assert root.tag == f"{{{ATOM}}}feed"
    for name in ("id", "title", "updated"):
        assert root.findtext(f"a:{name}", namespaces=names)
    assert root.findtext("a:author/a:name", namespaces=names) == citation()["authors"][0]["name"]
    entries = root.findall("a:entry", names)
    told = [[entry.findtext(f"a:{name}", namespaces=names) for name in ("title", "updated")] for entry in entries]
    assert "#version-0-2-0-2026-02-03" in entries[0].find("a:link", names).get("href")  # not a number of the page
    assert told == [["Version 0.2.0", "2026-02-03T00:00:00Z"], ["Version 0.1.0", "2025-12-31T00:00:00Z"]]
    assert root.findtext("a:updated", namespaces=names) == told[0][1]
    page = (published[0] / "book/changelog.html").read_text(encoding="utf-8")
    for entry in entries:
        link = entry.find("a:link", names).get("href")
        assert link.startswith(f"{PAGES}book/changelog.html#") and f'id="{link.partition("#")[2]}"' in page
    content = entries[0].find("a:content", names)
    assert content.get("{http://www.w3.org/XML/1998/namespace}base") == f"{PAGES}book/changelog.html"
    assert 'href="../notebooks/part/chapter.html"' in content.text and "&amp; more" in content.text


def test_what_a_feed_says_is_escaped_once() -> None:
    made = feed(
        [Release("1.0.0", "2026-01-01", "x", "<p>a &lt; b</p>")],
        {"title": "A & B", "authors": [{"family-names": "C", "given-names": "D"}]},
        PAGES,
    )
    root = ElementTree.fromstring(made)
    assert root.findtext(f"{{{ATOM}}}title") == "A & B: changelog"
    assert root.findtext(f"{{{ATOM}}}author/{{{ATOM}}}name") == "C, D"
    assert root.findtext(f"{{{ATOM}}}entry/{{{ATOM}}}content") == "<p>a &lt; b</p>"


def test_a_title_without_a_day_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match=r"Version 0\.2\.0, soon"):
        build(tmp_path, HOME, **{"book/changelog": "# Changelog\n\n## Version 0.2.0, soon\n\nMuch.\n"})


def test_an_address_that_is_none_stops_the_build_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match="BOOK_REPOSITORY"):
        build(tmp_path, "someone/book")


def test_the_citation_is_of_the_version_that_the_changelog_begins_with() -> None:
    changelog = (ROOT / "book" / "changelog.md").read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in changelog.splitlines() if line.startswith("## ")]
    days = [title.partition(" · ")[2] for title in titles]
    assert days == sorted(days, reverse=True) and all(days)
    book = citation()
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert titles[0] == f"Version {book['version']} · {book['date-released']}" and book["version"] == package["version"]
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert (book["title"], book["authors"][0]["name"]) == (config["title"], config["author"])
