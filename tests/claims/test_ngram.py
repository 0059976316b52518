"""The claim about the n-gram language: each check that the chapter makes, and a case in which it has to fail."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from lib.processes import NgramLanguage
from lib.processes.ngram.paper import PRINTED_TRIGRAMS, SLOTS
from lib.processes.ngram.rules import runs_seen
from lib.report import claims

CLAIM = "ngram-language"
PAPER = NgramLanguage.from_paper()
SENTENCES = PAPER.sentences()
CHOICES = ("sentences", "templates", (10 / 11, 1 / 11))
SHARES = (15 / 19, 1 / 2, 1 / 11)  # probability of the second template


def sizes() -> list[int]:
    return [math.prod(len(SLOTS[gap]) for gap in gaps) for gaps in ("ABCD", "EFGHIJ")]


def encoded(trigrams) -> np.ndarray:
    return np.array([PAPER.encode(words) for words in trigrams])


def closed_entropy_rate(share: float, mark: int = 1) -> float:
    first, second = sizes()
    entropy = -(1 - share) * math.log((1 - share) / first) - share * math.log(share / second)
    return entropy / (14 * (1 - share) + 20 * share + mark)


def largest_gap(n: int) -> float:
    model = NgramLanguage.from_paper(n)
    gaps = []
    for start in {s[:t] for s in SENTENCES[::40] for t in range(3, len(s) + 1)}:
        law, rule = PAPER.completions(start), model.next_word_distribution(start)
        gaps.append(sum(abs(law.get(w, 0) - rule.get(w, 0)) for w in law | rule) / 2)
    return max(gaps)


def excess(n: int) -> float:
    model = NgramLanguage.from_paper(n, padding=True)
    return model.rule_entropy() - model.entropy_rate()


def divergence(n: int) -> float:
    model = NgramLanguage.from_paper(n, padding=True)
    mean = math.fsum(model.log_probability(s) for s in SENTENCES) / len(SENTENCES)
    return (-math.log(len(SENTENCES)) - mean) / float(PAPER.source.mean_length() + 1)


def test_sentences_of_each_template_and_words() -> None:
    lengths = Counter(map(len, SENTENCES))
    measured = [lengths[14], lengths[20], len(PAPER.words)]
    claims.check(CLAIM, measured, [*sizes(), 79], 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, measured, [sizes()[0], sizes()[1] * 5 // 6, 79], 0)  # a gap one filler short


def test_thousands_of_sentences() -> None:
    claims.check(CLAIM, len(set(SENTENCES)), sum(sizes()), 0)
    with pytest.raises(claims.ClaimFailed):  # of which some begin alike
        claims.check(CLAIM, len({sentence[:-1] for sentence in SENTENCES}), sum(sizes()), 0)


def test_the_printed_table_and_a_table_with_one_word_changed() -> None:
    claims.check(CLAIM, encoded(PAPER.trigrams()), encoded(PRINTED_TRIGRAMS), 0)
    changed = [*PRINTED_TRIGRAMS[:-1], ("in", "his", "jeans")]
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, encoded(PAPER.trigrams()), encoded(changed), 0)


def test_next_words_are_equally_likely_for_three_words_and_not_for_one() -> None:
    for n, even in ((4, True), (2, False)):
        language = NgramLanguage.from_paper(n)
        values = [len(set(language.next_word_distribution(c, exact=True).values())) for c in language.contexts()]
        if even:
            claims.check(CLAIM, values, np.ones(145), 0)
        else:
            with pytest.raises(claims.ClaimFailed):
                claims.check(CLAIM, values, np.ones(len(values)), 0)


def test_trigrams_with_a_next_word_leave_out_the_last_ones() -> None:
    last = len({s[-3:] for s in SENTENCES})
    rules = {end: len(NgramLanguage.from_paper(end=end).rules) for end in (False, True)}
    claims.check(CLAIM, rules[False], 145 - last, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, rules[True], 145 - last, 0)


def test_contexts_that_hold_the_start() -> None:
    in_front = {(("<start>",) * 3 + s)[i : i + 3] for s in SENTENCES for i in range(3)}
    claims.check(CLAIM, len(NgramLanguage.from_paper(padding=True).rules) - 145, len(in_front), 0)
    slipped = {(("<start>",) * 3 + s)[i : i + 3] for s in SENTENCES for i in range(1, 3)}
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, len(NgramLanguage.from_paper(padding=True).rules) - 145, len(slipped), 0)


def test_next_word_law_at_valid_starts_needs_two_words() -> None:
    gaps = {n: largest_gap(n) for n in (2, 3, 4)}
    claims.check(CLAIM, gaps[4], 0.0, 0)
    claims.check(CLAIM, min(n for n, gap in gaps.items() if gap == 0), 3, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, gaps[2], 0.0, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, min(n for n, gap in gaps.items() if gap < 0.9), 3, 0)


def test_the_rules_write_the_language_unless_they_see_one_word() -> None:
    written = {n: NgramLanguage.from_paper(n, padding=True).generated_sentences() for n in (2, 3, 4)}
    claims.check(CLAIM, [written[3], written[4]], [len(SENTENCES)] * 2, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, [written[2], written[4]], [len(SENTENCES)] * 2, 0)


def test_entropy_rate_and_the_one_that_forgets_the_end() -> None:
    measured = [NgramLanguage.from_paper(template_probabilities=c).entropy_rate() for c in CHOICES]
    claims.check(CLAIM, measured, [closed_entropy_rate(s) for s in SHARES], 1e-13, relative=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, measured, [closed_entropy_rate(s, mark=0) for s in SHARES], 1e-13, relative=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, measured, [closed_entropy_rate(s) for s in SHARES[::-1]], 1e-13, relative=True)


def test_a_short_context_costs_the_divergence() -> None:
    costs, direct = [excess(n) for n in range(1, 5)], [divergence(n) for n in range(1, 5)]
    claims.check(CLAIM, costs, direct, 1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check(CLAIM, costs[:2], direct[1:3], 1e-12)


def test_trigrams_in_forty_sentences_and_in_forty_from_another_law() -> None:
    random = np.random.default_rng(0)
    seen = np.array([runs_seen(PAPER.sample(40, random), 3)[-1] for _ in range(300)])
    error = seen.std(ddof=1) / math.sqrt(300)
    claims.check(CLAIM, seen.mean(), PAPER.expected_contexts_seen(40), 5 * error)
    for other in CHOICES[1:]:
        expected = NgramLanguage.from_paper(template_probabilities=other).expected_contexts_seen(40)
        with pytest.raises(claims.ClaimFailed):
            claims.check(CLAIM, seen.mean(), expected, 5 * error)
