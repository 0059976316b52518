"""What is asked of the inside of networks that recall, by fixed rules: Fig. 3, 10, 11 and Remark 6 of Kerg et al.

Beside Fig. 10 and 11 stand remarks, since all trainings had been recorded; before, they decided the claim. Since then,
too, trainings that fell back from what they had reached are none that stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from experiments.recall.inside.figures import with_relevance
from experiments.recall.inside.measures import chosen_at_cue, looking, slopes
from experiments.recall.runs import COMMON_RATE, SEEDS, USUAL, RecallRun, settled
from experiments.recall.statements import seed_rows
from lib.information.intervals import Interval, paired_mean
from lib.report.claims import undecided
from lib.report.page import span
from lib.report.verdicts import UNMET, judge

LOOKING = 3.0  # times as much attention on the symbols as before training
FIGURE3 = (15, 15, 3)  # buffer that is held, relevant set that is held, and the size that is too small
BEYOND_ZERO = 1e-6  # nats per 100 steps: an interval from there on does not hold zero
OF_EITHER_KIND = 0.5  # "most states": share that is relevant or not, and not between
NOT_RELEVANT = 0.5  # share that is not; before training it is none. Set after the numbers had been seen
APPROXIMATED = 0.9  # cosine of the gradient without the weights of states that are not relevant, and the exact one
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
            f"relevant {few} minus {relevant}": paired_mean(small, found[held, relevant])
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
        cases = {f"range over sets minus range over buffers, sizes {sizes}": paired_mean(by_set, by_buffer)}
    return _judge_slopes(
        everything,
        cases,
        part="figure 3, buffer",
        explanation="the size of the buffer matters as much as that of the relevant set",
    )


def leave_maps_open() -> str:
    """Fig. 7, 9, 10 and 11: nothing is decided, as our copy has no map and the captions say only of what they are.

    So the claim is undecided, whatever is found of the maps of our own networks, which are remarks beside it.
    """
    sentence = "the captions state nothing that could differ, and our copy has no map"
    undecided("kerg-heatmaps", part="what the maps show", reason=UNMET, sentence=sentence)
    return "undecided"


def judge_heat_maps(runs: Iterable[RecallRun], number: str = "on_symbols") -> str:
    """Beside Fig. 10 and 11: networks with a relevant set look three times as much at the symbols as before training.

    number: "on_symbols", or "set_at_cue" for what the set holds. Left out are networks that have more than a third of
    it untrained, as on the copy task, where the first states that leave the buffer are the symbols. A remark: the
    captions are of networks without a set and state no result, and the bound is this book's.
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
    left = _by_network(cells[name][0] for name in sorted(cells.keys() - open_ones.keys()))
    note = "beside the captions, which state no result; the bound is this book's"
    trained = [run for some in open_ones.values() for run in some]
    return judge(
        "kerg-heatmaps",
        seed_rows(open_ones.values(), lambda run: looking(run, number), min),
        part="attention on the symbols" if number == "on_symbols" else "symbols in the relevant set",
        at_least=LOOKING,
        plateau=settled(trained),
        condition="to plateau",
        explanation="trained networks do not look at the steps at which the symbols came",
        note=note + (f"; left out, since more than a third is there before training: {left}" if left else ""),
        remark=True,
    )


def _by_network(runs: Iterable[RecallRun]) -> str:
    """As in "RelRNN, copy, T = 100 and 200": each network and task once, with its delays."""
    told: dict[str, set[int]] = {}
    for run in runs:
        told.setdefault(f"{run.name}, {run.task}", set()).add(run.delay)
    return "; ".join(f"{name}, T = {' and '.join(map(str, sorted(delays)))}" for name, delays in told.items())


def judge_relevance(runs: Iterable[RecallRun], without: str = "other") -> dict[str, str]:
    """End of Remark 6: most states are relevant or not, and the gradient is about that without the latter; by part.

    Before training all states are relevant, so that both kinds together pass; hence the latter are judged alone too.
    The paper says this of trained networks, and so do we. It is no mark of what was learned: untrained networks whose
    scores are multiplied by a hundred pass on copy, for most weights of a sharp softmax are about zero.
    Of full attention alone: a screened set has no weights on most states. Trainings that went on after success are
    cases of their own, so that what is said holds of both. without: "other", or "random" for as many
    states drawn at random in their place.
    """
    cells = with_relevance(runs)
    trained = [run for some in cells.values() for run in some]

    def either(run: RecallRun, when: str = "after") -> float:
        found = run.inside(when)["relevance"]
        return float(found["relevant"] + found["other"])

    def other(run: RecallRun) -> float:
        return float(run.inside("after")["relevance"]["other"])

    def cosine(run: RecallRun) -> float:
        found = run.inside("after")["relevance"][f"without_{without}"]
        return np.nan if found is None else float(found[1])

    started = span([either(run, "before") for run in trained], ".2f")
    noted = {"states of either kind": [f"{started} before training, when all are relevant"]} if trained else {}
    asked = {
        "states of either kind": (either, OF_EITHER_KIND, "most states are neither relevant nor not"),
        "states that are not relevant": (other, NOT_RELEVANT, "few states are hardly looked at, as before training"),
        "gradient through relevant states": (cosine, APPROXIMATED, "states that are hardly looked at carry gradient"),
    }
    return {
        part: judge(
            "kerg-relevant",
            seed_rows(cells.values(), number, min),
            part=part,
            at_least=bound,
            plateau=settled(trained),
            condition="to plateau",
            explanation=explanation,
            note="; ".join([*noted.get(part, ()), *(f"{told}, T = {some[0].delay}" for told, some in cells.items())]),
        )
        for part, (number, bound, explanation) in asked.items()
    }


