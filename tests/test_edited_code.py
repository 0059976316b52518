"""Code with a mistake in it runs with the mistake, whatever ran before, and is sound again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lib import ROOT
from tests.edited_code import EditedCode, readers

KERNEL = "from numba import njit\n@njit(cache=True)\n"
INNER = f"{KERNEL}def inner(x):\n    return x + 1\n"
OUTER = f"from lib.small import inner\n{KERNEL}def outer(x):\n    return 2 * inner(x)\n"
OTHER = f"{KERNEL}def other(x):\n    return -x\n"
ASK = """
from lib.other import other
from lib.large import outer
print(outer(1), other(1), sum(other.stats.cache_misses.values()), sum(outer.stats.cache_misses.values()))
"""
SMALL = "lib/small.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditedCode]:
    """A library of three kernels, of which one calls another."""
    source = tmp_path_factory.mktemp("source")
    (source / "lib").mkdir()
    machine = (ROOT / "lib" / "machine.py").read_text(encoding="utf-8")
    head = "from pathlib import Path\nfrom lib.machine import name_kernel_cache\n"
    head += "name_kernel_cache(Path(__file__).resolve().parent.parent)\n"
    for name, text in {
        "__init__": head, "machine": machine, "small": INNER, "large": OUTER, "other": OTHER,
    }.items():  # fmt: skip
        (source / "lib" / f"{name}.py").write_text(text, encoding="utf-8")
    place = EditedCode(tmp_path_factory.mktemp("code"), "lib", source=source, libraries=("numba",))
    (place.root / "ask.py").write_text(ASK, encoding="utf-8")
    yield place
    place.close()


def test_a_kernel_that_calls_an_edited_one_is_compiled_again_and_no_other(place: EditedCode) -> None:
    assert place.run("ask.py") == (0, "4 -1 1 1\n")
    assert place.run("ask.py") == (0, "4 -1 0 0\n")
    for number in (3, 5):  # files of one size, written within a second
        with place.edited((SMALL, "x + 1", f"x + {number}")):
            assert place.run("ask.py") == (0, f"{2 * (1 + number)} -1 0 1\n")
    assert place.run("ask.py") == (0, "4 -1 0 0\n")


def test_what_fails_ends_with_its_status_and_its_traceback_and_the_next_run_is_none_the_worse(
    place: EditedCode,
) -> None:
    with place.edited((SMALL, "from numba", "raise RuntimeError('the reason')\nfrom numba")):
        status, told = place.run("ask.py")
    assert status == 1 and told.splitlines()[-1] == "RuntimeError: the reason"
    (place.root / "end.py").write_text("import sys; print('said'); sys.exit(3)", encoding="utf-8")
    assert place.run("end.py") == (3, "said\n")
    assert place.run("ask.py")[0] == 0


def test_an_edit_that_is_refused_leaves_nothing_edited(place: EditedCode) -> None:
    text = (place.root / SMALL).read_text(encoding="utf-8")
    with (
        pytest.raises(ValueError, match=r"'no such text' is 0 times in lib/small\.py: name the text of today"),
        place.edited((SMALL, "x + 1", "x + 2"), (SMALL, "no such text", "")),
    ):
        pytest.fail("it was not refused")
    assert (place.root / SMALL).read_text(encoding="utf-8") == text


def test_readers_are_those_that_import_directly_through_others_and_through_a_package(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": "from a.base import x",
        "a/base.py": "x = 1",
        "a/direct.py": "def later():\n    from a.base import x",
        "a/relative.py": "from .base import x",
        "a/module.py": "import a.base",
        "b/__init__.py": "",
        "b/through.py": "from a import direct",
        "b/package.py": "from a import x",
        "b/stranger.py": "import numpy",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = {path.relative_to(tmp_path).as_posix() for path in readers(tmp_path, [tmp_path / "a" / "base.py"])}
    assert found == files.keys() - {"b/__init__.py", "b/stranger.py"}
    assert readers(tmp_path, [tmp_path / "b" / "stranger.py"]) == {tmp_path / "b" / "stranger.py"}
