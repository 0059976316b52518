"""n-gram languages: the next word follows from the last n - 1 words alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import exp, fsum, inf
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, plain_array, truth_value, whole_number
from lib.processes.ngram import paper
from lib.processes.ngram.grammar import Fillers, TemplateGrammar
from lib.processes.ngram.rules import (
    NgramRules,
    count_generated,
    expected_seen,
    generate_ids,
    rules_of_counts,
    rules_of_text,
)
from lib.processes.ngram.sentences import END, START, UNKNOWN, Sentence, SentenceList, Word


class NgramLanguage:
    """A language L with a distribution over its sentences, and its n-gram model: P(next word | last n - 1 words).

        f(w_1 .. w_t) = P(next | w_{t-n+2} .. w_t)   where these n - 1 words occur in a sentence of L,  else <unk>.

    The distribution is exact: how often the word follows the context in a sentence of L, divided by how often the
    context occurs, over all places. After the last word of a sentence comes `<end>`.

    source: a `TemplateGrammar`, a `SentenceList`, or an iterable of sentences, each a sequence of words.
    n: words of a rule, context and next word, at least 1. end: whether `<end>` counts as a next word; without it
    contexts that only end sentences are no rules. padding: whether n - 1 marks `<start>` precede the first word, so
    that rules cover it too; without, words 1 .. n - 1 lie outside the rules. Raises ValueError for n < 1, an
    end or padding that is no bool, or a sentence shorter than n words without padding.
    Source: Nandakumar, Qu, Mi and Liu, Def. 3.1-3.4.
    """

    def __init__(
        self,
        source: TemplateGrammar | SentenceList | Iterable[Sequence[Word]],
        n: int = 4,
        *,
        end: bool = True,
        padding: bool = False,
    ) -> None:
        self.n = whole_number(n, "n", 1)
        self.source = source if isinstance(source, TemplateGrammar | SentenceList) else SentenceList(source)
        self.end, self.padding = truth_value(end, "end"), truth_value(padding, "padding")
        if not padding and self.source.shortest() < self.n:
            raise ValueError(
                f"n: without padding a sentence needs at least n words; n = {self.n} is given and a sentence has "
                f"{self.source.shortest()}; padding=True allows it"
            )

    @classmethod
    def from_paper(
        cls,
        n: int = paper.ORDER,
        template_probabilities: str | Sequence[float | Fraction] = "sentences",
        *,
        end: bool = True,
        padding: bool = False,
    ) -> NgramLanguage:
        """The language of App. B; the paper leaves the probabilities of the two templates open.

        template_probabilities: as in `TemplateGrammar`; by default every sentence is equally likely.
        """
        grammar = TemplateGrammar(paper.TEMPLATES, paper.SLOTS, template_probabilities)
        return cls(grammar, n, end=end, padding=padding)

    @classmethod
    def from_templates(
        cls,
        templates: Sequence[str],
        slots: Mapping[str, Fillers],
        n: int = 4,
        template_probabilities: str | Sequence[float | Fraction] = "sentences",
        *,
        end: bool = True,
        padding: bool = False,
    ) -> NgramLanguage:
        """The language of a template grammar: see `TemplateGrammar` for the arguments."""
        return cls(TemplateGrammar(templates, slots, template_probabilities), n, end=end, padding=padding)

    @classmethod
    def from_corpus(
        cls, text: Iterable[Word] | Iterable[Sequence[Word]], n: int = 4, *, end: bool = True, padding: bool = False
    ) -> NgramLanguage:
        """Rules counted in a text: a sequence of words, taken as one long sentence, or of sentences.

        With end=False the last words of a stretch of text end nothing. Raises ValueError for no words.
        """
        if isinstance(text, str):
            raise ValueError("text: words or sentences are allowed, got one text; split it into words first")
        if not isinstance(text, Iterable):
            raise ValueError(f"text: words or sentences are allowed, got {text!r}")
        parts = list(text)
        flat = bool(parts) and all(isinstance(part, str) for part in parts)
        return cls(SentenceList([parts] if flat else parts), n, end=end, padding=padding)  # type: ignore[list-item]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: n = {self.n}, {len(self.words)} words, {len(self)} sentences>"

    def __len__(self) -> int:
        """Number of different sentences."""
        return len(self.source)

    def __contains__(self, sentence: object) -> bool:
        """Whether a text, or its sequence of words, is a sentence of the language."""
        words = self._spelled(sentence) if isinstance(sentence, str | Sequence) else None
        return words is not None and all(isinstance(word, str) for word in words) and words in self.source

    @property
    def words(self) -> tuple[Word, ...]:
        """The vocabulary, d words in order of first appearance."""
        return self.source.words

    def sentences(self) -> tuple[Sentence, ...]:
        """Every sentence once. `iterate()` holds one at a time."""
        return tuple(self.source.sentences())

    def iterate(self) -> Iterator[Sentence]:
        """Every sentence once, one at a time."""
        return self.source.sentences()

    def contexts(self) -> tuple[Sentence, ...]:
        """The contexts that have a rule: runs of n - 1 words, without repetition, in order of first appearance."""
        return tuple(self.decode(row) for row in self.rules.contexts)

    def ngrams(self, size: int) -> tuple[Sentence, ...]:
        """Every run of `size` words in a sentence, once, in order of first appearance (templates: by place)."""
        run = whole_number(size, "size", 1)
        if isinstance(self.source, TemplateGrammar):
            return tuple(words for words in self.source.windows(run) if words[-1] != END)
        rules = rules_of_text(self.source, run + 1, padding=False, end=True)
        return tuple(self.decode(row) for row in rules.contexts)

    def trigrams(self) -> tuple[Sentence, ...]:
        """Every run of three words in a sentence: P of App. B, in the order of the printed table."""
        return self.ngrams(3)

    @cached_property
    def rules(self) -> NgramRules:
        """The rules as arrays: contexts (N, n - 1) of word ids, `laws()` (N, d + 1)."""
        if isinstance(self.source, SentenceList):
            return rules_of_text(self.source, self.n, self.padding, self.end)
        counts = self.source.windows(self.n, self.padding)
        return rules_of_counts({run: c for run, c in counts.items() if self.end or run[-1] != END}, self.words)

    def encode(self, words: str | Sequence[Word]) -> NDArray[np.int64]:
        """Ids of the words, (t,): 0 .. d - 1 in the order of `words`. Raises ValueError for a word outside."""
        return np.array([self._ids[word] for word in self._known(words)], dtype=np.int64)

    def decode(self, ids: ArrayLike) -> Sentence:
        """The words of ids 0 .. d - 1; d reads `<end>`, d + 1 `<start>`."""
        names = (*self.words, END, START)
        array = plain_array(ids, "ids")
        if array.size and (array.dtype.kind not in "iu" or np.any((array < 0) | (array >= len(names)))):
            raise ValueError(f"ids: whole numbers from 0 to {len(names) - 1} are allowed, got {ids!r}")
        return tuple(names[i] for i in array.ravel().tolist())

    @overload
    def next_word_distribution(
        self, context: str | Sequence[Word], exact: Literal[False] = False
    ) -> dict[Word, float]: ...

    @overload
    def next_word_distribution(self, context: str | Sequence[Word], exact: Literal[True]) -> dict[Word, Fraction]: ...

    def next_word_distribution(
        self, context: str | Sequence[Word], exact: bool = False
    ) -> dict[Word, float] | dict[Word, Fraction]:
        """Distribution of the next word after a context: {word: probability}, words that cannot follow left out.

        context: at least n - 1 words (fewer with padding), of which the last n - 1 count; a text is split at spaces,
        and straight apostrophes stand for typographic ones. After the end of a sentence the word is `<end>`; if the
        last words form no rule it is `<unk>`, the extra entry of Def. 3.4. exact: fractions instead of floats.
        Raises ValueError for fewer words or words outside the vocabulary.
        """
        known = self._known(context)
        if self.padding:
            known = (START,) * (self.n - 1) + known
        if len(known) < self.n - 1:
            raise ValueError(f"context: at least n - 1 = {self.n - 1} words are allowed, got {len(known)}: {context!r}")
        last = tuple(self._ids[word] for word in known[len(known) - self.n + 1 :])
        row = self.rules.index.get(last)
        law = {UNKNOWN: Fraction(1)}
        if row is not None:
            names = (*self.words, END)
            law = {names[i]: p for i, p in self.rules.law(row).items()}
        return law if exact else {word: float(p) for word, p in law.items()}

    def completions(self, prefix: str | Sequence[Word]) -> dict[Word, float]:
        """Distribution of the next word in the language itself, given all words so far; `<end>` after a whole sentence.

        Empty if no sentence begins so: the prefix is no valid starting sequence (Def. 3.2). Raises ValueError for words
        outside the vocabulary.
        """
        return {word: float(p) for word, p in self.source.next_words(self._known(prefix)).items()}

    def starts(self) -> tuple[Sentence, ...]:
        """The first n - 1 words of every sentence, without repetition: the shortest prefixes the rules continue."""
        return self.source.beginnings(self.n - 1)

    def sample(self, n: int, seed: int | np.random.Generator) -> list[Sentence]:
        """n independent sentences from the distribution of the language. Raises ValueError for n < 1 or a bad seed."""
        return self.source.sample(n, seed)

    def generate(self, n: int, seed: int | np.random.Generator, longest: int = 10_000) -> list[Sentence]:
        """n independent sentences written by the n-gram rules, word after word; not all need be in the language.

        The first n - 1 words are those of a sentence drawn from the language, or none with padding. A sentence stops
        at `<end>`, where no rule goes on, or after `longest` words. Raises ValueError for n, longest < 1 or a bad seed.
        """
        random, count = generator(seed), whole_number(n, "n", 1)
        prefixes: list[Sentence] = [()] * count
        if not self.padding:
            prefixes = [sentence[: self.n - 1] for sentence in self.sample(count, random)]
        made = generate_ids(self.rules, [self._row(p) for p in prefixes], whole_number(longest, "longest", 1), random)
        return [(*prefix, *self.decode(ids))[:longest] for prefix, ids in zip(prefixes, made, strict=True)]

    def generated_sentences(self) -> int | float:
        """Number of different sentences that the rules can write; `math.inf` if they can run in a loop.

        Every sentence of the language is one of them, so the rules write valid sentences only exactly if this is
        `len(language)`. Raises ValueError without `<end>`. Cost O(rules).
        """
        if not self.end:
            raise ValueError("end: sentences can be counted if they end; this language was made with end=False")
        starts = [()] if self.padding else self.starts()
        return count_generated(self.rules, [self._row(start) for start in starts])

    def log_probability(self, sentence: str | Sequence[Word]) -> float:
        """ln of the probability that the rules write these words, given the first n - 1 (with padding: all of them).

        -inf if they cannot, as where no rule applies: fewer than n words, the marks of the language counted.
        Raises ValueError for words outside the vocabulary. Cost O(words).
        """
        marked = (START,) * (self.n - 1) * self.padding + self._known(sentence) + (END,) * self.end
        ids = [self._ids[word] for word in marked]
        runs = [tuple(ids[i : i + self.n]) for i in range(len(ids) - self.n + 1)]
        return fsum(self.rules.log_probabilities.get(run, -inf) for run in runs) if runs else -inf

    def sentence_entropy(self) -> float:
        """Entropy of a sentence of the language in nats."""
        return self.source.entropy()

    def entropy_rate(self) -> float:
        """Entropy of a sentence divided by its mean number of words, `<end>` counted as a word if the language has it.

        Nats per word of a stream of independent sentences that shows where they end, as with `<end>`; of one that
        does not, an upper bound.
        """
        return self.sentence_entropy() / float(self.source.mean_length() + self.end)

    def perplexity(self) -> float:
        """exp of `entropy_rate`: the number of equally likely next words that would be as hard to guess."""
        return exp(self.entropy_rate())

    def rule_entropy(self) -> float:
        """Entropy in nats of the next word given the last n - 1, over the places in sentences that rules cover.

        With `<end>` and padding that is every place, and the value is at least `entropy_rate`; equal exactly if the
        n-gram model has the distribution of the language.
        """
        return self.rules.mean_entropy()

    def expected_contexts_seen(self, draws: ArrayLike, replacement: bool = True) -> NDArray[np.float64]:
        """Expected number of different runs of n - 1 words in `draws` sentences, same shape: see `expected_seen`.

        Without replacement all sentences have to be equally likely. Raises ValueError otherwise.
        """
        if not replacement and not self.source.is_uniform():
            raise ValueError("replacement: drawing without it is allowed where all sentences are equally likely")
        runs = self.source.occurrence_probabilities(self.n - 1)
        return expected_seen(runs.values(), draws, None if replacement else len(self))

    def _row(self, start: Sentence) -> int:
        padded = ((START,) * (self.n - 1) + start)[len(start) :] if self.padding else start
        return self.rules.index[tuple(self._ids[word] for word in padded)]

    @cached_property
    def _ids(self) -> dict[Word, int]:
        return {word: i for i, word in enumerate((*self.words, END, START))}

    def _spelled(self, given: str | Sequence[Word]) -> Sentence:
        """The words as the vocabulary spells them."""
        if not isinstance(given, Iterable):
            raise ValueError(f"words: a text or a sequence of words is allowed, got {given!r}")
        words = tuple(given.split()) if isinstance(given, str) else tuple(given)
        return tuple(self._apostrophes.get(w, w) if isinstance(w, str) and w not in self._ids else w for w in words)

    @cached_property
    def _apostrophes(self) -> dict[Word, Word]:
        return {word.replace("’", "'"): word for word in self.words if "’" in word}

    def _known(self, given: str | Sequence[Word]) -> Sentence:
        words = self._spelled(given)
        for word in words:
            if not isinstance(word, str) or self._ids.get(word, len(self.words)) >= len(self.words):
                raise ValueError(f"words: the {len(self.words)} words of the language are allowed, got {word!r}")
        return words
