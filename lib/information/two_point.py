"""Two-point mutual information: of a table of counts, and of a sequence with itself at a distance."""

import numpy as np
import numpy.typing as npt

from lib.checks import plain_array, whole_lags, whole_number
from lib.information.counting.pairs import checked_sequences, pair_sums, relabel
from lib.information.estimators import checked_counts, entropy, entropy_from_sums, find_estimator


def mutual_information(joint_counts: npt.ArrayLike, estimator: str = "grassberger2003") -> float:
    """Mutual information of two variables whose pairs were counted, in nats.

    I(X;Y) = H(X) + H(Y) - H(X,Y), each entropy estimated from the same table (Shen 2019, Eq. 54; L2M, Eq. 10).

    joint_counts: (K_x, K_y) whole numbers >= 0, one cell per pair of values. estimator: as in `entropy`. Raises
    ValueError for a table that is not two-dimensional, for bad counts and for an unknown estimator. The result may
    be negative, and the Grassberger 2008 estimate of an exactly independent table is not 0. O(cells).
    """
    table = plain_array(joint_counts, "joint_counts")
    if table.ndim != 2:
        raise ValueError(f"joint_counts has shape {table.shape}; a table of two dimensions is needed")
    joint = checked_counts(table, "joint_counts")
    return entropy(joint.sum(axis=1), estimator) + entropy(joint.sum(axis=0), estimator) - entropy(joint, estimator)


def pair_counts(sequences: npt.ArrayLike, lag: int) -> npt.NDArray[np.int64]:
    """Joint table of the symbols at distance `lag`: cell [a, b] says how often a is followed by b, `lag` places later.

    sequences: integers, (length,) or (n, length), pairs never crossing rows. Rows and columns stand for the distinct
    symbols in increasing order: (K, K). Raises ValueError as `auto_mutual_information` does. O(N log N + K^2).
    """
    rows = checked_sequences(sequences)
    if np.ndim(lag):
        raise ValueError(f"lag: one whole number 0 <= lag < {rows.shape[1]} is allowed, got {lag!r}")
    step = int(checked_lags([lag], rows.shape[1])[0])
    values, codes = np.unique(rows, return_inverse=True)
    codes = codes.reshape(rows.shape)
    size = values.size
    first, second = codes[:, : rows.shape[1] - step], codes[:, step:]
    return np.bincount((first * size + second).ravel(), minlength=size * size).reshape(size, size).astype(np.int64)


def auto_mutual_information(
    sequences: npt.ArrayLike,
    lags: npt.ArrayLike,
    estimator: str = "grassberger2003",
    *,
    workers: int | None = None,
    progress: bool | None = None,
) -> npt.NDArray[np.float64]:
    """Mutual information of symbols at each distance, in nats: I(lag) = H(x_t) + H(x_{t+lag}) - H(x_t, x_{t+lag}).

    The pairs are all (x_t, x_{t+lag}) that lie in one row; both marginals come from these same pairs, being rows
    and columns of their table (Shen 2019, Eq. 54 and App. D; L2M, Eq. 10).

    sequences: integers, (length,) or (n, length); any values, negative ones too. lags: whole numbers, 0 <= lag <
    length, in any order. estimator: as in `entropy`. Returns (len(lags),). `workers` limits the threads (default:
    all cores), `progress` forces a bar on or off. Raises ValueError for empty or non-integer sequences, more than
    two dimensions, lags that are empty, fractional or out of range, and an unknown estimator.

    Exact counts by the kernels of `lib.information.counting.pairs`: O(N) per lag, near or far, for N symbols in all,
    and O(N / 64) for two symbols in rows of 64 or more; memory O(N) for any number of lags.
    """
    rule = find_estimator(estimator)
    rows = checked_sequences(sequences)
    steps = checked_lags(lags, rows.shape[1])
    threads = None if workers is None else whole_number(workers, "workers", 1)
    sums, cells = pair_sums(relabel(rows), steps, rule, workers=threads, progress=progress)
    totals = rows.shape[0] * (rows.shape[1] - steps)
    entropies = entropy_from_sums(totals[:, np.newaxis], sums, cells, rule)
    return np.asarray(entropies[:, 0] + entropies[:, 1] - entropies[:, 2], dtype=np.float64)


def checked_lags(lags: npt.ArrayLike, length: int, least: int = 0) -> npt.NDArray[np.int64]:
    """Lags as int64, (n,), n >= 1, each `least` <= lag < `length`; ValueError that says which lag is not allowed."""
    array = whole_lags(lags, length)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"lags: a one-dimensional list of at least one is allowed, got shape {array.shape}")
    if array.min() < least:
        raise ValueError(f"lags: whole numbers with {least} <= lag < {length} are allowed, got {array.min()}")
    return array
