"""Memory or clock? Networks of which each was trained with every clock, and the rules by which they are judged.

A clock is what tells a network its position: nothing, sinusoids, or a learned vector for each position.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from experiments.gaussians.baselines import baselines, numbers_needed
from experiments.gaussians.runs import EARLY, GaussianRun, Model, Models, by_seed, model_of
from experiments.gaussians.statements.bounds import Range, judge_ranges, served, share_left
from experiments.gaussians.statements.collapse import (
    COLLAPSE,
    LENGTH,
    STATE,
    Cells,
    advantage_over,
    cells_of,
    per_seed,
)
from experiments.gaussians.statements.length import (
    DEGRADES,
    Floats,
    equal_early_losses,
    judge_means,
    plateau,
    relative,
    usual_runs,
)
from lib.information.intervals import Interval, seed_mean
from lib.report.claims import undecided
from lib.report.gate import Plateau, all_ways
from lib.report.verdicts import UNMET
from lib.runs.definition import Experiment

EXPERIMENT = "l2m-clock"
CLOCKS = {"none": "no clock", "sinusoidal": "sinusoids", "learned": "learned positions"}
LENGTHS, COPIES, SEEDS = (16, 64, 256), 8, 3
STATES = (1, 4, 16)  # numbers per channel
CHANNELS = 128  # of the two layers of Mamba and Mamba2 2x32 together
LEARNED = 0.5  # of the KL of N(0, 1), which a network that has learned is below
MORE = 0.05  # of the KL of N(0, 1): what counts as more or less
FLOOR = 0.1 * DEGRADES  # of it, what the gate lets a training change: what lies higher is off the floor
WINDOW = 128  # tokens of the exact predictor that GPT2 is held to
EXPLAINED = 0.75  # of ln KL, by a curve that deserves the name of a collapse
TWICE = 16  # copies, on which the curve of COPIES is tried
GPT2, MAMBA, MAMBA2 = "gpt2-2x32", "mamba-2x32", "mamba2-2x32"
SMALLER = [(8, length, state) for length in LENGTHS for state in STATES[:-1]] + [(16, 256, 1), (16, 256, 4)]
"""Copies, length and state of the cells that are held to the largest state."""
WIDTHS = (GPT2, "gpt2-2x64")  # those of GPT2 that are judged
LARGER = {"Mamba": "mamba-2x64", "Mamba2": "mamba2-2x64"}


def network(size: str, clock: str, state: int = STATES[-1]) -> Model:
    """The network of this size with a clock, a key of CLOCKS, and so many numbers per channel; GPT2 has no channels."""
    changes = {"positions": clock} | ({} if size.startswith("gpt2") else {"size": state})
    return model_of({"size": size, "model": changes, "precision": "float32"})


def clock_of(run: GaussianRun) -> str:
    return str(run.parameters["model"]["positions"])


def with_clock(runs: Iterable[GaussianRun], clock: str, copies: int = COPIES) -> Models:
    """The seeds at the usual budget of every network that has this clock, by network and length."""
    return usual_runs(run for run in runs if clock_of(run) == clock and run.parameters["copies"] == copies)


def missing(runs: Sequence[GaussianRun], profile: str) -> str:
    """Networks and lengths of the profile of which no run is recorded, in words; "" if there are none."""
    there = {(run.model, run.length, run.parameters["copies"]) for run in runs}
    if not there:
        return "every network"
    lacking: dict[str, set[int]] = {}
    for planned in Experiment(EXPERIMENT).runs(profile):
        asked = planned.parameters
        model, length, copies = model_of(asked), 4 ** asked["layers"], asked["copies"]
        if (model, length, copies) not in there:
            name = f"{model}" + ("" if copies == COPIES else f", {copies} copies")
            lacking.setdefault(name, set()).add(length)
    return "; ".join(f"{name} at {', '.join(map(str, sorted(found)))}" for name, found in lacking.items())


def rises(models: Models, wanted: Iterable[Model], lengths: Sequence[int] = LENGTHS) -> dict[Model, Floats]:
    """KL over that of N(0, 1) at the largest length, minus that at the smallest, for every seed; NaN where one lacks.

    Unlike the slope of ln KL it does not punish the network that has learned the shortest sequences best.
    """
    ends = [min(lengths), max(lengths)]
    return {model: np.diff(by_seed(models.get(model, {}), relative, ends, SEEDS), axis=0)[0] for model in wanted}


def exact_rise(window: int, lengths: Sequence[int] = LENGTHS) -> float:
    """The rise of an exact predictor that sees the last `window` tokens."""
    shares = []
    for length in (min(lengths), max(lengths)):
        line = baselines(round(math.log(length, 4)), windows=(window,))
        shares.append(line.windows[window].mean() / line.independent.mean() if window in line.windows else 0.0)
    return float(shares[1] - shares[0])


def rise_along(run: GaussianRun) -> float:
    """KL over that of N(0, 1) on the second half of the positions, minus that on the first 16."""
    alone = baselines(round(math.log(run.length, 4)), windows=()).independent
    return run.late / float(alone[run.length // 2 :].mean()) - run.early / float(alone[:EARLY].mean())


def judge_lengths(runs: Sequence[GaussianRun], profile: str) -> None:
    """Rules 1 to 4: what KL does with the length, each architecture as published and then all with the same clock."""
    every = _eight(runs)
    published = [network(size, "learned") for size in WIDTHS]
    small = {"Mamba": network(MAMBA, "none"), "Mamba2": network(MAMBA2, "none")}

    @cache
    def share(model: Model, length: int, effect: float | None = None) -> Range:
        return share_left(every, model, length, SEEDS, effect)

    def rise(model: Model, effect: float | None = None) -> Range:
        return share(model, max(LENGTHS), effect) - share(model, min(LENGTHS), effect)

    def rising(models: Iterable[Model]) -> dict[Any, Range]:
        return {model: rise(model) for model in models}

    def judged(cases: Mapping[Any, Range], compared: Sequence[Model], part: str, why: str,
               lengths: Sequence[int] = (min(LENGTHS), max(LENGTHS)), effect: float | None = None,
               **asked: Any) -> None:  # fmt: skip
        gate = plateau(every, compared, lengths, effect=effect)
        judge_ranges("l2m-fig4", cases, part=part, explanation=why, profile=profile,
                     condition="to plateau", plateau=gate, **asked)  # fmt: skip

    def apart(one: Model, other: Model, part: str, why: str, **asked: Any) -> None:
        effect = max(abs(seed_mean((rise(one) - rise(other)).measured).value), MORE)
        effect = effect if math.isfinite(effect) else MORE
        cases = {f"{one} minus {other}": rise(one, effect) - rise(other, effect)}
        judged(cases, [one, other], part, why, effect=effect, at_least=MORE, note=note, **asked)

    note = "share of the KL of N(0, 1) at L = 256 minus that at 16"
    flat: dict[str, Any] = {"at_least": -DEGRADES, "at_most": DEGRADES, "note": note}
    judged(rising(published), published, "GPT2: flat in L", "it rises with the length", **flat)
    judged(rising(published), published, f"GPT2: flatter than an exact window of {WINDOW} tokens",
           "that window rises less", at_most=exact_rise(WINDOW), note=note, remark=True)  # fmt: skip
    shares = {f"{model}, L = {length}": share(model, length) for model in published for length in LENGTHS}
    judged(shares, published, "GPT2: it has learned, at every length", "it has hardly learned at some length",
           LENGTHS, at_most=LEARNED, note="KL over that of N(0, 1)")  # fmt: skip
    judged(rising(small.values()), list(small.values()), "small Mamba and Mamba2: degrade as L grows",
           "one of them is flat", at_least=DEGRADES, note=note)  # fmt: skip
    for name, one in small.items():
        apart(one, published[0], f"small {name}: degrades more than GPT2", "it degrades as much or less")
    apart(
        network(MAMBA, "none", STATES[0]), network(MAMBA, "none"), "Mamba: a larger state degrades less", "it does not"
    )
    for name, one in small.items():
        larger, part = network(LARGER[name], "none"), f"{name}: a larger network degrades less"
        gained = seed_mean((rise(one) - rise(larger)).measured)
        if gained.known and gained.high < MORE:
            sentence = f'{gained:.2f}, asked for: at least {MORE:g}; twice the width is not "substantially larger"'
            undecided("l2m-fig4", part=part, reason=UNMET, sentence=sentence, condition="to plateau", note=note)
            continue
        apart(one, larger, part, "it does not")

    blind = [network(size, "none") for size in WIDTHS]
    judged(rising(blind), blind, "the same clock, none: GPT2 is flat in L", "it rises with the length",
           remark=True, **flat)  # fmt: skip
    for name, size in (("Mamba", MAMBA), ("Mamba2", MAMBA2)):
        for clock, words in (("none", "none"), ("learned", "learned")):
            part = f"the same clock, {words}: {name} degrades more than GPT2"
            apart(network(size, clock), network(GPT2, clock), part, "it degrades as much or less", remark=True)
        told = network(size, "learned")
        judged(rising([told]), [told], f"the same clock, learned: {name} degrades as L grows",
               "it stays within the bound", at_least=DEGRADES, note=note, remark=True)  # fmt: skip


def judge_late(runs: Sequence[GaussianRun], profile: str) -> None:
    """Rule 5: with learned positions, is the second half of the longest sequences worse at equal early KL?

    And beside it: is GPT2 consistent across positions?
    """
    every, longest = _eight(runs), max(LENGTHS)
    told = with_clock(every, "learned")
    published = [network(size, "learned") for size in WIDTHS]
    along = {one: by_seed(told.get(one, {}), rise_along, [longest], SEEDS)[0] for one in published}
    judge_means(
        "l2m-fig4",
        along,
        at_least=-DEGRADES,
        at_most=DEGRADES,
        part="GPT2: flat in the position",
        explanation="it rises along the sequence",
        profile=profile,
        condition="to plateau",
        remark=True,
        plateau=plateau(every, published, [longest]),
        note=f"share of the KL of N(0, 1) on the second half of L = {longest} minus that on 16 positions",
    )
    excess = equal_early_losses(told, "gpt2", longest, SEEDS, lambda run: run.early)
    for name, size in (("Mamba", MAMBA), ("Mamba2", MAMBA2)):
        one = network(size, "learned")
        found = excess.get(one)
        near = found is not None and found.comparable
        compared = [one, *(network(other, "learned") for other in WIDTHS)]
        judge_means("l2m-fig4", {"excess": found.values} if found is not None and near else {}, at_least=0,
                    part=f"the same clock, learned: late KL of {name} above GPT2's at equal early KL",
                    explanation="it is below", profile=profile, condition="to plateau", remark=True,
                    plateau=plateau(every, compared, [longest]),
                    note="" if near else "early KL more than a factor 2 apart")  # fmt: skip


def room(copies: int, length: int, state: int) -> float:
    """Scanned numbers of the state, for each that a linear state needs for 99 % of the information of all copies."""
    return CHANNELS * state / (copies * numbers_needed(round(math.log(length, 4))))


def above_floor(
    runs: Iterable[GaussianRun], size: str, length: int, state: int, copies: int = COPIES
) -> tuple[Range, Plateau]:
    """KL over that of N(0, 1) of a state minus that of the largest, with learned positions; and the gate for both."""
    of = _eight(runs, copies)
    pair = [network(size, "learned", number) for number in (state, STATES[-1])]
    one, other = (share_left(of, model, length, SEEDS) for model in pair)
    return one - other, plateau(of, pair, [length])


def judge_states(runs: Sequence[GaussianRun], profile: str) -> None:
    """Rules 6 and 7: with learned positions, does the size of the state order KL, and where does KL leave the floor?"""

    def judged(cases: Mapping[str, Range], gate: Plateau, part: str, why: str, note: str, **asked: Any) -> None:
        judge_ranges("l2m-fig4", cases, part=part, explanation=why, profile=profile, condition="to plateau",
                     remark=True, note=f"share of the KL of N(0, 1), {note}", plateau=gate, **asked)  # fmt: skip

    for name, size in (("Mamba", MAMBA), ("Mamba2", MAMBA2)):
        ends = [network(size, "learned", number) for number in (STATES[0], STATES[-1])]
        cases = {f"L = {length}": above_floor(runs, size, length, STATES[0])[0] for length in LENGTHS[1:]}
        part, gate = (
            f"learned positions, {name}: a larger state, a smaller KL",
            plateau(_eight(runs), ends, LENGTHS[1:]),
        )
        judged(cases, gate, part, "at some length the smaller state does as well", "state 1 minus state 16",
               at_least=MORE)  # fmt: skip
    for part, enough, asked in (
        ("learned positions, Mamba: too small a state leaves the floor", False, {"at_least": FLOOR}),
        ("learned positions, Mamba: a state with room stays on the floor", True, {"at_most": FLOOR}),
    ):
        found = {
            f"{copies} copies, L = {length}, state {state}": above_floor(runs, MAMBA, length, state, copies)
            for copies, length, state in SMALLER
            if (room(copies, length, state) >= 1) is enough
        }
        judged({cell: above for cell, (above, _) in found.items()}, all_ways(*(gate for _, gate in found.values())),
               part, "in some cell it is otherwise", "above the largest state", **asked)  # fmt: skip


def judge_collapse(runs: Sequence[GaussianRun], profile: str) -> None:
    """Rules 8 and 9: with a clock held fixed, do all state sizes and lengths lie on one rising curve in I / dim z?

    And does that curve serve twice as many copies, too?
    """
    least = floor_of_kl()
    for clock, words in (("none", "as published"), ("learned", "learned positions")):
        cells, of = mamba_cells(runs, clock), [network(MAMBA, clock, state) for state in STATES]
        gate = plateau(_eight(runs), of, LENGTHS, floor=least)
        said: dict[str, Any] = {"profile": profile, "condition": "to plateau", "remark": clock != "none"}
        judge_means("l2m-collapse", {"explained": per_seed(cells, COLLAPSE)}, at_least=EXPLAINED, plateau=gate,
                    part=f"Mamba, {words}: one rising curve for all sizes and lengths",
                    explanation="sizes or lengths lie apart",
                    note="share of ln KL explained, cells left out", **said)  # fmt: skip
        alone = {"length": LENGTH, "state": STATE}
        judge_means("l2m-collapse", {key: advantage_over(cells, COLLAPSE, name) for key, name in alone.items()},
                    at_least=0, part=f"Mamba, {words}: better than length alone and state alone", plateau=gate,
                    explanation="one of them alone does better",
                    note="ln of the ratio of scatters", **said)  # fmt: skip
        if clock == "learned":
            more, longest = mamba_cells(runs, clock, TWICE), [max(LENGTHS)]
            means = [row.mean() for some in (cells, more) for row in some.kl]
            effect = float(np.ptp(means)) if means else None
            own = {one: plateau(_eight(runs, TWICE), [one], longest, floor=least, effect=effect) for one in of}
            free = [gate.reached and not own[model].reached for model, _ in more.keys]
            explained = served(cells, more, free, math.log(least))
            said |= {
                "at_least": EXPLAINED,
                "plateau": all_ways(gate, *own.values()),
                "note": "share of ln KL explained",
            }
            said |= {"part": f"Mamba, {words}: the curve of {COPIES} copies serves {TWICE}"}
            said |= {"explanation": "they lie apart from it"}
            if any(free):
                judge_ranges("l2m-collapse", {"explained": explained}, **said)
            else:
                judge_means("l2m-collapse", {"explained": explained.measured}, **said)


def floor_of_kl() -> float:
    """What counts as the floor of a KL, nats per number: FLOOR of the KL of N(0, 1) at the longest of LENGTHS."""
    return FLOOR * float(baselines(round(math.log(max(LENGTHS), 4)), windows=()).independent.mean())


def mamba_cells(runs: Iterable[GaussianRun], clock: str, copies: int = COPIES) -> Cells:
    """The cells of Mamba with this clock, all state sizes and lengths; none as long as one of them is missing.

    With TWICE as many copies there is the longest length alone.
    """
    models = {model: found for model, found in with_clock(runs, clock, copies).items() if model.size == MAMBA}
    cells = cells_of(models, SEEDS, floor_of_kl())
    lengths = len(LENGTHS) if copies == COPIES else 1
    return cells if len(cells) == len(STATES) * lengths else cells_of({}, SEEDS)


def rise_of(models: Models, model: Model) -> Interval:
    """Mean over seeds of `rises`, with its interval."""
    return seed_mean(rises(models, [model])[model])


def _eight(runs: Iterable[GaussianRun], copies: int = COPIES) -> list[GaussianRun]:
    return [run for run in runs if run.parameters["copies"] == copies]
