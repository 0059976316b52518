"""A reader's own text: whatever it is packed in, it is the same; what is no text is refused with the place."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard

from lib.information import mutual_information, pair_counts
from lib.information.documents.leave_out import leave_blocks_out
from lib.measure.symbols import LEVELS, byte_pairs, most_symbols, symbols_of, with_rare_ones_alike
from lib.measure.texts import Text, imitation, read_text
from lib.sources import code_cells

TALE = "Es war einmal ein König, der hatte eine Tochter.\n" * 20


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)]
)
def test_a_packed_file_is_the_text_that_it_packs(tmp_path: Path, suffix, pack):
    path = tmp_path / f"tale.txt{suffix}"
    path.write_bytes(pack(TALE.encode()))
    assert read_text(str(path)).documents == (TALE,)
    loud = path.rename(tmp_path / path.name.upper())  # as some systems write suffixes
    assert read_text(str(loud)).documents == read_text(str(tmp_path)).documents == (TALE,)


def test_both_halves_of_a_character_are_one(tmp_path: Path):
    (tmp_path / "whole.jsonl").write_bytes(b'{"text": "' + b"a\\ud83d\\ude00" * 60 + b'"}')
    assert read_text(str(tmp_path / "whole.jsonl")).documents == ("a\U0001f600" * 60,)


def test_frames_of_zstandard_one_after_another_are_one_text(tmp_path: Path):
    path = tmp_path / "tale.txt.zst"
    path.write_bytes(zstandard.compress(TALE.encode()) + zstandard.compress(TALE.encode()))
    assert read_text(str(path)).documents == (TALE * 2,)


@pytest.mark.parametrize("chunk", [1, 7, 2**16])
def test_zstandard_that_is_cut_off_anywhere_is_refused(tmp_path: Path, monkeypatch, chunk):
    monkeypatch.setattr("lib.processes.corpora.reading._CHUNK", chunk)
    path, frame = tmp_path / "tale.txt.zst", zstandard.compress(TALE.encode())
    skipped = b"\x50\x2a\x4d\x18\x02\x00\x00\x00no"  # a frame without text
    whole = skipped + frame + frame + skipped
    path.write_bytes(whole)
    assert read_text(str(path)).documents == (TALE * 2,)
    ends = {0, len(skipped), len(skipped + frame), len(skipped + frame + frame)}
    for end in set(range(len(whole))) - ends:
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="cannot be decompressed: the file ends inside a frame"):
            read_text(str(path))


def test_lines_of_json_and_files_of_a_folder_are_documents(tmp_path: Path):
    lines = "\n".join(json.dumps({"text": f"{number} {TALE}", "id": number}) for number in range(3)) + "\n\n"
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (tmp_path / "a.txt").write_text(TALE, encoding="utf-8")
    (tmp_path / ".hidden.txt").write_text("no", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00")
    found = read_text(str(tmp_path))
    assert found.documents == (TALE, *(f"{number} {TALE}" for number in range(3)))
    assert read_text(str(tmp_path / "b.jsonl.gz")).documents == found.documents[1:]
    assert found.head(len(TALE) + 5).documents == (TALE, f"0 {TALE}"[:5])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.txt", b"", "is empty: there is no text in it"),
        ("blank.txt", b" \n" * 100, "is empty"),
        ("short.txt", b"abc", "has 3 characters; at least 100 are needed"),
        ("latin.txt", b"a" * 150 + "\nKönig".encode("latin-1"), "byte 0xf6 at offset 152, line 2"),
        ("picture.txt", b"\x89PNG\r\n\x1a\n" + bytes(200), "not UTF-8: byte 0x89 at offset 0, line 1"),
        ("zeros.txt", b"text" * 40 + b"\0" * 10, "a NUL byte at offset 160, line 1"),
        ("cut.txt.gz", gzip.compress(TALE.encode(), mtime=0)[:-9], "cannot be decompressed"),
        ("cut.txt.zst", b"no archive" * 20, "cannot be decompressed"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": \n', "line 2: no JSON"),
        (
            "other.jsonl",
            b'{"body": "a"}\n',
            r"line 1: no text under 'text'; there is \['body'\]; name another by --field",
        ),
        ("list.jsonl", b'["a"]\n', "there is list"),
        ("number.jsonl", b'{"text": 3}\n', "line 1: text under 'text' is allowed, got 3; name another by --field"),
        ("deep.jsonl", b'{"text": "a"}\n' + b"[" * 100_000, r"deep\.jsonl, line 2: JSON that is nested less deeply"),
        ("half.jsonl", b'{"text": "a"}\n{"text": "a\\ud800b"}\n', "line 2: half a character .* under 'text'"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(tmp_path: Path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as refused:
        read_text(str(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_what_is_not_there_and_a_folder_without_text_say_so(tmp_path: Path):
    with pytest.raises(OSError, match=r"no file or folder .*nothing\.txt"):
        read_text(str(tmp_path / "nothing.txt"))
    with pytest.raises(ValueError, match=r"has no text: files \.txt"):
        read_text(str(tmp_path))
    for name in ("", " "):  # an empty variable of a shell is not the present folder
        with pytest.raises(ValueError, match="a file, a folder or the name of a corpus is allowed"):
            read_text(name)
    with pytest.raises(ValueError, match=r"a known user is allowed, got '~nouser/x'"):
        read_text("~nouser/x")


def test_pieces_are_the_text_and_no_longer_than_twice_what_is_asked():
    text = Text("x", (TALE, "a" * 1000, ""))
    pieces = list(text.pieces(100))
    for number in range(2):
        assert "".join(piece for document, piece in pieces if document == number) == text.documents[number]
    assert max(len(piece) for _, piece in pieces) <= 200
    assert all(piece.endswith("\n") for document, piece in pieces if document == 0)


def test_an_imitation_has_the_same_ngrams_and_no_others():
    text = Text("x", (TALE * 5 + "Sie ging in den Wald. " * 30,))
    written = imitation(text, order=3, characters=5000, seed=1).documents[0]
    whole = text.documents[0]
    grams = {whole[place : place + 3] for place in range(len(whole) - 2)}
    strange = [written[place : place + 3] for place in range(len(written) - 2)]
    assert sum(gram not in grams for gram in strange) <= 4  # where the end of the text goes over into its beginning
    own, other = Counter(whole), Counter(written)
    assert all(abs(own[sign] / len(whole) - other[sign] / 5000) < 0.03 for sign in own)
    assert imitation(text, order=3, characters=5000, seed=2).documents[0] != written


def test_rare_symbols_are_one_and_the_frequent_ones_are_kept():
    ids = np.array([5, 5, 5, 2, 2, 9, 1], dtype=np.uint8)
    lumped, kept, covered = with_rare_ones_alike(ids, 3)
    assert lumped.tolist() == [0, 0, 0, 1, 1, 2, 2] and kept == 3 and covered == pytest.approx(5 / 7)
    assert with_rare_ones_alike(ids, 4)[2] == 1.0 and with_rare_ones_alike(ids, 4)[1] == 4


@pytest.mark.parametrize("level", LEVELS)
def test_levels_keep_documents_apart_and_lump_by_length(tmp_path: Path, monkeypatch, level):
    monkeypatch.setitem(os.environ, "BOOK_CACHE", str(tmp_path))
    text = Text("x", (TALE * 3, "", TALE))
    found = symbols_of(text, level)
    lengths = np.diff(found.offsets)
    assert len(lengths) == 3 and lengths[1] == 0 and lengths[0] == pytest.approx(3 * lengths[2], abs=3)
    assert found.kept <= most_symbols(len(found)) and found.ids.max() == found.kept - 1
    head = found.head(lengths[0] + 4)
    assert len(head) == lengths[0] + 4 == head.offsets[-1] and np.array_equal(head.ids, found.ids[: len(head)])


def test_byte_pairs_in_pieces_hold_every_byte(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(os.environ, "BOOK_CACHE", str(tmp_path))
    monkeypatch.setattr("lib.measure.symbols.PIECE", 64)
    text = Text("x", (TALE,))
    encoding = byte_pairs(text, 300)
    found = symbols_of(text, "byte_pair", encoding, most=2**16)
    whole = encoding.encode(TALE)
    assert len(found) == pytest.approx(len(whole.ids), abs=len(TALE) // 64) and len(found) < len(TALE.encode())


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="one of character, word, byte_pair is allowed, got 'letter'"):
        symbols_of(Text("x", (TALE,)), "letter")  # type: ignore[arg-type]


@pytest.mark.parametrize("lengths", [[100], [30] * 500, [0, 1, 99], [3, 40_000]])
def test_the_page_checks_its_counting_on_every_text_that_is_read(lengths):
    """The cell that leaves out blocks pair by pair, on the fewest characters that are read, and on short documents."""
    page = Path(__file__).parents[2] / "notebooks" / "measure" / "measure_your_own.md"
    (cell,) = [code for code in code_cells(page.read_text(encoding="utf-8")) if "def without" in code]
    random = np.random.default_rng(0)
    text = Text("t", tuple("".join(random.choice(list("abc "), size=length)) for length in lengths))
    names = {"np": np, "text": text, "leave_blocks_out": leave_blocks_out}
    names |= {"mutual_information": mutual_information, "pair_counts": pair_counts}
    exec(cell, names)
    assert names["fast"].without.shape == (32, 2)
    with pytest.raises(AssertionError):
        exec(cell.replace("near, far = block *", "near, far = 1 + block *"), names)
