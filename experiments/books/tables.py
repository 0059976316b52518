"""Tables of networks on long documents, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from experiments.books.contrasts import Crossing
from experiments.books.runs import PUBLISHED, Counted, Network, Networks, Runs
from experiments.books.statements import Comparisons, Pair
from lib.information.intervals import Interval
from lib.report.page import Column, markdown_table, mean_and_span, table
from lib.training.settings import FitSettings

THEIRS = {"steps": 235_000, "batch": 8, "context": 4096}
"""L2M (2025), App. E: how its networks were trained on books."""


def setting_table(runs: Runs) -> str:
    """How the networks were trained and scored, beside the paper (App. E). Raises ValueError without runs."""
    if not runs:
        raise ValueError("runs: at least one is needed, got none")
    first = runs[0]
    fit, result = FitSettings(**first.parameters["fit"]), first.result
    ours, theirs = first.steps * first.batch * first.context, math.prod(THEIRS.values())
    documents = result["documents"]
    return markdown_table(
        ["", "here", "paper"],
        [
            ["text", f"{sum(documents)} novels", "PG19"],
            ["kept for validation and test", f"{documents[1]} and {documents[2]} whole novels", "not stated"],
            ["tokens of the text trained on", f"{result['tokens_for_training']:,}", "not stated"],
            ["vocabulary", f"{result['vocabulary']:,} byte pairs", "50,277 (GPT-NeoX)"],
            ["characters per token", f"{result['characters_per_token']:.2f}", "not stated"],
            ["context $L$", f"{first.context:,}", f"{THEIRS['context']:,}"],
            ["windows a step", f"{fit.batch}", f"{THEIRS['batch']}"],
            ["steps", f"{first.steps:,}", f"{THEIRS['steps']:,}"],
            ["tokens trained on", f"{ours:,}", f"{theirs:,}, {theirs / ours:,.0f} times as many"],
            ["learning rate, AdamW", f"{fit.learning_rate:g}", "0.00005"],
            ["warm-up steps, then a cosine", f"{fit.warm_up}", "2,000"],
            ["windows of the test", f"{result['test_windows']:,}", "10,000"],
        ],
    )


def network_table(networks: Networks, comparisons: Comparisons) -> str:
    """Sizes, losses and what a longer context brings to each network."""

    def of_first(key: str) -> Callable[[Runs], str]:
        return lambda runs: f"{runs[0].result[key]:,}"

    columns: list[Column] = [
        ("network", lambda runs: runs[0].network),
        ("parameters of layers", of_first("body_parameter_count")),
        ("of all", of_first("parameter_count")),
        ("state at $L$", of_first("state_size")),
        ("seeds", len),
        ("NLL (seeds)", lambda runs: mean_and_span([run.mean for run in runs], ".3f")),
        ("early minus late", lambda runs: comparisons.decline(runs[0].network)),
        ("tokens/s", lambda runs: _speed(runs)),
    ]
    return table(columns, networks.values())


def _speed(runs: Runs) -> str | None:
    """Mean of tokens a second; a run that was stopped behind its last epoch has 0, which is no speed."""
    known = [speed for run in runs if (speed := run.result["tokens_per_second"])]
    return f"{fmean(known):,.0f}" if known else None


def ladder_table(networks: Networks, counted: Sequence[Counted]) -> str:
    """Networks among tables of counts by their mean NLL, the largest loss first."""
    rows = [(mean_of(runs), f"**{network}**", "all") for network, runs in networks.items()]
    for tables in counted:
        words = f"counts of {tables.tokens / 1e6:.1f} million tokens"
        rows += [(float(mean), words, f"{order}") for order, mean in enumerate(tables.means)]
    ordered = [[name, seen, f"{mean:.3f}"] for mean, name, seen in sorted(rows, reverse=True)]
    return markdown_table(["predictor", "tokens of the past it can see", "NLL"], ordered)


def published_table(networks: Networks, there: Mapping[str, Network]) -> str:
    """Table F.1 beside the networks that stand in its places (`roles`), from the smallest printed loss."""
    ours = {name: mean_of(networks[chosen]) for name, chosen in there.items() if chosen in networks}
    printed = {name: nll for name, (_, nll) in PUBLISHED.items()}
    places, ranks = _places(printed), _places(ours)
    columns: list[Column] = [
        ("paper, $L$ = 4096", str),
        ("NLL", lambda name: f"{printed[name]:.3f}"),
        ("place", places.get),
        ("in its place here", there.get),
        ("NLL here", lambda name: f"{ours[name]:.3f}" if name in ours else None),
        ("place here", ranks.get),
    ]
    return table(columns, places)


def order_table(pairs: Sequence[tuple[str, str, float, Interval, str]]) -> str:
    """Every pair of Table F.1: printed difference, ours with its interval, and whether the order is the same."""
    rows = [[f"{second} minus {first}", f"{printed:+.3f}", *found] for first, second, printed, *found in pairs]
    return markdown_table(["pair", "printed", "here", "order"], rows)


def pair_table(pairs: Sequence[Pair], comparisons: Comparisons, crossings: Mapping[Pair, Crossing]) -> str:
    """Mamba minus Transformer early and late, what the Transformer gains, and where the curves cross."""
    columns: list[Column] = [
        ("pair", lambda pair: f"{pair[1]} minus {pair[0]}"),
        ("early", comparisons.early),
        ("late", comparisons.late),
        ("gain of the Transformer", comparisons.gain),
        ("crossing (tokens seen)", lambda pair: _crossing(crossings[pair])),
        ("within the context", lambda pair: f"{100 * crossings[pair].within:.0f} %"),
    ]
    return table(columns, (pair for pair in pairs if pair in crossings))


def mean_of(runs: Runs) -> float:
    """Mean NLL over seeds, nats per token."""
    return fmean(run.mean for run in runs)


def _places(losses: Mapping[str, float]) -> dict[str, int]:
    """Names by their loss, the smallest first, with their places from 1."""
    return {name: place for place, name in enumerate(sorted(losses, key=lambda name: losses[name]), 1)}


def _crossing(found: Crossing) -> str:
    return f"{_place(found.value)} [{_place(found.low)}, {_place(found.high)}]"


def _place(tokens: float) -> str:
    if math.isnan(tokens):
        return "reversed"
    return "beyond" if math.isinf(tokens) else "before" if tokens == 0 else f"{tokens:.0f}"
