"""Patterns of sparse attention, their shortest paths, and Theorem 2 as an inequality."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.stats import chisquare
from torch.func import jacfwd

from lib.models.recurrent.attentive import AttentiveRNN
from lib.report import claims
from lib.theory import sparse_attention_gradient
from lib.theory.attention import paths as patterns
from lib.theory.attention import sparse as theory
from tests.theory.attention.test_sparse import any_pattern, gallery


def brute_depth(attended: list[list[int]], t: int, k: int, direct: bool) -> int:
    """The fewest recurrent steps among all choices of times at which the gradient goes through V, or -1."""
    for s in range(k + 1):
        for chosen in combinations(range(t, t + k), s):
            hops = zip((t, *(i + 1 for i in chosen)), (*chosen, t + k), strict=True)
            if all(i in attended[tau - 1] or (direct and i == tau) for i, tau in hops):
                return s
    return -1


@settings(max_examples=60, deadline=None)
@given(any_pattern())
def test_depth_is_that_of_the_best_of_all_paths(attended: list[list[int]]) -> None:
    for t in range(1, len(attended) + 1):
        k = len(attended) - t
        assert patterns.dependency_depth(attended, t, k) == brute_depth(attended, t, k, True)
        assert patterns.dependency_depth(attended, t, k, attention_only=True) == brute_depth(attended, t, k, False)
        chi = theory.gradient_polynomial(attended, t, k)
        assert patterns.dependency_depth(attended, t, k) == next(s for s, c in enumerate(chi) if c > 0)
        for only in (False, True):
            back = patterns.depths_before(attended, len(attended), only)[t - 1]
            assert back == patterns.dependency_depth(attended, t, k, only)


@settings(max_examples=60, deadline=None)
@given(any_pattern())
def test_the_shortest_path_is_a_path(attended: list[list[int]]) -> None:
    for t in range(1, len(attended) + 1):
        k = len(attended) - t
        for only in (False, True):
            path = patterns.shortest_path(attended, t, k, only)
            depth = patterns.dependency_depth(attended, t, k, only)
            assert len(path) == depth + 1
            if path:
                assert path[0][0] == t and path[-1][1] == t + k
            for i, tau in path:
                assert i in attended[tau - 1] or (not only and i == tau)
            assert all(tau + 1 == i for (_, tau), (i, _) in pairwise(path))


def ratios(factor: Fraction, weight: Fraction = Fraction(1)) -> list[float]:
    """Exact gradients over the bound with lambda^s' (factor = lambda), as floats at the end only."""
    found = []
    for attended in gallery(30).values():
        kappa = patterns.largest_attention(attended)
        for eigenvalue in (Fraction(1, 5), Fraction(4, 5), Fraction(3, 2)):
            for t in (1, 3, 4):
                depths = patterns.dependency_depth(attended, t, np.arange(26)).tolist()
                for p, depth in zip(theory.gradient_recursion(eigenvalue, attended, t, 25), depths, strict=True):
                    price = eigenvalue if factor == 0 else factor
                    found.append(float(p / (weight * patterns.path_bound(price, kappa, depth))))
    return found


def test_theorem_two_is_an_exact_inequality() -> None:
    claims.check("kerg-thm2", min(ratios(Fraction(0))), at_least=1.0)
    with pytest.raises(claims.ClaimFailed):  # without the constant that Omega stands for, lambda^s'
        claims.check("kerg-thm2", min(ratios(Fraction(1))), at_least=1.0)
    with pytest.raises(claims.ClaimFailed):  # a bound a tenth higher
        claims.check("kerg-thm2", min(ratios(Fraction(0), Fraction(11, 10))), at_least=1.0)


@settings(max_examples=60, deadline=None)
@given(any_pattern())
def test_theorem_two_holds_for_any_pattern(attended: list[list[int]]) -> None:
    kappa = patterns.largest_attention(attended)
    for t in range(1, len(attended) + 1):
        for k, p in enumerate(theory.gradient_recursion(Fraction(2, 3), attended, t, len(attended) - t)):
            assert p >= patterns.path_bound(Fraction(2, 3), kappa, patterns.dependency_depth(attended, t, k))


