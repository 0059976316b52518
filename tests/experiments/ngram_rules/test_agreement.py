"""The language with agreement needs three words of context, exactly where it says."""

from __future__ import annotations

from fractions import Fraction
from math import log

import pytest

from experiments.ngram_rules.languages import agreement_language


def test_rules_of_three_words_write_exactly_its_sentences() -> None:
    language = agreement_language()
    assert language.generated_sentences() == len(language) == 3600 == len(set(language.sentences()))
    assert len(language.words) == 38 and len(language.trigrams()) == 125


def test_rules_of_two_words_write_as_many_wrong_sentences() -> None:
    language = agreement_language(3)
    assert language.generated_sentences() == 2 * len(language)
    assert "we saw that the dog near him chase a ball every monday" not in language


def test_the_third_word_back_is_worth_ln_two_at_the_verb_and_nothing_elsewhere() -> None:
    two, three = agreement_language(3), agreement_language(4)
    gains = {}
    for context in three.contexts():
        full = three.next_word_distribution(context, exact=True)
        short = two.next_word_distribution(context[1:], exact=True)
        gains[context] = sum((p * (log(p) - log(short[word])) for word, p in full.items()), 0.0)
    for context, gain in gains.items():
        at_verb = context[1] == "near"
        assert gain == pytest.approx(log(2) if at_verb else 0.0, abs=1e-12)
    assert sum(context[1] == "near" for context in gains) == 20


def test_the_loss_a_word_of_two_words_of_context() -> None:
    """Of the 10 places that rules of three words cover, the end among them, one is a verb."""
    three = agreement_language(4)
    per_sentence = Fraction(1)
    places = 12 - 3 + 1
    assert all(len(sentence) == 12 for sentence in three.sentences())
    two = agreement_language(3)
    # rules of two words cover one place more, "the" after "saw that", which is certain
    gap = two.rule_entropy() * (places + 1) - three.rule_entropy() * places
    assert gap == pytest.approx(float(per_sentence) * log(2), rel=1e-12)


def test_a_prompt_of_six_words_ends_before_the_verb() -> None:
    language = agreement_language()
    prompts = {sentence[:6] for sentence in language.sentences()}
    assert len(prompts) == 30 and all(prompt[-1] == "near" for prompt in prompts)
