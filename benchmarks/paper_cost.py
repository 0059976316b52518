"""What profile `paper` asks of one GPU, counted from one update of each of its networks. No GPU is needed.

    python benchmarks/paper_cost.py          # prints tables, writes results/benchmarks/paper_cost.json; 15 minutes

An update of each setting (forward, backward, clipping, optimizer) runs on torch's device `meta`, where tensors have
shapes and no numbers, through the code that a GPU runs. Counted are the operations in matrix products and the
operators that start a kernel; views and shapes start none. Layers behind the second cost what the second does. Loops
over time are counted at three short lengths, and a parabola, which is exact for them, leads to the length that is asked
for. A network takes at least the longer of two times: its operations at `OPERATIONS` a second, and its kernels at
`LAUNCH` each, one after the other. Measuring, generating and evaluating are not in it, nor is what patience may save:
`paper` names the most epochs. Agents in grid worlds, which step on the CPU, have a table of their own: a few updates of
each are timed on one core of this machine.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import click
import numpy as np
import torch
import torch.nn.functional as F
from timing import as_in_a_sweep
from torch import Tensor
from update_counts import CUDNN, Training

from experiments.gaussians.sizes import SIZES, gaussian_language_model
from experiments.minigrid.agent import Agent
from experiments.minigrid.environments import PAIRS, World
from experiments.minigrid.ppo import Settings, train
from experiments.pixels_and_characters.networks import PixelClassifier, reader
from experiments.recall.run import TASKS
from experiments.text_information.models import HELD
from lib.models import create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.report import benchmarks
from lib.runs.definition import Experiment
from lib.training import FitSettings

OPERATIONS = 20e12  # a second: float32 products of this size on one H100 or H200, of 67e12 that it could do
LAUNCH = 5e-6  # seconds from one small kernel to the next
CHARACTERS, WORDS = 10_780_437, 2_088_628  # of the training set of WikiText-2
LETTERS, VOCABULARY = 283, 33_278  # different ones
PENN_LETTERS = 50  # different characters of the Penn Treebank
IMAGES = 50_000  # of MNIST that are trained on
NOVEL_LETTERS = 131  # different characters of the novels
ALL, AGENTS = "Of all runs of profile paper", "Agents in grid worlds, measured on one core"
MEASURED = 4  # updates of an agent


DESCRIPTION = f"""\
The first table is an estimate on paper, of no GPU: operations in matrix products, and kernels that are started, counted
in one update of every network of profile paper without its numbers, times the most updates it may have. Hours are those
of one H100 or H200 at {OPERATIONS / 1e12:.0f}e12 float32 operations a second and {1e6 * LAUNCH:.0f} microseconds from
one kernel to the next; of a run the longer of the two counts. Where kernels decide, updates that are replayed as CUDA
graphs, of several runs side by side (--together 8), take a fraction of these hours, and CPU cores with their compiled
loops can be the better place for the others. An RNN or LSTM of cuDNN is taken to start {CUDNN} kernels a step and
layer; Mamba is counted without the kernels of mamba-ssm. Evaluating, generating and measuring are not in it, nor is, of
text-information, reading with pretrained models: only the networks that it trains are counted. binary-optimum and
book-counts train none. The agents of kerg-minigrid, whose worlds step on the CPU, are in the second table: {MEASURED}
updates of each were timed on one core of this machine, acting and learning, and multiplied.
""".replace("\n", " ").strip()


def of_tokens(given: Mapping[str, Any], vocabulary: int, steps: int, updates: int, **options: Any) -> Training:
    """A network of the catalogue on tokens, each predicted from those before it."""
    chosen = {**given["options"], **options}

    def network(depth: int) -> Any:
        return create(given["architecture"], vocabulary, given["width"], depth, **chosen).to("meta")

    fit = {key: value for key, value in given["fit"].items() if key in ("optimizer", "batch", "clip", "clip_by")}
    name = json.dumps([given["architecture"], given["width"], vocabulary, chosen, fit], sort_keys=True)
    depth = given.get("depth", 1)
    return Training(given["architecture"], network, next_token(given), fit, depth, steps, updates, name)


def next_token(given: Mapping[str, Any]) -> Callable[[Any, int], Tensor]:
    """Mean loss of the tokens of a batch."""

    def loss(model: Any, steps: int) -> Tensor:
        tokens = torch.zeros(batch(given), steps, dtype=torch.int64, device="meta")
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return loss


def passes(given: Mapping[str, Any]) -> int:
    return FitSettings(**given["fit"]).epochs


def batch(given: Mapping[str, Any]) -> int:
    return FitSettings(**given["fit"]).batch


def binary(given: Mapping[str, Any]) -> Training:
    return of_tokens(given, 2, given["length"] - 1, passes(given) * -(-given["training"] // batch(given)))


def written(given: Mapping[str, Any]) -> Training:
    """Of WikiText-2: a carried text in as many rows as a batch has, or windows."""
    tokens, vocabulary = (CHARACTERS, LETTERS) if given["level"] == "character" else (WORDS, VOCABULARY)
    steps = given["context"] or given["window"]
    return of_tokens(given, vocabulary, steps, passes(given) * max(1, tokens // (steps * batch(given))))


def books(given: Mapping[str, Any]) -> Training:
    vocabulary, updates = 256 + given["merges"], passes(given) * given["epoch_steps"]
    if given["positions"] != "learned":
        options = {"positions": given["positions"]} if given["positions"] else {}
        return of_tokens(given, vocabulary, given["context"], updates, **options)
    options = {"longest": given["context"], **given["options"]}

    def network(depth: int) -> Any:
        return LearnedPositionTransformer(vocabulary, given["width"], depth, **options).to("meta")

    fit, depth = given["fit"], given["depth"]
    return Training(given["architecture"], network, next_token(given), fit, depth, given["context"], updates)


def gaussians(given: Mapping[str, Any]) -> Training:
    """Tokens of `copies` numbers, predicted by means and deviations; what is drawn anew for them is not counted."""
    length, size = 4 ** given["layers"], SIZES[given["size"]]

    def network(depth: int) -> Any:
        shallow = {given["size"]: size._replace(depth=depth)}
        with torch.device("meta"), mock.patch.dict(SIZES, shallow):
            model = gaussian_language_model(given["size"], copies=given["copies"], longest=length, **given["model"])
        return model.to("meta")

    def loss(model: Any, steps: int) -> Tensor:
        tokens = torch.empty(batch(given), steps, given["copies"], device="meta")
        with mock.patch("torch.autocast", lambda *_, **__: contextlib.nullcontext()):  # it is off, and knows no meta
            means, deviations = model.predictions(tokens)
        return (((tokens - means) / deviations) ** 2 + 2 * deviations.log()).mean()

    updates = passes(given) * given["epoch_steps"]
    return Training(size.architecture, network, loss, given["fit"], size.depth, length, updates)


def key_values(given: Mapping[str, Any]) -> Training:
    vocabulary = given["topics"] + given["values"]
    return of_tokens(given, vocabulary, 2 * given["pairs"] - 1, passes(given) * given["updates"])


def readers(given: Mapping[str, Any]) -> Training | None:
    """Networks trained on every other novel, in rows behind a marker; none where a pretrained model reads."""
    model = given["model"]
    if model["kind"] != "network":
        return None
    steps = model["row"] or given["longest"]
    rows = model["training_tokens"] // steps
    rows -= min(HELD, rows // 20)
    vocabulary = (256 + model["merges"] if model["merges"] else NOVEL_LETTERS) + model["marker"]
    return of_tokens(model, vocabulary, steps, passes(model) * -(-rows // batch(model)))


def ngrams(given: Mapping[str, Any]) -> Training:
    """Sentences of at most nine words; one of the usual eight steps."""
    return of_tokens(given, 80, 8, passes(given) * -(-given["sentences"] // batch(given)))


def recall(given: Mapping[str, Any]) -> Training:
    task = TASKS[given["task"]](given["delay"], given["symbols"], given["recall"])
    steps, updates = given["delay"] + 2 * given["recall"], passes(given) * given["updates"]
    options = {"embedding": task.vocabulary} if given["architecture"] in ("rnn", "lstm") else {}
    return of_tokens(given, max(task.vocabulary, task.classes), steps, updates, **options)


def characters(given: Mapping[str, Any]) -> Training:
    """Windows of the Penn Treebank; what is carried into them is not counted."""
    sizes = given["architecture"], PENN_LETTERS, given["width"], given["embedding"], 0

    def network(_: int) -> Any:
        return reader(*sizes, **given["options"]).to("meta")

    updates = passes(given) * given["updates"]
    return Training(given["architecture"], network, next_token(given), given["fit"], 1, given["window"], updates)


def pixels(given: Mapping[str, Any]) -> Training:
    """Images read pixel by pixel, and a class at their end."""
    together = given["together"]

    def network(_: int) -> Any:
        return PixelClassifier(given["architecture"], together, given["width"], **given["options"]).to("meta")

    def loss(model: Any, steps: int) -> Tensor:
        images = torch.empty(batch(given), steps, together, device="meta")
        return F.cross_entropy(model(images), torch.zeros(batch(given), dtype=torch.int64, device="meta"))

    steps, updates = given["side"] ** 2 // together, passes(given) * -(-IMAGES // batch(given))
    kind = "orth_rnn" if given["architecture"] == "rnn" else given["architecture"]  # it is one that starts elsewhere
    return Training(kind, network, loss, given["fit"], 1, steps, updates)


PLANS: dict[str, Callable[[Mapping[str, Any]], Training | None]] = {
    "binary_sequences": binary,
    "binary-printed": binary,
    "binary-plateau": binary,
    "written-characters": written,
    "written-words": written,
    "l2m-fig4": gaussians,
    "l2m-clock": gaussians,
    "l2m-fig5": books,
    "l2m-fig5-long": books,
    "book-recall": key_values,
    "kerg-copy": recall,
    "kerg-denoise": recall,
    "kerg-gradients": recall,
    "kerg-relevance": recall,
    "kerg-pmnist": pixels,
    "kerg-ptb": characters,
    "ngram-sgd": ngrams,
    "text-information": readers,
}
"""Experiments whose profile `paper` trains networks, but for agents in grid worlds (kerg-minigrid, see `agents`)."""


def settings_of(experiment: str) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Parameters of every setting of profile `paper`, and its number of seeds."""
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for run in Experiment(experiment).runs("paper"):
        key = json.dumps(run.parameters, sort_keys=True)
        found[key] = run.parameters, found.get(key, (None, 0))[1] + 1
    yield from found.values()


