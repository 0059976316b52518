"""Code lengths: bounded below by the entropy, and what they make of mutual information."""

from __future__ import annotations

import zlib
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lib.information.compression import (
    CODES,
    NATS_PER_BYTE,
    code_length,
    compression_mutual_information,
    huffman_lengths,
)
from lib.processes import MarkovChain
from lib.report import claims


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=12))
def test_huffman_codes_obey_kraft_and_shannon(weights: list[int]) -> None:
    law = [Fraction(weight, sum(weights)) for weight in weights]
    lengths = huffman_lengths(law)
    assert sum(Fraction(1, 2**n) for n in lengths) == 1
    mean = float(sum(p * n for p, n in zip(law, lengths, strict=True)))
    entropy = -sum(float(p) * np.log2(float(p)) for p in law)
    assert entropy - 1e-12 <= mean < entropy + 1


def test_no_prefix_code_of_four_symbols_is_shorter_than_huffmans() -> None:
    law = [Fraction(k, 10) for k in (1, 2, 3, 4)]
    best = sum(p * n for p, n in zip(law, huffman_lengths(law), strict=True))
    for lengths in product(range(1, 6), repeat=4):
        if sum(Fraction(1, 2**n) for n in lengths) <= 1:  # Kraft: exactly then a prefix code exists
            assert sum(p * n for p, n in zip(law, lengths, strict=True)) >= best
    dyadic = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 8)]
    assert huffman_lengths(dyadic) == [1, 2, 3, 3]


@pytest.mark.parametrize("code", list(CODES))
def test_expected_code_length_over_all_strings_is_bounded_below_by_the_entropy(code: str) -> None:
    strings = [bytes(word) for word in product((0, 1), repeat=8)]
    law = np.array([0.2 ** sum(s) * 0.8 ** (8 - sum(s)) for s in strings])
    lengths = np.array([code_length(s, code) for s in strings])
    entropy = -law @ np.log(law)
    assert np.exp(-lengths).sum() <= 1  # Kraft, in nats: the compressed strings could be told apart in a stream
    excess = float(law @ lengths - entropy)
    claims.check("l2m-compression", excess, at_least=0.0, part="A.5", outcome="misprint", erratum=16, printed=-excess)
    with pytest.raises(claims.ClaimFailed):  # the sentence as printed: upper bounded by the entropy
        claims.check("l2m-compression", excess, at_most=0.0)


def test_every_code_can_be_decoded_and_carries_no_header() -> None:
    data = np.random.default_rng(0).integers(0, 4, 3000).astype(np.uint8).tobytes()
    assert zlib.decompress(CODES["zlib"](data), wbits=-15) == data
    import lzma

    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 4096}]
    assert lzma.decompress(CODES["lzma"](data), format=lzma.FORMAT_RAW, filters=filters) == data
    decoder = zstandard.ZstdDecompressor(format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    assert decoder.decompress(CODES["zstandard"](data), max_output_size=len(data)) == data
    assert all(len(encode(b"")) <= 5 for encode in CODES.values())


@pytest.mark.parametrize("code", list(CODES))
def test_codes_exceed_the_entropy_of_a_chain_and_see_information_that_grows(code: str) -> None:
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    rate = -float((chain.joint_distribution(2) * np.log(chain.transition)).sum())
    lengths = (256, 4096)
    estimates = []
    for length in lengths:
        rows = chain.sample(4, length, 0)
        assert np.mean([code_length(row, code) for row in rows]) > rate * length
        halves = [compression_mutual_information(row[: length // 2], row[length // 2 :], code) for row in rows]
        estimates.append(np.mean(halves))
    growth = np.log(estimates[1] / estimates[0]) / np.log(lengths[1] / lengths[0])
    assert estimates[0] > 10 * float(chain.bipartite_mutual_information(256))
    claims.check("l2m-compression", growth, at_least=0.1, part=f"exponent, {code}")
    exact = chain.bipartite_mutual_information(np.array(lengths))
    with pytest.raises(claims.ClaimFailed):  # the information itself does not grow
        claims.check("l2m-compression", np.log(exact[1] / exact[0]) / np.log(16), at_least=0.1)


def test_information_is_the_difference_of_three_lengths_in_nats() -> None:
    first, second = b"abracadabra" * 5, b"cadabra" * 5
    lengths = [len(CODES["zlib"](part)) for part in (first, second, first + second)]
    expected = (lengths[0] + lengths[1] - lengths[2]) * NATS_PER_BYTE
    assert compression_mutual_information(first, second) == pytest.approx(expected)
    array = np.frombuffer(first, dtype=np.uint8)
    assert code_length(array) == code_length(first) and NATS_PER_BYTE == pytest.approx(8 * np.log(2))


def test_unknown_codes_and_other_data_are_refused() -> None:
    with pytest.raises(ValueError, match="choose one of zlib, lzma, zstandard"):
        code_length(b"a", "gzip")
    for data in ("text", [1, 2], np.array([1, 2]), np.zeros((2, 2), np.uint8)):
        with pytest.raises(ValueError, match="uint8"):
            code_length(data)
    for law in ([1.0], [0.5, 0.0], [0.5, -0.5]):
        with pytest.raises(ValueError, match="all > 0"):
            huffman_lengths(law)
