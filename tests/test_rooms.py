"""The rooms of the house: what each may import, how large it may grow, and what it may not speak of."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from lib import ROOT, sources
from lib.batch.pages import executable_pages
from lib.processes.corpora.catalogue import entries
from lib.report.catalogue import catalogue
from lib.runs.definition import experiment_files

BELOW = {
    "processes": set(),
    "information": {"processes"},
    "theory": {"processes"},
    "models": {"processes"},
    "training": {"processes", "models"},
    "runs": {"processes", "information", "theory", "models", "training"},
    "report": {"processes", "information", "runs"},
    "measure": {"processes", "information", "models", "report"},
    "batch": {"processes", "report", "runs", "measure"},
}
"""Rooms of lib, from the general to the particular, each with those that it may import from."""

CYCLES = [{"lib.processes.gaussian.hierarchical", "lib.processes.gaussian.on_device"}]
"""A process makes its form on a device, and that is a form of the process: each names the other, one of them late."""

FILES, LINES = 225, 33_500  # of lib; the lines are those of its Python files; an architecture or a task is a file more
ENTRIES, LONGEST, SHORT = 14, 320, 70
LOOSE = 8  # files of lib that belong to no room
EXCEPTIONS: dict[str, str] = {
    "lib/batch/question.py": "fills in question.yml, its neighbour",
    "lib/processes/ngram/paper.py": "the rules as the paper prints them, to be compared with it",
    "lib/runs/together.py": "sweep.py, where it would stand, is as long as a file may be",
}
"""Files that are too long, or short with a single importer, each with the reason why it stays."""


def dotted(path: Path) -> str:
    """Name of the module of a file, given relative to the root."""
    return ".".join((path.parent if path.name == "__init__.py" else path.with_suffix("")).parts)


def python_files(root: Path, *folders: str) -> dict[str, Path]:
    """All modules below these folders of a tree, by their dotted names."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return {dotted(path.relative_to(root)): path for path in paths}


@functools.cache
def modules_imported(source: str, package: str = "") -> frozenset[str]:
    """Dotted names of all that a text imports, wherever in it; `package`: the one that holds the text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(names)


def rooms_imported(source: str, package: str = "") -> set[str]:
    """Rooms of lib that a text imports anything from."""
    names = modules_imported(source, package)
    return {name.split(".")[1] for name in names if name.startswith("lib.")} & set(BELOW)


def questions_imported(source: str, package: str = "") -> set[str]:
    """Questions that a text imports anything from."""
    names = modules_imported(source, package)
    return {name.split(".")[1] for name in names if name.startswith("experiments.")}


def package_of(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def upward(root: Path) -> dict[str, set[str]]:
    """Modules below lib that import from a room which is not below theirs, or from a question."""
    wrong = {}
    for name, path in python_files(root, "lib").items():
        room, text = name.partition(".")[2].partition(".")[0], path.read_text(encoding="utf-8")
        allowed = BELOW.get(room, set(BELOW) if name == "lib.__main__" else set()) | {room}
        package = package_of(name, path)
        found = (rooms_imported(text, package) - allowed) | questions_imported(text, package)
        wrong |= {name: found} if found else {}
    return wrong


def sideways(root: Path) -> dict[str, set[str]]:
    """Modules of a question that import from another question."""
    wrong = {}
    for name, path in python_files(root, "experiments").items():
        found = questions_imported(path.read_text(encoding="utf-8"), package_of(name, path))
        others = found - {name.split(".")[1] if "." in name else ""}
        wrong |= {name: others} if others else {}
    return wrong


def importers(root: Path) -> dict[str, set[str]]:
    """For each module of a tree, the modules that import it or a name of it."""
    known = python_files(root, "lib", "experiments")
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for other in modules_imported(path.read_text(encoding="utf-8"), package_of(name, path)) & set(known) - {name}:
            found[other].add(name)
    return found


def cycles(root: Path) -> list[set[str]]:
    """Modules that import each other, directly or by others; a package that hands names on is no part of it."""
    names, found = list(python_files(root, "lib", "experiments")), importers(root)
    packages = {dotted(path.parent.relative_to(root)) for path in root.rglob("__init__.py") if path.parent != root}
    graph = csr_array(
        np.array([[a in found[b] and not {a, b} & packages for b in names] for a in names], dtype=np.int8)
    )
    _, group = connected_components(graph, connection="strong")
    groups = ({name for name, part in zip(names, group, strict=True) if part == number} for number in set(group))
    return [members for members in groups if len(members) > 1]


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def full_folders(root: Path, most: int = ENTRIES) -> dict[str, int]:
    """Folders of lib and of a question with more entries than that; the list of questions grows with the book."""
    folders = itertools.chain([root / "lib"], *((root / top).rglob("*/") for top in ("lib", "experiments")))
    counts = {
        path.relative_to(root).as_posix(): sum(entry.name != "__pycache__" for entry in path.iterdir())
        for path in folders
        if path.is_dir() and "__pycache__" not in path.parts
    }
    return {name: count for name, count in counts.items() if count > most}


def long_files(root: Path, most: int = LONGEST) -> dict[str, int]:
    """Python files of lib and of the experiments that are longer than that."""
    paths = python_files(root, "lib", "experiments").values()
    return {path.relative_to(root).as_posix(): lines_of(path) for path in paths if lines_of(path) > most}


def lonely_files(root: Path, fewest: int = SHORT) -> dict[str, int]:
    """Files of lib that are shorter than that and serve a single module."""
    known, found = python_files(root, "lib"), importers(root)
    return {
        path.relative_to(root).as_posix(): lines_of(path)
        for name, path in known.items()
        if path.name != "__init__.py" and lines_of(path) < fewest and len(found[name]) == 1
    }


def repeated_prefixes(root: Path) -> set[str]:
    """Files that begin with the name of their folder, in the singular or the plural."""
    found = set()
    for path in python_files(root, "lib", "experiments").values():
        folder = path.parent.name
        starts = {folder, folder.removesuffix("s"), folder.removesuffix("es")}
        if any(path.stem == start or path.stem.startswith(f"{start}_") for start in starts):
            found.add(path.relative_to(root).as_posix())
    return found


def shadowed(root: Path) -> dict[str, set[str]]:
    """Packages of lib in which a module bears the name of something that the package hands on from another module."""
    found = {}
    for init in sorted((root / "lib").rglob("__init__.py")):
        package = dotted(init.relative_to(root))
        tree = ast.parse(init.read_text(encoding="utf-8"))
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != package]
        exported = {alias.asname or alias.name for node in nodes for alias in node.names}
        if both := exported & {path.stem for path in init.parent.iterdir()}:
            found[package] = both
    return found


def spoken(lines: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Lines in which one of these words stands, examples of docstrings (`>>>`) left out."""
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, words))})(?![\w-])")
    return (line.strip() for line in lines if pattern.search(line) and not line.lstrip().startswith(">>>"))


