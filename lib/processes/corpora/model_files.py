"""Files of pretrained models: found, checked, and unpacked where they lie in an archive."""

from __future__ import annotations

from pathlib import Path

from lib.machine import write_whole
from lib.processes.corpora.catalogue import Entry, entry, model_names
from lib.processes.corpora.loading import content_of, note_file_of
from lib.processes.corpora.places import cache_folder, local_copy, writing_to
from lib.processes.corpora.reading import digest


def model_file(name: str, file: str, *, download: bool = True) -> Path:
    """Path of a file of the model `name`, its checksum right; unpacked into the cache if it lies in an archive.

    ``ValueError`` for an unknown model or file and for a wrong checksum, ``CorpusUnavailable`` with the command that
    gets it if it is not on this machine and cannot be had (or `download` is false), ``CacheUnwritable`` if there is no
    room to unpack it.
    """
    found = _model(name, file)
    path = ready_copy(found, file)
    if path is not None:
        note_file_of(found, file, found.files[file].checksum)
        return path
    unpacked = unpacked_path(found, file)
    data, _ = content_of(found, file, download)  # refuses a damaged copy in the data folder
    with writing_to(unpacked.parent):
        write_whole(unpacked, data)
    return unpacked


def ready_copy(found: Entry, file: str) -> Path | None:
    """A copy that needs no unpacking, its checksum right: in a data folder or unpacked before."""
    checksum = found.files[file].checksum
    for path in (local_copy(found, file), unpacked_path(found, file)):
        if path is not None and path.name == file and path.is_file():
            if digest(path.read_bytes(), checksum.partition(":")[0]) == checksum:
                return path
    return None


def unpacked_path(found: Entry, file: str) -> Path:
    """Where a file of a model is unpacked to."""
    return cache_folder() / found.name / "unpacked" / file


def model_bytes(name: str, file: str, *, download: bool = True) -> bytes:
    """Content of a file of the model `name`; raises as `model_file`."""
    return content_of(_model(name, file), file, download)[0]


def _model(name: str, file: str) -> Entry:
    if name not in model_names():
        raise ValueError(f"model: one of {', '.join(model_names())} is allowed, got {name!r}")
    found = entry(name)
    if file not in found.files:
        raise ValueError(f"file of {name}: one of {', '.join(found.files)} is allowed, got {file!r}")
    return found
