"""Ends that nobody planned: errors in one line, SIGTERM as clean as Ctrl-C, no orphans."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

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


def at_once(work: Callable[[], object]) -> NoReturn:
    """Do the work and end this process with its status, as Python does, but do not take apart what is loaded.

    That takes a second or two where much is, and the system does it at once. What was registered with `atexit` is done.
    """
    status: object = None
    try:
        work()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    with contextlib.suppress(BrokenPipeError):  # who read it has gone
        sys.stdout.flush()
    os._exit(status or 0)


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
