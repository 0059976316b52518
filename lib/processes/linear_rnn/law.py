"""Linear recurrent networks with Gaussian output: a Gaussian process whose distribution is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, plain_array, real_array, real_number, whole_lags, whole_number
from lib.processes.linear_rnn.information import Channel
from lib.processes.linear_rnn.powers import (
    ScaledPowers,
    nonzero_eigenvalues,
    semidefinite,
    spectral_radius,
    square_root,
    stationary_covariance,
    visible_part,
)

Matrix = NDArray[np.float64]
Reading = Callable[[Matrix, Matrix], Matrix]  # of what is read of the start, and the noise gathered since
AT_A_POLE = 64 * np.finfo(np.float64).eps  # |1 - z lambda|, where nothing but rounding is left
ROUNDING = 1e-10  # how far the correlations of a given covariance may be from symmetric and semidefinite


class LinearRNN:
    """h_t = U h_{t-1} + W x_{t-1},  x_t = O h_{t-1} + e_t,  e_t ~ N(0, noise_variance 1) independent.

    The pair s_t = (h_t, x_t) is Markov: s_t = M s_{t-1} + (0, e_t) with M = [[U, W], [O, 0]], so that
    Cov(s_t, s_0) = M^t Cov(s_0). (Eq. 5-7 of the paper carry one factor U too many; the corrected and the
    printed forms are in `lib.theory.linear_rnn`.)

    W (m, d), U (m, m), O (d, m), noise_variance > 0.
    initial: "origin", h_0 = 0 and Cov(x_0) = 1; "stationary", the distribution that does not change in time, which
    exists if the spectral radius of M is below one; or the covariance of (h_0, x_0), (m+d, m+d), symmetric
    and positive semidefinite.
    hidden_bias (m,), output_bias (d,): added in Eq. 3 and 4; they move the mean of samples and nothing else.
    Raises ValueError for other shapes, NaN, a variance that is not positive, an unknown or invalid `initial`,
    and the stationary distribution of an unstable system. Source: Shen (2019), Sec. 4.1 and App. A, Eq. 3-41.
    """

    def __init__(
        self,
        W: ArrayLike,
        U: ArrayLike,
        O: ArrayLike,  # noqa: E741 - the paper's letter
        noise_variance: float,
        initial: str | ArrayLike = "origin",
        *,
        hidden_bias: ArrayLike | None = None,
        output_bias: ArrayLike | None = None,
    ) -> None:
        self.W, self.U, self.O = _finite(W, "W", 2), _finite(U, "U", 2), _finite(O, "O", 2)
        m, d = self.W.shape
        if min(m, d) < 1 or self.U.shape != (m, m) or self.O.shape != (d, m):
            raise ValueError(
                "W (m, d), U (m, m), O (d, m) with m, d >= 1 are allowed, "
                f"got W {self.W.shape}, U {self.U.shape}, O {self.O.shape}"
            )
        self.hidden_size, self.output_size = m, d
        self.noise_variance = real_number(noise_variance, "noise_variance")
        if self.noise_variance <= 0.0:
            raise ValueError(f"noise_variance: numbers > 0 are allowed, got {noise_variance!r}")
        self.transition_matrix: Matrix = np.block([[self.U, self.W], [self.O, np.zeros((d, d))]])
        self.initial_covariance = self._initial(initial)
        self.hidden_bias, self.output_bias = _bias(hidden_bias, m, "hidden_bias"), _bias(output_bias, d, "output_bias")

    def __repr__(self) -> str:
        return (
            f"LinearRNN(d={self.output_size}, m={self.hidden_size}, noise_variance={self.noise_variance!r}, "
            f"spectral_radius={self.spectral_radius:.6g})"
        )

    @cached_property
    def spectral_radius(self) -> float:
        """Largest modulus of an eigenvalue of M: the process is stable if it is below one."""
        return spectral_radius(self.transition_matrix)

    def cross_covariance(self, t: ArrayLike) -> Matrix:
        """Cov(x_t, x_0) = [0 1] M^t Cov(s_0) [0 1]^T: row of x_t, column of x_0.

        t: whole numbers >= 0, any shape. Returns t.shape + (d, d). Raises ValueError for other t, and where
        the covariance leaves the range of float64. Of an unstable system, a mode counts as hidden that noise and h_0,
        x_0 reach, or outputs show, by less than 1e-12 of the rest in units that balance M, however far it would grow.
        Cost O((m+d)^3) each. Source: Shen (2019), Eq. 15.
        """
        readout, _, initial, _ = self._output_system
        return self._over(t, "Cov(x_t, x_0)", self._powers, readout, lambda read, _: read @ initial @ readout.T)

    def covariance(self, t: ArrayLike) -> Matrix:
        """Cov(x_t), whose smallest eigenvalue is at least the noise variance for t >= 1 (Eq. 17, 37).

        t: whole numbers >= 0, any shape. Returns t.shape + (d, d). Raises, hides and costs as `cross_covariance` does.
        """
        readout, _, initial, _ = self._output_system
        return self._over(t, "Cov(x_t)", self._powers, readout, _covariance_from(initial))

    def state_covariance(self, t: ArrayLike) -> Matrix:
        """Cov of (h_t, x_t), t.shape + (m+d, m+d): given as `initial`, it starts the same process at time t."""
        powers = ScaledPowers(self.transition_matrix, self._innovation, np.ones(size := len(self.transition_matrix)))
        return self._over(t, "Cov(h_t, x_t)", powers, np.eye(size), _covariance_from(self.initial_covariance))

    def mutual_information(self, t: ArrayLike) -> np.float64 | NDArray[np.float64]:
        """Exact I(x_0; x_t) = -1/2 sum_i ln(1 - r_i^2) in nats, r_i the canonical correlations of x_0 and x_t.

        Computed from r^2 / (1 - r^2) by whitening and log1p, so that it keeps its relative precision down to
        1e-300 nats, and in coordinates that grow with the modes, so that an unstable system is followed to t
        of about 10^18; weak modes are hidden as there. Infinite at t = 0, where x_0 tells itself (0 if it is constant).

        t: whole numbers >= 0, any shape. Returns the same shape. Raises ValueError for other t, and where units
        of h and x are so far apart that Cov(x_t | x_0) leaves the range of float64. Cost O((m+d)^3) each: 10^5
        lags in a fraction of a second for small networks. Where x_0 alone fixes a growing mode, which neither noise
        nor the rest of h_0 reaches, the information grows without bound, and is not resolved beyond 36 nats. One
        output is followed through a growth of 10^40 a step; to several, 10^6 leaves five digits and 10^10 none.
        Source: Shen (2019), Eq. 8, 41.
        """
        times = whole_lags(t, name="t")
        flat, which = np.unique(times.ravel(), return_inverse=True)
        values = self._channel.mutual_information(flat)
        if np.any(np.isnan(values)):
            first = flat[np.isnan(values)].min()
            raise ValueError(f"t: Cov(x_t | x_0) leaves the range of float64 at t = {first}; {self._nearer_units}")
        start = self.initial_covariance[:, self.hidden_size :]
        if not np.any(self.transition_matrix[self.hidden_size :] @ start):
            values[flat == 1] = 0.0  # exactly, in whatever coordinates the rest is computed
        return np.asarray(values[which].reshape(times.shape))[()]

    def generating_function(self, z: ArrayLike) -> NDArray[Any]:
        """Sigma(z) = sum_n Cov(x_n, x_0) z^n = [0 1] (1 - z M)^-1 Cov(s_0) [0 1]^T, continued analytically.

        The resolvent is taken over the modes that show in Sigma(z) alone, so that its removable
        singularities, such as the reciprocal eigenvalues of U, are ordinary points.
        z: real or complex, any shape. Returns z.shape + (d, d), complex if z is. Raises ValueError for z that
        are not finite, and at a pole. Cost O((m+d)^3) each. Source: Shen (2019), Eq. 7, 35, corrected.
        """
        points = plain_array(z, "z")
        if points.dtype.kind not in "iufc" or not np.all(np.isfinite(points)):
            raise ValueError(f"z: finite real or complex numbers are allowed, got {z!r}")
        readout, transition, start = self._visible
        poles = f"no pole is allowed, got {z!r}; poles: {1.0 / self._visible_eigenvalues}"
        if np.any(np.abs(1.0 - points[..., None] * self._visible_eigenvalues) <= AT_A_POLE):
            raise ValueError(f"z: {poles}")
        system = np.eye(len(transition)) - points[..., None, None] * transition
        try:
            return np.asarray(readout @ np.linalg.solve(system, np.broadcast_to(start, (*points.shape, *start.shape))))
        except np.linalg.LinAlgError as error:
            raise ValueError(f"z: {poles}") from error

    def poles(self) -> NDArray[np.complex128]:
        """1 / eigenvalues of M other than zero, nearest to the origin first: all that Sigma(z) can have.

        A mode that x_0 does not excite or that no output shows is a pole here and none of Sigma(z); the
        decay rate leaves it out. Empty if M is nilpotent. Cost O((m+d)^3). Source: Shen (2019), App. A.
        """
        return np.asarray(1.0 / nonzero_eigenvalues(self.transition_matrix))

    def decay_rate(self) -> float:
        """2 ln|z_0| per step: I(x_0; x_t) falls as exp(-2 ln|z_0| t), up to powers of t and oscillation.

        z_0: the pole of Sigma(z) nearest to the origin, 1 / (spectral radius of M) unless that mode is hidden
        from Cov(x_t, x_0), as is one coupled by less than 1e-12 of the rest of M in units that balance M.
        That holds if every mode which noise reaches and outputs show is stable; else the variance may outgrow the
        covariance, and I fall faster. Infinite without poles; zero or negative if a mode that is not hidden is not
        stable: from h_0 = 0, with Cov(x_0) not singular, I then falls as a power of t or not at all.
        Cost O((m+d)^3). Source: Shen (2019), Sec. 4.1.
        """
        moduli = np.abs(self._visible_eigenvalues)
        return float(-2.0 * np.log(moduli[0])) if moduli.size else float("inf")

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> Matrix:
        """n independent sequences x_0 ... x_{length-1}, (n, length, d); means zero unless there are biases.

        Raises ValueError for n or length < 1, a seed that is neither a whole number >= 0 nor a Generator, and where an
        unstable system leaves the range of float64. Cost O(n length (m+d)^2).
        """
        rows, steps = whole_number(n, "n", 1), whole_number(length, "length", 1)
        random = generator(seed)
        m = self.hidden_size
        state = random.standard_normal((rows, m + self.output_size)) @ square_root(self.initial_covariance).T
        outputs: Matrix = np.sqrt(self.noise_variance) * random.standard_normal((rows, steps, self.output_size))
        outputs[:, 0] = state[:, m:]
        shift = np.concatenate([self.hidden_bias, self.output_bias])
        with np.errstate(over="ignore", invalid="ignore"):
            for step in range(1, steps):
                state = state @ self.transition_matrix.T + shift
                state[:, m:] += outputs[:, step]
                outputs[:, step] = state[:, m:]
        if not np.all(np.isfinite(outputs)):
            told = f"spectral radius {self.spectral_radius:.6g}"
            raise ValueError(f"length: samples below 1.8e308 are allowed ({told}), got one beyond within {steps} steps")
        return outputs

    @property
    def _nearer_units(self) -> str:
        return f"nearer units of h and x are allowed, U, W, O go up to {np.abs(self.transition_matrix).max():.3g}"

    @cached_property
    def _innovation(self) -> Matrix:
        return np.diag(np.repeat([0.0, self.noise_variance], [self.hidden_size, self.output_size]))

    def _initial(self, initial: str | ArrayLike) -> Matrix:
        m, d = self.hidden_size, self.output_size
        if isinstance(initial, str):
            if initial == "origin":
                return np.diag(np.repeat([0.0, 1.0], [m, d]))
            if initial != "stationary":
                raise ValueError(f"initial: 'origin', 'stationary' or a covariance is allowed, got {initial!r}")
            if not self.spectral_radius < 1.0:
                raise ValueError(
                    "initial: a stationary distribution needs a spectral radius of [[U, W], [O, 0]] below 1, "
                    f"got {self.spectral_radius:.6g}"
                )
            found = stationary_covariance(self.transition_matrix, self._innovation)
            if not np.all(np.isfinite(found)):
                raise ValueError(f"initial: Cov(h_0, x_0) leaves the range of float64; {self._nearer_units}")
            return _symmetric(found)
        given = _finite(initial, "initial", 2)
        if given.shape != (m + d, m + d):
            raise ValueError(f"initial: a covariance of shape ({m + d}, {m + d}) is allowed, got {given.shape}")
        floor = np.finfo(np.float64).eps * float(np.abs(given).max()) or 1.0
        scale = np.sqrt(np.maximum(np.abs(np.diag(given)), floor))  # correlations know no units
        correlations = given / scale / scale[:, None]
        if np.abs(correlations - correlations.T).max() > ROUNDING:
            raise ValueError("initial: a symmetric covariance of (h_0, x_0) is allowed, got one that is not symmetric")
        smallest = float(np.linalg.eigvalsh(_symmetric(correlations))[0])
        if smallest < -ROUNDING:
            what = f"got one whose correlations have the eigenvalue {smallest:.6g}"
            raise ValueError(f"initial: a positive semidefinite covariance is allowed, {what}")
        return _symmetric(given)

    @cached_property
    def _output_system(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """C, T, Cov(s_0) and Cov(noise) of x_t = C s_t, s_t = T s_{t-1} + noise, with the same distribution of all x_t.

        A growing mode that never shows would overflow behind the outputs, so it is cut off. Otherwise this is
        the pair (h, x) itself, whose exact zeros are worth keeping.
        """
        size = len(self.transition_matrix)
        readout = np.eye(size)[self.hidden_size :]
        if self.spectral_radius > 1.0:
            causes = np.hstack([square_root(self.initial_covariance), square_root(self._innovation)])
            seen, transition, causes = visible_part(readout, self.transition_matrix, causes)
            if len(transition) < size:
                first, later = causes[:, :size], causes[:, size:]
                return seen, transition, first @ first.T, later @ later.T
        return readout, self.transition_matrix, self.initial_covariance, self._innovation

    @cached_property
    def _channel(self) -> Channel:
        """s_0 = signal u + rest with u standard normal: the past of x_t, split by what x_0 tells."""
        readout, transition, initial, innovation = self._output_system
        first = readout @ initial @ readout.T
        deviations = np.sqrt(np.diag(first))
        scale = np.where(deviations > 0.0, deviations, 1.0)  # correlations of x_0 know no units
        values, vectors = np.linalg.eigh(first / scale / scale[:, None])
        kept = values > ROUNDING**1.5 * values[-1]
        signal = initial @ readout.T @ (vectors[:, kept] / scale[:, None]) / np.sqrt(values[kept])
        # x_0 has no part in the rest, where rounding would leave it one
        unseen = np.eye(len(transition)) - readout.T @ np.linalg.solve(readout @ readout.T, readout)
        rest = semidefinite(unseen @ (initial - signal @ signal.T) @ unseen)
        return Channel(readout, transition, innovation, signal, rest)

    @cached_property
    def _visible(self) -> tuple[Matrix, Matrix, Matrix]:
        m = self.hidden_size
        full = (np.eye(m + self.output_size)[m:], self.transition_matrix, self.initial_covariance[:, m:])
        part = visible_part(*full)
        return part if len(part[1]) < len(full[1]) else full

    @cached_property
    def _visible_eigenvalues(self) -> NDArray[np.complex128]:
        return nonzero_eigenvalues(self._visible[1])

    @cached_property
    def _powers(self) -> ScaledPowers:
        _, transition, _, innovation = self._output_system
        return ScaledPowers(transition, innovation, np.ones(len(transition)))

    def _over(self, t: ArrayLike, name: str, powers: ScaledPowers, readout: Matrix, function: Reading) -> Matrix:
        times = whole_lags(t, name="t")
        even = np.ones(len(readout))
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [function(*powers.read(readout, even, part)) for part in powers.batches(times.ravel())]
        values = np.concatenate(parts)
        if not np.all(np.isfinite(values)):
            first = times.ravel()[~np.isfinite(values).all(axis=(1, 2))].min()
            raise ValueError(
                f"t: {name} leaves the range of float64 at t = {first} (spectral radius {self.spectral_radius:.6g}); "
                "mutual_information does not"
            )
        return values.reshape(*times.shape, *values.shape[1:])


def _finite(value: Any, name: str, dimensions: int) -> Matrix:
    array = np.array(real_array(value, name))  # a copy: later edits of what was given change nothing
    if array.ndim != dimensions or not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name}: finite real numbers in {dimensions} dimensions are allowed, got shape {array.shape}"
            + ("" if np.all(np.isfinite(array)) else " with NaN or infinity")
        )
    return array


def _bias(value: ArrayLike | None, size: int, name: str) -> Matrix:
    bias = np.zeros(size) if value is None else _finite(value, name, 1)
    if bias.shape != (size,):
        raise ValueError(f"{name}: shape ({size},) is allowed, got {bias.shape}")
    return bias


def _covariance_from(initial: Matrix) -> Reading:
    return lambda read, noise: _symmetric(read @ initial @ read.swapaxes(-1, -2) + noise)


def _symmetric(matrix: Matrix) -> Matrix:
    return np.asarray(0.5 * (matrix + matrix.swapaxes(-1, -2)))
