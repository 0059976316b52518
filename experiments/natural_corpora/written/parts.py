"""The parts of the claims on networks that write, with their rules, which were fixed before any of them was trained.

Added when results were known: which disagreements decide nothing (`Asked.smaller`), parts about networks that are
planned for the profile `paper` alone, that a long range is judged by intervals (`Asked.interval`), and that the short
one is a geometric mean over distances (`within_words`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.natural_corpora.written.relations import Number, nearness
from experiments.natural_corpora.written.runs import FAR, LONG, MIDDLE, SHORT, Band, WrittenRun, usual
from experiments.natural_corpora.written.selection import Networks, Selection
from lib.information.intervals import Interval


def no_others(selection: Selection) -> Networks:
    return {}


def no_words(selection: Selection) -> str:
    return ""


@dataclass(frozen=True)
class Asked:
    """One part of a claim: of which networks, which number of a run, and the bounds in which every seed has to lie.

    gap: what a number may miss the bounds by without being outside.
    beside: other networks that the number compares with. optional: undecided where no such network is planned.
    smaller: why networks smaller than the paper's, or that read less, decide nothing where they disagree; if empty, it
    differs.
    interval: of a run, if it has to lie within the bounds as a whole and not the number alone. control: what other
    networks say to the same question.
    """

    part: str
    about: Callable[[Selection], Networks]
    number: Callable[[WrittenRun, Selection], float]
    explanation: str
    bounds: tuple[float | None, float | None]  # at least, at most
    gap: float = 0.0
    note: str = ""
    beside: Callable[[Selection], Networks] = field(default=no_others)
    optional: bool = False
    smaller: str = ""
    interval: Callable[[WrittenRun], Interval] | None = None
    control: Callable[[Selection], str] = no_words


def ratio(band: Band) -> Callable[[WrittenRun, Selection], float]:
    """Mean of the written over mean of the read information in a band."""
    return lambda run, _: run.ratio(band).value


def within_words(run: WrittenRun, _: Selection) -> float:
    """Geometric mean of the written over the read information at 1 to 9 characters."""
    return run.geometric_ratio(SHORT)


def all_of(level: str, architecture: str, **options: Any) -> Callable[[Selection], Networks]:
    return lambda selection: selection.networks(level, architecture, **options)


def deep(level: str, architecture: str) -> Callable[[Selection], Networks]:
    """Networks of three layers and more."""

    def some(selection: Selection) -> Networks:
        every = selection.networks(level, architecture, depth=None)
        return {network: runs for network, runs in every.items() if network.depth >= 3}

    return some


def shallow(selection: Selection) -> Networks:
    """The narrowest Transformer of characters with one layer."""
    some = selection.networks("character", "transformer")
    return {network: some[network] for network in sorted(some, key=lambda one: one.width)[:1]}


def deeper(architecture: str) -> Callable[[Selection], Networks]:
    def some(selection: Selection) -> Networks:
        every = selection.networks("character", architecture, depth=None)
        return {network: every[network] for network in selection.pairs(architecture)}

    return some


def flatter(architecture: str) -> Callable[[Selection], Networks]:
    def some(selection: Selection) -> Networks:
        every = selection.networks("character", architecture, depth=None)
        return {network: every[network] for network in selection.pairs(architecture).values()}

    return some


def against_one_layer(number: Number, compare: Callable[[float, float], float]) -> Any:
    """A number of a deep network compared with that of the same seed of one layer; NaN where that has not run."""

    def found(run: WrittenRun, selection: Selection) -> float:
        flat = selection.pairs(run.network.architecture)[run.network]
        others = [one for one in usual(selection.found.get(flat, [])) if one.seed == run.seed]
        return compare(number(run), number(others[0])) if others else np.nan

    return found


def as_little(selection: Selection) -> str:
    """How many Transformers of characters would have no long range, by their numbers alone."""
    networks = selection.networks("character", "transformer", depth=None).values()
    ratios = [run.ratio(LONG).value for runs in networks for run in runs]
    few = sum(value <= LOST for value in ratios)
    told = f"of the Transformers of characters {few} of {len(ratios)} seeds have a value of at most {LOST:g} as well"
    return f"{told}: the range is not seen at this length, which is not to say that LSTMs lack it" if few else ""


def further(run: WrittenRun, selection: Selection) -> float:
    """Is the ratio beyond ten characters above that of the same seed of the widest LSTM? 1, or -1 if it is below.

    0 where the difference is within both their intervals together, NaN where that LSTM has not run.
    """
    band = (MIDDLE[0], LONG[1])
    others = selection.networks(run.network.level, "lstm", widest=True).values()
    same = [other for runs in others for other in runs if other.seed == run.seed]
    if not same or not (own := run.ratio(band)).known or not (theirs := same[0].ratio(band)).known:
        return np.nan
    reach = np.hypot(own.high - own.low, theirs.high - theirs.low) / 2
    difference = own.value - theirs.value
    return float(np.sign(difference)) if abs(difference) > reach else 0.0


WITHIN_WORDS, WITHIN_SENTENCES = (0.8, 1.25), (0.67, 1.5)  # what counts as captured, and as followed
LOST = 0.5  # at most so much is left where the information is lost
NOT_SHORT, NOT_MIDDLE = "the information within words is not the text's", "that within sentences is not the text's"
SMALLER = "smaller networks than the paper's widest, on a tenth of its text: that they fail refutes nothing"
UNNAMED = "the paper does not say of which widths this is true"


def _kept(level: str) -> list[Asked]:
    """The information of LSTM text falls to a constant that is not zero."""
    return [
        Asked(
            f"LSTMs of {level}s keep information at 500 to 1000",
            all_of(level, "lstm"),
            lambda run, _: run.mean("written", FAR).low,
            "it falls to the sampling floor",
            bounds=(0.0, None),
            note="lower end of the interval, nats",
            smaller=SMALLER,
        ),
        Asked(
            f"what LSTMs of {level}s keep is a constant",
            all_of(level, "lstm"),
            lambda run, _: run.levelling().value,
            "the curve goes on falling",
            bounds=(0.8, None),
            note="500 to 1000 over 100 to 499",
            smaller=SMALLER,
        ),
    ]


def _transformers(level: str) -> list[Asked]:
    widest = all_of(level, "transformer", widest=True)
    return [
        Asked(
            f"Transformers of {level}s capture the short range",
            widest,
            within_words,
            NOT_SHORT,
            bounds=WITHIN_WORDS,
            smaller=SMALLER,
        ),
        Asked(
            f"Transformers of {level}s capture the intermediate range",
            widest,
            ratio(MIDDLE),
            NOT_MIDDLE,
            bounds=WITHIN_SENTENCES,
            smaller=SMALLER,
        ),
        Asked(
            f"Transformers of {level}s follow the text further than LSTMs",
            widest,
            further,
            "the LSTM keeps more beyond ten characters",
            bounds=(1.0, None),
            gap=1.0,
            note="1 more than the LSTM, 0 neither, -1 less",
            beside=all_of(level, "lstm", widest=True),
            smaller=SMALLER,
        ),
    ]


ASKED: dict[str, Sequence[Asked]] = {
    "shen-fig2": [
        Asked(
            "LSTMs of characters capture the short range",
            all_of("character", "lstm"),
            within_words,
            NOT_SHORT,
            bounds=WITHIN_WORDS,
            smaller=SMALLER,
        ),
        Asked(
            "LSTMs of characters fall exponentially between 10 and 50",
            all_of("character", "lstm"),
            lambda run, _: run.law(MIDDLE),
            "a power law fits these distances better",
            bounds=(1.0, None),
            gap=1.0,
            note="-1 power law, 0 neither, 1 exponential",
        ),
        Asked(
            "LSTMs of characters have no long range",
            all_of("character", "lstm"),
            ratio(LONG),
            "more than half of the information beyond 50 characters is there",
            bounds=(None, LOST),
            note="from the lowest to the highest end of the intervals of all seeds",
            interval=lambda run: run.ratio(LONG),
            control=as_little,
        ),
        Asked(
            "LSTMs of words follow the text to 50 characters",
            all_of("word", "lstm"),
            ratio(MIDDLE),
            NOT_MIDDLE,
            bounds=WITHIN_SENTENCES,
            smaller=SMALLER,
        ),
        *_kept("character"),
        *_kept("word"),
        Asked(
            "depth brings LSTMs of characters no longer correlation",
            deeper("lstm"),
            against_one_layer(lambda run: run.correlation_length(), lambda two, one: two / one),
            "it lengthens it by more than a quarter",
            bounds=(None, 1.25),
            beside=flatter("lstm"),
        ),
        Asked(
            "LSTMs of characters of width 1024 and more overestimate the short range",
            all_of("character", "lstm", from_width=1024),
            within_words,
            "they do not",
            bounds=(1.0, None),
            optional=True,
        ),
        Asked(
            "LSTMs of words of width 2048 are twice too high at all distances",
            all_of("word", "lstm", from_width=2048),
            ratio((1, 1000)),
            "they are not",
            bounds=(1.5, 3.0),
            optional=True,
        ),
        Asked(
            "LSTMs of words of width 2048 have a tail to 150",
            all_of("word", "lstm", from_width=2048),
            ratio((51, 150)),
            "the tail is lost",
            bounds=(LOST, None),
            optional=True,
        ),
    ],
    "shen-fig3bc": [
        *_transformers("character"),
        Asked(
            "Transformers of characters of width 512 have a tail that is too high",
            all_of("character", "transformer", from_width=512),
            ratio(LONG),
            "it is not",
            bounds=(1.0, None),
            optional=True,
        ),
        *_transformers("word"),
        Asked(
            "Transformers of words with three layers and more have a tail to 500",
            deep("word", "transformer"),
            ratio((100, 500)),
            "the tail is lost",
            bounds=(LOST, None),
            smaller=SMALLER,
        ),
        Asked(
            "the narrowest Transformer of characters is below the text in the short range",
            shallow,
            within_words,
            "it captures the short range",
            bounds=(None, 0.8),
            smaller=UNNAMED,
        ),
        Asked(
            "and its correlation length is longer than that of the text",
            shallow,
            lambda run, _: run.correlation_length() / run.correlation_length("read"),
            "it is not",
            bounds=(1.0, None),
            smaller=UNNAMED,
        ),
        Asked(
            "deeper Transformers of characters come nearer to the text between 10 and 50",
            deeper("transformer"),
            against_one_layer(lambda run: nearness(run, MIDDLE), lambda many, one: many - one),
            "the deeper one is farther from it",
            bounds=(0.0, None),
            beside=flatter("transformer"),
            smaller=SMALLER,
        ),
    ],
}
"""The parts of each claim in the order in which the chapter has them."""
