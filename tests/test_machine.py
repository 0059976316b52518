"""Machine code that Numba keeps never outlives an edit of the sources it was compiled from, and outlives all others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lib import ROOT, machine
from lib.machine import MARK, folder_of_kernels, name_kernel_cache
from tests.edited_code import ForkedPython, take_over

GRADIENT = "from lib.theory import uniform_attention_gradient as g; print(repr(float(g(0.5, 40, 3))))"
INFORMATION = (
    "import numpy as np; from lib.information import auto_mutual_information as information\n"
    "print(information(np.arange(3000) * 7919 % 2000, [1, 2]).tolist())"
)
PRODUCTS = (
    "import numpy as np; from lib.models.kernels.screening.cell_cpu import LANES, products\n"
    "out = np.zeros((4, LANES)); panel = np.arange(4.0 * LANES)\n"
    "products(np.ones((4, 4)) / 9, panel[None], out, np.zeros(4 * LANES)); print(out.tolist())"
)
FOLDER = "import os, lib; print(os.environ['NUMBA_CACHE_DIR'])"
FAULTS = """
import resource, sys; import numpy as np; from lib.machine import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory(): print("no GNU C library"); sys.exit()
np.ones(2**23); before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): np.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""  # pages that are taken from the system while 64 MiB are filled five times more
FIXED = "import lib, numba; numba.config.CACHE_DIR = 'fixed'\n"  # as if the folder were not named by the sources


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the book's code, with nothing compiled."""
    shutil.copytree(ROOT / "lib", tmp_path / "book" / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "book"


def environment(book: Path, **settings: str) -> dict[str, str]:
    outer = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return {**outer, "PYTHONPATH": str(book), "BOOK_CACHE": str(book / "cache"), **settings}


def ask(book: Path, code: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=book,
        env=environment(book, **settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def ask_forked() -> Iterator[Callable[[Path, str], str]]:
    """As `ask`, with what is slow to import there already; Numba, whose settings are those of its import, is not."""
    python = ForkedPython(("scipy.signal", "scipy.stats", "torch"))

    def ask(book: Path, code: str) -> str:
        (book / "asked.py").write_text(code, encoding="utf-8")
        status, told = python.run(book, book / "told.txt", environment(book), "asked.py")
        assert status == 0, told
        return told.strip()

    yield ask
    python.close()


def edit(book: Path, before: str, after: str) -> None:
    """Replace a text that stands once in one source of the library."""
    (path,) = (path for path in (book / "lib").rglob("*.py") if before in path.read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


KERNELS = {
    "lib/__init__.py": "",
    "lib/fast/__init__.py": "",
    "lib/fast/loops.py": "def f():\n    from numba import njit\n    from lib.numbers import N\n",
    "lib/numbers.py": "import lib.room.inner",
    "lib/room/__init__.py": "",
    "lib/room/inner.py": "from .beside import M",
    "lib/room/beside.py": "M = 3",
    "lib/apart/__init__.py": "",
    "lib/apart/other.py": "",
    "lib/apart/page.py": "from lib.fast import loops\n# not from numba import njit",
    "lib/top.py": "",
    "lib/unread.py": "",
    "experiments/__init__.py": "",
    "experiments/own/kernel.py": "import numba as nb\nfrom lib import top\nfrom lib.apart import (\n    other,\n)",
    "experiments/own/run.py": "from experiments.own import kernel",
}


@pytest.mark.parametrize(
    ("file", "felt"),
    [
        ("lib/fast/loops.py", True),
        ("lib/numbers.py", True),
        ("lib/room/inner.py", True),
        ("lib/room/beside.py", True),
        ("lib/apart/other.py", True),
        ("lib/top.py", True),
        ("experiments/own/kernel.py", True),
        ("lib/apart/page.py", False),
        ("lib/unread.py", False),
        ("experiments/own/run.py", False),
    ],
)
def test_the_folder_changes_with_what_kernels_read_and_with_nothing_else(tmp_path: Path, file: str, felt: bool) -> None:
    for name, text in KERNELS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    before = folder_of_kernels(tmp_path)
    (tmp_path / file).write_text(KERNELS[file] + "\nx = 1\n", encoding="utf-8")
    assert (folder_of_kernels(tmp_path) != before) == felt


def test_no_kernel_of_the_book_is_left_out() -> None:
    compiled = re.compile(r"^@(?:njit|jit|vectorize|guvectorize|intrinsic)\b", re.M)
    sources = [path for top in ("lib", "experiments") for path in (ROOT / top).rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    kernels = {path for path, text in texts.items() if compiled.search(text)}
    assert len(kernels) > 20
    assert kernels <= {path for path, text in texts.items() if machine._NUMBA.search(text.encode())}


@pytest.mark.parametrize(
    "code, before, after",
    [
        (GRADIENT, "    return product, (", "    return 2.0 * product, ("),
        (INFORMATION, "        return float(weights[count])\n", "        return 2.0 * float(weights[count])\n"),
        (PRODUCTS, "        store(product, j * LANES, add(a0, b0))\n", "        store(product, j * LANES, a0)\n"),
    ],
    ids=["double-double product", "weight of a count", "product of lanes"],
)
def test_an_edit_of_a_kernel_that_is_imported_by_another_is_felt(
    copied: Path, ask_forked: Callable[[Path, str], str], code: str, before: str, after: str
) -> None:
    take_over(ROOT, copied, copied / "_build" / "numba")
    first = ask_forked(copied, code)
    shutil.copytree(ask_forked(copied, FOLDER), copied / "fixed")
    assert first == ask_forked(copied, FIXED + code) == ask_forked(copied, code)
    edit(copied, before, after)
    assert ask_forked(copied, code) != first
    assert ask_forked(copied, FIXED + code) == first, "Numba alone would have noticed, and all this is not needed"


def test_numba_may_be_imported_first(copied: Path) -> None:
    code = "import numba, lib, os; print(numba.config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR'])"
    assert ask(copied, code) == "True"


def test_the_folder_follows_the_sources_and_only_them(copied: Path) -> None:
    first = ask(copied, FOLDER)
    assert Path(first).parent == copied / "_build" / "numba"
    (copied / "lib" / "notes.txt").write_text("no code")
    (copied / "lib" / "report" / "more.py").write_text("x = 1")
    assert ask(copied, FOLDER) == first
    (copied / "lib" / "checks.py").rename(copied / "lib" / "engine.py")
    assert ask(copied, FOLDER) != first


def test_the_setting_of_the_user_is_the_parent_and_a_child_does_not_nest(copied: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    folder = Path(ask(copied, FOLDER, NUMBA_CACHE_DIR=str(own)))
    assert folder.parent == own
    assert ask(copied, FOLDER, NUMBA_CACHE_DIR=str(folder)) == str(folder)
    (copied / "lib" / "checks.py").write_text("")
    sibling = Path(ask(copied, FOLDER, NUMBA_CACHE_DIR=str(folder)))
    assert sibling.parent == own and sibling != folder
    nobody = {"NUMBA_CACHE_DIR": "~no-such-user/cache", "BOOK_CACHE": "~no-such-user/cache"}
    assert Path(ask(copied, FOLDER, **nobody)).parent == copied / "_build" / "numba"


def test_numba_works_where_no_folder_can_be_written(copied: Path, tmp_path: Path) -> None:
    expected = ask(copied, GRADIENT)
    wall, scratch = tmp_path / "a file", tmp_path / "scratch"
    wall.write_text("")
    scratch.mkdir()
    shutil.rmtree(copied / "_build")
    (copied / "_build").write_text("")
    walls = {"NUMBA_CACHE_DIR": str(wall), "BOOK_CACHE": str(wall), "TMPDIR": str(scratch)}
    assert Path(ask(copied, FOLDER, **walls)).parent.parent == scratch
    assert ask(copied, GRADIENT, **walls) == expected
    assert not list(scratch.iterdir())
    assert not list(copied.rglob("*.nbi"))


def test_a_read_only_book_uses_the_cache_folder(copied: Path) -> None:
    (copied / "_build").write_text("")
    assert Path(ask(copied, FOLDER)).parent == copied / "cache" / "numba"


@pytest.fixture
def no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported Numba, so that the tests that follow keep their folder."""
    monkeypatch.delitem(sys.modules, "numba", raising=False)


def test_a_full_disk_is_left_for_the_next_place(tmp_path: Path, monkeypatch, no_numba: None) -> None:
    (tmp_path / "lib").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "full"))
    monkeypatch.setattr(machine, "_free", lambda folder: 0 if "full" in folder.parts else 2**40)
    name_kernel_cache(tmp_path)
    assert Path(os.environ["NUMBA_CACHE_DIR"]).parent == tmp_path / "_build" / "numba"


def test_folders_that_nobody_used_for_a_month_are_removed_and_no_others(
    tmp_path: Path, monkeypatch, no_numba: None
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
    ages = {"lib-" + "0" * 16: 31, "lib-" + "1" * 16: 29, "lib-mine": 31, "information_" + "2" * 40: 31}
    for name, days in ages.items():
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / MARK).write_text("")
        then = time.time() - days * 24 * 3600
        os.utime(tmp_path / "own" / name / MARK, (then, then))
    (tmp_path / "own" / ("lib-" + "3" * 16)).mkdir()  # another process is making it
    (tmp_path / "lib").mkdir()
    name_kernel_cache(tmp_path)
    left = {path.name for path in (tmp_path / "own").iterdir()}
    assert left == {*ages, "lib-" + "3" * 16, Path(os.environ["NUMBA_CACHE_DIR"]).name} - {"lib-" + "0" * 16}


def test_importing_the_library_brings_nothing_heavy(copied: Path) -> None:
    heavy = ("numba", "numpy", "torch", "pooch", "yaml", "pydantic", "ast", "tempfile", "shutil")
    assert ask(copied, f"import sys, lib; print([name for name in {heavy} if name in sys.modules])") == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is one of Linux")
def test_freed_memory_is_kept_and_without_the_call_it_is_not() -> None:
    taken = {}
    for way in ("kept", "given back"):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        asked = [sys.executable, "-c", FAULTS, way]
        taken[way] = subprocess.run(asked, env=plain, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if "no GNU" in taken["kept"]:
        pytest.skip("the C library is another one")
    assert 20 * int(taken["kept"]) < int(taken["given back"])  # pages may have 4 KiB or 2 MiB
