"""Tables of text as language models see it, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from experiments.text_information.quality import Line
from experiments.text_information.runs import ESTIMATORS as CURVES
from experiments.text_information.runs import FROM, Curve, TextRun
from experiments.text_information.shapes import LINE, LOG_POWER, bend, power_law_advantage
from experiments.text_information.statements import exponent
from lib.information.intervals import UNKNOWN, Interval
from lib.report.page import Column, listed, markdown_table, mean_and_span, span, table

MODEL: Column = ("model $q$", lambda run: run.name)
ESTIMATORS = {"direct": "direct", "vclub": "vCLUB", "uncorrected": "uncorrected"}


def model_table(runs: Sequence[TextRun]) -> str:
    """What every q is, how well it predicts, and on how much text it was asked."""
    columns: list[Column] = [
        MODEL,
        ("weights", _count("parameter_count")),
        ("numbers in the state", _count("state_size")),
        ("tokens of training", _count("training_tokens")),
        ("characters per token", lambda run: f"{run.token_length:.2f}"),
        ("nats per character", lambda run: f"{run.loss:.3f}"),
        ("windows of texts", lambda run: f"{run.result['windows']} of {run.result['documents']}"),
        ("tokens per window", lambda run: run.parameters["longest"]),
    ]
    return table(columns, runs)


def budget_table(runs: Sequence[TextRun]) -> str:
    """Losses and exponents of the same network after fewer and more epochs and at other rates; starts share a row."""
    columns: list[Column] = [
        ("model $q$", lambda starts: starts[0].name),
        ("epochs", lambda starts: starts[0].epochs),
        ("rate", lambda starts: f"{starts[0].rate:g}"),
        ("starts", len),
        ("tokens of training", lambda starts: _count("training_tokens")(starts[0])),
        ("nats per character", lambda starts: mean_and_span([run.loss for run in starts], ".3f")),
        *((rf"$\hat\beta$, {ESTIMATORS[key]}", partial(_exponents, estimator=key)) for key in ("direct", "vclub")),
    ]
    alike: dict[tuple[str, int, float], list[TextRun]] = {}
    for run in runs:
        alike.setdefault((run.name, run.epochs, run.rate), []).append(run)
    return table(columns, alike.values())


def information_table(runs: Sequence[TextRun], estimators: Sequence[str] = ("direct", "vclub")) -> str:
    """Loss, estimates at the largest equal halves in nats, and exponents, all with 95 % intervals."""
    columns: list[Column] = [
        MODEL,
        ("nats per character", lambda run: f"{run.loss:.3f}"),
        ("longest $L$", _longest),
        *((f"{ESTIMATORS[key]} at it (nats)", partial(at_longest, estimator=key)) for key in estimators),
        *((rf"$\hat\beta$, {ESTIMATORS[key]}", partial(_exponent, estimator=key)) for key in estimators),
    ]
    return table(columns, runs)


def largest_table(runs: Sequence[TextRun]) -> str:
    """Both estimates at every length of equal halves, nats with 95 % intervals, and the exponent."""
    curves = [(run, key, curve) for run in runs for key in ("direct", "vclub") if (curve := run.curve(key)) is not None]
    if not curves:
        return "Neither estimate is there."
    lengths = np.unique(np.concatenate([curve.lengths for _, _, curve in curves])).tolist()
    rows = []
    for run, key, curve in curves:
        ends = (Interval(m, *reach) for m, reach in zip(curve.means, curve.intervals, strict=True))
        told = {length: f"{one:.3g}" for length, one in zip(curve.lengths.tolist(), ends, strict=True)}
        rows.append([run.name, ESTIMATORS[key], *map(told.get, lengths), _exponent(run, key)])
    return markdown_table(["model $q$", "", *(f"$L$ = {length:g}" for length in lengths), r"$\hat\beta$"], rows)


def later_table(run: TextRun, firsts: Sequence[int]) -> str:
    """Exponents of every estimator if the fit begins at these L, in tokens."""
    heads = ["estimator", *(f"from $L$ = {first} on" for first in firsts)]
    rows = []
    for key, name in {"direct": "direct, corrected", "uncorrected": "direct, uncorrected", "vclub": "vCLUB"}.items():
        if (curve := run.curve(key)) is not None:
            laws = [curve.beyond(first).fit for first in firsts]
            told = [None if law is None else _bracketed(Interval(law.exponent, *law.interval)) for law in laws]
            rows.append([name, *told])
    return markdown_table(heads, rows)


def shape_table(run: TextRun) -> str:
    """Is the growth a power law? Advantages over two rivals, bend and local exponents, from 16 characters on."""
    heads = ["estimator", r"advantage over $a + b \ln L$", r"over $c\,(\ln L)^k$", "bend", "local exponents"]
    rows = []
    for key in ("direct", "own", "uncorrected", "vclub"):
        if (curve := run.curve(key)) is not None:
            told = [power_law_advantage(run, key, rival) for rival in (LINE, LOG_POWER)]
            local = listed(curve.beyond(FROM / run.token_length).local_exponents, ".2f")
            rows.append([CURVES[key], *map(_bracketed, [*told, bend(run, key)]), local])
    return markdown_table(heads, rows)


def from_later(run: TextRun, estimator: str, printed: float, first: int = 8) -> str:
    """The exponent if the fit begins at `first` tokens, and whether its interval holds the printed one, in words."""
    curve = run.curve(estimator)
    law = None if curve is None else curve.beyond(first).fit
    if law is None:
        return f"no exponent from L = {first} tokens on"
    held = law.interval[0] <= printed <= law.interval[1]
    told = _bracketed(Interval(law.exponent, *law.interval))
    return f"from L = {first} tokens on {told}, which {'contains' if held else 'does not contain'} {printed:g}"


def growth_table(runs: Sequence[TextRun]) -> str:
    """The estimate at the longest L over that at 16 characters, by kind of model: from the least to the most."""
    kinds = {"pretrained": "LSTMs of others", "lstm": "LSTM", "mamba": "Mamba", "transformer": "Transformer"}
    rows = []
    for family, name in kinds.items():
        own = [run for run in runs if run.family == family]
        if own:
            rows.append([name, len(own), *(_grown(own, estimator) for estimator in ("direct", "vclub"))])
    return markdown_table(["model $q$", "models", "direct", "vCLUB"], rows)


def _grown(runs: Sequence[TextRun], estimator: str) -> str:
    ratios, negative = [], 0
    for run in runs:
        curve = run.curve(estimator)
        kept = None if curve is None else curve.beyond(FROM / run.token_length)
        if kept is not None and kept.lengths.size:
            first, last = (float(kept.means[place]) for place in (0, -1))
            if first > 0 and last > 0:
                ratios.append(last / first)
            else:
                negative += 1
    return "; ".join(filter(None, (span(ratios, ".1f"), f"{negative} not positive" if negative else ""))) or "–"


def extrapolation_table(lines: Mapping[str, Line | None], losses: Sequence[float]) -> str:
    """The slope of a line through exponents, and what it says of one more model at these losses."""
    heads = ["", "models", "slope a nat", *(rf"$\hat\beta$ at {loss:g} nats per character" for loss in losses)]
    rows = [
        [ESTIMATORS[key], line.losses.size, f"{line.slope:.2f}", *(f"{line.at(loss):.2f}" for loss in losses)]
        for key, line in lines.items()
        if line is not None
    ]
    return markdown_table(heads, rows)


def split_table(runs: Sequence[TextRun], estimator: str) -> str:
    """Exponents at the three splits."""
    splits = {r"$\hat\beta$, $\ell = L/2$": 2, r"$\ell = L/3$": 3, r"$\ell = L/4$": 4}
    exponents = ((head, partial(_exponent, estimator=estimator, ratio=ratio)) for head, ratio in splits.items())
    return table([MODEL, *exponents], runs)


def change_table(changes: Mapping[str, tuple[Sequence[float], Sequence[Interval]]]) -> str:
    """(corrected - uncorrected) / uncorrected at the shortest and the longest L; by name of the model."""
    rows = [
        [name, f"{lengths[0]:g}", _percent(values[0]), f"{lengths[-1]:g}", _percent(values[-1])]
        for name, (lengths, values) in changes.items()
        if len(lengths)
    ]
    return markdown_table(["model $q$", "shortest $L$", "change there", "longest $L$", "change there"], rows)


def foreign_table(runs: Sequence[TextRun], shortest: int = 16) -> str:
    """What a foreign first block costs, at the first L of at least `shortest` tokens and at the longest, in nats."""
    rows = []
    for run in runs:
        curve = run.foreign_cost()
        kept = None if curve is None else curve.beyond(shortest)
        if kept is None or not kept.lengths.size:
            rows.append([run.name, None, None, None])
        else:
            rows.append([run.name, _bracketed(_at(kept, 0)), f"{kept.lengths[-1]:g}", _bracketed(_at(kept, -1))])
    return markdown_table(["model $q$", rf"first $L \ge {shortest}$ (nats)", "longest $L$", "there (nats)"], rows)


def at_longest(run: TextRun, estimator: str, ratio: int = 2) -> Interval:
    """The estimate at the longest L, nats."""
    curve = run.curve(estimator, ratio)
    return UNKNOWN if curve is None else _at(curve, -1)


def _at(curve: Curve, place: int) -> Interval:
    return Interval(float(curve.means[place]), *map(float, curve.intervals[place]))


def _longest(run: TextRun) -> str | None:
    curve = run.curve("vclub")
    return None if curve is None else f"{curve.lengths[-1]:g}"


def _count(key: str) -> Callable[[TextRun], str | None]:
    return lambda run: f"{run.result[key]:,}" if key in run.result else None


def _exponent(run: TextRun, estimator: str, ratio: int = 2) -> str | None:
    return _bracketed(exponent(run, estimator, ratio))


def _exponents(starts: Sequence[TextRun], estimator: str) -> str | None:
    """With its interval, or only the numbers of several starts."""
    if len(starts) == 1:
        return _exponent(starts[0], estimator)
    known = [one.value for run in starts if (one := exponent(run, estimator)).known]
    return listed(known, "z.2f") if known else None


def _bracketed(measured: Interval) -> str | None:
    return f"{measured:.2f}" if measured.known else None


def _percent(measured: Interval) -> str | None:
    if not measured.known:
        return None
    return f"{100 * measured.value:.0f} % [{100 * measured.low:.0f}, {100 * measured.high:.0f}]"
