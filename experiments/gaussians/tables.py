"""Tables of Gaussian language models, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from experiments.gaussians import collapse
from experiments.gaussians.baselines import Baselines, equivalent_window
from experiments.gaussians.runs import (
    PUBLISHED_BATCH,
    PUBLISHED_STEPS,
    GaussianRun,
    Model,
    Models,
    Plan,
    published_tokens,
    table,
)
from experiments.gaussians.sizes import SIZES
from experiments.gaussians.statements import EqualEarlyLoss, Floats, length_slopes
from lib.information.intervals import seed_mean
from lib.report.tables import markdown_table
from lib.training.settings import FitSettings

PER_MILLE = 1e3
MISSING = "–"


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
                [f"sequences a step, $L$ = {length}", f"{batch}", f"{PUBLISHED_BATCH}"],
                [f"tokens in all, $L$ = {length}", f"{tokens:,}", f"{theirs:,}, {theirs / tokens:,.0f} times as many"],
            ]
    return markdown_table(["", "here", "paper"], rows)


def model_table(models: Models, lengths: Sequence[int]) -> str:
    """What every model is made of, and the numbers in the state that meets the last token of the first half."""
    rows = []
    for model, by_length in models.items():
        runs = {length: by_length[length][0] for length in lengths if by_length.get(length)}
        largest = list(runs.values())[-1]
        states = [f"{runs[length].state():,}" if length in runs else MISSING for length in lengths]
        size = SIZES[model.size]
        shape = [f"{size.depth}", f"{size.width}", f"{largest.result['parameter_count']:,}"]
        rows.append([str(model), *shape, *states, f"{largest.state(scanned=True):,}"])
    head = ["model", "layers", "width", "parameters", *(rf"$\dim z$, $L$ = {length}" for length in lengths)]
    return markdown_table([*head, "without convolutions"], rows)


def training_table(models: Models, lengths: Sequence[int]) -> str:
    """How much the validation loss still fell, mean over seeds, and how fast the training was."""
    rows = []
    for model, by_length in models.items():
        runs = [run for length in lengths for run in by_length.get(length, ())]
        gains = [_percent(by_length.get(length, ()), share) for share in (0.5, 0.2) for length in lengths]
        speed = np.median([run.result["tokens_per_second"] for run in runs])
        share = max(run.result["data_share"] for run in runs)
        rows.append([str(model), f"{len(runs)}", *gains, f"{speed:,.0f}", f"{100 * share:.0f} %"])
    parts = [f"{part}, $L$ = {length}" for part in ("second half", "last fifth") for length in lengths]
    return markdown_table(["model", "runs", *parts, "tokens a second", "of it for data, at most"], rows)


def average_table(models: Models, lengths: Sequence[int], layers: Mapping[int, int]) -> str:
    """Average KL of every model: mean, smallest and largest seed, and the exact windows that it lies between."""
    rows = []
    for model, by_length in models.items():
        cells = []
        for length in lengths:
            values = [run.average for run in by_length.get(length, ())]
            cells += [_range(values), equivalent_window(float(np.mean(values)), layers[length]) if values else MISSING]
        rows.append([str(model), *cells])
    head = [words.format(length) for length in lengths for words in ("$L$ = {}", "as a window of, $L$ = {}")]
    return markdown_table(["model", *head], rows)


def line_table(lines: Sequence[Baselines]) -> str:
    """Average KL of exact predictors of known memory, 10^-3 nats a number; "0" for a window that holds everything."""
    names = list(lines[-1].curves())
    rows = [
        [
            f"{line.length}",
            *(f"{PER_MILLE * line.curves()[n].mean():.1f}" if n in line.curves() else "0" for n in names),
        ]
        for line in lines
    ]
    return markdown_table(["$L$", *(f"knows {name}" for name in names)], rows)


def slope_table(slopes: Mapping[Model, Floats], lines: Sequence[Baselines]) -> str:
    """Slopes of ln KL over ln L with intervals over seeds, and those of exact lines that all lengths have."""
    rows = [[str(model), f"{seed_mean(values)}", _each(values)] for model, values in slopes.items()]
    names = [name for name in lines[0].curves() if all(name in line.curves() for line in lines)]
    for name in names:
        values = [[line.curves()[name].mean()] for line in lines]
        rows.append([f"*exact, knows {name}*", f"{length_slopes(values, [line.length for line in lines])[0]:.2f}", ""])
    return markdown_table(["model", "slope, mean over seeds [95 % interval]", "each seed"], rows)


def early_table(
    found: Mapping[str, Mapping[Model, EqualEarlyLoss]], models: Models, length: int, reference: str
) -> str:
    """Early and late KL of all models at one length, and how much the late one exceeds the reference family's."""
    rows = []
    for model, by_length in models.items():
        runs = by_length.get(length, ())
        if runs:
            cells = [_range([run.early for run in runs]), _range([run.late for run in runs])]
            for losses in found.values():
                cells.append(_excess(losses.get(model), model.architecture == reference))
            rows.append([str(model), *cells])
    excess = [f"ln of the excess, early = {name}" for name in found]
    return markdown_table(["model", "first 16 positions ($10^{-3}$)", "second half ($10^{-3}$)", *excess], rows)


