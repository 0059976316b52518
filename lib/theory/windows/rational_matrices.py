"""Rank and nilpotency in exact arithmetic: floats are rational numbers, so rounding decides nothing here."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sympy import QQ, isprime
from sympy.polys.matrices import DomainMatrix

from lib.checks import whole_number


def integer_multiple(matrix: ArrayLike) -> NDArray[Any]:
    """The matrix times its least common denominator: Python integers with the rank and the zeros of the original.

    matrix: (rows, columns) of integers, fractions or floats, each taken for exactly the number that it is.
    Returns an object array of the same shape. Raises ValueError unless it is a non-empty table of finite numbers.
    """
    table = np.asarray(matrix)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"matrix: a table of numbers (rows, columns) is allowed, got shape {table.shape}")
    entries = _fractions(table)
    common = math.lcm(*(entry.denominator for entry in entries))
    integers = np.empty(table.size, dtype=object)
    integers[:] = [entry.numerator * (common // entry.denominator) for entry in entries]
    return integers.reshape(table.shape)


def _fractions(table: NDArray[Any]) -> list[Fraction]:
    try:
        return [Fraction(entry) for entry in table.ravel().tolist()]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"matrix: finite integers, fractions or floats are allowed: {error}") from error


def square_integer_multiple(matrix: ArrayLike) -> NDArray[Any]:
    """`integer_multiple` of a square matrix; ValueError for another shape."""
    table = integer_multiple(matrix)
    if table.shape[0] != table.shape[1]:
        raise ValueError(f"matrix: a square matrix is allowed, got shape {table.shape}")
    return table


def exact_rank_profile(matrix: ArrayLike) -> list[int]:
    """Ranks of the first 1, 2, ..., rows of a matrix, exact: one for every row.

    A row raises the rank where the reduced echelon form of the transpose has a pivot. Raises ValueError as
    `integer_multiple` does. Cost O(rows rank columns) products of fractions, which grow to about rank times the digits
    of the entries.
    """
    transpose = integer_multiple(matrix).T
    _, pivots = DomainMatrix([[QQ(entry) for entry in row] for row in transpose], transpose.shape, QQ).rref()
    return [bisect_right(pivots, row) for row in range(transpose.shape[1])]


def exact_rank(matrix: ArrayLike) -> int:
    """Rank of a matrix of integers, fractions or floats, exact. Raises and costs as `exact_rank_profile`."""
    return exact_rank_profile(matrix)[-1]


def rank_profile_modulo(matrix: ArrayLike, prime: int = 2**31 - 1) -> list[int]:
    """Ranks of the first 1, 2, ..., rows modulo a prime: lower bounds of the exact ranks, and fast.

    A minor that is not zero modulo the prime is not zero. So where an argument gives an upper bound, equality proves
    the rank. matrix: whole numbers (rows, columns). prime: at most 2^31 - 1. Returns one rank for every row.
    Raises ValueError for other numbers, or if the prime is none. Cost O(rows rank columns).
    """
    table = np.asarray(matrix)
    if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iuO":
        raise ValueError(f"matrix: whole numbers (rows, columns) are allowed, got shape {table.shape} of {table.dtype}")
    if table.dtype.kind == "O":
        if any(entry.denominator > 1 for entry in _fractions(table)):
            raise ValueError("matrix: whole numbers (rows, columns) are allowed, got a fraction")
        table = integer_multiple(table)
    elif table.dtype.itemsize < 8:
        table = table.astype(np.int64)  # the prime does not fit into fewer bits
    if not (whole_number(prime, "prime", 2) < 2**31 and isprime(prime)):
        raise ValueError(f"prime: a prime number up to 2^31 - 1 is allowed, got {prime!r}")
    pivots: list[tuple[int, NDArray[Any]]] = []
    ranks = []
    for row in (table % prime).astype(np.int64):
        for column, pivot in pivots:
            if row[column]:
                row = (row - row[column] * pivot) % prime
        left = np.flatnonzero(row)
        if left.size:
            pivots.append((int(left[0]), row * pow(int(row[left[0]]), -1, prime) % prime))
        ranks.append(len(pivots))
    return ranks


def nilpotency_index(matrix: ArrayLike) -> int | None:
    """The smallest n with A^n = 0, exact; None if no power is zero.

    matrix: A (N, N). If any power vanishes, the N-th does, so N powers decide. Raises ValueError unless A is a
    square matrix of finite numbers. Cost O(N^4) products of integers.
    """
    integers = square_integer_multiple(matrix)
    power = integers
    for exponent in range(1, len(integers) + 1):
        if not np.any(power):
            return exponent
        power = power @ integers
    return None
