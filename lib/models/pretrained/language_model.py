"""Language models of tokens that others have trained, read by transformers: SmolLM2, or any by folder or name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lib.models.scoring import logarithms, token_rows
from lib.processes.corpora.loading import CorpusUnavailable
from lib.processes.corpora.model_files import model_file
from lib.processes.corpora.tokens import Encoded

Precision = Literal["float32", "bfloat16"]
HEAD_CELLS = 2**21  # logits held at a time: 8 MiB, what a cache holds
SMOLLM2 = ("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
PLAIN = 1e-3  # nats that ln q of the model's own logits may differ by from what is read here: far above rounding
PROBE = "It was a dark night, and the old man walked slowly down the road to the village where he had been born."


class LanguageModel:
    """A causal model of transformers with its tokenizer: ln q(w_t | w_<t, start) of tokens.

    start: text of the one token that every sequence is taken to follow; None takes the tokenizer's begin-of-sequence
    token. precision: of the products of the layers, "float32" or "bfloat16"; what is added up and the logits are in
    float32 either way. cells: hidden numbers held at a time. Logits are a linear map of the last hidden states.
    ``ValueError`` for another precision, for a model that does more to its logits, such as to cap or to rescale them
    (tried on 8 tokens), and if tokenizer and model do not belong together: more tokens than the model has, far fewer,
    or a plain English sentence, as much of it as the context holds, that costs more than 3/4 ln(vocabulary) nats per
    token (`check_sentence` false leaves this last test out, for untrained models and other languages).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        start: str | None = None,
        precision: Precision = "float32",
        device: torch.device | str = "cpu",
        cells: int = 2**25,
        check_sentence: bool = True,
    ) -> None:
        if precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision: 'float32' or 'bfloat16' is allowed, got {precision!r}")
        self.model, self.tokenizer = model.to(device).eval(), tokenizer
        self.device, self.cells, self.precision = torch.device(device), cells, precision
        self.head = model.get_output_embeddings()
        self.vocabulary = int(self.head.weight.shape[0])
        _require_same_size(len(tokenizer), self.vocabulary)
        self.start = self._number_of(start)
        self._require_plain_logits()
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
        """ln q(w_t | w_<t, start) of tokens (rows, time), nats, the same shape.

        Logits are formed for a part of the rows at a time. ``ValueError`` for other shapes, tokens outside the
        vocabulary, and rows longer than the context less one.
        """
        return self.continued(tokens, [], [])[0]

    def continued(
        self, tokens: NDArray[np.integer[Any]], cuts: Sequence[int], others: Sequence[NDArray[np.integer[Any]]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """ln q of tokens (rows, time), and of every one of `others` (rows, n) after the first `cut` >= 1 tokens, nats.

        Keys and values of the shared beginning are computed once, where the model keeps them all. ``ValueError`` for
        what `log_probabilities` refuses, for cuts outside 1 .. time, and numbers of rows or of blocks that differ.
        """
        array, blocks = token_rows(tokens, self.vocabulary), [token_rows(other, self.vocabulary) for other in others]
        if len(cuts) != len(blocks) or any(not 1 <= cut <= array.shape[1] for cut in cuts):
            raise ValueError(f"cuts: one for each of {len(blocks)} blocks, 1 .. {array.shape[1]}, got {list(cuts)}")
        if any(len(block) != len(array) for block in blocks):
            raise ValueError(f"others: blocks of {len(array)} rows are needed, got {[len(block) for block in blocks]}")
        longest = max([array.shape[1], *(cut + block.shape[1] for cut, block in zip(cuts, blocks, strict=True))])
        if longest + 1 > self.context:
            raise ValueError(f"tokens: rows of at most {self.context - 1} tokens are allowed, got {longest}")
        result, after = np.empty(array.shape), [np.empty(block.shape) for block in blocks]
        together = max(1, self.cells // (longest * 4096))  # rows: attention and hidden states, not logits
        with torch.no_grad(), self._products(torch.bfloat16):
            for begin in range(0, len(array), together):
                rows = slice(begin, begin + together)
                found, kept = self._scored(array[rows], keep=bool(blocks))
                result[rows] = found
                for place in sorted(range(len(cuts)), key=lambda place: -cuts[place]):  # what is kept grows shorter
                    cut, block = cuts[place], blocks[place][rows]
                    if kept is not None:
                        if (surplus := kept.get_seq_length() - cut) > 0:
                            kept.crop(-surplus)
                        after[place][rows] = self._scored(block, array[rows, cut - 1], kept)[0]
                    else:
                        whole = np.concatenate([array[rows, :cut], block], axis=1)
                        after[place][rows] = self._scored(whole)[0][:, cut:]
        return result, after

    def _scored(
        self,
        rows: NDArray[np.int64],
        before: NDArray[np.int64] | None = None,
        past: Any = None,
        *,
        keep: bool = False,
    ) -> tuple[NDArray[np.float64], Any]:
        """ln q of rows after one more token each and what `past` has read; what was read, if it is asked for and can
        be taken back to any length.
        """
        batch = torch.from_numpy(rows).to(self.device)
        start = torch.full_like(batch[:, :1], self.start)
        first = start if before is None else torch.from_numpy(np.ascontiguousarray(before)[:, None]).to(self.device)
        read = torch.cat([first, batch[:, :-1]], dim=1)
        known = {} if past is None else {"past_key_values": past}
        found = self.model.base_model(input_ids=read, use_cache=keep or past is not None, **known)
        hidden, step = found.last_hidden_state, max(1, HEAD_CELLS // (len(batch) * self.vocabulary))
        with self._products(None):
            hidden = hidden.to(self.head.weight.dtype)
            parts = [
                logarithms(self.head(hidden[:, begin : begin + step]), batch[:, begin : begin + step])
                for begin in range(0, batch.shape[1], step)
            ]
        kept = getattr(found, "past_key_values", None) if keep else None
        return np.concatenate(parts, axis=1), kept if _can_be_cropped(kept) else None

    def _products(self, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
        """Where products are in this precision, if the model was asked for another than its own; None: in its own."""
        if self.precision == "float32":
            return nullcontext()
        products: AbstractContextManager[Any] = torch.autocast(self.device.type, dtype, enabled=dtype is not None)
        return products

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

    def _require_plain_logits(self) -> None:
        count = min(8, self.context)
        tokens = (torch.arange(count) * len(self.tokenizer) // count)[None].to(self.device)
        with torch.no_grad():  # in the model's own precision, in which both ways are the same products
            whole = self.model(input_ids=tokens, use_cache=False).logits
            hidden = self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
            plain = self.head(hidden.to(self.head.weight.dtype))
            own, read = (logits.float().log_softmax(-1) for logits in (whole, plain))
        if not torch.allclose(own, read, rtol=0, atol=PLAIN):
            raise ValueError(
                "model: one whose logits are a linear map of its last hidden states is allowed, got "
                f"{type(self.model).__name__}, which changes its logits after that map; this is not read here"
            )

    def _require_sense(self) -> None:
        tokens = self.encode(PROBE).tokens[: self.context - 1]
        loss = -float(self.log_probabilities(tokens[None]).mean())
        allowed = 0.75 * np.log(self.vocabulary)
        if not loss < allowed:
            raise ValueError(
                f"tokenizer and model do not belong together: a plain sentence costs {loss:.2f} nats per token, and "
                f"less than {allowed:.2f} is expected (chance: {np.log(self.vocabulary):.2f}). Load both from one place"
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
    missing, the two do not belong together, or the model does more to its logits than `LanguageModel` reads.
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


def _can_be_cropped(kept: Any) -> bool:
    """Whether all keys and values are there: no sliding window, no state that is overwritten."""
    layers = getattr(kept, "layers", None) or []
    return bool(layers) and all(type(layer).__name__ == "DynamicLayer" for layer in layers)


def _require_same_size(tokens: int, rows: int) -> None:
    padding = 1024  # models round their number of tokens up
    if not rows - padding < tokens <= rows:
        raise ValueError(
            f"tokenizer and model do not belong together: {tokens} tokens, and a model of {rows}. "
            "Load both from one place"
        )
