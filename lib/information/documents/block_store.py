"""Scores of blocks kept document by document, so that a stopped run loses one document."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float64]]


class BlockStore:
    """A folder with one file a document, complete or not there.

    identity and arrays: what the scores are of. A folder of something else is refused with ``ValueError``.
    """

    def __init__(self, folder: Path, identity: str, *arrays: NDArray[np.generic]) -> None:
        total = hashlib.sha256(identity.encode())
        for array in arrays:
            total.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "scores.json"
        described = {"model": identity, "digest": total.hexdigest()}
        if note.is_file():
            held = json.loads(note.read_text(encoding="utf-8"))
            if held != described:
                raise ValueError(
                    f"{folder} holds scores of model {held.get('model')!r} on other windows, lengths or weights than "
                    f"those of {identity!r} asked for now; take another folder"
                )
        else:
            _write(note, json.dumps(described).encode())

    def held(self, numbers: NDArray[np.int64]) -> dict[int, Arrays]:
        """Scores of the documents that are done."""
        found: dict[int, Arrays] = {}
        for number in numbers.tolist():
            path = self._path(number)
            if path.is_file():
                with np.load(path, allow_pickle=False) as file:
                    found[number] = {name: file[name] for name in file.files}
        return found

    def keep(self, number: int, scores: Arrays) -> None:
        """Write the scores of one document."""
        partial = self._path(number).with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, **scores)  # type: ignore[arg-type]
        partial.replace(self._path(number))

    def _path(self, number: int) -> Path:
        return self.folder / f"document-{number:05d}.npz"


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}.part")
    partial.write_bytes(data)
    partial.replace(path)
