"""What profile `paper` asks of one GPU, counted from one update of each of its networks. No GPU is needed.

    python benchmarks/paper_cost.py          # prints a table, writes results/benchmarks/paper_cost.json; ten minutes

An update of each setting (forward, backward, clipping, optimizer) runs on torch's device `meta`, where tensors have
shapes and no numbers, through the code that a GPU runs. Counted are the operations in matrix products and the
operators that start a kernel; views and shapes start none. Layers behind the second cost what the second does. Loops
over time are counted at three short lengths, and a parabola, which is exact for them, leads to the length that is asked
for. A network takes at least the longer of two
times: its operations at `OPERATIONS` a second, and its kernels at `LAUNCH` each, one after the other. Measuring,
generating and evaluating are not in it, nor is what patience may save: `paper` names the most epochs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import click
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from experiments.gaussians.sizes import SIZES, gaussian_language_model
from experiments.pixels_and_characters.networks import PixelClassifier, reader
from experiments.recall.run import TASKS
from lib.models import create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.report import benchmarks
from lib.runs.definition import Experiment
from lib.training import FitSettings

OPERATIONS = 20e12  # a second: float32 products of this size on one H100 or H200, of 67e12 that it could do
LAUNCH = 5e-6  # seconds from one small kernel to the next
CUDNN = 4  # kernels of a step and layer of its RNN and LSTM: a product and the gates, forward and back
SHORT = (8, 16, 24)  # steps of loops that are counted
FILLED = (40, 60, 80)  # those of SAB, whose memory is first to hold as many states as are looked up
LOOPS = ("rnn", "lstm", "orth_rnn", "exp_rnn", "mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm", "sab", "goru", "relu_rnn")
CHARACTERS, WORDS = 10_780_437, 2_088_628  # of the training set of WikiText-2
LETTERS, VOCABULARY = 283, 33_278  # different ones
PENN_LETTERS = 50  # different characters of the Penn Treebank
IMAGES = 50_000  # of MNIST that are trained on


DESCRIPTION = f"""\
An estimate on paper, of no GPU: operations in matrix products, and kernels that are started, counted in one update of
every network of profile paper without its numbers, times the most updates it may have. Hours are those of one H100 or
H200 at {OPERATIONS / 1e12:.0f}e12 float32 operations a second and {1e6 * LAUNCH:.0f} microseconds from one kernel to
the next; of a run the longer of the two counts. Where kernels decide, updates that are replayed as CUDA graphs, of
several runs side by side (--together 8), take a fraction of these hours, and CPU cores with their compiled loops can be
the better place for the others. An RNN or LSTM of cuDNN is taken to start {CUDNN} kernels a step and layer; Mamba is
counted without the kernels of mamba-ssm. Evaluating, generating and measuring are not in it.
""".replace("\n", " ").strip()


class Counts(NamedTuple):
    """What one update does."""

    operations: float  # multiplications and additions in matrix products
    kernels: float


class Training(NamedTuple):
    """One training of profile `paper`: a network, what it minimises in an update, and how many of these there are."""

    architecture: str
    network: Callable[[int], Any]  # of a depth, with weights that have shapes alone
    loss: Callable[[Any, int], Tensor]  # of the network, and steps of a sequence
    fit: Mapping[str, Any]
    depth: int
    steps: int
    updates: int
    name: str = ""  # trainings of one name differ in their steps, depth and updates alone, and share what is counted

    def counted(self) -> Counts:
        """Of one update. What grows with depth is counted at one and two layers, and long loops at short lengths."""
        depths = (self.depth,) if self.depth <= 2 else (1, 2)
        cudnn = self.architecture in ("rnn", "lstm")
        short = self.architecture in LOOPS and (cudnn or self.steps > SHORT[-1])
        lengths = (FILLED if self.architecture == "sab" else SHORT) if short else (self.steps,)
        table = np.array([[self.update(depth, steps) for steps in lengths] for depth in depths])
        operations, kernels = polynomial(depths, table, self.depth).T
        found = Counts(*(float(polynomial(lengths, column, self.steps)) for column in (operations, kernels)))
        if not cudnn:
            return found
        outside = float(polynomial(SHORT, kernels, 0))  # of the loop
        return found._replace(kernels=outside + CUDNN * self.depth * self.steps)

    def update(self, depth: int, steps: int) -> Counts:
        """Counted while it is computed, at another depth and length."""
        key = self.name, depth, steps
        if not self.name or key not in COUNTED:
            model = self.network(depth)
            COUNTED[key] = counts_of(model, lambda: self.loss(model, steps), self.fit)
        return COUNTED[key]


COUNTED: dict[tuple[str, int, int], Counts] = {}


def polynomial(places: Sequence[int], values: ArrayLike, place: int) -> Any:
    """The polynomial through these values (places, ...), by Lagrange's formula, at another place."""
    x = np.array(places, dtype=np.float64)
    shares = [np.prod((place - np.delete(x, i)) / (here - np.delete(x, i))) for i, here in enumerate(x)]
    return np.tensordot(shares, np.asarray(values), axes=1)


class Counter(TorchDispatchMode):
    """Counts what goes through torch while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.kernels = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        counts = flop_registry.get(function._overloadpacket)
        if counts is not None:
            self.operations += counts(*args, **(kwargs or {}), out_val=found)
        self.kernels += starts_a_kernel(function)
        return found


def starts_a_kernel(function: Any) -> bool:
    """Whether an operator computes numbers: it has a result that is no view of what it was given, and not empty."""
    views = [result.alias_info is not None and not result.alias_info.is_write for result in function._schema.returns]
    name = function._overloadpacket.__name__
    return not (views and all(views)) and not name.startswith(
        ("empty", "new_empty", "_unsafe_view", "detach", "_local")
    )


def counts_of(model: Any, loss: Callable[[], Tensor], settings: Mapping[str, Any]) -> Counts:
    """Of one update, the optimizer's first numbers among it."""
    chosen = FitSettings(**settings)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = chosen.make_optimizer(weights, getattr(model, "slow_parameters", list)())
    for group in optimizer.param_groups:
        group["foreach"] = True  # as on a GPU: one kernel for all weights

    model.train()
    with Counter() as counter:
        loss().backward()
        chosen.clip_gradients(weights)
        optimizer.step()
    model.zero_grad(set_to_none=True)
    return Counts(counter.operations, counter.kernels)


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


PLANS: dict[str, Callable[[Mapping[str, Any]], Training]] = {
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
}
"""Experiments whose profile `paper` trains networks. Agents in grid worlds (kerg-minigrid) wait for their worlds, which
step on the CPU; text-information reads with pretrained models before it trains."""


def settings_of(experiment: str) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Parameters of every setting of profile `paper`, and its number of seeds."""
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for run in Experiment(experiment).runs("paper"):
        key = json.dumps(run.parameters, sort_keys=True)
        found[key] = run.parameters, found.get(key, (None, 0))[1] + 1
    yield from found.values()


def row(experiment: str) -> dict[str, Any]:
    """One line of the table: all trainings of an experiment together."""
    rows = [(PLANS[experiment](given), seeds) for given, seeds in settings_of(experiment)]
    totals = np.zeros(3)
    updates, runs, alone = 0, 0, 0.0
    for plan, seeds in rows:
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
            {"Of all runs of profile paper": rows},
            operations_per_second=OPERATIONS,
            seconds_per_kernel=LAUNCH,
        )


if __name__ == "__main__":
    main()
