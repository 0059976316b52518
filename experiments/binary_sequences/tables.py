"""Tables in Markdown that the chapters on binary sequences share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from experiments.binary_sequences.runs import Network, TrainedRun, best, law, mean_ratio
from lib.report.tables import markdown_table

Networks = Mapping[Network, Sequence[TrainedRun]]
NAMES = {"rnn": "RNN", "lstm": "LSTM", "transformer": "Transformer", "mamba": "Mamba", "mamba2": "Mamba2"}
LAST = 3  # epochs


def training_table(networks: Networks) -> str:
    """How the training of every network ended, over its seeds."""
    return markdown_table(
        [
            "network",
            "parameters",
            "seeds",
            "ended by itself",
            "validation loss (nats a symbol)",
            f"gained in the last {LAST} epochs, at most ($10^{{-3}}$ nats)",
        ],
        (
            [
                named(network),
                f"{runs[0].result['parameter_count']}",
                f"{len(runs)}",
                f"{sum(run.converged for run in runs)}",
                _range([run.validation_loss for run in runs], ".4f"),
                _late_gain(runs),
            ]
            for network, runs in networks.items()
        ),
    )


def law_table(networks: Networks) -> str:
    """Which law every seed of every network follows, and the difference of AIC as if points were independent."""
    return markdown_table(
        ["network", "each seed", "all seeds", "AIC difference if lags were independent, positive for the power law"],
        (
            [
                named(network),
                ", ".join(run.measured.law for run in runs),
                law(runs),
                ", ".join(
                    f"{run.measured.comparisons[0].aic_difference:.0f}" if run.measured.comparisons else "–"
                    for run in runs
                ),
            ]
            for network, runs in networks.items()
        ),
    )


def length_table(networks: Networks) -> str:
    """Correlation length of the best seed with both 95 % intervals, and of all seeds, in symbols."""
    return markdown_table(
        ["network", "best seed", "textbook interval", "sampling interval", "all seeds"],
        (
            [
                named(network),
                f"{best(runs).measured.xi:.1f}",
                *_intervals(best(runs)),
                ", ".join(f"{run.measured.xi:.1f}" for run in runs),
            ]
            for network, runs in networks.items()
        ),
    )


def choice_table(networks: Networks) -> str:
    """What a choice changes: correlation length, loss and law of networks that differ by their variant."""
    return markdown_table(
        ["choice", "seeds", "$\\xi$, best seed", "$\\xi$, all seeds", "validation loss (nats)", "law of all seeds"],
        (
            [
                network.variant or "as everywhere else",
                f"{len(runs)}",
                f"{best(runs).measured.xi:.0f}",
                _range([run.measured.xi for run in runs], ".0f"),
                _range([run.validation_loss for run in runs], ".4f"),
                law(runs),
            ]
            for network, runs in networks.items()
        ),
    )


def ratio_table(networks: Networks, exact: npt.ArrayLike, last: int) -> str:
    """Mean of I over the exact law (nats at lags 1, 2, ...) up to the lag `last`, every seed."""
    return markdown_table(
        ["network", f"mean of $I$ over the exact law, lags 1 to {last}, every seed"],
        (
            [named(network), ", ".join(f"{mean_ratio(run, exact, 1, last):.2f}" for run in runs)]
            for network, runs in networks.items()
        ),
    )


def named(network: Network) -> str:
    """Architecture and size in words."""
    return f"{NAMES[network.architecture]} {network}"


def _intervals(run: TrainedRun) -> list[str]:
    found = run.measured.correlation_length
    both = [None, None] if found is None else [found.textbook, found.sampling]
    return ["–" if ends is None else f"{ends[0]:.1f} to {ends[1]:.1f}" for ends in both]


def _late_gain(runs: Sequence[TrainedRun]) -> str:
    courses = [run.result["validation_losses"] for run in runs]
    gains = [min(course[:-LAST]) - min(course) for course in courses if len(course) > LAST]
    return f"{1e3 * max(gains):.2f}" if gains else "–"


def _range(values: Sequence[float], form: str) -> str:
    return f"{min(values):{form}} to {max(values):{form}}"
