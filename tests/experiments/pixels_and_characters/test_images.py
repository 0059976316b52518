"""Files of images are read as they are or refused, and pixels come in the order that is asked for."""

from __future__ import annotations

import gzip
import hashlib
import struct

import numpy as np
import pytest

from experiments.pixels_and_characters import images
from experiments.pixels_and_characters.images import bars, idx, in_steps, mnist, order_of, parts, pooled
from lib.processes.corpora import CorpusUnavailable, catalogue, commands
from lib.processes.corpora.loading import load


def packed(array, magic=None):
    """An IDX file."""
    axes = array.ndim
    return struct.pack(f">{axes + 1}I", magic or 0x800 + axes, *array.shape) + array.tobytes()


def made(kind=3, count=5):
    shape = (count, 28, 28) if kind == 3 else (count,)
    return np.random.default_rng(count).integers(10, size=shape).astype(np.uint8)


def test_an_idx_file_is_read_back():
    for axes in (1, 3):
        assert (idx(packed(made(axes)), axes, "x") == made(axes)).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (packed(made(), magic=0x801), r"faces: magic number 2051 is needed.*got 2049"),
        (packed(made())[:-1], r"faces: cut off: 3936 bytes are needed for shape \(5, 28, 28\), got 3935"),
        (packed(made()) + b"x", "faces: too long"),
        (packed(made())[:7], "faces: cut off: a header of 16 bytes is needed, got 7"),
        (gzip.compress(packed(made()), mtime=0), "magic number.*still compressed"),
        (b"", "cut off"),
    ],
    ids=["labels", "truncated", "long", "header", "compressed", "empty"],
)
def test_a_file_that_is_no_such_file_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        idx(data, 3, "faces")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """MNIST of few images: a catalogue entry with their checksums, and a data folder; returns what writes a file."""
    contents = {}
    for part, count in (("train", 12), ("t10k", 4)):
        contents[f"{part}-images-idx3-ubyte"] = packed(made(3, count))
        contents[f"{part}-labels-idx1-ubyte"] = packed(made(1, count))
    found = catalogue.entry("mnist")
    files = {
        name: file.model_copy(update={"checksum": f"sha256:{hashlib.sha256(contents[name]).hexdigest()}"})
        for name, file in found.files.items()
    }
    monkeypatch.setitem(catalogue.entries(), "mnist", found.model_copy(update={"files": files}))
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "HELD", 3)
    (tmp_path / "mnist").mkdir()

    def write(name, data=None, suffix=".gz"):
        packed_data = gzip.compress(contents[name]) if data is None else data
        (tmp_path / "mnist" / f"{name}{suffix}").write_bytes(packed_data)

    for name in contents:
        write(name)
    return write


def test_the_last_images_of_the_training_file_validate(small):
    found = parts("mnist")
    assert [len(one.labels) for one in found] == [9, 3, 4]
    assert (found.training.images == made(3, 12)[:9]).all() and (found.validation.labels == made(1, 12)[9:]).all()
    assert (found.test.images == made(3, 4)).all()
    assert [len(one.labels) for one in parts("mnist", 5, 2)] == [5, 2, 2]


def test_a_truncated_download_and_a_wrong_file_are_refused_by_name(small):
    name = "t10k-images-idx3-ubyte"
    whole = gzip.compress(packed(made(3, 4)))
    small(name, whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"{name}\.gz cannot be decompressed.*fetch it again"):
        mnist("t10k")
    small(name, gzip.compress(packed(made(3, 4))[:-9]))
    with pytest.raises(ValueError, match=rf"{name}\.gz has a wrong checksum.*data fetch mnist"):
        mnist("t10k")
    assert [one.status for one in commands.verify(["mnist"])] == ["ok", "ok", "wrong", "ok"]


def test_files_that_are_not_here_are_named_with_the_way_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    with pytest.raises(CorpusUnavailable, match=r"(?s)images 'mnist': train-images.*data fetch mnist.*BOOK_DATA"):
        mnist("train", download=False)
    assert [row.where for row in commands.list_table() if row.name == "mnist"] == [""] * 4
    with pytest.raises(ValueError, match="'mnist' is a set of images, not a text"):
        load("mnist")


def test_without_a_network_the_reason_is_said(tmp_path, monkeypatch):
    from lib.processes.corpora import download

    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    monkeypatch.setattr(download, "fetch_source", offline)
    with pytest.raises(CorpusUnavailable, match=r"download failed: .*no route to host"):
        mnist("t10k")


def test_means_over_squares():
    image = np.arange(784, dtype=np.uint8).reshape(1, 28, 28)
    found = pooled(image, 14)
    assert found.shape == (1, 196) and found[0, 15] == pytest.approx(image[0, 2:4, 2:4].mean() / 255)
    assert np.allclose(pooled(image, 28), image.reshape(1, -1) / 255)
    with pytest.raises(ValueError, match="side: a divisor of 28 is allowed, got 5"):
        pooled(image, 5)


def test_orders_of_pixels():
    pixels = np.random.default_rng(0).random((6, 16)).astype(np.float32)
    rows, permuted = (in_steps(pixels, order_of(name, 16), 4, 0) for name in ("rows", "permuted"))
    assert rows.shape == (6, 4, 4) and (rows.reshape(6, 16) == pixels).all()
    place = np.random.RandomState(100).permutation(16)
    assert (permuted.reshape(6, 16) == pixels[:, place]).all() and (place != np.arange(16)).any()
    authors = np.random.RandomState(100).permutation(784)
    assert (order_of("permuted", 784) == authors).all()
    means = [place for place in authors if place < 196]
    assert (order_of("permuted", 196) != means).any(), "of 196 means it is another permutation"
    anew = in_steps(pixels, order_of("anew", 16), 4, 0).reshape(6, 16)
    assert (np.sort(anew) == np.sort(pixels)).all()
    assert (anew != pixels).any(axis=1).all() and len({tuple(np.argsort(row)) for row in anew - pixels}) == 6
    assert not (in_steps(pixels, None, 4, 1).reshape(6, 16) == anew).all()
    with pytest.raises(ValueError, match="order: one of rows, permuted, anew is allowed, got 'columns'"):
        order_of("columns", 16)
    with pytest.raises(ValueError, match="together: a divisor of 16 pixels is allowed, got 7"):
        in_steps(pixels, None, 7, 0)


def test_bars_are_told_apart_by_their_means():
    drawn = bars(200, 0)
    across, down = (drawn.images.mean(axis=axis) for axis in (1, 2))
    told = np.where(across.max(axis=1) < down.max(axis=1), 0, 5)  # a bar of rows is bright in one mean alone
    place = np.where(told == 0, down.argmax(axis=1), across.argmax(axis=1)) // 5
    assert (np.minimum(place, 4) + told == drawn.labels).mean() > 0.75
    assert not (bars(200, 1).images == drawn.images).all()
    with pytest.raises(ValueError, match="images: one of mnist, bars is allowed, got 'faces'"):
        parts("faces")
