"""A model on a text: exact where the model is, and refused where it cannot be read safely."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from lib.measure import models, results
from lib.measure.texts import Text
from lib.processes import MarkovChain

CHAIN = MarkovChain([[0.9, 0.1], [0.2, 0.8]])


class Exact:
    """The distribution of a chain over the letters a and b, with the interface of a language model."""

    vocabulary, context = 2, 1024
    model = SimpleNamespace(config=SimpleNamespace(model_type="mamba", num_hidden_layers=1, intermediate_size=1,
                                                   state_size=2, conv_kernel=1))  # fmt: skip

    def tokenizer(self, text, **_):
        return {"input_ids": [ord(letter) - ord("a") for letter in text]}

    def log_probabilities(self, tokens):
        first, step = np.log(CHAIN.initial), np.log(CHAIN.transition)
        return np.concatenate([first[tokens[:, :1]], step[tokens[:, :-1], tokens[:, 1:]]], axis=1)


@pytest.fixture
def text():
    row = CHAIN.sample(1, 60_000, 1)[0]
    return Text("chain", ("".join(np.array(list("ab"))[row]),))


def test_an_exact_model_gives_the_information_of_the_chain_at_every_length(text, monkeypatch):
    monkeypatch.setattr(models, "load_model", lambda name: Exact())
    found = models.measure_model(text, "exact", context=64, windows=400)
    exact = CHAIN.mutual_information([1])[0]  # the halves meet at one place
    errors = np.array(found.standard_errors["direct"])
    assert found.lengths == [4, 8, 16, 32, 64] and found.windows == 400
    assert np.all(np.abs(np.array(found.direct) - exact) < 4 * errors)
    assert np.all(np.array(found.vclub) > np.array(found.direct) - 4 * errors)  # Jeffreys: at least the information
    low, high = found.beta.direct.interval
    assert low < 0 < high
    entropy = -(CHAIN.initial[:, None] * CHAIN.transition * np.log(CHAIN.transition)).sum()
    assert np.mean(found.loss[1:]) == pytest.approx(entropy, abs=0.06)
    assert found.state.kind == "fixed state" and found.state.numbers == [2.0] * 5
    assert results.Bipartite.model_validate_json(found.model_dump_json()) == found


def test_a_context_that_is_too_long_is_refused_and_without_one_it_is_shortened(text, monkeypatch):
    monkeypatch.setattr(models, "load_model", lambda name: Exact())
    with pytest.raises(ValueError, match="--context 1024: the model has 1024 tokens"):
        models.measure_model(text, "exact", context=1024)
    for context in (1, 3):
        with pytest.raises(ValueError, match=f"--context {context}: at least 4 tokens"):
            models.measure_model(text, "exact", context=context)
    with pytest.raises(ValueError, match=r"windows of 512 tokens; 8 are needed"):
        models.measure_model(text.head(2000), "exact", context=512)
    assert models.measure_model(text.head(2000), "exact").lengths[-1] < 512


def test_windows_lie_in_one_document_and_apart(text):
    documents = Text("x", ("ab" * 300, "a" * 10, "b" * 2000))
    rows = models.cut_windows(documents, Exact(), 100, 50)
    assert rows.shape[1] == 100 and len(rows) > 8
    assert all(set(row) == {0, 1} or set(row) == {1} for row in rows.tolist())


def test_short_documents_do_not_crowd_out_the_long_ones():
    long = ("ab" * 5000,) * 10
    alone = models.cut_windows(Text("x", long), Exact(), 100, 50)
    crowded = models.cut_windows(Text("x", long + ("ab" * 10,) * 5000), Exact(), 100, 50)
    assert len(alone) == len(crowded) == 50
    mixed = models.cut_windows(Text("x", ("ab" * 700,) + ("ab" * 65,) * 500), Exact(), 100, 64)
    assert len(mixed) == 64  # those with tokens enough are not left out because one is longer
    short = models.cut_windows(Text("x", ("ab" * 60,) * 40), Exact(), 100, 50)
    assert len(short) == 40  # where no document has room to spare, those with tokens enough


def write(folder: Path, **configuration) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_positions": 64, **configuration}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("change", "context", "message"),
    [
        ("none", 64, "its context has 64 tokens; --context 64 and a start need one more"),
        ("tokenizer", 0, "a model without tokenizer"),
        ("pickle", 0, r"weights only as pytorch_model\.bin, which would have to be unpickled"),
        ("weights", 0, "no weights; safetensors or gguf are read"),
        ("configuration", 0, "is no configuration of a model"),
        ("code", 0, "'mine' needs code of its folder, which is not run"),
        ("strange", 0, "'mine' is no causal language model known here"),
    ],
)
def test_a_folder_that_cannot_be_read_safely_is_refused_in_one_line(tmp_path: Path, change, context, message):
    pytest.importorskip("transformers")
    own = {"code": {"model_type": "mine", "auto_map": {}}, "strange": {"model_type": "mine"}}.get(change, {})
    folder = write(tmp_path / "model", **own)
    if change == "tokenizer":
        (folder / "tokenizer.json").unlink()
    if change in ("pickle", "weights"):
        (folder / "model.safetensors").unlink()
    if change == "pickle":
        (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch unpickled'\ntR.")
    if change == "configuration":
        (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=message) as refused:
        models.check_model(str(folder), context)
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_whole_passes_the_check_and_none_is_none(tmp_path: Path):
    pytest.importorskip("transformers")
    models.check_model(str(write(tmp_path / "model")), 63)
    with pytest.raises(ValueError, match="there is no folder"):
        models.check_model(str(tmp_path / "nothing"))


@pytest.mark.parametrize("scaling", [1.0, 8.0])
def test_a_model_that_rescales_its_logits_is_refused_when_it_is_loaded(tmp_path: Path, scaling: float):
    transformers = pytest.importorskip("transformers")
    words = {"a": 0, "b": 1, "<s>": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<s>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>").save_pretrained(tmp_path)
    sizes = {"vocab_size": 3, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 2, "bos_token_id": 2}
    config = transformers.GraniteConfig(**sizes, **heads, initializer_range=1.0, logits_scaling=scaling)
    torch.manual_seed(0)
    transformers.GraniteForCausalLM(config).save_pretrained(tmp_path)
    if scaling == 1.0:
        assert models.load_model(str(tmp_path)).vocabulary == 3
    else:
        with pytest.raises(ValueError, match="got GraniteForCausalLM, which changes its logits"):
            models.load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"model_type": "gpt2", "hidden_size": 12, "num_attention_heads": 3}, 2 * 2 * 12 * 100),
        ({"model_type": "llama", "num_key_value_heads": 1, "num_attention_heads": 4, "hidden_size": 16},
         2 * 2 * 4 * 100),
        ({"model_type": "mistral", "num_attention_heads": 2, "hidden_size": 8, "sliding_window": 30}, 2 * 2 * 8 * 30),
        ({"model_type": "gemma", "num_attention_heads": 2, "hidden_size": 8, "sliding_window": 30,
          "layer_types": ["full_attention", "sliding_attention"]}, 2 * 8 * 130),
        ({"model_type": "qwen", "num_attention_heads": 2, "hidden_size": 8, "sliding_window": 30,
          "use_sliding_window": False}, 2 * 2 * 8 * 100),
        ({"model_type": "gemma3n_text", "num_attention_heads": 2, "hidden_size": 8, "sliding_window": 30,
          "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 1}, 2 * 8 * 30),
        ({"model_type": "bart", "num_attention_heads": 4, "hidden_size": 8, "decoder_layers": 3,
          "decoder_attention_heads": 2}, 2 * 3 * 8 * 100),
        ({"model_type": "deepseek", "num_attention_heads": 2, "kv_lora_rank": 5, "qk_rope_head_dim": 2}, 2 * 7 * 100),
        ({"model_type": "mamba", "intermediate_size": 8, "state_size": 4, "conv_kernel": 4}, 2 * 8 * 7),
        ({"model_type": "mamba2", "num_heads": 2, "head_dim": 4, "state_size": 3, "n_groups": 1, "conv_kernel": 4},
         2 * (8 * 3 + 14 * 3)),
        ({"model_type": "rwkv", "attention_hidden_size": 6, "hidden_size": 6}, 2 * 30),
        ({"model_type": "jamba", "num_attention_heads": 2, "hidden_size": 8, "attn_layer_period": 4}, None),
        ({"model_type": "lfm", "num_attention_heads": 2, "hidden_size": 8,
          "layer_types": ["conv", "full_attention"]}, None),
    ],
)  # fmt: skip
def test_what_a_state_holds_is_read_from_the_configuration(configuration, expected):
    assert models.numbers_held(SimpleNamespace(num_hidden_layers=2, **configuration), 100) == expected


def test_the_heads_of_falcon_share_their_keys():
    falcon = SimpleNamespace(
        num_hidden_layers=2, model_type="falcon", num_attention_heads=8, hidden_size=64, multi_query=True,
        new_decoder_architecture=False,
    )  # fmt: skip
    assert models.numbers_held(falcon, 7) == 2 * 2 * 8 * 7
    falcon.multi_query = False
    assert models.numbers_held(falcon, 7) == 2 * 2 * 64 * 7


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"model_type": "gpt2"}, "cache per token"),
        ({"model_type": "mistral", "sliding_window": 4096}, "window"),  # which no length here fills
        ({"model_type": "gemma", "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"]},
         "cache per token"),  # half of it
        ({"model_type": "mamba", "intermediate_size": 8, "state_size": 4, "conv_kernel": 4}, "fixed state"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lengths", [[4], [4, 8, 16]])
def test_how_a_state_grows_is_read_from_the_configuration_at_any_length(configuration, expected, lengths):
    config = SimpleNamespace(num_hidden_layers=2, num_attention_heads=2, hidden_size=8, **configuration)
    assert models._state(config, np.array(lengths), np.ones(len(lengths)), None).kind == expected
