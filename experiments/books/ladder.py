"""Two networks trained for shorter and for longer: who has the smaller late loss where early losses are equal?

The argument of the paper is about networks that are alike early. Two that are not after equal numbers of tokens
can be, if one is trained for longer than the other. A rung is a network after one number of tokens; the longer ones,
with more windows a step, are of an experiment of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from experiments.books.runs import BookRun, Network, Networks, of_networks, usual_budget
from experiments.books.statements import NEAR, Comparisons, Pair, early_loss, late_loss
from lib.report.page import Column, markdown_table, table
from lib.report.verdicts import FEWEST_SEEDS

ROTARY = Network("transformer", 2, 64, "rotary positions")
MAMBA = Network("mamba", 4, 64)
RATE = 0.015  # of the rungs
LONG = "l2m-fig5-long"


def rungs(runs: Iterable[BookRun], network: Network) -> dict[Network, list[BookRun]]:
    """The trainings of a network at `RATE` by the tokens they were on, the shortest first.

    The tokens are told in the variant of the network that is the key, and in that of its runs.
    """
    given = [run for run in runs if run.measured and run.network == network and run.budget[1] == RATE]
    own = sorted(given, key=lambda run: (run.tokens, run.seed))
    found: dict[Network, list[BookRun]] = {}
    for run in own:
        words = [word for word in (network.variant, f"{run.tokens / 1e6:.1f} million tokens") if word]
        rung = replace(network, variant=", ".join(words))
        found.setdefault(rung, []).append(replace(run, network=rung))
    return found


def equal_early(first: Networks, second: Networks, fewest: int = FEWEST_SEEDS) -> list[Pair]:
    """Every rung of `first` with that of `second` whose early loss is nearest, where they differ by `NEAR` at most.

    Both have at least `fewest` seeds.
    """
    seeded = [{rung: early_loss(runs) for rung, runs in of.items() if len(runs) >= fewest} for of in (first, second)]
    pairs = []
    for rung, loss in seeded[0].items():
        others = {other: abs(early - loss) for other, early in seeded[1].items()}
        nearest = min(others, key=others.__getitem__, default=None)
        if nearest is not None and others[nearest] <= NEAR:
            pairs.append((rung, nearest))
    return pairs


def faster(runs: Sequence[BookRun], replicates: int, seed: int) -> Comparisons:
    """The two at `RATE`, after as many epochs as most of these runs have; all of them stand for the gate.

    Raises ValueError without runs.
    """
    pair = of_networks((run for run in runs if run.network in (ROTARY, MAMBA)), variant=None)
    return Comparisons(pair, replicates, seed, budget=(usual_budget(runs)[0], RATE))


def equal_tokens(first: Networks, second: Networks) -> list[Pair]:
    """Rungs of both that were trained on the same number of tokens, by any number of seeds."""
    by_tokens = {runs[0].tokens: rung for rung, runs in second.items()}
    return [(rung, by_tokens[runs[0].tokens]) for rung, runs in first.items() if runs[0].tokens in by_tokens]


def rung_table(compared: Comparisons) -> str:
    """Every rung: its seeds, its loss at early and late positions, and what it gains between them."""
    columns: list[Column] = [
        ("network", lambda runs: runs[0].network),
        ("windows a step", lambda runs: f"{runs[0].batch}"),
        ("seeds", len),
        ("early", lambda runs: f"{early_loss(runs):.3f}"),
        ("late", lambda runs: f"{late_loss(runs):.3f}"),
        ("early minus late", lambda runs: compared.decline(runs[0].network)),
    ]
    return table(columns, compared.networks.values())


def gain_table(compared: Comparisons, pairs: Sequence[Pair]) -> str:
    """Second minus first of every pair early and late, and what the first gains between them."""
    rows = [[*pair, compared.early(pair), compared.late(pair), compared.gain(pair)] for pair in pairs]
    return markdown_table(["first", "second", "early", "late", "gain of the first"], rows)
