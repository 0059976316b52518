"""Types are strict: mypy finds no fault in the code, beside the other tests and not before them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lib import ROOT


def mypy(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_types_of_the_code_fit() -> None:
    status, told = mypy(ROOT)
    assert status == 0, told


def test_a_type_that_does_not_fit_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def f(x: int) -> str:\n    return x\n", encoding="utf-8")
    status, told = mypy(tmp_path, "--strict", "wrong.py")
    assert status == 1 and "Incompatible return value type" in told
