"""What `memorizing_ssm` is given: shapes, types, equal sequences, windows, and sequences to fill up neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, issparse

from lib.checks import real_array

Array = NDArray[np.float64]
_KEPT = 16  # powers of two within which inputs keep a common unit, and moderate ones their own
MIXED = 2.0**_KEPT  # ratio of units beyond which coordinates are measured in their own
_FARTHEST = 1000  # powers of two that a unit may have, so that neither it nor its inverse leaves the floats


def checked_data(inputs: ArrayLike, outputs: Any) -> tuple[Array, Any]:
    """inputs (N, n, m) and outputs (N, p), dense or sparse, as float64.

    Raises ValueError for other shapes, numbers that are not real or not finite, and equal sequences.
    """
    x = real_array(inputs, "inputs").copy()
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"inputs: shape (N, n, m) with all at least 1 is allowed, got {x.shape}")
    y: Any = csr_array(outputs) if issparse(outputs) else real_array(outputs, "outputs").copy()
    if issparse(y):
        real_array(y.data, "outputs")
        y = y.astype(np.float64)
    if y.ndim != 2 or y.shape[0] != len(x) or y.shape[1] < 1:
        raise ValueError(f"outputs: shape (N, p) with N = {len(x)} and p >= 1 is allowed, got {y.shape}")
    for name, values in (("inputs", x), ("outputs", y.data if issparse(y) else y)):
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name}: finite numbers are allowed, got NaN or infinity")
    first, inverse = _groups(x)
    if len(first) < len(x):
        second = int(np.setdiff1d(np.arange(len(x)), first)[0])
        raise ValueError(
            f"inputs: different sequences are allowed, but sequences {first[inverse[second]]} and {second} are equal"
        )
    return x, y


def windows_of(sequences: Array, outputs: Any, order: int) -> tuple[Array, Any]:
    """The last `order` inputs of each sequence (all, if there are fewer), each window once, with its output.

    Raises ValueError if equal windows have different outputs.
    """
    windows = sequences[:, -order:]
    first, inverse = _groups(windows)
    if len(first) == len(windows):
        return windows, outputs
    differs = abs(outputs - outputs[first[inverse]])
    unequal = np.flatnonzero(differs.max(axis=1).toarray() if issparse(differs) else differs.max(axis=1))
    if len(unequal):
        second = int(unequal[0])
        raise ValueError(
            f"order: with A^{order} = 0 only the last {order} inputs count, and sequences {first[inverse[second]]} and "
            f"{second} agree in these, but have different outputs; an order up to {sequences.shape[1]} is allowed"
        )
    return windows[first], outputs[first]


def column_units(columns: Array) -> Array:
    """A power of two near the standard deviation of each column of (k, m), or near its modulus where it is constant.

    Returns (m,). Columns of zeros get the largest unit of the others, 1 if there is none. Cost O(k m).
    """
    return np.asarray(np.ldexp(1.0, np.clip(_exponents(columns), -_FARTHEST, _FARTHEST)))


def input_units(windows: Array) -> Array:
    """Powers of two (m,) in which the inputs of windows (N, order, m) are neither huge nor tiny.

    All equal, and 1 for moderate inputs, unless inputs differ by more than 2^16 in size: then the smaller ones have
    units of their own. Dividing by them is exact. Cost O(N order m).
    """
    exponents = _exponents(windows.reshape(-1, windows.shape[2]))
    largest = exponents.max()
    common = _KEPT * np.rint(largest / _KEPT).astype(np.int64)
    powers = common - _KEPT * ((largest - exponents) // _KEPT)
    return np.asarray(np.ldexp(1.0, np.clip(powers, -_FARTHEST, _FARTHEST)))


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """The floating type that NumPy calls so; ValueError if it calls none so, and for half precision."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind != "f" or kind.itemsize < 4:
        raise ValueError(f"dtype: float32 or a wider floating type of NumPy is allowed, got {dtype!r}")
    return kind


def padded(windows: Array, outputs: Array, neurons: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Windows with output 0 added until there is one for each neuron, far out in random directions.

    No corner of the given windows need be one among these.
    """
    missing = neurons - len(windows)
    if missing <= 0:
        return windows, outputs
    centre = windows.mean(axis=0)
    reach = np.linalg.norm(windows - centre, axis=(1, 2)).max() or 1.0
    extra = generator.standard_normal((missing, *windows.shape[1:]))
    extra *= 3 * reach / np.linalg.norm(extra, axis=(1, 2), keepdims=True)
    extra *= 1 + generator.random((missing, 1, 1))  # different even where there are two directions only
    return np.concatenate([windows, centre + extra]), np.concatenate([outputs, np.zeros((missing, outputs.shape[1]))])


def _exponents(columns: Array) -> NDArray[np.int64]:
    """log2 of the units of `column_units`, without squares that leave the floats."""
    largest = np.abs(columns).max(axis=0)
    exponents: NDArray[np.int64] = np.frexp(largest)[1].astype(np.int64)
    scaled = np.ldexp(columns, -exponents)
    deviations = (scaled - scaled[0]).std(axis=0)
    sizes = np.where(deviations > 0, deviations, np.abs(scaled[0]))
    exponents += np.rint(np.log2(np.where(largest > 0, sizes, 1.0))).astype(np.int64)
    exponents[largest == 0] = exponents[largest > 0].max() if np.any(largest > 0) else 0
    return exponents


def _groups(windows: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the first of each group of equal windows, in order of appearance, and the group of each window."""
    flat = np.ascontiguousarray(windows.reshape(len(windows), -1)) + 0.0  # no negative zeros
    _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.ravel()]
