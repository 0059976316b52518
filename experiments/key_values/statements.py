"""What is asked of networks that recall facts; the rules were fixed before any recorded run.

The claim is the book's own: where the information between the halves of a document grows, as L2M (2025) says of text, a
Transformer keeps all of it, a state of fixed size does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
from lib.information.intervals import Interval, paired_mean, seed_mean
from lib.report.gate import Plateau, all_ways, refuting
from lib.report.verdicts import judge

CLAIM = "book-recall"
RECALLED = 0.95  # at least, of what can be recalled: a Transformer; its first training, before the rule, had 0.98
LOST = 0.05  # at least, of the share recalled, between the shortest and the longest documents: a state of fixed size
HALF = 0.5  # of the excess: what is lost is lost by age if more of it is due to that
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
        "fixed states lose facts": judge_lost(everything, told),
        "a larger state recalls more": judge_sizes(everything, told),
        "they are lost by age": judge_age(everything, told),
    }


def judge_share(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """The Transformer recalls at least RECALLED of what can be recalled, at every length, in every seed."""
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


def judge_lost(runs: Sequence[FactRun], told: Sequence[int]) -> str:
    """Every network whose state has a fixed size recalls a smaller share of long documents than of short ones."""
    ends = (told[0], told[-1]) if len(told) > 1 else (0, 0)
    cases = {network: _difference(runs, (network, ends[0]), (network, ends[1])) for network in FIXED}
    ways = {network: plateau(runs, [(network, pairs) for pairs in ends if len(told) > 1]) for network in FIXED}
    speaking, way, note = _speaking(cases, ways, LOST)
    return judge(
        CLAIM,
        speaking,
        part="fixed states lose facts",
        at_least=LOST,
        explanation="a state of fixed size recalls a share of longer documents that is hardly smaller",
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
        explanation="most of what is lost are facts about rare keys, not recalled at any age: they were not learned",
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


def _difference(runs: Sequence[FactRun], first: tuple[Network, int], second: tuple[Network, int]) -> Interval:
    """Share that the first recalls minus that of the second, over the seeds that both have."""
    return paired_mean(*({run.seed: run.share for run in deciding(runs, *cell)} for cell in (first, second)))
