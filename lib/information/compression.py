"""Compressed size as an estimate of entropy, and the mutual information it implies (L2M, App. A.II)."""

from __future__ import annotations

import heapq
import lzma
import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import zstandard
from numpy.typing import NDArray

NATS_PER_BYTE = 8.0 * float(np.log(2.0))


def _zlib(data: bytes) -> bytes:
    encoder = zlib.compressobj(level=9, wbits=-15, memLevel=9)  # negative: no header, no checksum
    return encoder.compress(data) + encoder.flush()


def _lzma(data: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": max(4096, len(data))}]
    return lzma.compress(data, format=lzma.FORMAT_RAW, filters=filters)


def _zstandard(data: bytes) -> bytes:
    bare = {"write_content_size": False, "write_checksum": False, "format": zstandard.FORMAT_ZSTD1_MAGICLESS}
    settings = zstandard.ZstdCompressionParameters.from_level(19, source_size=len(data), **bare)
    return zstandard.ZstdCompressor(compression_params=settings).compress(data)


# Each without headers and checksums, at its strongest common setting. zlib looks back 32 KiB, the others to the start.
CODES: dict[str, Callable[[bytes], bytes]] = {"zlib": _zlib, "lzma": _lzma, "zstandard": _zstandard}


def code_length(data: bytes | NDArray[np.uint8], code: str = "zlib") -> float:
    """Length |C(data)| of the compressed data in nats (8 ln 2 per byte).

    Averaged over data it is at least the entropy of what the data are drawn from: L2M, Eq. A.5, which their sentence
    turns round (erratum 16).

    data: bytes or a uint8 array, one symbol per byte. code: "zlib" (DEFLATE: LZ77 and Huffman), "lzma" (LZ77 and a
    range coder) or "zstandard" (LZ77, Huffman and tabled ANS). Raises ValueError for anything else. O(len(data)).
    """
    return NATS_PER_BYTE * len(_find(code)(_as_bytes(data)))


def compression_mutual_information(
    first: bytes | NDArray[np.uint8], second: bytes | NDArray[np.uint8], code: str = "zlib"
) -> float:
    """K(X) + K(Y) - K(XY) in nats, K the code length (L2M, Eq. A.6): no bound either way, it may be negative.

    first, second, code as in `code_length`, which raises ValueError for anything else. O(length).
    """
    left, right = _as_bytes(first), _as_bytes(second)
    return code_length(left, code) + code_length(right, code) - code_length(left + right, code)


def huffman_lengths(probabilities: Sequence[float]) -> list[int]:
    """Code word lengths in bits of a Huffman code, the prefix code of least expected length.

    Any numbers that add and compare may be given (floats, fractions.Fraction), at least two, all > 0 and finite;
    ValueError otherwise. Kraft: sum 2^-length = 1. Shannon: entropy <= expected length < entropy + 1 bit. O(n log n).
    """
    if len(probabilities) < 2 or not all(0 < weight < math.inf for weight in probabilities):
        raise ValueError(f"probabilities: at least two, all > 0 and finite, are allowed, got {list(probabilities)!r}")
    lengths = [0] * len(probabilities)
    heap = [(weight, [symbol]) for symbol, weight in enumerate(probabilities)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (light, one), (heavy, other) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in one + other:
            lengths[symbol] += 1
        heapq.heappush(heap, (light + heavy, one + other))
    return lengths


def _find(code: str) -> Callable[[bytes], bytes]:
    if not isinstance(code, str) or code not in CODES:
        raise ValueError(f"unknown code {code!r}; choose one of {', '.join(CODES)}")
    return CODES[code]


def _as_bytes(data: bytes | NDArray[np.uint8]) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 1:
        return data.tobytes()
    raise ValueError(f"data: bytes or a 1-D uint8 array are allowed, got {type(data).__name__}")
