"""Tables of networks that learned an n-gram language, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.ngram_rules.runs import (
    COUNTERS,
    NETWORKS,
    Record,
    Writer,
    along,
    divergence,
    measured,
    of_family,
    rates,
)
from lib.models.catalogue import NAMES
from lib.report.page import MISSING, Column, markdown_table, table

Named = tuple[str, Sequence[Record]]
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
    ways = {"greedy": "greedy", "drawn": "sampled"}
    head = ["", *(f"{way}, {average}" for way in ways for average in AVERAGES)]
    cells = ([_rate(rate[average][how]) for how in ways.values() for average in AVERAGES] for rate in rows.values())
    return markdown_table(head, ([name, *own] for name, own in zip(rows, cells, strict=True)))


def readings_table(records: Iterable[Record]) -> str:
    """What every choice that the paper leaves open does to the SSM; rows without records are left out."""
    every = list(records)
    found = {
        name: of_family(every, "relu_ssm", **{key.replace(".", "__"): value for key, value in different.items()})
        for name, different in CHOICES.items()
    }
    columns: list[Column] = [
        ("choice", lambda row: row[0]),
        ("seeds", lambda row: len(row[1])),
        ("greedy, held out", lambda row: mean_and_least(rates(row[1], "greedy"))),
        ("greedy, prompts", lambda row: mean_and_least(rates(row[1], "greedy", prompts="prompts"))),
        ("drawn, prompts", lambda row: mean_and_least(rates(row[1], "sampled", prompts="prompts"))),
        ("divergence (nats per word)", lambda row: f"{divergence(row[1]).mean():.2f}"),
    ]
    return table(columns, ((name, group) for name, group in found.items() if group))


def sentences_table(records: Iterable[Record]) -> str:
    """Greedy accuracy over all prompts by number of training sentences: mean and smallest, networks and counters."""
    every = list(records)
    curves = {kind: along(every, kind, "sentences") for kind in NETWORKS}
    rows: list[tuple[str, str, Writer]] = [(NAMES[kind], kind, "network") for kind in NETWORKS]
    rows += [(writer, "relu_ssm", writer) for writer in COUNTERS]

    def column(size: int) -> Column:
        def cell(row: tuple[str, str, Writer]) -> str | None:
            group = curves[row[1]].get(size)
            return mean_and_least(rates(group, writer=row[2], prompts="prompts")) if group else None

        return str(size), cell

    sizes = sorted(set().union(*curves.values()))
    return table([("training sentences", lambda row: row[0]), *map(column, sizes)], rows)


def unseen_table(records: Iterable[Record]) -> str:
    """Of words drawn, how much fails, and how much of that after words that training never showed, over all prompts."""
    every, rows = list(records), []
    writers: list[tuple[str, str, Writer]] = [(NAMES[kind], kind, "network") for kind in NETWORKS]
    for name, kind, writer in [*writers, ("counter", "relu_ssm", "counter")]:
        for size in (10, 40, 160):
            group = of_family(every, kind, **({} if size == 40 else {"sentences": size}))
            if group:
                rows.append([name, size, *_failures(group, writer)])
    head = ["", "sentences", "rules seen, of all", "drawn completions that fail", "of these, after unseen words"]
    return markdown_table(head, rows)


def window_table(groups: Mapping[str, Sequence[Record]], window: int = 3) -> str:
    """How well each group completes, how far back it listens, and what it does on histories that no sentence has."""

    def influence(row: Named) -> Any:
        return measured(row[1], "influence", "mean")

    def power(row: Named) -> str:
        return f"{measured(row[1], 'transition', 'power_norms')[:, window - 1].mean():.2g}"

    def obeyed(kind: str) -> Callable[[Named], str]:
        return lambda row: mean_and_least(measured(row[1], "histories", kind, "obeyed"))

    columns: list[Column] = [
        ("", lambda row: row[0]),
        ("seeds", lambda row: len(row[1])),
        ("greedy, prompts", lambda row: mean_and_least(rates(row[1], prompts="prompts"))),
        ("divergence (nats per word)", lambda row: f"{divergence(row[1]).mean():.2g}".replace("inf", "∞")),
        (f"$\\lVert A^{window} \\rVert$", power),
        (f"influence, last {window} words", lambda row: f"{influence(row)[:, :window].mean():.2g}"),
        ("words before", lambda row: f"{influence(row)[:, window:].mean():.2g}"),
        ("rules obeyed: shuffled", obeyed("shuffled")),
        ("random", obeyed("random")),
        ("longer", obeyed("longer")),
    ]
    return table(columns, ((name, records) for name, records in groups.items() if records))


def states_table(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Silhouettes and probes by the last words; groups of the entries "states" of results."""

    def column(kind: str, gram: str) -> Column:
        return f"{kind}, last {gram}", lambda row: f"{np.mean([entry[kind][gram] for entry in row[1]]):.2f}"

    columns = [column(kind, gram) for kind in ("silhouette", "probe") for gram in "1234"]
    rows = ((name, entries) for name, entries in groups.items() if entries)
    return table([("", lambda row: row[0]), *columns], rows)


def mean_and_least(values: Sequence[float] | np.typing.NDArray[np.float64]) -> str:
    """The mean, and in parentheses the smallest; rates that are not quite one are not shown as one."""
    numbers = np.asarray(values, dtype=np.float64)
    return f"{_rate(float(numbers.mean()))} ({_rate(float(numbers.min()))})"


def _failures(group: Sequence[Record], writer: Writer) -> list[str | None]:
    fails = 1 - rates(group, "sampled", writer, "prompts")
    unseen = rates(group, "sampled_unseen", writer, "prompts")
    seen = np.mean([record["result"]["rules_seen"] for record in group])
    share = f"{100 * unseen.sum() / fails.sum():.0f} %" if fails.sum() > 1e-9 else None
    return [f"{seen:.0f} of {group[0]['result']['rules']}", f"{100 * fails.mean():.1f} %", share]


def _rate(rate: float | None) -> str:
    if rate is None or np.isnan(rate):
        return MISSING
    return f"{min(rate, 0.999):.3f}" if rate < 1 - 1e-9 else "1"
