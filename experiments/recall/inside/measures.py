"""Numbers of single runs and of cells that the statements on copy and denoise rest on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from experiments.recall.run import WATCHED, Parameters, buffer_of, task_of
from experiments.recall.runs import USUAL, RecallRun

SMALL = 1 / 3  # of the delay, which a memory may hold where gradients are compared


def slope(run: RecallRun, when: str = "after") -> float:
    """m: ln |dL/dh_t| by distance, in nats per 100 steps, beyond the buffer and the steps of recall; least squares."""
    norms = np.array(run.inside(when)["gradient_norms"], dtype=np.float64)
    beyond = run.parameters["options"].get("buffer", 0) + run.parameters["recall"]
    distance = np.arange(len(norms))[beyond + 1 :] / 100
    return float(np.polyfit(distance, norms[beyond + 1 :], 1)[0])


def by_sizes(runs: Iterable[RecallRun], when: str = "after") -> dict[tuple[int, int], list[RecallRun]]:
    """RelLSTM by (buffer, relevant), at the longest delay of which every memory is a third or less."""
    own = [run for run in runs if run.architecture == "rel_lstm" and "gradient_norms" in run.inside(when)]
    sizes = {id(run): (run.parameters["options"]["buffer"], run.parameters["options"]["relevant"]) for run in own}
    own = [run for run in own if sum(sizes[id(run)]) <= SMALL * run.delay]
    longest = max((run.delay for run in own), default=0)
    found: dict[tuple[int, int], list[RecallRun]] = {}
    for run in own:
        if run.delay == longest:
            found.setdefault(sizes[id(run)], []).append(run)
    return dict(sorted(found.items()))


def slopes(runs: Iterable[RecallRun], when: str = "after") -> dict[tuple[int, int], dict[int, float]]:
    """|m| of these by their sizes and seed."""
    cells = by_sizes(runs, when)
    return {sizes: {run.seed: abs(slope(run, when)) for run in some} for sizes, some in cells.items()}


def looking(run: RecallRun, number: str = "on_symbols", control: str | None = None) -> float:
    """A share of the attention after training over that before; control: the share in the place of the one after."""
    after = run.inside("after").get("attention", {}).get(control or number)
    return np.nan if after is None else float(after / run.inside("before")["attention"][number])


def chosen_at_cue(run: RecallRun, when: str = "after") -> float:
    """Share of the relevant set that holds symbols at the cue: 0, that of a choice by chance, to 1, the largest."""
    chance, largest = limits_at_cue(run)
    return float((run.inside(when)["attention"]["set_at_cue"] - chance) / (largest - chance))


def limits_at_cue(run: RecallRun) -> tuple[float, float]:
    """That share, of the sequences watched, where the set is chosen by chance, and where it is chosen perfectly.

    Symbols of the last `buffer` - 1 steps are still in the buffer, and in no set.
    """
    chosen = Parameters(**run.parameters)
    task, buffer = task_of(chosen), buffer_of(chosen)
    if buffer is None:
        raise ValueError(f"run: one of a network with a relevant set is allowed, got {chosen.architecture!r}")
    inputs, _ = task.sample(chosen.watched, np.random.default_rng([run.seed, 0, WATCHED]))
    outside = task.cue_time - buffer + 1  # times that have left the buffer
    symbols = (task.symbol_times(inputs) < outside).sum(axis=1)
    places = min(int(chosen.options.get("relevant", USUAL["relevant"])), outside)
    return float(symbols.mean() / outside), float(np.minimum(symbols, places).mean() / places)
