"""A byte-pair encoding that is learned on some documents and reads others, with the places of its tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number
from lib.processes.corpora.tokens import BYTES, trained_tokenizer


class Pieces(NamedTuple):
    """One document as tokens."""

    tokens: NDArray[np.int64]  # (length,)
    places: NDArray[np.int64]  # (length,), characters before the token
    ends: NDArray[np.int64]  # (length,), characters before what follows

    def starts_at(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens that begin at one of these characters, or at the blank before it if they hold both."""
        with_blank = np.isin(self.places + 1, characters) & (self.ends > self.places + 1)
        return np.flatnonzero(np.isin(self.places, characters) | with_blank)


class BytePairs:
    """Byte-level byte-pair encoding with `merges` merges (Sennrich et al. 2016), learned on `documents` alone.

    The 256 bytes are symbols of their own, so that no text has an unknown one. Raises ValueError for merges < 0, and
    if the documents have too few pairs for so many.
    """

    def __init__(self, documents: Sequence[str], merges: int) -> None:
        size = BYTES + whole_number(merges, "merges", 0)
        digest = hashlib.sha256("\n".join(documents).encode("utf-8")).hexdigest()
        self._tokenizer: Any = trained_tokenizer(documents, size, digest)
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        if self.vocabulary < size:
            raise ValueError(
                f"merges: {len(documents)} documents have only {self.vocabulary - BYTES} merges, got {merges}"
            )
        symbols = (self._tokenizer.id_to_token(number) for number in range(self.vocabulary))
        self._bytes = np.array([len(symbol) for symbol in symbols])  # one printable character stands for a byte

    def encode(self, text: str) -> Pieces:
        """Tokens of a text and their places. Raises ValueError if they do not hold every byte of it. O(length)."""
        found = self._tokenizer.encode(text)
        tokens = np.array(found.ids, dtype=np.int64)
        held, needed = int(self._bytes[tokens].sum()), len(text.encode("utf-8"))
        if held != needed:
            raise ValueError(f"the encoding leaves {needed - held} of {needed} bytes of the text without a token")
        offsets = np.array(found.offsets, dtype=np.int64).reshape(-1, 2)
        return Pieces(tokens, offsets[:, 0], offsets[:, 1])
