"""Language models of tokens that others have trained, read by transformers: SmolLM2, or any by folder or name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lib.models.scoring import logarithms, token_rows
from lib.processes.corpora.loading import CorpusUnavailable
from lib.processes.corpora.model_files import model_file

SMOLLM2 = ("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
PROBE = "It was a dark night, and the old man walked slowly down the road to the village where he had been born."


@dataclass(frozen=True)
class Encoded:
    """A text as tokens, and where in it each begins and ends."""

    tokens: NDArray[np.int64]  # (length,)
    places: NDArray[np.int64]  # (length,), characters before the token
    ends: NDArray[np.int64]  # (length,), characters before what follows

    def starts_at(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens that begin at one of these characters, or at the blank before it if they hold both."""
        with_blank = np.isin(self.places + 1, characters) & (self.ends > self.places + 1)
        return np.flatnonzero(np.isin(self.places, characters) | with_blank)


class LanguageModel:
    """A causal model of transformers with its tokenizer: ln q(w_t | w_<t, start) of tokens.

    start: text of the one token that every sequence is taken to follow; None takes the tokenizer's begin-of-sequence
    token. cells: logits held at a time. ``ValueError`` if tokenizer and model do not belong together: more tokens than
    the model has, far fewer, or a plain English sentence that costs more than 3/4 ln(vocabulary) nats a token
    (`check_sentence` false leaves this test out, for untrained models and other languages).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        start: str | None = None,
        device: torch.device | str = "cpu",
        cells: int = 2**25,
        check_sentence: bool = True,
    ) -> None:
        self.model, self.tokenizer = model.to(device).eval(), tokenizer
        self.device, self.cells = torch.device(device), cells
        self.head = model.get_output_embeddings()
        self.vocabulary = int(self.head.weight.shape[0])
        _require_same_size(len(tokenizer), self.vocabulary)
        self.start = self._number_of(start)
        if check_sentence:
            self._require_sense()

    @property
    def context(self) -> int:
        """Longest sequence that the model was made for."""
        return int(getattr(self.model.config, "max_position_embeddings", 2**31))

    def encode(self, text: str) -> Encoded:
        """Tokens of a text, without a start token, and their places."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        return Encoded(np.array(found["input_ids"], dtype=np.int64), offsets[:, 0], offsets[:, 1])

    def log_probabilities(self, tokens: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """ln q(w_t | w_<t, start) of tokens (rows, time), nats, the same shape; row by row.

        Logits are formed for a part of the row at a time. ``ValueError`` for other shapes, tokens outside the
        vocabulary, and rows longer than the context less one.
        """
        array = token_rows(tokens, self.vocabulary)
        if array.shape[1] + 1 > self.context:
            raise ValueError(f"tokens: rows of at most {self.context - 1} tokens are allowed, got {array.shape[1]}")
        result = np.empty(array.shape)
        together = max(1, self.cells // (array.shape[1] * 4096))  # rows: attention and hidden states, not logits
        for begin in range(0, len(array), together):
            batch = torch.from_numpy(array[begin : begin + together]).to(self.device)
            with torch.no_grad():
                result[begin : begin + together] = self._scored(batch)
        return result

    def _scored(self, batch: torch.Tensor) -> NDArray[np.float64]:
        start = torch.full_like(batch[:, :1], self.start)
        read = torch.cat([start, batch[:, :-1]], dim=1)
        hidden = self.model.base_model(input_ids=read, use_cache=False).last_hidden_state
        step = max(1, self.cells // (len(batch) * self.vocabulary))
        parts = [
            logarithms(self.head(hidden[:, begin : begin + step]), batch[:, begin : begin + step])
            for begin in range(0, batch.shape[1], step)
        ]
        return np.concatenate(parts, axis=1)

    def _number_of(self, start: str | None) -> int:
        if start is None:
            number = self.tokenizer.bos_token_id
            if number is None:
                raise ValueError("start: this tokenizer has no begin-of-sequence token; name a token to start with")
            return int(number)
        found = self.tokenizer.encode(start, add_special_tokens=False)
        if len(found) != 1:
            raise ValueError(f"start: one token is needed, {start!r} is {len(found)}")
        return int(found[0])

    def _require_sense(self) -> None:
        tokens = self.encode(PROBE).tokens
        loss = -float(self.log_probabilities(tokens[None]).mean())
        allowed = 0.75 * np.log(self.vocabulary)
        if not loss < allowed:
            raise ValueError(
                f"tokenizer and model do not belong together: a plain sentence costs {loss:.2f} nats a token, and less "
                f"than {allowed:.2f} is expected (chance: {np.log(self.vocabulary):.2f}). Load both from one place"
            )


def load_smollm2(*, start: str = "<|endoftext|>", download: bool = True, **options: Any) -> LanguageModel:
    """SmolLM2-135M-Instruct in float32, model and tokenizer from one gguf file (`python -m lib data fetch smollm2`).

    start: the token between documents in its training, or "<|im_start|>", its begin-of-sequence token, or any other.
    About 10 s and 0.7 GB. ``ValueError`` names the packages that are missing and how to get them,
    ``CorpusUnavailable`` the command that gets the file.
    """
    transformers = require_packages("transformers", "gguf", "accelerate")
    path = model_file(*SMOLLM2, download=download)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32
    )
    return LanguageModel(model, tokenizer, start=start, **options)


def load_language_model(name: str | Path, **options: Any) -> LanguageModel:
    """A causal model and its tokenizer in float32 from a folder, or by its name on the Hugging Face hub.

    ``CorpusUnavailable`` if there is no such folder and no way to the hub, ``ValueError`` if transformers is
    missing or the two do not belong together.
    """
    transformers = require_packages("transformers")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(name))
        model = transformers.AutoModelForCausalLM.from_pretrained(str(name), dtype=torch.float32)
    except OSError as error:
        raise CorpusUnavailable(
            f"language model {str(name)!r} is neither a folder with a model and a tokenizer nor to be had from the hub "
            f"({str(error).splitlines()[0]}). `hf download {name}` gets it where there is a network; "
            "`python -m lib data fetch smollm2` gets the one the book uses"
        ) from error
    return LanguageModel(model, tokenizer, **options)


def require_packages(*names: str) -> Any:
    """The first of these packages, imported; ``ValueError`` with the pip command if one is not installed."""
    missing = missing_packages(names)
    if missing:
        raise ValueError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed to read this model and not installed: "
            f"`pip install {' '.join(missing)}`"
        )
    return importlib.import_module(names[0])


def missing_packages(names: Sequence[str]) -> list[str]:
    """Those that are not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def _require_same_size(tokens: int, rows: int) -> None:
    padding = 1024  # models round their number of tokens up
    if not rows - padding < tokens <= rows:
        raise ValueError(
            f"tokenizer and model do not belong together: {tokens} tokens, and a model of {rows}. "
            "Load both from one place"
        )
