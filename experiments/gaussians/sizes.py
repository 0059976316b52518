"""Gaussian language models by name: the published sizes, and a ladder of smaller ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.gaussians.continuous import GaussianLanguageModel, one_of


class Size(NamedTuple):
    """What a model is built of; the options are those of its architecture."""

    architecture: str
    depth: int
    width: int
    options: dict[str, int]


def _gpt2(depth: int, width: int) -> Size:
    return Size("gpt2", depth, width, {"heads": width // (64 if width >= 512 else 16)})


def _mamba(depth: int, width: int, size: int = 16) -> Size:
    return Size("mamba", depth, width, {"size": size})


def _mamba2(depth: int, width: int, size: int = 128, head_width: int = 64) -> Size:
    return Size("mamba2", depth, width, {"size": size, "head_width": head_width})


PUBLISHED = {
    "gpt2": _gpt2(12, 768),
    "gpt2-medium": _gpt2(24, 1024),
    "gpt2-large": _gpt2(36, 1280),
    "mamba-50m": _mamba(12, 512),
    "mamba-70m": _mamba(24, 512),
    "mamba-130m": _mamba(24, 768),
    "mamba-370m": _mamba(48, 1024),
    "mamba-790m": _mamba(48, 1536),
    "mamba-1.4b": _mamba(48, 2048),
    "mamba2-130m": _mamba2(24, 768),
    "mamba2-370m": _mamba2(48, 1024),
    "mamba2-790m": _mamba2(48, 1536),
}
"""L2M (2025, version 2), Tables F.1 and F.2: layers and width. Heads and 16 or 128 states as in the public models."""

LADDER = {
    "gpt2-2x32": _gpt2(2, 32),
    "gpt2-2x64": _gpt2(2, 64),
    "gpt2-4x64": _gpt2(4, 64),
    "gpt2-4x128": _gpt2(4, 128),
    "gpt2-6x256": _gpt2(6, 256),
    "mamba-2x32": _mamba(2, 32),
    "mamba-2x64": _mamba(2, 64),
    "mamba-4x64": _mamba(4, 64),
    "mamba-4x128": _mamba(4, 128),
    "mamba-8x256": _mamba(8, 256),
    "mamba2-2x32": _mamba2(2, 32, 16, 16),
    "mamba2-2x64": _mamba2(2, 64, 16, 32),
    "mamba2-4x64": _mamba2(4, 64, 16, 32),
    "mamba2-4x128": _mamba2(4, 128, 32, 32),
    "mamba2-8x256": _mamba2(8, 256, 64, 64),
}
"""Depth x width. Mamba and Mamba2 of one name have as many scanned states, up to width 64."""

SIZES = LADDER | PUBLISHED


def gaussian_language_model(
    name: str, *, copies: int = 64, longest: int | None = None, seed: int | np.random.Generator = 0, **changes: Any
) -> GaussianLanguageModel:
    """The model of that name, a key of SIZES. changes: any other arguments of `GaussianLanguageModel`.

    Raises ValueError for an unknown name, and for changes that the architecture does not know.
    """
    chosen = SIZES[one_of(name, "size", SIZES)]
    arguments = {"width": chosen.width, "depth": chosen.depth, **chosen.options, **changes}
    return GaussianLanguageModel(chosen.architecture, copies=copies, longest=longest, seed=seed, **arguments)
