"""When is an executed page still true? The key of everything that its numbers depend on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lib import ROOT
from lib.batch.pages import Page
from lib.processes.corpora.places import cache_folder, data_folders


def digest(parts: Iterable[str | bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return total.hexdigest()


def tree_digest(*folders: Path, suffixes: tuple[str, ...]) -> str:
    """Digest of names and contents of all files with these suffixes."""
    files = sorted(
        path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes and path.is_file()
    )
    return digest(part for path in files for part in (path.relative_to(ROOT).as_posix(), path.read_bytes()))


def data_digest() -> str:
    """Digest of which corpora are within reach: names, sizes and times of the files, not their contents."""
    return digest(
        f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}"
        for folder in [*data_folders(), cache_folder()]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def page_key(page: Page, profile: str, parameters: Mapping[str, Any]) -> str:
    """The identity of one execution: source, parameters, profile, `lib`, lock, interpreter, data.

    Pages that show results (landing page, scorecard, benchmarks) depend on `results` and on the chapters as well.
    """
    parts: list[str | bytes] = [
        page.text,
        json.dumps(dict(parameters), sort_keys=True, default=str),
        profile,
        platform.python_version(),
        tree_digest(ROOT / "lib", ROOT / "book" / "claims", suffixes=(".py", ".yml", ".mplstyle")),
        (ROOT / "requirements.lock").read_bytes(),
        data_digest(),
    ]
    if not page.is_chapter:
        parts.append(tree_digest(ROOT / "results", ROOT / "notebooks", suffixes=(".json", ".jsonl", ".md", ".yml")))
    return digest(parts)
