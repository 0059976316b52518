"""One network on documents of facts: train, then ask which facts it recalls, how old and how frequent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from experiments.key_values.task import KeyValues, value_losses
from lib.models import create
from lib.processes import SantaFeProcess
from lib.processes.discrete.santa_fe import mentions
from lib.runs.training import RunParameters, trained
from lib.training.settings import matrix_products

TEST = 3  # stream of random numbers: the documents that every network is tested on
RANKS, AGES = 4, 2  # one bin of ranks is so many times as wide as the one before it, and of ages


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the model accept.

    An epoch of `fit` is `updates` updates, each on fresh documents.
    """

    architecture: str
    width: int = Field(ge=1)
    depth: int = Field(1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    pairs: int = Field(ge=2)  # of a document
    exponent: float = Field(0.8, gt=0, lt=1)  # of the growth of information, while there are topics enough
    topics: int = Field(64, ge=2)
    values: int = Field(8, ge=2)
    updates: int = Field(100, ge=1)  # between two evaluations
    validation: int = Field(200, ge=1)  # documents that decide which epoch was the best
    tested: int = Field(1000, ge=1)  # others, the same for all networks


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built without its numbers."""
    chosen = Parameters.read(parameters, "key_values")
    with torch.device("meta"):
        _network(chosen, chosen.topics + chosen.values, 0)
    return chosen.model_dump()


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network, with the weights of its best evaluation at the end, and test it.

    Returns the course of training, the size of its state in the middle of a document, and what it does on `tested`
    documents: the loss at every pair and its optimum, nats; the losses of facts that were mentioned before, summed by
    rank of the key and by age of the last mention, with their counts; and facts that are carried across the middle.
    """
    chosen = Parameters(**parameters)
    source = SantaFeProcess(chosen.exponent, chosen.topics, chosen.values)
    task = KeyValues(source, chosen.pairs, updates=chosen.updates, validation=chosen.validation, seed=seed)
    model = _network(chosen, task.vocabulary, seed).to(device)
    course, result = trained(
        model,
        task,
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.pairs} pairs seed {seed}",
        progress=progress,
    )
    result["state_size"] = model.state_size(2 * (chosen.pairs // 2))
    if not course.best_epoch:
        return result
    documents = task.documents(chosen.tested, np.random.default_rng([0, 0, TEST]))
    losses = value_losses(model, documents, chosen.values, device=device)
    return result | recalled(losses, documents[:, ::2] - chosen.values, chosen.values)


def _network(chosen: Parameters, vocabulary: int, seed: int) -> Any:
    options = {"seed": np.random.default_rng([seed, 0]), **chosen.options}
    return create(chosen.architecture, vocabulary, chosen.width, chosen.depth, **options)


def recalled(losses: ArrayLike, keys: ArrayLike, values: int) -> dict[str, Any]:
    """What the losses (n, pairs) of a network, nats, say of its memory; keys (n, pairs) from 0, the likeliest first.

    optimum_by_pair is that of these very documents: ln(values) where the key is new, 0 where it is not.
    by_rank_and_age: sums of losses over facts that were mentioned before, rows by rank of the key, columns by pairs
    since the last mention, with the counts in `facts`. carried: mean number of facts of the first half that are
    recalled in the second, each counted at its first mention there as 1 - loss / ln(values); shared: how many there
    are.
    """
    given, asked, most = np.asarray(losses, dtype=np.float64), np.asarray(keys), float(np.log(values))
    age = ages(asked)
    known = age > 0
    ranks, old = bins(int(asked.max()) + 1, RANKS), bins(given.shape[1] - 1, AGES)
    cells: Any = {"bins": (_edges(ranks), _edges(old))}
    sums, _, _ = np.histogram2d(asked[known] + 1, age[known], weights=given[known], **cells)
    counts, _, _ = np.histogram2d(asked[known] + 1, age[known], **cells)
    middle = given.shape[1] // 2
    places = np.arange(given.shape[1])
    # first mention in the second half of a key that the first half has mentioned
    carried = known & (places >= middle) & (places - age < middle)
    return {
        "loss_by_pair": given.mean(axis=0).tolist(),
        "optimum_by_pair": (most * ~known).mean(axis=0).tolist(),
        "loss_of_new": float(given[~known].mean()),
        "ranks": ranks,
        "ages": old,
        "by_rank_and_age": sums.tolist(),
        "facts": counts.astype(int).tolist(),
        "carried": float(((1.0 - given / most) * carried).sum(axis=1).mean()),
        "shared": float(carried.sum(axis=1).mean()),
    }


def ages(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Pairs since the last mention of the same key in its row, 0 where there is none, shape of keys (n, pairs).

    Cost O(n pairs log pairs).
    """
    order, _, known = mentions(keys)
    found = np.zeros(keys.shape, dtype=np.int64)
    found[:, 1:] = np.where(known[:, 1:], np.diff(order, axis=1), 0)
    age = np.empty_like(found)
    np.put_along_axis(age, order, found, axis=1)
    return age


def bins(last: int, factor: int) -> list[list[int]]:
    """Bins [first, last] of the numbers 1 .. last, the ends of each `factor` times those of the one before it."""
    ends = [factor**power for power in itertools.takewhile(lambda power: factor**power < last, itertools.count())]
    ends.append(max(last, 1))
    return [[before + 1, end] for before, end in itertools.pairwise([0, *ends])]


def _edges(ranges: list[list[int]]) -> NDArray[np.float64]:
    return np.array([first for first, _ in ranges] + [ranges[-1][1] + 1]) - 0.5