def variant_table(
    plain: Mapping[int, Sequence[GaussianRun]],
    changed: Mapping[int, Sequence[GaussianRun]],
    lengths: Sequence[int],
    seeds: int,
) -> str:
    """ln of the KL with a change over that without, same seeds, with intervals: average, early, late."""
    numbers: dict[str, Callable[[GaussianRun], float]] = {
        "average": lambda run: run.average,
        "first 16 positions": lambda run: run.early,
        "second half": lambda run: run.late,
    }
    rows = []
    for length in lengths:
        cells = []
        for number in numbers.values():
            both = [np.log(table(runs, number, [length], seeds)[0]) for runs in (changed, plain)]
            cells.append(f"{seed_mean(both[0] - both[1])}")
        rows.append([f"{length}", *cells])
    return markdown_table(["$L$", *numbers], rows)


def collapse_table(cells: collapse.Cells, permutations: int, seed: int) -> str:
    """How well each variable predicts ln KL of a cell that is left out, alone on a straight line."""
    if not collapse.decidable(cells):
        return f"Cells that are recorded: {len(cells)}, which is too few to compare."
    rows = []
    for name in collapse.VARIABLES:
        rows.append(
            [
                name,
                f"{seed_mean(collapse.per_seed(cells, name))}",
                f"{seed_mean(collapse.per_seed(cells, name, 'scatter')).value:.2f}",
                f"{seed_mean(collapse.per_seed(cells, name, 'slope'))}",
                f"{collapse.order_agreement(cells, name):.2f}",
                f"{collapse.chance(cells, name, permutations, seed):.3f}",
            ]
        )
    head = [
        r"$\ln$ KL as a straight line in $\ln$ of",
        "explained",
        r"scatter ($\ln$ KL)",
        "slope",
        r"Kendall's $\tau$",
    ]
    return markdown_table([*head, "cells in random order as good"], rows)


def single_seed_table(models: Models, lengths: Sequence[int]) -> str:
    """Average KL and the loss gained in the second half of the training, for models of which one run is recorded."""
    rows = []
    for model, by_length in models.items():
        cells = []
        for length in lengths:
            run = next(iter(by_length.get(length, ())), None)
            cells += [MISSING, MISSING] if run is None else [f"{PER_MILLE * run.average:.3g}", _percent([run], 0.5)]
        rows.append([str(model), *cells])
    head = [
        words.format(length) for length in lengths for words in ("$L$ = {} ($10^{{-3}}$)", "gained in the second half")
    ]
    return markdown_table(["model", *head], rows)


def information_table(models: Models, length: int) -> str:
    """What every model has about the second half, nats of all copies: mean over seeds and largest standard error."""
    names = ["captured_information", "net_information", "own_information_lower", "own_information_upper"]
    rows = []
    for model, by_length in models.items():
        runs = by_length.get(length, ())
        if runs:
            held = np.mean([run.estimate("captured_information")[0] for run in runs])
            cells = [f"{np.mean([run.state() for run in runs]):,.0f}", *(_estimates(runs, name) for name in names)]
            rows.append([str(model), *cells, f"{held / runs[0].information:.2f}", f"{held / runs[0].state():.4f}"])
    head = ["model", r"$\dim z$", "captured", "net", "own, at least", "own, at most"]
    return markdown_table([*head, "captured, of what there is", "captured, nats a number"], rows)


def share_table(models: Models, lengths: Sequence[int]) -> str:
    """Captured information as a share of what there is, by length: mean over seeds, smallest and largest."""
    rows = []
    for model, by_length in models.items():
        cells = []
        for length in lengths:
            shares = [run.estimate("captured_information")[0] / run.information for run in by_length.get(length, ())]
            cells.append(_span(shares, ".2f") if shares else MISSING)
        rows.append([str(model), *cells])
    return markdown_table(["model", *(f"$L$ = {length}" for length in lengths)], rows)


def restarted_table(models: Models, lengths: Sequence[int]) -> str:
    """The direct estimator started afresh, beside the truth and the terms it errs by; means over seeds, nats."""
    rows = []
    for model, by_length in models.items():
        for length in lengths:
            runs = by_length.get(length, ())
            if runs:
                means = {
                    name: np.mean([r.estimate(name)[0] for r in runs])
                    for name in ("restarted_direct", "net_information")
                }
                estimate, net = means["restarted_direct"], means["net_information"]
                rows.append(
                    [
                        str(model),
                        f"{length}",
                        _estimates(runs, "restarted_direct"),
                        f"{runs[0].information:.1f}",
                        f"{runs[0].information - net:.1f}",
                        f"{estimate - net:.1f}",
                        f"{runs[0].result['restart_error']:.2f}",
                    ]
                )
    head = [
        "model",
        "$L$",
        "started afresh",
        "true",
        r"KL of $q(y \mid x)$",
        r"KL of $q(y)$",
        r"KL of $p_X$ from $p_Y$",
    ]
    return markdown_table(head, rows)


def _percent(runs: Iterable[GaussianRun], share: float) -> str:
    gains = [run.gain(share) for run in runs]
    return f"{100 * -np.expm1(-np.mean(gains)):.0f} %" if gains else MISSING


def _range(values: Sequence[float]) -> str:
    return _span([PER_MILLE * value for value in values], ".3g") if values else MISSING


def _span(values: Sequence[float], form: str) -> str:
    return f"{np.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def _each(values: Floats) -> str:
    return ", ".join(f"{value:.2f}" for value in values if not np.isnan(value))


def _excess(found: EqualEarlyLoss | None, is_reference: bool) -> str:
    if found is None:
        return "0" if is_reference else MISSING
    return f"{seed_mean(found.values)}" + (
        "" if found.comparable else rf" (early losses differ by $e^{{{found.gap:.1f}}}$)"
    )


def _estimates(runs: Sequence[GaussianRun], name: str) -> str:
    values, errors = zip(*(run.estimate(name) for run in runs), strict=True)
    return f"{np.mean(values):.1f} ± {max(errors):.1f}"
