"""When a ReLU RNN has a finite window: block nilpotent matrices, acyclic networks, and what neither of them is.

The network is h_t = relu(A h_{t-1} + B x_t + b). Its digraph has an arrow j -> i wherever A[i, j] is not zero.
Nandakumar, Qu, Mi and Liu (2024) ask A to be block nilpotent (Def. A.6, Lemma A.7). That is enough. What decides is
weaker: the window is finite for every B and b if and only if the digraph has no cycle, and then the longest
window is the number of neurons on a longest path.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import plain_array, whole_number
from lib.theory.memorizing.exact import rationals
from lib.theory.windows.rational_matrices import exact_rank, rank_profile_modulo, square_integer_multiple

Array = NDArray[Any]


def levels_of_network(A: ArrayLike) -> NDArray[np.int64] | None:
    """Level of every neuron: how many neurons the longest path that ends before it has; None if there is a cycle.

    A (N, N). Sorted by level, A is strictly lower triangular. Raises ValueError unless A is a square matrix of
    finite numbers. Peels off the neurons that nothing left points to, O(N^2) per level.
    """
    arrows = square_integer_multiple(A) != 0
    levels = np.full(len(arrows), -1, dtype=np.int64)
    left = np.ones(len(arrows), dtype=bool)
    level = 0
    while left.any():
        sources = left & ~arrows[:, left].any(axis=1)
        if not sources.any():
            return None
        levels[sources] = level
        left &= ~sources
        level += 1
    return levels


def window_of_network(A: ArrayLike) -> int | None:
    """The window of a ReLU RNN for the worst B and b: neurons on a longest path of the digraph; None if it has a cycle.

    A (N, N). With this window, y_t depends on x_{t-window+1}, ..., x_t only, whatever B, b and C; for B = I
    some biases and inputs use all of it (`window_witness`). Raises ValueError as `levels_of_network`.
    Cost O(N^2 window).
    """
    levels = levels_of_network(A)
    return None if levels is None else int(levels.max()) + 1


def block_nilpotency_order(A: ArrayLike) -> int | None:
    """The order n of a block nilpotent matrix: A^n = 0, every ker A^k spanned by standard vectors; None if it is none.

    A (N, N). ker A^k is spanned by standard vectors if and only if the columns of A^k that are not zero are
    linearly independent: exact ranks decide. Raises ValueError unless A is a square matrix of finite numbers.
    Cost O(N^2 columns) integer products per power. Source: Def. A.6.
    """
    integers = square_integer_multiple(A)
    if window_of_network(integers) is None:  # block nilpotent matrices have no cycle
        return None
    order, power = 1, integers[:, np.any(integers != 0, axis=0)]
    while power.size and np.any(power != 0):
        full = power.shape[1]  # a full rank modulo a prime is one, and found sooner
        if rank_profile_modulo(power.T)[-1] < full and exact_rank(power.T) < full:
            return None
        power = integers @ power
        power = power[:, np.any(power != 0, axis=0)]
        order += 1
    return order


def is_block_nilpotent(A: ArrayLike, order: int | None = None) -> bool:
    """Whether A (N, N) is block nilpotent (Def. A.6), of any order or of this one: A^order = 0.

    Raises ValueError for another A or order < 1. Cost as `block_nilpotency_order`.
    """
    most = None if order is None else whole_number(order, "order", 1)
    found = block_nilpotency_order(A)
    return found is not None and (most is None or found <= most)


def window_by_activation_patterns(matrices: ArrayLike) -> NDArray[np.int64]:
    """The longest windows of many small ReLU RNNs from the chain rule alone, over all patterns of active neurons.

    dh_t / dh_{t-k} = D_t A D_{t-1} A ... D_{t-k+1} A with D = diag(0 or 1), and for B = I every sequence of D
    occurs. The window is the first k with A D A ... D A = 0 (k factors A) for all D; k <= N decides, 0 stands
    for no finite window. matrices: integers (..., N, N), N <= 4. Returns (...). Raises ValueError for others.
    Plain form: O(2^(N (N-1)) N^3) each, in Python's integers where products could exceed 64 bits.
    """
    given = plain_array(matrices, "matrices")
    if given.ndim < 2 or given.shape[-1] != given.shape[-2] or not 1 <= given.shape[-1] <= 4:
        raise ValueError(f"matrices: shape (..., N, N) with N <= 4 is allowed, got {given.shape}")
    if given.dtype.kind not in "iu" and not all(isinstance(entry, int) for entry in given.flat):
        raise ValueError(f"matrices: integers are allowed, got type {given.dtype}")
    size, integers = given.shape[-1], given.astype(object)
    bound = int(np.max(np.abs(integers), initial=0)) ** size * size ** (size - 1)
    matrices = given.astype(np.int64) if bound < 2**63 else integers
    patterns = (np.arange(2**size)[:, None] >> np.arange(size)) & 1  # (2^N, N), the diagonals of all D
    windows = np.zeros(matrices.shape[:-2], dtype=np.int64)
    products = matrices[..., None, :, :]  # (..., patterns so far, N, N)
    for factors in range(1, size + 1):
        vanished = ~np.any(products != 0, axis=(-3, -2, -1))
        windows[vanished & (windows == 0)] = factors
        if factors < size:
            active = patterns[:, :, None] * matrices[..., None, :, :]  # D A
            products = (products[..., None, :, :] @ active[..., None, :, :, :]).reshape(
                *matrices.shape[:-2], -1, size, size
            )
    return windows


def window_witness(A: ArrayLike, lag: int) -> Array:
    """Two input sequences that differ in the first input alone and give different states `lag` steps later, exactly.

    For the network with this A (N, N), B = I and b = 0: along a walk of `lag` arrows the inputs hold one neuron
    after the other at 1 and all others below zero, so the first change passes on, times a weight per step.
    Returns fractions (2, lag + 1, N). Raises ValueError if there is no walk of `lag` arrows: then no inputs
    and no B, b have such an effect. Cost O(lag N^2).
    """
    steps = whole_number(lag, "lag", 0)
    square_integer_multiple(A)  # refuses what is no square matrix of finite numbers
    weights = rationals(A)
    walk = _walk(np.asarray(weights != 0), steps)
    if walk is None:
        raise ValueError(
            f"lag: the network has no walk of {steps} arrows, the longest has {window_of_network(A)} neurons"
        )
    one = Fraction(1)
    target = np.full((steps + 1, len(weights)), -one, dtype=object)  # what every neuron is to receive
    target[np.arange(steps + 1), walk] = one
    inputs = target.copy()
    inputs[1:] -= np.maximum(target[:-1], 0) @ weights.T
    gain = largest = one
    for now, then in pairwise(walk):
        largest = max(largest, abs(gain) * max(abs(weights[:, now])))
        gain *= weights[then, now]
    changed = inputs.copy()
    changed[0, walk[0]] += one / (2 * largest)  # small enough that no neuron turns on or off
    return np.stack([inputs, changed])


def dense_nilpotent_network() -> tuple[Array, Array, Array, Array]:
    """A, B, b, C of a ReLU RNN with A^2 = 0 that remembers its first input for ever, integers; A has no zero entry.

    A = ((1, -1), (1, -1)), B = (1, 0), b = (0, -1), C = (1, 0): the second neuron is off while the first is at
    most 1, and then h_t = h_{t-1} + x_t in the first. As an SSM the same matrices have the window 2.
    """
    return np.array([[1, -1], [1, -1]]), np.array([[1], [0]]), np.array([0, -1]), np.array([[1, 0]])


def cancelling_paths_matrix() -> Array:
    """An acyclic A (4, 4) with A^2 = 0 on which ReLU RNNs have the window 3: two paths from 0 to 3 that cancel."""
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[1, 0] = matrix[2, 0] = matrix[3, 1] = 1
    matrix[3, 2] = -1
    return matrix


def _walk(arrows: NDArray[np.bool_], steps: int) -> list[int] | None:
    """Neurons of a walk of `steps` arrows, or None."""
    starts = [np.ones(len(arrows), dtype=bool)]  # starts[k]: neurons from which a walk of k arrows begins
    for _ in range(steps):
        starts.append(np.asarray(arrows[starts[-1]].any(axis=0)))
    if not starts[-1].any():
        return None
    walk = [int(np.argmax(starts[-1]))]
    for onwards in reversed(starts[:-1]):
        walk.append(int(np.argmax(arrows[:, walk[-1]] & onwards)))
    return walk
