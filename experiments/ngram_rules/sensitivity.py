"""What becomes of a difference: after many steps of a recurrent layer, and in what a model says next.

Of a layer: spectra, norms of powers, Lipschitz constants. Of a model: how far back it listens, which is what happens to
its next-token distribution when one earlier token is another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, whole_number
from lib.models.scoring import evaluating

Floats = NDArray[np.float64]
ROUNDING = 1e-5  # of the largest eigenvalue of a float32 matrix of a few hundred rows
BATCH = 200  # sequences read at once


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues by falling modulus."""

    eigenvalues: NDArray[np.complex128]

    @property
    def radius(self) -> float:
        """Largest modulus: ||A^k||^(1/k) tends to it."""
        return float(np.abs(self.eigenvalues[0]))

    @property
    def outside(self) -> int:
        """How many have a modulus above one by more than rounding in single precision."""
        return int(np.sum(np.abs(self.eigenvalues) > 1.0 + ROUNDING))


def spectrum(transition: ArrayLike) -> Spectrum:
    """Eigenvalues of a square matrix. Raises ValueError for other shapes. Cost O(h^3)."""
    values = np.linalg.eigvals(_square(transition)).astype(np.complex128)
    return Spectrum(values[np.argsort(-np.abs(values), kind="stable")])


def power_norms(transition: ArrayLike, steps: int) -> Floats:
    """||A^k|| (largest singular value) for k = 1 .. steps: how far a difference of linear states can grow."""
    matrix = _square(transition)
    power, norms = np.eye(len(matrix)), np.empty(whole_number(steps, "steps", 1))
    for k in range(len(norms)):
        power = matrix @ power
        norms[k] = np.linalg.norm(power, 2)
    return norms


def iterated_norms(transition: ArrayLike, states: ArrayLike, steps: int) -> Floats:
    """||(relu A)^k h|| / ||h|| for k = 1 .. steps: (steps, n), without input (Nandakumar et al., Sec. 5.2).

    states h (n, width); a state that is zero gives zeros. Cost O(steps n width^2).
    """
    matrix = _square(transition)
    at = _states(states, len(matrix))
    length = np.linalg.norm(at, axis=1)
    found = np.empty((whole_number(steps, "steps", 1), len(at)))
    for k in range(len(found)):
        at = np.maximum(at @ matrix.T, 0.0)
        found[k] = np.linalg.norm(at, axis=1) / np.where(length > 0, length, 1.0)
    return found


def state_ratios(transition: ArrayLike, first: ArrayLike, second: ArrayLike, driven: ArrayLike) -> Floats:
    """||phi_k(h) - phi_k(h')|| / ||h - h'|| for k = 1 .. steps, where phi_k reads the same k inputs: (steps, n).

        phi: h -> relu(A h + u)

    first h, second h' (n, width), all pairs different; driven u = B x + b (n, steps, width). The largest ratio is an
    empirical Lipschitz constant of the k-step map: a lower bound of the true one. Cost O(steps n width^2).
    """
    matrix = _square(transition)
    one, other = _states(first, len(matrix)), _states(second, len(matrix))
    inputs = np.asarray(driven, dtype=np.float64)
    if one.shape != other.shape or inputs.ndim != 3 or inputs.shape[::2] != one.shape:
        raise ValueError(
            f"driven: (n, steps, width) is needed for states {one.shape}, {other.shape}, got {inputs.shape}"
        )
    apart = np.linalg.norm(one - other, axis=1)
    if not np.all(apart > 0):
        raise ValueError("first, second: pairs of different states are needed, got an equal pair")
    found = np.empty((inputs.shape[1], len(one)))
    for k, now in enumerate(inputs.transpose(1, 0, 2)):
        one, other = (np.maximum(state @ matrix.T + now, 0.0) for state in (one, other))
        found[k] = np.linalg.norm(one - other, axis=1) / apart
    return found


