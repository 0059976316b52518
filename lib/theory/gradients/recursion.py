"""C_k = E_k + sum_{j<k} F_{k,j} C_j, solved step by step and as a sum over paths (Kerg et al. 2020, Lemmas 1-4).

In the gradients of an attentive network, C_k = ds_{t+k}/dh_t, E_k is the attention that s_{t+k} pays to h_t, and
F_{k,j} leads from s_{t+j} to s_{t+k}. A path 0 <= i_1 < ... < i_s < k names the states on the way. Nothing here knows
about networks: E_k and F_{k,j} may be square matrices of floats, fractions or SymPy expressions, arrays of any NumPy
type, or anything else with + and @. Products stand latest factor left, and matrices do not commute.

E is a sequence E_0 ... E_K. F is a sequence too, where F[k][j] with j < k is F_{k,j}, and F[0] is empty. All functions
raise ValueError where the shapes of these tables do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

from lib.checks import whole_number

Path = tuple[int, ...]
Table = Sequence[Sequence[Any]]


def recursion(E: Sequence[Any], F: Table) -> list[Any]:
    """C_0 ... C_K of Eq. 19: C_0 = E_0, C_k = E_k + sum_{j<k} F_{k,j} C_j. Cost K (K + 1) / 2 products."""
    _last(E, F)
    return solve(E[0], E, F)


def solve(start: Any, E: Sequence[Any], F: Table) -> list[Any]:
    """The same from any C_0 = start, with E_1 ... E_K alone (Eq. 20; E_0 is not read)."""
    last = _last(E, F)
    C = [start]
    for k in range(1, last + 1):
        total = E[k]
        for j in range(k):
            total = total + F[k][j] @ C[j]
        C.append(total)
    return C


def paths(k: int, degree: int | None = None) -> Iterator[Path]:
    """All (i_1, ..., i_s) with 0 <= i_1 < ... < i_s < k, of s = degree or of every s = 0 ... k.

    Every subset of 0 ... k - 1 is one: binomial(k, s) of degree s, 2^k in all.
    """
    degrees = range(whole_number(k, "k", 0) + 1) if degree is None else [whole_number(degree, "degree", 0)]
    for s in degrees:
        yield from combinations(range(k), s)


def path_product(path: Path, E: Sequence[Any], F: Table) -> Any:
    """F_{K,i_s} F_{i_s,i_(s-1)} ... F_{i_2,i_1} E_{i_1} (Eq. 42), and E_K for the path without steps. s products."""
    last = _last(E, F)
    product = E[path[0]] if path else E[last]
    for i, later in pairwise((*path, last)):
        product = F[later][i] @ product
    return product


def sum_over_paths(E: Sequence[Any], F: Table) -> Any:
    """C_K as the sum over all paths, one at a time (Prop. 1). Cost K 2^(K-1) products."""
    return _total(path_product(path, E, F) for path in paths(_last(E, F)))


def shared_sum_over_paths(E: Sequence[Any], F: Table) -> Any:
    """C_K as the sum over all paths, where paths that begin alike share products. Cost 2^(K+1) - K - 2 products."""
    last = _last(E, F)

    def continued(product: Any, at: int) -> Any:
        """Sum over all ways on from state `at` to the last, given the product up to there."""
        if at == last:
            return product
        return _total(continued(F[later][at] @ product, later) for later in range(at + 1, last + 1))

    return _total(continued(E[first], first) for first in range(last + 1))


def degree_by_paths(E: Sequence[Any], F: Table, degree: int) -> Any:
    """The term xi_{0:K}(s) of Eq. 42, all paths with s = degree steps, 0 <= s <= K, by enumeration."""
    last = _last(E, F)
    if whole_number(degree, "degree", 0) > last:
        raise ValueError(f"degree: 0 .. {last} are allowed, got {degree}")
    return _total(path_product(path, E, F) for path in paths(last, degree))


def terms_by_degree(E: Sequence[Any], F: Table) -> list[list[Any]]:
    """Row k holds xi_{0:k}(0) ... xi_{0:k}(k), by xi_{0:k}(s) = sum_{j<k} F_{k,j} xi_{0:j}(s - 1).

    The sum of a row is C_k. If every F is linear in some matrix, the row is a polynomial in that matrix, term by
    term (Remark 2). Cost K (K + 1) (K + 2) / 6 products.
    """
    last = _last(E, F)
    rows: list[list[Any]] = [[E[0]]]
    for k in range(1, last + 1):
        row = [E[k]]
        for s in range(1, k + 1):
            row.append(_total(F[k][j] @ rows[j][s - 1] for j in range(s - 1, k)))
        rows.append(row)
    return rows


def propagator(F: Table, first: int, last: int, identity: Any) -> Any:
    """xi_{r:k} of Eq. 22 and 23, with r = first and k = last: all ways from r to k, the identity if r = k."""
    if not 0 <= first <= last < len(F):
        raise ValueError(f"first, last: 0 <= first <= last < {len(F)} are allowed, got {first}, {last}")
    if first == last:
        return identity

    def product(between: Path) -> Any:
        stations = (first, *between, last)
        result = F[stations[1]][first]
        for earlier, later in pairwise(stations[1:]):
            result = F[later][earlier] @ result
        return result

    inner = range(first + 1, last)
    return _total(product(between) for s in range(len(inner) + 1) for between in combinations(inner, s))


class CountedMatrix:
    """A matrix that counts the products it takes part in; `counter[0]` is shared by all that come from it."""

    def __init__(self, value: Any, counter: list[int]) -> None:
        self.value, self.counter = value, counter

    def __matmul__(self, other: CountedMatrix) -> CountedMatrix:
        self.counter[0] += 1
        return CountedMatrix(self.value @ other.value, self.counter)

    def __add__(self, other: CountedMatrix) -> CountedMatrix:
        return CountedMatrix(self.value + other.value, self.counter)


def counted(E: Sequence[Any], F: Table) -> tuple[list[CountedMatrix], list[list[CountedMatrix]], list[int]]:
    """The same tables with products counted, and the counter."""
    counter = [0]
    return [CountedMatrix(e, counter) for e in E], [[CountedMatrix(f, counter) for f in row] for row in F], counter


def _total(values: Iterator[Any]) -> Any:
    """Sum of at least one value, without a zero to start from: the values may be matrices of any kind."""
    total = next(values)
    for value in values:
        total = total + value
    return total


def _last(E: Sequence[Any], F: Table) -> int:
    if len(E) == 0 or len(F) != len(E) or any(len(row) < k for k, row in enumerate(F)):
        raise ValueError(
            "E, F: E_0 ... E_K and rows F[0] ... F[K], row k with F_{k,0} ... F_{k,k-1}, are allowed, "
            f"got {len(E)} entries and rows of {[len(row) for row in F]}"
        )
    return len(E) - 1
