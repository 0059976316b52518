"""Powers of a transition matrix at many times at once, scaled so that growing modes do not overflow.

A linear system s_t = T s_{t-1} + noise of covariance Q has Cov(s_t | s_0) = N_t = sum_{k<t} T^k Q T^k*.
Times add like words: (T^s, N_s) after (T^t, N_t) is (T^s T^t, T^s N_t T^s* + N_s).


Modes of a linear system: which exist, which an output shows, and a basis in which they grow in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, schur, solve_discrete_lyapunov

Matrices = NDArray[Any]  # float64 or complex128
DIGIT = 9  # bits of a time read at once: two digits reach beyond 10^5 with tables of 512 matrices
BATCH = 1 << 17  # numbers in one batch of matrices: what a cache holds
Matrix = NDArray[np.float64]
NEGLIGIBLE = 1e-12  # relative to the norm: smaller couplings are rounding


class ScaledPowers:
    """G^-t T^t and G^-t N_t G^-t for the diagonal matrix G of growth rates, any whole t >= 0.

    transition: T (n, n). innovation: Q (n, n), positive semidefinite. growth: diagonal of G (n,), >= 1,
    either all alike or descending with T upper triangular; then nothing overflows while row i of T^t grows no
    faster than growth_i^t. Cost of a time, read through d rows: O(d n^2), after tables of 512 matrices.
    """

    def __init__(self, transition: Matrices, innovation: Matrices, growth: NDArray[np.float64]) -> None:
        self.growth = growth
        # Below the diagonal of a triangular T there is nothing to scale: no ratio above one is ever needed.
        self._ratio = np.minimum(growth[None, :] / growth[:, None], 1.0)
        self._pair = growth[:, None] * growth[None, :]
        self._first = (transition / growth[:, None], innovation / self._pair)
        self._tables: list[tuple[Matrices, Matrices]] = []

    def read(
        self, readout: Matrices, row_growth: NDArray[np.float64], times: NDArray[np.int64]
    ) -> tuple[Matrices, ...]:
        """R^-t C T^t and R^-t C N_t C* R^-t for R = diag(row_growth): two arrays (k, d, n) and (k, d, d).

        readout: C (d, n), with C_ij = 0 where growth_j > row_growth_i. times (k,), whole numbers >= 0.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # entries of a table beyond the times asked for
            left = times
            ratio = np.minimum(self.growth[None, :] / row_growth[:, None], 1.0)
            read = self._scaled(readout, ratio, left)
            noise = np.zeros((1, len(readout), len(readout)), dtype=read.dtype)
            for digit in reversed(range(max(1, -(-int(times.max(initial=0)).bit_length() // DIGIT)))):
                values = (times >> DIGIT * digit) & ((1 << DIGIT) - 1)
                left = left - (values << DIGIT * digit)
                powers, noises = self._table(digit)
                added = self._scaled(noises[values], 1.0 / self._pair, left)
                noise = noise + read @ added @ read.conj().swapaxes(-1, -2)
                read = read @ self._scaled(powers[values], self._ratio, left)
        return read, noise

    def batches(self, times: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The times in parts whose matrices stay in cache; at least one part."""
        size = max(1, BATCH // self.growth.size**2)
        return [times[start : start + size] for start in range(0, max(1, len(times)), size)]

    @staticmethod
    def _scaled(matrices: Matrices, ratio: NDArray[np.float64], times: NDArray[np.int64]) -> Matrices:
        if np.all(ratio == 1.0) or not np.any(times):
            return matrices if matrices.ndim == 3 else np.broadcast_to(matrices, (len(times), *matrices.shape))
        # exp is several times faster than a power
        return np.asarray(matrices * np.exp(np.log(ratio) * times[:, None, None]))

    def _table(self, digit: int) -> tuple[Matrices, Matrices]:
        while len(self._tables) <= digit:
            self._tables.append(self._next_table())
        return self._tables[digit]

    def _next_table(self) -> tuple[Matrices, Matrices]:
        size = len(self.growth)
        unit = 1 << DIGIT * len(self._tables)  # the table holds multiples of this time
        step = self._first
        if self._tables:
            last = tuple(part[-1:] for part in self._tables[-1])
            ahead = tuple(part[1] for part in self._tables[-1])
            joined = self._after(ahead, last, np.array([unit - (unit >> DIGIT)]))
            step = (joined[0][0], joined[1][0])
        powers = np.eye(size, dtype=step[0].dtype)[None]
        noises = np.zeros_like(powers)
        for bit in range(DIGIT):
            times = unit * np.arange(1 << bit)
            later = self._after(step, (powers, noises), times)
            powers, noises = np.concatenate([powers, later[0]]), np.concatenate([noises, later[1]])
            twice = self._after(step, (step[0][None], step[1][None]), np.array([unit << bit]))
            step = (twice[0][0], twice[1][0])
        return powers, noises

    def _after(self, second: Any, first: Any, times: NDArray[np.int64]) -> tuple[Matrices, Matrices]:
        """The pair of `second` applied to states that have reached `times` by `first`."""
        power = self._scaled(second[0], self._ratio, times)
        noise = power @ first[1] @ power.conj().swapaxes(-1, -2)
        return power @ first[0], noise + self._scaled(second[1], 1.0 / self._pair, times)


def spectral_radius(transition: Matrix) -> float:
    """Largest modulus of an eigenvalue. Cost O(n^3)."""
    return float(np.abs(np.linalg.eigvals(transition)).max(initial=0.0))


def units(transition: Matrix) -> NDArray[np.float64]:
    """Powers of two D, (n,), such that rows and columns of D^-1 T D are alike: each coordinate in a unit of its own.

    What is negligible depends on units; scaling by powers of two rounds nothing.
    """
    if not np.any(transition):
        return np.ones(len(transition))
    return np.asarray(lapack.dgebal(transition, scale=1, permute=0)[3])


def stationary_covariance(transition: Matrix, noise: Matrix) -> Matrix:
    """S = T S T^T + N, (n, n), each variable in a unit of its own, which the solver does not know; else infinite."""
    unit = units(transition)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            inside = transition * unit / unit[:, None], noise / unit / unit[:, None]
            return np.asarray(solve_discrete_lyapunov(*inside) * unit * unit[:, None])
    except ValueError:
        return np.full_like(noise, np.inf)


def square_root(covariance: Matrix) -> Matrix:
    """R with R R^T = covariance, (n, n), negative eigenvalues left out; each variable in a unit of its own."""
    variances = np.diag(covariance)
    unit = np.exp2(np.round(0.5 * np.log2(np.where(variances > 0.0, variances, 1.0))))
    values, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
    return np.asarray(unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))


def semidefinite(matrix: Matrix) -> Matrix:
    """The nearest positive semidefinite matrix: a difference of covariances may round below zero."""
    root = square_root(0.5 * (matrix + matrix.T))
    return np.asarray(root @ root.T)


def nonzero_eigenvalues(transition: Matrix) -> NDArray[np.complex128]:
    """Eigenvalues other than zero, largest modulus first.

    The nilpotent part is cut off before, by restricting T to its range until it has full rank: computed
    eigenvalues of a nilpotent block of size k would be of order eps^(1/k). Cost O(n^4) at worst.
    """
    if transition.size:
        scale = units(transition)
        transition = transition * scale / scale[:, None]
    while transition.size:
        left, singular, _ = np.linalg.svd(transition)
        rank = int(np.sum(singular > NEGLIGIBLE * singular[0]))
        if rank == len(singular):
            break
        transition = left[:, :rank].T @ transition @ left[:, :rank]
    values = np.linalg.eigvals(transition).astype(np.complex128)
    return np.asarray(values[np.lexsort((-values.imag, -values.real, -np.abs(values)))])


def visible_part(readout: Matrix, transition: Matrix, start: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """The smallest (C, A, B) with C A^t B = readout transition^t start for every t >= 0.

    Modes that `start` does not reach or `readout` does not see are cut off, by orthogonal restrictions only.
    readout (p, n), transition (n, n), start (n, q). What is cut off is judged in `units`. Cost O(n^4) at worst.
    """
    scale = units(transition)
    readout, transition, start = readout * scale, transition * scale / scale[:, None], start / scale[:, None]
    reached = _reachable(transition, start)
    readout, transition, start = readout @ reached, reached.T @ transition @ reached, reached.T @ start
    seen = _reachable(transition.T, readout.T)
    return readout @ seen, seen.T @ transition @ seen, seen.T @ start


def _reachable(transition: Matrix, start: Matrix) -> Matrix:
    """Orthonormal basis of the span of start, T start, T^2 start, ..."""
    basis = _directions(start, NEGLIGIBLE * float(np.linalg.norm(start)))
    fresh = basis
    while fresh.size and basis.shape[1] < len(basis):
        ahead = transition @ fresh
        size = np.linalg.norm(transition[:, np.any(fresh, axis=1)])  # of what T applies to the fresh directions
        for _ in range(2):  # once more, for what rounding left of the known directions
            ahead = ahead - basis @ (basis.T @ ahead)
        fresh = _directions(ahead, NEGLIGIBLE * float(size))
        basis = np.hstack([basis, fresh])
    return basis


def _directions(columns: Matrix, threshold: float) -> Matrix:
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, singular > threshold])


def descending_schur(transition: Matrix) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """T = Q R Q* with R upper triangular, eigenvalues of descending modulus; returns R, Q. Cost O(n^3)."""
    triangle, vectors = schur(transition, output="complex")
    for place in range(len(triangle)):
        largest = place + int(np.argmax(np.abs(np.diag(triangle)[place:])))
        triangle, vectors, _ = lapack.ztrexc(triangle, vectors, largest + 1, place + 1)
    return triangle, vectors


def echelon(readout: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A unitary change of the output that brings the readout (d, n) to row echelon form; and its pivots.

    Row i begins at column pivot_i, which is n for a row of zeros. Cost O(d^2 n).
    """
    rows = np.array(readout)
    count, width = rows.shape
    pivots = np.full(count, width, dtype=np.int64)
    threshold = NEGLIGIBLE * float(np.linalg.norm(rows))
    done = 0
    for column in range(width):
        if done == count:
            break
        if np.linalg.norm(rows[done:, column]) > threshold:
            turn, _ = np.linalg.qr(rows[done:, column : column + 1], mode="complete")
            rows[done:] = turn.conj().T @ rows[done:]
            rows[done + 1 :, column] = 0.0
            pivots[done] = column
            done += 1
        else:
            rows[done:, column] = 0.0
    return rows, pivots
