"""Does a GPU find what the CPU found? Every fingerprint of the experiments, computed on a GPU.

    python benchmarks/agreement_on_gpu.py --workers 8    # writes results/benchmarks/agreement_on_gpu.json

A point of a fingerprint is one tiny run of an experiment, from its parameters to its result, and what its optimizer
remembers of the gradients. The kept numbers are of the CPU; they agree within the tolerances that hold between
processors (`lib.runs.fingerprints`). Agents in grid worlds are left out: their worlds step on the CPU.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import torch

from lib.report import benchmarks
from lib.runs import fingerprints
from lib.runs.definition import Experiment, experiment_files

LEFT_OUT = ("kerg-minigrid",)


def compared(job: tuple[str, str]) -> dict[str, Any]:
    """One point: whether its data are here, what differs, and the seconds it took."""
    name, point = job
    torch.set_num_threads(1)
    start = time.perf_counter()
    done = fingerprints.check(Experiment(name), lambda one: one.name == point, device="cuda")
    return {
        "name": name,
        "point": point,
        "found": len(done.found),
        "changed": done.changed,
        "seconds": time.perf_counter() - start,
    }


def tables(found: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Points that agree by experiment, and of those that do not the first difference."""
    done = sorted((one for one in found if one["found"]), key=lambda one: (one["name"], one["point"]))
    names = dict.fromkeys(one["name"] for one in done)
    counts = []
    for name in names:
        own = [one for one in done if one["name"] == name]
        counts.append({"experiment": name, "points": len(own), "agree": sum(not one["changed"] for one in own)})
    differing = [
        {"experiment": one["name"], "point": one["point"], "numbers": len(one["changed"]),
         "first": one["changed"][0].removeprefix(f"{one['point']}: ")}
        for one in done
        if one["changed"]
    ]  # fmt: skip
    return {"Points of the fingerprints": counts, "Those that differ": differing}


def points() -> Sequence[tuple[str, str]]:
    names = [name for name in sorted(experiment_files()) if name not in LEFT_OUT]
    return [(name, point.name) for name in names for point in fingerprints.points(Experiment(name))]


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True, help="Processes that share the GPU.")
def main(workers: int) -> None:
    if not torch.cuda.is_available():
        raise click.ClickException(f"CUDA finds no GPU (torch {torch.__version__})")
    jobs = points()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = list(pool.imap_unordered(compared, jobs))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "agreement_on_gpu.json",
        "What a GPU computes, beside the CPU",
        "Tiny runs of every experiment on a GPU, compared with the kept numbers of the CPU: results, losses and sizes "
        "of gradients, within the tolerances that hold between processors. Points whose data are not there are left "
        "out.",
        tables(found),
        workers=workers,
        points_of_all=len(jobs),
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
