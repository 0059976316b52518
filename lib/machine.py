"""The machine this process runs on."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Processor cores that this process may use, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
