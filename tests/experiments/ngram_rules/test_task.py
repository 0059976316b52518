"""Losses of sentences of different lengths against sums written out, and the choices of what a batch is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.ngram_rules.task import SentencePrediction
from lib.models import create
from lib.training import FitSettings, fit

CPU = torch.device("cpu")
SENTENCES = [[0, 1, 2, 3], [2, 2], [3, 0, 1], [1]]
END = 4


def model():
    return create("relu_ssm", END + 1, 6, embedding=3, seed=2).double()


def losses(network, given=1):
    """-ln Q of every predicted token, by sentence."""
    found = []
    for sentence in SENTENCES:
        closed = [*sentence, END]
        logs = network(torch.tensor([closed[:-1]])).log_softmax(dim=-1)[0].detach()
        found.append([-float(logs[t - 1, closed[t]]) for t in range(given, len(closed))])
    return found


def test_the_loss_is_the_mean_over_predictions_and_padding_counts_nothing() -> None:
    network = model()
    task = SentencePrediction(SENTENCES, END)
    (batch,) = task.batches(10, 0, CPU)
    everything = [loss for sentence in losses(network) for loss in sentence]
    assert float(task.loss(network, batch).detach()) == pytest.approx(np.mean(everything), rel=1e-12)
    assert task.validation_loss(network, CPU) == pytest.approx(np.mean(everything), rel=1e-12)


def test_a_sum_adds_the_words_of_a_sentence() -> None:
    network = model()
    task = SentencePrediction(SENTENCES, END, reduction="sum")
    (batch,) = task.batches(10, 0, CPU)
    assert float(task.loss(network, batch).detach()) == pytest.approx(
        np.mean([sum(s) for s in losses(network)]), rel=1e-12
    )


def test_given_words_are_not_predicted() -> None:
    network = model()
    task = SentencePrediction([s for s in SENTENCES if len(s) > 2], END, given=3)
    expected = [loss for s, own in zip(SENTENCES, losses(network, 3), strict=True) if len(s) > 2 for loss in own]
    assert task.validation_loss(network, CPU) == pytest.approx(np.mean(expected), rel=1e-12)


def test_an_epoch_of_prefixes_holds_every_prediction_once() -> None:
    network = model()
    task = SentencePrediction(SENTENCES, END, examples="prefixes")
    everything = [loss for sentence in losses(network) for loss in sentence]
    assert task.steps(1) == len(everything)
    found = [float(task.loss(network, batch).detach()) for batch in task.batches(1, 3, CPU)]
    assert sorted(found) == pytest.approx(sorted(everything))
    pairs = [float(task.loss(network, batch).detach()) * int(batch.counts.sum()) for batch in task.batches(3, 3, CPU)]
    assert sum(pairs) == pytest.approx(sum(everything))


def test_one_sentence_at_a_time_sees_every_sentence_in_an_order_of_its_epoch() -> None:
    task = SentencePrediction(SENTENCES, END, seed=1)

    def order(epoch):
        return [tuple(batch.tokens[0].tolist()) for batch in task.batches(1, epoch, CPU)]

    assert order(0) == order(0)
    assert sorted(order(0)) == sorted(order(1)) == sorted((*s, END) for s in map(tuple, SENTENCES))
    assert any(order(epoch) != order(0) for epoch in range(1, 6))


def test_a_penalty_is_added_in_training_only() -> None:
    network = model()
    task = SentencePrediction(SENTENCES, END, penalty=lambda m: m.layers[0].transition.square().sum())
    (batch,) = task.batches(10, 0, CPU)
    extra = float(network.layers[0].transition.detach().square().sum())
    assert float(task.loss(network, batch).detach()) == pytest.approx(task.validation_loss(network, CPU) + extra)


def test_it_can_be_learned_by_heart() -> None:
    network = model().float()
    task = SentencePrediction([[0, 1, 2, 3], [3, 2, 2], [1, 0]], END)
    course = fit(
        network,
        task,
        FitSettings(optimizer="adam", learning_rate=0.02, batch=1, epochs=60, patience=None, clip=None),
        progress=False,
    )
    assert course.best_loss < 0.05


@pytest.mark.parametrize(
    ("sentences", "choices", "message"),
    [
        ([], {}, "one or more sequences"),
        ([[]], {}, "one or more ids"),
        ([[0, 4]], {}, "ids 0 .. 3"),
        ([[0.5]], {}, "ids"),
        ([[0, 1]], {"given": 3}, "given"),
        ([[0, 1]], {"examples": "words"}, "examples"),
        ([[0, 1]], {"reduction": "max"}, "reduction"),
    ],
)
def test_other_sentences_and_choices_are_refused(sentences, choices, message) -> None:
    with pytest.raises(ValueError, match=message):
        SentencePrediction(sentences, END, **choices)
