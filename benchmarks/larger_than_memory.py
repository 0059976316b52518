"""Information of a file larger than memory: seconds, speed and memory, by one process and by Dask clusters.

    python benchmarks/larger_than_memory.py        # prints tables, writes results/benchmarks/larger_than_memory.json

The file holds the novels of the book one after another, again and again: text as it is, of any size. Its curve, the
curves without each of 32 blocks and its tables are computed by one process without a cluster and by clusters of worker
processes of one thread each, all on this machine. Each way has a process of its own, whose largest resident memory is
noted beside that of each worker; starting them does not count. What was just written lies in the memory that the system
keeps for files, as far as there is room. The same functions in memory are timed on the first part. Different numbers
are an error.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np

from lib.information.documents.block_scores import score_blocks
from lib.information.documents.large_file import PIECE, file_information
from lib.information.documents.leave_out import leave_blocks_out
from lib.information.documents.windows import document_windows, file_windows
from lib.information.two_point import pair_counts
from lib.machine import available_cores
from lib.models import create
from lib.models.scoring import NetworkScorer
from lib.processes import corpora
from lib.report import benchmarks
from lib.runs.sweep import local_client

LAGS = np.unique(np.geomspace(1, 10_000, 12).round().astype(int))
MEGABYTE = 10**6
TOLERANCE, ROUNDING = 1e-9, 1e-2  # nats; of scores of 256 bytes in float32
SCORED, SCORES = 64, ("joint", "rest", "strange")  # parts of the file; what is compared


def write_novels(path: Path, size: int) -> int:
    """A file of that many bytes, and those of the novels, which are repeated in it."""
    novels = "\n".join(corpora.load("books").documents).encode()
    with path.open("wb") as file:
        for start in range(0, size, len(novels)):
            file.write(novels[: size - start])
    return len(novels)


def peak() -> float:
    """The largest resident memory of this process so far, MB."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MEGABYTE
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


def by_pieces(path: Path, small: Path, workers: int, piece: int) -> dict[str, Any]:
    """Seconds, memory and result of the whole file; without workers by this process."""
    file_information(small, LAGS)  # compiles, or reads what was compiled
    loaded = peak()
    with local_client(workers) if workers else contextlib.nullcontext() as client:
        if client is not None:
            client.wait_for_workers(workers)
            client.run(file_information, small, LAGS)
        start = time.perf_counter()
        found = file_information(path, LAGS, piece=piece, client=client)
        seconds = time.perf_counter() - start
        theirs = sorted(client.run(peak).values(), reverse=True) if client is not None else []
    return {"seconds": seconds, "loaded": loaded, "caller": peak(), "workers": theirs, "found": found}


def in_memory(path: Path, small: Path) -> dict[str, Any]:
    """The same of `leave_blocks_out` and `pair_counts`, on one core; the tables are not timed."""
    leave_blocks_out(np.fromfile(small, dtype=np.uint8), LAGS, workers=1)
    loaded = peak()
    start = time.perf_counter()
    symbols = np.fromfile(path, dtype=np.uint8)
    found = leave_blocks_out(symbols, LAGS, workers=1)
    seconds, own = time.perf_counter() - start, peak()
    known = np.unique(symbols)
    counts = np.zeros((len(LAGS), 256, 256), dtype=np.int64)
    for table, lag in zip(counts, LAGS, strict=True):
        table[np.ix_(known, known)] = pair_counts(symbols, int(lag))
    return {"seconds": seconds, "loaded": loaded, "caller": own, "workers": [], "found": found, "counts": counts}


def scored(path: Path, workers: int, held: bool = False) -> dict[str, Any]:
    """The same of the scores of blocks of its windows under a network; held: of the bytes in memory."""
    scorer = NetworkScorer(create("lstm", 256, 64, 1, seed=0))
    halves = [2**power for power in range(1, 9)]
    loaded = peak()
    with local_client(workers) if workers else contextlib.nullcontext() as client:
        if client is not None:
            client.wait_for_workers(workers)
        start = time.perf_counter()
        if held:
            windows = document_windows(np.array_split(np.fromfile(path, dtype=np.uint8), SCORED), 512, per_document=4)
        else:
            windows = file_windows(path, 512, documents=SCORED, per_document=4)
        found = score_blocks(scorer, windows, halves, documents_at_once=4, progress=False, client=client)
        seconds = time.perf_counter() - start
        theirs = sorted(client.run(peak).values(), reverse=True) if client is not None else []
    return {"seconds": seconds, "loaded": loaded, "caller": peak(), "workers": theirs, "found": found}


