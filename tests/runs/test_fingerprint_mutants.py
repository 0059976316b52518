"""Fingerprints notice broken kernels, and let pass what changes no number: each on a copy of the code, edited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lib import ROOT
from lib.batch.side_by_side import LIBRARIES
from tests.edited_code import EditedCode

FILES = {
    "entropy": "lib/information/estimators.py",
    "bits": "lib/information/counting/bits.py",
    "sampler": "lib/processes/binary/stationary.py",
    "scan": "lib/models/kernels/scan/compiled.py",
    "attention": "lib/models/kernels/attention_cpu.py",
    "generation": "lib/training/generation.py",
}
EXPERIMENT = "binary_sequences"
RNN, MAMBA, TRANSFORMER = "family=rnn width=1", "family=mamba width=2", "family=transformer width=4"

LARGE = "generated=1100"
MUTANTS = {  # what is broken: file, text, what stands there instead, points of binary_sequences that are run
    "the estimator of entropy takes n + 1 for n": (
        "entropy",
        "(digamma(counts), dtype",
        "(digamma(counts + 1), dtype",
        RNN,
    ),
    "pairs across two words of bits are lost": ("bits", " >> shift) | carried)", " >> shift))", RNN),
    "only the first words of bits are counted": ("bits", "(0, used, _CHUNK)", "(0, min(used, _CHUNK), _CHUNK)", LARGE),
    "the sampler transforms across the sequences": ("sampler", "fft(noise, axis=1,", "fft(noise, axis=0,", RNN),
    "the scan's gradient takes a state one step too late": (
        "scan",
        "exponent = before * states[i, n, c]",
        "exponent = before * states[i + 1, n, c]",
        MAMBA,
    ),
    "the attention's gradient forgets the mean": (
        "attention",
        "d_weight = -mean",
        "d_weight = mean * real(0)",
        TRANSFORMER,
    ),
    "a token is drawn by the number of the one before": (
        "generation",
        "draws[place, :, None]",
        "draws[place - 1, :, None]",
        RNN,
    ),
}
HARMLESS = [  # local variables renamed, two pure statements swapped, a comment
    (
        "entropy",
        "    seen = numbers[numbers > 0]\n    return",
        "    present = numbers[numbers > 0]  # others add 0\n    return",
    ),
    (
        "entropy",
        "(seen.sum(), weighted_sum(seen, rule), seen.size, rule)",
        "(present.sum(), weighted_sum(present, rule), present.size, rule)",
    ),
    ("bits", "carried = (second", "crossing = (second"),
    ("bits", "shift) | carried)", "shift) | crossing)"),
    (
        "sampler",
        "    size = spectrum.size\n    scale = np.sqrt(spectrum / size)\n",
        "    scale = np.sqrt(spectrum / spectrum.size)\n    size = spectrum.size\n",
    ),
    ("generation", "        law = (below_largest /", "        distribution = (below_largest /"),
    ("generation", "torch.searchsorted(law,", "torch.searchsorted(distribution,"),
]


def edits(*changes: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    return [(FILES[file], old, new) for file, old, new in changes]


def fingerprint(code: EditedCode, point: str) -> tuple[int, str]:
    return code.run("-m", "lib", "fingerprint", EXPERIMENT, "--point", point)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditedCode]:
    """A copy of the code, and of what is kept, that was run as it is."""
    needed = (*LIBRARIES, "torch._dynamo")  # which every optimizer loads
    code = EditedCode(tmp_path_factory.mktemp("code"), "lib", "experiments", "results/fingerprints", libraries=needed)
    status, told = fingerprint(code, RNN)
    assert status == 0 and "1 points, no differences" in told, told
    yield code
    code.close()


@pytest.mark.parametrize("broken", MUTANTS)
def test_a_broken_kernel_is_noticed(code: EditedCode, broken: str) -> None:
    *change, point = MUTANTS[broken]
    with code.edited(*edits(tuple(change))):
        status, told = fingerprint(code, point)
    assert status == 1 and f"Error: {EXPERIMENT}: " in told and ": kept" in told and ", found" in told, told
    assert f"results changed; undo it, or raise `version` in experiments/{EXPERIMENT}/sweep.yml and train again" in told


def test_a_refactoring_that_changes_no_number_passes(code: EditedCode) -> None:
    with code.edited(*edits(*HARMLESS)):
        status, told = fingerprint(code, RNN)
    assert status == 0 and "1 points, no differences" in told, told


def test_a_text_that_is_no_longer_there_is_no_mutant(code: EditedCode) -> None:
    nowhere = edits(("entropy", "no such text", ""))
    with pytest.raises(ValueError, match="name the text of today"), code.edited(*nowhere):
        pass
    assert all((Path(ROOT) / file).is_file() for file in FILES.values())
