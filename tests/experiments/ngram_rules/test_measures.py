"""Exact completion rates and divergences against sampling, brute force and the language itself."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from experiments.ngram_rules.languages import PrefixTree
from experiments.ngram_rules.measures import (
    KINDS,
    altered_histories,
    complete,
    counted_laws,
    divergence_by_depth,
    laws_after,
    next_word_laws,
    rule_following,
    seen_contexts,
)
from lib.models import create
from lib.processes import NgramLanguage

SMALL = NgramLanguage.from_templates(
    ["{A} saw {B} and {C} ran", "then {A} met {B} but {C} hid there"],
    {"A": ("ann", "bob"), "B": ("cat", "dog"), "C": ("it", "he")},
    n=3,
)
TREE = PrefixTree(SMALL)
NOTHING = np.zeros(len(TREE), dtype=bool)


def some_laws(seed: int) -> np.ndarray:
    """Positive distributions at every node, with most weight on what may follow."""
    random = np.random.default_rng(seed)
    laws = random.dirichlet(np.full(TREE.end + 1, 0.2), size=len(TREE)) * 0.3 + 0.7 * TREE.law
    return np.where(TREE.is_whole[:, None], 0.0, laws / laws.sum(axis=1, keepdims=True).clip(1e-12))


def test_laws_of_a_network_are_its_softmax_after_each_beginning() -> None:
    model = create("relu_ssm", TREE.end + 1, 7, embedding=3, seed=1).double()
    laws = next_word_laws(model, TREE)
    assert np.all(laws[TREE.is_whole] == 0) and np.all(laws[0] == 0)
    for sentence in (0, 5, 11):
        ids = torch.from_numpy(TREE.tokens[sentence][None, : TREE.lengths[sentence]])
        expected = model(ids).softmax(dim=-1)[0].detach().numpy()
        assert laws[TREE.nodes[sentence, 1 : TREE.lengths[sentence] + 1]] == pytest.approx(expected, abs=1e-14)


def test_sampled_completion_is_the_sum_over_all_sentences() -> None:
    laws = some_laws(0)
    done = complete(laws, TREE, 3, NOTHING)
    for prompt, found in zip(done.prompts, done.sampled, strict=True):
        total = 0.0
        for nodes, tokens, length in zip(TREE.nodes, TREE.tokens, TREE.lengths, strict=True):
            if nodes[3] == prompt:
                total += np.prod([laws[nodes[t], tokens[t]] for t in range(3, length + 1)])
        assert found == pytest.approx(total, rel=1e-12)
    assert np.all((done.sampled > 0.01) & (done.sampled < 1))


def test_completions_agree_with_what_is_drawn_and_failures_are_shared_out() -> None:
    laws, random = some_laws(1), np.random.default_rng(2)
    seen = random.random(len(TREE)) < 0.5
    done = complete(laws, TREE, 2, seen)
    prompt, draws = 0, 4000
    valid = unseen = 0
    for _ in range(draws):
        at = done.prompts[prompt]
        while at >= 0 and not TREE.is_whole[at]:
            here, at = at, TREE.child[at, random.choice(TREE.end + 1, p=laws[at])]
        valid += at >= 0
        unseen += at < 0 and not seen[here]
    for count, exact in ((valid, done.sampled[prompt]), (unseen, done.unseen_sampled[prompt])):
        assert abs(count / draws - exact) < 4.5 * np.sqrt(exact * (1 - exact) / draws)
    assert np.all(done.unseen_sampled <= 1 - done.sampled + 1e-12)
    everything = complete(laws, TREE, 2, NOTHING)
    assert everything.unseen_sampled == pytest.approx(1 - everything.sampled)


def test_greedy_completion_follows_the_most_likely_words() -> None:
    laws = some_laws(3)
    done = complete(laws, TREE, 2, NOTHING)
    for prompt, found, unseen in zip(done.prompts, done.greedy, done.unseen_greedy, strict=True):
        at = prompt
        while at >= 0 and not TREE.is_whole[at]:
            at = TREE.child[at, laws[at].argmax()]
        assert found == (at >= 0) and unseen == (at < 0)


def test_the_true_law_completes_every_prompt_and_has_no_divergence() -> None:
    done = complete(TREE.law, TREE, 2, NOTHING)
    assert done.sampled == pytest.approx(1.0) and np.all(done.greedy == 1)
    assert divergence_by_depth(TREE.law, TREE) == pytest.approx(0.0, abs=1e-15)


def test_divergence_is_the_mean_kullback_leibler_divergence_after_so_many_words() -> None:
    laws = some_laws(4)
    found = divergence_by_depth(laws, TREE)
    assert len(found) == TREE.tokens.shape[1] - 1
    for depth in (1, 4, 6):
        nodes = TREE.at_depth(depth)
        terms = []
        for node in nodes:
            p, q = TREE.law[node], laws[node]
            terms.append(TREE.mass[node] * np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))
        assert found[depth - 1] == pytest.approx(sum(terms) / TREE.mass[nodes].sum(), rel=1e-12)


def test_counting_the_whole_language_gives_its_rules() -> None:
    everything = np.arange(len(TREE.tokens))
    laws = counted_laws(TREE, everything, SMALL.n)
    for node in np.flatnonzero(~TREE.is_whole & (TREE.depth >= 2)):
        context = SMALL.decode(TREE.last_words(2)[node])
        names = (*SMALL.words, "<end>")
        assert {names[i]: p for i, p in enumerate(laws[node]) if p} == pytest.approx(
            SMALL.next_word_distribution(context)
        )


def test_an_unseen_context_is_silent_unless_it_backs_off() -> None:
    chosen = np.array([0])
    strict, soft = (counted_laws(TREE, chosen, 3, back_off) for back_off in (False, True))
    seen = seen_contexts(TREE, chosen, 2)
    inside = ~TREE.is_whole
    assert np.array_equal(strict.sum(axis=1) > 0, seen)
    assert soft[inside].sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(strict[seen], soft[seen])
    words = {tuple(run) for run in itertools.pairwise(TREE.tokens[0, : TREE.lengths[0]].tolist())}
    node = next(
        n for n in np.flatnonzero(inside & (TREE.depth > 2)) if tuple(TREE.last_words(2)[n].tolist()) not in words
    )
    assert strict[node].sum() == 0
    assert complete(strict, TREE, 2, seen).greedy.mean() < 1


def test_counts_are_relative_frequencies() -> None:
    chosen = np.array([0, 1, 2, 9, 9])
    laws = counted_laws(TREE, chosen, 1)
    text = [token for row in chosen for token in TREE.tokens[row, : TREE.lengths[row] + 1].tolist()]
    expected = [Fraction(text.count(word), len(text)) for word in range(TREE.end + 1)]
    assert np.allclose(laws, np.array(expected, dtype=float)[None])


@pytest.mark.parametrize("chosen", [np.array([], dtype=int), np.array([10**6]), np.array([-1])])
def test_sentences_outside_the_language_cannot_be_counted(chosen: np.ndarray) -> None:
    with pytest.raises(ValueError, match="chosen"):
        counted_laws(TREE, chosen, 2)


def test_altered_histories_keep_the_last_words_and_the_rules_do_not_care() -> None:
    histories = altered_histories(SMALL, TREE, 60, 5)
    written = histories.by_kind["as written"]
    assert set(histories.by_kind) == set(KINDS)
    for kind, rows in histories.by_kind.items():
        for ids, original in zip(rows, written, strict=True):
            assert ids[-2:].tolist() == original[-2:].tolist()
            if kind == "shuffled":
                assert sorted(ids.tolist()) == sorted(original.tolist())
            if kind == "longer":
                assert ids[-len(original) :].tolist() == original.tolist() and len(ids) > len(original)
    assert any(
        ids.tolist() != original.tolist() for ids, original in zip(histories.by_kind["shuffled"], written, strict=True)
    )

    class Rules(torch.nn.Module):
        vocabulary = TREE.end + 1

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            rows = [SMALL.rules.index[tuple(last)] for last in tokens[:, -2:].tolist()]
            return torch.from_numpy(np.log(SMALL.rules.laws()[rows] + 1e-300))[:, None]

    for found in rule_following(Rules(), histories).values():
        assert found["obeyed"] == 1.0 and found["divergence"] == pytest.approx(0.0, abs=1e-12)
    assert laws_after(Rules(), written) == pytest.approx(histories.rule_laws)


def test_a_model_that_reads_its_history_is_found_out() -> None:
    histories = altered_histories(SMALL, TREE, 60, 5)

    class Counting(torch.nn.Module):
        """Knows the distribution of every beginning of the language, and nothing elsewhere."""

        vocabulary = TREE.end + 1

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            laws = []
            for row in tokens.tolist():
                node = 0
                for word in row:
                    node = TREE.child[node, word] if node >= 0 else -1
                laws.append(TREE.law[node] if node >= 0 else np.full(TREE.end + 1, 1 / (TREE.end + 1)))
            return torch.from_numpy(np.log(np.array(laws) + 1e-300))[:, None]

    found = rule_following(Counting(), histories)
    assert found["as written"]["divergence"] == pytest.approx(0.0, abs=1e-12)
    assert found["longer"]["divergence"] > 0.5
