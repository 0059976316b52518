"""Tables and sentences of the chapter on pixels and characters, in Markdown; what is not recorded says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.pixels_and_characters.networks import READERS
from experiments.pixels_and_characters.runs import (
    CharacterRun,
    PixelRun,
    ReadingRun,
    mean_of,
    paired,
    predictors_of,
    readers_of,
)
from experiments.pixels_and_characters.statements import SEQUENCES, differences
from lib.models.catalogue import NAMES
from lib.report.page import markdown_table, span

NOT_YET = "not yet"
SHOWN = ("rel_rnn", "orth_rnn", "rnn", "exp_rnn", "lstm")  # networks that read pixels, those of Fig. 8 first
COUNTS = {"unigram": "counts of one character", "bigram": "of two", "trigram": "of three"}


def answer(images: Sequence[PixelRun], text: Sequence[CharacterRun]) -> str:
    """What the records say of Fig. 8, of the order of RelRNN and orth-RNN, and of the text."""
    return "\n".join(f"- {sentence}" for sentence in (_of_images(images), _of_text(text)))


def table_of_images(runs: Sequence[PixelRun]) -> str:
    """Every network by order of pixels: validation images right after the last epoch, at best, and test images."""
    rows = []
    for order, shown in SEQUENCES.items():
        for name in SHOWN:
            own = readers_of(runs, name, order)
            if own or name in SHOWN[:3]:
                rows.append([NAMES[name], shown, *_scores(own)])
    for name in ("mem_rnn",):
        for own in _by_steps([run for run in runs if run.architecture == name and not run.shuffled]):
            rows.append([NAMES[name], f"row by row, {own[0].together} at a step", *_scores(own)])
    head = ["network", "pixels", "seeds", "updates", "last epoch, %", "best epoch, %", "test, %"]
    return markdown_table(head, rows)


def table_of_controls(runs: Sequence[PixelRun]) -> str:
    """What is left to learn without true labels, or without an order of pixels, beside the network itself."""
    cells = {
        "itself": readers_of(runs, "rel_rnn", "permuted"),
        "pixels shuffled anew for each image": readers_of(runs, "rel_rnn", "anew"),
        "labels of other images": [run for run in runs if run.architecture == "rel_rnn" and run.shuffled],
    }
    rows = [[name, len(own), _percent(own, "last"), _percent_of(own, "test_accuracy")] for name, own in cells.items()]
    shares = [run.result["largest_class"] for run in runs if "largest_class" in run.result]
    rows.append(["the most frequent class, always", "", "", f"{100 * shares[0]:.1f}" if shares else NOT_YET])
    return markdown_table(["RelRNN, permuted pixels", "seeds", "last epoch, %", "test, %"], rows)


def table_of_bits(runs: Sequence[CharacterRun]) -> str:
    """Bits per character of every network, less those of RelRNN seed by seed, and the counts to beat."""
    against = differences(runs, READERS)
    rows: list[list[Any]] = []
    for name in READERS:
        own = predictors_of(runs, name)
        gap = "" if name == "rel_rnn" else f"{against[name]:+.3f}" if against[name].known else None
        bits = f"{mean_of(own, lambda run: run.bits):.3f}" if own else NOT_YET
        rows.append([NAMES[name], len(own), span([run.updates for run in own], "d"), bits, gap])
    forgetful = [run for run in runs if run.forgetful]
    told = span([run.bits for run in forgetful], ".3f") or NOT_YET
    rows.append(["RelRNN, emptied before every character", len(forgetful), "", told, ""])
    for count, shown in COUNTS.items():
        rows.append([shown, "", "", f"{runs[0].floors[count]:.3f}" if runs else NOT_YET, ""])
    return markdown_table(["network", "seeds", "updates", "bits per character", "minus RelRNN"], rows)


def table_of_attention(groups: Mapping[str, Sequence[ReadingRun]]) -> str:
    """Entropy, and the share of the ten states that get most attention: before and after training, and if equal."""
    rows = []
    for name, runs in groups.items():
        seen = [run for run in runs if run.inside("before") and run.inside("after")]
        cells = []
        for number in ("top", "entropy"):
            spans = [span([run.inside(when)[number] for run in seen], ".2f") for when in ("before", "after")]
            equal = span([run.inside("after")[f"uniform_{number}"] for run in seen], ".2f")
            cells.append(f"{spans[0]}, then {spans[1]}; {equal}" if seen else NOT_YET)
        rows.append([name, len(seen), *cells])
    head = ["network", "seeds", "share of ten states: untrained, trained; if equal", "entropy, nats: the same"]
    return markdown_table(head, rows)


def attention_told(runs: Sequence[ReadingRun]) -> str:
    """What training does to attention on characters, in words."""
    seen = [run for run in runs if run.inside("before") and run.inside("after")]
    if not seen:
        return f"Attention on characters: {NOT_YET} recorded."
    (spread, then), (share, later) = (
        [float(np.mean([run.inside(when)[number] for run in seen])) for when in ("before", "after")]
        for number in ("entropy", "top")
    )
    fewer = "fewer" if then < spread else "no fewer"
    same = "more" if later > share else "not more"
    return (
        f"On characters each step attends to {fewer} states after training (entropy {spread:.1f} to {then:.1f} nats), "
        f"and {same} to the same ten ({100 * share:.0f} to {100 * later:.0f} % of all attention)."
    )


def table_of_live(images: Iterable[PixelRun], text: Iterable[CharacterRun]) -> str:
    """Networks that were trained on the page itself: that they ran."""
    rows: list[list[Any]] = [
        ["drawn bars", run.name, run.updates, f"{100 * run.result['test_accuracy']:.0f} % right"] for run in images
    ]
    rows += [["messages", run.name, run.updates, f"{run.bits:.2f} bits per character"] for run in text]
    return markdown_table(["of", "network", "updates", "test"], rows)


def _of_images(runs: Sequence[PixelRun]) -> str:
    cells = {name: readers_of(runs, name, "permuted") for name in SHOWN[:3]}
    if not any(cells.values()):
        return f"**Permuted digits:** {NOT_YET} recorded."
    told = [f"{NAMES[name]} {_percent(own, 'last') or NOT_YET} %" for name, own in cells.items() if own]
    gaps = [
        f"RelRNN minus {NAMES[name]} {100 * gap.value:+.1f} points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
        for name in SHOWN[1:3]
        if (gap := paired(cells["rel_rnn"], cells[name], lambda run: run.last)).known
    ]
    return f"**Permuted digits:** right after the last epoch {', '.join(told)}. {'; '.join(gaps)}".strip()


def _of_text(runs: Sequence[CharacterRun]) -> str:
    own = {name: predictors_of(runs, name) for name in READERS}
    known = {name: mean_of(some, lambda run: run.bits) for name, some in own.items() if some}
    if not known:
        return f"**Characters:** {NOT_YET} recorded."
    told = ", ".join(f"{NAMES[name]} {known[name].value:.2f}" for name in sorted(known, key=lambda n: known[n].value))
    counts = f"; trigram counts {runs[0].floors['trigram']:.2f}"
    return f"**Characters**, bits on held-out text ({runs[0].parameters['corpus']}): {told}{counts}."


def _scores(own: Sequence[PixelRun]) -> list[Any]:
    if not own:
        return [0, None, NOT_YET, None, None]
    best = [100 * max(run.accuracies, default=float("nan")) for run in own]
    updates = span([run.updates for run in own], "d")
    return [len(own), updates, _percent(own, "last"), span(best, ".1f"), _percent_of(own, "test_accuracy")]


def _by_steps(runs: Iterable[PixelRun]) -> list[list[PixelRun]]:
    found: dict[int, list[PixelRun]] = {}
    for run in runs:
        found.setdefault(run.together, []).append(run)
    return list(found.values())


def _percent(runs: Sequence[PixelRun], number: str) -> str | None:
    return span([100 * getattr(run, number) for run in runs], ".1f")


def _percent_of(runs: Sequence[PixelRun], number: str) -> str | None:
    return span([100 * run.result[number] for run in runs if number in run.result], ".1f")
