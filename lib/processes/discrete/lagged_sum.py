"""A source that needs exactly `order` symbols of context: with one fewer, nothing can be predicted."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from lib.checks import generator, plain_array, real_number, whole_number
from lib.processes.discrete.tables import enumerable_length


class LaggedSum:
    """Each symbol is the sum of the last one and the one `order` steps back, modulo the number of symbols, with noise.

        x_t = x_{t-1} + x_{t-order} (mod symbols),  replaced by a uniform symbol with probability `noise`.

    Without noise and with two symbols that is x_t = x_{t-1} xor x_{t-order}. Started from `order` independent uniform
    symbols the source is stationary: (x_{t-order} .. x_{t-1}) -> (x_{t-order+1} .. x_t) is one to one where the sum
    stands, and a replaced symbol is uniform whatever came before, so that any `order` neighbours are independent and
    uniform. The symbol `order` steps back is therefore uniform even if all between are known, and a predictor of fewer
    than `order` symbols knows nothing: `conditional_entropy`.

    order: at least 2. symbols: at least 2, numbered from 0. noise: a probability. Raises ValueError otherwise.
    """

    def __init__(self, order: int = 3, symbols: int = 2, noise: float = 0.0) -> None:
        self.order = whole_number(order, "order", 2)
        self.symbols = whole_number(symbols, "symbols", 2)
        self.noise = real_number(noise, "noise")
        if not 0.0 <= self.noise <= 1.0:
            raise ValueError(f"noise: a probability between 0 and 1 is allowed, got {noise!r}")

    def __repr__(self) -> str:
        return f"LaggedSum(order={self.order}, symbols={self.symbols}, noise={self.noise!r})"

    @property
    def probability_of_sum(self) -> float:
        """How often the next symbol is the sum: 1 - noise + noise / symbols."""
        return 1.0 - self.noise + self.noise / self.symbols

    def next_symbol_distribution(self, context: ArrayLike) -> NDArray[np.float64]:
        """Distribution of the next symbol after contexts (..., k) of known symbols, the newest last: (..., symbols).

        k < order leaves the uniform distribution. Raises ValueError for symbols that do not exist. Cost O(size).
        """
        known = plain_array(context, "context")
        if known.ndim < 1 or (known.size and known.dtype.kind not in "iu"):
            raise ValueError(f"context: whole numbers of shape (..., k) are allowed, got {context!r}")
        if np.any((known < 0) | (known >= self.symbols)):
            raise ValueError(f"context: symbols from 0 to {self.symbols - 1} are allowed, got {context!r}")
        law = np.full((*known.shape[:-1], self.symbols), 1.0 / self.symbols)
        if known.shape[-1] >= self.order:
            total = (known[..., -1].astype(np.int64) + known[..., -self.order]) % self.symbols
            law = np.full_like(law, self.noise / self.symbols)
            np.put_along_axis(law, total[..., None], self.probability_of_sum, axis=-1)
        return law

    def conditional_entropy(self, known: int) -> float:
        """H(x_t | the last `known` symbols) in nats: ln(symbols) below `order`, the entropy of one rule from there on.

        No predictor with a window of `known` symbols has a smaller mean log loss. Raises ValueError for known < 0.
        """
        if whole_number(known, "known", 0) < self.order:
            return log(self.symbols)
        other = self.noise / self.symbols
        return float(
            -xlogy(self.probability_of_sum, self.probability_of_sum) - (self.symbols - 1) * xlogy(other, other)
        )

    def joint_distribution(self, length: int) -> NDArray[np.float64]:
        """Probability of every sequence, shape (symbols,) * length. Plain enumeration, at most 2^24 sequences."""
        joint = np.ones(())
        for known in range(enumerable_length(length, self.symbols)):
            contexts = np.moveaxis(np.indices((self.symbols,) * known), 0, -1)
            joint = joint[..., None] * self.next_symbol_distribution(contexts)
        return joint

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """n independent stationary sequences (n, length) of symbols 0 .. symbols - 1.

        Raises ValueError for n or length < 1 or a bad seed. Cost O(n length).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        random = generator(seed)
        sequences = random.integers(0, self.symbols, (rows, columns))
        follow = random.random((rows, columns)) >= self.noise
        for t in range(self.order, columns):
            total = (sequences[:, t - 1] + sequences[:, t - self.order]) % self.symbols
            sequences[:, t] = np.where(follow[:, t], total, sequences[:, t])
        return sequences
