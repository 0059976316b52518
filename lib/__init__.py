"""Shared kernels of *The Memory of Sequence Models*: processes, estimators, theory, reports and runs."""

from pathlib import Path

from lib import kernel_files
from lib.machine import name_kernel_cache

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the book: the one that holds `lib`, `notebooks` and `_toc.yml`."""

name_kernel_cache(ROOT)
kernel_files.install()
