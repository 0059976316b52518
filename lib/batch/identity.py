"""When is an executed page still true? The key of what decides it, and the inputs that it noted while it ran.

The key holds what is known before a page runs: text, parameters, profile, sources, claims, lock, interpreter, packages
as installed. What the page then reads (`lib.inputs`) is kept with its execution, and looked at again when somebody asks
whether it is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from lib import ROOT, inputs, sources
from lib.batch import BUILD
from lib.batch.pages import Page
from lib.inputs import Input
from lib.machine import write_whole
from lib.processes.corpora import page_inputs

KEPT_DIGESTS = BUILD / "input-digests.json"
SETTLED = 2 * 10**9  # nanoseconds; a file written later than that may change again without another time or size


def digest(parts: Iterable[str | bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return total.hexdigest()


@cache
def installed() -> tuple[str, ...]:
    """Names and versions of the packages that `requirements.lock` names, as they are installed: "torch-2.13.0+cpu"."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {_plain(line.partition("==")[0]) for line in lock.splitlines() if "==" in line}
    found = {path.stem for folder in map(Path, sys.path) if folder.is_dir() for path in folder.glob("*.dist-info")}
    return tuple(sorted(name for name in found if _plain(name.rpartition("-")[0]) in locked))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip().lower())


def page_key(page: Page, profile: str, parameters: Mapping[str, Any]) -> str:
    """What is known of an execution before it runs: text, parameters, profile, code, claims, interpreter, packages."""
    parts: list[str | bytes] = [
        page.text,
        json.dumps(dict(parameters), sort_keys=True, default=str),
        profile,
        platform.python_version(),
        sources.digest(page.name),
        sources.digest_of(sources.files_below(ROOT / "book" / "claims"), ROOT),
        (ROOT / "requirements.lock").read_bytes(),
        *installed(),
    ]
    return digest(parts)


class Digests:
    """Digests of inputs as they are now. A file is read again only if its place, size or time has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _known(self) -> dict[str, list[str]]:
        """Name of an input -> the state of its files, and their digest."""
        return dict(self._kept)

    @cached_property
    def _kept(self) -> dict[str, list[str]]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): [str(state), str(found)] for name, (state, found) in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):  # it only saves time: everything is read again
            return {}

    def now(self, kind: str, name: str) -> str:
        """The digest of this input at present; `lib.inputs.ABSENT` for what is not there or not known."""
        if kind == inputs.FILES:
            return self._of(f"{kind} {name}", inputs.files(name), "", lambda: inputs.files_digest(name))
        if kind in page_inputs.KINDS:
            present = page_inputs.present(kind, name)
            if not present.files:
                return present.digest()
            return self._of(f"{kind} {name}", present.files, present.expected, present.digest)
        return inputs.ABSENT

    def _of(self, key: str, files: list[Path], expected: str, compute: Callable[[], str]) -> str:
        try:
            states = [path.stat() for path in files]
        except OSError:  # gone since it was listed
            return compute()
        listed = [f"{path}|{one.st_size}|{one.st_mtime_ns}" for path, one in zip(files, states, strict=True)]
        state = digest([expected, *listed])
        known = self._known.get(key)
        if known is not None and known[0] == state:
            return known[1]
        found = compute()
        if max((one.st_mtime_ns for one in states), default=0) < time.time_ns() - SETTLED:
            self._known[key] = [state, found]
        return found

    def keep(self) -> None:
        """Write down what is known, for the next process; a folder that cannot be written costs only time."""
        if self._known != self._kept:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._path, json.dumps(self._known, indent=0, sort_keys=True))
                self._kept = dict(self._known)


digests = Digests(KEPT_DIGESTS)


def unchanged(noted: Iterable[Input]) -> bool:
    """Whether every input still is what it was when a page noted it."""
    return all(digests.now(one.kind, one.name) == one.digest for one in noted)
