"""The claims about memorisation: each check that the chapter makes, and a case in which it has to fail."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from lib.processes import NgramLanguage
from lib.report import claims
from lib.theory import memorizing_ssm, ngram_ssm
from lib.theory.memorizing import exact
from lib.theory.memorizing.languages import distances, smoothed_law, valid_starts
from lib.theory.windows.rational_matrices import exact_rank

LANGUAGE = NgramLanguage.from_paper()
LAWS = LANGUAGE.rules.laws()
STARTS = valid_starts(LANGUAGE)
OLDEST = exact.rationals([[[0], [1], [2]], [[5], [1], [2]]])
WORDS = exact.rationals([[[1], [0], [0]], [[0], [1], [0]], [[1], [1], [0]], [[2], [0], [1]]])
TARGETS = exact.rationals([[5], [-2], [7], [1]])


def agreements(hidden: np.ndarray) -> int:
    return sum(len(column) - len(set(column.tolist())) for column in hidden.T)


def random_data(count: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((count, 3, width)), generator.standard_normal((count, 1))


def worst(model) -> float:
    return max(float(d.max()) for d in distances(model, LAWS, STARTS))


def test_distinct_coordinates_need_as_many_neurons_as_inputs() -> None:
    two = exact.states(exact.rationals([[6, 4], [-9, -6]]), exact.rationals([[1], [3]]), OLDEST)
    data = np.concatenate([OLDEST, OLDEST[:1] + 1])
    three = exact.exact_memorizer(data, TARGETS[:3], 3).hidden[:2]
    arguments = {"at_most": 0, "outcome": "false", "erratum": 34}
    claims.check("ngram-lemmaA3", agreements(three), printed=agreements(two), **arguments)
    with pytest.raises(claims.ClaimFailed):  # the two cases exchanged
        claims.check("ngram-lemmaA3", agreements(two), printed=agreements(three), **arguments)
    shorter = exact.states(exact.rationals([[6, 4], [-9, -6]]), exact.rationals([[1], [3]]), OLDEST[:, :2])
    with pytest.raises(claims.ClaimFailed):  # sequences of two inputs: two neurons do, and nothing needs correction
        claims.check("ngram-lemmaA3", agreements(three), printed=agreements(shorter), **arguments)


def test_generic_weights_are_nilpotent_and_tell_sequences_apart() -> None:
    model = exact.exact_memorizer(WORDS, TARGETS, 3)
    claims.check("ngram-lemmaA3", agreements(model.hidden), at_most=0)
    claims.check("ngram-lemmaA3", np.count_nonzero(model.A @ model.A @ model.A), at_most=0)
    with pytest.raises(claims.ClaimFailed):  # one power less
        claims.check("ngram-lemmaA3", np.count_nonzero(model.A @ model.A), at_most=0)
    register = exact.rationals(np.eye(4, k=-1))  # not generic: a shift register
    with pytest.raises(claims.ClaimFailed):
        claims.check(
            "ngram-lemmaA3", agreements(exact.states(register, exact.rationals(np.eye(4, 1)), WORDS)), at_most=0
        )


def test_the_determinant_is_the_product_of_surviving_features() -> None:
    model = exact.exact_memorizer(WORDS, TARGETS, 3)
    determinant = abs(exact.determinant(model.features))
    product = np.prod([model.features[i, k] for k, i in enumerate(model.survivors)])
    claims.check("ngram-lemmaA4", [float(determinant - product)], [0.0], 0)
    shifted = np.prod([model.features[i, k - 1] for k, i in enumerate(model.survivors)])
    with pytest.raises(claims.ClaimFailed):  # neurons off by one
        claims.check("ngram-lemmaA4", [float(determinant - shifted)], [0.0], 0)


def test_natural_order_fails_in_float32_where_gap_order_works() -> None:
    errors, conditions = {}, {}
    for method, width in (("paper", 2), ("gap", 2), ("winner_take_all", 16)):
        data = [random_data(145, width, seed) for seed in range(5)]
        models = [memorizing_ssm(x, y, 3, method, dtype=np.float32) for x, y in data]
        errors[method] = np.array([np.abs(m(x) - y).max() for m, (x, y) in zip(models, data, strict=True)])
        conditions[method] = np.array([memorizing_ssm(x, y, 3, method).condition for x, y in data])
    claims.check("ngram-lemmaA4", np.median(errors["paper"]), at_least=1)
    claims.check("ngram-lemmaA4", max(errors["gap"].max(), errors["winner_take_all"].max()), at_most=1e-2)
    claims.check("ngram-lemmaA4", np.median(conditions["gap"] / conditions["paper"]), at_most=1e-4)
    for measured, bounds in (
        (np.median(errors["gap"]), {"at_least": 1}),
        (errors["paper"].max(), {"at_most": 1e-2}),
        (np.median(conditions["paper"] / conditions["gap"]), {"at_most": 1e-4}),
    ):
        with pytest.raises(claims.ClaimFailed):  # the two orders exchanged
            claims.check("ngram-lemmaA4", measured, **bounds)


def test_fractions_reproduce_every_output() -> None:
    model = exact.exact_memorizer(WORDS, TARGETS, 3)
    claims.check("ngram-prop45", np.count_nonzero(model(WORDS) - TARGETS), at_most=0)
    with pytest.raises(claims.ClaimFailed):  # the window one input too short
        claims.check("ngram-prop45", np.count_nonzero(model(WORDS[:, 1:]) - TARGETS), at_most=0)


@pytest.mark.parametrize("width", [1, 2, 16])
def test_random_data_are_memorised_and_with_the_wrong_outputs_not(width: int) -> None:
    x, y = random_data(145, width, 0)
    for dtype, bound in ((np.float64, 1e-9), (np.float32, 2e-2)):
        model = memorizing_ssm(x, y, 3, dtype=dtype)
        claims.check("ngram-prop45", np.abs(model(x) - y).max(), at_most=bound)
        with pytest.raises(claims.ClaimFailed):  # outputs of the next sequence
            claims.check("ngram-prop45", np.abs(model(x) - np.roll(y, 1, axis=0)).max(), at_most=bound)
        shorter = memorizing_ssm(x, y, 2, dtype=dtype)
        other = x.copy()
        other[:, 0] = 0
        assert np.abs(shorter(other) - y).max() <= bound  # order 2 never sees the first input
        with pytest.raises(claims.ClaimFailed):  # order 3 does
            claims.check("ngram-prop45", np.abs(model(other) - y).max(), at_most=bound)


def test_zeros_may_not_be_as_large_as_epsilon_each() -> None:
    claims.check("ngram-thm41", np.abs(smoothed_law(LAWS, 1e-3) - LAWS).sum(axis=1).max(), at_most=0.51e-3)
    each = np.where(LAWS == 0, 0.9e-3, LAWS)
    each /= each.sum(axis=1, keepdims=True)
    for wrong in (each, smoothed_law(LAWS, 2e-3)):  # small one by one only; epsilon / (4 Z) of twice the epsilon
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-thm41", np.abs(wrong - LAWS).sum(axis=1).max(), at_most=0.51e-3)


def test_two_neurons_with_a_window_miss_two_pairs_of_three_inputs() -> None:
    A, B = exact.rationals([[6, 4], [-9, -6]]), exact.rationals([[1], [3]])
    false = {"at_most": 0, "outcome": "false", "erratum": 34, "note": "it holds from N = n on"}

    def missed(sequences: np.ndarray) -> float:
        states = exact.states(A, B, sequences)
        return 0.0 if (states[0] != states[1]).any() else 0.5

    claims.check("ngram-prop45", missed(OLDEST), **false)
    with pytest.raises(claims.ClaimFailed):  # two inputs are no more than two neurons see
        claims.check("ngram-prop45", missed(OLDEST[:, :2]), **false)


def test_without_a_bias_multiples_have_one_feature() -> None:
    ray = exact.rationals(np.outer([1, 2, 3], [1, 1, 1])[:, :, None])
    model = exact.exact_memorizer(ray, TARGETS[:3], 3)
    unbiased = exact.rectified(model.hidden)
    claims.check("ngram-nobias", exact_rank(unbiased), at_most=1)
    claims.check("ngram-nobias", exact_rank(model.features), 3, 0)
    with pytest.raises(claims.ClaimFailed):  # with the biases
        claims.check("ngram-nobias", exact_rank(model.features), at_most=1)
    with pytest.raises(claims.ClaimFailed):  # sequences that are no multiples, without any
        claims.check("ngram-nobias", exact_rank(exact.rectified(exact.states(model.A, model.B, WORDS[:3]))), at_most=1)


def test_a_projection_on_the_simplex_needs_no_epsilon_and_a_softmax_does() -> None:
    model = ngram_ssm(LANGUAGE, 2, 1e-3)
    contexts = LANGUAGE.rules.contexts
    wanted = np.where(LAWS == 0, -1.0, LAWS)
    given = memorizing_ssm(model.embedding[contexts], wanted, 3)(model.embedding[contexts])
    positive = np.maximum(given, 0)  # tau = 0: the positive part of a distribution sums to 1
    claims.check("ngram-sparsemax", np.sum((positive > 0) != (LAWS > 0)), at_most=0)
    claims.check("ngram-sparsemax", np.abs(positive - LAWS).sum(axis=1).max(), at_most=1e-12)
    soft = model.next_word_law(contexts)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-sparsemax", np.sum((soft > 0) != (LAWS > 0)), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-sparsemax", np.abs(soft - LAWS).sum(axis=1).max(), at_most=1e-12)


def hardmax_laws(words: int) -> set[tuple[Fraction, ...]]:
    """One weight for all the largest logits: uniform on any set of words that is not empty."""
    sets = [chosen for size in range(1, words + 1) for chosen in combinations(range(words), size)]
    return {tuple(Fraction(int(word in chosen), len(chosen)) for word in range(words)) for chosen in sets}


@pytest.mark.parametrize("words", [2, 3])
def test_a_hardmax_has_no_other_laws_than_those_that_are_uniform_on_some_words(words: int) -> None:
    given = set()
    for logits in product(range(words), repeat=words):  # every order, with every tie
        largest = [value == max(logits) for value in logits]
        given.add(tuple(Fraction(int(one), sum(largest)) for one in largest))
    assert given == hardmax_laws(words) and len(given) == 2**words - 1


def test_a_hardmax_needs_an_epsilon_for_unequal_chances_and_none_for_equal_ones() -> None:
    def nearest(*law: Fraction) -> float:
        return float(min(sum(abs(p - q) for p, q in zip(law, of, strict=True)) for of in hardmax_laws(len(law))))

    false = {"at_most": 0, "outcome": "false", "erratum": 49, "note": "a sparsemax gives any law"}
    third, half = Fraction(1, 3), Fraction(1, 2)
    assert nearest(2 * third, third) == float(third)
    claims.check("ngram-sparsemax", nearest(2 * third, third), **false)
    for uniform in ((half, half), (Fraction(1), Fraction(0)), (third, third, third)):
        with pytest.raises(claims.ClaimFailed, match="said to be false"):  # these it has
            claims.check("ngram-sparsemax", nearest(*uniform), **false)
    with pytest.raises(claims.ClaimFailed):  # as the paper has it
        claims.check("ngram-sparsemax", nearest(2 * third, third), at_most=0)


FEW = {  # fewer contexts than words in a context, and all starts of up to 40 words or so
    "one of two words": ({"xaaa": 5, "yaaa": -2, "aaaa": 7}, [c + "a" * k for c in "xy" for k in range(3, 40)]),
    "one of three": (
        {"xaaaaa": 5, "yaaaaa": -2, "zaaaaa": 3, "aaaaaa": 1},
        [c + "a" * k for c in "xyz" for k in range(5, 40)],
    ),
    "in turn": ({"xyxy": 1, "yxyx": -4}, [("xy" * 20)[i : i + k] for i in (0, 1) for k in range(4, 39)]),
    "always the same": ({"aaa": 3}, ["a" * k for k in range(3, 40)]),
}
WORD_NUMBERS = {"a": 1, "x": 2, "y": 3, "z": 5}


def held_by(read: str, keep: Fraction) -> Fraction:
    total = Fraction(0)
    for word in read:  # the recurrence itself
        total = keep * total + WORD_NUMBERS[word]
    return total


def cluster_error(name: str, keep: Fraction) -> Fraction:
    """Largest error of the logit with A = keep I and one neuron for each rule, all reading one number."""
    logits, starts = FEW[name]
    points = sorted((held_by(context, keep), logit) for context, logit in logits.items())
    values = [value for value, _ in points]
    biases = [1 - values[0], *(-value for value in values[:-1])]
    weights: list[Fraction] = []
    for i, (value, logit) in enumerate(points):  # forward substitution: the features are triangular
        assert all(value + bias <= 0 for bias in biases[i + 1 :]) and value + biases[i] > 0
        rest = logit - sum((w * (value + b) for w, b in zip(weights, biases[:i], strict=True)), Fraction(0))
        weights.append(rest / (value + biases[i]))
    order = len(next(iter(logits)))

    def output(read: str) -> Fraction:
        return sum((w * max(held_by(read, keep) + b, 0) for w, b in zip(weights, biases, strict=True)), Fraction(0))

    return max(abs(output(read) - logits[read[-order:]]) for read in starts)


def cluster_bound(name: str, keep: Fraction) -> Fraction:
    """2 Z R / delta times lambda / (1 - lambda), or what replaces the first factor where one slope is larger."""
    logits, _ = FEW[name]
    order = len(next(iter(logits)))
    jump = max(logits.values()) - min(logits.values())
    slope = max(2 * jump / keep ** (order - 1), Fraction(max(map(abs, logits.values()))))
    return slope * 5 * keep**order / (1 - keep)


@pytest.mark.parametrize("name", FEW)
def test_rules_that_are_fewer_than_words_of_context_need_no_window(name: str) -> None:
    keeps = [Fraction(1, 10**power) for power in (2, 3, 4, 5)]
    errors, bounds = ([of(name, keep) for keep in keeps] for of in (cluster_error, cluster_bound))
    claims.check("ngram-thm41", [float(e / b) for e, b in zip(errors, bounds, strict=True)], at_most=1)
    for larger, smaller in pairwise(errors):
        assert smaller <= Fraction(11, 100) * larger  # at least in proportion to lambda
    assert float(errors[-1]) <= 1e-3
    with pytest.raises(claims.ClaimFailed):  # a fading that is too slow to part the clusters
        claims.check("ngram-thm41", float(cluster_error(name, Fraction(9, 10))), at_most=1e-3)


def test_a_nilpotent_matrix_of_as_many_neurons_as_rules_cannot_part_two_contexts() -> None:
    keep = Fraction(1, 1000)
    assert cluster_error("one of two words", keep) == 6 * keep
    model = exact.exact_memorizer(WORDS[:3], TARGETS[:3], 3)
    read = exact.rationals([[[WORD_NUMBERS[word]] for word in context] for context in ("xaaa", "yaaa")])
    assert not (model.A @ model.A @ model.A).any()
    first, second = exact.states(model.A, model.B, read)
    assert (first == second).all()
    shorter = exact.states(model.A, model.B, read[:, :3])
    assert (shorter[0] != shorter[1]).all()  # with the word one place nearer it does
    missed = Fraction(5 - -2, 2)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-thm41", [float(missed / cluster_bound("one of two words", keep))], at_most=1)


@pytest.mark.parametrize("width", [1, 2, 16])
def test_the_theorem_holds_at_epsilon_and_not_at_less_than_half(width: int) -> None:
    for dtype in (np.float64, np.float32):
        found = [worst(ngram_ssm(LANGUAGE, width, epsilon, dtype=dtype)) / epsilon for epsilon in (1e-3, 1e-6)]
        claims.check("ngram-thm41", found, at_most=1)
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-thm41", found, at_most=0.49)


def test_the_theorem_fails_for_shuffled_rules_and_in_natural_order_in_float32() -> None:
    model = ngram_ssm(LANGUAGE, 2, 1e-3)
    shuffled = max(float(d.max()) for d in distances(model, np.roll(LAWS, 1, axis=0), STARTS))
    natural = worst(ngram_ssm(LANGUAGE, 16, 1e-3, method="paper", dtype=np.float32))
    for measured in (shuffled / 1e-3, natural / 1e-3):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-thm41", measured, at_most=1)


def test_the_share_of_valid_sentences_is_one_only_for_small_epsilon() -> None:
    first = np.tile(LANGUAGE.encode("Ron woke at"), (300, 1))
    share = {e: np.mean([t in LANGUAGE for t in ngram_ssm(LANGUAGE, 1, e).sample(first, 0)]) for e in (1e-6, 0.2)}
    claims.check("ngram-thm41", share[1e-6], at_least=1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-thm41", share[0.2], at_least=1)


def test_rules_of_a_text_need_all_three_words() -> None:
    text = [f"w{k}" for k in np.random.default_rng(0).integers(0, 20, 1500)]
    language = NgramLanguage.from_corpus(text, n=4, end=False)
    model = ngram_ssm(language, 16, 1e-3, method="winner_take_all", sparse=True)
    contexts, laws = language.rules.contexts, language.rules.laws()
    claims.check("ngram-thm41", np.abs(model.next_word_law(contexts) - laws).sum(axis=1).max(), at_most=1e-3)
    with pytest.raises(claims.ClaimFailed):  # the first word exchanged
        other = contexts.copy()
        other[:, 0] = (other[:, 0] + 1) % 20
        claims.check("ngram-thm41", np.abs(model.next_word_law(other) - laws).sum(axis=1).max(), at_most=1e-3)
