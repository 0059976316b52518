"""The mutual-information curve of a file larger than memory, and the curves without each of its blocks.

The file is read in pieces, each with as many bytes of what follows as the largest lag, so that every pair is counted
once, by the piece in which it starts. Counts are whole numbers: added up in any order, by any number of processes, they
are those of the file in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.checks import whole_number
from lib.information.counting.dense import dense_tables, table_sums
from lib.information.documents.cluster import on_cluster
from lib.information.documents.leave_out import LeftOut
from lib.information.estimators import Estimator, entropy_from_sums, find_estimator
from lib.information.two_point import checked_lags
from lib.machine import expanded

SIZE = 256  # values of a byte
PIECE, LARGEST_PIECE = 1 << 25, 1 << 31  # bytes; a cell of a piece is counted in 32 bits

Cells = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]  # which cells of all tables are not zero, and their counts


@dataclass(frozen=True)
class FileInformation(LeftOut):
    """The curve of the bytes of a file, the curve without each block, nats, and the joint tables that it is from."""

    counts: npt.NDArray[np.int64]  # (lags, 256, 256): [k, a, b] pairs of byte a followed by byte b at lags[k]


def file_information(
    path: str | Path,
    lags: npt.ArrayLike,
    *,
    blocks: int = 32,
    piece: int = PIECE,
    client: Any = None,
    estimator: str = "grassberger2003",
) -> FileInformation:
    """Auto-mutual information of the bytes of a file that is never loaded whole, and without each block of it; nats.

    The symbols are the bytes, 0 to 255, whatever they encode, and the file is one document: `curve` and `without` are
    those of `leave_blocks_out` on the same bytes, `counts` those of `pair_counts`. `replicates` gives bands.

    lags: whole numbers from 1 on. piece: bytes that are read at a time, at least the largest lag. client: of a Dask
    cluster (`distributed.Client`), whose workers all find the file under this path; without one this process counts. A
    piece whose worker dies is counted by another one.

    Memory. A table has 65 536 cells, and of each only those that are not zero are kept or sent, at 12 bytes. Who counts
    holds one piece and its cells, at most piece + lags x 1.6 MB: 53 MB by default at 12 lags. Two pieces per thread are
    under way, and the cluster holds no others. The caller keeps the cells of each block, at most blocks x lags x 0.8
    MB: 302 MB for 32 blocks at 12 lags, but 40 MB for English text, which has some 8000 pairs of bytes. Nothing grows
    with the file.

    ``ValueError`` for a file that is missing, empty or changes meanwhile, and for what is not allowed of lags, blocks,
    piece and estimator; ``ConnectionError`` if the scheduler goes away. O(bytes) per lag.
    """
    rule = find_estimator(estimator)
    place = expanded(path).absolute()
    before = _state(place)
    length = before[0]
    if length < 2:
        raise ValueError(f"path: a file of at least 2 bytes is needed, {place} has {length}")
    steps = checked_lags(lags, length, least=1)
    largest = int(steps.max())
    blocks, piece = whole_number(blocks, "blocks", 1), whole_number(piece, "piece", 1)
    if not 2 <= blocks <= length // largest:
        raise ValueError(
            f"blocks: 2 to {length // largest} are allowed, so that none of {length} bytes is shorter than the largest "
            f"lag, {largest}; got {blocks}"
        )
    if not largest <= piece <= LARGEST_PIECE:
        raise ValueError(f"piece: from the largest lag, {largest}, to {LARGEST_PIECE} bytes are allowed, got {piece}")
    tasks = ((number, place, first, last, steps, length) for number, first, last in pieces_of(length, blocks, piece))
    kept: list[Cells] = [(np.empty(0, np.uint32), np.empty(0, np.int64))] * blocks
    for number, found in on_cluster(count_piece, tasks, client):
        kept[number] = _added(kept[number], found)
    if _state(place) != before:
        raise ValueError(f"path: {place} has changed while it was read; a file that stays as it is is needed")
    return _informed(steps, kept, rule)


def pieces_of(length: int, blocks: int, piece: int) -> Iterator[tuple[int, int, int]]:
    """Block, first and last place + 1 of each piece: the blocks of `leave_blocks_out`, each cut from its beginning."""
    for block in range(blocks):
        end = (block + 1) * length // blocks
        for first in range(block * length // blocks, end, piece):
            yield block, first, min(first + piece, end)


def count_piece(
    block: int, path: Path, first: int, last: int, lags: npt.NDArray[np.int64], length: int
) -> tuple[int, Cells]:
    """The block, and the cells that are not zero of the pairs that start at the places from `first` to `last` - 1.

    Cell k 65536 + 256 a + b is for byte a followed by byte b at lags[k]. ``ValueError`` unless the file has `length`
    bytes.
    """
    if _state(path)[0] != length:
        raise ValueError(f"path: {path} had {length} bytes and has {_state(path)[0]} now; a file that stays is needed")
    symbols = np.fromfile(path, dtype=np.uint8, count=min(last + int(lags.max()), length) - first, offset=first)
    cells, counts = [], []
    for index, table in enumerate(dense_tables(symbols, last - first, SIZE, lags)):
        seen = np.flatnonzero(table)
        cells.append((index * SIZE**2 + seen).astype(np.uint32))
        counts.append(table[seen].astype(np.int64))
    return block, (np.concatenate(cells), np.concatenate(counts))


def _state(path: Path) -> tuple[int, int]:
    """Bytes of a file and the time of its last change."""
    if not path.is_file():
        raise ValueError(f"path: a file is needed, there is none at {path}")
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _added(one: Cells, other: Cells) -> Cells:
    cells = np.union1d(one[0], other[0])
    counts = np.zeros(cells.size, dtype=np.int64)
    for some, numbers in (one, other):
        counts[np.searchsorted(cells, some)] += numbers
    return cells, counts


def _informed(lags: npt.NDArray[np.int64], kept: list[Cells], rule: Estimator) -> FileInformation:
    whole = np.zeros(lags.size * SIZE**2, dtype=np.int64)
    for cells, counts in kept:
        whole[cells] += counts
    curves = np.empty((len(kept) + 1, lags.size))
    for row, (cells, counts) in enumerate([(np.empty(0, np.uint32), np.empty(0, np.int64)), *kept]):
        left = whole.copy()
        left[cells] -= counts
        tables = left.reshape(lags.size, SIZE**2)
        pairs = tables.sum(axis=1)
        if np.any(pairs < 1):
            raise ValueError(f"lags: too few pairs at {lags[pairs < 1][0]}; take smaller lags or fewer blocks")
        entropies = entropy_from_sums(pairs[:, None], *table_sums(tables, SIZE, rule), rule)
        curves[row] = entropies[:, 0] + entropies[:, 1] - entropies[:, 2]
    return FileInformation(lags, curves[0], curves[1:], whole.reshape(lags.size, SIZE, SIZE))
