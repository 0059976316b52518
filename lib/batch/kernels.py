"""Kernels that talk through files, so that any number of notebooks can run at once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager


class PrivateKernelManager(AsyncKernelManager):  # type: ignore[misc]
    """One kernel, one folder: its sockets and its connection file are its own.

    Kernels over TCP pick free ports before they bind them, so two that start together can pick the same one.
    Unix sockets in a private folder cannot clash. Windows has no such sockets and keeps TCP.
    """

    def __init__(self, **options: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="book-kernel-"))
        if sys.platform != "win32":
            options |= {"transport": "ipc", "ip": str(self._folder / "socket")}
        super().__init__(connection_file=str(self._folder / "connection.json"), **options)

    def cleanup_connection_file(self) -> None:
        super().cleanup_connection_file()
        shutil.rmtree(self._folder, ignore_errors=True)
