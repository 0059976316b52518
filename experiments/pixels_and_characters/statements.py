"""What is asked of the records: Fig. 7, 8 and 9 and Tables 8 and 9 of Kerg et al. (2020).

The rules were fixed before any run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
from lib.report.verdicts import judge

BEYOND_ZERO = 1e-6  # an interval from there on does not hold zero
CONCENTRATED = 1.5  # times the share of attention on the ten states that get most, over that before training
SEQUENCES = {"permuted": "permuted", "rows": "row by row"}


def judge_order(runs: Iterable[PixelRun], order: str = "permuted") -> str:
    """Fig. 8: after the last epoch RelRNN has more validation images right than an RNN, in every seed.

    The figure is of permuted pixels; of pixels row by row it is a remark. No order of RelRNN and orth-RNN is claimed.
    """
    everything = list(runs)
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
        note=_note(ahead),
        remark=order != "permuted",
    )


def judge_counts(runs: Iterable[CharacterRun], architecture: str = "rel_rnn", count: str = "trigram") -> str:
    """RelRNN predicts a text it has not seen better than counts of three characters do, in every seed.

    Nothing is printed to compare with; the rule asks whether the network learns from more than the last two characters.
    """
    own = predictors_of(runs, architecture)
    name = own[0].name if own else "RelRNN"
    return judge(
        "kerg-ptb",
        mean_of(own, lambda run: run.floors[count] - run.bits) if own else {},
        part=f"{name} below {count} counts",
        at_least=BEYOND_ZERO,
        every_seed=True,
        profile=_profile(own),
        explanation=f"{count} counts of the same text predict as well",
        note=f"bits per character saved{'' if not own or own[0].as_printed else ', on ' + own[0].parameters['corpus']}",
    )


def judge_concentration(runs: Iterable[ReadingRun], part: str, when: str = "after") -> str:
    """Fig. 7 and 9: training gives the ten states that get most attention at least 1.5 times their share before.

    runs: of MemRNN. The figures show maps without numbers; the bound is this book's.
    """
    own = [run for run in runs if run.architecture == "mem_rnn" and run.inside("before") and run.inside(when)]
    return judge(
        "kerg-heatmaps",
        _row([run.inside(when)["top"] / run.inside("before")["top"] for run in own]),
        part=part,
        at_least=CONCENTRATED,
        profile=_profile(own),
        explanation="the ten states that get most attention do not gain that much by training",
        note="share of attention on ten states, trained over untrained; the bound is this book's",
    )


def attention_of_pixels(runs: Iterable[PixelRun]) -> list[PixelRun]:
    """The runs of Fig. 9: several pixels at a step, row by row, all states attended to."""
    return [run for run in runs if run.architecture == "mem_rnn" and run.order == "rows" and not run.shuffled]


def differences(runs: Sequence[CharacterRun], architectures: Iterable[str]) -> Mapping[str, Interval]:
    """Bits per character of each network minus those of RelRNN, paired by seed."""
    base = predictors_of(runs, "rel_rnn")
    return {name: paired(predictors_of(runs, name), base, lambda run: run.bits) for name in architectures}


def _row(values: Sequence[float]) -> npt.ArrayLike | dict[str, Any]:
    """One case: its seeds and the best of them; {} without any, which `judge` takes as nothing to compare."""
    return np.array([[*values, max(values)]]) if len(values) else {}


def _profile(runs: Sequence[Any]) -> str:
    return "paper" if runs and all(run.as_printed for run in runs) else "laptop"


def _note(runs: Sequence[PixelRun]) -> str:
    if not runs:
        return ""
    one = runs[0].parameters
    return f"{one['side']} x {one['side']} pixels, {one['width']} units, {len(runs[0].accuracies)} epochs"
