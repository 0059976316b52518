"""The hierarchical Gaussian written out as the paper describes it: loops, mpmath, one variable at a time."""

from __future__ import annotations

import mpmath

DIGITS = 50
FAMILIES = {"subvolume": 3, "critical": 1}


def mixing() -> mpmath.matrix:
    """M of Eq. B.19."""
    g, r = mpmath.sqrt(5) / 4, mpmath.mpf(1) / 4
    return mpmath.matrix([[g, g, g, r], [-g, g, -g, r], [-g, -g, g, r], [g, -g, -g, r]])


def root(correlation: mpmath.mpf) -> mpmath.matrix:
    """The symmetric square root of [[1, r], [r, 1]], from its eigenvectors (1, 1) and (1, -1)."""
    even, odd = mpmath.sqrt(1 + correlation), mpmath.sqrt(1 - correlation)
    return mpmath.matrix([[even + odd, even - odd], [even - odd, even + odd]]) / 2


def couple(dense: mpmath.matrix, pair: int, coupling: str) -> None:
    """Eq. B.23 on entries (pair, pair + 1) of a covariance, in place; T is found by matrix algebra."""
    p, q = pair, pair + 1
    current = dense[p, q]
    around = dense[p - 1, p] + dense[q, q + 1]
    fifth = mpmath.mpf(1) / 5
    target = {
        "symmetric": 2 * fifth * around + fifth * current,
        "cholesky": 2 * fifth * around + fifth * current,
        "none": current,
        "constant": 2 * fifth * around + fifth,
        "swapped": fifth * around + 2 * fifth,
    }[coupling]
    if coupling == "cholesky":
        old, new = (mpmath.cholesky(mpmath.matrix([[1, r], [r, 1]])) for r in (current, target))
    else:
        old, new = root(current), root(target)
    change = new * old**-1
    for index in range(dense.rows):
        first, second = dense[index, p], dense[index, q]
        dense[index, p] = change[0, 0] * first + change[0, 1] * second
        dense[index, q] = change[1, 0] * first + change[1, 1] * second
    for index in range(dense.rows):
        first, second = dense[p, index], dense[q, index]
        dense[p, index] = change[0, 0] * first + change[0, 1] * second
        dense[q, index] = change[1, 0] * first + change[1, 1] * second


def covariance(layers: int, family: str, coupling: str) -> mpmath.matrix:
    """Covariance with 50 digits, entry by entry."""
    with mpmath.workdps(DIGITS):
        m, copies = mixing(), FAMILIES[family]
        dense = m * m.T
        for _ in range(layers - 1):
            rows = dense.rows
            above = mpmath.zeros(4 * rows)
            for i in range(rows):
                for j in range(rows):
                    for r in range(4):
                        for s in range(4):
                            above[4 * i + r, 4 * j + s] = mpmath.fsum(
                                m[r, k] * m[s, k] * (dense[i, j] if k < copies else int(i == j)) for k in range(4)
                            )
            for i in range(rows - 1):
                couple(above, 4 * i + 3, coupling)
            dense = above
        return dense


def bipartite(dense: mpmath.matrix, split: int) -> mpmath.mpf:
    """1/2 ln det(A) det(B) / det with 50 digits."""
    with mpmath.workdps(DIGITS):
        blocks = mpmath.det(dense[:split, :split]) * mpmath.det(dense[split:, split:])
        return mpmath.log(blocks / mpmath.det(dense)) / 2
