"""How well a law of the next word completes prompts of a language and follows its rules, all averages exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.ngram_rules.languages import PrefixTree

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
BATCH = 500  # sentences read at once


def next_word_laws(model: Any, tree: PrefixTree, device: torch.device | str = "cpu") -> Floats:
    """Q(next token | beginning) of every node but the root, whose row is zero, and whole sentences: (N, d + 1)."""
    laws = np.zeros((len(tree), tree.end + 1))
    asked = ~tree.is_whole & (tree.depth > 0)
    order = np.argsort(tree.sentence, kind="stable")
    order = order[asked[order]]
    edges = np.searchsorted(tree.sentence[order], np.arange(0, len(tree.tokens) + BATCH, BATCH))
    model.eval()
    with torch.no_grad():
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

    A law that is all zero has nothing to say, and fails. Cost O(N d).
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
