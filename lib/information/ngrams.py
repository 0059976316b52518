"""How often neighbouring tokens of documents occur together, and the entropy of such blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.information.estimators import entropy


def ngram_counts(documents: Sequence[ArrayLike], length: int = 2) -> NDArray[np.int64]:
    """How often each block of `length` neighbours that occurs does, in no order of interest; none crosses documents.

    documents: arrays of whole numbers >= 0. ``ValueError`` for other input, or without any such block. A sort for every
    factor by which the blocks outgrow 63 bits: O(total ln total), 16 bytes a token and more.
    """
    arrays = [np.asarray(document) for document in documents]
    if any(array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0) for array in arrays):
        raise ValueError("documents: whole numbers >= 0 of shape (length,) are allowed")
    if length < 1 or not any(array.size >= length for array in arrays):
        raise ValueError(
            f"length: at least 1, and a document as long, is needed; got {length}, and the longest document has "
            f"{max((array.size for array in arrays), default=0)} tokens"
        )
    long_enough = [array.astype(np.int64) for array in arrays if array.size >= length]
    size = max(int(array.max()) for array in long_enough) + 1
    codes, below = np.concatenate([array[: array.size - length + 1] for array in long_enough]), size
    for place in range(1, length):
        if below > 2**62 // size:  # number what occurs anew
            values, codes = np.unique(codes, return_inverse=True)
            below = values.size
        following = np.concatenate([array[place : array.size - length + 1 + place] for array in long_enough])
        codes, below = codes * size + following, below * size
    return np.unique(codes, return_counts=True)[1]


def ngram_entropy(documents: Sequence[ArrayLike], length: int = 2, estimator: str = "grassberger2008") -> float:
    """Entropy of `length` neighbouring tokens, nats; for two and with G(n), the default, that of L2M, Eq. A.14."""
    return entropy(ngram_counts(documents, length), estimator)
