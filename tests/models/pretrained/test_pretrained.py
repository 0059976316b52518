"""Pretrained models: read as they were meant, refused when damaged, missing, or with a foreign tokenizer."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.information.documents.block_scores import score_blocks
from lib.information.documents.windows import Windows
from lib.models.pretrained import Characters, LanguageModel, language_model, load_character_lstm, load_language_model
from lib.models.pretrained.character_lstm import character_lstm_names, lstm_of_basic_cells
from lib.models.pretrained.language_model import Encoded, load_smollm2
from lib.models.scoring import NetworkScorer
from lib.processes import corpora
from lib.processes.corpora.reading import sentence_starts
from lib.training.tasks import position_losses

HERE = all(corpora.loading.place_of(corpora.entry("charrnn"), file) for file in corpora.entry("charrnn").files)
needs_weights = pytest.mark.skipif(not HERE, reason="`python -m lib data fetch charrnn` gets the character LSTMs")


def basic_cells(vocabulary=4, width=3, inputs=5, depth=2, seed=0):
    """Weights as TensorFlow names and shapes them."""
    random = np.random.default_rng(seed)
    arrays = {"embedding": random.standard_normal((vocabulary, inputs))}
    for number in range(depth):
        below = inputs if number == 0 else width
        name = f"rnnlm|multi_rnn_cell|cell_{number}|basic_lstm_cell|"
        arrays[name + "kernel"] = random.standard_normal((below + width, 4 * width))
        arrays[name + "bias"] = random.standard_normal(4 * width)
    arrays["rnnlm|softmax_w"] = random.standard_normal((width, vocabulary))
    arrays["rnnlm|softmax_b"] = random.standard_normal(vocabulary)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def plain_logits(arrays, tokens, depth=2, width=3):
    """The equations of BasicLSTMCell, gate by gate."""
    squash = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    hidden, cell = np.zeros((depth, width)), np.zeros((depth, width))
    for token in tokens:
        x = arrays["embedding"][token].astype(np.float64)
        for number in range(depth):
            name = f"rnnlm|multi_rnn_cell|cell_{number}|basic_lstm_cell|"
            gates = np.concatenate([x, hidden[number]]) @ arrays[name + "kernel"] + arrays[name + "bias"]
            i, j, f, o = np.split(gates, 4)
            cell[number] = cell[number] * squash(f + 1.0) + squash(i) * np.tanh(j)
            x = hidden[number] = np.tanh(cell[number]) * squash(o)
    return x @ arrays["rnnlm|softmax_w"] + arrays["rnnlm|softmax_b"]


def test_our_network_is_a_stack_of_basic_lstm_cells():
    arrays, tokens = basic_cells(), [0, 3, 1, 1, 2, 0]
    model = lstm_of_basic_cells(arrays, 4).double()
    with torch.no_grad():
        logits = model(torch.tensor([tokens]))[0]
    for length in range(1, len(tokens) + 1):
        np.testing.assert_allclose(logits[length - 1], plain_logits(arrays, tokens[:length]), atol=1e-12)


def test_both_names_of_the_weights_are_understood_and_others_are_refused():
    arrays = basic_cells()
    older = {name.replace("|kernel", "|weights").replace("|bias", "|biases"): array for name, array in arrays.items()}
    pairs = zip(lstm_of_basic_cells(arrays, 4).parameters(), lstm_of_basic_cells(older, 4).parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    for wrong, vocabulary in (
        ({}, 4),
        (arrays, 5),
        ({name: array for name, array in arrays.items() if "cell_0" not in name}, 4),
        ({name: array for name, array in arrays.items() if "softmax_b" not in name}, 4),
        ({**arrays, "embedding": arrays["embedding"][:, :2]}, 4),
    ):
        with pytest.raises(ValueError, match="weights of basic LSTM cells"):
            lstm_of_basic_cells(wrong, vocabulary)


@needs_weights
def test_steps_and_the_parallel_form_of_a_pretrained_network_agree():
    model = load_character_lstm("darwin").model
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, model.vocabulary, (3, 40)))
    with torch.no_grad():
        parallel, state = model(tokens), model.initial_state(3)
        for place in range(40):
            logits, state = model.step(tokens[:, place], state)
            assert torch.allclose(logits, parallel[:, place], atol=1e-4)
    assert model.state_size(10**6) == 2 * 2 * 128


@needs_weights
@pytest.mark.parametrize("name", character_lstm_names())
def test_pretrained_networks_read_english_and_not_a_shuffled_alphabet(name):
    network = load_character_lstm(name)
    text = corpora.load("sotu").documents[0][:4000]
    rows = network.characters.encode(text, "simplify")[:4000].reshape(8, 500)
    loss = position_losses(network.model, rows).mean()
    assert 1.2 < loss < 2.8 < math.log(len(network.characters))
    if name in ("charlotte_bronte", "darwin"):
        assert loss < 2.2
    shuffled = np.random.default_rng(0).permutation(len(network.characters))[rows]
    assert position_losses(network.model, shuffled).mean() > loss + 2


@needs_weights
def test_the_network_of_shakespeare_knows_the_letter_that_its_vocabulary_lacks():
    network = load_character_lstm("shakespeare")
    text = "How now, my lord, you shall not go until the duke our uncle hath heard you out.\n" * 3
    tokens = network.characters.encode(text)
    logarithms = NetworkScorer(network.model).log_probabilities(tokens[None])[0]
    letter = tokens == network.characters.numbers["u"]
    assert -logarithms[letter].mean() < 2.5  # of 4.2 by chance


def test_what_becomes_of_unknown_characters_is_a_choice():
    characters = Characters({symbol: number for number, symbol in enumerate("ab e'\n")})
    assert characters.decode(characters.encode("a b\ne'")) == "a b\ne'"
    with pytest.raises(ValueError, match=r"unknown are 'x' \(2 times\), 'é'"):
        characters.encode("axéx")
    assert characters.decode(characters.encode("a’é—x", "simplify")) == "a'e  "
    assert characters.decode(characters.encode("a’é—x", "skip")) == "a"
    with pytest.raises(ValueError, match="'refuse', 'simplify' or 'skip'"):
        characters.encode("a", "ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no space"):
        Characters({"a": 0}).encode("x", "simplify")
    for wrong in ({"a": 1}, {"a": 0, "b": 0}, {"ab": 0}):
        with pytest.raises(ValueError, match="single characters"):
            Characters(wrong)


@needs_weights
def test_text_is_laid_out_as_the_network_was_trained_on_it():
    line = "It is a truth universally acknowledged, that a single man in possession of a good fortune wants a wife."
    for name, end in (("charlotte_bronte", "\n"), ("darwin", "\r\n")):
        network = load_character_lstm(name)
        wrapped = network.characters.decode(network.encode(f"{line}\n\n{line}", columns=40))
        lines = wrapped.split(end)
        assert max(map(len, lines)) <= 40 and lines.count("") == 1 and " ".join(lines) == f"{line}  {line}"
        assert network.characters.decode(network.encode(line + "\r\n", columns=None)) == line + end
        with pytest.raises(ValueError, match="columns"):
            network.encode(line, columns=0)


def test_sentences_start_at_capitals_after_the_end_of_another():
    text = "“It rains,” he said. She left.\n\nA new day! Mr. A. Brown came? no. ‘Yes.’ 3.5 is no end"
    starts = [text[place : place + 3] for place in sentence_starts(text)]
    assert starts == ["“It", "She", "A n", "Mr.", "‘Ye"]
    assert sentence_starts("").size == 0
    empty = "\n " * 300_000  # looked at once, not once for each of its lines
    assert sentence_starts(f"A.{empty}B{empty}c{empty}D").tolist() == [0, 600_002, 1_800_004]


class Words:
    """A tokenizer of whole words, with the interface that is used of transformers."""

    bos_token_id = 0

    def __init__(self, words):
        self.words = ["<s>", *words]

    def __len__(self):
        return len(self.words)

    def encode(self, text, add_special_tokens=False):
        return [self.words.index(word) for word in text.split()]

    def __call__(self, text, **options):
        offsets, place = [], 0
        for word in text.split():
            place = text.index(word, place)
            offsets.append((max(place - 1, 0), place + len(word)))
            place += len(word)
        return {"input_ids": self.encode(text), "offset_mapping": offsets}


def tiny_llama(rows, trained_on=None, context=64):
    """A model of transformers; `trained_on` makes it sure of one sentence."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=rows, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                      num_attention_heads=2, max_position_embeddings=context)  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    if trained_on is not None:
        tokens = torch.tensor([[0, *trained_on]])
        steps = torch.optim.Adam(model.parameters(), 0.03)
        for _ in range(30):
            steps.zero_grad()
            model(input_ids=tokens, labels=tokens).loss.backward()
            steps.step()
    return model