def apart(function: Any, *arguments: Any) -> dict[str, Any]:
    """What a function gives in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        result: dict[str, Any] = pool.submit(function, *arguments).result()
        return result


def check_same(one: Any, other: Any, what: str, names: Sequence[str] = ("curve", "without")) -> None:
    """RuntimeError unless two results have the same curves, or scores."""
    for name in names:
        away = float(np.abs(getattr(one, name) - getattr(other, name)).max())
        if not away <= (TOLERANCE if names == ("curve", "without") else ROUNDING):
            raise RuntimeError(f"{what}: `{name}` differs by {away:.3g} nats; at most {TOLERANCE} is allowed")


def row(way: str, size: int, measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "way": way,
        "seconds": measured["seconds"],
        "MB/s": size / MEGABYTE / measured["seconds"],
        "before: MB": measured["loaded"],
        "caller: MB": measured["caller"],
        "workers: MB": measured["workers"],
    }


def named(workers: int) -> str:
    return {0: "pieces, no cluster", 1: "pieces, 1 worker"}.get(workers, f"pieces, {workers} workers")


@click.command(help=__doc__)
@click.option("--gigabytes", default=10.0, show_default=True, help="Of the file, 10^9 bytes each.")
@click.option("--part", default=0.2, show_default=True, help="Gigabytes of its beginning that memory holds too.")
@click.option("--workers", "counts", multiple=True, default=(1, 2), show_default=True, help="Processes of a cluster.")
@click.option("--piece", default=PIECE, show_default=True, help="Bytes of a piece.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Where the file is kept.")
@click.option("--output", type=click.Path(path_type=Path), default=benchmarks.FOLDER / "larger_than_memory.json")
def main(gigabytes: float, part: float, counts: tuple[int, ...], piece: int, folder: Path | None, output: Path) -> None:
    size, beginning = round(gigabytes * 1e9), round(min(part, gigabytes) * 1e9)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        whole, first, small = (Path(place) / name for name in ("whole", "first", "small"))
        novels = write_novels(whole, size)
        write_novels(first, beginning)
        write_novels(small, 500_000)
        known, pieces = apart(in_memory, first, small), apart(by_pieces, first, small, 0, piece)
        check_same(pieces["found"], known["found"], "the first part, in pieces and in memory")
        if not np.array_equal(pieces["found"].counts, known["counts"]):
            raise RuntimeError("the first part has other counts in pieces than in memory")
        parts = [row("in memory", beginning, known), row(named(0), beginning, pieces)]
        click.echo("\n".join(map(str, parts)))
        rows, results = [], []
        for workers in (0, *counts):
            measured = apart(by_pieces, whole, small, workers, piece)
            results.append(measured["found"])
            rows.append(row(named(workers), size, measured))
            click.echo(str(rows[-1]))
        size_read = SCORED * 4 * 512
        blocks = {"in memory": apart(scored, first, 0, True), "windows of the first part": apart(scored, first, 0)}
        blocks |= {f"windows, {named(workers)[8:]}": apart(scored, whole, workers) for workers in (0, *counts)}
    check_same(*(blocks[way]["found"] for way in list(blocks)[:2]), "the first part, windows", SCORES)
    for one, other in itertools.pairwise(list(blocks)[2:]):
        check_same(blocks[one]["found"], blocks[other]["found"], f"{one} and {other}", SCORES)
    scores = [row(way, size_read, measured) for way, measured in blocks.items()]
    for one, other in itertools.pairwise(results):
        check_same(one, other, "the whole file, with and without a cluster")
        if not np.array_equal(one.counts, other.counts):
            raise RuntimeError("the whole file has other counts on a cluster")
    recorded = benchmarks.record(
        output,
        "A file larger than memory",
        f"Novels of {novels / MEGABYTE:.3g} MB, repeated up to {gigabytes:g} GB, as bytes at {len(LAGS)} distances: "
        "curve, curves without each of 32 blocks, tables. Seconds, speed, and the largest resident memory of the "
        "process that asks, with its libraries before it begins and at the end, and of each worker; in memory one core "
        "on the first part. Of blocks whose scores are asked for only the windows are read. The numbers are the same.",
        {
            "The whole file": rows,
            f"The first {beginning / 1e9:g} GB": parts,
            f"Scores of blocks, {SCORED * 4} windows of 512 bytes under an LSTM of 64 units": scores,
        },
        packages=["distributed", "numba"],
        cores=available_cores(),
        gigabytes=gigabytes,
        piece=piece,
        distances=LAGS.tolist(),
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
