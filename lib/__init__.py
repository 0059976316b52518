"""Shared kernels of *The Memory of Sequence Models*: processes, estimators, theory, reports and runs."""

from pathlib import Path

from lib.machine import use_own_folder

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the book: the one that holds `lib`, `notebooks` and `_toc.yml`."""

use_own_folder(ROOT)
