"""n-gram languages: grammars and texts against brute force over all their sentences, in exact fractions."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.processes import NgramLanguage, SentenceList, TemplateGrammar
from lib.processes.ngram.paper import PRINTED_TRIGRAMS, SLOTS, TEMPLATES
from lib.processes.ngram.rules import count_generated, expected_seen, runs_seen
from lib.processes.ngram.sentences import END, START, UNKNOWN

Law = dict[tuple[str, ...], Fraction]
PAPER = NgramLanguage.from_paper()


def law_of_templates(template_weights: list[Fraction]) -> Law:
    """All sentences of the paper by substituting every filler, with their probabilities."""
    law: Law = {}
    for template, weight in zip(TEMPLATES, template_weights, strict=True):
        names = re.findall(r"{(\w)}", template)
        filled = [dict(zip(names, words, strict=True)) for words in product(*(SLOTS[name] for name in names))]
        law.update({tuple(template.format(**words).split()): weight / len(filled) for words in filled})
    return law


def windows(law: Law, size: int, padding: bool = False) -> dict[tuple[str, ...], Fraction]:
    counts: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for sentence, p in law.items():
        marked = (START,) * (size - 1 if padding else 0) + sentence + (END,)
        for i in range(len(marked) - size + 1):
            counts[marked[i : i + size]] += p
    return dict(counts)


def next_word_laws(counts: dict[tuple[str, ...], Fraction]) -> dict[tuple[str, ...], dict[str, Fraction]]:
    laws: dict[tuple[str, ...], dict[str, Fraction]] = defaultdict(dict)
    for run, count in counts.items():
        laws[run[:-1]][run[-1]] = count
    return {c: {w: p / sum(law.values()) for w, p in law.items()} for c, law in laws.items()}


def triples(sentence: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {sentence[i : i + 3] for i in range(len(sentence) - 2)}


def rules_as_laws(language: NgramLanguage) -> dict[tuple[str, ...], dict[str, Fraction]]:
    names = (*language.words, END)
    contexts = language.contexts()
    return {c: {names[i]: p for i, p in language.rules.law(row).items()} for row, c in enumerate(contexts)}


def generated_up_to(laws: dict[tuple[str, ...], dict[str, Fraction]], start: tuple[str, ...], n: int, most: int) -> set:
    """Every sentence that the rules write from the start within `most` words, by following all branches."""
    found, waiting = set(), [start]
    while waiting:
        words = waiting.pop()
        for word in laws[words[len(words) - n + 1 :]]:
            if word == END:
                found.add(words)
            elif len(words) < most:
                waiting.append((*words, word))
    return found


def test_the_sentences_of_the_paper_are_all_fillings_of_two_templates() -> None:
    expected = law_of_templates([Fraction(4, 19), Fraction(15, 19)])
    assert set(PAPER.sentences()) == set(expected)
    assert len(PAPER.sentences()) == len(PAPER) == len(expected) == 7980
    assert PAPER.source.template_sizes == (1680, 6300)
    assert len(PAPER.words) == len({word for sentence in expected for word in sentence}) == 79
    assert tuple(PAPER.iterate()) == PAPER.sentences()


def test_the_trigrams_are_the_printed_table_in_its_order() -> None:
    assert PAPER.trigrams() == PRINTED_TRIGRAMS == PAPER.contexts()
    assert len(set(PRINTED_TRIGRAMS)) == 145


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize(
    ("choice", "weights"),
    [
        ("sentences", [Fraction(4, 19), Fraction(15, 19)]),
        ("templates", [Fraction(1, 2)] * 2),
        ([Fraction(10, 11), Fraction(1, 11)], [Fraction(10, 11), Fraction(1, 11)]),
    ],
)
def test_next_word_laws_are_those_of_counting_all_sentences(n, padding, choice, weights) -> None:
    language = NgramLanguage.from_paper(n, choice, padding=padding)
    assert rules_as_laws(language) == next_word_laws(windows(law_of_templates(weights), n, padding))


def test_every_law_of_the_paper_is_uniform_over_the_words_that_follow() -> None:
    for context in PAPER.contexts():
        law = PAPER.next_word_distribution(context, exact=True)
        assert set(law.values()) == {Fraction(1, len(law))}
        assert PAPER.next_word_distribution(context) == {word: float(p) for word, p in law.items()}


def test_only_the_last_words_of_a_context_count_and_both_apostrophes_are_read() -> None:
    law = PAPER.next_word_distribution("because he didn't want to")
    assert law == PAPER.next_word_distribution(["didn’t", "want", "to"]) == dict.fromkeys(SLOTS["H"], 1 / 7)
    assert "Harry woke at one o'clock and was too upset to go back to bed" in PAPER
    assert "Harry woke at one o’clock and was too upset to go back" not in PAPER
    assert 3 not in PAPER


def test_end_of_sentence_unknown_context_and_shorter_context_are_told_apart() -> None:
    assert PAPER.next_word_distribution("back to bed") == {END: 1.0}
    assert PAPER.next_word_distribution("bed to bed") == {UNKNOWN: 1.0}
    without = NgramLanguage.from_paper(end=False)
    assert without.next_word_distribution("back to bed") == {UNKNOWN: 1.0}
    for wrong in ("to bed", "back to beds", ("back", "to", END), ("back", "to", 3)):
        with pytest.raises(ValueError, match="allowed"):
            PAPER.next_word_distribution(wrong)


def test_numbers_of_rules_with_and_without_the_end_and_the_padding() -> None:
    assert len(NgramLanguage.from_paper(end=False).rules) == 137
    padded = NgramLanguage.from_paper(padding=True)
    assert len(padded.rules) - len(PAPER.rules) == 25 == sum(START in c for c in padded.contexts())
    assert padded.next_word_distribution("") == {
        **dict.fromkeys(SLOTS["A"], 4 / 190),
        "He": 15 / 19,
    }


def test_two_words_determine_the_next_word_and_one_does_not() -> None:
    laws = {n: NgramLanguage.from_paper(n) for n in (2, 3, 4)}
    starts = {s[:t] for s in law_of_templates([Fraction(1, 2)] * 2) for t in range(3, len(s) + 1)}
    for start in sorted(starts)[::3]:
        whole = PAPER.completions(start)
        assert whole == laws[4].next_word_distribution(start) == laws[3].next_word_distribution(start)
    assert PAPER.completions("Harry woke at one o'clock and was too upset to") == {"go": 1.0}
    assert laws[2].next_word_distribution("upset to")["go"] < 1


def test_the_rules_write_exactly_the_language_from_three_words_on() -> None:
    for n, number in ((1, math.inf), (2, math.inf), (3, 7980), (4, 7980)):
        for padding in (False, True):
            assert NgramLanguage.from_paper(n, padding=padding).generated_sentences() == number
    assert all(sentence in PAPER for sentence in PAPER.generate(300, 3))
    strays = NgramLanguage.from_paper(2, padding=True).generate(300, 3)
    assert not all(sentence in PAPER for sentence in strays)


def test_entropy_rate_is_the_closed_form() -> None:
    mpmath.mp.dps = 30
    log, third = mpmath.log, mpmath.mpf(1) / 2
    expected = {
        "sentences": (log(7980), mpmath.mpf(356) / 19),
        "templates": (log(2) + third * (log(1680) + log(6300)), mpmath.mpf(17)),
    }
    for choice, (entropy, words) in expected.items():
        language = NgramLanguage.from_paper(template_probabilities=choice)
        assert language.sentence_entropy() == pytest.approx(float(entropy), rel=1e-14)
        assert language.entropy_rate() == pytest.approx(float(entropy / (words + 1)), rel=1e-14)
        assert language.perplexity() == pytest.approx(float(mpmath.exp(entropy / (words + 1))), rel=1e-14)
        endless = NgramLanguage.from_paper(template_probabilities=choice, end=False)
        assert endless.entropy_rate() == pytest.approx(float(entropy / words), rel=1e-14)


def test_rules_with_start_marks_have_the_entropy_rate_if_they_have_the_law() -> None:
    rates = [NgramLanguage.from_paper(n, padding=True) for n in range(1, 6)]
    excess = [language.rule_entropy() - language.entropy_rate() for language in rates]
    assert excess[0] > excess[1] > 0.1
    assert np.abs(excess[2:]).max() < 1e-14


words_of = st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(tuple)
texts = st.dictionaries(words_of, st.integers(1, 4), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(1, 4), st.booleans(), st.booleans())
def test_rules_of_any_sentences_are_those_of_counting_places(counts, n, padding, end) -> None:
    if not padding and min(map(len, counts)) < n:
        with pytest.raises(ValueError, match="padding"):
            NgramLanguage(counts, n)
        return
    law = {s: Fraction(c, sum(counts.values())) for s, c in counts.items()}
    expected = windows(law, n, padding)
    laws = next_word_laws({run: c for run, c in expected.items() if end or run[-1] != END})
    language = NgramLanguage(SentenceList(counts, list(counts.values())), n, padding=padding, end=end)
    repeated = NgramLanguage([s for s, c in counts.items() for _ in range(c)], n, padding=padding, end=end)
    assert rules_as_laws(language) == rules_as_laws(repeated) == laws
    if end:
        starts = {(START,) * (n - 1)} if padding else {s[: n - 1] for s in counts}
        number, contexts = language.generated_sentences(), list(laws)
        follows = np.array([[any((*c, w)[1:] == d for w in laws[c]) for d in contexts] for c in contexts], dtype=float)
        assert (number < math.inf) is not np.linalg.matrix_power(follows, len(contexts)).any()
        if number < math.inf:
            found = set().union(*(generated_up_to(laws, s, n, 100) for s in starts))
            assert len(found) == number >= len(counts)


slots = st.dictionaries(
    st.sampled_from("XYZ"),
    st.lists(st.sampled_from(["a", "b", "c", "a b", "b a c"]), min_size=1, max_size=3, unique=True),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(
    slots,
    st.lists(
        st.lists(st.sampled_from(["a", "d", "{X}", "{Y}", "{Z}"]), min_size=1, max_size=4), min_size=1, max_size=2
    ),
)
def test_a_grammar_is_the_list_of_its_sentences(fillers, templates) -> None:
    used = {part.strip("{}") for template in templates for part in template if "{" in part}
    fillers = {name: fillers.get(name, ["e", "f g"]) for name in used}
    readings = Counter()
    for template in templates:
        choices = [fillers[part.strip("{}")] if "{" in part else [part] for part in template]
        readings.update(tuple(" ".join(words).split()) for words in product(*choices))
    if max(readings.values()) > 1:
        with pytest.raises(ValueError, match="one reading"):
            TemplateGrammar([" ".join(t) for t in templates], fillers)
        return
    grammar = TemplateGrammar([" ".join(t) for t in templates], fillers)
    plain = SentenceList(readings)
    assert set(grammar.sentences()) == set(readings) and len(grammar) == len(readings)
    assert grammar.is_uniform() and plain.is_uniform()
    assert grammar.mean_length() == plain.mean_length() and grammar.shortest() == plain.shortest()
    assert grammar.entropy() == pytest.approx(plain.entropy(), abs=1e-12)
    for size in (1, 2, 3):
        assert grammar.occurrence_probabilities(size) == plain.occurrence_probabilities(size)
        assert set(grammar.beginnings(size)) == set(plain.beginnings(size))
        assert grammar.windows(size, True) == windows({s: Fraction(1, len(plain)) for s in readings}, size, True)
    for sentence in readings:
        assert sentence in grammar
        for end in range(len(sentence) + 1):
            assert grammar.next_words(sentence[:end]) == plain.next_words(sentence[:end])


def test_counting_generated_sentences_needs_known_rows_and_an_end() -> None:
    with pytest.raises(ValueError, match="rows"):
        count_generated(PAPER.rules, [145])
    with pytest.raises(ValueError, match="end"):
        NgramLanguage.from_paper(end=False).generated_sentences()


def test_weighted_fillers_and_weights_give_exact_probabilities() -> None:
    grammar = TemplateGrammar(["{A} {B} x"], {"A": {"p": 1, "q": 3}, "B": {"r": 0.5, "s": Fraction(1, 4)}})
    language = NgramLanguage(grammar, 2)
    assert language.next_word_distribution("q", exact=True) == {"r": Fraction(2, 3), "s": Fraction(1, 3)}
    assert grammar.next_words(()) == {"p": Fraction(1, 4), "q": Fraction(3, 4)}
    tenths = SentenceList([("a", "b"), ("a", "c"), ("a", "d")], [0.1, 1e-9, 0.7])
    law = NgramLanguage(tenths, 2).next_word_distribution("a", exact=True)
    assert law["b"] == Fraction(0.1) / (Fraction(0.1) + Fraction(1e-9) + Fraction(0.7)) and sum(law.values()) == 1


def test_template_probabilities_may_be_an_array() -> None:
    for law in (np.array([0.25, 0.75]), [0.25, 0.75]):
        grammar = TemplateGrammar(["x", "y"], {}, law)
        assert grammar.template_probabilities == (Fraction(1, 4), Fraction(3, 4))


def test_templates_and_fillers_may_be_arrays() -> None:
    grammar = TemplateGrammar(np.array(["{A} x", "y"]), {"A": np.array(["p", "q"])})
    assert list(grammar.sentences()) == [("p", "x"), ("q", "x"), ("y",)]


@pytest.mark.parametrize(
    "law", [np.float32([0.3, 0.7]), [np.float32(0.3), np.float32(0.7)], ["3/10", "7/10"], np.array([0.3, 0.7])]
)
def test_probabilities_of_templates_are_read_in_their_own_precision(law) -> None:
    probabilities = TemplateGrammar(["x", "y"], {}, law).template_probabilities
    assert sum(probabilities) == 1
    assert [float(p) for p in probabilities] == pytest.approx([0.3, 0.7], abs=1e-7)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ([0.3, 0.7 + 1e-7], "to within 1e-09 are allowed, got the sum 1.0000001$"),
        (np.float32([0.3, 0.7 + 1e-6]), r"to within 4.77e-07 are allowed, got the sum 1.00000\d+$"),
        ([10**400, 1], "got the sum 1e[+]300$"),
    ],
)
def test_a_wrong_sum_is_told_with_its_digits_and_the_tolerance(law, message) -> None:
    with pytest.raises(ValueError, match=message):
        TemplateGrammar(["x", "y"], {}, law)


@pytest.mark.parametrize("weights", [[1e-300, 1], [5e-324, 1e308], [1, 10**400], [Fraction(1, 10**400), 1]])
def test_extreme_weights_are_weights(weights) -> None:
    exact = Fraction(weights[0]) / (Fraction(weights[0]) + Fraction(weights[1]))
    language = NgramLanguage(SentenceList([["a"], ["b"]], weights), 1)
    grammar = TemplateGrammar(["{A}"], {"A": dict(zip("ab", weights, strict=True))})
    entropy = -float(exact) * (math.log(exact.numerator) - math.log(exact.denominator))  # the other term rounds to 0
    for source in (language.source, grammar):
        assert source.next_words(())["a"] == exact
        assert source.sample(2, 0) == [("b",), ("b",)]
        assert source.entropy() == pytest.approx(entropy, rel=1e-12, abs=1e-300)
    assert language.rule_entropy() == pytest.approx(math.log(2), rel=1e-14)  # a word or the end
    assert language.log_probability("a") <= -600


@pytest.mark.parametrize("kind", [int, np.int64])
def test_counts_near_the_end_of_64_bits_do_not_wrap_around(kind) -> None:
    source = SentenceList([["a"] * 10, ["b"]], [kind(2**62), kind(3)])
    law = NgramLanguage(source, 1).next_word_distribution("", exact=True)
    total = 11 * 2**62 + 6
    assert law == {"a": Fraction(10 * 2**62, total), "b": Fraction(3, total), END: Fraction(2**62 + 3, total)}


def test_encode_and_laws_are_the_distributions_as_arrays() -> None:
    rules, laws = PAPER.rules, PAPER.rules.laws()
    assert rules.contexts.shape == (145, 3) and laws.shape == (145, 80)
    assert np.array_equal(laws, rules.sparse_laws().toarray())
    for row, context in enumerate(PAPER.contexts()):
        assert (
            np.array_equal(PAPER.encode(context), rules.contexts[row]) and PAPER.decode(rules.contexts[row]) == context
        )
        expected = PAPER.next_word_distribution(context)
        assert {(*PAPER.words, END)[i]: laws[row, i] for i in np.flatnonzero(laws[row])} == expected
    assert np.sum(laws[:, -1] == 1) == 8
    with pytest.raises(ValueError, match="ids"):
        PAPER.decode([81])


def test_samples_are_sentences_with_the_stated_probabilities() -> None:
    for choice, share in (("sentences", 15 / 19), ("templates", 0.5), ([10 / 11, 1 / 11], 1 / 11)):
        language = NgramLanguage.from_paper(template_probabilities=choice)
        drawn = language.sample(4000, np.random.default_rng(5))
        assert drawn == language.sample(4000, 5)
        assert all(type(s) is tuple and s in language for s in drawn[:200])
        he = sum(s[0] == "He" for s in drawn)
        assert abs(he - 4000 * share) < 5 * math.sqrt(4000 * share * (1 - share))
        ends = Counter(s[-1] for s in drawn if s[0] == "He")
        assert max(abs(ends[w] - he / 6) for w in SLOTS["J"]) < 5 * math.sqrt(he * 5 / 36)


def test_generated_sentences_have_the_law_of_the_rules() -> None:
    text = [("a", "a"), ("a", "b"), ("b", "a", "a")]
    language = NgramLanguage(text, 2, padding=True)
    drawn = Counter(language.generate(6000, 1))
    laws = next_word_laws(windows({s: Fraction(1, 3) for s in text}, 2, True))
    for sentence in (("a",), ("b",), ("a", "a"), ("b", "a"), ("a", "b", "a")):
        steps = zip((START, *sentence), (*sentence, END), strict=True)
        p = float(math.prod(laws[(a,)].get(b, 0) for a, b in steps))
        assert abs(drawn[sentence] - 6000 * p) < 5 * math.sqrt(6000 * p * (1 - p)) + 1e-9, sentence
    assert max(map(len, language.generate(200, 2, longest=3))) == 3


def test_a_generated_sentence_can_end_at_its_first_words() -> None:
    """From (a, b) and from (c, a, b) the sentence ends or goes on by c with probability 1/2 each."""
    drawn = Counter(NgramLanguage([["a", "b", "c"], ["c", "a", "b"]], 3).generate(4000, 0))
    assert set(map("".join, drawn)) == {"ab", "abc", "cab", "cabc"}
    assert max(abs(count - 1000) for count in drawn.values()) < 5 * math.sqrt(4000 * 3 / 16)
    assert NgramLanguage([["a"]], 1).decode([]) == ()


def test_single_words_are_drawn_up_to_the_end_and_no_further() -> None:
    """P(end) = 1/2 after every word: the length is geometric, P(l) = 2^-(l + 1), mean 1, variance 2."""
    lengths = [len(words) for words in NgramLanguage([["a"]], 1).generate(4000, 0)]
    assert abs(np.mean(lengths) - 1) < 5 * math.sqrt(2 / 4000)
    assert abs(lengths.count(0) - 2000) < 5 * math.sqrt(1000)


def test_expected_number_of_runs_seen_is_the_mean_over_all_draws() -> None:
    law = law_of_templates([Fraction(4, 19), Fraction(15, 19)])
    some = dict.fromkeys(list(law)[::1600], Fraction(1, 5))
    language = NgramLanguage(some)
    for draws in (0, 1, 2, 3):
        independent = [len({g for s in pick for g in triples(s)}) for pick in product(some, repeat=draws)]
        assert language.expected_contexts_seen(draws) == pytest.approx(np.mean(independent), rel=1e-13)
        distinct = [
            len({g for s in pick for g in triples(s)})
            for pick in product(some, repeat=draws)
            if len(set(pick)) == draws
        ]
        assert language.expected_contexts_seen(draws, replacement=False) == pytest.approx(np.mean(distinct), rel=1e-13)


def test_everything_is_seen_in_all_sentences_and_a_sample_lies_in_the_band() -> None:
    assert PAPER.expected_contexts_seen([0, 7980], replacement=False).tolist() == [0.0, 145.0]
    curves = np.array([runs_seen(PAPER.sample(40, seed), 3) for seed in range(60)])
    assert curves.max() <= 145 and (np.diff(curves, axis=1) >= 0).all()
    expected = PAPER.expected_contexts_seen(np.arange(1, 41))
    spread = curves.std(axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(curves.mean(axis=0) - expected) <= 5 * spread + 1e-9).all()


def test_the_run_of_no_words_is_in_every_sentence() -> None:
    single = NgramLanguage.from_paper(1)
    assert single.source.occurrence_probabilities(0) == {(): Fraction(1)}
    assert single.expected_contexts_seen([0, 1, 2]).tolist() == [0.0, 1.0, 1.0]
    plain = NgramLanguage([("a", "b"), ("b",)], 1)
    assert plain.expected_contexts_seen([0, 1, 2]).tolist() == [0.0, 1.0, 1.0]


def test_runs_that_are_all_but_certain_or_all_but_impossible_are_counted_exactly():
    """In both directions a float rounds 1 - p to what it is not; against fractions."""
    for small in (Fraction(1, 10**9), Fraction(1, 10**18), Fraction(1, 3)):
        for draws in (0, 1, 2, 50):
            for p in (small, 1 - small):
                exact = 1 - (1 - p) ** draws
                assert expected_seen([p], [draws])[0] == pytest.approx(float(exact), rel=1e-12)
    rare = NgramLanguage.from_templates(["{X} y z"], {"X": {"a": 1.0, "b": 1e-17}}, 2)
    assert rare.expected_contexts_seen([0, 5])[1] == pytest.approx(float(len(rare.rules.contexts) - 1), abs=1e-9)


def test_what_the_rules_write_has_probability_one_and_nothing_else_has_any() -> None:
    text = [("a", "b", "a"), ("a", "b", "b")]
    for n, padding in product((1, 2, 3, 4), (False, True)):
        if n == 4 and not padding:
            continue
        language = NgramLanguage(text, n, padding=padding)
        laws = next_word_laws(windows({s: Fraction(1, 2) for s in text}, n, padding))
        for size in range(5):
            for words in product("ab", repeat=size):
                marked = (START,) * (n - 1) * padding + words + (END,)
                runs = [marked[i : i + n] for i in range(len(marked) - n + 1)]
                p = math.prod(laws.get(run[:-1], {}).get(run[-1], 0) for run in runs) if runs else 0
                assert math.exp(language.log_probability(words)) == pytest.approx(float(p), abs=1e-15), (n, words)


def test_words_that_no_rule_writes_have_no_probability() -> None:
    for words in ("", "Harry", "walk walk", "trunks bed"):
        assert PAPER.log_probability(words) == -math.inf
    endless = NgramLanguage.from_paper(end=False)
    assert endless.log_probability("Harry woke at") == -math.inf  # no word after the first three
    assert endless.log_probability("Harry woke at one") == pytest.approx(-math.log(12))
    assert NgramLanguage.from_paper(padding=True).log_probability("") == -math.inf


def test_a_corpus_is_one_long_sentence_or_many() -> None:
    words = "the cat saw the cat and the dog saw the cat".split()
    language = NgramLanguage.from_corpus(words, 3, end=False)
    assert language.next_word_distribution("the cat", exact=True) == {"saw": Fraction(1, 2), "and": Fraction(1, 2)}
    assert language.sentences() == (tuple(words),)
    two = NgramLanguage.from_corpus(iter([words, [*words[:2], "ran"]]), 3)
    assert two.next_word_distribution("the cat") == dict.fromkeys(("saw", "and", "ran", END), 1 / 4)
    assert two.next_word_distribution("the cat ran") == {END: 1.0}


@pytest.mark.parametrize(
    "build",
    [
        lambda: TemplateGrammar(["{A} x"], {"A": []}),
        lambda: TemplateGrammar(["{A} x"], {"A": [""]}),
        lambda: TemplateGrammar(["{A} x"], {"A": "word"}),
        lambda: TemplateGrammar(["{B} x"], {"A": ["y"]}),
        lambda: TemplateGrammar(["{} x"], {"A": ["y"]}),
        lambda: TemplateGrammar(["{} x"], {"": ["y"]}),
        lambda: TemplateGrammar(["{A}s x"], {"A": ["y"]}),
        lambda: TemplateGrammar(["{A x"], {"A": ["y"]}),
        lambda: TemplateGrammar(["x"], {"A": ["y"]}),
        lambda: TemplateGrammar([], {}),
        lambda: TemplateGrammar([" "], {}),
        lambda: TemplateGrammar("x", {}),
        lambda: TemplateGrammar(["{A}"], {"A": ["y", "y"]}),
        lambda: TemplateGrammar(["{A}"], {"A": [END]}),
        lambda: TemplateGrammar(["x", "y"], {}, "words"),
        lambda: TemplateGrammar(["x", "y"], {}, [1]),
        lambda: TemplateGrammar(["x", "y"], {}, np.array([1.0])),
        lambda: TemplateGrammar(["x", "y"], {}, [1, 0]),
        lambda: TemplateGrammar(["x", "y"], {}, [0.5, 0.4]),
        lambda: TemplateGrammar(["x", "y"], {}, [10, 1]),
        lambda: TemplateGrammar(["x", "y"], {}, [1, float("nan")]),
        lambda: SentenceList([]),
        lambda: SentenceList([()]),
        lambda: SentenceList(["a b"]),
        lambda: SentenceList("a b"),
        lambda: SentenceList([("a", 3)]),
        lambda: SentenceList([("a", START)]),
        lambda: NgramLanguage([("a", "b", "c", UNKNOWN)]),  # else what no rule tells would look like a word
        lambda: SentenceList(5),
        lambda: NgramLanguage([1, 2]),
        lambda: NgramLanguage([["a", "b", "c", ["d"]]]),
        lambda: PAPER.next_word_distribution(5),
        lambda: PAPER.next_word_distribution(None),
        lambda: PAPER.next_word_distribution([["a"], ["b"], ["c"]]),
        lambda: SentenceList([("a",)], [-1]),
        lambda: NgramLanguage.from_paper(0),
        lambda: NgramLanguage.from_paper(2.5),
        lambda: NgramLanguage.from_paper(15),
        lambda: NgramLanguage.from_corpus("some text"),
        lambda: NgramLanguage.from_corpus([]),
        lambda: NgramLanguage.from_corpus(["only", "two"], 3),
        lambda: PAPER.sample(0, 0),
        lambda: PAPER.sample(1, -1),
        lambda: PAPER.generate(1, 0, longest=0),
        lambda: PAPER.ngrams(0),
        lambda: PAPER.encode("nobody"),
        lambda: PAPER.expected_contexts_seen(-1),
        lambda: PAPER.expected_contexts_seen(7981, replacement=False),
        lambda: NgramLanguage.from_paper(template_probabilities="templates").expected_contexts_seen(1, False),
        lambda: expected_seen([Fraction(1)], 0.5),
        lambda: TemplateGrammar(["{A}"], {"A": [1, 2]}),
        lambda: TemplateGrammar(["{A}"], {"A": 5}),
        lambda: TemplateGrammar(["{A}"], {"A": np.array("y")}),
        lambda: TemplateGrammar(["{A}"], {"A": None}),
        lambda: TemplateGrammar([5], {}),
        lambda: TemplateGrammar(5, {}),
        lambda: TemplateGrammar(["x"], None),
        lambda: TemplateGrammar(["{A}"], [("A", ["y"])]),
        lambda: TemplateGrammar(["x"], {"A": ["y"], 1: ["y"]}),
        lambda: NgramLanguage.from_corpus(5),
        lambda: NgramLanguage.from_paper(end="no"),
        lambda: NgramLanguage.from_paper(padding=1),
        lambda: PAPER.decode([[0, 1], [2]]),
        lambda: PAPER.decode(np.ma.masked_equal([0, 1], 1)),
        lambda: PAPER.expected_contexts_seen([[0, 1], [2]]),
        lambda: PAPER.expected_contexts_seen(np.ma.masked_equal([0, 1], 1)),
        lambda: PAPER.completions("nobody"),
    ],
)
def test_bad_input_raises_value_error(build) -> None:
    with pytest.raises(ValueError, match=r"allowed|need|at least|ha(s|ve) to|mark|split|texts"):
        build()
