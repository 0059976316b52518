"""Weights of Mamba and Mamba2 to and from the state dicts of transformers and of mamba-ssm.

The mixers have the same parameters in all three; what differs are the names around them, and that our head has a bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lib.models.base import SequenceModel, TiedHead
from lib.models.state_space.mamba import Mamba, MambaMixer
from lib.models.state_space.mamba2 import Mamba2, Mamba2Mixer

AROUND = {  # our name -> theirs, of everything that is not in a block
    "transformers": {"embedding.weight": "backbone.embeddings.weight"},
    "mamba_ssm": {"embedding.weight": "backbone.embedding.weight"},
}
COMMON = {"norm.weight": "backbone.norm_f.weight", "head.weight": "lm_head.weight"}


def names(model: SequenceModel, layout: str = "transformers") -> dict[str, str]:
    """Our name of every parameter but the head's bias -> its name in a language model of the other library.

    layout: "transformers" (MambaForCausalLM, Mamba2ForCausalLM) or "mamba_ssm" (MambaLMHeadModel). Raises ValueError
    for another layout, and for a model that is neither Mamba nor Mamba2.
    """
    _mixer(model)
    if layout not in AROUND:
        raise ValueError(f"layout: {' or '.join(AROUND)} is allowed, got {layout!r}")
    around = COMMON | AROUND[layout]
    ours = [name for name, _ in model.named_parameters() if name != "head.bias"]
    return {name: around.get(name, f"backbone.{name}") for name in ours}


PADDING = 128  # to a multiple of at most so many rows vocabularies are rounded up


def export_weights(model: SequenceModel, layout: str = "transformers") -> dict[str, Tensor]:
    """Copies of all weights as a state dict for a language model of the other library, built by `configuration`.

    A tied head is written as a copy of the embedding, as theirs is.
    Raises ValueError as `names` does, and for a head whose bias is not zero: theirs has none.
    """
    if bool(model.head.bias.detach().any()):
        raise ValueError("model: a head with zero bias is allowed, as the other libraries have none")
    weights = dict(model.named_parameters())
    known = names(model, layout)
    found = {theirs: weights[ours].detach().clone() for ours, theirs in known.items()}
    if isinstance(model.head, TiedHead):
        found[COMMON["head.weight"]] = found[known["embedding.weight"]].clone()
    return found


def import_weights(model: SequenceModel, weights: Mapping[str, Tensor]) -> None:
    """Copy the weights of a language model, or of its backbone alone, of either library into ours.

    A backbone leaves our head as it was; a head makes our bias zero. Rows that mamba-ssm adds to a vocabulary to round
    it up are left out. Raises ValueError, before anything is changed, for missing or unknown names and other shapes,
    and for a head that differs from the embedding where ours is tied.
    """
    mixer = _mixer(model)
    tensors = weights.items() if isinstance(weights, Mapping) else [("", None)]
    if not all(isinstance(name, str) and isinstance(one, Tensor) and one.is_floating_point() for name, one in tensors):
        raise ValueError("weights: tensors of real floating-point numbers by their names are allowed, got others")
    backbone = not any(name.startswith("backbone.") for name in weights)
    given = {f"backbone.{name}" if backbone else name: tensor for name, tensor in weights.items()}
    layout = "mamba_ssm" if "backbone.embedding.weight" in given else "transformers"
    wanted = {ours: theirs for ours, theirs in names(model, layout).items() if not (backbone and ours == "head.weight")}
    head = given.pop(COMMON["head.weight"], None) if isinstance(model.head, TiedHead) else None
    if head is not None and not torch.equal(head, given.get(wanted["embedding.weight"], head)):
        raise ValueError("weights: a head equal to the embedding is allowed for a tied model, got another")
    missing, unknown = set(wanted.values()) - set(given), set(given) - set(wanted.values())
    if missing or unknown:
        raise ValueError(
            f"weights: those of a {type(mixer).__name__[:-5]} of depth {len(model.layers)} are allowed; "
            f"missing: {', '.join(sorted(missing)) or 'none'}; unknown: {', '.join(sorted(unknown)) or 'none'}"
        )
    parameters = dict(model.named_parameters())
    chosen = {}
    for ours, theirs in wanted.items():
        tensor, due = given[theirs].detach(), parameters[ours].shape
        if ours in ("embedding.weight", "head.weight") and tensor.shape[1:] == due[1:]:
            if due[0] < len(tensor) < due[0] + PADDING:
                tensor = tensor[: model.vocabulary]
        if tensor.shape != due:
            raise ValueError(f"weights: {theirs} of shape {tuple(due)} is allowed, got {tuple(given[theirs].shape)}")
        chosen[ours] = tensor
    with torch.no_grad():
        for ours, tensor in chosen.items():
            parameters[ours].copy_(tensor)
        if not backbone:
            parameters["head.bias"].zero_()


def configuration(model: SequenceModel, layout: str = "transformers") -> dict[str, Any]:
    """Keyword arguments of the other library's configuration (MambaConfig, Mamba2Config) for a model of our sizes.

    Raises ValueError as `names` does. In mamba-ssm, the same configuration class serves both.
    """
    names(model, layout)
    mixer, depth, tied = _mixer(model), len(model.layers), isinstance(model.head, TiedHead)
    width = model.embedding.embedding_dim
    expand = mixer.inner // width
    if layout == "mamba_ssm":
        inside: dict[str, Any] = {"d_state": mixer.size, "d_conv": mixer.kernel, "expand": expand}
        if isinstance(mixer, MambaMixer):
            inside |= {"layer": "Mamba1", "dt_rank": mixer.rank}
        else:
            inside |= {"layer": "Mamba2", "headdim": mixer.head_width, "ngroups": 1}
        sizes = {"d_model": width, "n_layer": depth, "vocab_size": model.vocabulary, "ssm_cfg": inside}
        return sizes | {"rms_norm": True, "pad_vocab_size_multiple": 1, "tie_embeddings": tied}
    sizes = {
        "vocab_size": model.vocabulary,
        "hidden_size": width,
        "num_hidden_layers": depth,
        "state_size": mixer.size,
        "conv_kernel": mixer.kernel,
        "expand": expand,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": tied,
    }
    if isinstance(mixer, MambaMixer):
        return sizes | {"time_step_rank": mixer.rank}
    return sizes | {"num_heads": mixer.heads, "head_dim": mixer.head_width, "n_groups": 1, "chunk_size": 64}


def _mixer(model: SequenceModel) -> MambaMixer | Mamba2Mixer:
    if not isinstance(model, Mamba | Mamba2):
        raise ValueError(f"model: a Mamba or Mamba2 is allowed, got {type(model).__name__}")
    mixer: MambaMixer | Mamba2Mixer = model.layers[0].mixer
    return mixer
