"""Downloads against a server on this machine: resumed, checked, never half written, clear when there is no network."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lib.processes import corpora
from lib.processes.corpora import catalogue, commands, download, loading, model_files, places

TEXT = "".join(f" = Article {number} = \n \n some <unk> words of it . \n" for number in range(4000)).encode()


class Shelf:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges = True  # answer 206 to a Range header
        self.stop_after: list[int] = []  # bytes after which the next answers break off
        self.tag: str | None = '"one"'
        self.requests: list[tuple[str, str | None]] = []
        self.served = 0
        self.address = ""
        self.length = ""  # what is said of it instead of the number of bytes


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        shelf: Shelf = self.server.shelf  # type: ignore[attr-defined]
        wanted = self.headers.get("Range")
        shelf.requests.append((self.path, wanted))
        data = shelf.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        current = self.headers.get("If-Range") in (None, shelf.tag)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and shelf.ranges and current else 0
        if wanted and start >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", shelf.length or str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if shelf.tag:
            self.send_header("ETag", shelf.tag)
        self.end_headers()
        body = data[start:]
        if shelf.stop_after:
            body = body[: shelf.stop_after.pop(0)]
            self.close_connection = True
        self.wfile.write(body)
        shelf.served += len(body)

    def log_message(self, *arguments: Any) -> None:
        """Silent: the shelf keeps the record."""


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shelf = Shelf()
    server.shelf = shelf  # type: ignore[attr-defined]
    shelf.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield shelf
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and an empty data folder."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BOOK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return buffer.getvalue()


def register(monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]) -> catalogue.Entry:
    made = catalogue.Entry.model_validate(entry)
    monkeypatch.setitem(catalogue.entries(), made.name, made)
    return made


def simple_entry(monkeypatch: pytest.MonkeyPatch, *urls: str, data: bytes = TEXT) -> catalogue.Entry:
    files = {"text.txt": {"checksum": sha256(data), "sources": [{"url": url} for url in urls]}}
    return register(
        monkeypatch,
        {
            "name": "made",
            "title": "Made",
            "about": "made up",
            "licence": "none",
            "layout": "tokens",
            "default": "train",
            "files": files,
            "splits": {"train": {"file": "text.txt"}},
        },
    )


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_is_checked_kept_and_not_asked_for_again(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    first = corpora.load("made")
    assert first.text.encode() == TEXT and first.source == "download"
    assert contents(cache) == ["text.txt"]
    corpora.load("made")
    assert len(shelf.requests) == 1


def test_two_who_need_the_same_file_download_it_once(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT
    entry = simple_entry(monkeypatch, shelf.address + "/text.txt")
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: download.fetch_file(entry, entry.files["text.txt"], False), range(3)))
    assert {path.read_bytes() for path, _ in found} == {TEXT}
    assert len(shelf.requests) == 1 and contents(cache) == ["text.txt"]


def test_a_length_that_is_no_number_is_unknown(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT
    shelf.length = f"{len(TEXT)}, {len(TEXT)}"
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    assert corpora.load("made").text.encode() == TEXT


def test_an_interrupted_download_continues_where_it_stopped(shelf, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    shelf.files["/text.txt"] = TEXT
    shelf.stop_after = [100_000]
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    with pytest.raises(corpora.CorpusUnavailable, match="download failed"):
        corpora.load("made")
    held = (cache / "made" / "text.txt.part").stat().st_size
    assert 0 < held <= 100_000 and "text.txt" not in contents(cache)
    assert corpora.load("made").text.encode() == TEXT
    assert shelf.requests[-1] == ("/text.txt", f"bytes={held}-")
    assert shelf.served == 100_000 + len(TEXT) - held
    assert contents(cache) == ["text.txt"]


def test_a_broken_connection_is_taken_up_again_in_the_same_call(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT
    shelf.stop_after = [50_000, 60_000]
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    assert corpora.load("made").text.encode() == TEXT
    assert len(shelf.requests) == 3 and shelf.served < 1.5 * len(TEXT)


def test_ctrl_c_leaves_a_partial_file_that_the_next_call_completes(shelf, cache, monkeypatch):
    class Impatient:
        def __init__(self, **_: Any) -> None: ...
        def __enter__(self) -> Impatient:
            return self

        def __exit__(self, *_: Any) -> None: ...
        def update(self, _: int) -> None:
            raise KeyboardInterrupt

    shelf.files["/text.txt"] = TEXT
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    with monkeypatch.context() as context:
        context.setattr(download, "tqdm", Impatient)
        with pytest.raises(KeyboardInterrupt):
            corpora.load("made")
    assert contents(cache) == ["text.txt.part", "text.txt.part.json"]
    assert corpora.load("made").text.encode() == TEXT
    assert shelf.requests[-1][1] is not None and contents(cache) == ["text.txt"]


@pytest.mark.parametrize("change", ["no ranges", "other file", "shorter file"])
def test_a_server_that_cannot_continue_sends_everything_again(shelf, cache, monkeypatch, change):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    shelf.files["/text.txt"] = b"x" * len(TEXT) if change != "no ranges" else TEXT
    shelf.stop_after = [100_000]
    simple_entry(monkeypatch, shelf.address + "/text.txt", data=TEXT if change != "shorter file" else TEXT[:50_000])
    with pytest.raises(corpora.CorpusUnavailable):
        corpora.load("made")
    monkeypatch.setattr(download, "ATTEMPTS", 3)
    shelf.ranges = change != "no ranges"
    shelf.files["/text.txt"] = TEXT[:50_000] if change == "shorter file" else TEXT
    shelf.tag = '"one"' if change == "no ranges" else '"two"'
    assert corpora.load("made").text.encode() == shelf.files["/text.txt"]
    assert contents(cache) == ["text.txt"]


def test_without_a_validator_a_partial_file_longer_than_the_new_one_is_dropped(shelf, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    shelf.tag = None
    shelf.files["/text.txt"], shelf.stop_after = b"x" * 200_000, [100_000]
    simple_entry(monkeypatch, shelf.address + "/text.txt", data=TEXT[:50_000])
    with pytest.raises(corpora.CorpusUnavailable):
        corpora.load("made")
    monkeypatch.setattr(download, "ATTEMPTS", 3)
    shelf.files["/text.txt"] = TEXT[:50_000]
    assert corpora.load("made").text.encode() == TEXT[:50_000]


def test_a_wrong_checksum_is_a_value_error_that_leaves_nothing(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT + b"!"
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    with pytest.raises(ValueError, match=f"(?s){sha256(TEXT)[7:]}.*{sha256(TEXT + b'!')[7:]}"):
        corpora.load("made")
    assert contents(cache) == []


def test_a_wrong_download_does_not_touch_the_file_that_was_there(shelf, cache, monkeypatch):
    entry = simple_entry(monkeypatch, shelf.address + "/text.txt")
    (cache / "made").mkdir(parents=True)
    (cache / "made" / "text.txt").write_bytes(b"kept")
    shelf.files["/text.txt"] = b"wrong"
    with pytest.raises(ValueError, match="hash"):
        download.fetch_file(entry, entry.files["text.txt"], progress=False)
    assert (cache / "made" / "text.txt").read_bytes() == b"kept"
    with pytest.raises(ValueError, match="wrong checksum"):
        corpora.load("made")


def test_mirrors_are_tried_in_order_and_the_next_one_helps_after_errors(shelf, cache, monkeypatch):
    shelf.files["/wrong/text.txt"], shelf.files["/right/text.txt"] = b"wrong", TEXT
    shelf.files["/unused/text.txt"] = TEXT
    places = ("absent", "wrong", "right", "unused")
    simple_entry(monkeypatch, *(f"{shelf.address}/{place}/text.txt" for place in places))
    assert corpora.load("made").text.encode() == TEXT
    assert [path for path, _ in shelf.requests] == ["/absent/text.txt", "/wrong/text.txt", "/right/text.txt"]


def test_a_partial_file_of_one_mirror_is_not_continued_from_another(shelf, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    shelf.files["/a/text.txt"] = shelf.files["/b/text.txt"] = TEXT
    shelf.stop_after = [100_000]
    simple_entry(monkeypatch, shelf.address + "/a/text.txt", shelf.address + "/b/text.txt")
    assert corpora.load("made").text.encode() == TEXT
    assert shelf.requests == [("/a/text.txt", None), ("/b/text.txt", None)]


def test_offline_the_error_says_what_is_missing_where_it_was_looked_for_and_how_to_get_it(cache, monkeypatch):
    simple_entry(monkeypatch, "http://127.0.0.1:9/text.txt")
    with pytest.raises(corpora.CorpusUnavailable) as caught:
        corpora.load("made")
    assert isinstance(caught.value, FileNotFoundError)
    for part in ("'made'", "text.txt", str(cache / "made"), "python -m lib data fetch made", "BOOK_DATA", "sotu"):
        assert part in str(caught.value)
    with pytest.raises(corpora.CorpusUnavailable, match="nothing was downloaded"):
        corpora.load("made", download=False)


def redirected(monkeypatch, name: str, address: str, held: dict[str, bytes], served: dict[str, bytes]):
    """The catalogue's own entry with the local address and the checksums of made-up files; paths and members stay."""
    real = catalogue.entry(name)
    files = {}
    for file, record in real.files.items():
        first = record.sources[0]
        change = {"url": f"{address}/{first.file_name}", "checksum": sha256(served[first.file_name])}
        sources = (first.model_copy(update=change),)
        files[file] = record.model_copy(update={"checksum": sha256(held[file]), "sources": sources})
    made = real.model_copy(update={"files": files})
    monkeypatch.setitem(catalogue.entries(), name, made)
    return made


