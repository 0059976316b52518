"""Modes of a linear system: which exist, which an output shows, and a basis in which they grow in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, schur

Matrix = NDArray[np.float64]
NEGLIGIBLE = 1e-12  # relative to the norm: smaller couplings are rounding


def spectral_radius(transition: Matrix) -> float:
    """Largest modulus of an eigenvalue. Cost O(n^3)."""
    return float(np.abs(np.linalg.eigvals(transition)).max(initial=0.0))


def nonzero_eigenvalues(transition: Matrix) -> NDArray[np.complex128]:
    """Eigenvalues other than zero, largest modulus first.

    The nilpotent part is cut off before, by restricting T to its range until it has full rank: computed
    eigenvalues of a nilpotent block of size k would be of order eps^(1/k). Cost O(n^4) at worst.
    """
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
    readout (p, n), transition (n, n), start (n, q). Cost O(n^4) at worst.
    """
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
        for _ in range(2):  # once more, for what rounding left of the known directions
            ahead = ahead - basis @ (basis.T @ ahead)
        fresh = _directions(ahead, NEGLIGIBLE * float(np.linalg.norm(transition)))
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
