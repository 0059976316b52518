"""The box at the head of a chapter: verdicts from records, a line for each named claim, a link to the key figure."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from lib.batch.publish import answer
from lib.report import findings, scorecard

PAGE = "notebooks/page"
TEXT = """# A chapter

:::{{answer}} {claims}
:figure: fig-one
:::

See erratum 3, errata 3 and 4, ({{ref}}`erratum 4 <erratum-4>`) and `erratum 3`; an erratum has a number.

```{{figure}} one.png
:name: fig-one
:alt: A figure.

It shows.
```
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Builds a book of one chapter and a scorecard; gives the chapter's HTML and what Sphinx warned of."""
    source, recorded, told = tmp_path / "book", tmp_path / "claims", tmp_path / "findings"
    for folder in (source / "notebooks", source / "book", recorded, told):
        folder.mkdir(parents=True)
    monkeypatch.setattr(scorecard, "COMMITTED", recorded)
    monkeypatch.setattr(scorecard, "ROOT", source)  # where the page of the records is
    monkeypatch.setattr(findings, "FOLDER", told)
    monkeypatch.setattr(findings.sentences, "__defaults__", (told,))
    monkeypatch.setattr(answer, "executed_folder", lambda profile: tmp_path / "executed")
    (source / "index.md").write_text(
        "# Book\n\n```{toctree}\nnotebooks/page\nbook/scorecard\nbook/errata\n```\n", encoding="utf-8"
    )
    (source / "book" / "scorecard.md").write_text("# Scorecard\n", encoding="utf-8")
    errata = "# Errata\n\n(erratum-3)=\n## 3 · A factor\n\nOf erratum 4.\n\n(erratum-4)=\n## 4 · An index\n"
    (source / "book" / "errata.md").write_text(errata, encoding="utf-8")
    (source / "notebooks" / "one.png").write_bytes(b"")
    (told / "all.yml").write_text(
        "shen-eq47: {says: It., holds: 'The ratio is {{ ours() }} < 2.', differs: It is not.}\n", encoding="utf-8"
    )

    def made(outcome: str, claims: str = "shen-eq47") -> tuple[str, str]:
        line = {
            "claim": "shen-eq47", "part": "", "outcome": outcome, "sentence": "1.5", "profile": "laptop", "page": PAGE,
            "anchor": "claim-shen-eq47", "provenance": {"date": "2026-01-01", "code": "abc"}, "measured": 1.5,
        }  # fmt: skip
        (recorded / "page.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        (source / "notebooks" / "page.md").write_text(TEXT.format(claims=claims), encoding="utf-8")
        findings._read.cache_clear()
        warned = io.StringIO()
        settings = {"extensions": ["myst_parser"], "numfig": True, "myst_enable_extensions": ["colon_fence"]}
        with docutils_namespace():  # which other tests find as it was
            app = Sphinx(
                source, None, tmp_path / "html", tmp_path / "trees", "html", settings, status=None, warning=warned
            )
            app.add_directive("answer", answer.Answer, override=True)
            app.add_transform(answer.LinkedErrata)
            app.add_transform(answer.KeyPictures)
            app.connect("env-get-outdated", answer._say_otherwise)
            app.build()
        return (tmp_path / "html" / "notebooks" / "page.html").read_text(encoding="utf-8"), "\n".join(
            line
            for line in warned.getvalue().splitlines()
            if "already registered" not in line  # by the last test
        )

    return made


def test_the_box_says_what_was_found_and_follows_the_records(build) -> None:
    page, warned = build("holds")
    assert not warned
    box = page[page.index('class="answer') : page.index("<figure")]
    assert "✓ holds" in box and "The ratio is 1.5 &lt; 2." in box
    assert 'href="../book/scorecard.html#scorecard-shen-eq47"' in box
    assert 'href="#fig-one"' in box and "Fig. 1" in box
    page, _ = build("differs")  # the chapter's own text is the same
    assert "✗ differs" in page and "It is not." in page and "The ratio" not in page


def test_the_box_shows_the_key_figure_small_and_the_figure_stays_the_only_one_that_counts(build) -> None:
    page, warned = build("holds")
    box, after = page[page.index('class="answer') : page.index("<figure")], page[page.index("<figure") :]
    assert not warned
    assert re.search(r'<a class="[^"]*\banswer-picture\b[^"]*" href="#fig-one"><img alt="The key figure, small"', box)
    assert re.findall(r'src="([^"]+)"', box) == re.findall(r'src="([^"]+)"', after[: after.index("</figure>")])
    assert page.count("<figure") == page.count("caption-number") == 1
    assert box.index("answer-picture") < box.index("holds") < box.index("answer-figure")


def test_a_figure_that_was_not_drawn_leaves_the_box_without_a_picture(build, monkeypatch: pytest.MonkeyPatch) -> None:
    without = TEXT[: TEXT.index("```{{figure}}")] + "(fig-one)=\n## It was not drawn\n"
    monkeypatch.setattr("tests.batch.publish.test_answer.TEXT", without)
    page, _ = build("holds")
    assert "answer-figure" in page and "answer-picture" not in page and "<img" not in page


def test_claims_that_are_not_named_follow_in_one_line(build) -> None:
    page, _ = build("holds", "shen-eq46")
    assert page.index("not yet") < page.index("Also checked here") < page.index("scorecard-shen-eq47")
    assert "The ratio" not in page


def test_an_unknown_claim_is_an_error_on_the_page(build) -> None:
    assert "unknown claims shen-nothing" in build("holds", "shen-nothing")[1]


def test_every_mention_of_an_erratum_leads_to_it_and_the_search_knows_its_number(build, tmp_path: Path) -> None:
    page, warned = build("holds")
    assert not warned
    mentions = page[page.index("<p>See ") : page.index("has a number")]
    links = re.findall(r'href="../book/errata.html#erratum-(\d+)"><span[^>]*>([^<]*)</span>', mentions)
    assert links == [("3", "erratum 3"), ("3", "errata 3"), ("4", "4"), ("4", "erratum 4")]
    assert "; an erratum" in mentions and "<code" in mentions
    index = (tmp_path / "html" / "searchindex.js").read_text(encoding="utf-8")
    assert "erratum 3" in index and "erratum 4" in index and "erratum 5" not in index


def test_a_mention_of_an_erratum_that_is_not_there_is_a_warning(build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.batch.publish.test_answer.TEXT", TEXT.replace("See erratum 3", "See erratum 7"))
    assert "erratum-7" in build("holds")[1]
