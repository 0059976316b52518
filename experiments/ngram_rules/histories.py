"""Histories that no sentence of the language has, but whose last n - 1 words are in its rules: does a model care?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.ngram_rules.languages import PrefixTree
from lib.checks import generator, whole_number
from lib.processes.ngram.language import NgramLanguage

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
KINDS = ("as written", "shuffled", "random", "longer")
LONGER_BY = 12  # words of another sentence that a longer history begins with


@dataclass(frozen=True)
class Histories:
    """Beginnings by kind, each a list of id arrays; the rules' law of the next token, (m, d + 1), is the same in all.

    "as written": beginnings of sentences. "shuffled": all but the last n - 1 words in random order. "random": all but
    these replaced by words of the vocabulary. "longer": the first words of another sentence in front.
    """

    by_kind: dict[str, list[Ids]]
    rule_laws: Floats


def altered_histories(
    language: NgramLanguage, tree: PrefixTree, count: int, seed: int | np.random.Generator
) -> Histories:
    """`count` beginnings, drawn as often as sentences have them, with at least two words before the last n - 1."""
    random, known = generator(seed), language.n - 1
    nodes = np.flatnonzero((tree.depth >= known + 2) & ~tree.is_whole)
    chosen = random.choice(nodes, size=whole_number(count, "count", 1), p=tree.mass[nodes] / tree.mass[nodes].sum())
    laws = language.rules.laws()
    rows = [language.rules.index[tuple(last)] for last in tree.last_words(known)[chosen].tolist()]
    written = [tree.tokens[tree.sentence[node], : tree.depth[node]] for node in chosen]
    others = tree.tokens[random.integers(len(tree.tokens), size=count), :LONGER_BY]
    by_kind = {
        "as written": written,
        "shuffled": [np.append(random.permutation(ids[:-known]), ids[-known:]) for ids in written],
        "random": [np.append(random.integers(tree.end, size=len(ids) - known), ids[-known:]) for ids in written],
        "longer": [np.append(other[other < tree.end], ids) for other, ids in zip(others, written, strict=True)],
    }
    return Histories(by_kind, laws[rows])


def rule_following(model: Any, histories: Histories, device: torch.device | str = "cpu") -> dict[str, dict[str, float]]:
    """For each kind: mean D(rules || Q) in nats, and how often the most likely next token obeys the rules."""
    truth, found = histories.rule_laws, {}
    for kind, rows in histories.by_kind.items():
        laws = laws_after(model, rows, device)
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.where(truth > 0, truth * (np.log(truth) - np.log(laws)), 0.0)
        obeyed = truth[np.arange(len(truth)), laws.argmax(axis=1)] > 0
        found[kind] = {"divergence": float(gaps.sum(axis=1).mean()), "obeyed": float(obeyed.mean())}
    return found


def laws_after(model: Any, rows: list[Ids], device: torch.device | str = "cpu") -> Floats:
    """Q(next token | history) for histories of any lengths, (m, d + 1)."""
    lengths = np.array([len(row) for row in rows])
    laws = np.empty((len(rows), model.vocabulary))
    model.eval()
    with torch.no_grad():
        for length in np.unique(lengths):
            some = np.flatnonzero(lengths == length)
            tokens = torch.from_numpy(np.stack([rows[i] for i in some])).to(device)
            laws[some] = model(tokens)[:, -1].double().softmax(dim=-1).cpu().numpy()
    return laws
