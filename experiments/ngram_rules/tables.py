"""Tables of networks that learned an n-gram language, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.ngram_rules.runs import Record, along, divergence, measured, of_family, rates
from lib.report.tables import markdown_table

NAMES = {"relu_ssm": "SSM", "relu_rnn": "ReLU RNN", "lstm": "LSTM", "transformer": "Transformer", "mamba": "Mamba"}
AVERAGES = ("held out", "prompts", "new prompts")
CHOICES: dict[str, dict[str, Any]] = {
    "as in our other runs: Adam, a sentence a step, mean over its words": {},
    "a step is one beginning and the next word": {"examples": "prefixes"},
    "4 sentences a step": {"fit.batch": 4},
    "8 sentences a step": {"fit.batch": 8},
    "all 40 sentences a step": {"fit.batch": 40},
    "plain gradient descent": {"fit.optimizer": "sgd"},
    "plain, sum over the words of a sentence": {"fit.optimizer": "sgd", "reduction": "sum"},
    "plain, a step is one beginning and the next word": {"fit.optimizer": "sgd", "examples": "prefixes"},
    "plain, rate 0.01": {"fit.optimizer": "sgd", "fit.learning_rate": 0.01},
    "plain, rate 0.1": {"fit.optimizer": "sgd", "fit.learning_rate": 0.1},
    "embedding of size 1": {"options.embedding": 1},
    "embedding of size 2": {"options.embedding": 2},
    "embedding of size 4": {"options.embedding": 4},
    "embedding of size 8": {"options.embedding": 8},
    "embedding of size 16": {"options.embedding": 16},
    "embedding of size 145": {"options.embedding": 145},
    "64 hidden neurons": {"width": 64},
    "$A$ begins orthogonal": {"options.initial": "orthogonal"},
    "$A$ begins at zero": {"options.initial": "zero"},
    "sentences drawn with replacement": {"drawing": "repeated"},
    "as many sentences of either template": {"drawing": "templates"},
}


def accuracy_table(rows: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> str:
    """Completion rates, one row each: by name, {average: {measure: rate}}."""
    head = ["", *(f"{how}, {average}" for how in ("greedy", "drawn") for average in AVERAGES)]
    return markdown_table(
        head,
        (
            [name, *(_rate(rate[average][how]) for how in ("greedy", "sampled") for average in AVERAGES)]
            for name, rate in rows.items()
        ),
    )


def readings_table(records: Iterable[Record]) -> str:
    """What every choice that the paper leaves open does to the SSM; rows without records are left out."""
    every = list(records)
    rows = []
    for name, different in CHOICES.items():
        group = of_family(every, "relu_ssm", **{key.replace(".", "__"): value for key, value in different.items()})
        if group:
            accuracies = [
                rates(group, "greedy"),
                rates(group, "greedy", prompts="prompts"),
                rates(group, "sampled", prompts="prompts"),
            ]
            rows.append([name, f"{len(group)}", *map(mean_and_least, accuracies), f"{divergence(group).mean():.2f}"])
    head = ["choice", "seeds", "greedy, held out", "greedy, prompts", "drawn, prompts", "divergence (nats a word)"]
    return markdown_table(head, rows)


def sentences_table(records: Iterable[Record]) -> str:
    """Greedy accuracy over all prompts by number of training sentences: mean and smallest, networks and counters."""
    every = list(records)
    curves = {name: along(every, kind, "sentences") for kind, name in NAMES.items()}
    sizes = sorted({size for curve in curves.values() for size in curve})
    rows = [
        [name, *(mean_and_least(rates(curve[size], prompts="prompts")) if size in curve else "–" for size in sizes)]
        for name, curve in curves.items()
    ]
    for writer in ("counter", "counter with back-off"):
        counted = curves["SSM"]
        cells = [
            mean_and_least(rates(counted[s], writer=writer, prompts="prompts")) if s in counted else "–" for s in sizes
        ]
        rows.append([writer, *cells])
    return markdown_table(["training sentences", *map(str, sizes)], rows)


def unseen_table(records: Iterable[Record]) -> str:
    """Of words drawn, how much fails, and how much of that after words that training never showed, over all prompts."""
    every, rows = list(records), []
    for kind, name in NAMES.items():
        for size in (10, 40, 160):
            group = of_family(every, kind, **({} if size == 40 else {"sentences": size}))
            if group:
                rows.append([name, f"{size}", *_failures(group, "network")])
    for size in (10, 40, 160):
        group = of_family(every, "relu_ssm", **({} if size == 40 else {"sentences": size}))
        if group:
            rows.append(["counter", f"{size}", *_failures(group, "counter")])
    head = ["", "sentences", "rules seen, of all", "drawn completions that fail", "of these, after unseen words"]
    return markdown_table(head, rows)


def window_table(groups: Mapping[str, Sequence[Record]], window: int = 3) -> str:
    """How well each group completes, how far back it listens, and what it does on histories that no sentence has."""
    rows = []
    for name, records in groups.items():
        if not records:
            continue
        influence = measured(records, "influence", "mean")
        obeyed = [measured(records, "histories", kind, "obeyed") for kind in ("shuffled", "random", "longer")]
        rows.append(
            [
                name,
                f"{len(records)}",
                mean_and_least(rates(records, prompts="prompts")),
                f"{divergence(records).mean():.2g}".replace("inf", "∞"),
                f"{measured(records, 'transition', 'power_norms')[:, window - 1].mean():.2g}",
                f"{influence[:, :window].mean():.2g}",
                f"{influence[:, window:].mean():.2g}",
                *map(mean_and_least, obeyed),
            ]
        )
    head = [
        "",
        "seeds",
        "greedy, prompts",
        "divergence (nats a word)",
        f"$\\lVert A^{window} \\rVert$",
        f"influence, last {window} words",
        "words before",
        "rules obeyed: shuffled",
        "random",
        "longer",
    ]
    return markdown_table(head, rows)


def states_table(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Silhouettes and probes by the last words; groups of the entries "states" of results."""
    rows = [
        [
            name,
            *(f"{np.mean([entry['silhouette'][gram] for entry in entries]):.2f}" for gram in "1234"),
            *(f"{np.mean([entry['probe'][gram] for entry in entries]):.2f}" for gram in "1234"),
        ]
        for name, entries in groups.items()
        if entries
    ]
    head = ["", *(f"silhouette, last {gram}" for gram in "1234"), *(f"probe, last {gram}" for gram in "1234")]
    return markdown_table(head, rows)


def mean_and_least(values: Sequence[float] | np.typing.NDArray[np.float64]) -> str:
    """The mean, and in parentheses the smallest; rates that are not quite one are not shown as one."""
    numbers = np.asarray(values, dtype=np.float64)
    return f"{_rate(float(numbers.mean()))} ({_rate(float(numbers.min()))})"


def _failures(group: Sequence[Record], writer: Any) -> list[str]:
    fails = 1 - rates(group, "sampled", writer, "prompts")
    unseen = rates(group, "sampled_unseen", writer, "prompts")
    seen = np.mean([record["result"]["rules_seen"] for record in group])
    share = f"{100 * unseen.sum() / fails.sum():.0f} %" if fails.sum() > 1e-9 else "–"
    return [f"{seen:.0f} of {group[0]['result']['rules']}", f"{100 * fails.mean():.1f} %", share]


def _rate(rate: float | None) -> str:
    if rate is None or np.isnan(rate):
        return "–"
    return f"{min(rate, 0.999):.3f}" if rate < 1 - 1e-9 else "1"
