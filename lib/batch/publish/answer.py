"""What pages say of claims and errata when Sphinx reads them: the answer at their head, and links to what they mention.

The directive `answer`: at the head of a chapter, what was found of its claims, from the records, and where to look.

    :::{answer} first-claim second-claim
    :figure: fig-of-both
    :::

The box is filled when Sphinx reads the page, after all pages have run: no page has to run again because a verdict has
changed. `KeyPictures` puts the picture of the key figure into it, small, where the page has one.

`LinkedErrata` makes a link of every "erratum 12" in a text, and lets the search find an erratum by its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from lib import ROOT
from lib.batch.book import executed_folder
from lib.report import findings, scorecard
from lib.report.findings import Finding
from lib.report.records import profile
from lib.report.scorecard import Row
from lib.report.shown import WORDS

SCORECARD = "book/scorecard"
ANSWER = "answer"  # among what Sphinx keeps of a page: the claims that its box names, and what it said of them
ERRATUM = re.compile(r"erratum-(\d+)")
MENTION = re.compile(r"\b[Ee]rrat(?:um|a)\s+\d+(?:(?:, | and | to |–)\d+)*")
NOT_LINKED = (nodes.reference, addnodes.pending_xref, nodes.literal, nodes.literal_block, nodes.title, nodes.raw)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("answer", Answer)
    app.add_transform(LinkedErrata)
    app.add_transform(KeyPictures)
    app.connect("env-get-outdated", _say_otherwise)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Answer(SphinxDirective):  # type: ignore[misc]
    """A box with a line for each named claim, a line for the other claims that the page checks, and the key figure."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"figure": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        named = self.arguments[0].split()
        try:
            found = _found(self.env.docname, named, _rows(self.env.app))
        except ValueError as error:
            raise self.error(str(error)) from error
        self.env.metadata[self.env.docname][ANSWER] = named, repr(found)
        box = nodes.container(classes=["answer"])
        box += nodes.bullet_list("", *(nodes.list_item("", self._line(one)) for one in found[: len(named)]))
        if found[len(named) :]:
            box += self._others(found[len(named) :])
        if "figure" in self.options:
            where = nodes.paragraph(classes=["answer-figure"])
            told, problems = self.parse_inline(f"The key figure: {{numref}}`{self.options['figure']}`.")
            where.extend([*told, *problems])
            box += where
            box["figure"] = nodes.fully_normalize_name(self.options["figure"])
        return [box]

    def _line(self, found: Finding) -> nodes.paragraph:
        return nodes.paragraph("", "", _verdict(found), nodes.Text(f" {found.sentence} "), self._link(found))

    def _others(self, others: list[Finding]) -> nodes.paragraph:
        line = nodes.paragraph("", "Also checked here: ", classes=["answer-others"])
        for number, found in enumerate(others):
            line += [nodes.Text("; ")] if number else []
            line += [_verdict(found), nodes.Text(" "), self._link(found)]
        return line

    def _link(self, found: Finding) -> nodes.reference:
        address = self.env.app.builder.get_relative_uri(self.env.docname, SCORECARD)
        code = nodes.literal("", found.claim)
        return nodes.reference("", "", code, refuri=f"{address}#scorecard-{found.claim}", internal=True)


