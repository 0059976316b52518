"""What counting finds between tokens too far apart to know of each other: two plateaus and their difference.

Both pair the same tokens as the curve does, and in blocks, so that neighbouring pairs depend on each other as they do
at any large distance:

- *unrelated*: blocks from anywhere in the corpus. The truth is 0, what is found is the bias of counting.
- *same document*: blocks from elsewhere in the same document. What is found in addition is real, and does not depend
  on the distance: documents use different words, and two tokens of one document were drawn from the same words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lib.checks import whole_number
from lib.information.documents.segments import Integers, borders_of, pair_starts
from lib.processes.discrete.tables import information_of_table


def common_starts(offsets: npt.ArrayLike, largest_lag: int) -> Integers:
    """Every place whose partner at `largest_lag` is still in its document, so that all lags have the same first tokens.

    offsets: (documents + 1,) borders. Curves over these have as many pairs at every lag, and so very nearly the same
    bias. ValueError if no document is longer than `largest_lag`. O(length).
    """
    whole_number(largest_lag, "largest_lag", 1)
    borders = borders_of(offsets)
    lengths = np.diff(borders)
    if lengths.max() <= largest_lag:
        raise ValueError(f"no document is longer than {largest_lag} tokens; the longest has {int(lengths.max())}")
    return np.asarray(pair_starts(largest_lag, borders))


def document_information(laws: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """I(X; Y) in nats of two tokens drawn independently from the distribution of one document, itself drawn by weight.

    P(a, b) = sum_D w_D p_D(a) p_D(b). It is what I(d) tends to at large distance in documents that are uniform but not
    alike, and at most the entropy of D. laws: (documents, symbols), rows >= 0 that sum to 1; weights: (documents,) >= 0
    with sum 1. ValueError otherwise. O(documents symbols^2).
    """
    table, share = np.asarray(laws, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or share.shape != table.shape[:1] or np.any(~(table >= 0)) or np.any(~(share >= 0)):
        raise ValueError(f"laws (documents, symbols) and weights (documents,) >= 0, got {table.shape}, {share.shape}")
    if np.abs(table.sum(axis=1) - 1).max() > 1e-9 or abs(float(share.sum()) - 1) > 1e-9:
        raise ValueError("every row of laws and the weights must sum to 1")
    return float(information_of_table(table.T @ (share[:, None] * table)))
