"""From text to symbols and back: characters, words, byte-pair encoding, paragraphs, samples, a reader's own file."""

from __future__ import annotations

import gzip
import lzma
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.processes import corpora
from lib.processes.corpora import reading
from lib.processes.corpora.tokens import encode_bpe, encode_characters, encode_words, split_words

texts = st.lists(st.text(max_size=60), min_size=1, max_size=5)


@given(texts)
def test_characters_come_back_document_by_document(documents):
    tokens = encode_characters(documents)
    assert [tokens.decode(ids) for ids in tokens.documents()] == documents
    assert list(tokens.vocabulary) == sorted(set("".join(documents)))


def test_character_codes_are_one_byte_up_to_256_symbols_and_two_beyond():
    alphabet = "".join(map(chr, range(0x100, 0x200)))
    assert encode_characters([alphabet]).ids.dtype == np.uint8
    wider = encode_characters([alphabet + "𝄞"])
    assert wider.ids.dtype == np.uint16 and wider.vocabulary[-1] == "𝄞" and wider.ids.max() == 256


def test_symbols_are_numbered_in_the_order_of_code_points():
    assert encode_characters(["banana"]).ids.tolist() == [1, 0, 2, 0, 2, 0]


@given(texts)
def test_words_as_distributed_come_back_up_to_white_space(documents):
    tokens = encode_words(documents, as_distributed=True)
    assert [tokens.decode(ids) for ids in tokens.documents()] == [" ".join(document.split()) for document in documents]


@given(st.text(max_size=80))
def test_words_of_prose_hold_every_mark_and_no_white_space(text):
    assert "".join(split_words(text, as_distributed=False)) == "".join(text.split())


def test_words_of_prose_keep_apostrophes_hyphens_and_case():
    words = split_words("Don't look-out, Mr. O’Neil--1,000!", as_distributed=False)
    assert words == ["Don't", "look-out", ",", "Mr", ".", "O’Neil", "-", "-", "1", ",", "000", "!"]


def test_words_are_numbered_from_the_most_frequent():
    tokens = encode_words(["b a b c a b"], as_distributed=True)
    assert tokens.vocabulary == ("b", "a", "c") and tokens.ids.tolist() == [0, 1, 0, 2, 1, 0]


@given(documents=texts)
def test_byte_pairs_come_back_exactly(tmp_path_factory, documents):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        tokens = encode_bpe(documents, 300, "hypothesis")
    assert [tokens.decode(ids) for ids in tokens.documents()] == documents


def test_byte_pairs_are_the_same_every_time_and_kept_by_content_and_settings(tmp_path, monkeypatch):
    corpus = corpora.load("sotu").head(60_000)
    runs = []
    for number in (1, 2):
        monkeypatch.setenv("BOOK_CACHE", str(tmp_path / str(number)))
        runs.append(corpus.tokens("bpe", vocabulary_size=400))
    assert np.array_equal(runs[0].ids, runs[1].ids) and runs[0].vocabulary == runs[1].vocabulary
    assert len(runs[0].vocabulary) == 400 and len(runs[0]) < 0.7 * len(corpus.text)
    corpus.tokens("bpe", vocabulary_size=500)
    corpora.load("sotu").head(50_000).tokens("bpe", vocabulary_size=400)
    kept = sorted((tmp_path / "2" / "bpe").iterdir())
    assert len(kept) == 3 and all(path.suffix == ".json" for path in kept)
    written = [path.stat().st_mtime_ns for path in kept]
    assert np.array_equal(corpus.tokens("bpe", vocabulary_size=400).ids, runs[1].ids)
    assert [path.stat().st_mtime_ns for path in kept] == written


def test_levels_and_sizes_that_do_not_exist_are_refused():
    corpus = corpora.load("sotu").head(1000)
    with pytest.raises(ValueError, match=r"unknown level 'letters'.*'character', 'word' or 'bpe'"):
        corpus.tokens("letters")
    with pytest.raises(ValueError, match="at least 256"):
        corpus.tokens("bpe", vocabulary_size=100)


def test_rows_never_cross_documents():
    tokens = encode_characters(["aaaa" * 5, "bb", "cccc" * 3])
    rows = tokens.rows(8)
    assert rows.shape == (3, 8) and all(len(set(row)) == 1 for row in rows.tolist())
    with pytest.raises(ValueError, match="no document has 21 symbols; the longest has 20"):
        tokens.rows(21)


def test_hard_wrapped_lines_become_paragraphs():
    text = "A line\nbroken \n  twice.\n\n\n\n   Next paragraph\nhere.\n \t\nLast.\n"
    assert corpora.unwrap(text) == "A line broken twice.\n\nNext paragraph here.\n\nLast."


@given(st.text(alphabet="ab \n\t", max_size=60))
def test_unwrapping_twice_changes_nothing_and_keeps_every_word(text):
    once = corpora.unwrap(text)
    assert corpora.unwrap(once) == once and once.split() == text.split()


def test_samples_lose_their_dividers_and_end_of_text_marks():
    bar = "=" * 40
    text = f"{bar} SAMPLE 1 {bar}\none\n= a heading =\n<|endoftext|>two\n{bar} SAMPLE 2 {bar}\n\nthree<|endoftext|>\n"
    assert reading.samples(text) == ["one\n= a heading =", "two", "three"]


def test_a_file_of_the_reader_is_read_plain_or_compressed(tmp_path):
    text = "Ein kurzer Text: naïve Straße\r\nzweite Zeile\n"
    plain = text.replace("\r\n", "\n")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as target:
        target.writestr("inner/text.txt", text)
    for name in ("a.txt", "b.txt.xz", "c.txt.gz", "d.zip"):
        assert corpora.load(tmp_path / name).text == plain
        assert corpora.load(str(tmp_path / name)).text == plain
    with zipfile.ZipFile(tmp_path / "d.zip", "a") as target:
        target.writestr("../other.txt", "other")
    assert corpora.load(tmp_path / "d.zip", "inner/text.txt").text == plain
    with pytest.raises(ValueError, match=r"inner/text\.txt"):
        corpora.load(tmp_path / "d.zip")


def test_a_file_that_is_not_utf8_is_refused_with_the_place(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes("caf\u00e9".encode("latin-1") + b" au lait")
    with pytest.raises(ValueError, match=r"latin1\.txt is not UTF-8: byte 0xe9 at offset 3"):
        corpora.load(path)


def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path):
    with pytest.raises(corpora.CorpusUnavailable, match="no file"):
        corpora.load(str(tmp_path / "none.txt"))
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ValueError, match="no text"):
        corpora.load(tmp_path / "empty.txt")


def test_a_corpus_shorter_than_the_largest_lag_is_named(tmp_path):
    (tmp_path / "short.txt").write_text("ten chars.")
    corpus = corpora.load(tmp_path / "short.txt")
    corpus.check_lag(9)
    with pytest.raises(ValueError, match=r"corpus 'short': its longest document has 10 symbols.*got 1000"):
        corpus.check_lag(1000)


@given(st.integers(1, 40))
def test_the_head_of_a_corpus_has_the_asked_length(characters):
    corpus = corpora.Corpus("made", None, ("abc" * 5, "defg", "h" * 30), "made", "prose")
    head = corpus.head(characters)
    assert "".join(head.documents) == "".join(corpus.documents)[:characters]
