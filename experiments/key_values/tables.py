"""Tables of networks that recall facts, in Markdown."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from statistics import fmean

import numpy as np

from experiments.key_values.runs import EXPERIMENT, FactRun, Runs, deciding, lengths, networks, plateau
from experiments.key_values.statements import HALF, LOST, RECALLED, TRANSFORMER
from experiments.key_values.yardsticks import by_age_of_decay, by_age_of_keys, like_keys, share_of_keys
from lib.report.page import Column, mean_and_span, table


def network_table(runs: Iterable[FactRun], pairs: int) -> str:
    """Every network at one length: its state, what it recalls, the equal of it in keys, and how it loses."""
    everything = list(runs)

    def reached(own: Runs) -> str:
        found = plateau(everything, [(own[0].network, pairs)])
        return "yes" if found.reached else found.reason

    columns: list[Column] = [
        ("network", lambda own: own[0].network.name),
        ("numbers in the state", lambda own: f"{own[0].result['state_size']:,}"),
        ("updates", lambda own: _budget(own[0]).replace(" updates", "")),
        ("seeds", len),
        ("share recalled", lambda own: mean_and_span([run.share for run in own], ".3f")),
        ("as if it knew keys", lambda own: mean_and_span([_keys(run) for run in own], ".1f")),
        ("lost by age", lambda own: _known([run.forgotten for run in own])),
        ("the same of a memory of these keys", lambda own: _known([_of_memory(run) for run in own])),
        ("carried across the middle", lambda own: f"{_mean(own, 'carried'):.2f} of {_mean(own, 'shared'):.2f}"),
        ("plateau", reached),
    ]
    rows = [deciding(everything, network, pairs) for network in networks(everything)]
    return table(columns, [own for own in rows if own])


def answer(runs: Iterable[FactRun]) -> str:
    """One sentence: what the Transformer recalls of the longest documents, and what the others do."""
    everything = list(runs)
    if not everything:
        return f"No network is recorded yet: `python -m lib sweep {EXPERIMENT}` trains them."
    longest = lengths(everything)[-1]
    there = [
        f"{network.name} {fmean(run.share for run in own):.0%}{_caveat(everything, own)}"
        for network in networks(everything)
        if (own := deciding(everything, network, longest))
    ]
    return f"Of the facts that can be recalled in documents of {longest} pairs: {', '.join(there)}."


def lost(runs: Iterable[FactRun]) -> str:
    """Which networks lose what is old in the longest documents, and which lose rare keys at any age, in words."""
    everything = list(runs)
    if not everything:
        return ""
    longest = lengths(everything)[-1]
    by_age: dict[bool, list[str]] = {True: [], False: []}
    for network in networks(everything):
        shares = [x for run in deciding(everything, network, longest) if not np.isnan(x := run.forgotten)]
        if shares:
            by_age[fmean(shares) > HALF].append(f"{network.name} ({fmean(shares):.0%})")
    told = [
        f"{what}: {', '.join(names)}"
        for what, names in (("mostly what is old", by_age[True]), ("mostly rare keys, at any age", by_age[False]))
        if names
    ]
    least = min(_one_pair_after(run) for one in networks(everything) for run in deciding(everything, one, longest))
    return (
        f"What is lost in documents of {longest} pairs, with the share that is lost by age: {'; '.join(told)}. Is it "
        "forgotten within one pair, which that share leaves out? Of facts about the four most frequent keys "
        f"every network recalls {least:.0%} or more one pair after their mention."
    )


def rarest(runs: Iterable[FactRun]) -> str:
    """What the Transformer recalls of the rarest keys of the longest documents, and which memory passes the rule."""
    everything = list(runs)
    longest = max(lengths(everything), default=0)
    own = deciding(everything, TRANSFORMER, longest)
    if not own:
        return ""
    (first, last), source = own[0].result["ranks"][-1], own[0].source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no fact of an age
        by_age = np.nanmean([run.recalled[-1] for run in own], axis=0)
    shares = [run.recalled_of_rarest for run in own]
    enough = next(
        keys
        for keys in range(source.topics + 1)
        if all(share_of_keys(source, pairs, keys) >= RECALLED for pairs in lengths(everything))
    )
    return (
        f"Most facts are about frequent keys: a memory that never forgets {enough} of the {source.topics} keys and "
        f"knows no other also recalls {RECALLED:.0%} at every length. Keys {first} to {last} are "
        f"{own[0].part_of_rarest:.1%} of the known facts in documents of {longest} pairs. Of those the Transformer "
        f"recalls {min(shares):.0%} to {max(shares):.0%} by seed, and {np.nanmin(by_age):.0%} to "
        f"{np.nanmax(by_age):.0%} by age (means of the seeds)."
    )


def beside_memories(runs: Iterable[FactRun]) -> str:
    """Why a memory stands beside the rules on what is lost: numbers of two, exact or of the tested documents."""
    everything = list(runs)
    if len(lengths(everything)) < 2:
        return ""
    run, (shortest, *_, longest) = everything[-1], lengths(everything)
    shares = [share_of_keys(run.source, pairs, 8) for pairs in (shortest, longest)]
    decay = by_age_of_decay(run.source, longest, 0.5, run.parameters["tested"])
    return (
        f"Longer documents ask for rarer keys: a memory that forgets nothing and knows 8 keys recalls {shares[0]:.0%} "
        f"at {shortest} pairs and {shares[1]:.0%} at {longest}. So *fixed states lose facts* asks that a network loses "
        f"{LOST:g} more than a memory that forgets nothing and is as good as it in the longest documents (until the "
        f"results were known, {LOST:g} alone; no verdict moved). *Lost by age* leaves out what is lost within one "
        "pair: of a memory that loses each fact, of whatever key, with chance 1/2 at every pair, it is "
        f"{decay:.2f} at {longest} pairs."
    )


def diverged(runs: Iterable[FactRun]) -> str:
    """Which networks diverged in longer trainings on the longest documents, and what then speaks; "" for none."""
    everything, told = list(runs), []
    for network in networks(everything):
        own = deciding(everything, network, lengths(everything)[-1])
        alike = [run for run in everything if own and (run.network, run.pairs) == (network, own[0].pairs)]
        longer = Counter(_budget(run) for run in alike if run.diverged and run.updates > own[0].updates)
        if not longer:
            continue
        budget, seeds = longer.most_common(1)[0]
        planned = sum(_budget(run) == budget for run in alike)
        sentence = f"{network.name} diverged in {seeds} of {planned} seeds of {budget}, so that {_budget(own[0])} speak"
        if better := _better(everything, own):
            sentence += f"; one run of {_budget(better)} ended, and recalls {better.share:.2f} of the facts in "
            sentence += f"documents of {better.pairs} pairs, where the table has {fmean(run.share for run in own):.2f}"
        told.append(sentence[0].upper() + sentence[1:] + ".")
    return " ".join(told)


def _caveat(runs: Runs, own: Runs) -> str:
    if len(own) == 1:
        return " (one seed)"
    if plateau(runs, [(own[0].network, own[0].pairs)]).reached:
        return ""
    better = _better(runs, own)
    return f" (not at a plateau; one run of {_budget(better)}: {better.share:.0%})" if better else " (not at a plateau)"


def _better(runs: Runs, own: Runs) -> FactRun | None:
    """Of trainings of the same network with another budget or rate, the one that recalls most; None if no more.

    Those that diverged are left out.
    """
    first = own[0]
    others = [
        run
        for run in runs
        if run.measured and not run.diverged
        and (run.network, run.pairs) == (first.network, first.pairs) and _budget(run) != _budget(first)
    ]  # fmt: skip
    best = max(others, key=lambda run: run.share, default=first)
    return best if best.share > fmean(run.share for run in own) and best is not first else None


def _budget(run: FactRun) -> str:
    return f"{run.updates:,} updates at {run.training.rate:g}"


def _one_pair_after(run: FactRun) -> float:
    """Share recalled of facts about keys of the first two bins of ranks that were mentioned one pair before."""
    losses, facts = (np.array(run.result[name], dtype=np.float64)[:2, 0].sum() for name in ("by_rank_and_age", "facts"))
    return float(1.0 - losses / facts / np.log(run.source.values))


def _of_memory(run: FactRun) -> float:
    """The share "lost by age" of a memory that never forgets and knows as many keys."""
    return by_age_of_keys(run.source, run.pairs, _keys(run), run.parameters["tested"])


def _known(shares: list[float]) -> str | None:
    return mean_and_span([share for share in shares if not np.isnan(share)], ".2f")


def _keys(run: FactRun) -> float:
    return like_keys(run.source, run.pairs, run.excess)


def _mean(runs: Runs, name: str) -> float:
    return float(np.mean([run.result[name] for run in runs]))
