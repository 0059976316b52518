"""What is asked of networks that recall facts; rules were fixed before any recorded run unless they say so.

The claim is the book's own: where the information between the halves of a document grows, as L2M (2025) says of text, a
Transformer keeps all of it, a state of fixed size does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.key_values.runs import (
    ORDER,
    USUAL_SIZE,
    FactRun,
    Network,
    deciding,
    lengths,
    plateau,
    settled_in_kind,
)
from experiments.key_values.yardsticks import like_keys, share_of_keys
from lib.information.intervals import Interval, paired_mean, seed_mean
from lib.report.gate import Plateau, all_ways, refuting
from lib.report.verdicts import judge

CLAIM = "book-recall"
RECALLED = 0.95  # at least, of what can be recalled: a Transformer; its first training, before the rule, had 0.98
LOST = 0.05  # at least, of the share recalled, from the shortest to the longest documents, beyond what rare keys make
HALF = 0.5  # of the excess: what is lost is lost by age if more of it is due to that
RAREST = "the Transformer recalls the rarest keys"
TRANSFORMER = Network(ORDER.index("transformer"))
FIXED = tuple(
    Network(ORDER.index(name), USUAL_SIZE if name.startswith("mamba") else 0)
    for name in ("sliding_window", "mamba2", "mamba", "linear_attention", "lstm")
)
MAMBA = ORDER.index("mamba")
SMALL, LARGE = Network(MAMBA, 4), Network(MAMBA, 64)


def judge_recall(runs: Iterable[FactRun]) -> dict[str, str]:
    """All parts that rest on trainings, by name."""
    everything = list(runs)
    told = lengths(everything)
    return {
        "the Transformer recalls": judge_share(everything, told),
        RAREST: judge_rarest(everything, told),
        "fixed states lose facts": judge_lost(everything, told),
        "a larger state recalls more": judge_sizes(everything, told),
        "they are lost by age": judge_age(everything, told),
    }


def judge_share(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """The Transformer recalls at least RECALLED of what can be recalled, at every length, in every seed.

    Most of that is about frequent keys: a memory that never forgets 20 of 64 keys, and knows no other, recalls as much.
    """
    part = "the Transformer recalls"
    cases = {f"{pairs} pairs": _shares(runs, TRANSFORMER, pairs) for pairs in told}
    return judge(
        CLAIM,
        cases,
        part=part,
        at_least=RECALLED,
        every_seed=True,
        explanation="the Transformer at a plateau does not recall what its state holds",
        condition="to plateau",
        plateau=plateau(runs, [(TRANSFORMER, pairs) for pairs in told]),
    )


def judge_rarest(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """Beside it: as large a share of the facts about the rarest keys of the longest documents, in every seed.

    A remark, set after the results were known.
    """
    longest = told[-1] if told else 0
    own = deciding(runs, TRANSFORMER, longest)
    shares = [run.recalled_of_rarest for run in own]
    (first, last), part = own[0].result["ranks"][-1] if own else (0, 0), own[0].part_of_rarest if own else 0.0
    return judge(
        CLAIM,
        np.array([[*shares, max(shares)]]) if shares else {},
        part=RAREST,
        at_least=RECALLED,
        explanation="of the rarest keys, which few facts are about, it recalls less",
        condition="to plateau",
        plateau=plateau(runs, [(TRANSFORMER, longest)]),
        note=f"keys {first} to {last}, {part:.1%} of the known facts at {longest} pairs" if own else "",
        remark=True,
    )


def judge_lost(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """Every network whose state has a fixed size loses more with the length of documents than rare keys account for.

    A memory that forgets nothing recalls a smaller share of long documents, too, since they ask for rarer keys. So what
    counts is the share of the shortest documents less that of such a memory which knows as many keys as the network is
    as good as knowing in the longest (`like_keys`): the difference of the shares, less that of the memory. Since the
    results were known; before, it was the difference alone.
    """
    ends = (told[0], told[-1]) if len(told) > 1 else (0, 0)
    cases = {network: _beyond_keys(runs, network, *ends) for network in FIXED}
    ways = {network: plateau(runs, [(network, pairs) for pairs in ends if len(told) > 1]) for network in FIXED}
    speaking, way, note = _speaking(cases, ways, LOST)
    return judge(
        CLAIM,
        speaking,
        part="fixed states lose facts",
        at_least=LOST,
        explanation="a state of fixed size loses hardly more with the length than a memory that forgets nothing",
        condition="to plateau",
        plateau=way,
        note=note,
    )


def judge_sizes(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """On the longest documents Mamba with 16 times the state recalls a share that is larger by at least LOST.

    Less than that is what the gate lets a training change. It differs if the share is smaller.
    """
    longest = told[-1] if told else 0
    return judge(
        CLAIM,
        {f"{longest} pairs": _difference(runs, (LARGE, longest), (SMALL, longest))},
        part="a larger state recalls more",
        at_least=LOST,
        gap=LOST,
        explanation="the size of its state is not what Mamba lacks",
        condition="to plateau",
        plateau=plateau(runs, [(LARGE, longest), (SMALL, longest)]),
    )


def judge_age(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """More than half of what a fixed state loses in the longest documents is lost because it is old.

    What is lost within one pair does not count as that (`share_by_age`).
    Longer trainings may lose no less and other things, so that this share has to be settled, too.
    """
    longest = told[-1] if told else 0
    cases = {network: seed_mean([run.forgotten for run in deciding(runs, network, longest)]) for network in FIXED}
    ways = {
        network: all_ways(plateau(runs, [(network, longest)]), settled_in_kind(runs, network, longest))
        for network in FIXED
    }
    speaking, way, note = _speaking(cases, ways, HALF, "no plateau, or a share that is not settled")
    return judge(
        CLAIM,
        speaking,
        part="they are lost by age",
        at_least=HALF,
        explanation="most of what is lost are facts about rare keys, not recalled even one pair after their mention",
        condition="to plateau",
        plateau=way,
        note=note,
    )


def _speaking(
    cases: Mapping[Network, Interval], ways: Mapping[Network, Plateau], bound: float, silence: str = "no plateau"
) -> tuple[dict[str, Interval], Plateau, str]:
    """Cases by name that are judged, their gate, and a note on those that may not speak and why, as `refuting` says.

    That rule was set when trainings at 128 pairs were known that had not ended.
    """
    networks = list(ways)
    below = [cases[one].known and cases[one].high < bound for one in networks]
    places, gate = refuting(list(ways.values()), lambda passed: any(below[place] for place in passed))
    silent = ", ".join(one.name for place, one in enumerate(networks) if place not in places)
    speaking = {networks[place].name: cases[networks[place]] for place in places}
    return speaking, gate, f"{silence}: {silent}" if silent else ""


def _shares(runs: Sequence[FactRun], network: Network, pairs: int) -> Interval:
    return seed_mean([run.share for run in deciding(runs, network, pairs)])


def _beyond_keys(runs: Sequence[FactRun], network: Network, shortest: int, longest: int) -> Interval:
    """Share of the shortest documents less that of a memory that forgets nothing and is as good in the longest."""
    memory = {
        run.seed: share_of_keys(run.source, shortest, like_keys(run.source, longest, run.excess))
        for run in deciding(runs, network, longest)
    }
    return paired_mean({run.seed: run.share for run in deciding(runs, network, shortest)}, memory)


def _difference(runs: Sequence[FactRun], first: tuple[Network, int], second: tuple[Network, int]) -> Interval:
    """Share that the first recalls minus that of the second, over the seeds that both have."""
    return paired_mean(*({run.seed: run.share for run in deciding(runs, *cell)} for cell in (first, second)))