def _say_otherwise(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages whose boxes no longer say what is found, after another record, claim or sentence; they are read again."""
    state = _state()
    known, env.book_answers = getattr(env, "book_answers", None), state
    boxes = {name: told[ANSWER] for name, told in env.metadata.items() if ANSWER in told} if known != state else {}
    return [name for name, (named, said) in boxes.items() if _said(name, named, _rows(app)) != said]


def _said(page: str, named: Sequence[str], rows: list[Row]) -> str:
    """What a box would say now; nothing if it names a claim that is gone, which reading the page will tell."""
    try:
        return repr(_found(page, named, rows))
    except ValueError:
        return ""


def _state() -> list[tuple[str, int, int]]:
    """Of all files from which boxes are filled, their sizes and times: making the scorecard takes longer."""
    folders = (findings.FOLDER, scorecard.COMMITTED, executed_folder(profile()), ROOT / "book" / "claims")
    files = (path for folder in folders for pattern in ("*.yml", "*.jsonl") for path in folder.rglob(pattern))
    return sorted((str(path), one.st_size, one.st_mtime_ns) for path in files for one in [path.stat()])


def _found(page: str, named: Sequence[str], rows: list[Row]) -> list[Finding]:
    """Of the claims that the box names, and then of the others that its page checks. ValueError for unknown claims."""
    here = [row.claim.id for row in rows if any(part["page"] == page for part in row.parts)]
    return scorecard.findings([*named, *(claim for claim in here if claim not in named)], rows)


def _rows(app: Sphinx) -> list[Row]:
    """The scorecard, made once per build: no record changes while Sphinx reads."""
    if not hasattr(app, "_book_rows"):
        app._book_rows = scorecard.rows(scorecard.load_records([executed_folder(profile())]))
    return app._book_rows  # type: ignore[no-any-return]


def _verdict(found: Finding) -> nodes.inline:
    symbol, word = WORDS[found.status]
    return nodes.inline("", f"{symbol} {word}", classes=["claim-word", f"claim-{found.status.replace(' ', '-')}"])


class KeyPictures(SphinxTransform):  # type: ignore[misc]
    """The picture of the figure that a box names, small, at its head: a link to the figure, often screens away."""

    default_priority = 400  # before Sphinx notes which files pictures are

    def apply(self, **kwargs: Any) -> None:
        pictures = {
            name: (figure, image)
            for figure in self.document.findall(nodes.figure)
            for image in [*figure.findall(nodes.image)][:1]
            for name in figure["names"]
        }
        for box in list(self.document.findall(_is_box)):
            if box["figure"] in pictures:
                figure, image = pictures[box["figure"]]
                small = nodes.image("", uri=image["uri"], alt="The key figure, small")
                box.insert(0, nodes.reference("", "", small, refid=figure["ids"][0], classes=["answer-picture"]))


class LinkedErrata(SphinxTransform):  # type: ignore[misc]
    """Every mention of an erratum by its number leads to it; of several that are named together, each does."""

    default_priority = 400  # before the domains look for index entries and for links to resolve

    def apply(self, **kwargs: Any) -> None:
        for target in list(self.document.findall(nodes.target)):
            number = ERRATUM.fullmatch(target.get("refid") or "")
            if number:
                entry = ("single", f"erratum {number[1]}", target["refid"], "", None)
                target.parent.insert(target.parent.index(target), addnodes.index(entries=[entry]))
        for text in list(self.document.findall(nodes.Text)):
            if MENTION.search(text) and not any(isinstance(one, NOT_LINKED) for one in _above(text)):
                text.parent.replace(text, list(self._linked(str(text))))

    def _linked(self, text: str) -> Iterator[nodes.Node]:
        done = 0
        for mention in MENTION.finditer(text):
            for number in re.finditer(r"\d+", mention[0]):
                first = not re.search(r"\d", mention[0][: number.start()])  # the word belongs to the first number
                start = mention.start() + (0 if first else number.start())
                end = mention.start() + number.end()
                if text[done:start]:
                    yield nodes.Text(text[done:start])
                yield self._link(text[start:end], f"erratum-{number[0]}")
                done = end
        if text[done:]:
            yield nodes.Text(text[done:])

    def _link(self, words: str, target: str) -> nodes.Node:
        told = {"refdomain": "std", "reftype": "ref", "reftarget": target, "refexplicit": True, "refwarn": True}
        return addnodes.pending_xref("", nodes.inline("", words), refdoc=self.env.docname, **told)


def _is_box(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "answer" in node["classes"] and "figure" in node


def _above(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node
