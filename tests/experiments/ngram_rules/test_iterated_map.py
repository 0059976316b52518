"""Norms of iterated maps against brute force, automatic differentiation and each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.ngram_rules.sensitivity import iterated_norms, local_norms, power_norms, spectrum, state_ratios

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((6, 6)) / 2
STATES = np.maximum(RANDOM.standard_normal((40, 6)), 0)
OTHERS = np.maximum(RANDOM.standard_normal((40, 6)), 0)
DRIVEN = RANDOM.standard_normal((40, 5, 6)) / 2


def phi(state, driven, steps):
    for now in driven[:steps]:
        state = np.maximum(A @ state + now, 0)
    return state


def test_a_spectrum_is_sorted_and_counted() -> None:
    rotation = 1.5 * np.array([[0.0, -1.0], [1.0, 0.0]])
    found = spectrum(np.block([[rotation, np.zeros((2, 2))], [np.zeros((2, 2)), np.diag([0.5, -1.0])]]))
    assert np.abs(found.eigenvalues) == pytest.approx([1.5, 1.5, 1.0, 0.5])
    assert found.radius == pytest.approx(1.5) and found.outside == 2
    assert found.eigenvalues.sum() == pytest.approx(-0.5) and found.eigenvalues.prod() == pytest.approx(1.5**2 * -0.5)


def test_rounding_does_not_push_an_eigenvalue_out() -> None:
    turned = np.linalg.qr(np.random.default_rng(3).standard_normal((100, 100)))[0].astype(np.float32)
    assert spectrum(turned).outside == 0 and spectrum(1.001 * turned).outside == 100


def test_norms_of_powers() -> None:
    norms = power_norms(A, 6)
    for k, norm in enumerate(norms, start=1):
        assert norm == pytest.approx(np.linalg.norm(np.linalg.matrix_power(A, k), 2))
        assert norm >= spectrum(A).radius ** k - 1e-12
    nilpotent = np.diag([2.0, 3.0], -1)
    assert power_norms(nilpotent, 3).tolist() == [3.0, 6.0, 0.0]


def test_iterated_norms_follow_each_state() -> None:
    found = iterated_norms(A, STATES, 4)
    for row, state in enumerate(STATES):
        for k in range(4):
            after = phi(state, np.zeros((4, 6)), k + 1)
            assert found[k, row] == pytest.approx(np.linalg.norm(after) / max(np.linalg.norm(state), 1e-300))
    assert iterated_norms(A, np.zeros((1, 6)), 3).tolist() == [[0.0]] * 3


def test_state_ratios_are_those_of_the_map_with_inputs() -> None:
    found = state_ratios(A, STATES, OTHERS, DRIVEN)
    assert found.shape == (5, 40)
    for row in range(40):
        for k in range(5):
            gap = phi(STATES[row], DRIVEN[row], k + 1) - phi(OTHERS[row], DRIVEN[row], k + 1)
            assert found[k, row] == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(STATES[row] - OTHERS[row]))
    assert np.all(found <= np.linalg.norm(A, 2) ** np.arange(1, 6)[:, None] + 1e-12)


def test_local_norms_are_those_of_the_derivative() -> None:
    found = local_norms(A, STATES[:7], DRIVEN[:7])
    matrix = torch.from_numpy(A)

    def steps(state, driven):
        for now in driven:
            state = torch.relu(matrix @ state + now)
        return state

    for row in range(7):
        for k in (1, 3, 5):
            jacobian = torch.func.jacrev(steps)(torch.from_numpy(STATES[row]), torch.from_numpy(DRIVEN[row, :k]))
            assert found[k - 1, row] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), abs=1e-12)


def test_near_a_state_the_ratio_is_at_most_the_local_norm_and_reaches_it() -> None:
    state, driven = np.full((1, 6), 0.5), DRIVEN[:1]
    local = local_norms(A, state, driven)[:, 0]
    directions = RANDOM.standard_normal((3000, 6))
    near = state + 1e-7 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ratios = state_ratios(A, np.repeat(state, 3000, axis=0), near, np.repeat(driven, 3000, axis=0))
    assert np.all(ratios.max(axis=1) <= local * (1 + 1e-6) + 1e-12)
    assert ratios[0].max() > 0.8 * local[0]


def test_without_kinks_ratios_are_bounded_by_norms_of_powers() -> None:
    positive = np.abs(A) / 4
    inputs = np.abs(DRIVEN)
    ratios = state_ratios(positive, STATES, OTHERS, inputs)  # all ReLUs stay active: the map is linear
    assert np.all(ratios <= power_norms(positive, 5)[:, None] + 1e-12)
    local = local_norms(positive, STATES, inputs)
    assert local == pytest.approx(np.repeat(power_norms(positive, 5)[:, None], 40, axis=1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: spectrum(np.zeros((2, 3))),
        lambda: power_norms(A, 0),
        lambda: power_norms(np.array([[np.inf]]), 2),
        lambda: iterated_norms(A, np.zeros((3, 5)), 2),
        lambda: state_ratios(A, STATES, STATES, DRIVEN),
        lambda: state_ratios(A, STATES, OTHERS, DRIVEN[:, :, :5]),
        lambda: local_norms(A, STATES, DRIVEN[:3]),
    ],
)
def test_other_shapes_are_refused(call) -> None:
    with pytest.raises(ValueError):
        call()
