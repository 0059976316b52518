"""Character LSTMs that others have trained: weights of TensorFlow's BasicLSTMCell in our LSTM.

Their vocabularies are fixed, too: text as their numbers, and what to do with characters that they lack.
"""

from __future__ import annotations

import io
import json
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lib.models.recurrent.basic import LSTM
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.model_files import model_bytes

Unknown = Literal["refuse", "simplify", "skip"]
_PLAIN = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "...", "æ": "ae", "œ": "oe", "Æ": "AE",
          "Œ": "OE", "\t": " ", "\u00a0": " "}  # fmt: skip
MODEL = "charrnn"
_CELL = re.compile(r".*cell_(\d+)\|basic_lstm_cell\|(bias|biases|kernel|weights)$")
_OUR_GATES = (0, 2, 1, 3)  # theirs are i, g, f, o in our letters (they write j for g); ours i, f, g, o
_MENDED = {"  ": "u", "": "U"}  # what the vocabulary of "shakespeare" has in the places of these two letters
_FORGET_BIAS = 1.0  # which BasicLSTMCell adds at run time


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
        """The text of numbers 0 .. size - 1; ``ValueError`` for others. O(length)."""
        codes = np.asarray(numbers)
        if codes.size and (codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= len(self)):
            raise ValueError(f"numbers: whole numbers from 0 to {len(self) - 1} are allowed, got {numbers!r}")
        return "".join(self.symbols[number] for number in codes.ravel().tolist())

    def _plain(self, symbol: str) -> str:
        letters = "".join(part for part in unicodedata.normalize("NFKD", symbol) if not unicodedata.combining(part))
        for written in (_PLAIN.get(symbol), letters):
            if written and all(part in self.numbers for part in written):
                return written
        if " " not in self.numbers:
            raise ValueError(f"text: {symbol!r} is unknown and there is no space to write in its place")
        return " "


@dataclass(frozen=True)
class CharacterLSTM:
    """A trained network and the numbers of its characters; `model` is an `LSTM` like any other."""

    name: str
    model: LSTM
    characters: Characters

    def encode(self, text: str, unknown: Unknown = "refuse", *, columns: int | None = 70) -> NDArray[np.int64]:
        """Characters of a text in the layout that the network was trained on, int64 (length,).

        columns: lines are filled up to that many, for the training texts were hard-wrapped near 70; None leaves them as
        they are. Line ends are written "\\r\\n" where the vocabulary has "\\r". unknown: as in `Characters.encode`.
        """
        if columns is not None and columns < 1:
            raise ValueError(f"columns: at least 1 or None is allowed, got {columns!r}")
        text = text.replace("\r\n", "\n")
        written = text if columns is None else "\n".join(textwrap.fill(line, columns) for line in text.split("\n"))
        if "\r" in self.characters.numbers:
            written = written.replace("\n", "\r\n")
        return self.characters.encode(written, unknown)


def character_lstm_names() -> tuple[str, ...]:
    """Whose works there are networks of."""
    return tuple(name.removesuffix(".npz") for name in entry(MODEL).files if name.endswith(".npz"))


def load_character_lstm(name: str, *, download: bool = True) -> CharacterLSTM:
    """A pretrained network of two layers of 128 cells on an embedding of 128, in float32, ready to be evaluated.

    The files come from the data folder or the cache, checked, or are downloaded. ``ValueError`` for an unknown name, a
    wrong checksum, or weights that do not fit the vocabulary; ``CorpusUnavailable`` with the command that gets them.
    """
    if name not in character_lstm_names():
        raise ValueError(f"character LSTM: one of {', '.join(character_lstm_names())} is allowed, got {name!r}")
    with np.load(io.BytesIO(model_bytes(MODEL, f"{name}.npz", download=download)), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    given = json.loads(model_bytes(MODEL, f"{name}.vocab.json", download=download))
    numbers = {_MENDED.get(symbol, symbol): number for symbol, number in given.items()}
    return CharacterLSTM(name, lstm_of_basic_cells(arrays, len(numbers)), Characters(numbers))


def lstm_of_basic_cells(arrays: dict[str, NDArray[Any]], vocabulary: int) -> LSTM:
    """Our `LSTM` with the weights of a stack of BasicLSTMCells (TensorFlow 1), names as in a checkpoint.

    A cell's kernel is (inputs + width, 4 width), x above h, its gates i, j, f, o: c' = sigmoid(f + 1) c + sigmoid(i)
    tanh(j), h = sigmoid(o) tanh(c'). Ours is the transposed halves, gates i, f, g, o, the 1 in the bias.
    ``ValueError`` if arrays are missing, have other shapes, or another number of symbols.
    """
    try:
        cells = _cells(arrays)
        embedding, head, bias = arrays["embedding"], arrays["rnnlm|softmax_w"], arrays["rnnlm|softmax_b"]
        width = head.shape[0]
        state = {"embedding.weight": embedding, "head.weight": head.T, "head.bias": bias}
        inputs = embedding.shape[1]
        for number in range(len(cells)):
            kernel, gates = cells[number]["kernel"], cells[number]["bias"].copy()
            gates[2 * width : 3 * width] += _FORGET_BIAS
            layer = f"layers.{number}."
            state[layer + "weight_ih"] = _reordered(kernel[:inputs].T, width)
            state[layer + "weight_hh"] = _reordered(kernel[inputs:].T, width)
            state[layer + "bias"] = _reordered(gates, width)
            inputs = width
        model = LSTM(vocabulary, width, len(cells), embedding=embedding.shape[1])
        model.load_state_dict({key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in state.items()})
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise ValueError(f"weights of basic LSTM cells over {vocabulary} characters are needed: {error}") from error
    return model.eval()  # type: ignore[no-any-return]


def _cells(arrays: dict[str, NDArray[Any]]) -> dict[int, dict[str, NDArray[Any]]]:
    cells: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        if match := _CELL.match(name):
            kind = {"biases": "bias", "weights": "kernel"}.get(match[2], match[2])
            cells.setdefault(int(match[1]), {})[kind] = array
    if not cells:
        raise ValueError(f"no LSTM cell among {', '.join(arrays)}")
    return cells


def _reordered(gates: NDArray[Any], width: int) -> NDArray[Any]:
    return np.asarray(gates.reshape(4, width, *gates.shape[1:])[list(_OUR_GATES)].reshape(gates.shape))
