"""Text as integers: characters, words, or pieces of a byte-pair encoding.

The pieces are those of an encoding trained on the text itself, or of one that is learned on some documents and reads
others, with the places of its tokens.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import json
import re
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number
from lib.machine import write_whole
from lib.processes.corpora.places import cache_folder, writing_to

Level = Literal["character", "word", "bpe"]
BYTES = 256  # symbols that a byte-level encoding starts from
_PIECE = 1 << 20  # characters
_BLANK = re.compile(r"\s")
_JOINERS = "\u200c\u200d"  # stand within words of Persian and of Indian languages


@dataclass(frozen=True, eq=False)
class Tokens:
    """A corpus as symbols: ``ids[offsets[i]:offsets[i + 1]]`` is document ``i``, ``vocabulary[k]`` is symbol ``k``."""

    level: Level
    ids: NDArray[np.unsignedinteger[Any]]  # (length,), the narrowest type that holds the vocabulary
    vocabulary: tuple[str, ...]
    offsets: NDArray[np.int64]  # (documents + 1,)

    def __len__(self) -> int:
        return len(self.ids)

    def documents(self) -> list[NDArray[np.unsignedinteger[Any]]]:
        """The symbols of each document, as views."""
        return [self.ids[start:stop] for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def rows(self, length: int) -> NDArray[np.unsignedinteger[Any]]:
        """Documents cut into rows of ``length`` symbols, shape (rows, length); shorter ends are left out.

        Pairs inside a row never cross documents. ``ValueError`` if no document is that long.
        """
        if length < 1:
            raise ValueError(f"length of a row must be at least 1, got {length}")
        pieces = [document[: len(document) // length * length].reshape(-1, length) for document in self.documents()]
        rows = np.concatenate(pieces) if pieces else np.empty((0, length), self.ids.dtype)
        if not len(rows):
            longest = int(np.diff(self.offsets).max(initial=0))
            raise ValueError(f"no document has {length} symbols; the longest has {longest}")
        return rows

    def decode(self, ids: Iterable[int] | None = None) -> str:
        """Text of symbols (default: all). Exact for characters and BPE; words are put together with single spaces."""
        pieces = [self.vocabulary[symbol] for symbol in (self.ids if ids is None else ids)]
        if self.level == "word":
            return " ".join(pieces)
        text = "".join(pieces)
        return _bytes_of(text).decode("utf-8", errors="replace") if self.level == "bpe" else text


def narrow(ids: NDArray[Any], symbols: int) -> NDArray[np.unsignedinteger[Any]]:
    """``ids`` in the narrowest unsigned type for ``symbols`` different values: one byte up to 256."""
    return ids.astype(np.min_scalar_type(max(symbols - 1, 0)))


def encode_characters(documents: Sequence[str]) -> Tokens:
    """Characters, numbered in the order of their code points. Linear time, about 20 ns per character."""
    codes = np.frombuffer("".join(documents).encode("utf-32-le"), dtype=np.uint32)
    present = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    present[codes] = True
    alphabet = np.flatnonzero(present) if len(codes) else np.empty(0, dtype=np.int64)
    number = narrow(np.cumsum(present) - 1, len(alphabet))
    return Tokens("character", number[codes], tuple(map(chr, alphabet)), offsets_of(map(len, documents)))


def split_words(text: str, as_distributed: bool) -> list[str]:
    """Words of a text: between white space where a corpus comes in words, else runs of letters and single marks.

    In prose a word keeps its inner apostrophes and hyphens, every other mark is a word of its own, and case is kept.
    """
    return text.split() if as_distributed else _word_pattern(text).findall(text)


def _word_pattern(text: str) -> re.Pattern[str]:
    """Words of this text: the marks in it that combine with letters, which Python takes for none, belong to them."""
    marks = "" if text.isascii() else "".join(sorted(one for one in set(text) if unicodedata.category(one)[0] == "M"))
    return re.compile(rf"\w[\w{marks}]*(?:['’\-{_JOINERS}][\w{marks}]+)*|[^\w\s]")


def encode_words(documents: Sequence[str], as_distributed: bool) -> Tokens:
    """Words (`split_words`), numbered from the most frequent; equally frequent ones in alphabetical order.

    A piece of `_PIECE` characters at a time becomes words, and these become numbers: beside the text memory holds the
    vocabulary and about sixteen bytes per word. Linear time, about 0.3 microseconds per word.
    """
    met: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # words in the order in which they come
    numbers: list[NDArray[np.uint32]] = []
    lengths = []
    for document in documents:
        before = len(numbers)
        for piece in _pieces_of_words(document):
            words = split_words(piece, as_distributed)
            numbers.append(np.fromiter(map(met.__getitem__, words), dtype=np.uint32, count=len(words)))
        lengths.append(sum(map(len, numbers[before:])))
    found = np.concatenate(numbers) if numbers else np.empty(0, dtype=np.uint32)
    numbers.clear()
    counts = np.bincount(found, minlength=len(met)).tolist()
    order = sorted(met, key=lambda word: (-counts[met[word]], word))
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.fromiter(map(met.__getitem__, order), dtype=np.int64, count=len(order))] = np.arange(len(order))
    return Tokens("word", narrow(rank, len(order))[found], tuple(order), offsets_of(lengths))


def _pieces_of_words(text: str) -> Iterator[str]:
    """The text in pieces of about `_PIECE` characters that end at white space, where no word goes on."""
    start = 0
    while start < len(text):
        blank = _BLANK.search(text, start + _PIECE)
        end = blank.start() if blank else len(text)
        yield text[start:end]
        start = end


def encode_bpe(documents: Sequence[str], vocabulary_size: int, text_hash: str) -> Tokens:
    """Byte-level byte-pair encoding of ``vocabulary_size`` symbols trained on these documents (Sennrich et al. 2016).

    The trained encoding is kept in the cache folder, see `trained_tokenizer`.
    """
    if vocabulary_size < BYTES:
        raise ValueError(f"a byte-level vocabulary has at least {BYTES} symbols, got vocabulary_size={vocabulary_size}")
    tokenizer = trained_tokenizer(documents, vocabulary_size, text_hash)
    vocabulary = tuple(str(tokenizer.id_to_token(index)) for index in range(tokenizer.get_vocab_size()))
    encoded = [np.asarray(piece.ids, dtype=np.int64) for piece in tokenizer.encode_batch(list(documents))]
    ids = np.concatenate(encoded) if encoded else np.empty(0, dtype=np.int64)
    return Tokens("bpe", narrow(ids, len(vocabulary)), vocabulary, offsets_of(map(len, encoded)))


def trained_tokenizer(documents: Sequence[str], vocabulary_size: int, text_hash: str) -> Any:
    """An encoding of ``vocabulary_size`` symbols trained on documents; ``text_hash`` is that of their joined text.

    It is kept in the cache folder under a name made of the hash, the lengths of the documents, the size and the
    trainer's version. Where it cannot be kept, or what is kept is damaged, it is trained, and a warning says so.
    """
    lengths = [len(document) for document in documents]
    settings = json.dumps([text_hash, lengths, vocabulary_size, importlib.metadata.version("tokenizers")])
    path = cache_folder() / "bpe" / f"{hashlib.sha256(settings.encode()).hexdigest()[:24]}.json"
    if path.is_file():
        try:
            return _kept(path, vocabulary_size)
        except (OSError, ValueError) as error:
            warnings.warn(f"{error}; the byte pairs are trained again", stacklevel=2)
    tokenizer = _train(documents, vocabulary_size)
    try:
        with writing_to(path.parent):
            write_whole(path, tokenizer.to_str())
    except OSError as error:
        warnings.warn(f"the trained byte pairs are not kept for the next time: {error}", stacklevel=2)
    return tokenizer


def _kept(path: Path, vocabulary_size: int) -> Any:
    """The encoding in a file; ``ValueError`` names file and field unless it is one that `_train` has written."""
    from tokenizers import Tokenizer

    expected = json.loads(_untrained().to_str())
    try:
        text = path.read_text(encoding="utf-8")
        kept = json.loads(text)
        frame = {**kept, "model": {**kept["model"], "vocab": {}, "merges": []}}
        numbers = sorted(kept["model"]["vocab"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no byte-pair encoding ({error!r})") from error
    wrong = sorted(name for name in {*frame, *expected} if frame.get(name) != expected.get(name))
    if numbers != list(range(len(numbers))) or not BYTES <= len(numbers) <= vocabulary_size:
        wrong.append("model.vocab")
    if wrong:
        raise ValueError(f"{path} is no byte-pair encoding of {vocabulary_size} symbols (field {', '.join(wrong)})")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises nothing narrower
        raise ValueError(f"{path} is no byte-pair encoding (field model.merges: {error})") from error


def _untrained() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _train(documents: Sequence[str], vocabulary_size: int) -> Any:
    from tokenizers import pre_tokenizers, trainers

    tokenizer = _untrained()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary_size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(list(documents), trainer)
    return tokenizer


def _bytes_of(symbols: str) -> bytes:
    """Bytes behind the printable characters that a byte-level encoding writes for them (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(hidden)}
    return bytes(table[symbol] for symbol in symbols)


def offsets_of(lengths: Iterable[int]) -> NDArray[np.int64]:
    """Where documents of these lengths begin and the last one ends, (documents + 1,)."""
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, dtype=np.int64))]).astype(np.int64)


class Encoded(NamedTuple):
    """A text as tokens, and where in it each begins and ends."""

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

    def encode(self, text: str) -> Encoded:
        """Tokens of a text and their places. Raises ValueError if they do not hold every byte of it. O(length)."""
        found = self._tokenizer.encode(text)
        tokens = np.array(found.ids, dtype=np.int64)
        held, needed = int(self._bytes[tokens].sum()), len(text.encode("utf-8"))
        if held != needed:
            raise ValueError(f"the encoding leaves {needed - held} of {needed} bytes of the text without a token")
        offsets = np.array(found.offsets, dtype=np.int64).reshape(-1, 2)
        return Encoded(tokens, offsets[:, 0], offsets[:, 1])
