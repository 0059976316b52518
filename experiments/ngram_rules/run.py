"""One network that learns the rules of an n-gram language by gradient descent (Nandakumar, Qu, Mi and Liu, Sec. 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.ngram_rules.inside import inside
from experiments.ngram_rules.languages import PrefixTree, agreement_language
from experiments.ngram_rules.measures import (
    Completions,
    Histories,
    altered_histories,
    complete,
    counted_laws,
    divergence_by_depth,
    next_word_laws,
    rule_following,
    seen_contexts,
)
from experiments.ngram_rules.task import SentencePrediction
from lib.models import create
from lib.processes.ngram.language import NgramLanguage
from lib.runs.training import RunParameters, trained
from lib.theory.memorizing.languages import ngram_ssm
from lib.training.settings import matrix_products

LANGUAGES = {"paper": NgramLanguage.from_paper, "agreement": agreement_language}
HISTORIES = 1000  # of each kind


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the model accept."""

    architecture: str
    width: int = Field(145, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    language: Literal["paper", "agreement"] = "paper"
    sentences: int = Field(40, ge=1)  # to train on
    drawing: Literal["distinct", "repeated", "templates"] = "distinct"  # all different; independent; templates alike
    given: int = Field(1, ge=1)  # words of a sentence that are not predicted
    examples: Literal["sentences", "prefixes"] = "sentences"
    reduction: Literal["mean", "sum"] = "mean"
    prompt: int = Field(6, ge=1)  # words
    start: Literal["random", "construction"] = "random"  # or the network of Theorem 4.1, one neuron per rule
    epsilon: float = Field(1e-3, gt=0, lt=2)  # of the construction
    penalty: float = Field(0.0, ge=0)  # times the squared Frobenius norm of A^(n-1)
    inside: bool = False  # whether to record states, spectrum and context window


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built without its numbers."""
    chosen = Parameters.read(parameters, "ngram_learning")
    language, tree = language_of(chosen.language)
    if chosen.sentences > len(tree.tokens) and chosen.drawing != "repeated":
        raise ValueError(
            f"sentences: at most {len(tree.tokens)}, all of the language, are allowed, got {chosen.sentences}"
        )
    shortest = int(tree.lengths.min())
    if max(chosen.prompt, chosen.given) >= shortest:
        raise ValueError(f"prompt and given: fewer than {shortest} words, the shortest sentence, are allowed")
    if (chosen.start == "construction" or chosen.penalty) and chosen.architecture != "relu_ssm":
        raise ValueError(
            f"start and penalty: relu_ssm has a construction and a linear A, {chosen.architecture} has not"
        )
    if chosen.start == "construction" and chosen.width != len(language.rules):
        raise ValueError(f"width: the construction has {len(language.rules)} neurons, one a rule, got {chosen.width}")
    if chosen.start == "construction" and chosen.options.get("window") is not None:
        raise ValueError(f"window: none is allowed with the construction, got {chosen.options['window']}")
    with torch.device("meta"):
        _network(chosen, 0)
    return chosen.model_dump()


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network on some sentences, and measure how it completes, what rules it obeys and what it keeps.

    Returns losses by epoch; how prompts are completed, by the network and by two n-gram counters of the same sentences;
    divergences from the true distribution by depth; how it does on histories that the language has not; and, if asked
    for, what `inside` finds. All averages over the language are exact.
    """
    chosen = Parameters(**parameters)
    language, tree = language_of(chosen.language)
    rows = training_rows(chosen, seed)
    model = _network(chosen, seed).to(device)
    task = SentencePrediction(
        [tree.tokens[row, : tree.lengths[row]] for row in rows],
        tree.end,
        seed=seed,
        given=chosen.given,
        examples=chosen.examples,
        reduction=chosen.reduction,
        penalty=_penalty(chosen, language.n),
    )
    course, result = trained(
        model,
        task,
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.width} seed {seed}",
        progress=progress,
    )
    if not course.best_epoch:
        return result
    seen = seen_contexts(tree, rows, language.n - 1)
    laws = next_word_laws(model, tree, device)
    model = model.to("cpu")
    result |= {
        "rules": len(language.rules),
        "rules_seen": int(_rules_seen(language, tree, rows)),
        "network": completion_rates(complete(laws, tree, chosen.prompt, seen), tree, rows, chosen.prompt),
        "divergence_by_depth": divergence_by_depth(laws, tree).tolist(),
        "histories": rule_following(model, histories_of(chosen.language)),
    }
    for name, back_off in (("counter", False), ("counter with back-off", True)):
        counted = counted_laws(tree, rows, language.n, back_off)
        result[name] = completion_rates(complete(counted, tree, chosen.prompt, seen), tree, rows, chosen.prompt)
    return result | (inside(model, language, tree, seed) if chosen.inside else {})


