"""How well a distribution of the next word completes prompts of a language and follows its rules, all averages exact.

It is measured against the n-gram model that counting makes of some sentences, and asked whether it cares about
histories that no sentence of the language has, but whose last n - 1 words are in its rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.ngram_rules.languages import PrefixTree
from lib.checks import generator, whole_number
from lib.models.scoring import evaluating
from lib.processes.ngram.language import NgramLanguage

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
BATCH = 500  # sentences read at once
KINDS = ("as written", "shuffled", "random", "longer")
LONGER_BY = 12  # words of another sentence that a longer history begins with


def next_word_laws(model: Any, tree: PrefixTree, device: torch.device | str = "cpu") -> Floats:
    """Q(next token | beginning) of every node but the root, whose row is zero, and whole sentences: (N, d + 1)."""
    laws = np.zeros((len(tree), tree.end + 1))
    asked = ~tree.is_whole & (tree.depth > 0)
    order = np.argsort(tree.sentence, kind="stable")
    order = order[asked[order]]
    edges = np.searchsorted(tree.sentence[order], np.arange(0, len(tree.tokens) + BATCH, BATCH))
    with evaluating(model):
        for nodes in np.split(order, edges[1:-1]):
            rows, place = np.unique(tree.sentence[nodes], return_inverse=True)
            logits = model(torch.from_numpy(tree.tokens[rows, :-1]).to(device))
            asked_for = logits[torch.from_numpy(place), torch.from_numpy(tree.depth[nodes] - 1)]
            laws[nodes] = asked_for.double().softmax(dim=-1).cpu().numpy()
    return laws


@dataclass(frozen=True)
class Completions:
    """What becomes of each prompt, (prompts,); prompts: their nodes.

    sampled: probability that words drawn one after the other make a sentence of the language. greedy: whether the most
    likely ones do. unseen_sampled, unseen_greedy: the part of the failures whose first wrong word follows n - 1 words
    that training never showed.
    """

    prompts: Ids
    sampled: Floats
    greedy: Floats
    unseen_sampled: Floats
    unseen_greedy: Floats


def complete(laws: Floats, tree: PrefixTree, words: int, seen: NDArray[np.bool_]) -> Completions:
    """Complete every prompt of that many words. seen: (N,), whether training showed the last n - 1 words of a node.

    A distribution that is all zero has nothing to say, and fails. Cost O(N d).
    """
    prompts = tree.at_depth(words)
    index = np.full(len(tree), -1)  # of the prompt above each node
    index[prompts] = np.arange(len(prompts))
    reach = np.zeros(len(tree))  # probability to get here from the prompt
    reach[prompts] = 1.0
    for depth in range(words + 1, int(tree.depth.max()) + 1):
        nodes = np.flatnonzero(tree.depth == depth)
        above = tree.parent[nodes]
        index[nodes] = index[above]
        reach[nodes] = reach[above] * laws[above, tree.word[nodes]]
    below = index >= 0
    wrong = np.where(below & ~tree.is_whole, reach * (1.0 - (laws * (tree.child >= 0)).sum(axis=1)), 0.0)

    def by_prompt(values: Floats) -> Floats:
        return np.asarray(np.bincount(index[below], values[below], len(prompts)), dtype=np.float64)

    greedy, unseen_greedy = _greedy(laws, tree, prompts, seen)
    return Completions(
        prompts, by_prompt(np.where(tree.is_whole, reach, 0.0)), greedy, by_prompt(wrong * ~seen), unseen_greedy
    )


def _greedy(laws: Floats, tree: PrefixTree, prompts: Ids, seen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """For each prompt, whether the most likely words make a sentence, and whether they err at an unseen context."""
    best, speaks = laws.argmax(axis=1), laws.max(axis=1) > 0.0
    at, unseen = prompts.copy(), np.zeros(len(prompts))
    while True:
        going = (at >= 0) & ~tree.is_whole[at]
        if not going.any():
            return (at >= 0).astype(np.float64), unseen
        here = at[going]
        following = np.where(speaks[here], tree.child[here, best[here]], -1)
        unseen[going] = np.where(following < 0, ~seen[here], unseen[going])
        at[going] = following


def divergence_by_depth(laws: Floats, tree: PrefixTree) -> Floats:
    """E[ln P(w | beginning) - ln Q(w | beginning)] after 1, 2, ... words, nats; infinite where Q excludes a word."""
    above, mass = tree.parent[1:], tree.mass[1:]
    with np.errstate(divide="ignore"):
        gap = np.log(tree.law[above, tree.word[1:]]) - np.log(laws[above, tree.word[1:]])
    depth = tree.depth[above]
    inside = depth >= 1
    weight = np.bincount(depth[inside], mass[inside])
    total = np.bincount(depth[inside], mass[inside] * gap[inside])
    return np.asarray((total / np.maximum(weight, 1e-300))[1:])


def counted_laws(tree: PrefixTree, chosen: Ids, order: int, back_off: bool = False) -> Floats:
    """Relative frequencies of the next token after the last order - 1 words: (N, d + 1).

    chosen: the sentences (rows of the tree) that are counted. The beginning of a sentence counts as a context of its
    own. After a context that was never seen the row is zero: the model has nothing to say. back_off: it then takes the
    longest context that was seen, down to none. Raises ValueError for order < 1 or sentences outside. O(N (order + d)).
    """
    known = whole_number(order, "order", 1) - 1
    laws = np.zeros((len(tree), tree.end + 1))
    for words in range(known, -1, -1) if back_off else [known]:
        counts = _counts(tree, chosen, words)
        total = counts.sum(axis=1, keepdims=True)
        empty = laws.sum(axis=1, keepdims=True) == 0.0
        laws = np.where(empty & (total > 0), counts / np.maximum(total, 1), laws)
    return laws


def seen_contexts(tree: PrefixTree, chosen: Ids, words: int) -> NDArray[np.bool_]:
    """Whether the last `words` words of each node occur in a chosen sentence, followed by anything: (N,)."""
    return np.asarray(_counts(tree, chosen, words).sum(axis=1) > 0)


def _counts(tree: PrefixTree, chosen: Ids, words: int) -> Ids:
    """How often each token follows the last `words` words of each node in the chosen sentences, (N, d + 1)."""
    rows = np.asarray(chosen)
    if rows.ndim != 1 or not rows.size or rows.min() < 0 or rows.max() >= len(tree.tokens):
        raise ValueError(f"chosen: rows 0 .. {len(tree.tokens) - 1} of sentences are allowed, got {chosen!r}")
    if words:
        _, group = np.unique(tree.last_words(words), axis=0, return_inverse=True)
    else:
        group = np.zeros(len(tree), dtype=np.int64)
    before, after = tree.nodes[rows, :-1], tree.tokens[rows]
    inside = (before >= 0) & (np.arange(after.shape[1]) <= tree.lengths[rows][:, None])
    table = np.zeros((int(group.max()) + 1, tree.end + 1), dtype=np.int64)
    np.add.at(table, (group[before[inside]], after[inside]), 1)
    return np.asarray(table[group])


@dataclass(frozen=True)
class Histories:
    """Beginnings by kind, each a list of id arrays; the rules' next-token distribution, (m, d + 1), is the same in all.

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
    with evaluating(model):
        for length in np.unique(lengths):
            some = np.flatnonzero(lengths == length)
            tokens = torch.from_numpy(np.stack([rows[i] for i in some])).to(device)
            laws[some] = model(tokens)[:, -1].double().softmax(dim=-1).cpu().numpy()
    return laws
