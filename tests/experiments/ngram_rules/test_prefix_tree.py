"""The tree of beginnings against plain enumeration of a language in exact fractions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.ngram_rules.languages import PrefixTree
from lib.processes import NgramLanguage, SentenceList

WORDS = st.sampled_from("abc")
LANGUAGES = st.sets(st.lists(WORDS, min_size=1, max_size=4).map(tuple), min_size=1, max_size=12)


def tree_of(sentences: set[tuple[str, ...]]) -> tuple[NgramLanguage, PrefixTree]:
    language = NgramLanguage(SentenceList(sorted(sentences)), n=2, padding=True)
    return language, PrefixTree(language)


@given(LANGUAGES)
@settings(max_examples=60, deadline=None)
def test_nodes_are_the_different_beginnings_with_their_probabilities(sentences: set[tuple[str, ...]]) -> None:
    language, tree = tree_of(sentences)
    closed = [(*sentence, "<end>") for sentence in sentences]
    expected = Counter(sentence[:t] for sentence in closed for t in range(len(sentence) + 1))
    names = (*language.words, "<end>")
    found = {}
    for node in range(len(tree)):
        path, at = [], node
        while tree.parent[at] >= 0:
            path.append(names[tree.word[at]])
            assert tree.parent[at] < at
            at = tree.parent[at]
        found[tuple(path[::-1])] = Fraction(float(tree.mass[node])).limit_denominator(1000)
        assert tree.depth[node] == len(path)
    assert found == {beginning: Fraction(count, len(sentences)) for beginning, count in expected.items()}


@given(LANGUAGES)
@settings(max_examples=60, deadline=None)
def test_the_law_is_that_of_the_language(sentences: set[tuple[str, ...]]) -> None:
    language, tree = tree_of(sentences)
    names = (*language.words, "<end>")
    for sentence, nodes, length in zip(language.sentences(), tree.nodes, tree.lengths, strict=True):
        for t in range(length + 1):
            law = {names[i]: p for i, p in enumerate(tree.law[nodes[t]]) if p}
            assert law == pytest.approx(language.completions(sentence[:t]))
    whole = tree.is_whole
    assert np.all(tree.law[whole] == 0)
    assert tree.law[~whole].sum(axis=1) == pytest.approx(1.0)
    assert tree.mass[whole].sum() == pytest.approx(1.0)


def test_last_words_and_children_lead_back() -> None:
    language, tree = tree_of({("a", "b", "c"), ("a", "b"), ("c",)})
    node = tree.nodes[list(language.sentences()).index(("a", "b", "c")), 3]
    assert language.decode(tree.last_words(2)[node]) == ("b", "c")
    assert tree.last_words(5)[node].tolist() == [-1, -1, *language.encode(("a", "b", "c"))]
    for child in range(1, len(tree)):
        assert tree.child[tree.parent[child], tree.word[child]] == child
    assert np.count_nonzero(tree.child >= 0) == len(tree) - 1


def test_a_prompt_longer_than_all_sentences_is_refused() -> None:
    _, tree = tree_of({("a", "b", "c"), ("a", "b")})
    assert tree.at_depth(3).size == 1
    with pytest.raises(ValueError, match="0 to 3 words"):
        tree.at_depth(4)
