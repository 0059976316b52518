"""Windows of documents and their strangers, and the counts of neighbouring tokens."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from lib.information import entropy
from lib.information.documents.windows import document_windows, file_windows, foreign_partners
from lib.information.estimators import ngram_counts, ngram_entropy
from lib.processes import MarkovChain

CHAIN = MarkovChain([[0.80, 0.15, 0.05], [0.10, 0.80, 0.10], [0.25, 0.05, 0.70]])


def random_windows(documents=4, length=24, per_document=2, seed=1):
    texts = np.random.default_rng(seed).integers(0, 5, (documents, 200))
    return document_windows(list(texts), length, per_document=per_document, seed=2)


def test_strangers_are_never_of_the_own_document():
    windows = random_windows(documents=7, per_document=3)
    partners = foreign_partners(windows)
    own = np.arange(len(windows))
    assert sorted(partners) == own.tolist() and not np.any(partners == own) and not np.any(partners[partners] == own)
    assert np.all(windows.documents[partners] != windows.documents)
    with pytest.raises(ValueError, match="at least three documents"):
        foreign_partners(random_windows(documents=2))


def test_windows_are_disjoint_stretches_of_their_documents():
    texts = [np.random.default_rng(n).integers(0, 5, 120 + 10 * n) for n in range(4)]
    windows = document_windows(texts, 30, per_document=3, seed=0)
    assert len(windows) == 12 and windows.per_document == 3
    for row, number, start in zip(windows.tokens, windows.documents, windows.starts, strict=True):
        assert np.array_equal(row, texts[number][start : start + 30])
    for number in range(4):
        starts = windows.starts[windows.documents == number]
        assert np.all(np.diff(starts) >= 30)
    assert np.array_equal(windows.head(7).tokens, windows.tokens[:, :7])
    every_tenth = [np.arange(0, len(text), 10) for text in texts]
    aligned = document_windows(texts, 30, per_document=2, allowed=every_tenth, seed=0)
    assert np.all(aligned.starts % 10 == 0)


def test_documents_shorter_than_the_window_are_refused_or_left_out_by_choice():
    texts = [np.zeros(n, dtype=np.int64) for n in (50, 20, 50)]
    with pytest.raises(ValueError, match=r"document 1 has 20 tokens, too few for 1 windows of 30.*short='skip'"):
        document_windows(texts, 30)
    assert document_windows(texts, 30, short="skip").documents.tolist() == [0, 2]
    with pytest.raises(ValueError, match="none of 3 documents has room"):
        document_windows(texts, 60, short="skip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 0}, "length"),
        ({"per_document": True}, "per_document"),
        ({"short": "pad"}, "'refuse' or 'skip'"),
        ({"vocabulary": 2}, r"document 0: tokens 0 \.\. 1 are in the vocabulary"),
        ({"documents": [[0.5, 1.0]]}, "whole numbers"),
        ({"documents": [[[1]]]}, "shape"),
        ({"allowed": [[0]]}, "allowed: places for each of 2"),
    ],
)
def test_bad_windows_are_refused(change, message):
    given = {"documents": [[0, 1, 2, 3], [0, 1, 2, 3]], "length": 2, **change}
    with pytest.raises(ValueError, match=message):
        document_windows(given.pop("documents"), given.pop("length"), **given)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1, 10**5])
def test_ngrams_are_counted_inside_documents(length, scale):
    documents = [np.random.default_rng(n).integers(0, 3, size) * scale for n, size in enumerate((40, 3, 0, 70))]
    counted = Counter(
        tuple(text[i : i + length]) for text in map(np.ndarray.tolist, documents) for i in range(len(text) - length + 1)
    )
    assert sorted(ngram_counts(documents, length)) == sorted(counted.values())
    assert ngram_entropy(documents, length, "plugin") == pytest.approx(entropy(list(counted.values()), "plugin"))


@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, 2**62 - 1, 2**63 - 1])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_tokens_may_be_numbered_as_high_as_integers_go(largest, length):
    """The number of a token is a name: each text counts as the one whose tokens are numbered anew."""
    low = [np.array([0, 7, 1, 7, 2, 7, 3, 7, 4, 7, 9, 7, 1, 7]), np.array([9, 7, 1])]
    high = [np.where(text == 9, largest, text) for text in low]
    assert sorted(ngram_counts(high, length)) == sorted(ngram_counts(low, length))
    unsigned = [np.where(text == 9, 2**64 - 1, text.astype(np.uint64)) for text in low]
    assert sorted(ngram_counts(unsigned, length)) == sorted(ngram_counts(low, length))


def test_ngrams_that_cannot_be_counted_are_refused():
    for documents, length in (([[1, 2]], 3), ([], 2)):
        with pytest.raises(ValueError, match="length: a document as long"):
            ngram_counts(documents, length)
    for length in (0, 1.5, "2", None, True):
        with pytest.raises(ValueError, match=f"length: a whole number of at least 1 is allowed, got {length!r}"):
            ngram_counts([[1, 2, 3]], length)
    for wrong in ([[0.5, 1.0]], [[-1, 0]], [[[1, 2]]]):
        with pytest.raises(ValueError, match="whole numbers >= 0"):
            ngram_counts(wrong)


def test_the_entropy_of_pairs_of_a_chain_is_recovered():
    pairs = CHAIN.joint_distribution(2)
    exact = -float((pairs * np.log(pairs)).sum())
    assert ngram_entropy(list(CHAIN.sample(50, 4000, 0))) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(("length", "documents", "per_document"), [(5, 4, 3), (1, 7, 1), (83, 12, 1), (40, 1, 20)])
def test_windows_of_a_file_are_those_of_its_parts_in_memory(tmp_path, length, documents, per_document):
    symbols = np.random.default_rng(3).integers(0, 256, 1003).astype(np.uint8)
    symbols.tofile(tmp_path / "file")
    borders = 1003 * np.arange(documents + 1) // documents
    parts = [symbols[begin:end] for begin, end in itertools.pairwise(borders)]
    given = {"per_document": per_document, "seed": 5}
    expected = document_windows(parts, length, **given)
    found = file_windows(tmp_path / "file", length, documents=documents, **given)
    for name in ("tokens", "documents", "starts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    other = file_windows(tmp_path / "file", length, documents=documents, per_document=per_document, seed=6)
    assert not np.array_equal(found.starts, other.starts)


def test_a_file_larger_than_memory_is_not_read_whole(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**40)  # no byte of it is on the disk
    windows = file_windows(tmp_path / "hole", 100, documents=64, seed=1)
    assert windows.tokens.shape == (64, 100) and not windows.tokens.any()
    assert windows.starts.max() > 2**33


def test_files_without_room_are_refused(tmp_path):
    (tmp_path / "short").write_bytes(b"x" * 99)
    with pytest.raises(ValueError, match="99 bytes, too few for 4 x 5 windows of 5; take shorter"):
        file_windows(tmp_path / "short", 5, documents=4, per_document=5)
    with pytest.raises(ValueError, match=r"there is none at .*nowhere"):
        file_windows(tmp_path / "nowhere", 5)
    with pytest.raises(ValueError, match="documents: a whole number of at least 1 is allowed, got 0"):
        file_windows(tmp_path / "short", 5, documents=0)
