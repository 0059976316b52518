"""Is one part of a corpus like another? Block bootstrap of mutual-information curves, and non-uniformity as a number.

A validation set is smaller than its training set, and an estimator's bias grows as the sample shrinks. A split is
therefore never compared with the whole of another, only with pieces of the same size cut out of it, each with its own
sampling floor taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from experiments.natural_corpora.resampling import block_bootstrap, cut_pieces
from lib.information.documents.segments import sampling_floor, segmented_mutual_information

CONFIDENCE = 0.95


@dataclass(frozen=True)
class NonUniformity:
    """How far the mutual information of a split is from that of equally long pieces of a reference, as a log-ratio.

    value: ln(band mean of the split) - mean of ln(band mean of a piece); 0 for a uniform corpus.
    interval: 95 % bootstrap interval of `value`. expected: where one more piece of the reference would lie, 95 %;
    `None` where there was no reference to cut into pieces.
    """

    value: float
    interval: tuple[float, float]
    expected: tuple[float, float] | None = None

    @property
    def uniform(self) -> bool:
        """Whether the split could be one more piece of the reference; without pieces, whether the interval holds 0."""
        low, high, middle = (*self.expected, self.value) if self.expected else (*self.interval, 0.0)
        return low <= middle <= high


def band_information(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    shuffles: int = 4,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> float:
    """Mean mutual information over the lags, less the sampling floor of the same symbols (nats).

    The floor is that of all pairs: documents are to be long beside the lags.
    """
    curve = segmented_mutual_information(symbols, lags, offsets, estimator)
    return float(curve.mean() - sampling_floor(symbols, shuffles, seed, estimator).mean())


def non_uniformity(
    replicates: npt.ArrayLike, pieces: npt.ArrayLike, seed: int | np.random.Generator = 0
) -> NonUniformity:
    """Log-ratio of a split to same-size pieces of a reference, with a bootstrap interval.

    replicates: (r,) bootstrap values of the split's band information; pieces: (p,) band information of the pieces,
    p >= 3. The interval resamples the split's blocks and the pieces; the expected range is that of one more piece, a
    Student prediction interval in the logarithm. `ValueError` if a value is not above the sampling floor: then there is
    nothing to take the logarithm of, and a longer piece or nearer lags are needed.
    """
    split, reference = np.asarray(replicates, dtype=np.float64), np.asarray(pieces, dtype=np.float64)
    if split.ndim != 1 or split.size < 2 or reference.ndim != 1 or reference.size < 3:
        raise ValueError(f"at least 2 replicates and 3 pieces in 1-D arrays, got {split.shape} and {reference.shape}")
    if not split.mean() > 0 or not np.all(reference > 0):
        raise ValueError(
            f"information at or below the sampling floor: split {split.mean():.2e}, least piece {reference.min():.2e} "
            "nats; take longer pieces or smaller lags"
        )
    logs = np.log(reference)
    value = float(np.log(split.mean()) - logs.mean())
    random = np.random.default_rng(seed)
    redrawn = random.choice(logs, size=(split.size, logs.size)).mean(axis=1)
    with np.errstate(divide="ignore"):
        spread = np.log(np.maximum(split, 0.0)) - redrawn  # minus infinity where a replicate lies below the floor
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(spread, [tail, 1 - tail], method="inverted_cdf")
    reach = float(student.ppf(1 - tail, logs.size - 1) * logs.std(ddof=1) * np.sqrt(1 + 1 / logs.size))
    return NonUniformity(value, (float(low), float(high)), (-reach, reach))


def compare_split(
    split: npt.NDArray[np.integer],
    reference: npt.NDArray[np.integer],
    lags: npt.ArrayLike,
    *,
    pieces: int = 9,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> NonUniformity:
    """Non-uniformity of `split` against `pieces` pieces of the same length of `reference`, over the given lags.

    Both are (length,) integers in one numbering or in two: mutual information does not depend on names.
    """
    random = np.random.default_rng(seed)
    curves = block_bootstrap(split, lags, blocks=blocks, replicates=replicates, seed=random, estimator=estimator)
    own = curves.mean(axis=1) - sampling_floor(split, seed=random, estimator=estimator).mean()
    cut = [
        band_information(piece, lags, seed=random, estimator=estimator)
        for piece in cut_pieces(reference, len(split), pieces)
    ]
    return non_uniformity(own, np.array(cut), random)


def compare_pair(
    first: npt.NDArray[np.integer],
    second: npt.NDArray[np.integer],
    lags: npt.ArrayLike,
    *,
    blocks: int = 32,
    replicates: int = 200,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
) -> NonUniformity:
    """ln(band information of `first`) - ln(that of `second`), both cut to the shorter length, blocks of both redrawn.

    For two splits whose training set is not at hand. `ValueError` if either lies at or below its sampling floor.
    """
    random = np.random.default_rng(seed)
    length = min(len(first), len(second))
    logs, values = [], []
    for part in (first[:length], second[:length]):
        curves = block_bootstrap(part, lags, blocks=blocks, replicates=replicates, seed=random, estimator=estimator)
        band = curves.mean(axis=1) - sampling_floor(part, seed=random, estimator=estimator).mean()
        if not band.mean() > 0:
            raise ValueError(f"information at or below the sampling floor: {band.mean():.2e} nats; take smaller lags")
        values.append(np.log(band.mean()))
        logs.append(np.log(np.maximum(band, np.finfo(float).tiny)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(logs[0] - logs[1], [tail, 1 - tail], method="inverted_cdf")
    return NonUniformity(float(values[0] - values[1]), (float(low), float(high)))
