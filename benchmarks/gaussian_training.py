"""Gaussian language models: updates beside the same networks of transformers, sampling beside what one would write.

    python benchmarks/gaussian_training.py       # prints tables, writes results/benchmarks/gaussian_training.json

First table: forward, backward and a step of AdamW on one batch that is ready, by our layers and by GPT2Model,
MambaModel and Mamba2Model of transformers of the same sizes, between the same two small networks. Second table: a batch
of hierarchical Gaussians, with the exact conditional means by message passing and by a dense Cholesky factor (torch and
NumPy), without them by torch.distributions.MultivariateNormal and NumPy's multivariate_normal. The ways take turns;
medians count. All ways use one thread. CUDA is timed too, if it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
import torch
import transformers
from plain_networks import LIBRARY, OURS, PARALLEL, devices, finish
from timing import as_in_a_sweep
from torch import nn
from training import seconds_in_turn

from experiments.gaussians.continuous import GaussianLanguageModel, IndependentNormals
from experiments.gaussians.sizes import SIZES, gaussian_language_model
from experiments.gaussians.task import GaussianPrediction
from lib.processes import HierarchicalGaussian
from lib.report import benchmarks
from lib.training.settings import PRECISIONS, matrix_products

LONGEST_DENSE = 4096
SHORT = 5  # layers of the longest process that NumPy's own function is asked for


class LibraryModel(nn.Module):
    """A backbone of transformers between the embedding and the readout of our model."""

    def __init__(self, ours: GaussianLanguageModel, network: Any) -> None:
        super().__init__()
        self.embedding, self.readout, self.begin = ours.embedding, ours.readout, ours.begin
        self.backbone = network

    def predictions(self, tokens: torch.Tensor) -> IndependentNormals:
        inputs = torch.cat([self.begin(tokens)[:, None], tokens[:, :-1]], dim=1)
        hidden = self.backbone(inputs_embeds=self.embedding(inputs), use_cache=False).last_hidden_state
        means, raw = self.readout(hidden).chunk(2, dim=-1)
        return IndependentNormals(means, raw.exp())


def backbones(name: str, length: int) -> dict[str, Any]:
    """The network of that size in every way transformers has it, with a vocabulary that is not used."""
    architecture, depth, width, options = SIZES[name]
    if architecture == "gpt2":
        shape = transformers.GPT2Config(
            vocab_size=3, n_positions=length, n_embd=width, n_layer=depth, n_head=options["heads"],
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None,
        )  # fmt: skip
        return {LIBRARY: transformers.GPT2Model(shape)}
    common = {"vocab_size": 3, "hidden_size": width, "num_hidden_layers": depth, "state_size": options["size"]}
    if architecture == "mamba":
        ways = {LIBRARY: {"use_associative_scan": False}, PARALLEL: {"use_mambapy": True}}
        return {way: transformers.MambaModel(transformers.MambaConfig(**common, **how)) for way, how in ways.items()}
    heads = 2 * width // options["head_width"]
    shape = transformers.Mamba2Config(**common, num_heads=heads, head_dim=options["head_width"], n_groups=1)
    return {LIBRARY: transformers.Mamba2Model(shape)}


def update(model: Any, task: GaussianPrediction, batch: Any, device: str) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        task.loss(model, batch).backward()
        optimizer.step()
        finish(device)

    return run


def training_rows(
    device: str, names: tuple[str, ...], layers: int, tokens: int, copies: int, repeats: int, patience: float
) -> list[dict[str, Any]]:
    """Thousand tokens per second of every way, for every size and precision of the device."""
    law, rows = HierarchicalGaussian(layers), []
    batch = max(1, tokens // law.length)
    for precision in PRECISIONS if device == "cuda" else PRECISIONS[:1]:
        for name in names:
            task = GaussianPrediction(law, 1, copies=copies, precision=precision)
            (ready,) = task.batches(batch, 0, torch.device(device))
            models = {OURS: gaussian_language_model(name, copies=copies, longest=law.length).to(device)}
            for way, network in backbones(name, law.length).items():
                around = gaussian_language_model(name, copies=copies, longest=law.length)
                models[way] = LibraryModel(around, network).to(device)
            with matrix_products(precision):
                runs = {way: update(model, task, ready, device) for way, model in models.items()}
                seconds = seconds_in_turn(runs, repeats, patience)
            shape = {"size": name, "length": law.length, "batch": batch, "precision": precision}
            rows.append(shape | {way: 1e-3 * batch * law.length / value for way, value in seconds.items()})
            click.echo(str(rows[-1]))
    return rows


def sampling_row(device: str, layers: int, batch: int, copies: int, repeats: int, patience: float) -> dict[str, Any]:
    """Milliseconds for one batch (batch, length, copies), float32 where the way has a choice."""
    law = HierarchicalGaussian(layers)
    on_device = law.on_device(device)
    ways: dict[str, Callable[[], Any]] = {"message passing": lambda: on_device.sample_tokens_with_means(batch, copies)}
    if law.length <= LONGEST_DENSE:
        covariance, columns = law.covariance(), (law.length, batch * copies)
        dense = np.linalg.cholesky(covariance).astype(np.float32)
        factor = torch.from_numpy(dense).to(device)
        diagonal = factor.diagonal()[:, None]
        normal = torch.distributions.MultivariateNormal(torch.zeros(law.length, device=device), scale_tril=factor)

        def by_factor() -> Any:
            noise = torch.randn(columns, device=device)
            values = factor @ noise
            tokens = [part.reshape(-1, batch, copies).transpose(0, 1) for part in (values, values - diagonal * noise)]
            return [part.contiguous() for part in tokens]

        ways["torch, Cholesky factor"] = by_factor
        ways["MultivariateNormal, no means"] = lambda: normal.sample((batch, copies)).transpose(1, 2).contiguous()
        if device == "cpu":
            random, scale = np.random.default_rng(0), np.diagonal(dense)[:, None]

            def by_numpy() -> Any:
                noise = random.standard_normal(columns, dtype=np.float32)
                values = dense @ noise
                return values, values - scale * noise

            ways["NumPy, Cholesky factor"] = by_numpy
            if layers <= SHORT:  # it decomposes the matrix anew at every call
                ways["NumPy multivariate_normal, no means"] = lambda: random.multivariate_normal(
                    np.zeros(law.length), covariance, (batch, copies), check_valid="ignore", method="cholesky"
                )

    def finished(way: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            way()
            finish(device)

        return run

    seconds = seconds_in_turn({name: finished(way) for name, way in ways.items()}, repeats, patience)
    shape = {"device": device, "length": law.length, "batch": batch, "copies": copies}
    return shape | {name: 1e3 * value for name, value in seconds.items()}


@click.command(help=__doc__)
@click.option("--size", "sizes", multiple=True, default=("gpt2-2x64", "mamba-2x64", "mamba2-2x64"), show_default=True)
@click.option("--layers", default=4, show_default=True, help="Of the process in the first table: length 4^layers.")
@click.option("--tokens", default=2048, show_default=True, help="Tokens of an update.")
@click.option("--copies", default=64, show_default=True, help="Numbers of a token.")
@click.option("--longest", default=6, show_default=True, help="Layers of the longest process that is sampled.")
@click.option("--repeats", default=5, show_default=True, help="Timed repeats; the median counts.")
@click.option("--patience", default=10.0, show_default=True, help="Seconds from which one timed update is enough.")
def main(
    sizes: tuple[str, ...], layers: int, tokens: int, copies: int, longest: int, repeats: int, patience: float
) -> None:
    as_in_a_sweep()
    tables: dict[str, list[dict[str, Any]]] = {}
    samples: list[dict[str, Any]] = []
    for device in devices():
        rows = training_rows(device, sizes, layers, tokens, copies, repeats, patience)
        tables[f"Thousand tokens a second of training, {device}"] = rows
        for level in range(3, longest + 1):
            samples.append(sampling_row(device, level, 4, copies, repeats, patience))
            click.echo(str(samples[-1]))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "gaussian_training.json",
        "Gaussian language models",
        "Forward, backward and one step of AdamW on a batch that is ready, and one batch of hierarchical Gaussians; "
        "medians in one run, one thread. transformers' Mamba is its sequential path unless mambapy is named.",
        tables | {"Milliseconds for one batch of samples": samples},
        packages=["transformers", "mambapy"],
        threads=torch.get_num_threads(),
        copies=copies,
        tokens=tokens,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
