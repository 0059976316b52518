"""Counted blocks on long documents: the windows are those of the networks, and every number is one of the model's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from experiments.books.counting import DiscountedCounts, check, data, run
from experiments.books.run import TEST, fixed_windows
from experiments.books.runs import EXPERIMENT
from experiments.books.texts import shelves
from lib.runs.definition import Experiment

SMALL: dict[str, Any] = {"corpus": "sotu", "documents": 7, "merges": 30, "context": 32, "test": 3, "order": 2}


def test_the_numbers_are_those_of_the_model_on_the_windows_of_the_networks(tmp_path):
    result = run(check(SMALL), 0, tmp_path)
    texts = shelves("sotu", 30, 7)
    windows = fixed_windows(texts.test, 32, 3, (0, TEST))
    losses = DiscountedCounts(texts.training.documents, 2, texts.vocabulary).losses(windows.tokens)
    assert np.allclose(result["mean_nll"], losses.mean(axis=(1, 2)))
    assert np.allclose(np.array(result["nll"])[:, 0], losses[:, :, 0].mean(axis=1))
    assert np.allclose(np.mean(result["document_means"], axis=1), result["mean_nll"], atol=1e-6)
    assert result["counted_tokens"] == sum(map(len, texts.training.documents))
    assert run(check(SMALL), 1, tmp_path) == result


def test_a_limit_takes_the_same_share_of_every_document(tmp_path):
    whole, half = (run(check({**SMALL, "tokens": tokens}), 0, tmp_path) for tokens in (None, 10_000))
    assert 10_000 - 7 <= half["counted_tokens"] <= 10_000 < whole["counted_tokens"]
    assert half["mean_nll"][2] > whole["mean_nll"][2]


@pytest.mark.parametrize("changes", [{"order": -1}, {"tokens": 0}, {"corpus": "nothing"}, {"depth": 1}])
def test_parameters_that_cannot_run_are_refused(changes: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(changes)) if "corpus" not in changes else "corpus|nothing"):
        check({**SMALL, **changes})


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_the_windows_are_those_of_the_networks_in_every_profile(profile: str):
    networks = Experiment(EXPERIMENT).runs(profile)
    for single in Experiment("book-counts").runs(profile):
        for key in ("corpus", "documents", "merges", "context", "test", "data_seed"):
            assert {network.parameters[key] for network in networks} == {single.parameters[key]}
        assert data(single.parameters) == data(networks[0].parameters)
        check(single.parameters)
        trained = Counter(
            network.parameters["epoch_steps"] * fit["batch"] * fit["epochs"] * network.parameters["context"]
            for network in networks
            for fit in [network.parameters["fit"]]
        )
        ((usual, _),) = trained.most_common(1)  # what networks are compared at; some were trained for longer or shorter
        assert single.parameters["tokens"] in (None, usual)