def judge_needed_set(copying: Iterable[RecallRun], denoising: Iterable[RecallRun]) -> str:
    """App. C: how large a set has to be depends on the task: the smallest that every seed succeeds with differs."""
    sizes = {}
    everything: list[RecallRun] = []
    for task, runs in (("copy", copying), ("denoise", denoising)):
        by_size = by_set_size(runs)
        everything += [run for some in by_size.values() for run in some]
        enough = [size for size, some in by_size.items() if len(some) >= SEEDS and all(r.succeeded for r in some)]
        if enough and len(by_size) > 1:
            sizes[task] = min(enough)
    return judge(
        "kerg-tradeoff",
        float(abs(sizes["copy"] - sizes["denoise"])) if len(sizes) == 2 else {},
        part="needed set by task",
        at_least=1.0,
        plateau=settled(everything),
        condition="to plateau",
        fewest=0,
        explanation="both tasks need sets of the same size, of those that were tried",
        note="; ".join(f"{task}: {size} are enough" for task, size in sizes.items()),
    )


def judge_small_buffer(runs: Iterable[RecallRun], when: str = "after") -> str:
    """App. C: with a smaller buffer relevance is predicted less well: at the cue the set holds fewer symbols.

    Of those that it could hold, for a large buffer still has some of them itself; so since the results were seen.
    """
    found = by_buffer_size(runs)
    usual = found.get(USUAL["buffer"], [])
    cases = {}
    for size, some in found.items():
        if size < USUAL["buffer"] and usual:
            own, other = ({run.seed: chosen_at_cue(run, when) for run in cell} for cell in (usual, some))
            cases[f"buffer {USUAL['buffer']} minus {size}"] = paired_mean(own, other)
    return judge(
        "kerg-tradeoff",
        cases,
        part="small buffers predict worse",
        at_least=BEYOND_ZERO,
        plateau=settled([run for some in found.values() for run in some]),
        condition="to plateau",
        explanation="a small buffer chooses as well",
        note="symbols in the set at the cue, 0 by chance, 1 at most, denoise",
    )


def judge_cost_of_set(sizes: Mapping[int, float]) -> str:
    """App. C: a larger buffer and set make the graph larger; bytes kept for the backward pass, by their sum."""
    ordered = [sizes[size] for size in sorted(sizes)]
    return judge(
        "kerg-tradeoff",
        min(after / before for before, after in pairwise(ordered)),
        part="larger sets cost more",
        at_least=1.0 + BEYOND_ZERO,
        fewest=0,
        profile="paper",
        explanation="the graph does not grow with the number of states",
        note=f"smallest ratio, {min(sizes)} to {max(sizes)} states",
    )


def by_set_size(runs: Iterable[RecallRun]) -> dict[int, list[RecallRun]]:
    """Those of RelRNN with the usual buffer and screening, at the shortest delay, by the size of the set."""
    return _by_option(runs, "relevant")


def by_buffer_size(runs: Iterable[RecallRun]) -> dict[int, list[RecallRun]]:
    """Those of RelRNN with the usual set and screening, at the shortest delay, by the size of the buffer."""
    return _by_option(runs, "buffer")


def _by_option(runs: Iterable[RecallRun], free: str) -> dict[int, list[RecallRun]]:
    held = {name: usual for name, usual in USUAL.items() if name != free}
    own = [run for run in runs if run.architecture == "rel_rnn" and run.parameters["labels"] == "true"]
    own = [run for run in own if all(run.parameters["options"].get(n, u) == u for n, u in held.items())]
    own = [run for run in own if run.recipe.rate == COMMON_RATE]
    shortest = min((run.delay for run in own), default=0)
    found: dict[int, list[RecallRun]] = {}
    for run in own:
        if run.delay == shortest:
            found.setdefault(int(run.parameters["options"].get(free, USUAL[free])), []).append(run)
    return dict(sorted(found.items()))


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
