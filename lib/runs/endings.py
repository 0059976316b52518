"""Ends that nobody planned: errors in one line, SIGTERM as clean as Ctrl-C, no orphans, locks that the dead let go."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO

LOOK = 0.2  # seconds between two looks whether the parent is still there
PATIENCE = 10  # seconds that a process has for its own clean-up once its parent is gone


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Everything ends as it does on Ctrl-C."""


def in_one_line(error: BaseException) -> str:
    """What went wrong, here or in the cell of a notebook; bad input, a ValueError, says so by itself."""
    kind, said = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", error)
    message = " ".join(str(said).split())
    if not message:
        return str(kind)
    return message if kind == "ValueError" else f"{kind}: {message}"


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises Terminated in the main thread; elsewhere than in the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it often comes twice, and the clean-up must not be cut short
    raise Terminated


def end_with(parent: int) -> None:
    """From now on this process gets a SIGTERM when `parent`, which started it, is gone, and ends whatever happens."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the file `path`, made if need be, until the block ends or this process dies; yields whether it is held.

    Without `wait`, False if another process holds it. Who holds the file may remove it. Where files cannot be locked
    (Windows, some network disks), whoever waits goes on as if it held the file, and nobody else ever gets it.
    """
    file: IO[str] | None = None
    with contextlib.suppress(ImportError, OSError):
        file = _lock(path, wait)
    if file is None:
        yield wait
        return
    with file:
        yield True


def _lock(path: Path, wait: bool) -> IO[str]:
    import fcntl

    while True:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _is_still(path: Path, file: IO[str]) -> bool:
    """False if somebody removed the file between our opening and our locking it: then it guards nothing any more."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