def test_all_three_splits_of_wikitext_come_out_of_one_archive(shelf, cache, monkeypatch):
    for number in (2, 103):
        held = {f"wiki.{split}.tokens.txt": f" = {split} = \n \n".encode() for split in ("train", "valid", "test")}
        members = {f"wikitext-{number}/{name.removesuffix('.txt')}": data for name, data in held.items()}
        packed = archive({f"wikitext-{number}/": b"", "../outside.txt": b"never written", **members})
        shelf.files[f"/wikitext-{number}-v1.zip"] = packed
        redirected(monkeypatch, f"wikitext{number}", shelf.address, held, {f"wikitext-{number}-v1.zip": packed})
        before = len(shelf.requests)
        for split, file in (("train", "train"), ("validation", "valid"), ("test", "test")):
            assert corpora.load(f"wikitext{number}", split).text == f" = {file} = \n \n"
        assert len(shelf.requests) == before + 1
    assert contents(cache) == ["wikitext-103-v1.zip", "wikitext-2-v1.zip"]  # nothing is unpacked


def test_text8_is_divided_90_5_5(shelf, cache, monkeypatch):
    text = bytes(97 + index % 26 for index in range(100))
    packed = archive({"text8": text})
    shelf.files["/text8.zip"] = packed
    entry = redirected(monkeypatch, "text8", shelf.address, {"text8": text}, {"text8.zip": packed})
    parts = [entry.splits[name].part for name in ("train", "validation", "test")]
    assert parts == [(0, 90_000_000), (90_000_000, 95_000_000), (95_000_000, 100_000_000)]
    small = {
        name: split.model_copy(update={"part": tuple(end // 10**6 for end in split.part)})
        for name, split in entry.splits.items()
    }
    monkeypatch.setitem(catalogue.entries(), "text8", entry.model_copy(update={"splits": small}))
    pieces = [corpora.load("text8", split).text for split in ("train", "validation", "test")]
    assert [len(piece) for piece in pieces] == [90, 5, 5] and "".join(pieces).encode() == text


def test_penn_treebank_and_gpt2_samples_come_as_plain_files(shelf, cache, monkeypatch):
    ptb = {f"ptb.{split}.txt": f" {split} <unk> N \n".encode() for split in ("train", "valid", "test")}
    two = b"===== SAMPLE 1 =====\none<|endoftext|>two\n===== SAMPLE 2 =====\nthree\n"
    samples = dict.fromkeys(catalogue.entry("gpt2_samples").files, two)
    for name, held in (("ptb", ptb), ("gpt2_samples", samples)):
        shelf.files |= {f"/{file}": data for file, data in held.items()}
        redirected(monkeypatch, name, shelf.address, held, held)
    assert corpora.load("ptb", "validation").tokens("word").vocabulary == ("<unk>", "N", "valid")
    assert corpora.load("gpt2_samples", "conditional-t07").documents == ("one", "two", "three")


def unreadable(*arguments: Any, **options: Any) -> None:
    raise OSError("a broken disk")


def test_fetch_and_verify_say_what_became_of_each_file(shelf, cache, monkeypatch):
    shelf.files["/text.txt"] = TEXT
    simple_entry(monkeypatch, shelf.address + "/text.txt")
    assert [outcome.status for outcome in corpora.verify(["made"])] == ["missing"]
    assert corpora.exit_status(list(corpora.verify(["made"])), required=True) == 2
    assert corpora.exit_status(list(corpora.verify(["made"]))) == 0
    assert [outcome.message for outcome in corpora.fetch(["made/train"], progress=False)] == ["downloaded"]
    assert [outcome.message for outcome in corpora.fetch(["made"], progress=False)] == ["already here"]
    assert [outcome.status for outcome in corpora.verify(["made"])] == ["ok"]
    with monkeypatch.context() as patch:
        patch.setattr(commands, "content_of", unreadable)
        assert [(one.status, one.message) for one in corpora.verify(["made"])] == [("failed", "a broken disk")]
    (cache / "made" / "text.txt").write_bytes(TEXT[:-1])
    outcomes = list(corpora.verify(["made"]))
    assert [outcome.status for outcome in outcomes] == ["wrong"] and "expected sha256" in outcomes[0].message
    assert corpora.exit_status(outcomes) == 1


def test_a_failing_corpus_does_not_stop_the_others_but_an_unknown_name_stops_everything(shelf, cache, monkeypatch):
    simple_entry(monkeypatch, "http://127.0.0.1:9/text.txt")
    assert [outcome.status for outcome in corpora.fetch(["made"], progress=False)] == ["failed"]
    with pytest.raises(ValueError, match="unknown corpus or model 'mode'"):
        list(corpora.fetch(["made", "mode"]))
    with pytest.raises(ValueError, match=r"unknown corpus or model '/texts/mode\.txt'"):
        list(corpora.fetch(["/texts/mode.txt"]))
    with pytest.raises(ValueError, match="has no split"):
        list(corpora.fetch(["made/dev"]))


def test_a_note_on_a_partial_file_that_is_damaged_only_costs_the_part(shelf, cache, monkeypatch):
    for damage in ("", "{", "[]", '{"url": 3, "validator": null}', '{"url": "x", "validator": null, "more": 1}'):
        monkeypatch.setattr(download, "ATTEMPTS", 1)
        shelf.files["/text.txt"], shelf.stop_after = TEXT, [100_000]
        simple_entry(monkeypatch, shelf.address + "/text.txt")
        with pytest.raises(corpora.CorpusUnavailable):
            corpora.load("made")
        (cache / "made" / "text.txt.part.json").write_text(damage)
        assert corpora.load("made").text.encode() == TEXT
        assert shelf.requests[-1] == ("/text.txt", None) and contents(cache) == ["text.txt"]
        (cache / "made" / "text.txt").unlink()


def unwritable(trouble: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> Any:
        def write(*_: Any, **__: Any) -> None:
            raise OSError(number, os.strerror(number))

        return write

    if trouble == "a file in its place":
        cache.write_text("in the way")
    elif trouble == "a full disk":
        monkeypatch.setattr(download, "write_whole", refuse(errno.ENOSPC))
        monkeypatch.setattr(model_files, "write_whole", refuse(errno.ENOSPC))
    else:
        monkeypatch.setattr(Path, "mkdir", refuse(errno.EROFS))


@pytest.mark.parametrize("trouble", ["a file in its place", "a full disk", "read-only"])
def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(shelf, cache, monkeypatch, trouble):
    shelf.files["/text.txt"] = TEXT
    simple_entry(monkeypatch, shelf.address + "/text.txt", shelf.address + "/mirror.txt")
    with monkeypatch.context() as patch:
        unwritable(trouble, cache, patch)
        with pytest.raises(corpora.CorpusUnavailable, match=rf"cannot write to the cache folder {cache}.*BOOK_CACHE"):
            corpora.load("made")
        outcomes = list(corpora.fetch(["made"], progress=False))
        assert [outcome.status for outcome in outcomes] == ["failed"] and "BOOK_CACHE" in outcomes[0].message
        assert not [path for path, _ in shelf.requests if path == "/mirror.txt"], "another address cannot help"
    cache.unlink() if cache.is_file() else None
    assert corpora.load("made").text.encode() == TEXT
    assert contents(cache) == ["text.txt"]


@pytest.mark.parametrize("trouble", ["a file in its place", "a full disk", "read-only"])
def test_weights_that_cannot_be_unpacked_name_the_folder_and_leave_nothing(cache, monkeypatch, trouble):
    packed = archive({"w.npz": b"weights"})
    files = {"w.npz": {"checksum": sha256(b"weights"), "sources": [{"url": "https://x/w.whl", "member": "w.npz"}]}}
    fields = {"name": "made", "title": "Made", "about": "made", "licence": "none", "layout": "weights"}
    entry = register(monkeypatch, {**fields, "files": files})
    held = cache.parent / "w.whl"
    held.write_bytes(packed)
    monkeypatch.setattr(loading, "cached_copy", lambda *_: (held, 0))
    with monkeypatch.context() as patch:
        unwritable(trouble, cache, patch)
        with pytest.raises(places.CacheUnwritable, match=rf"cache folder {cache}.*BOOK_CACHE"):
            model_files.model_file("made", "w.npz", download=False)
        assert not [path for path in cache.rglob("*") if path.is_file()]
    cache.unlink() if cache.is_file() else None
    assert model_files.model_file("made", "w.npz", download=False) == model_files.unpacked_path(entry, "w.npz")


def test_errors_that_are_not_of_the_disk_stay_what_they_are(tmp_path):
    for error in (TimeoutError("late"), ConnectionResetError(errno.ECONNRESET, "reset")):
        with pytest.raises(type(error)), places.writing_to(tmp_path):
            raise error
    with pytest.raises(places.CacheUnwritable, match="pooch says"), places.writing_to(tmp_path):
        raise PermissionError("pooch says")