def test_tokenizer_and_model_have_to_belong_together():
    words = Words(dict.fromkeys(language_model.PROBE.split()))
    tokens = words.encode(language_model.PROBE)
    model = tiny_llama(len(words), tokens)
    assert LanguageModel(model, words).log_probabilities(np.array([tokens])).mean() > -0.5
    with pytest.raises(ValueError, match=r"do not belong together: \d+ tokens, and a model of 5"):
        LanguageModel(tiny_llama(5), words)
    strangers = Words(list(dict.fromkeys(reversed(language_model.PROBE.split()))))
    with pytest.raises(ValueError, match=r"do not belong together: a plain sentence costs"):
        LanguageModel(model, strangers)


@pytest.mark.parametrize("context", [2, 8, 22])
def test_of_the_sentence_as_much_is_read_as_the_context_holds(context):
    words = Words(dict.fromkeys(language_model.PROBE.split()))
    tokens = words.encode(language_model.PROBE)[: context - 1]
    assert LanguageModel(tiny_llama(len(words), tokens, context), words).context == context
    with pytest.raises(ValueError, match=r"do not belong together: a plain sentence costs"):
        LanguageModel(tiny_llama(len(words), None, context), words)


OTHER_LOGITS = [
    ("Cohere", {"logit_scale": 0.25}, {"logit_scale": 1.0}),
    ("Gemma2", {"final_logit_softcapping": 3.0, "head_dim": 8}, {"final_logit_softcapping": None, "head_dim": 8}),
    ("Granite", {"logits_scaling": 8.0}, {"logits_scaling": 1.0}),
    ("Roberta", {"is_decoder": True, "max_position_embeddings": 66, "pad_token_id": 1}, None),
]


