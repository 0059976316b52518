"""Entropies of pairs for many choices of documents at once: the counting behind bootstrap intervals of token curves.

Documents are gathered in groups of nearly equal size, and a replicate keeps half of the groups. With a vocabulary of
thousands nearly every pair is seen once, so no table is made: pairs are sorted with their group in the lowest bits, and
every run of equal pairs is counted for all replicates in one pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.checks import generator, whole_number
from lib.information.estimators import FloatArray, IntArray, entropy_from_sums, find_estimator, weighted_sum

_GROUP_BITS = 6
MOST_GROUPS = 1 << _GROUP_BITS
GROUPS = 16  # of documents, where nothing else is said


def balanced_groups(lengths: npt.ArrayLike, groups: int) -> IntArray:
    """Group of each document, 0 to groups - 1, whole documents only and sums of lengths nearly equal.

    The longest document left goes to the group that has least so far. lengths: (documents,) >= 0. ValueError unless
    groups is even, 2 <= groups <= 64, and there are as many documents that are not empty. O(documents groups).
    """
    sizes = np.asarray(lengths)
    filled = int(np.count_nonzero(sizes))
    if sizes.ndim != 1 or groups % 2 or not 2 <= groups <= min(MOST_GROUPS, filled):
        raise ValueError(
            f"groups: an even number from 2 to {min(MOST_GROUPS, filled)} is allowed for {filled} documents "
            f"that are not empty, got {groups}"
        )
    group, load = np.zeros(sizes.size, dtype=np.int64), np.zeros(groups)
    for document in np.argsort(-sizes, kind="stable"):
        group[document] = np.argmin(load)
        load[group[document]] += sizes[document]
    return group


def half_samples(groups: int, replicates: int, seed: int | np.random.Generator) -> npt.NDArray[np.uint8]:
    """Which groups each row keeps, (replicates + 1, groups): row 0 all of them, every other row a random half.

    Half-samples spread about their mean as the estimate does about the truth (Shao and Wu 1989), and no document is
    drawn twice: a repeated document looks to the estimator like certainty. Every half comes with the other half, so
    that the mean over replicates is quiet. ValueError unless both numbers are even and at least 2.
    """
    for value, name in ((groups, "groups"), (replicates, "replicates")):
        if whole_number(value, name, 2) % 2:
            raise ValueError(f"{name}: an even number is allowed, got {value}")
    half = np.tile(np.arange(groups, dtype=np.uint8) % 2, (replicates // 2, 1))
    drawn = generator(seed).permuted(half, axis=1)
    return np.vstack([np.ones((1, groups), dtype=np.uint8), drawn, 1 - drawn])


def resampled_entropies(
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    groups: npt.NDArray[Any],
    weights: npt.NDArray[np.uint8],
    estimator: str = "grassberger2008",
) -> FloatArray:
    """H(X), H(Y), H(X, Y) in nats of the pairs that each row of `weights` keeps, (rows, 3).

    first, second: (pairs,) symbols, integers >= 0; groups: (pairs,) group of each pair; weights: (rows, groups), 0 or
    1. estimator: as in `entropy`. ValueError for shapes that do not fit and rows that keep no pair. O(pairs ln pairs +
    pairs rows / 16 + cells seen twice times rows).
    """
    rule = find_estimator(estimator)
    kept = _checked(first, second, groups, weights)
    size = 1 + int(max(first.max(), second.max()))
    codes = (first.astype(np.int64) * size + second) << _GROUP_BITS | groups.astype(np.int64)
    codes.sort()
    logarithms = _weights_up_to(_longest_run(codes), rule)
    sums, cells = np.zeros(len(kept)), np.zeros(len(kept), dtype=np.int64)
    _count_runs(codes, np.ascontiguousarray(kept.T), logarithms, sums, cells)
    columns = []
    for symbols in (first, second):
        table = np.bincount(symbols.astype(np.int64) * MOST_GROUPS + groups, minlength=size * MOST_GROUPS)
        counts = table.reshape(size, MOST_GROUPS)[:, : kept.shape[1]] @ kept.T.astype(np.int64)  # (size, rows)
        marginal_sums = weighted_sum(counts, rule, axis=0)
        columns.append(entropy_from_sums(counts.sum(axis=0), marginal_sums, (counts > 0).sum(axis=0), rule))
    pairs = np.bincount(groups, minlength=kept.shape[1]) @ kept.T.astype(np.int64)
    return np.stack([*columns, entropy_from_sums(pairs, sums, cells, rule)], axis=1)


def _checked(first: Any, second: Any, groups: Any, weights: Any) -> npt.NDArray[np.uint8]:
    kept = np.asarray(weights)
    if not (first.ndim == 1 and first.size > 0 and first.shape == second.shape == groups.shape):
        raise ValueError(
            f"first, second and groups: three rows of one length are allowed, got shapes {first.shape}, "
            f"{second.shape}, {groups.shape}"
        )
    if kept.ndim != 2 or not 1 <= kept.shape[1] <= MOST_GROUPS or not np.all((kept == 0) | (kept == 1)):
        raise ValueError(f"weights: 0 or 1 for at most {MOST_GROUPS} groups are allowed, got shape {kept.shape}")
    if min(first.min(), second.min(), groups.min()) < 0 or groups.max() >= kept.shape[1]:
        raise ValueError(f"symbols >= 0 and groups from 0 to {kept.shape[1] - 1} are allowed")
    pairs = kept.astype(np.int64) @ np.bincount(groups, minlength=kept.shape[1])
    if np.any(pairs == 0):
        raise ValueError(f"weights: row {int(np.argmin(pairs))} keeps no pair")
    return kept.astype(np.uint8)


def _weights_up_to(largest: int, rule: Any) -> FloatArray:
    """n f(n) for n = 0, ..., largest."""
    counts = np.arange(largest + 1, dtype=np.float64)
    return np.asarray(counts * rule.logarithm(np.maximum(counts, 1.0)))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _longest_run(codes: Any) -> int:
    longest, start = 1, 0
    for i in range(1, len(codes)):
        if codes[i] >> _GROUP_BITS != codes[start] >> _GROUP_BITS:
            start = i
        longest = max(longest, i - start + 1)
    return longest


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_runs(codes: Any, weights: Any, logarithms: Any, sums: Any, cells: Any) -> None:
    groups, rows = weights.shape
    mask = (1 << _GROUP_BITS) - 1
    counts = np.zeros(rows, dtype=np.int32)
    alone = np.zeros(groups, dtype=np.int64)  # most cells hold one pair: those are counted by group, not by row
    start = 0
    while start < len(codes):
        cell = codes[start] >> _GROUP_BITS
        stop = start + 1
        while stop < len(codes) and codes[stop] >> _GROUP_BITS == cell:
            stop += 1
        if stop == start + 1:
            alone[codes[start] & mask] += 1
        else:
            counts[:] = 0
            for place in range(start, stop):
                row = weights[codes[place] & mask]
                for r in range(rows):
                    counts[r] += row[r]
            for r in range(rows):
                sums[r] += logarithms[counts[r]]
                cells[r] += counts[r] > 0
        start = stop
    for g in range(groups):
        for r in range(rows):
            sums[r] += alone[g] * weights[g, r] * logarithms[1]
            cells[r] += alone[g] * weights[g, r]
