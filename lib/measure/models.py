"""A model of a reader's own on the same text: loss by position, both bipartite estimates, the state that it has.

Models are those of transformers, by folder. Weights are read from safetensors or gguf; nothing is unpickled, and no
code of a model's folder is run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lib.information.documents.block_scores import score_blocks
from lib.information.documents.growth import scaling_exponent
from lib.information.documents.windows import Windows
from lib.information.estimators import ngram_entropy
from lib.information.intervals import Interval
from lib.machine import expanded
from lib.measure import results
from lib.measure.texts import Text
from lib.models.pretrained.language_model import SMOLLM2, LanguageModel, load_smollm2, require_packages
from lib.processes.corpora.model_files import model_file

Tokens = npt.NDArray[np.int64]
CONTEXT = 512  # tokens of a window, unless others are asked for
FEWEST = 8  # windows
SHORTEST = 4  # tokens of a window
OPENING = 2  # first tokens of a block, whose distribution is that of the text (L2M, A.14)
COUNTED = 1_000_000  # characters whose neighbouring tokens are counted for it
WEIGHT = 0.2  # of the model in it
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.msgpack", "*.h5")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len")


def check_model(name: str, context: int = 0) -> None:
    """``ValueError`` or ``OSError``, in one line, for what cannot be measured; weights are not looked into.

    A folder needs a configuration, a tokenizer and weights as safetensors or gguf, a context of `context` tokens and
    one to start with, and an architecture that transformers itself knows.
    """
    _require_halves(context)
    if name == "smollm2":
        require_packages("transformers", "gguf", "accelerate")
        model_file(*SMOLLM2)
        return
    folder = expanded(name)
    if not folder.is_dir():
        raise ValueError(f"--model: a folder of a model, or smollm2, is allowed; there is no folder {name}")
    gguf = sorted(folder.glob("*.gguf"))
    if not gguf and not list(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        told = f"weights only as {', '.join(pickled)}, which would have to be unpickled" if pickled else "no weights"
        raise ValueError(f"{folder}: {told}; safetensors or gguf are read (save_pretrained writes safetensors)")
    if gguf and not list(folder.glob("*.safetensors")):
        require_packages("transformers", "gguf", "accelerate")
        return
    if not any((folder / file).is_file() for file in TOKENIZERS):
        raise ValueError(f"{folder}: a model without tokenizer; one of {', '.join(TOKENIZERS)} is needed")
    _check_configuration(folder, context)


def _check_configuration(folder: Path, context: int) -> None:
    path = folder / "config.json"
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        kind, own_code = given["model_type"], "auto_map" in given
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no configuration of a model ({error!r})") from error
    transformers = require_packages("transformers")
    known = {config.model_type for config in transformers.MODEL_FOR_CAUSAL_LM_MAPPING}
    if kind not in known:
        told = "needs code of its folder, which is not run" if own_code else "is no causal language model known here"
        raise ValueError(f"{folder}: {kind!r} {told}; transformers {transformers.__version__} has {len(known)} others")
    limits = [given[name] for name in POSITIONS if isinstance(given.get(name), int)]
    if limits and context + 1 > limits[0]:
        raise ValueError(f"{folder}: its context has {limits[0]} tokens; --context {context} and a start need one more")


def load_model(name: str) -> LanguageModel:
    """The model of a folder, or SmolLM2, in float32; ``ValueError`` for what `check_model` refuses, and for a model
    that `LanguageModel` refuses: one that does more to its logits than a linear map.
    """
    if name == "smollm2":
        return load_smollm2()
    check_model(name)
    folder = expanded(name)
    transformers = require_packages("transformers")
    gguf = sorted(path.name for path in folder.glob("*.gguf"))
    packed = {"gguf_file": gguf[0]} if gguf and not list(folder.glob("*.safetensors")) else {}
    safe = {"local_files_only": True, "trust_remote_code": False, **packed}
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **safe)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, **safe, **({} if packed else {"use_safetensors": True})
    )
    start = tokenizer.bos_token or tokenizer.eos_token
    if start is None:
        raise ValueError(f"{folder}: its tokenizer has no begin- or end-of-sequence token to start a window with")
    return LanguageModel(model, tokenizer, start=start, check_sentence=False)


def _require_halves(context: int) -> None:
    if context and context < SHORTEST:
        raise ValueError(f"--context {context}: at least {SHORTEST} tokens are needed, two halves of two")


def measure_model(text: Text, name: str, context: int = 0, windows: int = 64, seed: int = 0) -> results.Bipartite:
    """Score windows of the text, each from a place of its own; halves of L = 4, 8, ... tokens.

    context: tokens of a window, 0 for 512 or what the model and the text allow. ``ValueError`` for a context of fewer
    than 4 tokens or longer than the model's, and for a text with fewer than 8 windows. About 4 windows context tokens
    are read.
    """
    _require_halves(context)
    model = load_model(name)
    if context and context + 1 > model.context:
        raise ValueError(f"--context {context}: the model has {model.context} tokens with the one to start with")
    length = context or min(CONTEXT, model.context - 1)
    rows = cut_windows(text, model, length, windows)
    while len(rows) < FEWEST and not context and length > 16:
        length //= 2
        rows = cut_windows(text, model, length, windows)
    if len(rows) < FEWEST:
        remedy = "a smaller --context or a longer text is allowed" if context else "a longer text is allowed"
        raise ValueError(f"{text.name}: {len(rows)} windows of {length} tokens; {FEWEST} are needed; {remedy}")
    cut = Windows(rows, np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64))
    splits = 2 ** np.arange(1, int(np.log2(length // 2)) + 1, dtype=np.int64)
    scores = score_blocks(model, cut, splits, (2,), opening=OPENING, documents_at_once=4, progress=False)
    counted = [_tokens(model, document) for document in text.head(COUNTED).documents]
    opening = ngram_entropy(counted, OPENING)
    values = {"direct": scores.direct(opening, WEIGHT)[:, :, 0], "vclub": scores.vclub()[:, :, 0]}
    loss = -scores.tokens.mean(axis=0)
    places = np.unique(np.geomspace(1, length, 25).astype(int)) - 1
    betas = {which: _beta(scores.lengths[:, 0], one, seed) for which, one in values.items()}
    lengths = scores.lengths[:, 0]
    means = {which: one.mean(axis=0) for which, one in values.items()}
    return results.Bipartite(
        model=name,
        windows=len(rows),
        lengths=lengths.tolist(),
        direct=results.numbers(means["direct"]),
        vclub=results.numbers(means["vclub"]),
        standard_errors={
            "direct": results.numbers(values["direct"].std(axis=0, ddof=1) / np.sqrt(len(rows))),
            "vclub": results.numbers(values["vclub"].std(axis=0, ddof=1) / np.sqrt(len(rows))),
        },
        beta=results.Betas(direct=results.Estimate.of(betas["direct"]), vclub=results.Estimate.of(betas["vclub"])),
        positions=(places + 1).tolist(),
        loss=results.numbers(loss[places]),
        state=_state(model.model.config, lengths, np.maximum(means["direct"], means["vclub"]), betas["direct"]),
        note="" if loss.mean() < 0.75 * np.log(model.vocabulary) else "the model hardly predicts this text",
    )


def _tokens(model: LanguageModel, text: str) -> Tokens:
    return np.array(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=np.int64)


def cut_windows(text: Text, model: LanguageModel, length: int, count: int) -> Tokens:
    """At most `count` windows of `length` tokens, evenly spread, none in two documents, (windows, length).

    Each is cut from a stretch of its own, from the first blank on, that has room for a third more tokens.
    """
    sample = max(text.documents, key=len)[:20_000]
    room = int(1.33 * length * len(sample) / max(1, len(_tokens(model, sample)))) + 32
    long = [(number, max(1, len(one) // room)) for number, one in enumerate(text.documents) if len(one) >= room / 1.33]
    if sum(parts for _, parts in long) < FEWEST:  # then of the shorter ones, too, some may have tokens enough
        long = [(number, max(1, len(one) // room)) for number, one in enumerate(text.documents)]
    stretches = [(number, part * room) for number, parts in long for part in range(parts)]
    chosen = np.unique(np.linspace(0, len(stretches) - 1, min(count, len(stretches))).round().astype(int))
    rows = []
    for number, start in (stretches[place] for place in chosen):
        stretch = text.documents[number][start : start + room]
        found = _tokens(model, stretch[stretch.find(" ") + 1 :] if start else stretch)
        if len(found) >= length:
            rows.append(found[:length])
    return np.array(rows, dtype=np.int64).reshape(-1, length)


def _beta(lengths: Tokens, values: npt.NDArray[np.float64], seed: int) -> Interval | None:
    """Exponent over the lengths from the first beyond which all estimates are positive; None for fewer than three."""
    positive = values.mean(axis=0) > 0
    first = 0 if positive.all() else int(np.flatnonzero(~positive)[-1]) + 1
    if len(lengths) - first < 3:
        return None
    found = scaling_exponent(lengths[first:], values[:, first:], block=2, seed=np.random.default_rng([seed, 3]))
    return Interval(found.exponent, *found.interval)


def _state(config: Any, lengths: Tokens, asked: npt.NDArray[np.float64], beta: Interval | None) -> results.State | None:
    held = [numbers_held(config, int(length) // 2) for length in lengths]
    if any(one is None for one in held):
        return None
    numbers = np.array([float(one) for one in held if one is not None])
    growth = float(np.log2(numbers[-1] / numbers[-2])) if len(numbers) > 1 else 0.0
    grows, grows_on = (numbers_held(config, tokens) != numbers_held(config, 2 * tokens) for tokens in (1, 2**40))
    kind = "cache per token" if grows_on else "window" if grows else "fixed state"
    return results.State(
        kind=kind,  # type: ignore[arg-type]
        architecture=str(config.model_type),
        numbers=results.numbers(numbers),
        growth=growth,
        asked_nats=results.numbers(asked),
        asked_growth=results.Estimate.of(beta),
    )


def numbers_held(config: Any, tokens: int) -> int | None:
    """Real numbers that a model of this configuration keeps of `tokens` tokens; None for an architecture not listed.

    Attention: 2 layers heads width a token, as far as its window reaches (each layer has its own), without the layers
    that read the keys of another; of a model that could have an encoder, those of the decoder. Mamba and Mamba2: the
    states and the last inputs of the convolution. RWKV: five numbers per channel and layer.
    """
    kind = config.model_type
    layers = getattr(config, "decoder_layers", None) or getattr(config, "num_hidden_layers", None)
    if kind in ("mamba", "falcon_mamba"):
        return int(layers * config.intermediate_size * (config.state_size + config.conv_kernel - 1))
    if kind == "mamba2":
        inner = config.num_heads * config.head_dim
        mixed = inner + 2 * config.n_groups * config.state_size
        return int(layers * (inner * config.state_size + mixed * (config.conv_kernel - 1)))
    if kind == "rwkv":
        return int(layers * (3 * config.attention_hidden_size + 2 * config.hidden_size))
    if layers is None or not getattr(config, "num_attention_heads", None) or _is_mixed(config):
        return None
    if getattr(config, "kv_lora_rank", None):  # latent attention keeps a compressed vector and a rotated key
        return int(layers * tokens * (config.kv_lora_rank + config.qk_rope_head_dim))
    queries = getattr(config, "decoder_attention_heads", None) or config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or queries
    if kind == "falcon" and config.multi_query and not config.new_decoder_architecture:
        heads = 1
    width = getattr(config, "head_dim", None) or config.hidden_size // queries
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds: Sequence[str] = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    own = len(kinds) - (getattr(config, "num_kv_shared_layers", None) or 0)
    kept = sum(min(tokens, window) if window and one == "sliding_attention" else tokens for one in kinds[:own])
    return int(2 * heads * width * kept)


def _is_mixed(config: Any) -> bool:
    """Attention beside other layers, which each keep something else."""
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(kinds - {"full_attention", "sliding_attention"}) or any(
        hasattr(config, name) for name in ("mamba_d_state", "mamba_n_heads", "attn_layer_period", "block_types")
    )


def sentence(found: results.Bipartite) -> str:
    """What was found, in a paragraph of Markdown."""
    betas = ", ".join(
        f"{which} {one.as_interval:.2f}"
        for which, one in (("direct", found.beta.direct), ("vCLUB", found.beta.vclub))
        if one is not None
    )
    parts = [
        f"**{Path(found.model).name}** on {found.windows} windows: its loss goes from {found.loss[0]:.2f} to "
        f"{found.loss[-1]:.2f} nats per token over {found.positions[-1]} positions.",
        f"The information of halves grows as $L$ to the power {betas}." if betas else "No exponent can be fitted.",
    ]
    if found.state:
        grows = {
            "cache per token": "a cache that grows with every token, as fast as any such law asks",
            "window": "a cache that grows until its window is full",
            "fixed state": "a state of fixed size, which falls behind any growing information at some length",
        }
        parts.append(f"It has {grows[found.state.kind]} (`{found.state.architecture}`, by its configuration).")
    else:
        parts.append("What its state holds is not read from this kind of configuration.")
    return " ".join([*parts, f"Note: {found.note}." if found.note else ""]).strip()