def row(experiment: str) -> dict[str, Any]:
    """One line of the table: all trainings of an experiment together."""
    totals = np.zeros(3)
    updates, runs, alone = 0, 0, 0.0
    for given, seeds in settings_of(experiment):
        plan = PLANS[experiment](given)
        if plan is None:
            continue
        counts = plan.counted()
        work = plan.updates * counts.operations / OPERATIONS, plan.updates * counts.kernels * LAUNCH
        totals += seeds * np.array([*work, max(work)])
        updates, runs, alone = updates + seeds * plan.updates, runs + seeds, max(alone, max(work))
    arithmetic, launches, both = totals / 3600
    return {
        "experiment": experiment,
        "runs": runs,
        "updates, millions": updates / 1e6,
        "operations, 1e15": arithmetic * 3600 * OPERATIONS / 1e15,
        "kernels, millions": launches * 3600 / LAUNCH / 1e6,
        "by arithmetic, h": arithmetic,
        "by kernels, h": launches,
        "one after the other, h": both,
        "longest run, h": alone / 3600,
    }


def seconds_of_agent(given: Mapping[str, Any], updates: int) -> float:
    """Of one update in the world where it learns, acting and learning, from the start on."""
    agent = Agent(
        given["layer"], given["width"], seed=0, **{key: given[key] for key in ("buffer", "relevant", "memory")}
    )
    world = functools.partial(World, PAIRS[given["task"]].train.name, given["rule"])
    return train(agent, world, Settings(**given["ppo"]), updates, 0).seconds / updates


