"""Checkpoints: tensors and progress in one file that is whole or not there, with a checksum, and no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from lib.machine import write_whole

FORMAT = "1"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: corrupt, or of something else."""


def save_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], progress: Mapping[str, Any], configuration: Mapping[str, Any]
) -> None:
    """Write all of it under a temporary name, then rename: a kill leaves the old file or the new one.

    tensors: by name; complex ones are written as pairs of real numbers, since the file format has no complex128.
    progress, configuration: what JSON can hold.
    """
    pairs = {name: torch.view_as_real(one.resolve_conj()) for name, one in tensors.items() if one.is_complex()}
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in {**tensors, **pairs}.items()}
    header = {"format": FORMAT, "progress": _json(progress), "configuration": _json(configuration)}
    header |= {"complex": _json(sorted(pairs))} if pairs else {}
    header["checksum"] = _checksum(on_cpu, header)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(on_cpu, metadata=header))  # save_file would leave a file of another name if it were killed


def load_checkpoint(path: Path, configuration: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and progress of the file, on the CPU.

    Raises CheckpointError (a ValueError) if the checksum does not fit, or if it was written for another
    configuration; the message names what differs.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is no readable checkpoint ({error}); remove it to start again") from error
    stated = header.pop("checksum", None)
    if header.get("format") != FORMAT or stated != _checksum(tensors, header):
        raise CheckpointError(f"{path} is corrupt: its checksum does not fit; remove it to start again")
    found, wanted = json.loads(header["configuration"]), json.loads(_json(configuration))
    if found != wanted:
        every = sorted(found.keys() | wanted.keys())  # an entry that is None is not one that is missing
        keys = [key for key in every if (key in found, found.get(key)) != (key in wanted, wanted.get(key))]
        there, asked = ([repr(side[key]) if key in side else "no entry" for key in keys] for side in (found, wanted))
        told = [f"{key}: {a} there, {b} asked for" for key, a, b in zip(keys, there, asked, strict=True)]
        raise CheckpointError(f"{path} belongs to another configuration ({'; '.join(told)})")
    for name in json.loads(header.get("complex", "[]")):
        tensors[name] = torch.view_as_complex(tensors[name])
    return tensors, json.loads(header["progress"])


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory by name, `optimizer.<parameter number>.<quantity>`."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value)
        for number, entries in state.items()
        for name, value in entries.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give the optimizer back the memory that `optimizer_tensors` took."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".", 2)
            state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    total = hashlib.sha256()
    for name in sorted(header):
        total.update(f"{name}\0{header[name]}\0".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
