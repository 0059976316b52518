"""A file put together here: raw arrays, published one by one, as one ``.npz``."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import requests
from tqdm import tqdm

from lib.machine import write_whole
from lib.processes.corpora.catalogue import Source
from lib.processes.corpora.reading import check

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0


def assemble(source: Source, target: Path, progress: bool = True) -> None:
    """Download the arrays of `source` and write them as `target`, which has its name only if its checksum is right.

    Each array is the bytes of little-endian float32 numbers at ``url`` + its name, "|" written "_". `numpy.savez` dates
    its members 1980 and does not compress, so that the same arrays give the same bytes. ``ValueError`` for an array of
    another size or a wrong checksum, ``OSError`` without connection.
    """
    assert source.arrays is not None
    arrays = {}
    for name, shape in tqdm(source.arrays.items(), desc=target.name, unit="array", disable=not progress):
        address = source.url + name.replace("|", "_")
        answer = requests.get(address, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
        answer.raise_for_status()
        size = 4 * int(np.prod(shape, dtype=np.int64))
        if len(answer.content) != size:
            raise ValueError(f"{address}: float32 of shape {shape} has {size} bytes, got {len(answer.content)}")
        arrays[name] = np.frombuffer(answer.content, dtype="<f4").reshape(shape)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    check(buffer.getvalue(), source.checksum, str(target))
    write_whole(target, buffer.getvalue())
