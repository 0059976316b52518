"""How an information grows with length: I = A L^beta, with intervals from resampling whole documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, real_array, real_number, whole_number

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScalingFit:
    """I(L) = A L^beta by least squares in ln I, and the same for samples of documents drawn with replacement."""

    lengths: Floats  # (n,)
    values: Floats  # (n,), means over windows, nats
    standard_errors: Floats  # (n,), of these means, from the resampled ones
    exponent: float  # beta
    amplitude: float  # A, nats
    interval: tuple[float, float]  # of beta
    amplitude_interval: tuple[float, float]
    exponents: Floats  # (replicates,), NaN where a resampled mean is not positive
    resampled: Floats  # (replicates, n), resampled means

    @property
    def undefined(self) -> int:
        """Replicates without an exponent."""
        return int(np.isnan(self.exponents).sum())

    def predict(self, lengths: ArrayLike) -> Floats:
        """The fitted power law, nats."""
        return np.asarray(self.amplitude * real_array(lengths, "lengths") ** self.exponent)


def scaling_exponent(
    lengths: ArrayLike,
    values: ArrayLike,
    documents: ArrayLike | None = None,
    *,
    replicates: int = 1000,
    block: int = 1,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> ScalingFit:
    """Exponent beta of the mean of `values` over windows, with a percentile interval of a bootstrap over documents.

    lengths: (n >= 3,), L. values: (windows, n), nats, whose mean over windows is the estimate at each length.
    documents: (windows,), which document a window is of, None for one each; all windows of a document are drawn
    together, for they are not independent. block: documents in a row drawn together, cyclically; 1 draws them singly,
    more keep the dependence of a document and the next, whose second blocks serve in it as strangers (vCLUB).
    Replicates with a mean <= 0 have no exponent: if more than the interval leaves out on a side, it is infinite.
    ``ValueError`` for other shapes, NaN, fewer than three documents or blocks, and estimates <= 0. O(replicates x
    documents x n).
    """
    grid, samples = real_array(lengths, "lengths"), real_array(values, "values")
    if grid.ndim != 1 or grid.size < 3 or samples.ndim != 2 or samples.shape[1] != grid.size:
        raise ValueError(f"lengths (n >= 3,) and values (windows, n) are needed, got {grid.shape} and {samples.shape}")
    if not np.all(np.isfinite(samples)) or not np.all(np.isfinite(grid) & (grid > 0)) or np.any(np.diff(grid) <= 0):
        raise ValueError(
            f"finite values and increasing positive finite lengths are allowed, got up to {samples.max():g}, {grid}"
        )
    whole_number(replicates, "replicates", 2)
    if not 0 < real_number(confidence, "confidence") < 1:
        raise ValueError(f"confidence: 0 < confidence < 1 is allowed, got {confidence}")
    means = samples.mean(axis=0)
    if np.any(means <= 0):
        raise ValueError(f"values: positive means have an exponent, got {means.min():.4g} nats at L = "
                         f"{grid[means.argmin()]:g}")  # fmt: skip
    resampled = resampled_means(samples, documents, replicates=replicates, block=block, seed=seed)
    exponent, offset = _slopes(grid, np.log(means)[None])
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = np.where(np.all(resampled > 0, axis=1, keepdims=True), np.log(resampled), np.nan)
    exponents, offsets = _slopes(grid, logarithms)
    return ScalingFit(
        grid,
        means,
        resampled.std(axis=0, ddof=1),
        float(exponent[0]),
        float(np.exp(offset[0])),
        _percentiles(exponents, confidence),
        _percentiles(np.exp(offsets), confidence),
        exponents,
        resampled,
    )


def resampled_means(
    values: ArrayLike,
    documents: ArrayLike | None = None,
    *,
    replicates: int = 1000,
    block: int = 1,
    seed: int | np.random.Generator = 0,
) -> Floats:
    """Means of values (windows, ...) over documents drawn with replacement, (replicates, ...); see `scaling_exponent`.

    A document counts by its number of windows. ``ValueError`` unless there are at least three documents and blocks,
    and for replicates < 1.
    """
    samples, replicates = real_array(values, "values"), whole_number(replicates, "replicates", 1)
    block = whole_number(block, "block", 1)
    labels = np.arange(len(samples)) if documents is None else np.asarray(documents)
    if labels.shape != samples.shape[:1]:
        raise ValueError(f"documents: one for each of {len(samples)} windows is needed, got shape {labels.shape}")
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))[place]  # documents in the order in which they come
    count = first.size
    if count < 3 or block > count // 3:
        raise ValueError(
            f"at least three documents and 1 <= block <= documents / 3 are needed, got {count} and {block}"
        )
    sums = np.zeros((count, *samples.shape[1:]))
    np.add.at(sums, order, samples)
    numbers = np.bincount(order, minlength=count).astype(np.float64)
    random = generator(seed)
    starts = random.integers(count, size=(replicates, round(count / block)))
    drawn = (starts[:, :, None] + np.arange(block)).reshape(replicates, -1) % count
    weights = np.zeros((replicates, count))
    np.add.at(weights, (np.arange(replicates)[:, None], drawn), 1.0)
    totals = np.tensordot(weights, sums, axes=1)
    return np.asarray(totals / (weights @ numbers).reshape(-1, *[1] * (samples.ndim - 1)))


def _slopes(lengths: Floats, logarithms: Floats) -> tuple[Floats, Floats]:
    """Slope and value at L = 1 of each row against ln L."""
    x = np.log(lengths)
    centred = x - x.mean()
    slopes = logarithms @ centred / (centred @ centred)
    return slopes, logarithms.mean(axis=1) - slopes * x.mean()


def _percentiles(replicates: Floats, confidence: float) -> tuple[float, float]:
    """Undefined replicates count as the worst on either side."""
    tail = (1.0 - confidence) / 2
    low, high = (np.sort(np.where(np.isnan(replicates), worst, replicates)) for worst in (-np.inf, np.inf))
    return (
        float(np.quantile(low, tail, method="lower")),
        float(np.quantile(high, 1.0 - tail, method="higher")),
    )
