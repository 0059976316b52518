"""Kerg et al. (2020), Lemma 9 and Prop. 3: omega(s) from the power sums of its factors.

omega(s) is the s-th elementary symmetric polynomial of x_i = 1/(t+i), S_j = sum_i x_i^j (Eq. 138). Newton's identities
make it a polynomial in the power sums, prod_i (1 + x_i z) = exp(S_1 z - S_2 z^2/2 + S_3 z^3/3 - ...). The paper takes
S_1, which grows like ln T, apart from the others, which converge:

    omega(s) = S_1^s / s! + sum_{l=2}^{s} delta_l omega(s-l)                  (Lemma 9, with omega(0) = 1)
    omega(s) = sum_{r=0}^{s} psi_{s-r} S_1^r / r!                             (Prop. 3)

where psi_l sums delta_{j_1} ... delta_{j_m} over all ordered compositions j_1 + ... + j_m = l into parts of at least 2.
All functions take the power sums as a list with S_1 first, of fractions, symbols or floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any


def power_sums(factors: Iterable[Any], order: int) -> list[Any]:
    """S_1 ... S_order of the factors. Cost O(factors order)."""
    terms = list(factors)
    return [sum(term**j for term in terms) for j in range(1, order + 1)]


def elementary(sums: Sequence[Any], order: int) -> list[Any]:
    """omega(0) ... omega(order) by Newton's identities: s omega(s) = sum_j (-1)^(j-1) S_j omega(s-j). O(order^2)."""
    values: list[Any] = [Fraction(1)]
    for s in range(1, order + 1):
        terms = (_sign(j - 1) * sums[j - 1] * values[s - j] for j in range(1, s + 1))
        values.append(sum(terms) * Fraction(1, s))
    return values


def constant_terms(sums: Sequence[Any], order: int) -> list[Any]:
    """delta_0 ... delta_order, the constants of Lemma 9: delta_2 = -S_2/2, delta_3 = S_3/3, ... (delta_{s,0} printed).

    1 - sum_l delta_l z^l = exp(S_2 z^2/2 - S_3 z^3/3 + ...), so n_0 = 1, l n_l = sum_{j>=2} (-1)^j S_j n_{l-j} and
    delta_l = -n_l. The entries 0 and 1 are 0. Cost O(order^2).
    """
    n: list[Any] = [Fraction(1)]
    for length in range(1, order + 1):
        terms = (_sign(j) * sums[j - 1] * n[length - j] for j in range(2, length + 1))
        n.append(sum(terms, start=Fraction(0)) * Fraction(1, length))
    return [Fraction(0), *(-value for value in n[1:])]


def printed_fourth_constant(sums: Sequence[Any]) -> Any:
    """delta_4 as Eq. 148-149 read: -(S_4 + 2 S_2^2)/8. It counts each pair of Eq. 144's (2,2) twice."""
    return -Fraction(1, 8) * (sums[3] + 2 * sums[1] ** 2)


def psi(constants: Sequence[Any], length: int, ordered: bool = True) -> Any:
    """psi_length: the sum over compositions of products of constants (Eq. 164).

    ordered=False takes every partition once, j_1 >= j_2 >= ..., as the definition under Eq. 164 reads.
    Cost O(number of compositions), a Fibonacci number.
    """
    ways = compositions(length) if ordered else (way for way in compositions(length) if list(way) == sorted(way)[::-1])
    return sum((math.prod((constants[part] for part in way), start=Fraction(1)) for way in ways), start=Fraction(0))


def compositions(total: int) -> Iterator[tuple[int, ...]]:
    """All tuples of whole numbers of at least 2 with this sum, order counts; the empty tuple for 0."""
    if total == 0:
        yield ()
    for first in range(2, total + 1):
        for rest in compositions(total - first):
            yield (first, *rest)


def omega_by_lemma_9(sums: Sequence[Any], constants: Sequence[Any], order: int) -> list[Any]:
    """omega(0) ... omega(order) by the recursion of Lemma 9 with these constants. Cost O(order^2)."""
    values: list[Any] = [Fraction(1)]
    for s in range(1, order + 1):
        leading = sums[0] ** s * Fraction(1, math.factorial(s))
        values.append(leading + sum(constants[part] * values[s - part] for part in range(2, s + 1)))
    return values


def omega_by_proposition_3(sums: Sequence[Any], constants: Sequence[Any], s: int, ordered: bool = True) -> Any:
    """omega(s) by Prop. 3 with these constants; `ordered` as in `psi`."""
    terms = (psi(constants, s - r, ordered) * sums[0] ** r * Fraction(1, math.factorial(r)) for r in range(s + 1))
    return sum(terms, start=Fraction(0))


def _sign(power: int) -> int:
    return -1 if power % 2 else 1
