"""Log-probabilities of blocks under a model, for every length at once: what both estimators of L2M average.

A window w_1 .. w_N holds, for every split l and ratio r with r l <= N, the pair X = w_1 .. w_l, Y = w_(l+1) .. w_(r l).
One pass of the model over the window gives ln q(Y|X) of all these pairs as differences of running sums. ln q(Y) needs
one more pass for every l (the longest Y; the shorter ones are its beginnings), and so does ln q(Y'|X) of a stranger.

Scores are kept document by document, so that a stopped run loses one document.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from lib.checks import real_number
from lib.information.documents.cluster import held_by_workers, on_cluster
from lib.information.documents.windows import Windows, foreign_partners
from lib.machine import write_whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[np.float64]]


class Scorer(Protocol):
    """A model q of token sequences."""

    vocabulary: int

    def log_probabilities(self, tokens: NDArray[np.integer[Any]]) -> Floats:
        """ln q(w_t | w_<t) of tokens (rows, time), same shape, nats; NaN at t = 1 if q has no distribution of w_1."""
        ...


@dataclass(frozen=True)
class BlockScores:
    """What a model says of the blocks of all windows; nats, NaN where r l is longer than the windows."""

    splits: Integers  # (splits,), l
    ratios: Integers  # (ratios,), r = L / l
    documents: Integers  # (windows,)
    partners: Integers  # (windows,), whose Y stands in `strange`
    joint: Floats  # (windows, splits, ratios), ln q(Y|X)
    opening: Floats  # (windows, splits), ln q of the first tokens of Y alone; NaN for a q without a first token
    rest: Floats  # (windows, splits, ratios), ln q of the others, given the tokens of Y before them
    strange: Floats  # (windows, splits, ratios), ln q(Y'|X), Y' the partner's
    tokens: Floats  # (windows, length), ln q of every token of the window, given those before it

    @property
    def lengths(self) -> Integers:
        """L = r l, (splits, ratios)."""
        return self.splits[:, None] * self.ratios

    def alone(self, opening_entropy: float | None = None, model_weight: float = 0.2) -> Floats:
        """ln q(Y) of every window, (windows, splits, ratios); the opening corrected if its entropy is given.

        L2M, Eq. A.14: the first tokens (two, there) count with `model_weight` w, and -(1 - w) times the entropy of as
        many neighbouring tokens (`ngram_entropy`) is added for all alike.
        ``ValueError`` for weights outside [0, 1], and for a q without a distribution of first tokens unless w is 0.
        """
        weight = 1.0 if opening_entropy is None else real_number(model_weight, "model_weight")
        if not 0.0 <= weight <= 1.0:
            raise ValueError(f"model_weight: 0 <= weight <= 1 is allowed, got {model_weight!r}")
        if weight == 0.0:
            opening = np.zeros_like(self.opening)
        elif np.isnan(self.opening).any():
            raise ValueError("this model has no distribution of a first token: give opening_entropy and model_weight=0")
        else:
            opening = weight * self.opening
        entropy = 0.0 if opening_entropy is None else (1.0 - weight) * opening_entropy
        return np.asarray(self.rest + (opening - entropy)[:, :, None])

    def direct(self, opening_entropy: float | None = None, model_weight: float = 0.2) -> Floats:
        """ln q(Y|X) - ln q(Y) of every window (windows, splits, ratios): their mean is the direct estimate (Eq. 6)."""
        return np.asarray(self.joint - self.alone(opening_entropy, model_weight))

    def vclub(self) -> Floats:
        """ln q(Y|X) - ln q(Y'|X) of every window (windows, splits, ratios): their mean is vCLUB (Eq. 7).

        ln q of the block alone after its opening is subtracted from both terms: every block occurs once in
        either, so that the mean stays and the noise that difficult blocks make goes.
        """
        return np.asarray((self.joint - self.rest) - (self.strange - self.rest[self.partners]))


def score_blocks(
    scorer: Scorer,
    windows: Windows,
    splits: Sequence[int] | Integers,
    ratios: Sequence[int] | Integers = (2,),
    *,
    opening: int = 2,
    documents_at_once: int = 1,
    folder: Path | None = None,
    identity: str = "",
    progress: bool = True,
    client: Any = None,
) -> BlockScores:
    """Score the blocks of all windows under q at every split and ratio.

    splits: l >= 1, increasing. ratios: r >= 2, increasing; r l beyond the windows is left out, but each l needs one
    that fits, and a Y no shorter than the opening. opening: how many first tokens of Y are kept apart, to be corrected;
    2 in the paper, more where tokens are single characters. Strangers: `foreign_partners`; windows of a document have
    to be neighbours. folder: results are kept there document by document, and a second call goes on where the first was
    stopped; `identity` says what q is, and a folder of another q, other windows or lengths is refused. client: of a
    Dask cluster, whose workers each get the scorer once and then the tokens of a group of documents at a time. Sums in
    float64. Raises ``ValueError`` for such input and for tokens outside the vocabulary. Cost in tokens read by q, a
    window: N + sum over l of (max r - 1) l + (max r) l, for halves up to N/2 about 4 N; l less for every l by a scorer
    that has `continued`, as `LanguageModel`.
    """
    cuts, factors = _increasing(splits, 1, "splits"), _increasing(ratios, 2, "ratios")
    length = windows.tokens.shape[1]
    lengths = cuts[:, None] * factors
    fits = lengths <= length
    if not fits[:, 0].all():
        raise ValueError(f"splits: L = {factors[0]} l <= {length}, the window, is needed, got l = {cuts[-1]}")
    if opening < 1 or (factors[0] - 1) * cuts[0] < opening:
        raise ValueError(
            f"splits: a second block of at least opening = {opening} >= 1 tokens is needed, got l = {cuts[0]}"
        )
    if windows.tokens.min() < 0 or windows.tokens.max() >= scorer.vocabulary:
        low, high = windows.tokens.min(), windows.tokens.max()
        raise ValueError(f"tokens: 0 .. {scorer.vocabulary - 1} are in the model's vocabulary, got {low} .. {high}")
    partners = foreign_partners(windows)
    if np.count_nonzero(np.diff(windows.documents)) >= np.unique(windows.documents).size:
        raise ValueError(
            f"windows: those of a document have to be neighbours, got documents {windows.documents.tolist()[:20]}"
        )
    store = (
        BlockStore(folder, identity, windows.tokens, windows.documents, cuts, factors, np.array(opening))
        if folder
        else None
    )
    numbers = np.unique(windows.documents)
    done = store.held(numbers) if store else {}
    missing = [number for number in numbers.tolist() if number not in done]
    groups = [missing[begin : begin + documents_at_once] for begin in range(0, len(missing), documents_at_once)]
    rows = {group[0]: np.flatnonzero(np.isin(windows.documents, group)) for group in groups}
    if not groups:
        client = None
    model = held_by_workers(scorer, client)
    tasks = (
        (group, model, windows.tokens[rows[group[0]]], windows.tokens[partners[rows[group[0]]]], lengths, cuts, opening)
        for group in groups
    )
    with tqdm(total=len(numbers), initial=len(done), desc="scoring", unit="document", disable=not progress) as bar:
        for group, scores in on_cluster(_scored, tasks, client):
            for number in group:
                own = windows.documents[rows[group[0]]] == number
                done[number] = {name: values[own] for name, values in scores.items()}
                if store:
                    store.keep(number, done[number])
            bar.update(len(group))
    order = list(dict.fromkeys(windows.documents.tolist()))
    parts = {name: np.concatenate([done[number][name] for number in order]) for name in _NAMES}
    return BlockScores(cuts, factors, windows.documents, partners, **parts)


_NAMES = ("joint", "opening", "rest", "strange", "tokens")


def _scored(
    group: list[int],
    scorer: Scorer,
    own: NDArray[np.integer[Any]],
    foreign: NDArray[np.integer[Any]],
    lengths: Integers,
    cuts: Integers,
    opening: int,
) -> tuple[list[int], dict[str, Floats]]:
    """The group as it was given, and the scores of its windows; foreign: those of their partners."""
    fits = lengths <= own.shape[1]
    shape = (len(own), *fits.shape)
    result = {name: np.full(shape[:2] if name == "opening" else shape, np.nan) for name in _NAMES}
    blocks = [foreign[:, cut : lengths[index][fits[index]].max()] for index, cut in enumerate(cuts.tolist())]
    if hasattr(scorer, "continued"):  # reads what is shared once
        read, after = scorer.continued(own, cuts.tolist(), blocks)
    else:
        pairs = [np.concatenate([own[:, :cut], block], axis=1) for cut, block in zip(cuts, blocks, strict=True)]
        read = scorer.log_probabilities(own)
        after = [scorer.log_probabilities(pair)[:, cut:] for cut, pair in zip(cuts, pairs, strict=True)]
    result["tokens"], whole = read, _running(read)
    for index, cut in enumerate(cuts.tolist()):
        good = fits[index]
        ends = lengths[index][good]
        block = own[:, cut : ends.max()]
        alone = scorer.log_probabilities(block)
        sums = _running(alone[:, opening - 1 :])  # the first of these is not counted
        mixed = np.cumsum(after[index], axis=1, dtype=np.float64)
        result["opening"][:, index] = alone[:, :opening].sum(axis=1)
        result["joint"][:, index, good] = whole[:, ends - 1] - whole[:, cut - 1][:, None]
        result["rest"][:, index, good] = sums[:, ends - cut - opening]
        result["strange"][:, index, good] = mixed[:, ends - cut - 1]
    return group, result


def _running(logarithms: Floats) -> Floats:
    """Sums of the second to the t-th entry, for every t: the first may be unknown, and enters no difference."""
    sums = np.zeros(logarithms.shape)
    np.cumsum(logarithms[:, 1:], axis=1, dtype=np.float64, out=sums[:, 1:])
    return sums


def _increasing(values: Sequence[int] | Integers, least: int, name: str) -> Integers:
    array = np.asarray(values)
    if (
        array.ndim != 1
        or not array.size
        or array.dtype.kind not in "iu"
        or array[0] < least
        or np.any(np.diff(array) < 1)
    ):
        raise ValueError(f"{name}: increasing whole numbers of at least {least} are allowed, got {values!r}")
    return array.astype(np.int64)


class BlockStore:
    """A folder with one file per document, complete or not there.

    identity and arrays: what the scores are of. A folder of something else is refused with ``ValueError``.
    """

    def __init__(self, folder: Path, identity: str, *arrays: NDArray[np.generic]) -> None:
        total = hashlib.sha256(identity.encode())
        for array in arrays:
            total.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "scores.json"
        described = {"model": identity, "digest": total.hexdigest()}
        if note.is_file():
            held = json.loads(note.read_text(encoding="utf-8"))
            if held != described:
                raise ValueError(
                    f"{folder} holds scores of model {held.get('model')!r} on other windows, lengths or weights than "
                    f"those of {identity!r} asked for now; take another folder"
                )
        else:
            write_whole(note, json.dumps(described).encode())

    def held(self, numbers: NDArray[np.int64]) -> dict[int, Arrays]:
        """Scores of the documents that are done. A file that cannot be read, as a power cut leaves it, is removed."""
        found: dict[int, Arrays] = {}
        for number in numbers.tolist():
            path = self._path(number)
            if path.is_file():
                try:
                    with np.load(path, allow_pickle=False) as file:
                        if set(file.files) == set(_NAMES):
                            found[number] = {name: file[name] for name in file.files}
                except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile):
                    path.unlink(missing_ok=True)
        return found

    def keep(self, number: int, scores: Arrays) -> None:
        """Write the scores of one document."""
        content = io.BytesIO()
        np.savez(content, **scores)  # type: ignore[arg-type]
        write_whole(self._path(number), content.getvalue())

    def _path(self, number: int) -> Path:
        return self.folder / f"document-{number:05d}.npz"
