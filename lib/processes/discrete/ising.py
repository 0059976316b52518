"""The nearest-neighbour Ising chain: exact information, exact conditional sampling."""

from __future__ import annotations

from math import exp, fsum, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from lib.checks import real_number, whole_lags, whole_number
from lib.processes.discrete.markov import MarkovChain, sample_chain
from lib.processes.discrete.tables import information_of_deviation

# Beyond this argument asinh(y) = ln(2 y) and ln(2 sinh x) = x to rounding, and y itself would soon overflow.
_ASYMPTOTIC = 40.0
LARGEST = 1e300  # of beta J and beta h: twice them is finite


class IsingChain:
    """Spins s = -1, +1 with probability proportional to exp(-beta H), each interacting with its two neighbours:

        H = J sum_t s_t s_{t+1} - h sum_t s_t.

    The sign is that of Eq. 56 of Shen (2019), every pair once: J > 0 is antiferromagnetic, J < 0 ferromagnetic. A
    field h > 0 favours +1. Symbols of samples and matrices are 0 for spin -1 and 1 for spin +1. The chain is infinite,
    that is, its ends are far away, except where a method says "open chain".

    Everything follows from one angle theta = asinh(exp(-2 beta J) sinh(beta h)): magnetisation tanh(theta), and
    P(s' = +1 | s) = 1 / (1 + exp(-(-2 beta J s + beta h + theta))).

    coupling: J, finite. beta: inverse temperature >= 0. field: h, finite. Raises ValueError otherwise. Source: Shen
    (2019), App. G; transfer matrix exp(-beta J s s' + beta h (s + s') / 2).
    """

    def __init__(self, coupling: float, beta: float, field: float = 0.0) -> None:
        self.coupling = real_number(coupling, "coupling")
        self.beta = real_number(beta, "beta")
        self.field = real_number(field, "field")
        if self.beta < 0.0:
            raise ValueError(f"beta: an inverse temperature >= 0 is allowed, got {beta!r}")
        aligned, biased = real_number(self.beta * self.coupling, "beta * coupling"), self.beta * self.field
        largest = max(abs(aligned), abs(real_number(biased, "beta * field")))
        shrunk = min(1.0, LARGEST / largest) if largest else 1.0  # both: such a distribution is its own limit
        # sizes and signs: neighbours tend to be alike (1) or not (-1), and a field < 0 mirrors one > 0
        self._pair, self._alike = 2.0 * abs(aligned) * shrunk, -1 if aligned > 0.0 else 1
        self._bias, self._sign = abs(biased) * shrunk, -1 if biased < 0.0 else 1
        angle, self._critical = _angle(self._alike * self._pair, self._bias)
        self._angle = self._sign * angle

    def __repr__(self) -> str:
        return f"IsingChain({self.coupling!r}, {self.beta!r}, field={self.field!r})"

    @property
    def initial_distribution(self) -> NDArray[np.float64]:
        """P(s = -1), P(s = +1) at any place, (2,)."""
        return np.asarray(expit([-2.0 * self._angle, 2.0 * self._angle]))

    @property
    def magnetization(self) -> float:
        """Mean spin, tanh(theta)."""
        return float(np.tanh(self._angle))

    @property
    def transition_matrix(self) -> NDArray[np.float64]:
        """P(next symbol | symbol), (2, 2): Eq. 62 of Shen (2019) without field."""
        return self._conditional(self._bias + abs(self._angle), self._critical)

    def markov_chain(self) -> MarkovChain:
        """The same distribution as a `MarkovChain`, which also knows its bipartite information."""
        return MarkovChain(self.transition_matrix, self.initial_distribution)

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Correlation coefficient of two spins at whole lags >= 0, any shape: (lambda_2 / lambda_1)^lag.

        The eigenvalues are those of the transfer matrix; without field the ratio is -tanh(beta J). Raises ValueError
        for other lags. Cost O(1) each.
        """
        whole = whole_lags(lags)
        negative = (self._alike < 0) & (whole % 2 == 1)
        with np.errstate(invalid="ignore", over="ignore"):  # independent spins: 0 times -infinity at lag 0
            exponent = np.where(whole == 0, 0.0, whole * self._log_ratio)
        return np.asarray(np.where(negative, -1.0, 1.0) * np.exp(exponent))[()]

    def mutual_information(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact mutual information in nats of two spins at whole lags >= 0, any shape (lag 0: the entropy).

        P(a, b) = P(a) P(b) + a b p (1 - p) rho with p = P(s = +1) and rho = `correlation(lag)`; without field
        I = rho artanh(rho) + ln(1 - rho^2) / 2. Values as small as 1e-300 keep their digits. Raises ValueError for
        other lags. Cost O(1) each.
        """
        law = self.initial_distribution
        rho = np.asarray(self.correlation(lags))
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.asarray(information_of_deviation((law[0] * law[1] * rho)[..., None, None] * signs, law, law))[()]

    @property
    def correlation_length(self) -> float:
        """xi of I(tau) ~ exp(-tau / xi): -1 / (2 ln |lambda_2 / lambda_1|); the spins' own length is twice that.

        Finite at every finite beta (infinite where it leaves float64, beta |J| above about 355 without field); zero
        for independent spins.
        """
        return float(-0.5 / self._log_ratio) if self._log_ratio < 0.0 else np.inf

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.uint8]:
        """n independent stretches of the infinite chain, symbols 0 and 1, uint8 (n, length).

        Spin after spin from `transition_matrix`; without field that is also an open chain. Raises ValueError for n or
        length < 1 or a bad seed. Cost O(n length).
        """
        rows, columns = whole_number(n, "n", 1), whole_number(length, "length", 1)
        steps = np.broadcast_to(self.transition_matrix, (columns, 2, 2))
        return np.asarray(sample_chain(self.initial_distribution, steps, rows, seed), dtype=np.uint8)

    def open_chain_conditionals(self, length: int) -> NDArray[np.float64]:
        """P(symbol of spin t | symbol of spin t - 1) in an open chain, (length, 2, 2) for t = 1 .. length.

        The spins after t, summed over, act on it as a field l_t. One pass backwards finds them all, even where the
        field h breaks the spin flip symmetry that Eq. 62 of Shen (2019) needs:

            tanh l_t = tanh(-beta J) tanh(beta h + l_{t+1}),   l_length = 0.

        Both rows of the first matrix are the distribution of the first spin. ValueError for length < 1. Cost O(length).
        """
        size, states = whole_number(length, "length", 1), [(2.0 * self._bias, 0.0, 2.0 * self._bias - self._pair)]
        while len(states) < size:
            states.append(self._earlier(*states[-1]))
            if states[-1][::2] == states[-2][::2]:  # far from the end, as in the infinite chain
                break
        field, _, critical = np.array([states[-1]] * (size - len(states)) + states[::-1]).T
        steps = self._conditional(field, critical)
        up = self._sign * field[0]  # the first spin has no neighbour before it
        steps[0] = expit([-up, up])
        return steps

    def sample_open(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.uint8]:
        """n independent open chains of `length` spins, symbols 0 and 1, uint8 (n, length).

        Exact draws from the Boltzmann distribution of a finite chain, by `open_chain_conditionals`. Raises ValueError
        for n or length < 1 or a bad seed. Cost O(n length).
        """
        rows = whole_number(n, "n", 1)
        steps = self.open_chain_conditionals(length)
        return np.asarray(sample_chain(steps[0, 0], steps, rows, seed), dtype=np.uint8)

    @property
    def _log_ratio(self) -> float:
        """ln |lambda_2 / lambda_1|, accurate next to ratio 0 and next to ratio 1: three terms of one sign."""
        # |P(+ | +) - P(+ | -)| = expit(w) - expit(c) = expit(w) expit(-c) (1 - exp(c - w)), w - c = 4 beta |J|
        if self._pair == 0.0:
            return -np.inf
        apart = 2.0 * self._pair
        last = np.log1p(-np.exp(-apart)) if apart > 1.0 else np.log(-np.expm1(-apart))
        return float(log_expit(self._bias + abs(self._angle) + self._pair) + log_expit(-self._critical) + last)

    def _conditional(self, field: ArrayLike, critical: ArrayLike) -> NDArray[np.float64]:
        """P(b | a), (..., 2, 2), from f and c = f - 2 beta |J|, (...): f is the log odds of b along h without a.

        The neighbour makes them c or w = f + 2 beta |J|. Where f is huge, c has digits that f has lost.
        """
        odds = np.stack(np.broadcast_arrays(critical, np.add(field, self._pair)), axis=-1)
        up = self._sign * odds[..., :: self._alike * self._sign]
        return np.stack([expit(-up), expit(up)], axis=-1)

    def _earlier(self, field: float, low: float, critical: float) -> tuple[float, float, float]:
        """f, what rounding took from it, and c = f - 2 beta |J| of the spin before, f = 2 (beta |h| + l):

        2 |l| = min(f, 2 beta |J|) + ln(1 + e^-w) - ln(1 + e^-|c|), after the f, c, w of the spin.
        """
        rest = log1p(exp(-field - self._pair)) - log1p(exp(-abs(critical)))
        message = (field, low, rest) if critical < 0.0 else (self._pair, rest)
        terms = [2.0 * self._bias, *(self._alike * term for term in message)]
        field = fsum(terms)  # rounded once
        return field, fsum([*terms, -field]), fsum([*terms, -self._pair])


def _angle(double: float, bias: float) -> tuple[float, float]:
    """theta = asinh(exp(double) sinh(bias)) and bias + theta - |double| for bias >= 0: huge terms cancel first."""
    if bias == 0.0:
        return 0.0, -abs(double)
    log_sinh = bias if bias > _ASYMPTOTIC else float(np.log(2.0 * np.sinh(bias)))
    exponent, down = double + log_sinh, min(double, 0.0)
    if exponent > _ASYMPTOTIC:
        return exponent, (bias + down) + (down + log_sinh)
    angle = float(np.arcsinh(0.5 * np.exp(exponent)))
    return angle, (bias - abs(double)) + angle
