"""The directive `answer`: at the head of a chapter, what was found of its claims, from the records, and where to look.

    :::{answer} first-claim second-claim
    :figure: fig-of-both
    :::

It is filled when Sphinx reads the page, after all pages have run: a verdict that changes needs no page to run again.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lib import ROOT
from lib.batch.book import executed_folder
from lib.report import findings, scorecard
from lib.report.claims import WORDS
from lib.report.findings import Finding
from lib.report.records import profile
from lib.report.scorecard import Row

SCORECARD = "book/scorecard"


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
    """The scorecard, made once a build: no record changes while Sphinx reads."""
    if not hasattr(app, "_book_rows"):
        app._book_rows = scorecard.rows(scorecard.load_records([folder]))
    return app._book_rows  # type: ignore[no-any-return]


def _verdict(found: Finding) -> nodes.inline:
    symbol, word = WORDS[found.status]
    return nodes.inline("", f"{symbol} {word}", classes=["claim-word", f"claim-{found.status.replace(' ', '-')}"])
