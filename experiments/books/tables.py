"""Tables of networks on long documents, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from experiments.books.contrasts import Crossing
from experiments.books.runs import PUBLISHED, BookRun, Counted, Network, Networks
from experiments.books.statements import Comparisons, Pair
from lib.information.intervals import Interval
from lib.report.tables import markdown_table
from lib.training.settings import FitSettings

MISSING = "–"
THEIRS = {"steps": 235_000, "batch": 8, "context": 4096}
"""L2M (2025), App. E: how its networks were trained on books."""


def setting_table(runs: Sequence[BookRun]) -> str:
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
            ["characters a token", f"{result['characters_per_token']:.2f}", "not stated"],
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
    rows = []
    for network, runs in networks.items():
        result = runs[0].result
        means = [run.mean for run in runs]
        rows.append(
            [
                f"{network}",
                f"{result['body_parameter_count']:,}",
                f"{result['parameter_count']:,}",
                f"{result['state_size']:,}",
                f"{len(runs)}",
                f"{sum(means) / len(means):.3f} ({min(means):.3f} to {max(means):.3f})",
                f"{comparisons.decline(network)}",
                f"{sum(run.result['tokens_per_second'] for run in runs) / len(runs):,.0f}",
            ]
        )
    head = ["network", "parameters of layers", "of all", "state at $L$", "seeds", "NLL (seeds)"]
    return markdown_table([*head, "early minus late", "tokens/s"], rows)


def ladder_table(networks: Networks, counted: Sequence[Counted]) -> str:
    """Networks among tables of counts by their mean NLL, the largest loss first."""
    rows = [(sum(run.mean for run in runs) / len(runs), f"**{network}**", "all") for network, runs in networks.items()]
    for tables in counted:
        words = f"counts of {tables.tokens / 1e6:.1f} million tokens"
        rows += [(float(mean), words, f"{order}") for order, mean in enumerate(tables.means)]
    ordered = sorted(rows, reverse=True)
    return markdown_table(
        ["predictor", "tokens of the past it can see", "NLL"],
        [[name, seen, f"{mean:.3f}"] for mean, name, seen in ordered],
    )


def published_table(networks: Networks, there: Mapping[str, Network]) -> str:
    """Table F.1 beside the networks that stand in its places (`roles`), from the smallest printed loss."""
    ours = {
        name: sum(run.mean for run in networks[chosen]) / len(networks[chosen])
        for name, chosen in there.items()
        if chosen in networks
    }
    ranks = {name: place for place, name in enumerate(sorted(ours, key=lambda name: ours[name]), 1)}
    rows = [
        [
            name,
            f"{PUBLISHED[name][1]:.3f}",
            f"{place}",
            f"{there.get(name, MISSING)}",
            f"{ours[name]:.3f}" if name in ours else MISSING,
            f"{ranks.get(name, MISSING)}",
        ]
        for place, name in enumerate(sorted(PUBLISHED, key=lambda name: PUBLISHED[name][1]), 1)
    ]
    return markdown_table(["paper, $L$ = 4096", "NLL", "place", "in its place here", "NLL here", "place here"], rows)


def order_table(pairs: Sequence[tuple[str, str, float, Interval, str]]) -> str:
    """Every pair of Table F.1: printed difference, ours with its interval, and whether the order is the same."""
    rows = [
        [f"{second} minus {first}", f"{printed:+.3f}", f"{ours}", word] for first, second, printed, ours, word in pairs
    ]
    return markdown_table(["pair", "printed", "here", "order"], rows)


def pair_table(pairs: Sequence[Pair], comparisons: Comparisons, crossings: Mapping[Pair, Crossing]) -> str:
    """Mamba minus Transformer early and late, what the Transformer gains, and where the curves cross."""
    rows = []
    for pair in pairs:
        if pair in crossings:
            numbers = [f"{getattr(comparisons, kind)(pair)}" for kind in ("early", "late", "gain")]
            rows.append([f"{pair[1]} minus {pair[0]}", *numbers, *_crossing(crossings[pair])])
    head = ["pair", "early", "late", "gain of the Transformer", "crossing (tokens seen)", "within the context"]
    return markdown_table(head, rows)


def _crossing(found: Crossing) -> list[str]:
    ends = f"{_place(found.value)} [{_place(found.low)}, {_place(found.high)}]"
    return [ends, f"{100 * found.within:.0f} %"]


def _place(tokens: float) -> str:
    if math.isnan(tokens):
        return "reversed"
    return "beyond" if math.isinf(tokens) else "before" if tokens == 0 else f"{tokens:.0f}"
