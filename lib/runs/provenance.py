"""What a number was computed with: versions, commit, sources and device of this process, for records of every kind."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from lib import ROOT, sources
from lib.machine import available_cores

PACKAGES = ("numpy", "scipy", "numba", "torch")
DIGITS = 12  # of the digest of the sources


def collect() -> dict[str, Any]:
    """Versions, device and code version of this process and its page, in a fixed order; looked up once."""
    return dict(_collect(sources.current_page()))


@lru_cache(maxsize=1)
def _collect(page: str) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": _commit(),
        "code": code_version(page or None),
        "device": device(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def code_version(page: str | None = None) -> str:
    """First 12 hex digits of the digest of the sources that decide a page, such as ``notebooks/two_point/ising_chain``.

    Without a page: of all of `lib`. See `lib.sources.sources`. About 10 ms.
    """
    return sources.digest(page)[:DIGITS]


def code_versions(pages: Iterable[str]) -> dict[str, str]:
    """`code_version` of several pages, an empty name for none; faster than one by one."""
    return {page: digest[:DIGITS] for page, digest in sources.digests(pages).items()}


def _commit() -> str:
    """Short commit, with ``+`` if files that git follows have changed; ``unknown`` outside a checkout."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return commit + ("+" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()


def device() -> str:
    """CPU model and usable cores, and the CUDA devices that the driver reports."""
    cores = available_cores()
    return ", ".join([f"{_cpu_model()}, {cores} {'core' if cores == 1 else 'cores'}", *_gpus()])


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    # the driver's own tool answers in milliseconds, importing torch for it takes seconds
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(query, check=True, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [name.strip() for name in names.splitlines() if name.strip()]
