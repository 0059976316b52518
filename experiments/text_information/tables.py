"""Tables of text as language models see it, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.text_information.runs import Curve, TextRun
from experiments.text_information.statements import exponent
from lib.information.intervals import UNKNOWN, Interval
from lib.report.tables import markdown_table

MISSING = "–"


def model_table(runs: Sequence[TextRun]) -> str:
    """What every q is, how well it predicts, and on how much text it was asked."""
    return markdown_table(
        [
            "model $q$",
            "parameters",
            "numbers in the state",
            "tokens of training",
            "characters a token",
            "nats a token",
            "nats a character",
            "windows",
            "documents",
            "tokens a window",
        ],
        (
            [
                run.name,
                _count(run, "parameter_count"),
                _count(run, "state_size"),
                _count(run, "training_tokens"),
                f"{run.token_length:.2f}",
                f"{run.result['second_half_loss']:.3f}",
                f"{run.loss:.3f}",
                f"{run.result['windows']}",
                f"{run.result['documents']}",
                f"{run.parameters['longest']}",
            ]
            for run in runs
        ),
    )


def information_table(runs: Sequence[TextRun], estimators: Sequence[str] = ("direct", "vclub")) -> str:
    """Loss, estimates at the largest equal halves in nats, and exponents, all with 95 % intervals."""
    names = {"direct": "direct", "vclub": "vCLUB", "uncorrected": "uncorrected"}
    return markdown_table(
        ["model $q$", "nats a character", "longest $L$"]
        + [f"{names[key]} at it (nats)" for key in estimators]
        + [rf"$\hat\beta$, {names[key]}" for key in estimators],
        (
            [
                run.name,
                f"{run.loss:.3f}",
                _longest(run),
                *(str(at_longest(run, key)) for key in estimators),
                *(_bracketed(exponent(run, key)) for key in estimators),
            ]
            for run in runs
        ),
    )


def split_table(runs: Sequence[TextRun], estimator: str) -> str:
    """Exponents at the three splits."""
    return markdown_table(
        ["model $q$", r"$\hat\beta$, $\ell = L/2$", r"$\ell = L/3$", r"$\ell = L/4$"],
        ([run.name, *(_bracketed(exponent(run, estimator, ratio)) for ratio in (2, 3, 4))] for run in runs),
    )


def change_table(changes: Mapping[str, tuple[Sequence[float], Sequence[Interval]]]) -> str:
    """(corrected - uncorrected) / uncorrected at the shortest and the longest L; by name of the model."""
    return markdown_table(
        ["model $q$", "shortest $L$", "change there", "longest $L$", "change there"],
        (
            [name, f"{lengths[0]:g}", _percent(values[0]), f"{lengths[-1]:g}", _percent(values[-1])]
            for name, (lengths, values) in changes.items()
            if len(lengths)
        ),
    )


def foreign_table(runs: Sequence[TextRun], shortest: int = 16) -> str:
    """What a foreign first block costs, at the first L of at least `shortest` tokens and at the longest, in nats."""
    rows = []
    for run in runs:
        curve = run.foreign_cost()
        kept = None if curve is None else curve.beyond(shortest)
        if kept is None or not kept.lengths.size:
            rows.append([run.name, MISSING, MISSING, MISSING])
            continue
        rows.append([run.name, _bracketed(_at(kept, 0)), f"{kept.lengths[-1]:g}", _bracketed(_at(kept, -1))])
    return markdown_table(["model $q$", rf"first $L \ge {shortest}$ (nats)", "longest $L$", "there (nats)"], rows)


def at_longest(run: TextRun, estimator: str, ratio: int = 2) -> Interval:
    """The estimate at the longest L, nats."""
    curve = run.curve(estimator, ratio)
    if curve is None:
        return UNKNOWN
    return _at(curve, -1)


def _at(curve: Curve, place: int) -> Interval:
    return Interval(float(curve.means[place]), *map(float, curve.intervals[place]))


def _longest(run: TextRun) -> str:
    curve = run.curve("vclub")
    return MISSING if curve is None else f"{curve.lengths[-1]:g}"


def _count(run: TextRun, key: str) -> str:
    return f"{run.result[key]:,}" if key in run.result else MISSING


def _bracketed(measured: Interval) -> str:
    return f"{measured:.2f}" if measured.known else MISSING


def _percent(measured: Interval) -> str:
    if not measured.known:
        return MISSING
    return f"{100 * measured.value:.0f} % [{100 * measured.low:.0f}, {100 * measured.high:.0f}]"
