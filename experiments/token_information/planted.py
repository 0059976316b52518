"""Tokens of a large, unevenly used vocabulary whose two-point information is known exactly at every distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from lib.checks import generator, real_number, whole_number
from lib.processes.binary.power_law import PowerLawBinary
from lib.processes.discrete.tables import information_of_table

Floats = NDArray[np.float64]


class PlantedTokens:
    """A token is `bits` power-law bits and a suffix: token = bits * suffixes + suffix, all parts independent.

    The bits are independent sequences `PowerLawBinary(exact=True)` and carry A d^-alpha together. The suffix is drawn
    anew at every place, by Zipf's law 1/k, so it makes the vocabulary large and uneven and tells nothing. With
    `topics` > 1 every sequence has a topic, drawn evenly, and topic j uses Zipf's law with the ranks turned by a
    `topics`-th of the circle j times in a share `tilt` of its suffixes: then two suffixes of one sequence do tell of
    each other, and as much at every distance,

        I(d) = A d^-alpha + I_topic.

    length: tokens of a sequence; bits >= 1; suffixes >= 1; amplitude: A in nats, of all bits together; exponent: alpha
    > 0; topics >= 1, a divisor of suffixes; tilt in [0, 1]. ValueError otherwise, and for amplitudes that
    `PowerLawBinary` does not allow.
    """

    def __init__(
        self,
        length: int,
        bits: int = 8,
        suffixes: int = 16,
        amplitude: float = 1.1,
        exponent: float = 0.91,
        topics: int = 1,
        tilt: float = 0.0,
    ) -> None:
        self.length = whole_number(length, "length", 1)
        self.bits = whole_number(bits, "bits", 1)
        self.suffixes = whole_number(suffixes, "suffixes", 1)
        self.topics = whole_number(topics, "topics", 1)
        self.tilt = real_number(tilt, "tilt")
        self.amplitude = real_number(amplitude, "amplitude")
        self.exponent = real_number(exponent, "exponent")
        if not 0.0 <= self.tilt <= 1.0:
            raise ValueError(f"tilt: a share from 0 to 1 is allowed, got {tilt!r}")
        if self.suffixes % self.topics:
            raise ValueError(f"topics: a divisor of the {self.suffixes} suffixes is allowed, got {topics!r}")
        self._bit = PowerLawBinary(self.length, self.amplitude / self.bits, self.exponent, exact=True)

    def __repr__(self) -> str:
        return (
            f"PlantedTokens({self.length}, bits={self.bits}, suffixes={self.suffixes}, amplitude={self.amplitude!r}, "
            f"exponent={self.exponent!r}, topics={self.topics}, tilt={self.tilt!r})"
        )

    @property
    def vocabulary(self) -> int:
        """Number of different tokens, 2^bits suffixes."""
        return int(self.suffixes << self.bits)

    def topic_laws(self) -> Floats:
        """Distribution of the suffix in each topic, (topics, suffixes)."""
        zipf = 1.0 / np.arange(1, self.suffixes + 1)
        zipf /= zipf.sum()
        step = self.suffixes // self.topics
        turned = np.stack([np.roll(zipf, step * topic) for topic in range(self.topics)])
        return np.asarray((1 - self.tilt) * zipf + self.tilt * turned)

    def suffix_pairs(self) -> Floats:
        """Joint distribution of two suffixes of one sequence, at any distance, (suffixes, suffixes)."""
        laws = self.topic_laws()
        return np.asarray(laws.T @ laws / self.topics)

    def marginal(self) -> Floats:
        """Distribution of a token, (vocabulary,)."""
        return np.tile(self.suffix_pairs().sum(axis=1) / (1 << self.bits), 1 << self.bits)

    def topic_information(self) -> float:
        """I_topic in nats: mutual information of two suffixes of one sequence."""
        return float(information_of_table(self.suffix_pairs()))

    def mutual_information(self, lags: ArrayLike) -> Floats:
        """Exact I(d) in nats, shape of `lags`; whole numbers 1 <= d < length, ValueError otherwise."""
        law = np.asarray(self._bit.mutual_information(lags))
        if np.any(np.asarray(lags) == 0):
            raise ValueError("lags: whole numbers of at least 1 are allowed, got 0")
        return np.asarray(self.bits * law + self.topic_information())

    def pair_law(self, lag: int) -> tuple[Floats, Floats]:
        """Joint distribution of two tokens at a distance: probabilities of cells and how many cells have each.

        With correlation sin(pi u / 2) of the Gaussians two bits agree with probability (1 + u)/2, so a cell in which k
        of M bits agree has probability (1 + u)^k (1 - u)^(M - k) / 4^M times that of its two suffixes. Both of shape
        (cells,), (bits + 1) suffixes^2 in number.
        """
        agreement = 2 / np.pi * np.arcsin(float(self._bit.correlation(lag)))
        same = np.arange(self.bits + 1)
        of_bits = (1 + agreement) ** same * (1 - agreement) ** (self.bits - same) / 4.0**self.bits
        number = comb(self.bits, same) * 2.0**self.bits
        of_suffixes = self.suffix_pairs().ravel()
        cells = np.outer(of_bits, of_suffixes).ravel()
        return cells, np.repeat(number, of_suffixes.size)

    def sample(self, n: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """n independent sequences of tokens 0, ..., vocabulary - 1, (n, length). O(n length (bits ln length))."""
        count = whole_number(n, "n", 1)
        random = generator(seed)
        tokens = np.zeros((count, self.length), dtype=np.int64)
        for _ in range(self.bits):
            tokens = 2 * tokens + self._bit.sample(count, random)
        laws = np.cumsum(self.topic_laws(), axis=1)
        for row, topic in zip(tokens, random.integers(self.topics, size=count), strict=True):
            drawn = np.searchsorted(laws[topic], random.random(self.length) * laws[topic, -1], side="right")
            row *= self.suffixes
            row += np.minimum(drawn, self.suffixes - 1)
        return tokens
