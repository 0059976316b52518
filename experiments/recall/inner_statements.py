"""What is asked of the inside of networks that recall: Fig. 3, 10 and 11 of Kerg et al. (2020), by fixed rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.recall.measures import looking, slopes
from experiments.recall.runs import RecallRun, settled
from experiments.recall.statements import seed_rows
from lib.information.intervals import Interval, seed_mean
from lib.report.verdicts import judge

LOOKING = 3.0  # times as much attention on the symbols as before training
FIGURE3 = (15, 15, 3)  # buffer that is held, relevant set that is held, and the size that is too small
BEYOND_ZERO = 1e-6  # nats per 100 steps: an interval from there on does not hold zero
LONG_ENOUGH = 8  # the smallest relevant set that is said to be stable


def judge_set_size(runs: Iterable[RecallRun], when: str = "after") -> str:
    """Fig. 3 (left): a relevant set of 3 leaves steeper gradients than every set of 8 and more."""
    everything = list(runs)
    found = slopes(everything, when)
    buffer, _, few = FIGURE3
    small = found.get((buffer, few), {})
    return _judge_slopes(
        everything,
        {
            f"relevant {few} minus {relevant}": _paired(small, found[held, relevant])
            for held, relevant in sorted(found)
            if held == buffer and relevant >= LONG_ENOUGH and small
        },
        part="figure 3, relevant set",
        explanation="gradients with a set of 3 are as flat as those with larger ones",
    )


def judge_buffer_size(runs: Iterable[RecallRun], when: str = "after") -> str:
    """Fig. 3 (right): over the same sizes, the slope changes more with the relevant set than with the buffer."""
    everything = list(runs)
    found = slopes(everything, when)
    buffer, relevant, _ = FIGURE3
    sizes = sorted(
        {size for held, size in found if held == buffer} & {size for size, held in found if held == relevant}
    )

    def spread(cells: list[dict[int, float]]) -> dict[int, float]:
        seeds = set.intersection(*map(set, cells))
        return {seed: float(np.ptp([cell[seed] for cell in cells])) for seed in seeds}

    cases = {}
    if len(sizes) > 1:
        by_set = spread([found[buffer, size] for size in sizes])
        by_buffer = spread([found[size, relevant] for size in sizes])
        cases = {f"range over sets minus range over buffers, sizes {sizes}": _paired(by_set, by_buffer)}
    return _judge_slopes(
        everything,
        cases,
        part="figure 3, buffer",
        explanation="the size of the buffer matters as much as that of the relevant set",
    )


def judge_heat_maps(runs: Iterable[RecallRun], number: str = "on_symbols") -> str:
    """Fig. 10 and 11: networks with a relevant set look three times as much at the symbols as before training.

    number: "on_symbols", or "set_at_cue" for what the set holds. Left out are networks that have more than a third of
    it untrained, as on the copy task, where the first states that leave the buffer are the symbols.
    """
    cells: dict[str, list[RecallRun]] = {}
    for run in runs:
        attention = run.inside("before").get("attention", {})
        if not run.variant and attention.get(number) and attention.get("set_at_cue") is not None:
            cells.setdefault(f"{run.name}, {run.task}, T = {run.delay}, {run.recipe}", []).append(run)
    open_ones = {
        name: some
        for name, some in cells.items()
        if max(run.inside("before")["attention"][number] for run in some) * LOOKING <= 1
    }
    left = sorted(cells.keys() - open_ones.keys())
    trained = [run for some in open_ones.values() for run in some]
    return judge(
        "kerg-heatmaps",
        seed_rows(open_ones.values(), lambda run: looking(run, number), min),
        part="attention on the symbols" if number == "on_symbols" else "symbols in the relevant set",
        at_least=LOOKING,
        plateau=settled(trained),
        condition="to plateau",
        explanation="trained networks do not look at the steps at which the symbols came",
        note=f"left out, since more than a third is there before training: {'; '.join(left)}" if left else "",
    )


def _judge_slopes(runs: Sequence[RecallRun], cases: Mapping[str, Interval], *, part: str, explanation: str) -> str:
    trained = [run for run in runs if run.architecture == "rel_lstm" and "gradient_norms" in run.inside("after")]
    return judge(
        "kerg-fig3",
        cases,
        part=part,
        at_least=BEYOND_ZERO,
        plateau=settled(trained),
        condition="to plateau",
        explanation=explanation,
        note="|slope| of ln of the norm, nats per 100 steps",
    )


def _paired(first: Mapping[int, float], second: Mapping[int, float]) -> Interval:
    """First minus second, seed by seed; unknown with fewer than two."""
    return seed_mean([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])
