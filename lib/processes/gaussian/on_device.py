"""Hierarchical Gaussians made where they are trained on: the passes of `tree` on torch tensors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lib.checks import whole_number
from lib.processes.gaussian import tree

if TYPE_CHECKING:
    from lib.processes.gaussian.hierarchical import HierarchicalGaussian


class HierarchicalGaussianOnDevice:
    """Samples and conditionals of a `HierarchicalGaussian` as tensors (n, length, copies) of one device.

    device: default CUDA if there is one, else CPU. dtype: torch.float32 (default) or torch.float64; the coefficients
    are computed in float64 and rounded once. variances: Var[x_i | x_<i], (length,), on the device. Raises ValueError
    for another dtype.
    """

    def __init__(self, law: HierarchicalGaussian, device: Any = None, dtype: Any = None) -> None:
        self.length = law.length
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype = dtype or torch.float32
        if self.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"dtype: torch.float32 or torch.float64 is allowed, got {self.dtype}")
        self.variances = self._tensor(law.conditional_variances())
        self._levels = [
            dataclasses.replace(
                level,
                coupling=self._tensor(level.coupling),
                uncoupling=self._tensor(level.uncoupling),
                gain=self._tensor(level.gain),
                window=self._tensor(level.window),
            )
            for level in law.levels()
        ]

    def generator(self, seed: int) -> torch.Generator:
        """A generator with a seed, of the CPU: the same noise on every device. Its numbers differ from NumPy's."""
        return torch.Generator().manual_seed(whole_number(seed, "seed", 0))

    def sample_tokens(self, n: int, copies: int = 64, seed: int | torch.Generator = 0) -> torch.Tensor:
        """n sequences of stacked tokens (n, length, copies); a Generator passes through. Cost O(n copies length)."""
        return self._stacked(tree.from_noise(self._levels, self._noise(n, copies, seed)), n)

    def sample_tokens_with_means(
        self, n: int, copies: int = 64, seed: int | torch.Generator = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and E[x_i | x_<i] of each of their entries, both (n, length, copies): one batch of training."""
        noise = self._noise(n, copies, seed)
        tokens = tree.from_noise(self._levels, noise)
        means = tokens - tree.innovations(self._levels, noise)
        return self._stacked(tokens, n), self._stacked(means, n)

    def conditionals(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Means and variances of every entry given the tokens before it, of the shape (n, length, copies) of tokens.

        Raises ValueError for another number of dimensions or positions. Cost O(size).
        """
        if tokens.ndim != 3 or tokens.shape[1] != self.length:
            raise ValueError(f"tokens: shape (n, {self.length}, copies) is needed, got {tuple(tokens.shape)}")
        values = tokens.to(self.device, self.dtype)
        columns = values.permute(1, 0, 2).reshape(self.length, -1)
        surprises = tree.innovations(self._levels, tree.to_noise(self._levels, columns))
        means = values - self._stacked(surprises, values.shape[0])
        return means, self.variances[None, :, None].expand_as(values)

    def from_noise(self, noise: torch.Tensor) -> torch.Tensor:
        """The sequences that white noise (length, batch) makes, as `tree.from_noise`."""
        return tree.from_noise(self._levels, noise.to(self.device, self.dtype))

    def _noise(self, n: int, copies: int, seed: int | torch.Generator) -> torch.Tensor:
        width = whole_number(n, "n", 1) * whole_number(copies, "copies", 1)
        draw = seed if isinstance(seed, torch.Generator) else self.generator(seed)
        return torch.randn(self.length, width, generator=draw, device=draw.device, dtype=self.dtype).to(self.device)

    def _stacked(self, columns: torch.Tensor, n: int) -> torch.Tensor:
        return columns.reshape(self.length, n, -1).permute(1, 0, 2).contiguous()

    def _tensor(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, self.dtype)
