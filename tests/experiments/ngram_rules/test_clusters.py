"""Silhouette, linear probe and principal components against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.ngram_rules.inside import linear_probe, principal_components, silhouette


def plain_silhouette(points, labels):
    """The definition, point by point."""
    values = []
    for i, (point, label) in enumerate(zip(points, labels, strict=True)):
        far = {
            other: [np.linalg.norm(point - q) for j, q in enumerate(points) if labels[j] == other and j != i]
            for other in set(labels)
        }
        if not far[label]:
            values.append(0.0)
            continue
        a = np.mean(far[label])
        b = min(np.mean(distances) for other, distances in far.items() if other != label)
        values.append((b - a) / max(a, b) if max(a, b) > 0 else 0.0)
    return np.mean(values)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_silhouette_is_its_definition(seed, labels, dimension) -> None:
    random = np.random.default_rng(seed)
    points = random.integers(-3, 4, size=(12, dimension)).astype(float)
    names = np.concatenate([np.arange(labels), random.integers(labels, size=12 - labels)])
    assert silhouette(points, names) == pytest.approx(plain_silhouette(points, names.tolist()), abs=1e-7)


def test_tight_clusters_have_a_silhouette_of_one_and_shuffled_labels_none() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 40)
    points = 100.0 * np.eye(5)[labels] + 0.01 * random.standard_normal((200, 5))
    assert silhouette(points, labels) > 0.999
    assert silhouette(points, random.permutation(labels)) < 0.0


def test_the_silhouette_does_not_depend_on_scale_place_or_rotation() -> None:
    random = np.random.default_rng(1)
    points, labels = random.standard_normal((30, 4)), random.integers(3, size=30)
    rotation = np.linalg.qr(random.standard_normal((4, 4)))[0]
    assert silhouette(7 * points @ rotation + 5, labels) == pytest.approx(silhouette(points, labels), abs=1e-9)


def test_points_far_from_zero_keep_their_silhouette() -> None:
    random = np.random.default_rng(5)
    points, labels = random.standard_normal((30, 4)), random.integers(3, size=30)
    assert silhouette(1e6 + points, labels) == pytest.approx(silhouette(points, labels), abs=1e-6)


def test_a_probe_reads_what_is_linear_and_only_that() -> None:
    random = np.random.default_rng(2)
    labels = random.integers(4, size=400)
    points = 3 * np.eye(4)[labels] @ random.standard_normal((4, 9)) + 0.1 * random.standard_normal((400, 9))
    assert linear_probe(points[:200], labels[:200], points[200:], labels[200:]) == 1.0
    shuffled = random.permutation(labels)
    assert linear_probe(points[:200], shuffled[:200], points[200:], shuffled[200:]) < 0.45
    corners = random.choice([-1.0, 1.0], size=(400, 2))  # exclusive or: no linear map reads it
    parity = (corners.prod(axis=1) > 0).astype(int)
    assert linear_probe(corners[:200], parity[:200], corners[200:], parity[200:]) < 0.8


def test_the_probe_is_ridge_regression() -> None:
    random = np.random.default_rng(3)
    points, labels = random.standard_normal((50, 3)), random.integers(3, size=50)
    new = random.standard_normal((70, 3))
    x, y = points - points.mean(axis=0), np.eye(3)[labels] - np.eye(3)[labels].mean(axis=0)
    strength = 0.2 * np.mean(x**2) * 50
    stacked = np.vstack([x, np.sqrt(strength) * np.eye(3)])
    weights = np.linalg.lstsq(stacked, np.vstack([y, np.zeros((3, 3))]))[0]
    expected = ((new - points.mean(axis=0)) @ weights + np.eye(3)[labels].mean(axis=0)).argmax(axis=1)
    assert linear_probe(points, labels, new, expected, penalty=0.2) == 1.0


def test_a_label_never_seen_cannot_be_got_right() -> None:
    points = np.arange(8.0)[:, None]
    assert linear_probe(points, np.arange(8) // 4, points, np.arange(8) // 4 + 10) == 0.0


def test_principal_components_are_the_eigenvectors_of_the_covariance() -> None:
    random = np.random.default_rng(4)
    points = (
        random.standard_normal((200, 3)) @ np.diag([5.0, 2.0, 0.5]) @ np.linalg.qr(random.standard_normal((3, 3)))[0]
    )
    coordinates, shares, directions = principal_components(points, 2)
    values, vectors = np.linalg.eigh(np.cov(points.T))
    assert shares == pytest.approx(values[::-1][:2] / values.sum())
    assert np.abs(directions @ vectors[:, ::-1][:, :2]) == pytest.approx(np.eye(2), abs=1e-9)
    assert coordinates == pytest.approx((points - points.mean(axis=0)) @ directions.T)
    assert np.all(directions[np.arange(2), np.abs(directions).argmax(axis=1)] > 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: silhouette(np.zeros((3, 2)), [0, 0, 0]),
        lambda: silhouette(np.zeros((3, 2)), [0, 1]),
        lambda: silhouette(np.array([[np.nan], [1.0]]), [0, 1]),
        lambda: linear_probe(np.zeros((3, 2)), [0, 1, 0], np.zeros((3, 3)), [0, 1, 0]),
        lambda: linear_probe(np.zeros((3, 2)), [0, 1, 0], np.zeros((3, 2)), [0, 1, 0], penalty=0.0),
        lambda: principal_components(np.zeros((3, 2)), 3),
        lambda: principal_components(np.zeros(3), 1),
    ],
)
def test_other_shapes_are_refused(call) -> None:
    with pytest.raises(ValueError):
        call()
