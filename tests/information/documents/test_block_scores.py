"""Scores of blocks: the fast pass is the plain one, and with an exact model the estimates are the exact information."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch

from lib.information import direct_estimate, entropy, vclub_estimate
from lib.information.corrections import ngram_corrected_log_marginal
from lib.information.documents.block_scores import score_blocks
from lib.information.documents.windows import Windows, document_windows
from lib.models import create
from lib.models.scoring import NetworkScorer
from lib.processes import MarkovChain
from lib.runs.sweep import local_client
from lib.theory.model_error import markov_error_terms

CHAIN = MarkovChain([[0.80, 0.15, 0.05], [0.10, 0.80, 0.10], [0.25, 0.05, 0.70]])


class ChainScorer:
    """The distribution of a chain that starts as `opening` says; None: it does not say."""

    def __init__(self, chain, opening="stationary"):
        self.vocabulary = chain.initial.size
        self.step = np.log(chain.transition)
        law = chain.initial if isinstance(opening, str) else opening
        self.opening = np.full(self.vocabulary, np.nan) if law is None else np.log(law)
        self.tokens_read = 0

    def log_probabilities(self, tokens):
        self.tokens_read += tokens.size
        return np.concatenate([self.opening[tokens[:, :1]], self.step[tokens[:, :-1], tokens[:, 1:]]], axis=1)


def chain_windows(count, length, seed=0, per_document=1):
    rows = CHAIN.sample(count, length, seed).astype(np.int64)
    return Windows(rows, np.repeat(np.arange(count // per_document), per_document), np.zeros(count, dtype=np.int64))


def network_scorer(start=None, seed=3):
    return NetworkScorer(create("lstm", 5, 7, 1, seed=seed).double(), start)


def random_windows(documents=4, length=24, per_document=2, seed=1):
    texts = np.random.default_rng(seed).integers(0, 5, (documents, 200))
    return document_windows(list(texts), length, per_document=per_document, seed=2)


def one_at_a_time(model, start, given, following):
    """ln q(following | given) token by token from logits of the whole prefix, and the terms."""
    read = ([] if start is None else [start]) + list(given)
    terms = []
    for token in following:
        if not read:
            terms.append(np.nan)
        else:
            with torch.no_grad():
                logits = model(torch.tensor([read]))[0, -1].double()
            terms.append(float(logits.log_softmax(dim=-1)[token]))
        read.append(token)
    return terms


@pytest.mark.parametrize("start", [None, 4])
@pytest.mark.parametrize("opening", [1, 2])
def test_all_lengths_in_one_pass_are_what_one_length_at_a_time_gives(start, opening):
    windows = random_windows()
    scorer = network_scorer(start)
    splits, ratios = [2, 3, 5, 12], [2, 3, 4]
    scores = score_blocks(scorer, windows, splits, ratios, opening=opening, documents_at_once=3, progress=False)
    for i, row in enumerate(windows.tokens.tolist()):
        foreign = windows.tokens[scores.partners[i]].tolist()
        for s, cut in enumerate(splits):
            for r, ratio in enumerate(ratios):
                end = cut * ratio
                if end > 24:
                    assert np.isnan(scores.joint[i, s, r]) and np.isnan(scores.rest[i, s, r])
                    assert np.isnan(scores.strange[i, s, r])
                    continue
                own = one_at_a_time(scorer.model, start, row[:cut], row[cut:end])
                other = one_at_a_time(scorer.model, start, row[:cut], foreign[cut:end])
                alone = one_at_a_time(scorer.model, start, [], row[cut:end])
                assert scores.joint[i, s, r] == pytest.approx(sum(own), abs=1e-10)
                assert scores.strange[i, s, r] == pytest.approx(sum(other), abs=1e-10)
                assert scores.rest[i, s, r] == pytest.approx(sum(alone[opening:]), abs=1e-10)
                assert scores.opening[i, s] == pytest.approx(sum(alone[:opening]), abs=1e-10, nan_ok=True)


def test_every_token_of_a_window_is_scored_on_the_way():
    windows, scorer = chain_windows(6, 20), ChainScorer(CHAIN)
    scores = score_blocks(scorer, windows, [2, 4], [2], opening=1, progress=False)  # blocks end at 8 of 20
    np.testing.assert_array_equal(scores.tokens, scorer.log_probabilities(windows.tokens))


def test_the_cost_is_what_the_docstring_says():
    scorer, windows = ChainScorer(CHAIN), chain_windows(6, 64)
    splits = [2, 4, 8, 16, 32]
    score_blocks(scorer, windows, splits, [2], progress=False)
    assert scorer.tokens_read == 6 * (64 + sum(splits) + 2 * sum(splits))


def test_with_the_exact_law_of_a_chain_the_direct_estimate_is_its_exact_information():
    scores = score_blocks(
        ChainScorer(CHAIN), chain_windows(4000, 24), [2, 4, 6], [2, 3, 4], documents_at_once=4000, progress=False
    )
    exact = CHAIN.bipartite_mutual_information(2)
    values = scores.direct()
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - exact) < 4 * error) and np.all(error < 0.02)
    shuffled = scores.vclub()
    terms = markov_error_terms((CHAIN.initial, CHAIN.transition), (CHAIN.initial, CHAIN.transition), 24)
    error = shuffled.std(axis=0, ddof=1) / np.sqrt(len(values)) * np.sqrt(2)  # a block serves twice
    assert np.all(np.abs(shuffled.mean(axis=0) - terms.vclub) < 4 * error)
    assert np.all(shuffled.mean(axis=0) > exact + 10 * error)  # the Jeffreys divergence is far from I


def test_with_a_wrong_model_the_estimates_miss_by_the_exact_error_terms():
    wrong = MarkovChain(0.85 * CHAIN.transition + 0.15 / 3)
    opening = np.array([0.01, 0.01, 0.98])
    scores = score_blocks(
        ChainScorer(wrong, opening), chain_windows(4000, 16, seed=5), [8], documents_at_once=4000, progress=False
    )
    terms = markov_error_terms((CHAIN.initial, CHAIN.transition), (CHAIN.initial, wrong.transition), 16, start=opening)
    for values, expected in ((scores.direct(), terms.direct), (scores.vclub(), terms.vclub)):
        error = values.std(ddof=1) / np.sqrt(len(values)) * np.sqrt(2)
        assert abs(values.mean() - expected) < 4 * error < 0.25
        assert abs(values.mean() - CHAIN.bipartite_mutual_information(2)) > 4 * error


def test_means_are_those_of_the_estimators_of_the_book():
    scores = score_blocks(ChainScorer(CHAIN), chain_windows(50, 8), [2, 4], progress=False)
    alone = scores.alone()
    for s in range(2):
        direct = direct_estimate(scores.joint[:, s, 0], alone[:, s, 0])
        assert scores.direct()[:, s, 0].mean() == pytest.approx(direct.value, abs=1e-12)
        vclub = vclub_estimate(scores.joint[:, s, 0], scores.strange[:, s, 0])
        assert scores.vclub()[:, s, 0].mean() == pytest.approx(vclub.value, abs=1e-10)


def test_the_variance_reduction_of_vclub_keeps_its_mean_and_lowers_its_spread():
    scores = score_blocks(ChainScorer(CHAIN), chain_windows(500, 64), [32], documents_at_once=500, progress=False)
    plain = scores.joint - scores.strange
    assert scores.vclub().mean() == pytest.approx(plain.mean(), abs=1e-9)
    assert scores.vclub().std() < 0.5 * plain.std()


def test_the_correction_is_that_of_equation_a14_and_the_same_at_all_lengths():
    windows = chain_windows(40, 32)
    opening = np.array([0.05, 0.05, 0.90])
    scores = score_blocks(ChainScorer(CHAIN, opening), windows, [2, 4, 8], [2, 3, 4], progress=False)
    counts = np.array([[50, 9, 3], [6, 49, 6], [15, 3, 43]])
    bigrams = entropy(counts, "grassberger2008")
    for s, cut in enumerate([2, 4, 8]):
        tokens = ChainScorer(CHAIN, opening).log_probabilities(windows.tokens[:, cut : 2 * cut])
        for weight in (0.0, 0.2, 1.0):
            expected = ngram_corrected_log_marginal(tokens, counts, weight)
            np.testing.assert_allclose(scores.alone(bigrams, weight)[:, s, 0], expected, atol=1e-10)
    shift = scores.direct(bigrams).mean(axis=0) - scores.direct().mean(axis=0)
    expected = 0.8 * (scores.opening.mean(axis=0) + bigrams)  # of -ln q(Y): same for every ratio
    np.testing.assert_allclose(shift, np.tile(expected[:, None], 3), atol=1e-10)


def test_a_model_without_a_first_token_needs_the_whole_bigram_entropy():
    scores = score_blocks(ChainScorer(CHAIN, None), chain_windows(10, 8), [4], progress=False)
    with pytest.raises(ValueError, match="no distribution of a first token"):
        scores.direct()
    with pytest.raises(ValueError, match="no distribution of a first token"):
        scores.direct(1.5)
    with pytest.raises(ValueError, match="0 <= weight <= 1"):
        scores.direct(1.5, 1.2)
    for weight in ("x", None):
        with pytest.raises(ValueError, match="model_weight: a finite real number"):
            scores.direct(1.5, weight)
    assert np.isfinite(scores.direct(1.5, 0.0)).all() and np.isfinite(scores.vclub()).all()


@pytest.mark.parametrize("order", [[0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, 1], [0, 1, 2, 0, 1, 2], [0, 0, 1, 2, 2, 1]])
def test_rows_are_those_of_the_windows_as_given_which_have_to_be_by_document(order):
    plain, scorer = chain_windows(6, 8), ChainScorer(CHAIN)
    windows = Windows(plain.tokens, np.array(order), plain.starts)
    if order[4] != order[5] or order[0] != order[1]:
        with pytest.raises(ValueError, match="those of a document have to be neighbours, got documents"):
            score_blocks(scorer, windows, [4], opening=1, progress=False)
        return
    found = score_blocks(scorer, windows, [4], opening=1, progress=False).direct()[:, 0, 0]
    alone = scorer.log_probabilities(plain.tokens[:, 4:]).sum(axis=1)
    np.testing.assert_allclose(found, scorer.log_probabilities(plain.tokens)[:, 4:].sum(axis=1) - alone, atol=1e-12)


def test_scores_of_a_stopped_run_are_taken_up_document_by_document(tmp_path):
    windows = random_windows(documents=5)

    class Stopping(ChainScorer):
        def log_probabilities(self, tokens):
            if self.tokens_read > 500:
                raise KeyboardInterrupt
            return super().log_probabilities(tokens)

    chain = MarkovChain(np.full((5, 5), 0.1) + 0.5 * np.eye(5))
    plain = score_blocks(ChainScorer(chain), windows, [3, 6], [2, 4], progress=False)
    with pytest.raises(KeyboardInterrupt):
        score_blocks(Stopping(chain), windows, [3, 6], [2, 4], folder=tmp_path, identity="chain", progress=False)
    done = len(list(tmp_path.glob("document-*.npz")))
    assert 0 < done < 5 and not list(tmp_path.glob("*.part"))
    second = ChainScorer(chain)
    again = score_blocks(second, windows, [3, 6], [2, 4], folder=tmp_path, identity="chain", progress=False)
    whole = ChainScorer(chain)
    score_blocks(whole, windows, [3, 6], [2, 4], progress=False)
    assert second.tokens_read == whole.tokens_read * (5 - done) // 5
    for name in ("joint", "opening", "rest", "strange"):
        np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
    files = sorted(tmp_path.glob("document-*.npz"))
    content = files[0].read_bytes()
    for file, torn in zip(files, (b"", content[:40], content[:-30], b"no archive" * 9), strict=False):
        file.write_bytes(torn)  # as a power cut leaves files that were renamed and not yet on the disk
    third = ChainScorer(chain)
    mended = score_blocks(third, windows, [3, 6], [2, 4], folder=tmp_path, identity="chain", progress=False)
    assert third.tokens_read == whole.tokens_read * 4 // 5 and files[0].read_bytes() == content
    np.testing.assert_array_equal(mended.joint, plain.joint)
    for change in ({"identity": "another"}, {"identity": "chain", "splits": [3, 5]}):
        given = {"splits": [3, 6], **change}
        with pytest.raises(ValueError, match="take another folder"):
            score_blocks(second, windows, given["splits"], [2, 4], folder=tmp_path, identity=given["identity"])


def test_a_cluster_that_loses_a_worker_scores_the_same(tmp_path):
    windows, scorer = random_windows(documents=9), network_scorer(4)
    plain = score_blocks(scorer, windows, [3, 6], [2, 4], progress=False)
    given = {"folder": tmp_path, "identity": "network", "progress": False, "documents_at_once": 2}
    with local_client(2) as client:
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        found = score_blocks(scorer, windows, [3, 6], [2, 4], client=client, **given)
        client.close()
        again = score_blocks(scorer, windows, [3, 6], [2, 4], client=client, **given)  # all are kept: nothing is asked
    for name in ("joint", "opening", "rest", "strange", "tokens"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), rtol=1e-12)
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert not np.allclose(found.joint[0], found.joint[1])  # groups that were mixed up would show


@pytest.mark.parametrize(
    ("splits", "ratios", "message"),
    [
        ([], [2], "splits"),
        ([4, 2], [2], "increasing"),
        ([0, 2], [2], "at least 1"),
        ([1], [2], "at least opening = 2"),
        ([8], [2], "the window, is needed"),
        ([2], [1], "ratios"),
        ([2.0], [2], "whole numbers"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(splits, ratios, message):
    with pytest.raises(ValueError, match=message):
        score_blocks(ChainScorer(CHAIN), chain_windows(5, 12), splits, ratios, progress=False)


def test_tokens_outside_the_vocabulary_are_refused():
    windows = random_windows()  # tokens 0 .. 4
    with pytest.raises(ValueError, match=r"tokens: 0 \.\. 2 are in the model's vocabulary, got 0 \.\. 4"):
        score_blocks(ChainScorer(CHAIN), windows, [2], progress=False)
    scorer = network_scorer()
    for tokens, message in (
        (np.array([[5]]), r"0 \.\. 4 are in"),
        (np.array([[0.5]]), "whole numbers"),
        (np.array([1]), "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            scorer.log_probabilities(tokens)
    with pytest.raises(ValueError, match="start"):
        network_scorer(start=5)


def test_a_start_of_several_tokens_is_read_before_every_sequence():
    tokens = np.random.default_rng(0).integers(0, 5, (3, 9))
    found = network_scorer([1, 4, 2]).log_probabilities(tokens)
    longer = np.concatenate([np.tile([1, 4, 2], (3, 1)), tokens], axis=1)
    np.testing.assert_allclose(found, network_scorer().log_probabilities(longer)[:, 3:], atol=1e-13)
    for wrong in ([], [[1]], [0.5], [1, 5], [-1]):
        with pytest.raises(ValueError, match="start"):
            network_scorer(wrong)


def test_batches_and_memory_limits_change_nothing():
    tokens = np.random.default_rng(0).integers(0, 5, (7, 11))
    plain = network_scorer(2).log_probabilities(tokens)
    small = NetworkScorer(create("lstm", 5, 7, 1, seed=3).double(), 2, cells=1).log_probabilities(tokens)
    np.testing.assert_allclose(small, plain, atol=1e-13)
    assert np.allclose(np.exp(network_scorer(2).log_probabilities(np.arange(5)[:, None])).sum(), 1.0)
