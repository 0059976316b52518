"""Tables in Markdown that the chapters on binary sequences share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.binary_sequences.plateaus import SYMBOLS, Trainings, above, lengthened, usual
from experiments.binary_sequences.runs import Network, Networks, Runs, TrainedRun, best, law
from lib.report.gate import FEWEST, Plateau
from lib.report.page import MISSING, Column, listed, span, table

LAST = 3  # epochs
NETWORK: Column = ("network", lambda runs: runs[0].network.name)


def live_table(runs: Runs) -> str:
    """What became of single runs."""
    columns: list[Column] = [
        ("network", lambda run: run.network.name),
        ("seed", lambda run: run.seed),
        ("parameters", lambda run: run.result["parameter_count"]),
        ("epochs", lambda run: len(run.result["validation_losses"])),
        ("validation loss (nats)", lambda run: f"{run.validation_loss:.4f}"),
    ]
    return table(columns, runs)


def training_table(networks: Networks) -> str:
    """How the training of every network ended, over its seeds."""
    columns: list[Column] = [
        NETWORK,
        ("parameters", lambda runs: runs[0].result["parameter_count"]),
        ("seeds", len),
        ("ended by itself", lambda runs: sum(run.converged for run in runs)),
        ("validation loss (nats per symbol)", lambda runs: span([run.validation_loss for run in runs], ".4f")),
        (f"gained in the last {LAST} epochs, at most ($10^{{-3}}$ nats)", _late_gain),
    ]
    return table(columns, networks.values())


def law_table(networks: Networks) -> str:
    """Which law every seed of every network follows, and the difference of AIC as if points were independent."""
    columns: list[Column] = [
        NETWORK,
        ("each seed", lambda runs: ", ".join(run.measured.law for run in runs)),
        ("all seeds", law),
        ("AIC difference if lags were independent, positive for the power law", _aic_differences),
    ]
    return table(columns, networks.values())


def tail_table(networks: Networks) -> str:
    """Which law the tail of every seed follows, where it lies, and the length on which it falls by e."""
    columns: list[Column] = [
        NETWORK,
        ("each seed", lambda runs: ", ".join(run.tail_law if run.tail else MISSING for run in runs)),
        ("lags", lambda runs: _ends([run.result["long_lags"][run.tail_points] for run in runs if run.tail])),
        ("$\\xi$ of the tail (symbols)", lambda runs: span([run.tail_length for run in runs if run.tail], ".0f")),
    ]
    return table(columns, networks.values())


def length_table(networks: Networks) -> str:
    """Correlation length of the best seed with both 95 % intervals, and of all seeds, in symbols."""
    columns: list[Column] = [
        NETWORK,
        ("best seed", lambda runs: f"{best(runs).measured.xi:.1f}"),
        ("textbook interval", lambda runs: _interval(runs, "textbook")),
        ("sampling interval", lambda runs: _interval(runs, "sampling")),
        ("all seeds", lambda runs: listed((run.measured.xi for run in runs), ".1f")),
    ]
    return table(columns, networks.values())


def choice_table(networks: Networks) -> str:
    """What a choice changes: correlation length, loss and law of networks that differ by their variant."""
    columns: list[Column] = [
        ("choice", lambda runs: runs[0].network.variant or "as everywhere else"),
        ("seeds", len),
        ("$\\xi$, best seed", lambda runs: f"{best(runs).measured.xi:.0f}"),
        ("$\\xi$, all seeds", lambda runs: span([run.measured.xi for run in runs], ".0f")),
        ("validation loss (nats)", lambda runs: span([run.validation_loss for run in runs], ".4f")),
        ("law of all seeds", law),
    ]
    return table(columns, networks.values())


def excess_table(conditions: Mapping[str, Mapping[str, Networks]], optimum: float) -> str:
    """Excess of the validation loss over the optimum (nats per symbol) by condition and network, over its seeds."""
    rows = [
        (condition, runs)
        for condition, by_name in conditions.items()
        for some in by_name.values()
        for runs in some.values()
    ]
    columns: list[Column] = [
        ("condition", lambda row: row[0]),
        ("network", lambda row: row[1][0].network.name),
        ("seeds", lambda row: len(row[1])),
        ("epochs", lambda row: span([len(run.result["validation_losses"]) for run in row[1]], "d")),
        ("excess (nats per sequence)", lambda row: span([above(run, optimum) for run in row[1]], ".2g")),
    ]
    return table(columns, rows)


def method_table(found: Mapping[Network, Trainings], optimum: float) -> str:
    """Networks that were trained by more than one method: what each left of the loss, and the lengths that it gives."""
    rows = [
        (network, name, usual(runs))
        for network, tried in found.items()
        if len(tried.methods) > 1
        for name, runs in tried.methods.items()
    ]
    columns: list[Column] = [
        ("network", lambda row: row[0].name),
        ("trained by", lambda row: row[1]),
        ("seeds", lambda row: len(row[2])),
        ("epochs", lambda row: span([len(run.result["validation_losses"]) for run in row[2]], "d")),
        *_ended(optimum, lambda row: row[2]),
    ]
    return table(columns, rows)


def beginning_table(tried: Trainings, optimum: float) -> str:
    """Where steps of second order began, and what they left; budgets that `FEWEST` seeds have, the shortest first."""
    budgets: dict[tuple[int, int, float], list[TrainedRun]] = {}
    for key, run in sorted(tried.runs.items(), key=lambda item: (item[0].epochs, item[0].rate, item[0].seed)):
        if run.second_order:
            budgets.setdefault((key.epochs - run.steps, run.steps, key.rate), []).append(run)
    columns: list[Column] = [
        ("epochs of Adam before", lambda row: row[0][0]),
        ("at a rate of", lambda row: f"{row[0][2]:g}"),
        ("steps, at most", lambda row: row[0][1]),
        ("seeds", lambda row: len(row[1])),
        ("steps made", lambda row: span([len(run.result["validation_losses"]) - row[0][0] for run in row[1]], "d")),
        *_ended(optimum, lambda row: row[1]),
    ]
    return table(columns, [row for row in budgets.items() if len(row[1]) >= FEWEST])


def _ended(optimum: float, runs: Callable[[Any], Runs]) -> list[Column]:
    """What trainings left of both losses, and the lengths that they give."""
    return [
        ("excess (nats per sequence)", lambda row: span([above(run, optimum) for run in runs(row)], ".2g")),
        (
            "training loss of the last pass less the same optimum",
            lambda row: span([SYMBOLS * (run.training_loss - optimum) for run in runs(row)], ".2f"),
        ),
        (r"fitted $\xi$", lambda row: span([run.measured.xi for run in runs(row)], ".0f")),
    ]


def gate_table(gates: Mapping[Network, Plateau]) -> str:
    """What the gate says of every network."""
    columns: list[Column] = [
        ("network", lambda row: row[0].name),
        ("passes the gate", lambda row: "yes" if row[1].reached else f"no, {row[1].reason}"),
        ("why", lambda row: row[1].sentence),
    ]
    return table(columns, gates.items())


def budget_table(found: Mapping[Network, Trainings], optimum: float) -> str:
    """What at least twice the budget changes in the seeds that have it: their excess, and the lengths they give."""
    rows = [(network, *pairs) for network, tried in found.items() if (pairs := lengthened(tried))]

    def change(of: Callable[[TrainedRun], float], spec: str) -> Callable[[Any], str]:
        return lambda row: ", ".join(f"{of(short):{spec}} → {of(long):{spec}}" for short, long in row[2])

    columns: list[Column] = [
        ("network", lambda row: row[0].name),
        ("epochs", lambda row: "{}\u00a0→\u00a0{}".format(*row[1])),
        ("seeds", lambda row: len(row[2])),
        ("excess (nats per sequence)", change(lambda run: above(run, optimum), ".2g")),
        (r"fitted $\xi$", change(lambda run: run.measured.xi, ".0f")),
    ]
    return table(columns, rows)


def _ends(lags: Sequence[Sequence[int]]) -> str | None:
    return f"{min(some[0] for some in lags)} to {max(some[-1] for some in lags)}" if lags else None


def _aic_differences(runs: Runs) -> str:
    compared = [run.measured.comparisons for run in runs]
    return ", ".join(f"{found[0].aic_difference:.0f}" if found else MISSING for found in compared)


def _interval(runs: Runs, kind: str) -> str | None:
    found = best(runs).measured.correlation_length
    return None if found is None else span(getattr(found, kind) or (), ".1f")


def _late_gain(runs: Runs) -> str | None:
    courses = [run.result["validation_losses"] for run in runs]
    gains = [min(course[:-LAST]) - min(course) for course in courses if len(course) > LAST]
    return f"{1e3 * max(gains):.2f}" if gains else None
