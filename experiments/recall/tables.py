"""Tables and sentences of the chapter on copy and denoise, in Markdown: what is not recorded says that it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.recall.runs import (
    SEEDS,
    RecallRun,
    Runs,
    best_recipe,
    by_recipe,
    delays,
    failure,
    of_network,
)
from experiments.recall.statements import LENGTHS, TABLE5
from lib.models.catalogue import NAMES
from lib.report.page import markdown_table, span

NOT_YET = "not yet"
COPIERS = tuple(TABLE5)
DENOISERS = ("rel_rnn", "exp_rnn", "orth_rnn", "mem_rnn", "lstm", "goru")
RULES = {
    "": ("screening", 20),
    "select first": ("first come, never replaced", 20),
    "select random": ("replaced at random", 20),
    "select oracle": ("the symbols, which are given", 20),
    "buffer 20, relevant 0": ("the last states, no set", 20),
    "relevant 0": ("the last states, no set", 10),
    "labels shuffled": ("screening, targets of another sequence", 20),
}
"""What a RelRNN keeps, by variant: in words, and how many states at most."""
SIZES = {
    "relevant 1": ("10 last states, a set of 1", 11),
    "relevant 3": ("10 last states, a set of 3", 13),
    "relevant 5": ("10 last states, a set of 5", 15),
    "": ("10 last states, a set of 10", 20),
    "buffer 3": ("3 last states, a set of 10", 13),
    "buffer 1": ("the last state, a set of 10", 11),
}
"""The same of how much it keeps."""


def answer(copying: Runs, denoising: Runs) -> str:
    """What the records say: who learns which task in every seed, who does not, and what the choice of states does."""
    told = [_who("Copy", copying, COPIERS), _who("Denoise", denoising, DENOISERS), choice(copying, denoising)]
    return "\n".join(f"- {sentence}" for sentence in told)


def choice(copying: Runs, denoising: Runs, delay: int = 100) -> str:
    """First come, never replaced: does it solve copy, and does it fail to solve denoise, while screening does not?"""
    cells = {
        (rule, task): best_recipe(of_network(runs, "rel_rnn", delay, variant))
        for rule, variant in (("first come", "select first"), ("screening", ""))
        for task, runs in (("copy", copying), ("denoise", denoising))
    }
    told = f"**Choice.** At T = {delay}, with 20 states in either case, " + "; ".join(
        f"{rule} solves {task} in {seeds_told(runs)}" if runs else f"{rule} on {task}: {NOT_YET}"
        for (rule, task), runs in cells.items()
    )
    if any(len(runs) < SEEDS for runs in cells.values()):
        return f"{told}."
    copied, apart = _solved(cells["first come", "copy"]), not any(r.succeeded for r in cells["first come", "denoise"])
    ending = "copy is not solved by what comes first alone"
    ending = "copy does not tell screening from first come" if copied else ending
    if not (apart and _solved(cells["screening", "denoise"])):
        return f"{told}. So {ending}, and denoise does not show a difference in every seed."
    if failure(denoising, "rel_rnn", delay, "select first").reached:
        return f"{told}. So {ending}, and denoise does."
    within, without = (cells[rule, "denoise"] for rule in ("screening", "first come"))
    slowest, fewest = max(run.updates for run in within), min(run.updates for run in without)
    ending = f"{ending}; on denoise screening learns in at most {slowest} updates"
    return f"{told}. So {ending} what first come has not learned in {fewest}."


def table_of_accuracies(runs: Iterable[RecallRun]) -> str:
    """Table 5: ours, by the recipe that does best, beside what is printed; per cent of right symbols, mean of seeds."""
    everything = list(runs)
    rows = []
    for architecture, printed in TABLE5.items():
        cells = [best_recipe(of_network(everything, architecture, delay)) for delay in LENGTHS]
        numbers = ["OOM" if number is None else number for number in printed]
        rows.append([NAMES[architecture], *map("{} / {}".format, map(accuracy_told, cells), numbers)])
    return markdown_table(["ours / printed", *(f"T = {delay}" for delay in LENGTHS)], rows)


def table_of_updates(runs: Iterable[RecallRun], architectures: Iterable[str], lengths: Iterable[int] = LENGTHS) -> str:
    """Updates to success, smallest to largest over seeds, by network and delay."""
    everything, shown = list(runs), list(lengths)
    rows = [
        [NAMES[one], *(updates_told(best_recipe(of_network(everything, one, delay))) for delay in shown)]
        for one in architectures
    ]
    return markdown_table(["updates to success", *(f"T = {delay}" for delay in shown)], rows)


def table_of_tasks(runs: Mapping[str, Runs], architectures: Iterable[str], delay: int) -> str:
    """Updates to success at one delay, by network and task."""
    rows = [
        [NAMES[one], *(updates_told(best_recipe(of_network(some, one, delay))) for some in runs.values())]
        for one in architectures
    ]
    return markdown_table([f"updates to success, T = {delay}", *runs], rows)


def table_of_trainings(runs: Iterable[RecallRun], architectures: Iterable[str]) -> str:
    """Every recipe of every network: who succeeded, in how many updates, and whether the rest still improved."""
    everything = list(runs)
    rows = []
    for architecture in architectures:
        own = of_network(everything, architecture)
        rows += [_training(some) for delay in delays(own) for some in by_recipe(_at(own, delay)).values()]
        if not own:
            rows.append([NAMES[architecture], *[NOT_YET] * 5])
    return markdown_table(["network", "T", "recipe", "updates", "accuracy, %", "ended"], rows)


def table_of_choices(
    copying: Runs, denoising: Runs, delay: int = 100, rules: Mapping[str, tuple[str, int]] = RULES
) -> str:
    """RelRNN by what it keeps, on both tasks: accuracy, and seeds that succeed."""
    rows = []
    for variant, (name, states) in rules.items():
        cells = [best_recipe(of_network(runs, "rel_rnn", delay, variant)) for runs in (copying, denoising)]
        told = [f"{accuracy_told(cell)}; {seeds_told(cell)}" if cell else NOT_YET for cell in cells]
        if variant == "select oracle" and not cells[1]:
            told[1] = "–"  # where the symbols are is not known beforehand
        rows.append([name, states, *told])
    return markdown_table(["what is kept", "states", "copy: accuracy, %", "denoise: accuracy, %"], rows)


def table_of_transfer(runs: Iterable[RecallRun]) -> str:
    """Networks that succeeded at one delay, tested at longer ones: per cent of right symbols, smallest to largest."""
    cells: dict[tuple[str, int], list[RecallRun]] = {}
    for run in runs:
        if run.succeeded and run.result.get("transfer") and not run.variant:
            cells.setdefault((run.architecture, run.delay), []).append(run)
    if not cells:
        return f"Longer delays: {NOT_YET}."
    multiples = sorted(
        {int(key) // run.delay for some in cells.values() for run in some for key in run.result["transfer"]}
    )

    def at(some: Sequence[RecallRun], multiple: int) -> str | None:
        tested = [run.result["transfer"].get(str(multiple * run.delay)) for run in best_recipe(some)]
        right = [100 * one["accuracy"] for one in tested if one and one["accuracy"] is not None]
        return span(right, ".0f")

    rows = [[NAMES[name], delay, *(at(some, by) for by in multiples)] for (name, delay), some in sorted(cells.items())]
    return markdown_table(["network", "learnt at T =", *(f"at {by} T, accuracy, %" for by in multiples)], rows)


def table_of_live(runs: Iterable[RecallRun]) -> str:
    """Networks that were trained on the page itself: that they ran."""
    rows = [
        [run.task, run.name, run.updates, f"{100 * run.accuracy:.0f}", f"{100 * run.result['baseline_accuracy']:.0f}"]
        for run in runs
    ]
    return markdown_table(["task", "network", "updates", "accuracy, %", "chance, %"], rows)


def accuracy_told(runs: Runs) -> str:
    """ "99.5", mean in per cent over the seeds that were not lost to large gradients, which are counted, as in
    "67.6 (2 of 3 seeds lost)"; with the number of seeds where there are fewer than three.
    """
    if not runs:
        return NOT_YET
    lost = sum(run.lost_after is not None for run in runs)
    known = [run.accuracy for run in runs if run.lost_after is None and not np.isnan(run.accuracy)]
    told = [f"{len(runs)} of {SEEDS} seeds"] if len(runs) < SEEDS else []
    told += [f"{lost} of {len(runs)} seed{'s' * (len(runs) != 1)} lost"] if lost else []
    return (f"{100 * np.mean(known):.1f}" if known else "diverged") + (f" ({'; '.join(told)})" if told else "")


def seeds_told(runs: Runs) -> str:
    """ "2 of 3 seeds": how many of those recorded succeed."""
    return f"{sum(run.succeeded for run in runs)} of {len(runs)} seed{'s' * (len(runs) != 1)}"


def updates_told(runs: Runs) -> str:
    """ "1500 to 1750"; with the number of seeds where not all of three succeed; "not in 4500" where none does."""
    if not runs:
        return NOT_YET
    made = [run.updates for run in runs if run.succeeded]
    if not made:
        return f"not in {max(run.updates for run in runs)} ({seeds_told(runs)})"
    told = f"{span(made, 'd')}"
    return told if _solved(runs) else f"{told} ({seeds_told(runs)})"


def _who(task: str, runs: Runs, architectures: Iterable[str]) -> str:
    """Networks that solve a task in every seed, those that do in some or in none, and those that are not recorded."""
    solved, others, failed, missing = [], [], [], []
    for architecture in architectures:
        own = of_network(runs, architecture)
        cells = {delay: best_recipe(_at(own, delay)) for delay in delays(own)}
        learnt = ", ".join(str(delay) for delay, some in cells.items() if _solved(some))
        partly: dict[bool, list[str]] = {True: [], False: []}
        for delay, some in cells.items():
            if not _solved(some):
                partly[any(run.succeeded for run in some)].append(f"T = {delay}: {seeds_told(some)}")
        rest, none = (", ".join(partly[there]) for there in (True, False))
        solved += [f"{NAMES[architecture]} (T = {learnt})"] if learnt else []
        others += [f"{NAMES[architecture]} ({rest})"] if rest else []
        failed += [f"{NAMES[architecture]} ({none})"] if none else []
        missing += [] if cells else [NAMES[architecture]]
    heads = ("solved in every seed by", "in some seeds by", "in none by", f"{NOT_YET} recorded:")
    groups = {head: ", ".join(some) for head, some in zip(heads, (solved, others, failed, missing), strict=True)}
    return f"**{task}:** {'; '.join(f'{head} {some}' for head, some in groups.items() if some)}."


def _training(runs: Runs) -> list[str | int]:
    one = runs[0]
    still = sum(run.still for run in runs if not run.succeeded)
    rest = len(runs) - sum(run.succeeded for run in runs)
    ended = f"{seeds_told(runs)} succeed" + (f"; {still} of the others stand still" if rest else "")
    printed = ", as printed" if one.as_printed else ""
    return [
        one.name,
        one.delay,
        str(one.recipe) + printed,
        span([run.updates for run in runs], "d") or "",
        accuracy_told(runs),
        ended,
    ]


def explosions(runs: Iterable[RecallRun]) -> str:
    """Trainings that were lost to large gradients, one by one; a sentence where there are none."""
    told = []
    for run in runs:
        if (updates := run.lost_after) is None:
            continue
        ending = f"then loss {max(run.result['validation_losses'], default=np.nan):.0e} nats per step"
        if run.diverged:
            ending = str(run.result["reason"])
        which = f"{run.name}, {run.task}, T = {run.delay}, {run.recipe}, seed {run.seed}"
        told.append(f"- {which}: {updates} updates; {ending}")
    return "\n".join(told) if told else "No recorded training was lost so."


def _at(runs: Runs, delay: int) -> Runs:
    return [run for run in runs if run.delay == delay]


def _solved(runs: Runs) -> bool:
    return len(runs) >= SEEDS and all(run.succeeded for run in runs)
