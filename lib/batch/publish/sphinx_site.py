"""Sphinx extension: what surrounds the pages when they are published.

Title, description and picture for who links to a page (`sphinxext.opengraph`), a page for addresses that do not exist
(`notfound.extension`), and, where the address of the pages is known, the list of all pages (`sphinx_sitemap`) and the
changelog as a feed. How a chapter is cited stands at its foot, made of `CITATION.cff`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from lib import ROOT, plain_yaml
from lib.batch.publish.address import pages_url, repository_url
from lib.machine import write_whole

CITATION = ROOT / "CITATION.cff"
CHANGELOG, FEED = "book/changelog", "changelog.xml"
NOT_FOUND = "404"
CLOSED = "). "  # ends the place of a claim in its paper
ATOM = "http://www.w3.org/2005/Atom"
RELATIVE_ADDRESS = re.compile(r'<meta property="og:url" content="(?!https?:)[^"]*" />\s*')
OUTSIDE_SITEMAP = ["search.html", "genindex.html", "prf-prf.html", f"{NOT_FOUND}.html"]


def setup(app: Sphinx) -> dict[str, Any]:
    try:
        address = pages_url(repository_url())
    except ValueError as error:
        raise ExtensionError(str(error)) from error
    for name in ("sphinxext.opengraph", "notfound.extension", *(["sphinx_sitemap"] if address else [])):
        app.setup_extension(name)
    app.connect("config-inited", lambda app, config: _set_address(config, address), priority=400)
    app.connect("html-page-context", _begin_with_what_is_said, priority=400)
    app.connect("html-page-context", _cite)
    app.connect("html-page-context", _mend_metatags, priority=900)
    app.connect("html-page-context", _mend_not_found, priority=900)
    app.connect("html-page-context", _write_feed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _set_address(config: Any, address: str) -> None:
    """Settings of the extensions; without an address there is no absolute picture and no list of pages."""
    config.html_baseurl = config.ogp_site_url = address
    config.ogp_site_name = citation()["title"]
    config.notfound_urls_prefix = urlsplit(address).path or "/"
    config.ogp_social_cards = {**(config.ogp_social_cards or {}), "enable": bool(address)}
    if address:
        config.sitemap_url_scheme, config.sitemap_excludes = "{link}", OUTSIDE_SITEMAP


def citation() -> dict[str, Any]:
    """The book as it is cited: the fields of `CITATION.cff`."""
    found: dict[str, Any] = plain_yaml.load(CITATION.read_text(encoding="utf-8"))
    return found


def authors(book: dict[str, Any]) -> str:
    return ", ".join(one.get("name") or f"{one['family-names']}, {one['given-names']}" for one in book["authors"])


def chapter_citation(book: dict[str, Any], chapter: str, address: str) -> str:
    """One line of HTML: who, when, the chapter, the book with its version, and the address if it is known."""
    where = f' <a href="{html.escape(address)}">{html.escape(address)}</a>' if address else ""
    return (
        f"{html.escape(authors(book))} ({str(book['date-released'])[:4]}). “{html.escape(chapter)}”. In <em>"
        f"{html.escape(book['title'])}</em>, version {html.escape(str(book['version']))}.{where}"
    )


def _cite(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if doctree is not None and pagename.startswith("notebooks/"):
        base = app.config.html_baseurl
        address = urljoin(base, app.builder.get_target_uri(pagename)) if base else ""
        line = chapter_citation(citation(), app.env.titles[pagename].astext(), address)
        context["body"] += f'<p class="cite-chapter">How to cite: {line}</p>'


def _begin_with_what_is_said(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Drop "Claim (paper, place)." where a chapter begins so: descriptions have room for the first words only.

    The page itself is rendered by now; what changes here is read by nobody but the extension that describes it.
    """
    first = doctree.next_node(nodes.paragraph) if doctree is not None else None
    if first is None or not re.match(r"Claim\s*\(", first.astext()):
        return
    for place, child in enumerate(first.children):
        if isinstance(child, nodes.Text) and CLOSED in child.astext():
            first.children[: place + 1] = [nodes.Text(child.astext().partition(CLOSED)[2])]
            return


def _mend_metatags(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """An address that is no address says nothing; the feed is announced where there is one."""
    context["metatags"] = RELATIVE_ADDRESS.sub("", context.get("metatags", ""))
    if app.config.html_baseurl:
        feed = urljoin(app.config.html_baseurl, FEED)
        context["metatags"] += f'<link rel="alternate" type="application/atom+xml" title="Changelog" href="{feed}" />\n'


def _mend_not_found(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """The theme's own table of contents names pages from where the page lies, which for this one is anywhere."""
    make = context.get("generate_toctree_html")
    if pagename == NOT_FOUND and make is not None:
        prefix = app.config.notfound_urls_prefix

        def from_the_root(*arguments: Any, **options: Any) -> Any:
            made = make(*arguments, **options)
            return re.sub(r'href="(?![a-z]+:|[/#])', f'href="{prefix}', made) if isinstance(made, str) else made

        context["generate_toctree_html"] = from_the_root


@dataclass(frozen=True)
class Release:
    """A section of the changelog: what it says, as HTML, under its version and the day of its last change."""

    version: str
    day: str
    anchor: str
    content: str


def releases(app: Sphinx, doctree: nodes.document) -> Iterator[Release]:
    """Sections of the changelog, whose titles hold a version and a day.

    Raises ExtensionError for a title of another form.
    """
    (page,) = (node for node in doctree.children if isinstance(node, nodes.section))
    for section in (node for node in page.children if isinstance(node, nodes.section)):
        title = section.next_node(nodes.title).astext()
        match = re.fullmatch(r"Version (\d+\.\d+\.\d+) · (\d{4}-\d{2}-\d{2})", title)
        if match is None:
            raise ExtensionError(f"{CHANGELOG}: a title like `Version 0.3.0 · 2026-11-22` is allowed, got {title!r}")
        content = "".join(app.builder.render_partial(node)["fragment"] for node in section.children[1:])
        yield Release(match[1], match[2], section["ids"][0], content)


def feed(found: list[Release], book: dict[str, Any], address: str) -> bytes:
    """An Atom feed (RFC 4287) of these releases; links in their text count from the page of the changelog."""
    page = urljoin(address, f"{CHANGELOG}.html")
    root = ElementTree.Element("feed", {"xmlns": ATOM})

    def add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
        child = ElementTree.SubElement(parent, name, attributes)
        child.text = text or None
        return child

    add(root, "title", f"{book['title']}: changelog")
    add(root, "id", page)
    add(root, "updated", max(f"{one.day}T00:00:00Z" for one in found))
    add(add(root, "author"), "name", authors(book))
    add(root, "link", rel="self", href=urljoin(address, FEED))
    add(root, "link", rel="alternate", href=page)
    for one in found:
        entry = add(root, "entry")
        add(entry, "title", f"Version {one.version}")
        add(entry, "id", f"{page}#version-{one.version}")
        add(entry, "updated", f"{one.day}T00:00:00Z")
        add(entry, "link", rel="alternate", href=f"{page}#{one.anchor}")
        add(entry, "content", one.content, type="html").set("xml:base", page)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _write_feed(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == CHANGELOG and doctree is not None and app.config.html_baseurl:
        found = list(releases(app, doctree))
        write_whole(Path(app.outdir) / FEED, feed(found, citation(), app.config.html_baseurl))
