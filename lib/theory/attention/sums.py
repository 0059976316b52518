"""Kerg et al. (2020), App. A.3: the sums omega, theta and chi over positions of recurrent steps, exact.

    omega_{l:k}(s) = sum_{l<=i_1<...<i_s<k} 1/(t+i_s) ... 1/(t+i_1)                                        (Eq. 126)
    theta_{0:k}(s) = sum_{0<=i_1<...<i_s<k} (1/(t+i_s) + [i_s-i_{s-1}=1]) ... (1/(t+i_1) + [i_1=0])        (Eq. 127)
    chi_{0:k}(s)   = the same sum with one factor more in front, (1/(t+k) + [k-i_s=1])                     (Eq. 122)

All are 1 for s = 0, but chi_{0:k}(0) = 1/(t+k) + [k=0]. p_{0:k}(lambda) = sum_s lambda^s chi_{0:k}(s). Each is found
from its last factor: for instance theta with i_s = j is theta_{0:j}(s-1)/(t+j) plus theta with i_s-1 = j-1 and
the step taken directly, so that whole tables cost a few operations per cell. Cells are kept as whole numbers over the
common denominator t (t+1) ... (t+k).

Lemma 12 in float64, for long sequences: what its main term leaves of chi_{0:k}(s),

    remainder = chi_{0:k}(s) - [k=s] - 1/(t+k) sum_r C(s+1,r+1) omega_{s-r:k}(r)

The lemma says Theta(1/T), T = t + k. In truth T times the remainder goes to 0 for s <= 1, to 2/t for s = 2, and grows
like s ln(T)^(s-2) / (t (s-2)!) for s >= 3.


Kerg et al. (2020), Lemma 9 and Prop. 3: omega(s) from the power sums of its factors.

omega(s) is the s-th elementary symmetric polynomial of x_i = 1/(t+i), S_j = sum_i x_i^j (Eq. 138). Newton's identities
make it a polynomial in the power sums, prod_i (1 + x_i z) = exp(S_1 z - S_2 z^2/2 + S_3 z^3/3 - ...). The paper takes
S_1, which grows like ln T, apart from the others, which converge:

    omega(s) = S_1^s / s! + sum_{l=2}^{s} delta_l omega(s-l)                  (Lemma 9, with omega(0) = 1)
    omega(s) = sum_{r=0}^{s} psi_{s-r} S_1^r / r!                             (Prop. 3)

where psi_l sums delta_{j_1} ... delta_{j_m} over all ordered compositions j_1 + ... + j_m = l into parts of at least 2.
All functions take the power sums as a list with S_1 first, of fractions, symbols or floats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_lags, whole_number

Table = list[list[int]]  # [k][s], numerators over the denominator of row k


class AttentionSums:
    """omega, theta and chi at one t for all k <= length and s <= order, as fractions.

    Indices outside of the table raise ValueError. Memory O(length order) integers of O(length ln length) bits, and as
    much for every first index of omega that was asked for.
    """

    def __init__(self, t: int, length: int, order: int) -> None:
        self.t = whole_number(t, "t", 1)
        self.length = whole_number(length, "length", 0)
        self.order = whole_number(order, "order", 0)
        denominators = itertools.accumulate(range(self.t, self.t + self.length), lambda a, b: a * b, initial=1)
        self.denominators = list(denominators)  # of row k: t (t+1) ... (t+k-1)
        self._omega: dict[int, Table] = {}

    def omega(self, first: int, k: int, s: int) -> Fraction:
        """omega_{first:k}(s); 0 if fewer than s indices are left, 1 for s = 0."""
        self._refuse_outside(first=first, k=k, s=s)
        if first > k:
            return Fraction(int(s == 0))
        return Fraction(self._elementary(first)[k][s], self.denominators[k])

    def theta(self, k: int, s: int) -> Fraction:
        """theta_{0:k}(s); 0 for k < s."""
        self._refuse_outside(k=k, s=s)
        return Fraction(self._theta[k][s], self.denominators[k])

    def chi(self, k: int, s: int) -> Fraction:
        """chi_{0:k}(s); 0 for k < s."""
        self._refuse_outside(k=k, s=s)
        return Fraction(self._chi[k][s], self.denominators[k] * (self.t + k))

    def gradient(self, eigenvalue: Fraction, k: int) -> Fraction:
        """p_{0:k}(lambda) = sum_s lambda^s chi_{0:k}(s) (Eq. 121), exactly. k <= order, for all terms to be there."""
        if k > self.order:
            raise ValueError(f"k: at most order = {self.order} is allowed, got {k}")
        return sum((eigenvalue**s * self.chi(k, s) for s in range(k + 1)), start=Fraction(0))

    def theta_bounds(self, k: int, s: int) -> tuple[Fraction, Fraction]:
        """Lemma 10: sum_r C(s,r) omega_{s-r:k}(r) <= theta_{0:k}(s) <= sum_r C(s,r) omega_{0:k-s+r}(r). k >= s."""
        lower, upper = self._bounds(k, s, s, 0)
        return Fraction(lower, self.denominators[k]), Fraction(upper, self.denominators[k])

    def chi_bounds(self, k: int, s: int) -> tuple[Fraction, Fraction]:
        """Lemma 11: [k=s] + sum_r C(s+1,r+1) omega_{s-r:k}(r) / (t+k) <= chi_{0:k}(s), and <= [k=s] +
        sum_r C(s+1,r+1) omega_{0:k-s+r}(r) / (t+k-s). k >= s."""
        lower, upper = self._bounds(k, s, s + 1, 1)
        last, one, denominator = self.t + k, int(k == s), self.denominators[k]
        return one + Fraction(lower, denominator * last), one + Fraction(upper, denominator * (last - s))

    def _bounds(self, k: int, s: int, above: int, shift: int) -> tuple[int, int]:
        """sum_r C(above, r + shift) omega_{s-r:k}(r) and the same of omega_{0:k-s+r}(r), over denominators[k]."""
        self._refuse_outside(k=k, s=s)
        if k < s:
            raise ValueError(f"k: at least s = {s} is allowed, got {k}")
        lower = upper = 0
        for r in range(s + 1):
            binomial, shorter = math.comb(above, r + shift), k - s + r
            lower += binomial * self._elementary(s - r)[k][r]
            scale = math.prod(range(self.t + shorter, self.t + k))
            upper += binomial * scale * self._elementary(0)[shorter][r]
        return lower, upper

    @cached_property
    def _theta(self) -> Table:
        table = [[1] + [0] * self.order]
        ending = [0] * (self.order + 1)  # theta with i_s = k-1, over the denominator of row k
        for k in range(self.length):
            position, row = self.t + k, table[k]
            # i_s = k: any i_{s-1} < k with the factor 1/(t+k), or i_{s-1} = k-1 (for s = 1: k = 0) directly
            direct = [0, int(k == 0), *ending[1:-1]] if self.order else [0]
            ending = [0, *(row[s - 1] + direct[s] * position for s in range(1, self.order + 1))]
            table.append([row[s] * position + ending[s] for s in range(self.order + 1)])
        return table

    @cached_property
    def _chi(self) -> Table:
        rows = [[self._theta[0][s] + (self.t if s == 0 else 0) for s in range(self.order + 1)]]
        for k in range(1, self.length + 1):
            before, position = rows[-1], self.t + k  # i_s = k-1 directly: chi one step shorter
            theta = self._theta[k]
            rows.append([theta[0], *(theta[s] + before[s - 1] * position for s in range(1, self.order + 1))])
        return rows

    def _elementary(self, first: int) -> Table:
        if first not in self._omega:
            row = [self.denominators[first]] + [0] * self.order
            table = [[0] * (self.order + 1)] * first + [row]
            for position in range(self.t + first, self.t + self.length):
                row = [row[0] * position, *(row[s] * position + row[s - 1] for s in range(1, self.order + 1))]
                table.append(row)
            self._omega[first] = table
        return self._omega[first]

    def _refuse_outside(self, **indices: int) -> None:
        for name, value in indices.items():
            allowed = self.order if name == "s" else self.length
            if whole_number(value, name, 0) > allowed:
                raise ValueError(f"{name}: at most {allowed} is allowed, got {value}")


def chi_by_definition(t: int, k: int, s: int) -> Fraction:
    """chi_{0:k}(s) as the sum over all paths (Eq. 122). Cost O(C(k, s) s)."""
    return sum((_path(t, (*positions, k)) for positions in itertools.combinations(range(k), s)), start=Fraction(0))


def _path(t: int, positions: tuple[int, ...]) -> Fraction:
    """The product of 1/(t+i) + [i - previous = 1] over the positions; the one before the first is -1."""
    pairs = itertools.pairwise((-1, *positions))
    return math.prod((Fraction(1, t + i) + (i - before == 1) for before, i in pairs), start=Fraction(1))


def scaled_remainders(t: int, k: ArrayLike, order: int) -> NDArray[np.float64]:
    """T times the remainder of Lemma 12 for s = 0 ... order at every k >= order: (order + 1, len(k)).

    By cumulative sums of positive terms, with relative errors around 1e-13 of chi. Raises ValueError for k below the
    order. Cost O(max k order^2) time, O(max k order) memory.
    """
    start, highest = whole_number(t, "t", 1), whole_number(order, "order", 0)
    steps = np.atleast_1d(whole_lags(k, name="k"))
    if steps.min() < highest:
        raise ValueError(f"k: at least order = {highest} is allowed, got {steps.min()}")
    inverse = 1.0 / (start + np.arange(steps.max() + 1, dtype=np.float64))
    lower = np.zeros((highest + 1, len(steps)))
    for first in range(highest + 1):
        omega = np.where(np.arange(len(inverse)) >= first, 1.0, 0.0)  # omega_{first:k}(0) at every k
        for r in range(highest + 1 - first):
            lower[first + r] += math.comb(first + r + 1, r + 1) * omega[steps]
            omega = _before(omega * inverse)
    ends = (steps == np.arange(highest + 1)[:, None]) / inverse[steps]  # T [k = s]
    return np.asarray(chi_rows(start, steps, highest) / inverse[steps] - ends - lower)


def chi_rows(t: int, steps: NDArray[np.int64], order: int) -> NDArray[np.float64]:
    """chi_{0:k}(s) for s = 0 ... order at these k: (order + 1, len(steps)), as above."""
    inverse = 1.0 / (t + np.arange(steps.max() + 1, dtype=np.float64))
    theta, chi = np.ones(len(inverse)), inverse.copy()
    chi[0] += 1.0
    rows = [chi[steps]]
    for s in range(1, order + 1):
        shifted = np.concatenate([[0.0], theta[:-1]])  # the last step taken directly; for s = 1 from the start
        theta = _before(theta * inverse) + (np.where(np.arange(len(theta)) > 0, 1.0, 0.0) if s == 1 else shifted)
        chi = theta * inverse + np.concatenate([[0.0], chi[:-1]])
        rows.append(chi[steps])
    return np.stack(rows)


def leading_coefficient(t: int, s: int) -> float:
    """s / (t (s-2)!), the coefficient of ln(T)^(s-2) in T times the remainder. s >= 2."""
    return whole_number(s, "s", 2) / (whole_number(t, "t", 1) * math.factorial(s - 2))


def _before(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of all terms before each place."""
    return np.concatenate([[0.0], np.cumsum(terms)[:-1]])


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
    """delta_4 as Eq. 149 reads: -(S_4 + 2 S_2^2)/8. It counts each pair of Eq. 144's (2,2) twice.

    Eq. 148, in the scan, is without the 2.
    """
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