def experiment_words() -> set[str]:
    """Names of experiments, of questions where they are no plain words, and of claims."""
    questions = {path.parent.name for path in (ROOT / "experiments").glob("*/__init__.py")}
    return set(experiment_files()) | {name for name in questions if "_" in name} | set(catalogue())


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_every_room_is_in_the_plan():
    assert {path.name for path in (ROOT / "lib").iterdir() if any(path.glob("*.py"))} == set(BELOW)


def test_arrows_go_one_way():
    assert not upward(ROOT)
    assert not sideways(ROOT)
    assert cycles(ROOT) == CYCLES


def test_an_arrow_that_points_upward_is_seen(tmp_path: Path):
    tree = {
        "lib/machine.py": "from lib.processes import x\n",
        "lib/processes/__init__.py": "",
        "lib/processes/law.py": "def f():\n    from ..training.tasks import x\n",
        "lib/models/net.py": "import lib.processes.law\nimport numpy\n",
        "lib/report/page.py": "from lib import ROOT, batch\n",
        "lib/batch/book.py": "from lib.report import page\nfrom experiments.books import runs\n",
    }
    assert upward(write(tmp_path, tree)) == {
        "lib.machine": {"processes"},
        "lib.processes.law": {"training"},
        "lib.report.page": {"batch"},
        "lib.batch.book": {"books"},
    }


def test_a_question_that_uses_another_is_seen(tmp_path: Path):
    tree = {
        "experiments/first/__init__.py": "",
        "experiments/first/runs.py": "from . import run\nfrom lib.runs import store\nfrom .run import f\n",
        "experiments/first/tables.py": "def f():\n    from ..second import runs\n",
        "experiments/second/runs.py": "from experiments import first\nimport experiments.third.run\n",
    }
    assert sideways(write(tmp_path, tree)) == {
        "experiments.first.tables": {"second"},
        "experiments.second.runs": {"first", "third"},
    }


def test_a_ring_of_imports_is_seen(tmp_path: Path):
    tree = {
        "lib/__init__.py": "",
        "lib/theory/__init__.py": "from lib.theory.a import f\n",
        "lib/theory/a.py": "from lib.theory import b\n",
        "lib/theory/b.py": "def g():\n    from .c import h\n",
        "lib/theory/c.py": "import lib.theory.a\n",
        "lib/theory/d.py": "import lib.theory.a\n",
    }
    assert cycles(write(tmp_path, tree)) == [{"lib.theory.a", "lib.theory.b", "lib.theory.c"}]


