"""Ends that nobody planned: errors in one line, SIGTERM as clean as Ctrl-C, no orphans."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

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
