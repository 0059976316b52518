"""Kernels that talk through files, so that any number of notebooks can run at once; none outlives its owner."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import shutil
import signal
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from lib.machine import locked

MARK = "BOOK_KERNEL"  # the variable that names a kernel's folder to it, and to all that it starts
LONGEST = 100  # characters of a socket's path; systems allow 103 or 107
PROCESS = "process"  # the file in the folder of a forked kernel that names its process
LAUNCHER = "ipykernel_launcher"
TAIL = f"/{2**22}-{'0' * 8}/socket-5"  # what follows the common folder, at most


class WaitingKernel:
    """A process forked from this one that becomes a kernel when it is told which; it ends if this one ends before.

    It has loaded what this one has, and nothing else of it: what `path` says is where it finds modules, `others` are
    connections that it closes. To be made while this process has a single thread. To the manager of the kernel it
    looks like a process of `subprocess`.
    """

    stdin = stdout = stderr = None

    def __init__(self, path: Sequence[str], others: Sequence[Connection] = ()) -> None:
        context = multiprocessing.get_context("fork")
        receiver, self._sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_become_kernel, args=(receiver, path, (self._sender, *others)))
        self._process.start()
        receiver.close()

    def begin(self, words: Sequence[str], environment: dict[str, str], folder: str) -> None:
        """Be the kernel that `python -m` with these words would be; its own folder is in the environment."""
        born = psutil.Process(self.pid).create_time()
        Path(environment[MARK], PROCESS).write_text(f"{self.pid} {born!r}", encoding="utf-8")
        self._sender.send((words, environment, folder))

    @property
    def pid(self) -> int:
        assert self._process.pid is not None  # it was started
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    def close(self) -> None:
        """End it, whether it became a kernel or not."""
        self._sender.close()
        self.kill()
        self.wait()


def _become_kernel(receiver: Connection, path: Sequence[str], others: Sequence[Connection]) -> None:
    for other in others:
        other.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    try:
        words, environment, folder = receiver.recv()
    except EOFError:  # no kernel is wanted any more
        return
    receiver.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:], sys.argv[:] = path, words
    for name in ("tqdm.auto", "tqdm.autonotebook"):  # they see when they are loaded whether they are in a kernel
        sys.modules.pop(name, None)
    _draw_anew()
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _draw_anew() -> None:
    """Two pages that draw without a seed draw different numbers, as two processes do; Python's own see to it."""
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()


class _Provisioner(LocalProvisioner):  # type: ignore[misc]
    """Makes a kernel of the process that waits for it, if the kernel is that of this Python."""

    waiting: WaitingKernel

    async def launch_kernel(self, cmd: list[str], **options: Any) -> Any:
        words = cmd[cmd.index("-m") + 1 :] if "-m" in cmd else [""]
        if cmd[0] != sys.executable or words[0] != LAUNCHER:
            return await super().launch_kernel(cmd, **options)
        environment = {**options["env"], "JPY_PARENT_PID": str(os.getpid())}
        watched = f"--IPKernelApp.parent_handle={os.getpid()}"  # whose default was read when ipykernel was loaded
        self.waiting.begin([*words, watched], environment, options.get("cwd") or os.getcwd())  # noqa: PTH109
        self.process, self.pid, self.pgid = self.waiting, self.waiting.pid, self.waiting.pid
        return self.connection_info


class PrivateKernelManager(AsyncKernelManager):  # type: ignore[misc]
    """One kernel, one folder: its sockets and its connection file are its own.

    Kernels over TCP pick free ports before they bind them, so two that start together can pick the same one.
    Unix sockets in a private folder cannot clash. Windows has no such sockets and keeps TCP.
    """

    folder: Path
    provisioner: Any  # of the base class
    waiting: WaitingKernel | None = None

    def __init__(self, **options: Any) -> None:
        if sys.platform != "win32":
            options |= {"transport": "ipc", "ip": str(self.folder / "socket")}
        super().__init__(connection_file=str(self.folder / "connection.json"), **options)

    async def start_kernel(self, **options: Any) -> Any:
        environment = {**(options.pop("env", None) or os.environ), MARK: str(self.folder)}
        if self.waiting is not None and self.provisioner is None:
            self.provisioner = _Provisioner(parent=self, kernel_spec=self.kernel_spec)
            self.provisioner.waiting = self.waiting
        return await super().start_kernel(env=environment, **options)


@contextlib.contextmanager
def private_kernels(kernel: WaitingKernel | None = None) -> Iterator[type[PrivateKernelManager]]:
    """A manager of kernels with a folder of their own, which is removed with all that they started when the block ends.

    Where a process waits to become the kernel, the manager takes that one.

    If this process is killed, the next `clear_kernels` does it: the lock file beside the folder is free by then.
    Raises OSError if the common folder belongs to somebody else.
    """
    claim = _common_folder() / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"

    class Private(PrivateKernelManager):
        folder, waiting = claim, kernel

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
    left = [process for process in psutil.process_iter() if _belongs(process, claim)] + _forked(claim)
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


def _forked(claim: Path) -> list[psutil.Process]:
    """The kernel of this folder if it was forked: the system shows the variables of the process that it comes from."""
    try:
        number, born = (claim / PROCESS).read_text(encoding="utf-8").split()
        process = psutil.Process(int(number))
        return [process] if process.create_time() == float(born) else []
    except (OSError, ValueError, psutil.Error):
        return []


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
