"""The networks of the book as one builds them from PyTorch's modules, or takes them from transformers."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from lib.models import create
from lib.models.base import sinusoids
from lib.models.interchange import configuration

NETWORKS = ("rnn", "lstm", "transformer", "mamba", "mamba2")
OURS, PLAIN, LIBRARY, PARALLEL = "ours", "PyTorch modules", "transformers", "transformers with mambapy"
HEADS = 4
MAMBA2 = {"size": 16, "head_width": 16}


class PlainRecurrent(nn.Module):
    """nn.RNN or nn.LSTM between an embedding of size 2 and a head; both have a second, redundant bias."""

    def __init__(self, kind: type[nn.RNNBase], width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2, 2)
        self.layers = kind(2, width, depth, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(tokens))[0])

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        mixed, state = self.layers(self.embedding(token[:, None]), state)
        return self.head(mixed[:, 0]), state


class PlainTransformer(nn.Module):
    """nn.TransformerEncoder with a causal mask, which has no cache."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2, width)
        layer = nn.TransformerEncoderLayer(
            width, HEADS, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + sinusoids(torch.arange(x.shape[1], device=x.device), x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.layers(x, mask=mask, is_causal=True))


def ours(name: str, width: int, depth: int) -> Any:
    options = {"transformer": {"heads": HEADS}, "mamba2": MAMBA2}.get(name, {})
    return create(name, 2, width, depth, seed=0, **options)


def theirs(name: str, width: int, depth: int, positions: int) -> dict[str, Any]:
    """The same network by every other way there is, with parameters of the same shapes as nearly as it has them."""
    model = ours(name, width, depth)
    match name:
        case "rnn" | "lstm":
            return {PLAIN: PlainRecurrent({"rnn": nn.RNN, "lstm": nn.LSTM}[name], width, depth)}
        case "transformer":
            shape = transformers.GPT2Config(
                vocab_size=2, n_positions=positions, n_embd=width, n_layer=depth, n_head=HEADS,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None,
            )  # fmt: skip
            return {PLAIN: PlainTransformer(width, depth), LIBRARY: transformers.GPT2LMHeadModel(shape)}
        case "mamba":
            ways = {LIBRARY: {"use_associative_scan": False}, PARALLEL: {"use_mambapy": True}}
            return {
                way: transformers.MambaForCausalLM(transformers.MambaConfig(**configuration(model), **options))
                for way, options in ways.items()
            }
        case _:
            return {LIBRARY: transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**configuration(model)))}


def logits(model: Any, tokens: Tensor) -> Tensor:
    """(batch, time, 2), without a cache."""
    if isinstance(model, transformers.PreTrainedModel):
        return model(tokens, use_cache=False).logits
    return model(tokens)


def devices() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def finish(device: str) -> None:
    """Wait for what the device still has to do."""
    if device == "cuda":
        torch.cuda.synchronize()
