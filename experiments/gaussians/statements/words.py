"""What the records of networks with every clock say, in words: budgets, plateaus, and what clock and state change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from experiments.gaussians.runs import Lengths, Model, Runs
from experiments.gaussians.statements import clock, collapse
from experiments.gaussians.statements.length import plateau, relative, usual_runs
from lib.information.intervals import seed_mean
from lib.training.settings import FitSettings


def budget_text(runs: Runs, copies: int = clock.COPIES) -> str:
    """Along which lines of the figure epochs or rate change, and how many networks have reached a plateau, in words."""
    every, longest = [run for run in runs if run.parameters["copies"] == copies], max(clock.LENGTHS)
    models = usual_runs(every)
    mixed = [f"{model}" for model, by_length in models.items() if len(set(budgets(by_length).values())) > 1]
    told = "Along each line epochs and rate are the same at all lengths that are recorded."
    if mixed:
        told = f"Along these lines epochs or rate are not the same at all lengths: {'; '.join(mixed)}."
    ended = []
    for name, words in clock.CLOCKS.items():
        there = [model for model, found in clock.with_clock(every, name, copies).items() if found.get(longest)]
        reached = sum(plateau(every, [model], [longest]).reached for model in there)
        ended.append(f"{reached} of {len(there)} networks with {words}")
    return f"{told} At L = {longest} a plateau was reached by {', '.join(ended)}."


def learned_with_epochs(runs: Runs, model: Model, length: int, copies: int = clock.COPIES) -> str:
    """The share that one network has not learned, by epochs, seeds from the smallest to the largest; "" without runs.

    At the rate that it is shown with; one seed alone is said to be one.
    """
    own = [run for run in runs if (run.model, run.length, run.parameters["copies"]) == (model, length, copies)]
    if not own:
        return ""
    fits = [(FitSettings(**run.parameters["fit"]), relative(run)) for run in own]
    rate = FitSettings(**usual_runs(own)[model][length][0].parameters["fit"]).learning_rate
    told = []
    for epochs in sorted({fit.epochs for fit, _ in fits if fit.learning_rate == rate}):
        shares = [share for fit, share in fits if (fit.epochs, fit.learning_rate) == (epochs, rate)]
        ends = f"{min(shares):.3f} to {max(shares):.3f}" if len(shares) > 1 else f"{shares[0]:.3f} (one seed)"
        told.append(f"{ends} after {epochs} epochs")
    return f"{model} has, at L = {length} and rate {rate:g}, not learned {', '.join(told)}."


def copies_ignored(runs: Runs) -> str:
    """What the curve of COPIES explains of TWICE as many, and what the same states at COPIES do, in words; "" without.

    The second knows nothing of copies: each cell is foretold by the one of the same state and length.
    """
    cells, more = (clock.mamba_cells(runs, "learned", copies) for copies in (clock.COPIES, clock.TWICE))
    if not collapse.decidable(cells) or not len(more):
        return ""
    curve = collapse.foretold(cells, more, collapse.COLLAPSE)
    known = cells.kl[[cells.keys.index(key) for key in more.keys]]
    alike = 1.0 - np.sum((more.kl - known) ** 2, axis=0) / np.sum((more.kl - cells.kl.mean(axis=0)) ** 2, axis=0)
    gain = seed_mean(curve - alike)
    told = {1: "lies above zero", 0: "cannot be told from zero", -1: "lies below zero"}[gain.sign]
    return (
        f"Of the cells of {clock.TWICE} copies the curve of {clock.COPIES} explains {seed_mean(curve):.2f}, and the KL "
        f"of the same states at {clock.COPIES} copies, as if copies did not matter, {seed_mean(alike):.2f}. The "
        f"difference, {gain:.2f}, {told}."
    )


def clock_or_state(runs: Runs) -> str:
    """What the clock and what the state changes in the rise of KL with the length, in words."""

    def rise(size: str, name: str, state: int = clock.STATES[-1]) -> float:
        return clock.rise_of(clock.with_clock(runs, name), clock.network(size, name, state)).value

    by_state = [rise(clock.MAMBA, "learned", state) for state in clock.STATES]
    sizes = (clock.GPT2, clock.MAMBA, clock.MAMBA2)
    moved = [rise(size, "none") - rise(size, "learned") for size in sizes]
    if np.isnan([*by_state, *moved]).any():
        return "What clock and state change is said here when all these networks are recorded at all lengths."
    every = [run for run in runs if run.parameters["copies"] == clock.COPIES]
    compared = [clock.network(clock.MAMBA, "learned", state) for state in clock.STATES]
    reached = plateau(every, compared, clock.LENGTHS).reached
    ordered = "" if by_state == sorted(by_state)[::-1] else "not "
    return (
        f"From L = {min(clock.LENGTHS)} to {max(clock.LENGTHS)} the share that is not learned rises, given learned "
        f"positions, for Mamba by {by_state[-1]:.2f} with {clock.STATES[-1]} numbers per channel and by "
        f"{by_state[0]:.2f} with {clock.STATES[0]}; without a clock, for GPT2 by {rise(clock.GPT2, 'none'):.2f}. "
        f"The clock {'moves' if min(moved) > clock.MORE else 'does not move'} the line of every architecture. "
        f"With learned positions the rises of Mamba are {ordered}ordered by the state"
        + ("." if reached else ", but not all of these networks have reached a plateau, nor have all the same budget.")
    )


def budgets(by_length: Lengths) -> dict[int, tuple[int, float]]:
    """Epochs and rate by length."""
    fits = {length: FitSettings(**runs[0].parameters["fit"]) for length, runs in sorted(by_length.items())}
    return {length: (fit.epochs, fit.learning_rate) for length, fit in fits.items()}


def budgets_in_words(by_length: Mapping[int, tuple[int, float]]) -> str:
    """As in "40, 0.01", or by length where they differ."""
    if len(set(by_length.values())) == 1:
        return "{}, {:g}".format(*next(iter(by_length.values())))
    return "; ".join(f"{length}: {epochs}, {rate:g}" for length, (epochs, rate) in by_length.items())
