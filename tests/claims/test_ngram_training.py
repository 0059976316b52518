"""The checks of learned n-gram languages fail where they should: other trainings, other matrices, shuffled labels."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.ngram_rules.inside import balanced_nodes, features, linear_probe, silhouette
from experiments.ngram_rules.run import language_of
from experiments.ngram_rules.runs import measured, of_family, rates
from lib.models import create
from lib.report import claims
from lib.runs import store


@pytest.fixture(scope="module")
def records():
    return store.recorded("ngram-sgd")[1]


def test_plain_gradient_descent_on_means_is_not_near_perfect(records) -> None:
    claims.check("ngram-sgd", rates(of_family(records, "relu_ssm")), at_least=0.95)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-sgd", rates(of_family(records, "relu_ssm", fit__optimizer="sgd")), at_least=0.95)


@pytest.mark.parametrize("group", [("relu_ssm", {"options__initial": "orthogonal"}), ("relu_rnn", {})])
def test_other_matrices_have_more_eigenvalues_outside(records, group) -> None:
    kind, different = group
    counts = measured(of_family(records, kind, **different), "transition", "outside")
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-eigs", counts, at_most=2)


def test_an_rnn_trained_by_plain_gradient_descent_has_none_outside(records) -> None:
    plain = of_family(records, "relu_rnn", fit__optimizer="sgd", reduction="sum")
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn-norm", np.mean(measured(plain, "transition", "outside") >= 2), at_least=0.5)


def test_without_its_relu_the_map_of_the_rnn_grows(records) -> None:
    norms = measured(of_family(records, "relu_rnn"), "transition", "power_norms")[:, -1]
    for bound in (0.5, 1.0):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-rnn-norm", norms, at_most=bound)


def test_states_do_not_cluster_by_contexts_that_are_not_theirs() -> None:
    _, tree = language_of("paper")
    random = np.random.default_rng(0)
    nodes, context = balanced_nodes(tree, 3, random)
    points = features(create("relu_ssm", tree.end + 1, 145, seed=0), tree, nodes)
    half = random.permutation(len(nodes)) % 2 == 0
    shuffled = random.permutation(context)
    assert silhouette(points, context) > 0.5
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-pca", silhouette(points, shuffled), at_least=0.05)
    with pytest.raises(claims.ClaimFailed):
        accuracy = linear_probe(points[half], shuffled[half], points[~half], shuffled[~half])
        claims.check("ngram-pca", accuracy, at_least=0.8)
