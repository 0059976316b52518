"""Tables and sentences of the chapters on networks that write, in Markdown: what has not run says that it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.natural_corpora.written.relations import RELATED, RELATIONS, REMARKS, points, rank_correlation
from experiments.natural_corpora.written.runs import LONG, MIDDLE, SHORT, Network, Runs, WrittenRun, usual
from experiments.natural_corpora.written.selection import PROSE, Selection
from lib.models.catalogue import NAMES
from lib.report.gate import usual_budget
from lib.report.page import Column, markdown_table, mean_and_span, table

LEVELS = ("character", "word")
SHOWN = ("lstm", "transformer", "mamba")
BANDS = {"1–9": SHORT, "10–50": MIDDLE, "51–1000": LONG}
TEXTS = {
    "wikitext2": "training set of WikiText-2",
    "wikitext2-held-out": "validation set of WikiText-2",
    "prose": "novels and addresses",
    "addresses": "addresses",
}
MEASURES = ("spelling", "brackets", "quotes", "titles", "repeated", "read")


def answer(selection: Selection) -> str:
    """Of the widest network of each kind, how much of the information of its text it writes, by range."""
    told = []
    for level in LEVELS:
        for architecture in SHOWN:
            for network, runs in selection.networks(level, architecture, widest=True).items():
                told.append(
                    f"- **{network}, {level}s**: {_kept(runs)}." if runs else f"- {network}, {level}s: not yet."
                )
    return "\n".join(told) or "Nothing is recorded yet."


def _kept(runs: Runs) -> str:
    shares = {name: [run.ratio(band).value for run in runs] for name, band in BANDS.items()}
    kept = [f"{np.mean(values):.0%} at {name}" for name, values in shares.items() if np.isfinite(values).all()]
    return "its text has, of the information of the text it read, " + ", ".join(kept) + " characters"


def table_of_live(records: Iterable[Mapping[str, Any]]) -> str:
    """What was trained here and now: that it runs, and nothing else."""
    return table(
        [
            ("level", lambda one: one["parameters"]["level"]),
            ("network", lambda one: f"{NAMES[one['parameters']['architecture']]} {one['parameters']['width']}"),
            ("nats per token", lambda one: f"{min(one['result']['validation_losses']):.2f}"),
            ("characters written", lambda one: f"{one['result']['written_characters']:,}"),
        ],
        records,
    )


def table_of_ranges(networks: Iterable[tuple[Network, Runs]]) -> str:
    """Every network: its loss, the share of the information that it writes by range, and its correlation length."""
    some = list(networks)
    return table(
        [
            *_named(some),
            *((f"written / read, {name}", _mean(_ratio(band), "z.2f")) for name, band in BANDS.items()),
            ("500–1000 over 100–499", _mean(lambda run: run.levelling().value, "z.2f")),
            (r"$\xi$ (characters)", _mean(lambda run: run.correlation_length(), "z.1f")),
            (r"$\xi$ of the text", lambda row: f"{row[1][0].correlation_length('read'):.1f}"),
        ],
        some,
    )


def table_of_budgets(selection: Selection) -> str:
    """What twice the budget and other rates of learning change, for each network that has trainings to say."""
    head = [
        "network",
        "epochs",
        "nats per character",
        "twice the budget",
        "a third of the rate",
        "three times the rate",
    ]
    rows = []
    for network, runs in selection.found.items():
        epochs, rate = usual_budget([run.training for run in runs])
        losses = {(run.training.epochs, run.training.rate / rate, run.seed): run.loss for run in runs}
        cells = [_change(losses, epochs, asked) for asked in ((2 * epochs, 1), (epochs, 1 / 3), (epochs, 3))]
        if any(cells):
            own = float(np.mean([run.loss for run in usual(runs)]))
            rows.append([_name(network, selection.found), epochs, f"{own:.3f}", *cells])
    return markdown_table(head, rows)


def _change(losses: Mapping[tuple[int, float, int], float], epochs: int, asked: tuple[int, float]) -> str | None:
    """Change of the loss from the usual training to another, mean over the seeds that have both."""
    longer, factor = asked
    changes = [
        loss - losses[epochs, 1.0, seed]
        for (budget, times, seed), loss in losses.items()
        if budget == longer and np.isclose(times, factor, rtol=0.1) and (epochs, 1.0, seed) in losses
    ]
    return f"{np.mean(changes):+.3f}" if changes else None


def table_of_quality(networks: Iterable[tuple[Network, Runs]]) -> str:
    """Every network: its loss, the distance at which half is lost, and the quality of what it writes, in per cent.

    Last, the quality of the texts that tested them, which are real.
    """

    def quality(name: str, whose: str = "quality") -> Callable[[WrittenRun], float]:
        return lambda run: np.nan if run.result[whose][name] is None else 100 * run.result[whose][name]

    def own(row: tuple[Network, Runs]) -> str:
        return f", {TEXTS[row[0].text]}" if row[0].text in PROSE else ""

    some = list(networks)
    every = [network for network, _ in some]
    columns: list[Column] = [
        ("network", lambda row: _name(row[0], every) + own(row)),
        ("nats per character", _mean(lambda run: run.loss, "z.3f")),
        ("half is lost at (characters)", _mean(lambda run: run.half_distance, "z.0f")),
        *((f"{name} (%)", _mean(quality(name), "z.1f")) for name in MEASURES),
        ("characters per second", _mean(_speed, ",.0f")),
    ]
    real = {network.text: (network, runs[:1]) for network, runs in some if runs}
    measured = [_mean(quality(name, "quality_of_test"), "z.1f") for name in MEASURES]
    rows = [[cell(row) for _, cell in columns] for row in some]
    rows += [["real text" + own(row), None, None, *(cell(row) for cell in measured), None] for row in real.values()]
    return markdown_table([head for head, _ in columns], rows)


def table_of_relations(selection: Selection) -> str:
    """Rank correlations over the networks of a level, with how many are positive or lie above the bound.

    Those that the paper speaks of are counted apart from remarks, which it does not make.
    """
    rows = []
    for level in LEVELS:
        for part, pair in RELATIONS.items():
            some = points(selection.of_level(level), pair)
            rows.append((level, part + " (remark)" * (part in REMARKS), len(some), rank_correlation(some)))
    told = ""
    for name, remark in (("rank correlations that the paper speaks of", False), ("remarks", True)):
        known = [found for _, part, _, found in rows if found.known and part.endswith("(remark)") == remark]
        positive, above = sum(one.value > 0 for one in known), sum(one.low > RELATED for one in known)
        if known:
            told += f"Of {len(known)} {name} {positive} are positive; of {above or 'none'} the whole interval lies "
            told += f"above {RELATED:g}, as is asked here. "
    heads = ["level", "statement", "networks", "rank correlation"]
    return (told.rstrip() + "\n\n" if told else "") + markdown_table(heads, rows)


def every_network(selection: Selection) -> list[tuple[Network, Runs]]:
    """All that have run, with their usual seeds."""
    return [(network, usual(runs)) for network, runs in selection.found.items()]


def samples(selection: Selection) -> str:
    """The first 400 characters of the narrowest and the widest network of each kind, smallest seed, as they came."""
    told = []
    for level in LEVELS:
        for architecture in SHOWN:
            some = selection.networks(level, architecture)
            ends = list(dict.fromkeys([*list(some)[:1], *list(some)[-1:]]))
            for network in ends:
                for run in some[network][:1]:
                    shown = run.result["sample"].replace("```", "'''")
                    told.append(f"**{network}, {level}s**, seed {run.seed}:\n\n```text\n{shown}\n```")
    return "\n\n".join(told) or "Nothing is recorded yet."


def _name(network: Network, beside: Iterable[Network]) -> str:
    """As in "LSTM 64, words"; with how many words it knows if another of the same name has read the same text."""
    own = (str(network), network.level, network.text)
    alike = sum((str(other), other.level, other.text) == own for other in beside)
    return f"{network}, {network.level}s" + (f" ({network.words:,} known)" if alike > 1 and network.words else "")


def _named(some: Sequence[tuple[Network, Runs]]) -> list[tuple[str, Callable[[tuple[Network, Runs]], Any]]]:
    every = [network for network, _ in some]
    return [
        ("network", lambda row: _name(row[0], every)),
        ("read", lambda row: TEXTS[row[0].text]),
        ("seeds", lambda row: len(row[1])),
        ("nats per character", _mean(lambda run: run.loss, "z.3f")),
    ]


def _ratio(band: tuple[int, int]) -> Callable[[WrittenRun], float]:
    return lambda run: run.ratio(band).value


def _speed(run: WrittenRun) -> float:
    return float(run.result["written_characters"] / run.result["writing_seconds"])


def _mean(number: Callable[[WrittenRun], float], form: str) -> Callable[[tuple[Network, Runs]], Any]:
    """A cell: mean over the seeds, and the smallest to the largest of several; None where a seed has no number."""

    def cell(row: tuple[Network, Runs]) -> Any:
        values = [float(number(run)) for run in row[1]]
        return mean_and_span(values, form) if np.isfinite(values).all() else None

    return cell
