"""Hierarchical Gaussians: two families with the same two-point information and different bipartite information."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lib.checks import generator, plain_array, truth_value, whole_lags, whole_number
from lib.processes.discrete.tables import block_lengths
from lib.processes.gaussian import tree
from lib.processes.gaussian.layers import COUPLINGS, Layer, build_layers, pair_correlation
from lib.processes.gaussian.prediction import Prediction, predictions

if TYPE_CHECKING:
    from lib.processes.gaussian.on_device import HierarchicalGaussianOnDevice

FAMILIES = {"subvolume": 3, "critical": 1}
"""Independent copies of the layer below that enter a row; the other columns are fresh normals."""
LONGEST_DENSE = 4096
MOST_LAYERS = 12
LARGEST = {"float64": 1e100, "float32": 1e25}  # of a value: neither its noise nor the square of that leaves the floats
BLOCK = 2**16  # entries of one pass through the layers: the intermediate arrays then stay in the cache


class HierarchicalGaussian:
    """A Gaussian sequence of length 4^layers built layer by layer; unit variances, mean zero.

    Layer 1 is Z = M X for four independent normals, Eq. B.19-B.20. A further layer of n rows takes independent
    copies Y_j of the layer below and fresh normals W,

        subvolume:  Z_i = M (Y_{i,1}, Y_{i,2}, Y_{i,3}, W_i)          (B.21)    bipartite MI ~ length^(log_4 3)
        critical:   Z_i = M (Y_i, W_{i,1}, W_{i,2}, W_{i,3})          (B.24)    bipartite MI ~ ln length

    flattens them row by row (B.22), and couples each pair (Z_{i,4}, Z_{i+1,1}) by a 2 x 2 matrix (B.23). The paper
    leaves that matrix open: `coupling` names a choice of `lib.processes.gaussian.layers.COUPLINGS`.

    layers: 1 to 12. Raises ValueError for other layers, families or couplings. No method forms a length x length
    matrix except `covariance`. Set-up O(length), once. Source: L2M (2025), App. B.
    """

    def __init__(self, layers: int, family: str = "subvolume", coupling: str = "symmetric") -> None:
        self.layers = whole_number(layers, "layers", 1)
        if self.layers > MOST_LAYERS:
            raise ValueError(f"layers: 1 to {MOST_LAYERS} are allowed, got {layers!r}, that is length 4^{self.layers}")
        self.family = _one_of(family, "family", FAMILIES)
        self.coupling = _one_of(coupling, "coupling", COUPLINGS)
        self.length = 4**self.layers

    def __repr__(self) -> str:
        return f"HierarchicalGaussian({self.layers}, {self.family!r}, {self.coupling!r})"

    def covariance(self, allow_large: bool = False) -> NDArray[np.float64]:
        """The dense correlation matrix (length, length), as the construction defines it; no other method needs it.

        Raises ValueError above 4096 rows unless allow_large=True. Cost and memory O(length^2).
        """
        if not truth_value(allow_large, "allow_large") and self.length > LONGEST_DENSE:
            size = self.length**2 * 8 / 2**30
            raise ValueError(
                f"covariance: at most {LONGEST_DENSE} rows are allowed without allow_large=True, got {self.length} "
                f"({size:.0f} GiB)"
            )
        dense = np.ones((1, 1))
        for layer in self._layers:
            dense = layer.expand(dense)
        dense += dense.T.copy()  # rounding leaves 1e-16 of asymmetry and of variance
        dense *= 0.5
        np.fill_diagonal(dense, 1.0)
        return dense

    def sample(self, n: int, seed: int | np.random.Generator, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """n independent sequences (n, length), float64 or float32.

        The first rows of a larger sample from the same whole-number seed are those of a smaller one. Raises
        ValueError for n < 1, a bad seed or another dtype. Cost O(n length).
        """
        return self.sample_tokens(n, 1, seed, dtype)[:, :, 0]

    def sample_tokens(
        self, n: int, copies: int = 64, seed: int | np.random.Generator = 0, dtype: DTypeLike = np.float64
    ) -> NDArray[Any]:
        """n sequences of stacked tokens (n, length, copies): entry j of every token follows independent copy j (E.34).

        Token by token the same numbers as `sample(n * copies, seed)`. Raises ValueError as `sample`. Cost
        O(n copies length).
        """
        (tokens,) = self._sample_tokens([tree.from_noise], n, copies, seed, dtype)
        return tokens

    def sample_tokens_with_means(
        self, n: int, copies: int = 64, seed: int | np.random.Generator = 0, dtype: DTypeLike = np.float64
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Tokens as `sample_tokens` and E[z_i | z_<i] of each of their entries, both (n, length, copies).

        Cheaper and more accurate in float32 than `conditionals` of the sample: the noise is at hand, so no layer has
        to be inverted. Raises ValueError as `sample`. Cost O(n copies length).
        """
        tokens, surprises = self._sample_tokens([tree.from_noise, tree.innovations], n, copies, seed, dtype)
        return tokens, np.subtract(tokens, surprises, out=surprises)

    def conditionals(self, x: ArrayLike, axis: int = -1) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means and variances of every x_i given all entries before it, E[x_i | x_<i] and Var[x_i | x_<i].

        x: any shape with `length` entries along `axis` (1 for stacked tokens (n, length, copies)); float32 stays
        float32. Returns two arrays of the shape of x. Raises ValueError for other shapes, and for values that are not
        finite or beyond 1e100 (1e25 in float32). Cost O(size of x).
        """
        values = self._checked(x, axis)
        surprises = self._along(lambda levels, z: tree.innovations(levels, tree.to_noise(levels, z)), values, axis)
        column = self.conditional_variances().astype(values.dtype).reshape(-1, *(1,) * (values.ndim - 1))
        variances = np.moveaxis(np.broadcast_to(column, np.moveaxis(values, axis, 0).shape), 0, axis)
        return values - surprises, variances.copy()

    def conditional_variances(self) -> NDArray[np.float64]:
        """Var[x_i | x_<i], the same for every x, (length,). Cost O(length), once."""
        return self._forward[-1].deviations ** 2

    def log_density(self, x: ArrayLike, axis: int = -1) -> Any:
        """ln p(x) in nats: the normal density of the noise behind x, over |det| of the layer maps.

        x as in `conditionals`; returns its shape without `axis`. Cost O(size of x).
        """
        noise = self._along(tree.to_noise, self._checked(x, axis), axis)
        squares = np.sum(np.square(noise, dtype=np.float64), axis=axis)
        return -0.5 * squares - 0.5 * self.length * np.log(2.0 * np.pi) - self._log_determinant

    def entropy(self) -> float:
        """Differential entropy in nats, length/2 ln(2 pi e) + ln |det|. Cost O(length)."""
        return float(0.5 * self.length * np.log(2.0 * np.pi * np.e) + self._log_determinant)

    def bipartite_mutual_information(self, split: ArrayLike | None = None) -> Any:
        """I(x_1 .. x_split; the rest) in nats, exact at any split; default half.

            I(k) = sum_{i <= k} ln(forward s_i / backward s_i),

        s_i the standard deviation of x_i given all before it and given all behind it: moving x_i over the cut adds
        H(x_i | before) - H(x_i | behind). split: whole numbers 1 <= split < length, any shape; returns that shape.
        Raises ValueError otherwise. Cost O(length), once.
        """
        splits, _ = block_lengths(self.length, split)
        return self._information[splits - 1][()]

    def correlation(self, i: ArrayLike, j: ArrayLike) -> Any:
        """Correlation of positions i and j, counted from 0; the common shape of i and j.

        Raises ValueError for positions outside 0 <= i < length. Cost O(layers) each.
        """
        first, second = np.broadcast_arrays(self._positions(i, "i"), self._positions(j, "j"))
        return pair_correlation(self._layers, first, second)[()]

    def two_point_mutual_information(self, i: ArrayLike, j: ArrayLike) -> Any:
        """I(x_i; x_j) = -1/2 ln(1 - correlation^2) in nats; infinite at i = j. As `correlation`."""
        c = np.asarray(self.correlation(i, j))
        with np.errstate(divide="ignore"):
            return np.asarray(-0.5 * np.log1p(-c * c))[()]

    def antipodal_mutual_information(self) -> float:
        """I(x_1; x_length) in nats; |correlation| = 1/4 (5/16)^(layers - 1) in both families. Cost O(layers)."""
        return float(self.two_point_mutual_information(0, self.length - 1))

    def on_device(self, device: Any = None, dtype: Any = None) -> HierarchicalGaussianOnDevice:
        """This distribution for torch tensors (default: CUDA if there is one, float32); imports torch."""
        from lib.processes.gaussian.on_device import HierarchicalGaussianOnDevice

        return HierarchicalGaussianOnDevice(self, device, dtype)

    def levels(self, dtype: DTypeLike = np.float64) -> list[tree.Level]:
        """The coefficients of `lib.processes.gaussian.tree` in one floating-point type, lowest layer first."""
        return self._levels[np.dtype(_floating(dtype)).name]

    @cached_property
    def _layers(self) -> list[Layer]:
        return build_layers(self.layers, FAMILIES[self.family], COUPLINGS[self.coupling])

    @cached_property
    def _forward(self) -> list[Prediction]:
        return predictions(self._layers)

    @cached_property
    def _levels(self) -> dict[str, list[tree.Level]]:
        return {name: tree.levels(self._layers, self._forward, name) for name in ("float64", "float32")}

    @cached_property
    def _information(self) -> NDArray[np.float64]:
        backward = predictions(self._layers, backward=True)[-1].deviations[::-1]
        return np.cumsum(np.log(self._forward[-1].deviations / backward))

    @cached_property
    def _log_determinant(self) -> float:
        total = 0.0
        for layer in self._layers:
            total = layer.copies * total + layer.log_determinant
        return total

    def _sample_tokens(
        self,
        passes: list[Callable[[list[tree.Level], NDArray[Any]], NDArray[Any]]],
        n: int,
        copies: int,
        seed: int | np.random.Generator,
        dtype: DTypeLike,
    ) -> list[NDArray[Any]]:
        count, width = whole_number(n, "n", 1), whole_number(copies, "copies", 1)
        kind = _floating(dtype)
        draw = generator(seed)
        found = [np.empty((count, self.length, width), kind) for _ in passes]
        step = max(1, BLOCK // (self.length * width))
        for start in range(0, count, step):
            tokens = min(step, count - start)
            noise = draw.standard_normal((tokens * width, self.length), dtype=kind).T
            for array, function in zip(found, passes, strict=True):
                made = self._in_blocks(function, noise).reshape(self.length, tokens, width)
                array[start : start + tokens] = made.transpose(1, 0, 2)
        return found

    def _along(
        self, function: Callable[[list[tree.Level], NDArray[Any]], NDArray[Any]], values: NDArray[Any], axis: int
    ) -> NDArray[Any]:
        leading = np.moveaxis(values, axis, 0)
        flat = leading.reshape(self.length, -1)
        return np.moveaxis(self._in_blocks(function, flat).reshape(leading.shape), 0, axis)

    def _in_blocks(
        self, function: Callable[[list[tree.Level], NDArray[Any]], NDArray[Any]], columns: NDArray[Any]
    ) -> NDArray[Any]:
        levels = self.levels(columns.dtype)
        found = np.empty(columns.shape, columns.dtype)
        step = max(1, BLOCK // self.length)
        for start in range(0, columns.shape[1], step):
            block = np.ascontiguousarray(columns[:, start : start + step])
            found[:, start : start + step] = function(levels, block)
        return found

    def _checked(self, x: ArrayLike, axis: int) -> NDArray[Any]:
        values = plain_array(x, "x")
        if values.dtype.kind not in "iuf":
            raise ValueError(f"x: real numbers are allowed, got type {values.dtype}")
        place = whole_number(axis, "axis", -max(values.ndim, 1))
        if values.shape[place:][:1] != (self.length,):
            raise ValueError(f"x: {self.length} entries along axis {axis} are needed, got shape {values.shape}")
        single = values.dtype == np.float32 or str(getattr(x, "dtype", "")) == "torch.float32"
        values = values.astype(np.float32 if single else np.float64, copy=False)
        limit = LARGEST[values.dtype.name]
        if not (values.max(initial=0.0) <= limit and values.min(initial=0.0) >= -limit):
            wrong = values[~(np.abs(values) <= limit)].flat[0]
            raise ValueError(f"x: finite values up to {limit:g} are allowed in {values.dtype}, got {wrong}")
        return values

    def _positions(self, positions: ArrayLike, name: str) -> NDArray[np.int64]:
        try:
            return whole_lags(positions, self.length, "positions")
        except ValueError as error:
            raise ValueError(f"{name}: positions 0 <= {name} < {self.length} are allowed, got {positions!r}") from error


def _floating(dtype: DTypeLike) -> type[np.float64] | type[np.float32]:
    try:
        name = np.dtype(dtype).name if dtype is not None else "None"
    except TypeError:
        name = repr(dtype)
    if name == "float64":
        return np.float64
    if name == "float32":
        return np.float32
    raise ValueError(f"dtype: float64 or float32 is allowed, got {name}")


def _one_of(name: Any, what: str, allowed: dict[str, Any]) -> str:
    if not isinstance(name, str) or name not in allowed:
        raise ValueError(f"{what}: {', '.join(map(repr, allowed))} are allowed, got {name!r}")
    return name
