"""Files of Numba's machine code that several processes write at once, and that a power cut may tear.

Numba numbers the files of a kernel's signatures, and takes the next number without a lock: of two processes that
compile different signatures at the same time, both may take the same one, and from then on one signature runs the
machine code of the other, silently. A file that is cut off ends every process that needs it.

Here the name of a file is a digest of what it holds, the index is written under a lock and after it, and what cannot
be read is compiled again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from lib.machine import locked

CACHING = "numba.core.caching"


def mend(caching: ModuleType) -> None:
    """Let Numba, whose module this is, keep its files so."""
    base: Any = caching.__dict__["IndexDataCacheFile"]

    class KernelFiles(base):  # type: ignore[misc]
        def save(self, key: Any, data: Any) -> None:
            told = self._dump((self._version, self._source_stamp, key))
            name = f"{Path(self._index_name).stem}.{hashlib.sha256(told).hexdigest()[:16]}.nbc"
            with locked(Path(self._cache_path)):
                self._save_data(name, data)
                self._save_index(self._load_index() | {key: name})

        def _load_index(self) -> dict[Any, str]:
            try:
                return dict(super()._load_index())
            except OSError:
                raise
            except Exception:  # what is torn may raise anything: nothing is known then
                return {}

        def _load_data(self, name: str) -> Any:
            try:
                return super()._load_data(name)
            except OSError:
                raise
            except Exception as error:
                raise OSError(f"{name} is torn") from error  # as if it were not there

    caching.__dict__["IndexDataCacheFile"] = KernelFiles


class _Finder:
    """Mends Numba when it is imported, which most commands never do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != CACHING:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_mend(module: ModuleType) -> None:
                execute(module)
                mend(module)

            spec.loader.exec_module = execute_and_mend  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Mend Numba now if it is imported, else when it is."""
    if CACHING in sys.modules:
        mend(sys.modules[CACHING])
    else:
        sys.meta_path.insert(0, _Finder())
