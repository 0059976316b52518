"""Interpolated n-grams with absolute discounting: against dictionaries and exact fractions, and as a distribution."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.books.counting import DiscountedCounts
from lib.processes import MarkovChain


def plain_law(documents: list[list[int]], order: int, vocabulary: int, context: list[int]) -> list[Fraction]:
    """P_order(. | context) by the definition, exactly."""
    law = [Fraction(1, vocabulary)] * vocabulary
    for k in range(order + 1):
        if k > len(context):
            break
        blocks = Counter(tuple(d[i : i + k + 1]) for d in documents for i in range(len(d) - k))
        once, twice = (sum(count == number for count in blocks.values()) for number in (1, 2))
        discount = Fraction(once, once + 2 * twice) if once else Fraction(1, 2)
        past = tuple(context[len(context) - k :])
        after = {w: blocks[(*past, w)] for w in range(vocabulary) if (*past, w) in blocks}
        total = sum(after.values())
        if total:
            law = [
                max(after.get(w, 0) - discount, Fraction(0)) / total + discount * len(after) / total * law[w]
                for w in range(vocabulary)
            ]
    return law


TOKENS = st.lists(st.integers(0, 3), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=4).filter(any), st.integers(0, 4), st.lists(st.integers(0, 3), min_size=2))
def test_the_losses_are_those_of_the_definition_in_exact_fractions(documents, order, window):
    model = DiscountedCounts([np.array(d, dtype=np.int64) for d in documents], order, 4)
    found = model.losses([window])
    assert found.shape == (order + 1, 1, len(window) - 1)
    for k in range(order + 1):
        for t in range(1, len(window)):
            exact = plain_law(documents, k, 4, window[:t])[window[t]]
            assert np.isclose(np.exp(-found[k, 0, t - 1]), float(exact), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=4).filter(any), st.integers(0, 4), st.lists(st.integers(0, 3), min_size=1))
def test_it_is_a_law_after_every_context(documents, order, context):
    law = DiscountedCounts([np.array(d, dtype=np.int64) for d in documents], order, 4).law(context)
    assert np.all(law > 0) and np.isclose(law.sum(), 1, atol=1e-12)
    assert np.allclose(law, [float(p) for p in plain_law(documents, order, 4, context)], rtol=1e-12)


def test_no_block_crosses_from_one_document_to_the_next():
    pieces, whole = [np.array(d) for d in ([0, 1], [2, 3]) * 2], np.array([0, 1, 2, 3] * 2)
    apart, joined = DiscountedCounts(pieces, 1, 4), DiscountedCounts([whole], 1, 4)
    assert np.array_equal(apart.law([1]), DiscountedCounts([whole], 0, 4).law([1]))  # nothing follows 1
    assert joined.law([1])[2] > 0.8


def test_on_a_markov_chain_one_token_of_the_past_reaches_the_entropy_rate_and_none_does_not():
    chain = MarkovChain([[0.9, 0.1], [0.4, 0.6]])
    text, new = (np.asarray(chain.sample(1, length, seed))[0] for length, seed in ((200_000, 0), (20_000, 1)))
    model = DiscountedCounts([text], 3, 2)
    none, *others = model.losses(new[None]).mean(axis=(1, 2))
    rate = -np.mean(np.log(np.array([[0.9, 0.1], [0.4, 0.6]])[new[:-1], new[1:]]))  # of these very symbols
    assert none > rate + 0.05
    assert np.allclose(others, rate, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([], 1, 4), "documents"),
        (([np.array([], dtype=int)], 1, 4), "documents"),
        (([np.array([0, 4])], 1, 4), r"tokens 0 \.\. 3"),
        (([np.array([0.5])], 1, 4), "whole numbers"),
        (([np.array([[0, 1]])], 1, 4), "whole numbers"),
        (([np.array([0, 1])], -1, 4), "order"),
        (([np.array([0, 1])], 6, 1024), "2\\^62"),
        (([np.array([0, 1])], 1, 0), "vocabulary"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments: tuple[Any, ...], told: str):
    with pytest.raises(ValueError, match=told):
        DiscountedCounts(*arguments)


def test_windows_of_other_tokens_are_refused():
    model = DiscountedCounts([np.array([0, 1, 2])], 1, 3)
    with pytest.raises(ValueError, match="windows"):
        model.losses([[0, 3]])
    with pytest.raises(ValueError, match="context"):
        model.law([])
