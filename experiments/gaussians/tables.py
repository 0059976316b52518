"""Tables of Gaussian language models, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.gaussians.baselines import (
    Baselines,
    linear_loss,
    linear_state_information,
    numbers_needed,
)
from experiments.gaussians.runs import (
    PUBLISHED_BATCH,
    PUBLISHED_STEPS,
    GaussianRun,
    Lengths,
    Model,
    Models,
    Plan,
    Runs,
    by_seed,
    published_tokens,
)
from experiments.gaussians.sizes import SIZES
from experiments.gaussians.statements import clock, collapse
from experiments.gaussians.statements.length import Floats, length_slopes, plateau, relative, usual_runs
from experiments.gaussians.statements.words import budgets, budgets_in_words
from lib.information.intervals import Interval, seed_mean
from lib.report.page import Column, listed, markdown_table, mean_and_span, table
from lib.training.settings import FitSettings

PER_MILLE = 1e3
MODEL: Column = ("model", lambda row: row[0])  # of a row of Models
MODEL_OF: Column = ("model", lambda runs: runs[0].model)
Row = tuple[Model, Lengths]
Cells = Mapping[str, Callable[[Runs], Any]]


def setting_table(runs: Sequence[GaussianRun], plan: Plan) -> str:
    """How the models were trained, beside the paper (App. E). Raises ValueError without runs."""
    if not runs:
        raise ValueError("runs: at least one is needed, got none")
    first = runs[0]
    fit, steps = FitSettings(**first.parameters["fit"]), max(run.steps for run in runs)
    rows = [
        ["numbers in a token", f"{first.parameters['copies']}", "64"],
        ["steps", f"{steps:,}", f"{PUBLISHED_STEPS:,}"],
        ["learning rate", f"{fit.learning_rate:g}", "0.00005"],
        ["steps of warm-up, then a cosine", f"{fit.warm_up:,}", "2,000"],
        ["weight decay of AdamW", f"{fit.weight_decay:g}", "0.01"],
        ["gradients clipped at", f"{fit.clip:g}" if fit.clip else "none", "not stated"],
        ["seeds", f"{plan.seeds}", "not stated"],
    ]
    for length in plan.lengths:
        here = [run for run in runs if run.length == length]
        if here:
            batch, tokens = FitSettings(**here[0].parameters["fit"]).batch, max(run.tokens for run in here)
            theirs = published_tokens(length)
            rows += [
                [f"sequences per step, $L$ = {length}", f"{batch}", f"{PUBLISHED_BATCH}"],
                [f"tokens in all, $L$ = {length}", f"{tokens:,}", f"{theirs:,}, {theirs / tokens:,.0f} times as many"],
            ]
    return markdown_table(["", "here", "paper"], rows)


def model_table(models: Models, lengths: Sequence[int]) -> str:
    """What every model is made of, and the numbers in the state that meets the last token of the first half."""
    columns: list[Column] = [
        MODEL,
        ("layers", lambda row: SIZES[row[0].size].depth),
        ("width", lambda row: SIZES[row[0].size].width),
        ("parameters", lambda row: f"{_longest(row, lengths).result['parameter_count']:,}"),
        *_at_lengths(lengths, {r"$\dim z$, $L$ = {}": lambda runs: f"{runs[0].state():,}"}),
        ("without convolutions", lambda row: f"{_longest(row, lengths).state(scanned=True):,}"),
    ]
    return table(columns, models.items())


def training_table(models: Models, lengths: Sequence[int]) -> str:
    """How much the validation loss still fell, mean over seeds, and how fast the training was."""

    def runs_of(row: Row) -> list[GaussianRun]:
        return [run for length in lengths for run in row[1].get(length, ())]

    columns: list[Column] = [
        MODEL,
        ("runs", lambda row: len(runs_of(row))),
        *_at_lengths(lengths, {"second half, $L$ = {}": lambda runs: _percent(runs, 0.5)}),
        *_at_lengths(lengths, {"last fifth, $L$ = {}": lambda runs: _percent(runs, 0.2)}),
        ("tokens/s", lambda row: _known(runs_of(row), "tokens_per_second", lambda found: f"{np.median(found):,.0f}")),
        (
            "of it for data, at most",
            lambda row: _known(runs_of(row), "data_share", lambda found: f"{100 * max(found):.0f} %"),
        ),
    ]
    return table(columns, models.items())


def _known(runs: Runs, name: str, told: Callable[[list[float]], str]) -> str | None:
    """What is told of a number of the runs that have it; one stopped behind its last epoch has 0, which is none."""
    found = [value for run in runs if (value := run.result[name])]
    return told(found) if found else None


def line_table(lines: Sequence[Baselines]) -> str:
    """Average KL of exact predictors of known memory, 10^-3 nats per number; "0" for a window that holds everything."""
    names = list(lines[-1].curves())
    rows = [
        [line.length, *(f"{PER_MILLE * curves[name].mean():.1f}" if name in curves else "0" for name in names)]
        for line, curves in ((line, line.curves()) for line in lines)
    ]
    return markdown_table(["$L$", *(f"knows {name}" for name in names)], rows)


def slope_table(slopes: Mapping[Model, Floats], lines: Sequence[Baselines]) -> str:
    """Slopes of ln KL over ln L with intervals over seeds, and those of exact lines that all lengths have."""
    rows = [[model, seed_mean(each), listed(each[~np.isnan(each)], ".2f")] for model, each in slopes.items()]
    names = [name for name in lines[0].curves() if all(name in line.curves() for line in lines)]
    for name in names:
        values = [[line.curves()[name].mean()] for line in lines]
        rows.append([f"*exact, knows {name}*", f"{length_slopes(values, [line.length for line in lines])[0]:.2f}", ""])
    return markdown_table(["model", "slope, mean over seeds [95 % interval]", "each seed"], rows)


def clock_table(runs: Runs, copies: int = clock.COPIES) -> str:
    """KL over that of N(0, 1) of every network with its clock, how it grows, and whether it had reached a plateau."""
    every = [run for run in runs if run.parameters["copies"] == copies]
    if not every:
        return "These runs are not recorded yet."
    models = usual_runs(every)

    def slope(row: Row) -> Interval:
        return seed_mean(
            length_slopes(by_seed(row[1], lambda run: run.average, clock.LENGTHS, clock.SEEDS), clock.LENGTHS)
        )

    def grade(row: Row) -> str:
        return "; ".join(
            f"{length}: {way.reason or 'yes'}"
            for length in clock.LENGTHS
            if row[1].get(length) and (way := plateau(every, [row[0]], [length]))
        )

    shares: Cells = {"$L$ = {}": lambda runs: mean_and_span([relative(run) for run in runs], ".3f")}
    columns: list[Column] = [
        MODEL,
        *_at_lengths(clock.LENGTHS, shares),
        ("rise", lambda row: clock.rise_of(models, row[0])),
        (r"slope of $\ln$ KL", slope),
        ("epochs, rate, by length", lambda row: budgets_in_words(budgets(row[1]))),
        ("plateau, by length", grade),
    ]
    return table(columns, models.items())


def room_table(runs: Runs) -> str:
    """Mamba with learned positions: the linear room of a state, and how far its KL lies above that of the largest."""
    rows = []
    for copies, length, state in clock.SMALLER:
        models = clock.with_clock(runs, "learned", copies)
        above = clock.above_floor(runs, clock.MAMBA, length, state, copies)[0].measured
        found = models.get(clock.network(clock.MAMBA, "learned", state), {}).get(length)
        share = mean_and_span([relative(run) for run in found], ".3f") if found else None
        layers = round(np.log(length) / np.log(4))
        bound = linear_loss(layers, copies, clock.CHANNELS * state)
        rows.append([length, copies, clock.CHANNELS * state, copies * numbers_needed(layers),
                     f"{clock.room(copies, length, state):.2g}", f"{bound:.3f}", share, seed_mean(above)])  # fmt: skip
    head = ["$L$", "copies", "numbers scanned", "needed for 99 %", "linear room", "lost by a linear state of that size",
            "KL / KL of N(0, 1)", "above the largest state"]  # fmt: skip
    return markdown_table(head, sorted(rows, key=lambda row: float(row[4])))


def capacity_table(runs: Runs) -> str:
    """Mamba with learned positions: what is captured of the information, and what a linear state and 32 bits allow."""
    rows = []
    for copies in sorted({run.parameters["copies"] for run in runs}):
        for model, by_length in clock.with_clock(runs, "learned", copies).items():
            for length, found in by_length.items() if model.size == clock.MAMBA else ():
                first = found[0]
                numbers, layers = first.state(scanned=True), first.parameters["layers"]
                best = linear_state_information(layers, copies, [numbers])[0] / first.information
                bits = 32 * np.log(2) * (first.state() + copies) / first.information
                shares = [run.estimate("captured_information")[0] / run.information for run in found]
                there = numbers / (copies * numbers_needed(layers))
                rows.append([length, copies, numbers, f"{there:.2g}", f"{best:.2f}", f"{bits:,.0f}",
                             mean_and_span(shares, ".2f")])  # fmt: skip
    head = [
        "$L$",
        "copies",
        "numbers scanned",
        "linear room",
        "best linear state",
        "bits, over what there is",
        "captured",
    ]
    return markdown_table(head, sorted(rows, key=lambda row: float(row[3])))


def collapse_table(cells: collapse.Cells, permutations: int, seed: int) -> str:
    """How well each variable predicts ln KL of a cell left out, by a curve that rises in it, or falls in dim z."""
    if not collapse.decidable(cells):
        return f"Cells that are recorded: {len(cells)}, which is too few to compare."
    columns: list[Column] = [
        (r"$\ln$ KL on one curve in", str),
        ("explained", lambda name: seed_mean(collapse.per_seed(cells, name))),
        (r"scatter ($\ln$ KL)", lambda name: f"{seed_mean(collapse.per_seed(cells, name, 'scatter')).value:.2f}"),
        (r"Kendall's $\tau$", lambda name: f"{collapse.order_agreement(cells, name):.2f}"),
        ("cells in random order as good", lambda name: f"{collapse.chance(cells, name, permutations, seed):.3f}"),
    ]
    return table(columns, collapse.VARIABLES)


def single_seed_table(models: Models, lengths: Sequence[int]) -> str:
    """Average KL and the loss gained in the second half of the training, for models of which one run is recorded."""
    cells: Cells = {
        "$L$ = {} ($10^{{-3}}$)": lambda runs: f"{PER_MILLE * runs[0].average:.3g}",
        "gained in the second half": lambda runs: _percent(runs[:1], 0.5),
    }
    return table([MODEL, *_at_lengths(lengths, cells)], models.items())


def information_table(models: Models, length: int) -> str:
    """What every model has about the second half, nats of all copies: mean over seeds and largest standard error."""

    def captured(runs: Runs) -> float:
        return _mean_estimate(runs, "captured_information")

    columns: list[Column] = [
        MODEL_OF,
        (r"$\dim z$", lambda runs: f"{np.mean([run.state() for run in runs]):,.0f}"),
        ("captured", lambda runs: _estimates(runs, "captured_information")),
        ("net", lambda runs: _estimates(runs, "net_information")),
        ("own, at least", lambda runs: _estimates(runs, "own_information_lower")),
        ("own, at most", lambda runs: _estimates(runs, "own_information_upper")),
        ("captured, of what there is", lambda runs: f"{captured(runs) / runs[0].information:.2f}"),
        ("captured, nats per number", lambda runs: f"{captured(runs) / runs[0].state():.4f}"),
    ]
    return table(columns, _groups(models, [length]))


def share_table(models: Models, lengths: Sequence[int]) -> str:
    """Captured information as a share of what there is, by length: mean over seeds, smallest and largest."""

    def shares(runs: Runs) -> str | None:
        return mean_and_span([run.estimate("captured_information")[0] / run.information for run in runs], ".2f")

    return table([MODEL, *_at_lengths(lengths, {"$L$ = {}": shares})], models.items())


def restarted_table(models: Models, lengths: Sequence[int]) -> str:
    """The direct estimator started afresh, beside the truth and the terms it errs by; means over seeds, nats."""

    def net(runs: Runs) -> float:
        return _mean_estimate(runs, "net_information")

    columns: list[Column] = [
        MODEL_OF,
        ("$L$", lambda runs: runs[0].length),
        ("started afresh", lambda runs: _estimates(runs, "restarted_direct")),
        ("true", lambda runs: f"{runs[0].information:.1f}"),
        (r"KL of $q(y \mid x)$", lambda runs: f"{runs[0].information - net(runs):.1f}"),
        (r"KL of $q(y)$", lambda runs: f"{_mean_estimate(runs, 'restarted_direct') - net(runs):.1f}"),
        (r"KL of $p_X$ from $p_Y$", lambda runs: f"{runs[0].result['restart_error']:.2f}"),
    ]
    return table(columns, _groups(models, lengths))


def _at_lengths(lengths: Sequence[int], cells: Cells) -> list[Column]:
    """Columns of every length: cells made of a model's runs of that length, missing where there are none."""

    def column(head: str, cell: Callable[[Runs], Any], length: int) -> Column:
        return head.format(length), lambda row: cell(row[1][length]) if row[1].get(length) else None

    return [column(head, cell, length) for length in lengths for head, cell in cells.items()]


def _groups(models: Models, lengths: Sequence[int]) -> list[Runs]:
    """The runs of every model and length that has any."""
    return [runs for by_length in models.values() for length in lengths if (runs := by_length.get(length))]


def _longest(row: Row, lengths: Sequence[int]) -> GaussianRun:
    return [row[1][length][0] for length in lengths if row[1].get(length)][-1]


def _percent(runs: Runs, share: float) -> str:
    return f"{100 * -np.expm1(-np.mean([run.gain(share) for run in runs])):.0f} %"


def _mean_estimate(runs: Runs, name: str) -> float:
    return float(np.mean([run.estimate(name)[0] for run in runs]))


def _estimates(runs: Runs, name: str) -> str:
    return f"{_mean_estimate(runs, name):.1f} ± {max(run.estimate(name)[1] for run in runs):.1f}"
