"""Text as numbers of a vocabulary that somebody else has fixed, and what to do with characters it lacks."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Unknown = Literal["refuse", "simplify", "skip"]
_PLAIN = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "...", "æ": "ae", "œ": "oe", "Æ": "AE",
          "Œ": "OE", "\t": " ", "\u00a0": " "}  # fmt: skip


class Characters:
    """A vocabulary of single characters, numbered 0 .. size - 1.

    numbers: character -> number. ``ValueError`` unless the numbers are 0 .. size - 1, each once.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        if sorted(numbers.values()) != list(range(len(numbers))) or any(len(symbol) != 1 for symbol in numbers):
            raise ValueError(f"characters: single characters numbered 0 .. {len(numbers) - 1} are allowed")
        self.numbers = dict(numbers)
        self.symbols = tuple(sorted(numbers, key=lambda symbol: numbers[symbol]))

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str, unknown: Unknown = "refuse") -> NDArray[np.int64]:
        """Numbers of the characters of `text`, int64 (length,).

        unknown: "refuse" raises ``ValueError`` with the characters that are not in the vocabulary; "simplify" writes
        them plainly (straight quotes, letters without accents) if that is in the vocabulary, else as a space; "skip"
        leaves them out. Also for another choice, and for "simplify" in a vocabulary without a space. O(length).
        """
        if unknown not in ("refuse", "simplify", "skip"):
            raise ValueError(f"unknown: 'refuse', 'simplify' or 'skip' is allowed, got {unknown!r}")
        strange = sorted(set(text) - set(self.numbers))
        if strange and unknown == "refuse":
            shown = ", ".join(f"{symbol!r} ({text.count(symbol)} times)" for symbol in strange[:8])
            raise ValueError(
                f"text: {len(self)} characters are known; unknown are {shown}{' and others' * (len(strange) > 8)}. "
                "Choose unknown='simplify' or 'skip'"
            )
        table = {ord(symbol): "" if unknown == "skip" else self._plain(symbol) for symbol in strange}
        written = text.translate(table)
        codes = np.frombuffer(written.encode("utf-32-le"), dtype=np.uint32)
        lookup = np.zeros(max(map(ord, self.symbols)) + 1, dtype=np.int64)
        lookup[[ord(symbol) for symbol in self.symbols]] = np.arange(len(self))
        return np.asarray(lookup[codes])

    def decode(self, numbers: ArrayLike) -> str:
        """The text of numbers."""
        return "".join(self.symbols[number] for number in np.asarray(numbers).tolist())

    def _plain(self, symbol: str) -> str:
        letters = "".join(part for part in unicodedata.normalize("NFKD", symbol) if not unicodedata.combining(part))
        for written in (_PLAIN.get(symbol), letters):
            if written and all(part in self.numbers for part in written):
                return written
        if " " not in self.numbers:
            raise ValueError(f"text: {symbol!r} is unknown and there is no space to write in its place")
        return " "
