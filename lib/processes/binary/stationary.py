"""Signs of a stationary Gaussian sequence: circulant embedding, O(n log n) per sequence."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import NDArray

from lib.checks import generator
from lib.machine import available_cores
from lib.processes.gaussian.sequences import predictors

Correlation = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Half-lengths of the embeddings tried after the minimal one, in units of the sequence length.
_LEVELLED_SIZES = (2, 4, 8)
# Complex numbers drawn at a time by one thread: two mebibytes, which stay in the cache until transformed.
_BLOCK = 2**17


def embedding_spectrum(correlation: Correlation, length: int) -> NDArray[np.float64] | None:
    """Eigenvalues of a circulant covariance that has this correlation at lags 0 .. length - 1, or None.

    A symmetric circulant matrix of even size M with first row r has eigenvalues sum_d r(d) cos(2 pi k d / M);
    where all are >= 0 a Gaussian with exactly that covariance is one Fourier transform away
    (Davies and Harte 1987; Dietrich and Newsam 1997; Wood and Chan 1994).

    The smallest embedding, r(d) = c(d) up to M / 2, comes first. Close to the limit of positive definiteness
    its kink at M / 2 costs eigenvalues about -1e-6; then lags >= length, which no sequence sees, are levelled
    off smoothly to a horizontal end, in larger and larger embeddings.

    Eigenvalues that are negative by no more than the rounding of the transform, 32 eps log2(M) |r|, are set
    to zero (the correlation moves by less than that, about 1e-12); None means that every embedding has one below it.
    Returns (M,) values >= 0. Cost O(M log M).
    """
    smallest = scipy.fft.next_fast_len(max(1, length - 1))
    candidates = [(smallest, False)] + [(scipy.fft.next_fast_len(k * length), True) for k in _LEVELLED_SIZES]
    for half, levelled in candidates:
        row = np.concatenate([[1.0], correlation(np.arange(1.0, half + 1.0))])
        if levelled:
            row = _level_off(row, length)
        spectrum = np.asarray(scipy.fft.dct(row, type=1), dtype=np.float64)
        rounding = 32.0 * np.finfo(float).eps * np.log2(2.0 * half) * float(np.linalg.norm(row))
        if spectrum.min() >= -rounding:
            spectrum = np.maximum(spectrum, 0.0)
            return np.concatenate([spectrum, spectrum[-2:0:-1]])
    return None


def _level_off(row: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """The row with its steps beyond `length` multiplied by a smooth descent from 1 to 0.

    Damped steps keep a convex decreasing row convex and decreasing, and the reflected row has no kink.
    """
    place = (np.arange(length, row.size) - (length - 1.0)) / (row.size - length)
    with np.errstate(divide="ignore"):
        falling, rising = np.exp(-1.0 / (1.0 - place)), np.exp(-1.0 / place)
    steps = np.diff(row)[length - 1 :] * falling / (falling + rising)
    return np.concatenate([row[:length], row[length - 1] + np.cumsum(steps)])


def signs_by_embedding(
    spectrum: NDArray[np.float64], length: int, n: int, seed: int | np.random.Generator
) -> NDArray[np.uint8]:
    """Signs (1: positive) of n independent Gaussian sequences with this circulant spectrum.

    The transform of complex white noise times sqrt(spectrum / M) has independent real and imaginary parts,
    each with the circulant covariance: two sequences per transform. Every block of rows has a stream of its
    own, derived from the seed and the number of the block: rows depend neither on n nor on the threads.
    Returns uint8 (n, length). Cost O(M log M) per pair of rows; memory beyond the result is one block per thread.
    """
    size = spectrum.size
    scale = np.sqrt(spectrum / size)
    root = generator(seed).integers(0, 2**32, size=8, dtype=np.uint32).tolist()
    pairs = max(1, _BLOCK // size)
    signs = np.empty((n, length), dtype=np.uint8)

    def fill(block: int) -> None:
        rows = signs[2 * pairs * block : 2 * pairs * (block + 1)]
        stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(root, spawn_key=(block,))))
        noise = stream.standard_normal(((rows.shape[0] + 1) // 2, 2 * size)).view(np.complex128)
        noise *= scale
        latent = scipy.fft.fft(noise, axis=1, overwrite_x=True)[:, :length]
        np.greater(latent.real, 0.0, out=rows[0::2].view(np.bool_))
        np.greater(latent.imag[: rows.shape[0] // 2], 0.0, out=rows[1::2].view(np.bool_))

    blocks = range(-(-n // (2 * pairs)))
    with ThreadPoolExecutor(min(len(blocks), available_cores())) as threads:
        for _ in threads.map(fill, blocks):
            pass
    return signs


def signs_by_factor(row: NDArray[np.float64], n: int, seed: int | np.random.Generator) -> NDArray[np.uint8]:
    """Signs of n Gaussian sequences with Toeplitz covariance `row`, through its Cholesky factor.

    Returns uint8 (n, length). For correlations without an embedding. Raises numpy.linalg.LinAlgError unless positive
    definite. Cost O(length^3 + n length^2).
    """
    factor = scipy.linalg.cholesky(scipy.linalg.toeplitz(row), lower=True)
    noise = generator(seed).standard_normal((n, row.size))
    signs: NDArray[np.uint8] = (noise @ factor.T > 0.0).astype(np.uint8)
    return signs


def prediction_error(row: NDArray[np.float64]) -> float:
    """Smallest error variance when an entry of a stationary Gaussian is predicted from those before it.

    row: the correlations at lags 0, 1, ... with row[0] = 1. Where they are not positive definite it is the first error
    that is not > 0. Cost O(length^2).
    """
    *_, (_, error) = predictors(row)
    return float(error)
