"""Two-point information of tokens as counted, with what is needed to take the bias off at every distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.token_information.plateau import common_starts
from experiments.token_information.resampled import (
    GROUPS,
    MOST_GROUPS,
    balanced_groups,
    half_samples,
    resampled_entropies,
)
from lib.checks import generator, whole_number
from lib.information.documents.segments import checked_offsets, shuffled_partners

Floats = npt.NDArray[np.float64]
RUN_BLOCKS = 16  # half of a document is every other run of this many blocks


@dataclass(frozen=True)
class TokenCurve:
    """Counted information: row 0 of every array from all documents, the others from random halves of the documents.

    counted: (1 + replicates, lags) nats, nothing taken off. unrelated: (1 + replicates,), the same between tokens of
    unrelated places, where the truth is 0; same_document: between tokens of far places in one document. `..._halved`:
    mean over the two halves of every document. pair_entropy: (lags,) nats. pairs: how many at each lag. symbols:
    different tokens among them.
    """

    lags: npt.NDArray[np.int64]
    counted: Floats
    counted_halved: Floats
    unrelated: Floats
    unrelated_halved: Floats
    same_document: Floats
    same_document_halved: Floats
    pair_entropy: Floats
    pairs: int
    symbols: int

    @property
    def bias_share(self) -> Floats:
        """Bias at each lag as a share of that between unrelated tokens, (1 + replicates, lags).

        How much the estimate rises when half the pairs are left, over how much it does between unrelated tokens: 1
        where the bias is the constant of A.17.
        """
        return np.asarray((self.counted_halved - self.counted) / self._rise[:, None])

    @property
    def information(self) -> Floats:
        """I(d) without the bias of counting, (1 + replicates, lags) nats: counted - unrelated * bias_share."""
        return np.asarray(self.counted - self.unrelated[:, None] * self.bias_share)

    @property
    def document_information(self) -> Floats:
        """What two tokens tell of each other by standing in the same document, (1 + replicates,) nats, bias off."""
        share = (self.same_document_halved - self.same_document) / self._rise
        return np.asarray(self.same_document - self.unrelated * share)

    @property
    def beyond_documents(self) -> Floats:
        """I(d) without bias and without what documents tell, (1 + replicates, lags) nats: what can decay to 0."""
        return np.asarray(self.information - self.document_information[:, None])

    @property
    def _rise(self) -> Floats:
        return np.asarray(self.unrelated_halved - self.unrelated)


def measure_token_curve(
    symbols: npt.ArrayLike,
    offsets: npt.ArrayLike,
    lags: npt.ArrayLike,
    *,
    groups: int = GROUPS,
    replicates: int = 60,
    shuffles: int = 2,
    block: int = 64,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2008",
) -> TokenCurve:
    """Count pairs at every lag and on both plateaus, for the whole corpus, random halves of its documents, and halves.

    Every lag uses the same first tokens, those with room for the largest lag. Documents are gathered in `groups` of
    nearly equal size, of which a replicate keeps half. The plateaus are means over `shuffles` random orders of blocks
    of `block` tokens (`experiments.token_information.plateau`). The halves behind `..._halved` are every other run of
    16 blocks: half the pairs of the same documents, so that only the bias changes.

    symbols: (length,) integers >= 0, documents one after another; offsets: (documents + 1,) borders; lags: (n,) whole
    numbers >= 1 in increasing order; groups: even, at most 32; replicates: even. ValueError for other values, and for
    fewer documents long enough than groups. O((lags + 2 shuffles) pairs (ln pairs + replicates / 5)).
    """
    steps, array, borders = _checked(symbols, offsets, lags, groups)
    whole_number(shuffles, "shuffles", 1)
    random = generator(seed)
    starts = common_starts(borders, int(steps[-1]))
    used = np.diff(np.searchsorted(starts, borders))  # first tokens of every document
    trimmed = np.concatenate([[0], np.cumsum(used)])
    weights = _with_halves(half_samples(groups, replicates, random))
    half = (np.arange(starts.size) - np.repeat(trimmed[:-1], used)) // (RUN_BLOCKS * block) % 2
    group = (2 * np.repeat(balanced_groups(used, groups), used) + half).astype(np.uint8)
    if np.bincount(group, minlength=2 * groups).min() == 0:
        raise ValueError(
            f"block: documents that are used have at least {int(used[used > 0].min())} first tokens, too few for every "
            f"other run of {RUN_BLOCKS} blocks of {block}; a smaller block or fewer groups are allowed"
        )
    first = array[starts]

    counted = [resampled_entropies(first, array[starts + lag], group, weights, estimator) for lag in steps]
    curves = [_halves(entropies) for entropies in counted]

    def plateau(within: bool) -> tuple[Floats, Floats]:
        found = []
        for _ in range(shuffles):
            partners = shuffled_partners(trimmed, block, within=within, seed=random)
            met = partners >= 0
            entropies = resampled_entropies(first[met], first[partners[met]], group[met], weights, estimator)
            found.append(_halves(entropies))
        whole, halved = np.mean(found, axis=0)
        return whole, halved

    unrelated, unrelated_halved = plateau(within=False)
    same_document, same_document_halved = plateau(within=True)
    return TokenCurve(
        steps,
        np.stack([whole for whole, _ in curves], axis=1),
        np.stack([halved for _, halved in curves], axis=1),
        unrelated,
        unrelated_halved,
        same_document,
        same_document_halved,
        np.array([entropies[0, 2] for entropies in counted]),
        int(starts.size),
        int(np.unique(first).size),
    )


def _with_halves(weights: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Rows that keep both halves of every group, then the first halves only, then the second: (3 rows, 2 groups)."""
    both, one, other = ([1, 1], [1, 0], [0, 1])
    return np.vstack([np.kron(weights, np.array(kept, dtype=np.uint8)) for kept in (both, one, other)])


def _halves(entropies: Floats) -> tuple[Floats, Floats]:
    """Information of each row with both halves, and the mean of its two halves."""
    information = entropies[:, 0] + entropies[:, 1] - entropies[:, 2]
    whole, one, other = information.reshape(3, -1)
    return whole, (one + other) / 2


def _checked(symbols: Any, offsets: Any, lags: Any, groups: int) -> tuple[Any, Any, Any]:
    steps, array = np.asarray(lags), np.asarray(symbols)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or array.min() < 0:
        raise ValueError(f"symbols: one row of integers >= 0 is allowed, got shape {array.shape} of {array.dtype}")
    if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
        raise ValueError(f"lags: a row of whole numbers is allowed, got {lags!r}")
    if steps[0] < 1 or np.any(np.diff(steps.astype(np.int64)) <= 0):
        raise ValueError(f"lags: whole numbers >= 1 in increasing order are allowed, got {lags!r}")
    if 2 * whole_number(groups, "groups", 2) > MOST_GROUPS:
        raise ValueError(f"groups: an even number up to {MOST_GROUPS // 2} is allowed, got {groups}")
    return steps.astype(np.int64), array, checked_offsets(offsets, array.size)
