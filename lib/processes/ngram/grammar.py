"""Finite languages from sentence templates with slots: every sentence, its probability, its n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import fsum, log, prod
from typing import Any, NamedTuple

import numpy as np

from lib.checks import generator, sum_tolerance, whole_number
from lib.processes.ngram.sentences import END, START, Sentence, Word, exact_weights, refuse_marks

Fillers = Sequence[str] | Mapping[str, float | Fraction]
_SLOT = re.compile(r"\{([^{}\s]+)\}")
Choices = list[tuple[Sentence, Fraction]]  # the fillers of one place, with their probabilities


class Arc(NamedTuple):
    """One word of a template, on the way from one node to a later one."""

    word: Word
    target: int
    probability: Fraction


class TemplateGrammar:
    """Sentences made by filling the slots of one of several templates, each slot independently of the others.

    templates: texts such as "{A} woke at {B} o’clock", words parted by spaces, slots in braces.
    slots: for each name its fillers, equally likely, or a mapping filler -> weight. A filler may have several words.
    template_probabilities: "sentences" weighs a template by its number of fillings, so that with equally likely fillers
    every sentence is equally likely; "templates" makes templates equally likely; else a probability for each template;
    their sum may miss one by 1e-9, or by four epsilon of float32 or float16, and they are divided by it.

    Probabilities are exact fractions. Raises ValueError for other types, an empty, unnamed or unknown slot, an unused
    name, weights that are no probabilities, or a sentence that can be made in two ways.
    """

    def __init__(
        self,
        templates: Sequence[str],
        slots: Mapping[str, Fillers],
        template_probabilities: str | Sequence[float | Fraction] = "sentences",
    ) -> None:
        texts = _texts(templates, "templates: a sequence of at least one text is allowed")
        if not isinstance(slots, Mapping) or not all(isinstance(name, str) for name in slots):
            raise ValueError(f"slots: a mapping of names to fillers is allowed, got {slots!r}")
        fillers = {name: _fillers(name, given) for name, given in slots.items()}
        self._parts = [_parts(text, fillers) for text in texts]
        unused = set(slots).difference(*(_SLOT.findall(text) for text in texts))
        if unused:
            raise ValueError(f"slots: every slot has to occur in a template, {sorted(unused)} occur in none")
        self.template_sizes = tuple(prod(len(part) for part in parts) for parts in self._parts)
        self.template_probabilities = self._template_law(template_probabilities)
        self._graphs = [_graph(parts) for parts in self._parts]
        seen = (arc.word for graph in self._graphs for arcs in graph for arc in arcs if arc.word != END)
        self.words: tuple[Word, ...] = tuple(dict.fromkeys(seen))
        self._refuse_ambiguity()

    def __len__(self) -> int:
        """Number of sentences."""
        return sum(self.template_sizes)

    def sentences(self) -> Iterator[Sentence]:
        """Every sentence once, template by template, the last slot turning fastest. Holds one sentence at a time."""
        for parts in self._parts:
            for fillers in product(*parts):
                yield sum((words for words, _ in fillers), ())

    def __contains__(self, sentence: object) -> bool:
        """Whether the words, a tuple or list, are a sentence. Cost O(words)."""
        return isinstance(sentence, tuple | list) and self.next_words(tuple(sentence)).get(END, 0) > 0

    def next_words(self, prefix: Sequence[Word]) -> dict[Word, Fraction]:
        """Distribution of the word after given first words, END after a whole sentence; empty if none begins so."""
        ahead: dict[Word, Fraction] = {}
        for graph, weight in zip(self._graphs, self.template_probabilities, strict=True):
            states = {0: weight}
            for word in prefix:
                reached: dict[int, Fraction] = {}
                for node, mass in states.items():
                    for arc in graph[node]:
                        if arc.word == word:
                            reached[arc.target] = reached.get(arc.target, Fraction()) + mass * arc.probability
                states = reached
            for node, mass in states.items():
                for arc in graph[node]:
                    ahead[arc.word] = ahead.get(arc.word, Fraction()) + mass * arc.probability
        total = sum(ahead.values())
        return {word: mass / total for word, mass in ahead.items()}

    def windows(self, size: int, padding: bool = False) -> dict[tuple[Word, ...], Fraction]:
        """Expected number in one sentence of each run of `size` words, END counting as the word after the last.

        With padding, size - 1 START words come before the first. In order of template and place. Cost: one step for
        each path of `size` words, whatever the number of sentences.
        """
        counts: dict[tuple[Word, ...], Fraction] = {}
        for graph, weight in self._weighted_graphs(size - 1 if padding else 0):
            for node, mass in enumerate(_forward(graph, weight)):
                for words, probability in _paths(graph, node, size):
                    counts[words] = counts.get(words, Fraction()) + mass * probability
        return counts

    def beginnings(self, size: int) -> tuple[Sentence, ...]:
        """The first `size` words of every sentence that has as many, without repetition."""
        found: dict[Sentence, None] = {(): None}
        for _ in range(size):
            found = {(*start, word): None for start in found for word in self.next_words(start) if word != END}
        return tuple(found)

    def occurrence_probabilities(self, size: int) -> dict[Sentence, Fraction]:
        """For each run of `size` words the probability that a sentence contains it at least once."""
        runs = (run for run in self.windows(size) if END not in run[-1:])
        return {run: self._occurrence_probability(run) for run in runs}

    def _occurrence_probability(self, run: Sentence) -> Fraction:
        """One minus the probability of the paths that never match the whole run."""
        if not run:
            return Fraction(1)  # every sentence contains the run of no words
        missing, jumps = Fraction(), _matching_table(run)
        for graph, weight in self._weighted_graphs(0):
            states: list[dict[int, Fraction]] = [{} for _ in graph]
            states[0][0] = weight
            for node, arcs in enumerate(graph):
                for matched, mass in states[node].items():
                    for arc in arcs:
                        now = _advance(jumps, run, matched, arc.word)
                        if now < len(run):
                            later = states[arc.target]
                            later[now] = later.get(now, Fraction()) + mass * arc.probability
            missing += sum(states[-1].values())
        return 1 - missing

    def entropy(self) -> float:
        """Entropy of one sentence in nats: -sum of p ln p over the choices of template and fillers."""
        choice = [-float(p) * log(p) for p in self.template_probabilities if float(p)]  # 0 ln 0 = 0
        for parts, weight in zip(self._parts, self.template_probabilities, strict=True):
            choice += [-float(weight * p) * log(p) for part in parts for _, p in part if float(p)]
        return fsum(choice)

    def mean_length(self) -> Fraction:
        """Expected number of words in a sentence."""
        lengths = (sum(p * len(words) for part in parts for words, p in part) for parts in self._parts)
        return sum((w * length for w, length in zip(self.template_probabilities, lengths, strict=True)), Fraction())

    def shortest(self) -> int:
        """Number of words of the shortest sentence."""
        return min(sum(min(len(words) for words, _ in part) for part in parts) for parts in self._parts)

    def is_uniform(self) -> bool:
        """Whether all sentences are equally likely."""
        shares = zip(self.template_probabilities, self.template_sizes, strict=True)
        flat = all(len({p for _, p in part}) == 1 for parts in self._parts for part in parts)
        return flat and len({weight / size for weight, size in shares}) == 1

    def sample(self, n: int, seed: int | np.random.Generator) -> list[Sentence]:
        """n independent sentences. Raises ValueError for n < 1 or a bad seed."""
        random = generator(seed)
        law = [float(p) for p in self.template_probabilities]
        drawn = random.choice(len(law), size=whole_number(n, "n", 1), p=law)
        fillings = [_draw(parts, int(np.sum(drawn == t)), random) for t, parts in enumerate(self._parts)]
        return [next(fillings[t]) for t in drawn.tolist()]

    def _template_law(self, given: str | Sequence[float | Fraction]) -> tuple[Fraction, ...]:
        if isinstance(given, str) and given == "sentences":
            return tuple(Fraction(size, sum(self.template_sizes)) for size in self.template_sizes)
        if isinstance(given, str) and given == "templates":
            return (Fraction(1, len(self._parts)),) * len(self._parts)
        if isinstance(given, str):
            choices = '"sentences", "templates" or probabilities'
            raise ValueError(f"template_probabilities: {choices} are allowed, got {given!r}")
        name = "template_probabilities"
        return exact_weights(given, len(self._parts), name, sum_tolerance(given, name))

    def _weighted_graphs(self, pads: int) -> Iterator[tuple[list[list[Arc]], Fraction]]:
        for graph, weight in zip(self._graphs, self.template_probabilities, strict=True):
            lead = [[Arc(START, place + 1, Fraction(1))] for place in range(pads)]
            body = [[arc._replace(target=arc.target + pads) for arc in arcs] for arcs in graph]
            yield lead + body, weight

    def _refuse_ambiguity(self) -> None:
        """Two readings of one sentence are two paths with the same words: follow pairs of paths until both end."""
        pairs: dict[tuple[int, int, int, int, bool], Sentence] = {
            (s, 0, t, 0, s != t): () for s in range(len(self._graphs)) for t in range(s, len(self._graphs))
        }
        waiting = list(pairs)
        while waiting:
            s, u, t, v, apart = pair = waiting.pop()
            for one in self._graphs[s][u]:
                for other in self._graphs[t][v]:
                    if one.word != other.word:
                        continue
                    differ = apart or one is not other
                    if one.word == END and differ:
                        text = " ".join(pairs[pair])
                        raise ValueError(f"templates: every sentence has to have one reading, {text!r} has several")
                    step = (s, one.target, t, other.target, differ)
                    if one.word != END and step not in pairs:
                        pairs[step] = (*pairs[pair], one.word)
                        waiting.append(step)


def _texts(given: Any, allowed: str) -> list[str]:
    """The texts of a list or array; ValueError, which begins as given, unless there is one at least."""
    try:
        texts = [] if isinstance(given, str) else list(given)
    except TypeError:
        texts = []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{allowed}, got {given!r}")
    return texts


def _fillers(name: str, given: Fillers) -> Choices:
    texts = _texts(given, f"slots: slot {name!r} needs a list of at least one text as filler")
    phrases = [tuple(text.split()) for text in texts]
    if not all(phrases):
        raise ValueError(f"slots: a filler has at least one word, slot {name!r} has an empty one")
    weights = list(given.values()) if isinstance(given, Mapping) else [1] * len(phrases)
    law = exact_weights(weights, len(phrases), f"slot {name!r}")
    return [(refuse_marks(phrase), p) for phrase, p in zip(phrases, law, strict=True)]


def _parts(text: str, fillers: Mapping[str, Choices]) -> list[Choices]:
    """The template as a list of choices; a fixed word is a choice of one."""
    parts = []
    for token in text.split():
        slot = _SLOT.fullmatch(token)
        if slot is None and ("{" in token or "}" in token):
            raise ValueError(
                f"templates: a slot has to be one name in braces between spaces, as in '{{A}}', got {token!r}"
            )
        if slot is None:
            parts.append([(refuse_marks((token,)), Fraction(1))])
        elif slot[1] not in fillers:
            raise ValueError(f"templates: slots {sorted(fillers)} are allowed, {text!r} asks for {slot[1]!r}")
        else:
            parts.append(fillers[slot[1]])
    if not parts:
        raise ValueError("templates: a template has at least one word, got an empty one")
    return parts


def _graph(parts: Iterable[Choices]) -> list[list[Arc]]:
    """Nodes in order, each with its arcs; node 0 begins, the last arc carries END into the last node."""
    nodes: list[list[Arc]] = [[]]
    for part in parts:
        here, joint = len(nodes) - 1, len(nodes) + sum(len(words) - 1 for words, _ in part)
        for words, probability in part:
            at, p = here, probability
            for word in words[:-1]:
                nodes.append([])
                nodes[at].append(Arc(word, len(nodes) - 1, p))
                at, p = len(nodes) - 1, Fraction(1)
            nodes[at].append(Arc(words[-1], joint, p))
        nodes.append([])
    nodes[-1].append(Arc(END, len(nodes), Fraction(1)))
    return [*nodes, []]


def _draw(parts: list[Choices], count: int, random: np.random.Generator) -> Iterator[Sentence]:
    """`count` fillings of one template."""
    picks = []
    for part in parts:
        law = np.array([float(p) for _, p in part])
        picks.append(random.choice(len(part), size=count, p=law / law.sum()).tolist())
    for row in zip(*picks, strict=True):
        yield sum((part[i][0] for part, i in zip(parts, row, strict=True)), ())


def _forward(graph: list[list[Arc]], weight: Fraction) -> list[Fraction]:
    """Probability that a sentence passes each node."""
    mass = [weight] + [Fraction()] * (len(graph) - 1)
    for node, arcs in enumerate(graph):
        for arc in arcs:
            mass[arc.target] += mass[node] * arc.probability
    return mass


def _paths(graph: list[list[Arc]], node: int, size: int) -> Iterator[tuple[tuple[Word, ...], Fraction]]:
    """Words and probability of every path of `size` arcs from the node."""
    if size == 0:
        yield (), Fraction(1)
        return
    for arc in graph[node]:
        for words, probability in _paths(graph, arc.target, size - 1):
            yield (arc.word, *words), arc.probability * probability


def _matching_table(words: tuple[Word, ...]) -> list[int]:
    """For each prefix the length of its longest proper border (Knuth, Morris and Pratt)."""
    table = [0] * len(words)
    for end in range(1, len(words)):
        table[end] = _advance(table, words, table[end - 1], words[end])
    return table


def _advance(table: list[int], words: tuple[Word, ...], matched: int, word: Word) -> int:
    while matched and words[matched] != word:
        matched = table[matched - 1]
    return matched + 1 if words[matched] == word else 0
