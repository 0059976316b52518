"""Fingerprints notice broken kernels, and let pass what changes no number: each on a copy of the code, edited."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib import ROOT

FILES = {
    "entropy": "lib/information/estimators.py",
    "bits": "lib/information/counting/bits.py",
    "sampler": "lib/processes/binary/stationary.py",
    "scan": "lib/models/kernels/scan_cpu.py",
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
        "before * states[i, n, c]",
        "before * states[i + 1, n, c]",
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
    ("generation", "        law = (logits.double()", "        distribution = (logits.double()"),
    ("generation", "torch.searchsorted(law,", "torch.searchsorted(distribution,"),
]


@pytest.fixture
def copied(tmp_path):
    """A copy of the code, and of what is kept; returns edit(file, old, new) and run(point)."""
    for folder in ("lib", "experiments", "results/fingerprints"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(file: str, old: str, new: str) -> None:
        path = tmp_path / FILES[file]
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{FILES[file]} has {text.count(old)} times {old!r}: name the text of today"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def run(point: str) -> tuple[int, str]:
        own = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "lib", "fingerprint", EXPERIMENT, "--point", point]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return edit, run


@pytest.mark.parametrize("broken", MUTANTS)
def test_a_broken_kernel_is_noticed(copied, broken):
    edit, run = copied
    *change, point = MUTANTS[broken]
    edit(*change)
    status, told = run(point)
    assert status == 1 and f"Error: {EXPERIMENT}: " in told and ": kept" in told and ", found" in told, told
    assert f"results changed; undo it, or raise `version` in experiments/{EXPERIMENT}/sweep.yml and train again" in told


def test_a_refactoring_that_changes_no_number_passes(copied):
    edit, run = copied
    for change in HARMLESS:
        edit(*change)
    status, told = run(RNN)
    assert status == 0 and "1 points, no differences" in told, told


def test_a_text_that_is_no_longer_there_is_no_mutant(copied):
    edit, _ = copied
    with pytest.raises(AssertionError, match="name the text of today"):
        edit("entropy", "no such text", "")
    assert all((Path(ROOT) / file).is_file() for file in FILES.values())