def local_norms(transition: ArrayLike, states: ArrayLike, driven: ArrayLike) -> Floats:
    """Operator norms of the Jacobians D_k A ... D_1 A of phi_k at given states: (steps, n).

    D_i has a one for each active ReLU of step i. It is the exact Lipschitz constant near the state (where no ReLU is
    at its kink), and its largest value over all states that of phi_k itself. As in `state_ratios`.
    Cost O(steps n width^3).
    """
    matrix = _square(transition)
    at = _states(states, len(matrix))
    inputs = np.asarray(driven, dtype=np.float64)
    if inputs.ndim != 3 or inputs.shape[::2] != at.shape:
        raise ValueError(f"driven: (n, steps, width) is needed for states {at.shape}, got {inputs.shape}")
    jacobian = np.broadcast_to(np.eye(len(matrix)), (len(at), *matrix.shape))
    found = np.empty((inputs.shape[1], len(at)))
    for k, now in enumerate(inputs.transpose(1, 0, 2)):
        before = at @ matrix.T + now
        jacobian = (before > 0)[:, :, None] * (matrix @ jacobian)
        found[k] = np.linalg.norm(jacobian, 2, axis=(1, 2))
        at = np.maximum(before, 0.0)
    return found


def _square(transition: ArrayLike) -> Floats:
    matrix = np.asarray(transition, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.all(np.isfinite(matrix)):
        raise ValueError(f"transition: a square matrix of finite numbers is allowed, got shape {matrix.shape}")
    return matrix


def _states(states: ArrayLike, width: int) -> Floats:
    found = np.asarray(states, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != width or not len(found):
        raise ValueError(f"states: (n >= 1, {width}) is needed, got shape {found.shape}")
    return found


def influence(
    model: Any,
    sequences: ArrayLike,
    seed: int | np.random.Generator,
    tokens: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Floats, Floats]:
    """Change of the next-token distribution when the token k places back is replaced, at every place t, for every k.

        || Q(. | w_1 .. w_{t-k} .. w_t) - Q(. | w_1 .. w' .. w_t) ||_1        (in [0, 2])

    k = 0 is the last token read. sequences: ids (n, T) below `tokens` (default: the model's vocabulary); the
    replacement w' of each is drawn uniformly from the other ids. device: where the model is. Returns means over
    sequences and the largest changes, each (T, T): row t - 1, column k, NaN for k >= t. Raises ValueError for other ids
    and fewer than two tokens. Cost T + 1 parallel passes: one replaced token answers for every later place at once.
    """
    read, size = np.asarray(sequences), whole_number(model.vocabulary if tokens is None else tokens, "tokens", 2)
    if read.ndim != 2 or read.dtype.kind not in "iu" or not read.size or read.min() < 0 or read.max() >= size:
        raise ValueError(f"sequences: ids 0 .. {size - 1} of shape (n, T) are allowed, got {read.dtype} {read.shape}")
    other = (read + generator(seed).integers(1, size, size=read.shape)) % size
    laws, length = _laws(model, read, device), read.shape[1]
    mean, largest = np.full((2, length, length), np.nan)
    for place in range(length):
        changed = read.copy()
        changed[:, place] = other[:, place]
        distance = np.abs(_laws(model, changed, device) - laws)[:, place:].sum(axis=2)  # (n, T - place)
        later = np.arange(place, length)
        mean[later, later - place] = distance.mean(axis=0)
        largest[later, later - place] = distance.max(axis=0)
    return mean, largest


def _laws(model: Any, sequences: NDArray[Any], device: torch.device | str) -> Floats:
    """Q(next | first t tokens), (n, T, vocabulary), in float64."""
    with evaluating(model):
        found = [
            model(torch.from_numpy(part.astype(np.int64)).to(device)).double().softmax(dim=-1).cpu().numpy()
            for part in np.array_split(sequences, -(-len(sequences) // BATCH))
        ]
    return np.concatenate(found)