@pytest.mark.parametrize(("architecture", "changing", "plain"), OTHER_LOGITS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_is_read_is_what_the_model_says_or_the_model_is_refused(architecture, changing, plain, precision):
    transformers = pytest.importorskip("transformers")
    config, kind = (getattr(transformers, architecture + end) for end in ("Config", "ForCausalLM"))

    def build(options):
        torch.manual_seed(0)
        heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
        model = kind(config(vocab_size=8, hidden_size=16, intermediate_size=16, num_hidden_layers=1, **heads | options))
        with torch.no_grad():
            model.get_output_embeddings().weight.normal_()
        return model.eval()

    words, rows = Words(list("abcdefg")), np.random.default_rng(0).integers(0, 8, (3, 9))
    with pytest.raises(ValueError, match=rf"linear map .* is allowed, got {architecture}ForCausalLM"):
        LanguageModel(build(changing), words, start="c", precision=precision, check_sentence=False)
    if plain is None:
        return
    model = build(plain)
    q = LanguageModel(model, words, start="c", precision=precision, check_sentence=False)
    with torch.no_grad():
        read = torch.from_numpy(np.concatenate([np.full((3, 1), 3), rows[:, :-1]], axis=1))
        own = model(input_ids=read).logits.log_softmax(-1).gather(-1, torch.from_numpy(rows)[..., None])[..., 0]
    assert np.abs(q.log_probabilities(rows) - own.numpy()).max() < (1e-5 if precision == "float32" else 0.2)


def test_log_probabilities_of_a_language_model_are_those_of_its_logits_in_any_batches():
    words = Words(list("abcdefg"))
    model = tiny_llama(8)
    rows = np.random.default_rng(0).integers(0, 8, (5, 12))
    with torch.no_grad():
        read = torch.from_numpy(np.concatenate([np.full((5, 1), 3), rows[:, :-1]], axis=1))
        expected = model(input_ids=read).logits.log_softmax(-1).gather(-1, torch.from_numpy(rows)[..., None])[..., 0]
    for cells in (1, 100, 2**20):
        q = LanguageModel(model, words, start="c", cells=cells, check_sentence=False)
        np.testing.assert_allclose(q.log_probabilities(rows), expected.numpy(), atol=2e-6)
    assert q.context == 64 and q.vocabulary == 8
    with pytest.raises(ValueError, match="at most 63 tokens"):
        q.log_probabilities(np.zeros((1, 64), dtype=np.int64))
    with pytest.raises(ValueError, match="one token is needed"):
        LanguageModel(model, words, start="a b", check_sentence=False)
    words.bos_token_id = None
    with pytest.raises(ValueError, match="no begin-of-sequence token"):
        LanguageModel(model, words, check_sentence=False)


def sliding_llama(rows):
    """Keeps the last four tokens alone, so that its state cannot be taken back."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.MistralConfig(vocab_size=rows, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
                                        num_attention_heads=2, num_key_value_heads=2, sliding_window=4)  # fmt: skip
    return transformers.MistralForCausalLM(config)


def tiny_mamba(rows):
    """Keeps a state, and no tokens."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(2)
    config = transformers.MambaConfig(vocab_size=rows, hidden_size=8, state_size=4, num_hidden_layers=1)
    return transformers.MambaForCausalLM(config)


@pytest.mark.parametrize("make", [tiny_llama, sliding_llama, tiny_mamba])
@pytest.mark.parametrize("cells", [1, 2**20])
def test_what_follows_a_shared_beginning_is_scored_as_if_it_were_read_anew(make, cells):
    model, random = make(8), np.random.default_rng(0)
    q = LanguageModel(model, Words(list("abcdefg")), start="c", cells=cells, check_sentence=False)
    rows, cuts = random.integers(0, 8, (3, 16)), [9, 1, 16, 4, 9]
    others = [random.integers(0, 8, (3, 1 + place)) for place in range(len(cuts))]
    whole, after = q.continued(rows, cuts, others)
    np.testing.assert_allclose(whole, q.log_probabilities(rows), atol=2e-6)
    for cut, other, found in zip(cuts, others, after, strict=True):
        anew = q.log_probabilities(np.concatenate([rows[:, :cut], other], axis=1))[:, cut:]
        np.testing.assert_allclose(found, anew, atol=2e-6)
    assert not np.allclose(after[0], q.log_probabilities(others[0]), atol=1e-3)  # the beginning is heard


def test_blocks_of_a_language_model_score_as_those_of_a_scorer_without_memory():
    q = LanguageModel(tiny_llama(8), Words(list("abcdefg")), start="c", check_sentence=False)
    random = np.random.default_rng(0)
    windows = Windows(random.integers(0, 8, (6, 24)), np.repeat(np.arange(3), 2), np.zeros(6, dtype=np.int64))
    forgetful = SimpleNamespace(vocabulary=8, log_probabilities=q.log_probabilities)
    found, expected = (score_blocks(scorer, windows, [2, 4, 8], [2, 3], progress=False) for scorer in (q, forgetful))
    for name in ("joint", "opening", "rest", "strange"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-5)


def test_products_in_bfloat16_change_little_and_the_logits_stay_whole():
    model, words = tiny_llama(8), Words(list("abcdefg"))
    rows = np.random.default_rng(0).integers(0, 8, (3, 16))
    plain, rough = (
        LanguageModel(model, words, start="c", precision=precision, check_sentence=False).log_probabilities(rows)
        for precision in ("float32", "bfloat16")
    )
    assert 0 < np.abs(rough - plain).max() < 0.01
    with pytest.raises(ValueError, match="'float32' or 'bfloat16' is allowed, got 'int8'"):
        LanguageModel(model, words, precision="int8", check_sentence=False)


def test_cuts_and_blocks_that_do_not_belong_together_are_refused():
    q = LanguageModel(tiny_llama(8), Words(list("abcdefg")), start="c", check_sentence=False)
    rows = np.zeros((2, 8), dtype=np.int64)
    for cuts, others, message in (
        ([1], [], "one for each of 0 blocks"),
        ([0], [rows], r"1 \.\. 8, got \[0\]"),
        ([9], [rows], r"1 \.\. 8, got \[9\]"),
        ([4], [rows[:1]], r"blocks of 2 rows are needed, got \[1\]"),
        ([8], [np.zeros((2, 56), dtype=np.int64)], "at most 63 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            q.continued(rows, cuts, others)


def test_tokens_that_carry_the_blank_before_a_sentence_start_it():
    encoded = Encoded(np.arange(4), np.array([0, 3, 4, 9]), np.array([3, 4, 9, 12]))
    assert encoded.starts_at(np.array([0, 5])).tolist() == [0, 2]
    assert encoded.starts_at(np.array([4, 9])).tolist() == [2, 3]


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(language_model, "missing_packages", lambda names: [n for n in names if n != "transformers"])
    with pytest.raises(ValueError, match=r"`pip install gguf accelerate`"):
        load_smollm2(download=False)
    monkeypatch.undo()
    assert language_model.missing_packages(["json", "no_such_package"]) == ["no_such_package"]


def test_a_folder_without_a_model_is_refused_with_what_to_do(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises((corpora.CorpusUnavailable, ValueError)):
        load_language_model(Path(tmp_path))


def test_numbers_outside_of_the_vocabulary_are_no_text():
    characters = Characters({"a": 0, "b": 1})
    assert characters.decode([1, 0]) == "ba" and characters.decode([]) == ""
    for wrong in ([-1], [2], [0.5]):
        with pytest.raises(ValueError, match="numbers: whole numbers from 0 to 1 are allowed"):
            characters.decode(wrong)
