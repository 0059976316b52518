"""Tables and sentences of the chapter on gradients in training, in Markdown: what is not recorded says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from experiments.recall.inside.figures import with_relevance
from experiments.recall.inside.measures import by_sizes, slope
from experiments.recall.inside.statements import FIGURE3
from experiments.recall.runs import RecallRun
from experiments.recall.tables import NOT_YET
from lib.models.catalogue import NAMES
from lib.report.page import markdown_table, span

OF_SHARPNESS = (  # shown in test_relevance
    "Sharp attention alone does this: untrained networks whose scores are multiplied by a hundred meet all bounds "
    "on copy (in the tests). It is a property of the softmax, not of what was learned."
)
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
            f"**{task.capitalize()}.** Full attention, trained: {kinds[0]} of the states are attended to at more than "
            f"half of the later steps (*relevant*), {kinds[1]} at hardly any; "
            f"{without if cosines else 'so nothing can be left out'}."
        )
    trained = list(steepness)
    told.append(
        f"**Fig. 3.** Slopes of the logarithm of the gradient against distance, nats per 100 steps (below zero it "
        f"falls), buffer of {FIGURE3[0]}: {_by_set(trained)}."
        if by_sizes(trained)
        else f"**Fig. 3** at a delay of which every memory is a third at most: {NOT_YET}."
    )
    if len(told) == 1:
        told.insert(0, f"**Paths through relevant states:** {NOT_YET}.")
    return "\n".join(f"- {sentence}" for sentence in told)


def table_of_paths(runs: Iterable[RecallRun]) -> str:
    """What becomes of the gradient of all parameters if weights are taken as 0: relative error and cosine, by task.

    Beside them the share of states that are not relevant.
    """
    rows = []
    for task, some in with_relevance(runs).items():
        others = span([100 * run.inside("after")["relevance"]["other"] for run in some], ".0f")
        for number, name in LEFT_OUT.items():
            found = [one for run in some if (one := run.inside("after")["relevance"][number])]
            told = [span([one[place] for one in found], form) or "–" for place, form in enumerate((".2f", ".3f"))]
            rows.append([task, others, name, *told])
    if not rows:
        return f"Paths: {NOT_YET}."
    shown = markdown_table(["task", "not relevant, %", "weights taken as 0", "relative error", "cosine"], rows)
    return f"{shown}\n\n{OF_SHARPNESS}"


def largest_difference(runs: Iterable[RecallRun]) -> float | None:
    """Of the recursion's gradients from those of the compiled kernel, over all trained networks; None without any."""
    found = [run.inside("after")["relevance"]["difference"] for run in runs if "relevance" in run.inside("after")]
    return max(found, default=None)


def table_of_slopes(runs: Iterable[RecallRun]) -> str:
    """Fig. 3 in numbers: slope of ln of the gradient, nats per 100 steps, before and after training, and what was
    learned; below zero it falls with distance. Networks without memory stand below, as controls.
    """
    everything = list(runs)
    if not by_sizes(everything):
        return f"Gradients: {NOT_YET}."
    rows = [[NAMES["rel_lstm"], *sizes, *_slopes_and_learning(some)] for sizes, some in by_sizes(everything).items()]
    for name in ("lstm", "orth_rnn"):
        if some := [run for run in everything if run.architecture == name and "gradient_norms" in run.inside("after")]:
            rows.append([NAMES[name], None, None, *_slopes_and_learning(some)])
    return markdown_table(["network", "buffer", "set", "untrained", "trained", "accuracy, %", "updates, 1000"], rows)


def _slopes_and_learning(runs: Sequence[RecallRun]) -> list[str | None]:
    steep = [[slope(run, when) for run in runs] for when in ("before", "after")]
    learning = [[100 * run.accuracy for run in runs], [run.updates / 1000 for run in runs]]
    return [span(values, ".2f") for values in steep] + [span(values, ".0f") for values in learning]


def _by_set(runs: Sequence[RecallRun]) -> str:
    """Slopes by the size of the set, at the buffer that is held in Fig. 3, before and after training."""
    told = []
    for when, word in (("before", "untrained"), ("after", "trained")):
        found = {relevant: some for (held, relevant), some in by_sizes(runs, when).items() if held == FIGURE3[0]}
        spans = [f"{span([slope(run, when) for run in found[size]], '.1f')} (set of {size})" for size in sorted(found)]
        told.append(f"{word} {', '.join(spans)}")
    return "; ".join(told)