def completion_rates(done: Completions, tree: PrefixTree, rows: NDArray[np.int64], words: int) -> dict[str, Any]:
    """Means over the prompts of sentences that were not trained on.

    "held out": every such sentence counts once; "prompts": every prompt of such a sentence counts once; "new prompts":
    only those that no training sentence begins with (None if there are none).
    """
    held = np.ones(len(tree.tokens), dtype=bool)
    held[rows] = False
    count = np.bincount(tree.nodes[held, words], minlength=len(tree))[done.prompts]
    old = np.isin(done.prompts, tree.nodes[rows, words])
    weights = {
        "held out": count.astype(np.float64),
        "prompts": (count > 0) * 1.0,
        "new prompts": (count > 0) * ~old * 1.0,
    }
    values = {
        "greedy": done.greedy,
        "sampled": done.sampled,
        "greedy_unseen": done.unseen_greedy,
        "sampled_unseen": done.unseen_sampled,
    }
    return {
        kind: {name: float(weight @ value / weight.sum()) if weight.sum() else None for name, value in values.items()}
        for kind, weight in weights.items()
    }


@lru_cache(maxsize=4)
def language_of(name: str) -> tuple[NgramLanguage, PrefixTree]:
    """A language by name, and the tree of its sentences."""
    if name not in LANGUAGES:
        raise ValueError(f"language: one of {', '.join(LANGUAGES)} is allowed, got {name!r}")
    language = LANGUAGES[name]()
    return language, PrefixTree(language)


@lru_cache(maxsize=4)
def histories_of(name: str) -> Histories:
    """The same for all networks."""
    return altered_histories(*language_of(name), HISTORIES, 0)


def training_rows(chosen: Parameters, seed: int) -> NDArray[np.int64]:
    """Which sentences a seed trains on; more of them begin with the same ones."""
    tree = language_of(chosen.language)[1]
    random = np.random.default_rng([seed, 0, 1])
    if chosen.drawing == "repeated":
        return random.integers(len(tree.tokens), size=chosen.sentences)
    order = random.permutation(len(tree.tokens))
    if chosen.drawing == "distinct":
        return order[: chosen.sentences]
    kind = tree.lengths[order]  # sentences of one template have one length
    share = [order[kind == length] for length in np.unique(kind)]
    turns = np.concatenate([np.arange(len(part)) for part in share])
    return np.concatenate(share)[np.argsort(turns, kind="stable")][: chosen.sentences]


def _rules_seen(language: NgramLanguage, tree: PrefixTree, rows: NDArray[np.int64]) -> int:
    nodes = np.unique(tree.nodes[rows])
    nodes = nodes[(nodes >= 0) & ~tree.is_whole[nodes] & (tree.depth[nodes] >= language.n - 1)]
    return len(np.unique(tree.last_words(language.n - 1)[nodes], axis=0))


def _network(chosen: Parameters, seed: int) -> Any:
    language, tree = language_of(chosen.language)
    options = {"seed": np.random.default_rng([seed, 0, 2]), **chosen.options}
    model = create(chosen.architecture, tree.end + 1, chosen.width, 1, **options)
    if chosen.start == "construction":
        made = ngram_ssm(
            language, model.embedding.embedding_dim, chosen.epsilon, seed=np.random.default_rng([seed, 0, 3])
        )
        layer = model.layers[0]
        with torch.no_grad():
            model.embedding.weight[: tree.end] = torch.from_numpy(made.embedding)
            model.embedding.weight[tree.end] = 0.0  # never read
            for parameter, value in (
                (layer.weight_hh, made.ssm.A),
                (layer.input_matrix, made.ssm.B),
                (layer.bias, made.ssm.b),
                (model.head.weight, made.ssm.C),
            ):
                parameter.copy_(torch.from_numpy(np.asarray(value)))
    return model


def _penalty(chosen: Parameters, order: int) -> Any:
    if not chosen.penalty:
        return None
    return lambda model: (
        chosen.penalty * torch.linalg.matrix_power(model.layers[0].transition, order - 1).square().sum()
    )
