"""Kernels that talk through files, so that any number of notebooks can run at once; none outlives its owner."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import AsyncKernelManager

from lib.machine import locked

MARK = "BOOK_KERNEL"  # the variable that names a kernel's folder to it, and to all that it starts
LONGEST = 100  # characters of a socket's path; systems allow 103 or 107
TAIL = f"/{2**22}-{'0' * 8}/socket-5"  # what follows the common folder, at most


class PrivateKernelManager(AsyncKernelManager):  # type: ignore[misc]
    """One kernel, one folder: its sockets and its connection file are its own.

    Kernels over TCP pick free ports before they bind them, so two that start together can pick the same one.
    Unix sockets in a private folder cannot clash. Windows has no such sockets and keeps TCP.
    """

    folder: Path

    def __init__(self, **options: Any) -> None:
        if sys.platform != "win32":
            options |= {"transport": "ipc", "ip": str(self.folder / "socket")}
        super().__init__(connection_file=str(self.folder / "connection.json"), **options)

    async def start_kernel(self, **options: Any) -> Any:
        environment = {**(options.pop("env", None) or os.environ), MARK: str(self.folder)}
        return await super().start_kernel(env=environment, **options)


@contextlib.contextmanager
def private_kernels() -> Iterator[type[PrivateKernelManager]]:
    """A manager of kernels with a folder of their own, which is removed with all that they started when the block ends.

    If this process is killed, the next `clear_kernels` does it: the lock file beside the folder is free by then.
    Raises OSError if the common folder belongs to somebody else.
    """
    claim = _common_folder() / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"

    class Private(PrivateKernelManager):
        folder = claim

    with locked(_lock_of(claim)):
        try:
            claim.mkdir(mode=0o700)
            yield Private
        finally:
            _clear(claim)


def clear_kernels() -> None:
    """End the kernels whose owner was killed, with all that they started, and remove their folders."""
    for common in _candidates():
        if common.is_dir() and _is_ours(common):
            for claim in {entry.with_name(entry.name.removesuffix(".lock")) for entry in common.iterdir()}:
                with locked(_lock_of(claim), wait=False) as is_orphan:
                    if is_orphan:
                        _clear(claim)


def _clear(claim: Path) -> None:
    left = [process for process in psutil.process_iter() if _belongs(process, claim)]
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=1)
    shutil.rmtree(claim, ignore_errors=True)
    _lock_of(claim).unlink(missing_ok=True)


def _belongs(process: psutil.Process, claim: Path) -> bool:
    try:
        return process.pid != os.getpid() and bool(process.environ().get(MARK) == str(claim))
    except (psutil.Error, OSError):  # gone, or somebody else's
        return False


def _lock_of(claim: Path) -> Path:
    return claim.with_name(f"{claim.name}.lock")


def _candidates() -> list[Path]:
    """The common folder of this user's kernels: in the folder for temporary files, or in /tmp if that is too deep."""
    name = f"book-kernels-{os.getuid()}" if hasattr(os, "getuid") else "book-kernels"
    places = [Path(tempfile.gettempdir()), *([] if sys.platform == "win32" else [Path("/tmp")])]
    return [place.resolve() / name for place in dict.fromkeys(places)]


def _common_folder() -> Path:
    folders = _candidates()
    folder = next((each for each in folders if len(f"{each}{TAIL}".encode()) <= LONGEST), folders[-1])
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone: remove it, or set TMPDIR to another place")
    return folder


def _is_ours(folder: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
