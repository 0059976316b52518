"""The machine this process runs on: its cores, and files that several processes write to."""

from __future__ import annotations

import os
from pathlib import Path


def available_cores() -> int:
    """Processor cores that this process may use, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def append_line(path: Path, line: str) -> None:
    """Add ``line``, with a line break, to a file in a single write, so that a kill leaves whole lines or one torn tail.

    A torn tail of an earlier process is cut off first: it never was a line. Where the system has file locks, writers
    take turns, so that none takes the unfinished line of another for such a tail.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _wait_for_turn(descriptor)
        whole = _length_of_whole_lines(descriptor)
        if whole < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, whole)
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _wait_for_turn(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # released when the file is closed


def _length_of_whole_lines(descriptor: int) -> int:
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 4096)
        os.lseek(descriptor, start, os.SEEK_SET)
        newline = os.read(descriptor, end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name and rename it, so that it is complete or not there, also on a full disk."""
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
