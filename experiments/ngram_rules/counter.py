"""The n-gram model that counting makes of some sentences of a language: what a network has to be measured against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.ngram_rules.languages import PrefixTree
from lib.checks import whole_number

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


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
