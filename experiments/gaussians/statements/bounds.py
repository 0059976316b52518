"""What no further training can change: a KL lies between zero, which nothing is below, and what was reached.

A network that has not reached a plateau shows what its training did. But the weights of its best epoch are kept, and
another training counts only where it is better. So where a statement has the same answer for every KL from zero to
what was reached, it needs no plateau.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.gaussians.runs import GaussianRun, Model, by_seed
from experiments.gaussians.statements.collapse import COLLAPSE, Cells, foretold
from experiments.gaussians.statements.length import Floats, judge_means, plateau, relative, usual_runs
from lib.information.intervals import Interval, seed_mean
from lib.report.claims import joined
from lib.report.gate import Plateau
from lib.report.verdicts import FEWEST_SEEDS, decide, judge

STEPS = 11  # from the floor to what was reached
SURE = "needs no plateau: it is so for every KL from 0 to what was reached, where a network has none"


@dataclass(frozen=True)
class Range:
    """A number of every seed as it was measured, and the least and the most that further training can make of it.

    measured: (seeds,), NaN where a run is missing. low, high: (2, seeds), by what was reached: a row for the trainings
    that all seeds have, and one for the best of each seed. Both rows are bounds. The first has like with like, the
    second is lower where a seed was trained longer, and scatters more where others were not. A difference is as small
    as the smaller number can become less the most that the other can stay, and as large as the reverse.
    """

    measured: Floats
    low: Floats
    high: Floats

    def __sub__(self, other: Range) -> Range:
        return Range(self.measured - other.measured, self.low - other.high, self.high - other.low)

    @property
    def outer(self) -> Interval:
        """The mean as it was measured, with the outer ends of Student's 95 % intervals of means of `low` and of `high`.

        Of the two rows the narrower end counts.
        """
        mean = seed_mean(self.measured)
        least, most = max(seed_mean(row).low for row in self.low), min(seed_mean(row).high for row in self.high)
        return Interval(mean.value, least, most, by_seed=mean.by_seed, form=mean.form)


def share_left(
    runs: Iterable[GaussianRun], model: Model, length: int, seeds: int, effect: float | None = None
) -> Range:
    """KL over that of N(0, 1) of a model at a length, and what further training of every seed can make of it.

    Where the model passes the gate by itself, with `effect` as in `plateau`, that is what was measured. Else it lies
    between zero and what was reached by the usual trainings, or by all trainings of that seed, at whatever budget and
    rate.
    """
    here = [run for run in runs if run.measured and (run.model, run.length) == (model, length)]
    measured = by_seed(usual_runs(here).get(model, {}), relative, [length], seeds)[0]
    reached = np.array([measured, measured])
    if plateau(here, [model], [length], effect=effect).reached:
        return Range(measured, reached, reached)
    for run in here:
        if run.seed < seeds:
            reached[1, run.seed] = min(reached[1, run.seed], relative(run))  # NaN stays
    return Range(measured, 0.0 * reached, reached)


def served(cells: Cells, others: Cells, free: Sequence[bool], floor: float) -> Range:
    """What the curve of `cells` explains of others, and the least and the most of it if those that are free were lower.

    A cell that is free has a ln KL between `floor` and what was reached; others have what was reached.
    """
    measured = foretold(cells, others, COLLAPSE)
    found = [measured]
    for left in itertools.product(*(np.linspace(0, 1, STEPS) if one else (1.0,) for one in free)):
        lower = floor + np.reshape(left, (-1, 1)) * (others.kl - floor)
        found.append(foretold(cells, replace(others, kl=lower), COLLAPSE))
    low, high = np.min(found, axis=0), np.max(found, axis=0)
    return Range(measured, np.array([low, low]), np.array([high, high]))


def judge_ranges(claim: str, cases: Mapping[Any, Range], *, plateau: Plateau, note: str = "", **asked: Any) -> str:
    """`judge` the means over seeds, as `judge_means` does; without a plateau, what lies from `low` to `high`.

    Where that has one answer it counts, and the record says that no plateau is needed; else the gate has the word.
    """
    outer = {name: case.outer for name, case in cases.items()}
    if not plateau.reached and outer:
        rows = [case.ends if case.known and len(case.by_seed) >= FEWEST_SEEDS else () for case in outer.values()]
        sure = decide(rows, asked.get("at_least"), asked.get("at_most"), fewest=2, intervals=True)
        if sure.found != "undecided":
            told = joined(note, SURE)
            return judge(claim, outer, plateau=Plateau(True, "", SURE), note=told, **asked)
    measured = {name: case.measured for name, case in cases.items()}
    return judge_means(claim, measured, plateau=plateau, note=note, **asked)
