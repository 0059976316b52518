"""Texts become tokens and come back, and the measures of quality count what they say."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.natural_corpora.written.quality import quality, vocabulary_of, word_runs
from experiments.natural_corpora.written.texts import UNKNOWN, Material, Pieces, codes, material, rows_of
from lib.processes import corpora

TEXT = " = Title = \n\n The cat sat on the mat . The dog ( a pug ) sat on the cat . \n" * 3


@pytest.mark.parametrize("level", ["character", "word"])
def test_a_text_comes_back_to_the_last_character(level: str) -> None:
    pieces = Pieces(TEXT, level, fewest=4, most=7)  # type: ignore[arg-type]
    tokens = pieces.encode(TEXT)
    assert pieces.decode(tokens) == TEXT
    other = "The ox sat\ton the mat\n"
    assert pieces.decode(pieces.encode(other)) == other.replace("x", UNKNOWN).replace("\t", UNKNOWN)
    assert tokens.max() < len(pieces.symbols)


def test_frequent_words_are_tokens_and_others_are_spelled() -> None:
    pieces = Pieces(TEXT, "word", fewest=4, most=7)
    assert " sat" in pieces.symbols and " pug" not in pieces.symbols
    assert len(pieces.encode(" sat")) == 1 and len(pieces.encode(" pug")) == 4
    assert len(pieces.symbols) == len(pieces.letters) + 7
    assert len(Pieces(TEXT, "word", fewest=1).encode(TEXT)) < len(pieces.encode(TEXT)) < len(TEXT)
    assert Pieces(TEXT, "word", fewest=1, most=10**6).spelled(np.array([pieces.encode(" ")[0]])) == 1.0
    assert pieces.spelled(pieces.encode(" sat")) == 0.0
    assert Pieces(TEXT, "character").spelled(Pieces(TEXT, "character").encode(TEXT)) == 1.0


def test_codes_and_rows_keep_the_order() -> None:
    pieces = Pieces(TEXT, "character")
    rows = rows_of(TEXT, 50, 120)
    assert "".join(rows) == TEXT[:120] and [len(row) for row in rows] == [50, 50, 20]
    symbols, borders = codes([*rows, "Ω"], pieces.letters)
    assert borders.tolist() == [0, 50, 100, 120, 121]
    assert "".join(pieces.letters[code] for code in symbols[:-1]) == TEXT[:120]
    assert pieces.letters[symbols[-1]] == UNKNOWN


def test_the_splits_of_wikitext_are_taken_as_they_are() -> None:
    if not {("wikitext2", "validation"), ("wikitext2", "test")} <= {(p.name, p.split) for p in corpora.available()}:
        pytest.skip("wikitext2 is not on this machine")
    held_out = material("wikitext2-held-out")
    assert held_out.training == corpora.load("wikitext2", "validation").text
    assert held_out.validation + held_out.test == corpora.load("wikitext2", "test").text


def test_the_training_set_of_wikitext_is_read_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other splits in its place: the way that a reader goes who has the file."""

    def load(name: str, split: str | None = None) -> corpora.Corpus:
        assert name == "wikitext2"
        return corpora.Corpus(name, split, (f"the text of {split}",), "", "tokens")

    monkeypatch.setattr(corpora, "load", load)
    material.cache_clear()
    try:
        assert material("wikitext2") == Material("the text of train", "the text of validation", "the text of test")
    finally:
        material.cache_clear()


def test_prose_is_cut_alike_from_every_document(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = {"books": ("a" * 9_000_000, "b" * 3_000_000), "sotu": ("c" * 12_000_000,)}
    monkeypatch.setattr(
        corpora, "load", lambda name, split=None: corpora.Corpus(name, split, documents[name], "", "prose")
    )
    material.cache_clear()
    try:
        found = material("prose")
    finally:
        material.cache_clear()
    assert len(found.training) == pytest.approx(10_800_000, abs=5)
    assert len(found.validation) == len(found.test) == pytest.approx(500_000, abs=5)
    shares = [found.training.count(letter) / 10_800_000 for letter in "abc"]
    assert shares == pytest.approx([9 / 24, 3 / 24, 12 / 24], abs=1e-5)
    assert len(set("".join(found[1:]))) == 4  # every document, and the line breaks between them


def measures(text: str, of: str = TEXT) -> dict[str, float | None]:
    return quality([text], vocabulary_of(of), frozenset(word_runs(of)))


def test_quality_of_a_text_and_of_its_ruin() -> None:
    good, bad = measures(TEXT), measures(' = Title \n The cta sta " . ( a ( b )')
    assert good["spelling"] == good["brackets"] == good["titles"] == good["read"] == 1.0
    assert good["repeated"] is not None and good["repeated"] > 0.5
    assert good["quotes"] is None
    assert bad == {
        "spelling": pytest.approx(2 / 4),
        "brackets": pytest.approx(1 / 2),
        "quotes": 0.0,
        "titles": 0.0,
        "repeated": 0.0,
        "read": 0.0,
    }
    assert measures('say " this " twice \n " and once')["quotes"] == 0.5
    assert measures(" = = Deep = = \n")["titles"] == 1.0 and measures(" = = Deep = \n")["titles"] == 0.0
    assert measures("( " + "x" * 300 + " )")["brackets"] == 0.0
    assert measures("")["spelling"] is None
