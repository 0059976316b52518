"""Generation: the distribution of what is drawn is the distribution of the model."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from lib.models import create
from lib.models.scoring import NetworkScorer, sequence_probabilities
from lib.training import generate, multiply_adds

ARCHITECTURES = ["rnn", "lstm", "transformer", "mamba", "mamba2"]
OPTIONS = {"mamba2": {"head_width": 4, "size": 4}, "transformer": {"heads": 2}}


def model_of(architecture, vocabulary=3, seed=0):
    model = create(architecture, vocabulary, 4, seed=seed, **OPTIONS.get(architecture, {}))
    with torch.no_grad():
        model.head.weight.mul_(6.0)  # far from uniform
        if architecture in ("rnn", "lstm"):
            model.embedding.weight.mul_(30.0)
    return model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_drawn_sequences_follow_the_exact_law_of_the_model(architecture):
    model, n, length = model_of(architecture), 20_000, 4
    first = np.array([0.5, 0.3, 0.2])
    law = sequence_probabilities(model, length, first).ravel()
    sequences = generate(model, n, length, 0, first=first, batch=5000)
    counts = np.bincount(sequences.astype(int) @ 3 ** np.arange(length)[::-1], minlength=3**length)
    often = n * law > 5
    statistic = np.sum((counts[often] - n * law[often]) ** 2 / (n * law[often]))
    limit = chi2.isf(1e-4, often.sum() - 1)
    assert statistic < limit
    # negative control: another model's distribution is noticed
    other = sequence_probabilities(model_of(architecture, seed=1), length, first).ravel()
    assert np.sum((counts[often] - n * other[often]) ** 2 / (n * other[often])) > limit


def test_the_size_of_batches_changes_nothing():
    model = model_of("lstm").double()
    sequences = [generate(model, 10, 12, 3, batch=batch) for batch in (1, 3, 10, 100)]
    assert all(np.array_equal(a, b) for a, b in itertools.pairwise(sequences))


def test_seeds_and_generators_are_the_same_thing():
    model = model_of("rnn")
    assert np.array_equal(generate(model, 5, 6, 7), generate(model, 5, 6, np.random.default_rng(7)))
    assert not np.array_equal(generate(model, 5, 6, 7), generate(model, 5, 6, 8))


def test_prompts_are_kept_and_continued():
    model = model_of("transformer")
    prompts = np.array([[0, 1, 2], [2, 2, 2]])
    sequences = generate(model, 2, 6, 0, first=prompts)
    assert np.array_equal(sequences[:, :3], prompts)
    assert np.array_equal(generate(model, 2, 3, 0, first=prompts), prompts)


@pytest.mark.parametrize("given", [1, 7])
def test_a_full_context_is_read_anew_from_its_latest_half(given):
    """Each token is the quantile of its random number in the distribution given the tokens the model should see."""
    model, n, length, context = model_of("transformer").double(), 3, 21, 8
    prompts = np.random.default_rng(1).integers(3, size=(n, given))
    uniform = np.random.default_rng(0).random((n, length))
    sequences = torch.from_numpy(generate(model, n, length, 0, first=prompts, context=context).astype(np.int64))

    def expected(place, begin):
        law = model(sequences[:, begin:place])[:, -1].detach().softmax(dim=-1).cumsum(dim=-1)
        return torch.searchsorted(law, torch.from_numpy(uniform[:, [place]])).squeeze(1)

    half = context // 2
    for place in range(given, length):
        assert torch.equal(sequences[:, place], expected(place, max(0, place // half * half - half)))
    whole = [torch.equal(sequences[:, place], expected(place, 0)) for place in range(context, length)]
    assert not all(whole)
    assert np.array_equal(
        generate(model, n, length, 0, first=prompts), generate(model, n, length, 0, first=prompts, context=2 * length)
    )


def test_a_low_temperature_takes_the_likeliest_token():
    model = model_of("lstm")
    sequences = generate(model, 4, 8, 0, temperature=1e-6)
    logits = model(torch.from_numpy(sequences.astype(np.int64)))
    assert np.array_equal(sequences[:, 1:], logits.argmax(-1)[:, :-1].numpy())


@pytest.mark.parametrize("temperature", [1e-100, 1e-309, 5e-324])
def test_at_a_temperature_whose_quotients_overflow_too(temperature):
    model = model_of("lstm")
    assert np.array_equal(generate(model, 4, 8, 0, temperature=temperature), generate(model, 4, 8, 0, temperature=1e-6))


LAW = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]


@pytest.mark.parametrize("first", [LAW, np.float32(LAW), torch.tensor(np.float32(LAW), requires_grad=True)])
def test_probabilities_of_any_real_type_are_taken(first):
    found, expected = (generate(model_of("rnn"), 20, 3, 0, first=law) for law in (first, [0.5, 0.3, 0.2]))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n"),
        ({"length": 0}, "length"),
        ({"temperature": 0.0}, "temperature"),
        ({"context": 1}, "context"),
        ({"first": [0.5, 0.5]}, "3 probabilities"),
        ({"first": [0.5, 0.6, 0.1]}, r"sum to one are allowed, got the sum 1\.2"),
        ({"first": [0.5, np.nan, 0.5]}, "sum to one are allowed, got nan"),
        ({"first": [0.6, -0.1, 0.5]}, r"sum to one are allowed, got -0\.1"),
        ({"first": [np.inf, 0.5, 0.5]}, "got the sum inf"),
        ({"first": ["a", "b", "c"]}, "first: real numbers"),
        ({"first": [None] * 3}, "first: real numbers"),
        ({"first": [1, 0j, 0]}, "first: real numbers"),
        ({"first": [[0, 1], [2]]}, "first: an array of numbers"),
        ({"first": np.array([[3], [0]])}, "in the vocabulary"),
        ({"first": np.zeros((3, 2), dtype=int)}, "prompts"),
    ],
)
def test_what_cannot_be_generated_is_refused(arguments, message):
    given = {"n": 2, "length": 4, "seed": 0} | arguments
    with pytest.raises(ValueError, match=message):
        generate(model_of("rnn"), **given)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_name_no_distribution_draw_nothing(value):
    model = create("lstm", 3, 4, seed=1)
    with torch.no_grad():
        model.head.bias.fill_(value)
    with pytest.raises(ValueError, match="logits that are numbers"):
        generate(model, 4, 5, 0)


def test_dropout_has_no_part_in_the_exact_distribution_and_nothing_is_drawn_from_the_global_generator():
    model, before = create("lstm", 4, 8, dropout=0.5, seed=1).train(), torch.random.get_rng_state()
    law = sequence_probabilities(model, 3)
    multiply_adds(model, [2])
    assert law.sum() == pytest.approx(1.0, abs=1e-12) and np.array_equal(law, sequence_probabilities(model, 3))
    assert torch.equal(before, torch.random.get_rng_state()) and model.training
    assert not np.array_equal(law, sequence_probabilities(create("lstm", 4, 8, seed=2), 3))


@pytest.mark.parametrize(
    ("length", "first", "message"),
    [
        (3, [0.5, 0.2], "the sum is 0.7"),
        (3, [1.5, -0.5], "probabilities >= 0"),
        (3, [0.5, 0.5j], "first: real numbers are allowed"),
        (3, [1.0], r"shape \(2,\) \* j, got shape \(1,\)"),
        (21, None, r"at most 2\^20 sequences"),
    ],
)
def test_what_is_no_distribution_of_first_tokens_is_refused(length, first, message):
    with pytest.raises(ValueError, match=message):
        sequence_probabilities(create("rnn", 2, 3, seed=0), length, first)
    narrow = torch.tensor([0.1, 0.9], requires_grad=True)
    assert sequence_probabilities(create("rnn", 2, 3, seed=0), 2, narrow).sum() == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("cells", ["a", None, float("nan"), 1.5, True, 0])
def test_a_number_of_cells_is_whole(cells):
    with pytest.raises(ValueError, match="cells: a whole number of at least 1 is allowed"):
        NetworkScorer(create("rnn", 2, 3), 0, cells=cells)


def test_masked_tokens_are_not_scored_as_if_they_were_there():
    with pytest.raises(ValueError, match="masked"):
        NetworkScorer(create("rnn", 2, 3), 0).log_probabilities(np.ma.masked_equal([[0, 1, 1]], 1))
