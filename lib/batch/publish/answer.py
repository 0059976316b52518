"""What pages say of claims and errata when Sphinx reads them: the answer at their head, and links to what they mention.

The directive `answer`: at the head of a chapter, what was found of its claims, from the records, and where to look.

    :::{answer} first-claim second-claim
    :figure: fig-of-both
    :::

The box is filled when Sphinx reads the page, after all pages have run: no page has to run again because a verdict has
changed.

`LinkedErrata` makes a link of every "erratum 12" in a text, and lets the search find an erratum by its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
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
ERRATUM = re.compile(r"erratum-(\d+)")
MENTION = re.compile(r"\b[Ee]rrat(?:um|a)\s+\d+(?:(?:, | and | to |–)\d+)*")
NOT_LINKED = (nodes.reference, addnodes.pending_xref, nodes.literal, nodes.literal_block, nodes.title, nodes.raw)


class Answer(SphinxDirective):  # type: ignore[misc]
    """A box with a line for each named claim, a line for the other claims that the page checks, and the key figure."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"figure": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        named = self.arguments[0].split()
        folder = executed_folder(profile())
        self._depends_on(folder)
        rows = _rows(self.env.app, folder)
        here = [row.claim.id for row in rows if any(part["page"] == self.env.docname for part in row.parts)]
        try:
            found = scorecard.findings([*named, *(claim for claim in here if claim not in named)], rows)
        except ValueError as error:
            raise self.error(str(error)) from error
        box = nodes.container(classes=["answer"])
        box += nodes.bullet_list("", *(nodes.list_item("", self._line(one)) for one in found[: len(named)]))
        if found[len(named) :]:
            box += self._others(found[len(named) :])
        if "figure" in self.options:
            where = nodes.paragraph(classes=["answer-figure"])
            told, problems = self.parse_inline(f"The key figure: {{numref}}`{self.options['figure']}`.")
            where.extend([*told, *problems])
            box += where
        return [box]

    def _depends_on(self, folder: Path) -> None:
        """The page is read again when a record, a claim or a sentence has changed."""
        places = ((findings.FOLDER, "*.yml"), (scorecard.COMMITTED, "*.jsonl"), (folder, "*.jsonl"))
        for place, pattern in (*places, (ROOT / "book" / "claims", "*.yml")):
            for path in place.rglob(pattern):
                self.env.note_dependency(str(path))

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


def _rows(app: Sphinx, folder: Path) -> list[Row]:
    """The scorecard, made once per build: no record changes while Sphinx reads."""
    if not hasattr(app, "_book_rows"):
        app._book_rows = scorecard.rows(scorecard.load_records([folder]))
    return app._book_rows  # type: ignore[no-any-return]


def _verdict(found: Finding) -> nodes.inline:
    symbol, word = WORDS[found.status]
    return nodes.inline("", f"{symbol} {word}", classes=["claim-word", f"claim-{found.status.replace(' ', '-')}"])


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


def _above(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node