def agents() -> list[dict[str, Any]]:
    """Hours that the agents of kerg-minigrid take on one core, from a few updates of each."""
    as_in_a_sweep()
    rows = []
    for given, seeds in settings_of("kerg-minigrid"):
        seconds_of_agent(given, 1)  # compiles
        seconds = seconds_of_agent(given, MEASURED)
        settings = Settings(**given["ppo"])
        updates = -(-given["frames"] // (settings.processes * settings.frames))
        row = {name: given[name] for name in ("task", "layer", "memory")}
        row |= {"runs": seeds, "updates of a run": updates, "an update, s": seconds}
        rows.append(row | {"a run, h": updates * seconds / 3600, "all runs, h": seeds * updates * seconds / 3600})
        click.echo(str(rows[-1]))
    return rows


@click.command()
@click.argument("experiments", nargs=-1, type=click.Choice(list(PLANS)))
def main(experiments: tuple[str, ...]) -> None:
    """Count EXPERIMENTS (all, if none is named); only the whole table is recorded."""
    rows = []
    for name in experiments or PLANS:
        rows.append(row(name))
        click.echo(
            "  ".join(
                f"{key} {value:.3g}" if isinstance(value, float) else f"{value}" for key, value in rows[-1].items()
            )
        )
    if not experiments:
        benchmarks.record(
            benchmarks.FOLDER / "paper_cost.json",
            "What profile paper asks of a GPU",
            DESCRIPTION,
            {ALL: rows, AGENTS: agents()},
            operations_per_second=OPERATIONS,
            seconds_per_kernel=LAUNCH,
        )


if __name__ == "__main__":
    main()
