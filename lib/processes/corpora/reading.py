"""From bytes on disk to documents: decompression, checksum, decoding, paragraphs, samples, starts of sentences."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import lzma
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from lib.processes.corpora.catalogue import Bytes, Layout

_DAMAGES = (
    lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, zstandard.ZstdError,
)  # fmt: skip
_CHUNK = 2**16  # bytes
_BLANK = re.compile(r"\n[ \t]*\n\s*")
_WRAP = re.compile(r"[ \t]*\n[ \t]*")
_SAMPLE = re.compile(r"^=+ SAMPLE \d+ =+$\n?", re.MULTILINE)
_END_OF_TEXT = "<|endoftext|>"
_BEGIN = re.compile(
    r"(?:\A|\n[ \t]*\n|(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\bMessrs)(?<!\b[A-Z])[.!?][\"'”’)\]]*)\s*"
    r"(?P<first>[\"'“‘(\[_]*[A-Z])?"  # or nothing: the white space is passed either way, and looked at once
)


def content(path: Path, member: str | None = None, cut: Bytes | None = None) -> bytes:
    """Bytes of a plain, ``.xz``, ``.gz``, ``.zst``, ``.zip`` or ``.whl`` file, the last two by the name of a member.

    ``cut`` keeps a range. ``ValueError`` for a damaged file and for a member that is not there (with those that are);
    nothing is unpacked to disk.
    """
    try:
        kind = path.suffix.lower()
        if kind == ".xz":
            data = lzma.decompress(path.read_bytes())
        elif kind == ".gz":
            data = gzip.decompress(path.read_bytes())
        elif kind == ".zst":
            data = _frames(path.read_bytes())
        elif kind in (".zip", ".whl"):
            data = _member(path, member)
        else:
            data = path.read_bytes()
    except _DAMAGES as error:
        # RuntimeError: an encrypted archive, or one packed in a way that Python does not know
        raise ValueError(f"{path} cannot be decompressed: {error}; pack it anew or fetch it again") from error
    return data if cut is None else data[cut[0] : cut[1]]


def _frames(packed: bytes) -> bytes:
    """All frames of Zstandard, joined; ``EOFError`` where the last is cut off, which a stream reader passes over."""
    frame: zstandard.ZstdDecompressionObj | None = None
    parts: list[bytes] = []
    for start in range(0, len(packed), _CHUNK):  # what is left behind a frame is copied: at most a chunk
        rest = packed[start : start + _CHUNK]
        while rest:
            if frame is None or frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
            parts.append(frame.decompress(rest))
            rest = frame.unused_data if frame.eof else b""
    if frame is not None and not frame.eof:
        raise EOFError("the file ends inside a frame")
    return b"".join(parts)


def _member(path: Path, member: str | None) -> bytes:
    with zipfile.ZipFile(path) as archive:
        files = [name for name in archive.namelist() if not name.endswith("/")]
        if member is None and len(files) == 1:
            member = files[0]
        if member not in files:
            raise ValueError(f"{path} has no single member {member!r} to read; it has {files}")
        try:
            return archive.read(member)
        except OSError as error:  # its table of contents points outside the file
            raise zipfile.BadZipFile(f"{member}: {error}") from error


def digest(data: bytes, algorithm: str = "sha256") -> str:
    """``algorithm:hexadecimal digest``, the form checksums have in the catalogue."""
    return f"{algorithm}:{hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()}"


def check(data: bytes, checksum: str, what: str, remedy: str = "") -> None:
    """``ValueError`` with both checksums, and what to do, if ``data`` is not what the catalogue expects."""
    found = digest(data, checksum.partition(":")[0])
    if found != checksum:
        hint = f"; {remedy}" if remedy else ""
        raise ValueError(f"{what} has a wrong checksum: expected {checksum}, got {found} ({len(data)} bytes){hint}")


def decode(data: bytes, what: str) -> str:
    """Text of UTF-8 bytes without byte-order mark, line ends as ``\\n``.

    ``ValueError`` names the file and the place of the first byte that is no UTF-8, or is NUL, which no text holds.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{what} is not UTF-8: byte 0x{data[error.start]:02x} at {_place(data, error.start)} ({error.reason}); "
            f"{_remedy(data)}"
        ) from error
    if (start := data.find(0)) >= 0:
        raise ValueError(f"{what} is no text: a NUL byte at {_place(data, start)}; {_remedy(data)}")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _place(data: bytes, offset: int) -> str:
    return f"offset {offset}, line {data.count(10, 0, offset) + 1}"


def _remedy(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it begins as UTF-16 does: convert the file to UTF-8, `iconv -f UTF-16 -t UTF-8` does it"
    return "convert the file to UTF-8"


def unwrap(text: str) -> str:
    """Join hard-wrapped lines into paragraphs.

    A line break inside a paragraph, with the blanks around it, becomes one space; one empty line stays between
    paragraphs. Without this the columns of the printed page show up as mutual information at lags near 70.
    """
    paragraphs = (_WRAP.sub(" ", paragraph.strip()) for paragraph in _BLANK.split(text))
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def samples(text: str) -> list[str]:
    """Documents of a file of GPT-2 samples: without divider lines, cut at the end-of-text marks, stripped."""
    pieces = (piece.strip() for sample in _SAMPLE.split(text) for piece in sample.split(_END_OF_TEXT))
    return [piece for piece in pieces if piece]


def documents(text: str, layout: Layout) -> list[str]:
    """The documents of one file, read as its layout in the catalogue says."""
    if layout == "samples":
        return samples(text)
    return [unwrap(text) if layout == "wrapped" else text]


def sentence_starts(text: str) -> NDArray[np.int64]:
    """Places of characters at which a sentence begins, in order: those of the text, of paragraphs, and after . ! or ?

    A capital letter has to follow, with its opening quotes, if any, and white space in between unless the text begins.
    Titles (Mr. Mrs. Dr. St. Messrs.) and single capital letters before the point end no sentence. O(length).
    """
    places = (match.start("first") for match in _BEGIN.finditer(text))  # -1 where no sentence begins
    return np.array([at for at in places if at == 0 or (at > 0 and text[at - 1].isspace())], dtype=np.int64)
