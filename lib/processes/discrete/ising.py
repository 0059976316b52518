"""The nearest-neighbour Ising chain: exact information, exact conditional sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from lib.checks import real_number, whole_lags, whole_number
from lib.processes.discrete.markov import MarkovChain, sample_chain
from lib.processes.discrete.tables import information_of_deviation

# Beyond this argument asinh(y) = ln(2 y) to rounding, and y itself would soon overflow.
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
        # alignment > 0: neighbours tend to be alike
        self._alignment, self._bias = -aligned * shrunk, biased * shrunk
        self._angle = _angle(self._alignment, self._bias)

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
        return _conditional(self._alignment, self._bias + self._angle)

    def markov_chain(self) -> MarkovChain:
        """The same distribution as a `MarkovChain`, which also knows its bipartite information."""
        return MarkovChain(self.transition_matrix, self.initial_distribution)

    def correlation(self, lags: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Correlation coefficient of two spins at whole lags >= 0, any shape: (lambda_2 / lambda_1)^lag.

        The eigenvalues are those of the transfer matrix; without field the ratio is -tanh(beta J). Raises ValueError
        for other lags. Cost O(1) each.
        """
        whole = whole_lags(lags)
        negative = (self._alignment < 0.0) & (whole % 2 == 1)
        with np.errstate(invalid="ignore"):  # independent spins: 0 times -infinity at lag 0
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

        Finite at every finite beta; zero for independent spins.
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
        messages = np.zeros(whole_number(length, "length", 1))
        for place in range(messages.size - 1, 0, -1):
            messages[place - 1] = _message(self._alignment, self._bias + messages[place])
            if messages[place - 1] == messages[place]:  # far from the end, as in the infinite chain
                messages[:place] = messages[place]
                break
        steps = _conditional(self._alignment, 2.0 * (self._bias + messages))
        steps[0] = _conditional(0.0, 2.0 * (self._bias + messages[0]))  # the first spin has no neighbour before it
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
        """ln |lambda_2 / lambda_1|, accurate next to ratio 0 and next to ratio 1."""
        # ratio = sinh(2 K) / (cosh(2 K) + cosh(b)), all terms divided by the largest exponential
        double, bias = 2.0 * abs(self._alignment), abs(self._bias + self._angle)
        scale = max(double, bias)
        cosh_bias = 0.5 * (np.exp(bias - scale) + np.exp(-bias - scale))
        total = 0.5 * (np.exp(double - scale) + np.exp(-double - scale)) + cosh_bias
        gap = (np.exp(-double - scale) + cosh_bias) / total
        if gap < 0.5:
            return float(np.log1p(-gap))
        ratio = -0.5 * np.expm1(-2.0 * double) * np.exp(double - scale) / total
        return float(np.log(ratio)) if ratio > 0.0 else -np.inf


def _conditional(alignment: float, bias: ArrayLike) -> NDArray[np.float64]:
    """P(b | a) proportional to exp(alignment s_a s_b + bias s_b / 2), (..., 2, 2) for biases of shape (...)."""
    up = 2.0 * alignment * np.array([-1.0, 1.0]) + np.asarray(bias)[..., None]
    return np.stack([expit(-up), expit(up)], axis=-1)


def _message(alignment: float, field: float) -> float:
    """artanh(tanh(alignment) tanh(field)), without overflow: half the log ratio of two sums over one spin."""
    alike = np.logaddexp(alignment + field, -alignment - field)
    opposed = np.logaddexp(alignment - field, field - alignment)
    return float(0.5 * (alike - opposed))


def _angle(alignment: float, bias: float) -> float:
    """asinh(exp(2 alignment) sinh(bias)), without overflow."""
    if bias == 0.0:
        return 0.0
    size = abs(bias)
    log_sinh = float(np.log(np.sinh(size))) if size < _ASYMPTOTIC else size - np.log(2.0)
    exponent = 2.0 * alignment + log_sinh
    angle = float(np.arcsinh(np.exp(exponent))) if exponent < _ASYMPTOTIC else exponent + np.log(2.0)
    return float(np.copysign(angle, bias))
