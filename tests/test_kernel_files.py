"""Machine code that two processes keep at once is not mixed up, and what is torn is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching

from lib import ROOT, kernel_files

KEPT: Any = caching.IndexDataCacheFile
OWN: Any = KEPT.__mro__[1]  # Numba's
KERNEL = """
import lib
from numba import njit

@njit(cache=True)
def double(x):
    return x + x

print(double(2), double(1.5), sum(double.stats.cache_hits.values()))
"""


def test_numba_keeps_its_files_so() -> None:
    assert KEPT.__name__ == "KernelFiles" and OWN.__module__ == "numba.core.caching"


def at_once(kind: Any, folder: Path) -> list[Any]:
    """What is found under two keys that two processes keep, both of which had found an empty index."""
    first, second = (kind(str(folder), "kernel", ("stamp", 1)) for _ in range(2))
    first._load_index = second._load_index = dict
    save = first._save_index

    def save_and_meanwhile(index: Any) -> None:
        save(index)
        second.save("b", "code of b")

    first._save_index = save_and_meanwhile
    first.save("a", "code of a")
    return [kind(str(folder), "kernel", ("stamp", 1)).load(key) for key in "ab"]


def test_two_processes_do_not_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_files, "locked", lambda path: nullcontext(True))  # as on a disk without locks
    (tmp_path / "own").mkdir()
    assert at_once(OWN, tmp_path / "own") == [None, "code of a"], "Numba alone would do, and all this is not needed"
    assert at_once(KEPT, tmp_path) == [None, "code of b"]  # one is compiled again


def test_a_lock_keeps_both(tmp_path: Path) -> None:
    for key in "ab":
        KEPT(str(tmp_path), "kernel", ("stamp", 1)).save(key, f"code of {key}")
    assert [KEPT(str(tmp_path), "kernel", ("stamp", 1)).load(key) for key in "abc"] == ["code of a", "code of b", None]
    other = KEPT(str(tmp_path), "kernel", ("stamp", 2))  # an edited source
    assert other.load("a") is None
    other.save("a", "new code")
    assert other.load("a") == "new code" and other.load("b") is None


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("tear", [lambda whole: b"", lambda whole: whole[:12], lambda whole: b"garbage" * 20])
def test_what_is_torn_is_not_there_and_is_written_anew(
    tmp_path: Path, suffix: str, tear: Callable[[bytes], bytes]
) -> None:
    kept = KEPT(str(tmp_path), "kernel", ("stamp", 1))
    kept.save("a", "code of a")
    (path,) = tmp_path.glob(f"*{suffix}")
    path.write_bytes(tear(path.read_bytes()))
    assert kept.load("a") is None
    kept.save("a", "code of a")
    assert kept.load("a") == "code of a"


def test_a_kernel_whose_files_are_torn_is_compiled_again(tmp_path: Path) -> None:
    script, folder = tmp_path / "kernel.py", tmp_path / "cache"
    script.write_text(KERNEL)

    def run() -> str:
        settings = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)}
        done = subprocess.run([sys.executable, script], env=settings, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run() == "4 3.0 0" and run() == "4 3.0 2"
    for suffix, hits in ((".nbc", 0), (".nbi", 0)):
        for path in folder.rglob(f"*double*{suffix}"):
            path.write_bytes(path.read_bytes()[:40])
        assert run() == f"4 3.0 {hits}" and run() == "4 3.0 2"
