"""Tables and sentences of the chapter on gradients in training, in Markdown: what is not recorded says so."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from experiments.recall.inside.figures import with_relevance
from experiments.recall.inside.measures import slopes
from experiments.recall.runs import RecallRun
from experiments.recall.tables import NOT_YET
from lib.report.page import markdown_table, span

LEFT_OUT = {
    "without_other": "of states that are not relevant",
    "without_random": "of as many states, drawn at random",
    "without_small": "below a tenth of uniform",
}


def answer(looking: Iterable[RecallRun], steepness: Iterable[RecallRun]) -> str:
    """What the records say of the paths that carry gradients, and of the slopes of Fig. 3."""
    told = []
    for task, runs in with_relevance(looking).items():
        found = [run.inside("after")["relevance"] for run in runs]
        kinds = [f"{100 * np.mean([one[kind] for one in found]):.0f} %" for kind in ("relevant", "other")]
        cosines = [one["without_other"][1] for one in found if one["without_other"]]
        without = f"the gradient without the latter has cosine {span(cosines, '.3f')} with the exact one"
        told.append(
            f"**{task.capitalize()}.** Full attention, trained: {kinds[0]} of the states are relevant, {kinds[1]} are "
            f"not; {without if cosines else 'so nothing can be left out'}."
        )
    found_slopes = slopes(list(steepness))
    told.append(
        f"**Fig. 3.** Slopes of {len(found_slopes)} pairs of sizes are recorded."
        if found_slopes
        else f"**Fig. 3** at a delay of which every memory is a third at most: {NOT_YET}."
    )
    if len(told) == 1:
        told.insert(0, f"**Paths through relevant states:** {NOT_YET}.")
    return "\n".join(f"- {sentence}" for sentence in told)


def table_of_paths(runs: Iterable[RecallRun]) -> str:
    """What becomes of the gradient of all parameters if weights are taken as 0: relative error and cosine, by task."""
    rows = []
    for task, some in with_relevance(runs).items():
        for number, name in LEFT_OUT.items():
            found = [one for run in some if (one := run.inside("after")["relevance"][number])]
            told = [span([one[place] for one in found], form) or "–" for place, form in enumerate((".2f", ".3f"))]
            rows.append([task, name, *told])
    if not rows:
        return f"Paths: {NOT_YET}."
    return markdown_table(["task", "weights taken as 0", "relative error", "cosine"], rows)


def largest_difference(runs: Iterable[RecallRun]) -> float | None:
    """Of the recursion's gradients from those of the compiled kernel, over all trained networks; None without any."""
    found = [run.inside("after")["relevance"]["difference"] for run in runs if "relevance" in run.inside("after")]
    return max(found, default=None)


def table_of_slopes(runs: Iterable[RecallRun]) -> str:
    """Fig. 3 in numbers: |slope| of ln of the gradient, nats per 100 steps, before and after training."""
    everything = list(runs)
    before, after = (slopes(everything, when) for when in ("before", "after"))
    if not after:
        return f"Gradients: {NOT_YET}."
    rows = [
        [*sizes, *(span(list(found.get(sizes, {}).values()), ".2f") for found in (before, after))]
        for sizes in sorted(after)
    ]
    return markdown_table(["buffer", "set", "untrained", "trained"], rows)
