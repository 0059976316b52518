"""What is asked of the records: Fig. 7, 8 and 9 and Tables 8 and 9 of Kerg et al. (2020).

The rules were fixed before any run, but for that of how many states a step attends to. Our copy has no images of the
figures. That Fig. 8 shows RelRNN above an RNN is our reading; of the maps of Fig. 7 and 9 nothing is stated that could
differ, so what is asked of them stands beside the claim since the first result, on characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.pixels_and_characters.runs import (
    CharacterRun,
    PixelRun,
    ReadingRun,
    mean_of,
    paired,
    predictors_of,
    readers_of,
)
from lib.information.intervals import Interval
from lib.models.catalogue import NAMES
from lib.report.claims import joined, undecided
from lib.report.verdicts import UNMET, decide, judge

BEYOND_ZERO = 1e-6  # an interval from there on does not hold zero
CONCENTRATED = 1.5  # times the share of attention on the ten states that get most, over that before training
FEWER = 0.5  # nats by which training lowers the entropy of attention at a step: far more than shuffled labels do
SEQUENCES = {"permuted": "permuted", "rows": "row by row"}


def judge_order(runs: Iterable[PixelRun], order: str = "permuted") -> str:
    """Fig. 8, as we read it: after the last epoch RelRNN has more validation images right than an RNN, in every seed.

    The figure is of permuted pixels; of pixels row by row it is a remark. No order is printed in text, and none of
    RelRNN and orth-RNN is asked for.
    """
    everything = list(runs)
    reading = "as we take figure 8 to show, which is not in our copy" if order == "permuted" else ""
    ahead, behind = (readers_of(everything, name, order) for name in ("rel_rnn", "rnn"))
    cases = {"RelRNN minus RNN, validation accuracy": paired(ahead, behind, lambda run: run.last)}
    return judge(
        "kerg-pmnist",
        cases if ahead and behind else {},
        part=f"{SEQUENCES[order]}, RelRNN above RNN",
        at_least=BEYOND_ZERO,
        every_seed=True,
        condition="as printed",
        profile=_profile([*ahead, *behind]),
        explanation="an RNN of the same size has as many images right after the last epoch",
        note=joined(reading, _note(ahead)),
        remark=order != "permuted",
    )


def judge_counts(runs: Iterable[CharacterRun], architecture: str = "rel_rnn", count: str = "trigram") -> str:
    """A network predicts a text it has not seen better than trigram counts do, in every seed: a remark.

    Nothing is printed to compare with (`judge_printed_bits`); the rule asks whether the network learns from more than
    the last two characters.
    """
    own = predictors_of(runs, architecture)
    name = NAMES[architecture]
    return judge(
        "kerg-ptb",
        mean_of(own, lambda run: run.floors[count] - run.bits) if own else {},
        part=f"{name} below {count} counts",
        at_least=BEYOND_ZERO,
        every_seed=True,
        profile=_profile(own),
        explanation=f"{count} counts of the same text predict as well",
        note=f"bits per character saved{'' if not own or own[0].as_printed else ', on ' + own[0].parameters['corpus']}",
        remark=True,
    )


def judge_printed_bits() -> str:
    """Table 9 and Fig. 7: hyperparameters, and a map of which our copy has the caption. No result could differ."""
    sentence = "our copy has hyperparameters and a caption, and no number of bits that could differ"
    undecided("kerg-ptb", part="what is printed of PTB", reason=UNMET, sentence=sentence)
    return "undecided"


def judge_concentration(runs: Iterable[ReadingRun], part: str, when: str = "after") -> str:
    """Fig. 7 and 9: training gives the ten states that get most attention at least 1.5 times their share before.

    runs: of MemRNN. The figures are maps without numbers, and their captions state nothing that could differ: a remark,
    undecided where the number is smaller.
    """
    own = _watched(runs, when)
    row = _row([run.inside(when)["top"] / run.inside("before")["top"] for run in own])
    if own and decide(list(row), CONCENTRATED).found == "differs":
        ends = f"{np.min(row):.2f} to {np.max(row):.2f}"
        sentence = f"the caption states nothing that could differ; {ends} times the share, {CONCENTRATED} asked for"
        said: dict[str, Any] = {"note": "share of attention on ten states, trained over untrained", "remark": True}
        undecided("kerg-heatmaps", part=part, reason=UNMET, sentence=sentence, **said)
        return "undecided"
    return judge(
        "kerg-heatmaps",
        row,
        part=part,
        at_least=CONCENTRATED,
        profile=_profile(own),
        explanation="the ten states that get most attention do not gain that much by training",
        note="share of attention on ten states, trained over untrained; the bound is this book's",
        remark=True,
    )


def judge_fewer_states(runs: Iterable[ReadingRun], part: str, when: str = "after") -> str:
    """Training lowers the mean entropy of attention at a step by FEWER, in every seed: each attends to fewer states.

    Beside Fig. 7 and 9, which state nothing; set after the numbers had been seen. Before training the entropy is near
    its maximum, and a training on digits whose labels are shuffled lowers it, too: by 0.05 to 0.06 nats in 60 updates
    (three seeds), by 0.13 in 500, and by 0.24 in the 2500 that the recorded ones have (one seed).
    """
    own = _watched(runs, when)
    return judge(
        "kerg-heatmaps",
        _row([run.inside(when)["entropy"] - run.inside("before")["entropy"] for run in own]),
        part=f"{part}: fewer states at a step",
        at_most=-FEWER,
        profile=_profile(own),
        explanation="attention at a step is hardly less spread out than before training",
        note="nats, trained less untrained; set after the numbers had been seen",
        remark=True,
    )


def attention_of_pixels(runs: Iterable[PixelRun]) -> list[PixelRun]:
    """The runs of Fig. 9: several pixels at a step, row by row, all states attended to."""
    return [run for run in runs if run.architecture == "mem_rnn" and run.order == "rows" and not run.shuffled]


def differences(runs: Sequence[CharacterRun], architectures: Iterable[str]) -> Mapping[str, Interval]:
    """Bits per character of each network minus those of RelRNN, paired by seed."""
    base = predictors_of(runs, "rel_rnn")
    return {name: paired(predictors_of(runs, name), base, lambda run: run.bits) for name in architectures}


def _watched(runs: Iterable[ReadingRun], when: str) -> list[ReadingRun]:
    return [run for run in runs if run.architecture == "mem_rnn" and run.inside("before") and run.inside(when)]


def _row(values: Sequence[float]) -> Any:
    """One case: its seeds and the best of them; {} without any, which `judge` takes as nothing to compare."""
    return np.array([[*values, max(values)]]) if len(values) else {}


def _profile(runs: Sequence[Any]) -> str:
    return "paper" if runs and all(run.as_printed for run in runs) else "laptop"


def _note(runs: Sequence[PixelRun]) -> str:
    if not runs:
        return ""
    one = runs[0].parameters
    return f"{one['side']} x {one['side']} pixels, {one['width']} units, {len(runs[0].accuracies)} epochs"