def test_the_norm_of_a_matrix_that_is_not_normal_obeys_the_bound() -> None:
    matrix = np.array([[0.6, 1.0, 0.0], [0.0, 0.6, 3.0], [0.0, 0.0, -0.4]])
    measured, higher = [], []
    for attended in gallery(40).values():
        norm = np.linalg.norm(theory.sparse_attention_jacobian(matrix, attended, 3, 36), 2, axis=(1, 2))
        depths, kappa = patterns.dependency_depth(attended, 3, np.arange(37)), patterns.largest_attention(attended)
        measured.append(norm / patterns.path_bound(0.6, kappa, depths))
        higher.append(norm / (1.1 * patterns.path_bound(0.6, kappa, depths)))
    claims.check("kerg-thm2", np.concatenate(measured), at_least=1 - 1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", np.concatenate(higher), at_least=1 - 1e-12)


def test_one_more_relay_costs_lambda_over_kappa() -> None:
    t, gap, eigenvalue = 5, 80, 0.7
    for kappa in (1, 2, 4):
        chains = [patterns.relay(t + d * gap + 200, t, gap, d, kappa) for d in range(5)]
        assert {patterns.largest_attention(chain) for chain in chains} == {kappa}
        assert [patterns.dependency_depth(chain, t, len(chain) - t) for chain in chains] == list(range(5))
        limits = np.array([sparse_attention_gradient(eigenvalue, chain, t, len(chain) - t) for chain in chains])
        costs, right = np.diff(np.log(limits)), np.full(4, np.log(eigenvalue / kappa))
        claims.check("kerg-thm2", costs, right, 1e-9)
        with pytest.raises(claims.ClaimFailed):  # a step at the price of the attended states alone
            claims.check("kerg-thm2", costs, np.full(4, -np.log(kappa)), 1e-9)
        exact = (eigenvalue / kappa) ** np.arange(5) / kappa / (1 - eigenvalue)
        claims.check("kerg-thm2", limits, exact, 1e-9, relative=True)
        with pytest.raises(claims.ClaimFailed):  # one recurrent step too many
            claims.check("kerg-thm2", limits, eigenvalue * exact, 1e-9, relative=True)


def test_a_hub_keeps_the_gradient_for_ever_and_a_window_does_not() -> None:
    for k in (1000, 20000):
        kept = sparse_attention_gradient(0.7, patterns.hubs(4 + k, [4]), 4, k)
        claims.check("kerg-thm2", kept, 1 / (1 - 0.7), 1e-12)
        for other in (patterns.hubs(4 + k, [5]), patterns.hubs(4 + k, [4], 2)):
            with pytest.raises(claims.ClaimFailed):
                claims.check("kerg-thm2", sparse_attention_gradient(0.7, other, 4, k), 1 / (1 - 0.7), 1e-12)
    below = sparse_attention_gradient(0.4, patterns.window(2004, 8), 4, 2000)
    assert below < 1e-50
    assert patterns.dependency_depth(patterns.window(2004, 8), 4, 2000) > 200


def test_learned_attention_with_a_hub_keeps_what_a_window_loses() -> None:
    def slope(attended: list[list[int]], seed: int) -> float:
        network = AttentiveRNN(3, 6, activation="tanh", attended=attended, gain=0.6, seed=seed).requires_grad_(False)
        inputs = torch.tensor(np.random.default_rng(seed).standard_normal((61, 3)))
        state = network.trace(inputs).h[3]
        jacobians = jacfwd(lambda h: network.trace(inputs, {4: h}).s)(state)[3:].numpy()
        return float(np.polyfit(np.arange(20, 58), np.log(np.linalg.norm(jacobians, 2, axis=(1, 2)))[20:], 1)[0])

    hub, window = ([slope(a, seed) for seed in range(3)] for a in (patterns.hubs(61, [1, 4]), patterns.window(61, 5)))
    claims.check("kerg-thm2", np.subtract(hub, window).min(), at_least=0.0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", np.subtract(window, hub).min(), at_least=0.0)


def test_few_states_can_have_a_short_path() -> None:
    slack = []
    for attended in gallery(200).values():
        depths, kappa = patterns.depths_before(attended, 200), patterns.largest_attention(attended)
        slack += [patterns.most_within(kappa, d) - np.count_nonzero(depths <= d) for d in range(8)]
    claims.check("kerg-thm2", slack, at_least=0)
    spread = patterns.no_attention(40)
    spread[39] = [5, 20, 30]  # three attended states and the state itself: the count is reached at depth 0
    assert np.count_nonzero(patterns.depths_before(spread, 40) == 0) == patterns.most_within(3, 0) == 4
    with pytest.raises(claims.ClaimFailed):  # without the state itself
        claims.check("kerg-thm2", patterns.most_within(2, 0) - 4, at_least=0)


def test_the_tree_reaches_every_state_in_logarithmic_depth() -> None:
    tree = patterns.dyadic_tree(700)
    excess = [patterns.depths_before(tree, T) - 2 * np.log2(1 + np.arange(T)[::-1] / 2) for T in range(1, 701, 3)]
    claims.check("kerg-thm2", max(values.max() for values in excess), at_most=1e-12)
    chain = patterns.window(700, 1)
    slow = patterns.depths_before(chain, 700) - 2 * np.log2(1 + np.arange(700)[::-1] / 2)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-thm2", slow.max(), at_most=1e-12)
    assert np.mean([len(row) for row in tree]) < 2.01


@pytest.mark.parametrize("name", gallery(5))
def test_patterns_are_allowed_attended_times(name: str) -> None:
    attended = gallery(60)[name]
    offsets, times = theory.attention_table(attended, 1, 59)
    assert [times[a:b].tolist() for a, b in pairwise(offsets)] == attended


def test_patterns_are_what_their_names_say() -> None:
    assert patterns.no_attention(3) == [[], [], []]
    assert patterns.full_attention(3) == [[1], [1, 2], [1, 2, 3]]
    assert patterns.window(4, 2) == [[1], [1, 2], [2, 3], [3, 4]]
    assert patterns.window(5, 2, stride=3) == [[1], [2], [3], [1, 4], [2, 5]]
    assert patterns.hubs(4, [2]) == [[], [2], [2], [2]]
    assert patterns.hubs(4, [1, 3], 2) == [[1], [1, 2], [1, 2, 3], [1, 3, 4]]
    assert patterns.dyadic_tree(4) == [[1], [1, 2], [3], [1, 3, 4]]
    assert patterns.relay(8, 2, 3, 1, 2) == [[], [], [], [], [1, 2], [1, 6], [1, 6], [1, 6]]


def test_random_patterns_are_uniform_and_repeat_with_their_seed() -> None:
    first = patterns.random_sparse(50, 4, 7)
    assert first == patterns.random_sparse(50, 4, np.random.default_rng(7)) != patterns.random_sparse(50, 4, 8)
    generator = np.random.default_rng(1)
    counts = np.bincount([i for _ in range(600) for i in patterns.random_sparse(10, 3, generator)[9]], minlength=11)
    assert counts.sum() == 1800 and chisquare(counts[1:]).pvalue > 1e-4


def test_arrays_of_distances_keep_their_shape() -> None:
    attended, steps = patterns.window(40, 3), np.array([[0, 5], [20, 36]])
    depths = patterns.dependency_depth(attended, 4, steps)
    assert depths.shape == steps.shape
    assert depths.ravel().tolist() == [patterns.dependency_depth(attended, 4, int(k)) for k in steps.ravel()]


def test_bad_input_is_refused() -> None:
    for call in (
        lambda: patterns.window(5, 0),
        lambda: patterns.window(5, 1, stride=0),
        lambda: patterns.no_attention(0),
        lambda: patterns.hubs(5, [0]),
        lambda: patterns.hubs(5, 3),
        lambda: patterns.hubs(5, None),
        lambda: patterns.random_sparse(5, 0, 0),
        lambda: patterns.random_sparse(5, 1, -1),
        lambda: patterns.relay(5, 1, 2, 1, kappa=2),
        lambda: patterns.most_within(0, 1),
        lambda: patterns.dependency_depth([[1]], 1, -1),
        lambda: patterns.dependency_depth([[2]], 1, 0),
        lambda: patterns.depths_before([[1]], 2),
    ):
        with pytest.raises(ValueError, match=r"allowed|needed|may attend"):
            call()