def test_lib_and_its_folders_keep_their_size():
    assert len(python_files(ROOT, "lib")) <= FILES
    assert sum(lines_of(path) for path in python_files(ROOT, "lib").values()) <= LINES
    assert full_folders(ROOT) == {"lib": len(BELOW) + LOOSE}


def test_files_keep_their_size():
    outside = {*long_files(ROOT), *lonely_files(ROOT)}
    assert outside == set(EXCEPTIONS), "the exceptions name what needs one, and nothing else"
    assert all(EXCEPTIONS.values())


def test_what_outgrows_its_place_is_seen(tmp_path: Path):
    tree = {f"lib/report/part{number}.py": "x = 1\n" * number for number in range(1, 5)}
    tree |= {"lib/report/use.py": "from lib.report.part1 import x\nfrom lib.report.part2 import x\n"}
    tree |= {"experiments/first/run.py": "from lib.report import part2\n"}
    write(tmp_path, tree)
    assert full_folders(tmp_path, most=4) == {"lib/report": 5}
    assert full_folders(tmp_path, most=5) == {}
    assert long_files(tmp_path, most=3) == {"lib/report/part4.py": 4}
    assert lonely_files(tmp_path, fewest=2) == {"lib/report/part1.py": 1}  # part2 serves two
    assert lonely_files(tmp_path, fewest=1) == {}
    assert len(files_of(tmp_path / "lib")) == 5


def test_no_module_repeats_its_folder_or_takes_the_name_of_what_its_package_exports():
    assert not repeated_prefixes(ROOT)
    assert not shadowed(ROOT)


def test_a_name_that_says_things_twice_is_seen(tmp_path: Path):
    tree = {
        "lib/processes/__init__.py": "from lib.processes import corpora\nfrom lib.processes.law import entropy\n",
        "lib/processes/corpora/__init__.py": "",
        "lib/processes/entropy.py": "",
        "lib/processes/process_of.py": "",
        "lib/runs/runs.py": "",
        "lib/runs/runners.py": "",
    }
    assert shadowed(write(tmp_path, tree)) == {"lib.processes": {"entropy"}}
    assert repeated_prefixes(tmp_path) == {"lib/processes/process_of.py", "lib/runs/runs.py"}


def test_lib_speaks_of_no_experiment_and_no_claim():
    words = experiment_words()
    assert {"ngram-sgd", "text_information", "shen-eq52"} <= words
    texts = {path: path.read_text(encoding="utf-8").splitlines() for path in sources.files_below(ROOT / "lib")}
    assert not {f"{path.relative_to(ROOT)}: {line}" for path, lines in texts.items() for line in spoken(lines, words)}


def test_lib_speaks_of_a_part_of_a_corpus_only_where_corpora_are_read():
    parts = {f"{corpus}/{split}" for corpus, found in entries().items() for split in (*found.splits, *found.files)}
    assert {"wikitext2/validation"} <= parts
    assert not set(spoken(["corpora.list('a/b')"], parts)) and set(spoken(["'wikitext2/validation'"], parts))
    for path in sources.files_below(ROOT / "lib"):
        if path.parent.name != "corpora":
            assert not list(spoken(path.read_text(encoding="utf-8").splitlines(), parts)), path


def test_a_line_that_speaks_of_an_experiment_is_seen():
    lines = ["x = 'ngram-sgd'", ">>> check('shen-eq52')", "ngram-sgd-2", "  # as shen-eq52 has it", "an ngram sgd"]
    assert list(spoken(lines, {"ngram-sgd", "shen-eq52"})) == [lines[0], lines[3].strip()]


@pytest.fixture(scope="module")
def read_by_pages() -> dict[str, set[Path]]:
    """The sources of each page."""
    return {page.name: set(sources.sources(page.name)) for page in executable_pages()}


@pytest.mark.parametrize("figures", sorted((ROOT / "experiments").glob("*/figures.py")), ids=lambda p: p.parent.name)
def test_a_change_of_a_figure_runs_few_pages_again(figures: Path, read_by_pages: dict[str, set[Path]]):
    assert 1 <= len([page for page, read in read_by_pages.items() if figures in read]) <= 3


def test_a_change_of_what_all_figures_share_runs_all_pages_again(read_by_pages: dict[str, set[Path]]):
    shared = ROOT / "lib" / "report" / "figures" / "__init__.py"
    assert read_by_pages and all(shared in read for read in read_by_pages.values())
