"""Violent ends: whatever kills a build, the next one finds nothing left of it but what was finished."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from safetensors import safe_open
from torch import Tensor

from lib import ROOT
from lib.batch import kernels
from lib.batch.execution import clear_partials
from lib.batch.kernels import LONGEST, clear_kernels, private_kernels
from lib.machine import locked
from lib.runs.endings import Terminated, in_one_line, terminable
from lib.training.checkpoint import load_checkpoint, save_checkpoint
from tests.edited_code import take_over

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and file locks of Unix")

CHAPTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A chapter

```{code-cell} python
CODE
```
"""
SLOW = """import pathlib, subprocess, time
if not pathlib.Path("../go").exists():
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    pathlib.Path("../started").touch()
    time.sleep(300)"""
QUICK = f"print('done')\n'{'the longest comes first ' * 10}'"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files with a short name, as paths of sockets must be."""
    folder = Path(tempfile.mkdtemp(prefix="b", dir="/tmp"))
    yield folder
    for process in processes_of(folder):
        process.kill()
    shutil.rmtree(folder)
    output_of(folder).unlink(missing_ok=True)


def output_of(temporary: Path) -> Path:
    return temporary.with_suffix(".output")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small book: a chapter that is quick, and one that takes for ever, with a child process, until `go` is there.

    Its pages use none of the libraries that are loaded before processes are forked.
    """
    for code in ("lib", "experiments"):
        shutil.copytree(ROOT / code, tmp_path / code)
    forking = tmp_path / "lib" / "batch" / "side_by_side.py"
    text = forking.read_text(encoding="utf-8")
    assert text.count("\nLIBRARIES = (") == 1
    forking.write_text(text.replace("\nLIBRARIES = (", "\nLIBRARIES = () and ("), encoding="utf-8")
    take_over(ROOT, tmp_path, tmp_path / "compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    for folder in ("book/claims", "notebooks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "book" / "index.md").write_text("# A small book\n")
    (tmp_path / "notebooks" / "profiles.yml").write_text("laptop: {}\n")
    chapters = [{"file": "notebooks/quick"}, {"file": "notebooks/slow"}]
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump({"root": "book/index", "chapters": chapters}))
    for name, code in (("quick", QUICK), ("slow", SLOW)):
        (tmp_path / "notebooks" / f"{name}.md").write_text(CHAPTER.replace("CODE", code))
    return tmp_path


def start(house: Path, temporary: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(house), "TMPDIR": str(temporary)}
    with output_of(temporary).open("w") as output:  # an orphan would keep a pipe open
        # a shell that runs the tests in its background hands on that Ctrl-C is ignored
        heeding = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(
            [sys.executable, *words], cwd=house, env=environment, start_new_session=True, stdout=output, stderr=output,
            preexec_fn=heeding,
        )  # fmt: skip


def processes_of(temporary: Path) -> list[psutil.Process]:
    """All that a start has brought to life, in whatever way: they share its folder for temporary files."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(temporary):
                found.append(process)
    return found


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def is_running(process: psutil.Process, word: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return word in " ".join(process.cmdline())
    return False


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("run", signal.SIGINT),
        ("run", signal.SIGTERM),
        ("run", signal.SIGKILL),
        ("book", signal.SIGTERM),  # Ctrl-C in a book: test_side_by_side
        ("book", signal.SIGKILL),
    ],
)
def test_whatever_kills_it_the_next_start_finds_nothing_left_but_what_was_finished(
    house: Path, temporary: Path, command: str, number: int
) -> None:
    executed = house / "_build" / ("executed/smoke" if command == "book" else "runs") / "notebooks"
    stamp = executed / "quick.stamp.json"
    words = ["book"] if command == "book" else ["run", "slow"]
    without_pages = ["-c", "from lib.batch import book; book.execute_book('smoke')"]
    again = without_pages if command == "book" else ["-m", "lib", *words]

    first = start(house, temporary, "-m", "lib", *words)
    ready = [house / "started", *([stamp] if command == "book" else [])]
    wait_for(lambda: all(path.exists() for path in ready) or first.poll() is not None)
    assert first.poll() is None, output_of(temporary).read_text()
    before = stamp.stat().st_mtime_ns if command == "book" else 0
    half = [path.name for path in executed.glob("*.partial-*")]
    assert half and all(name.startswith("slow.") for name in half)
    assert any(is_running(process, "sleep") for process in processes_of(temporary))
    (os.killpg if number == signal.SIGINT else os.kill)(first.pid, number)  # Ctrl-C goes to all of them
    first.wait(timeout=120)
    if number == signal.SIGKILL:
        assert first.returncode == -signal.SIGKILL
        # the processes of a book see it and clear up; the kernel of a single page ends, but not what it has started
        orphans = 1 if command == "run" else 0
        wait_for(lambda: [is_running(process, "sleep") for process in processes_of(temporary)] == [True] * orphans)
    else:
        assert first.returncode == 128 + number
        output = output_of(temporary).read_text()
        assert "what was finished is kept" in output and "Traceback" not in output
        wait_for(lambda: not processes_of(temporary))  # the tracker of multiprocessing ends a moment after its parent
        assert not list(executed.glob("*.partial-*"))

    (house / "go").touch()
    second = start(house, temporary, *again)
    assert second.wait(timeout=120) == 0, output_of(temporary).read_text()
    assert (executed / "slow.ipynb").exists()
    assert not list((house / "_build").rglob("*.partial*"))
    wait_for(lambda: not processes_of(temporary))
    assert [entry for entry in temporary.rglob("*") if not entry.name.startswith("book-kernels-")] == []
    assert command == "run" or stamp.stat().st_mtime_ns == before


def test_two_builds_at_once_leave_each_others_kernels_and_files_alone(house: Path, temporary: Path) -> None:
    first = start(house, temporary, "-m", "lib", "run", "slow")
    wait_for(lambda: (house / "started").exists() or first.poll() is not None)
    half = sorted((house / "_build").rglob("*.partial-*"))
    second = start(house, temporary, "-m", "lib", "run", "quick")
    assert second.wait(timeout=120) == 0, output_of(temporary).read_text()
    assert first.poll() is None and half and sorted((house / "_build").rglob("*.partial-*")) == half
    assert any(is_running(process, "ipykernel") for process in processes_of(temporary))
    first.terminate()
    assert first.wait(timeout=120) == 128 + signal.SIGTERM


def kept(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    """Configuration, tensors and course of a checkpoint, of whichever run it is."""
    with safe_open(path, framework="pt") as file:
        configuration = json.loads(file.metadata()["configuration"])
    return configuration, *load_checkpoint(path, configuration)


def test_a_sweep_that_is_stopped_leaves_no_workers_and_goes_on_from_its_checkpoints(
    house: Path, temporary: Path
) -> None:
    endless = {"architecture": "rnn", "width": 2, "fit": {"epochs": 10**6, "patience": 10**6}}
    sizes = {"length": 16, "training": 20, "validation": 10, "generated": 10, "enumerated": 4, "short_block": 3}
    experiment = {
        "name": "tiny",
        "title": "A test",
        "source": "none",
        "run": "experiments.binary_sequences.run",
        "version": 1,
        "profiles": {"smoke": {"seeds": 2, "grid": [{**sizes, **endless}]}},
    }
    (house / "experiments" / "tiny").mkdir()
    (house / "experiments" / "tiny" / "sweep.yml").write_text(yaml.safe_dump(experiment))
    work, words = house / "_build" / "sweeps", ["-m", "lib", "sweep", "tiny", "--profile", "smoke"]

    def checkpoints() -> list[Path]:
        return sorted(work.rglob("checkpoint.safetensors"))

    def both_went_on_or_ended(started: subprocess.Popen[bytes], times: dict[Path, int]) -> bool:
        changed = [path.stat().st_mtime_ns != times.get(path) for path in checkpoints()]
        return changed == [True, True] or started.poll() is not None

    times, losses = dict[Path, int](), dict[Path, list[float]]()
    for number in (signal.SIGINT, signal.SIGTERM):
        started = start(house, temporary, *words, "--workers", "2")
        wait_for(functools.partial(both_went_on_or_ended, started, times))
        assert started.poll() is None, output_of(temporary).read_text()
        (os.killpg if number == signal.SIGINT else os.kill)(started.pid, number)
        assert started.wait(timeout=120) == 128 + number
        assert "what was finished is kept" in output_of(temporary).read_text()
        wait_for(lambda: not processes_of(temporary))
        times = {path: path.stat().st_mtime_ns for path in checkpoints()}
        before, losses = losses, {path: kept(path)[2]["validation_losses"] for path in times}
        for path, first in before.items():
            assert len(losses[path]) > len(first) and losses[path][: len(first)] == first

    for path in times:  # to be told from a run from the start, and to come to an end
        configuration, tensors, course = kept(path)
        save_checkpoint(path, tensors, {**course, "reason": "the checkpoint says so"}, configuration)
        for half in ("model.safetensors.partial-1-0badcafe", "model.safetensors.1.partial", ".tmpQ3x7Za"):
            path.with_name(half).touch()
    last = start(house, temporary, *words, "--shard", "1/1")
    assert last.wait(timeout=120) == 0, output_of(temporary).read_text()
    records = [json.loads(path.read_text()) for path in work.glob("smoke/*/finished/**/*.json")]
    assert [record["result"]["reason"] for record in records] == ["the checkpoint says so"] * 2
    assert not [path for name in ("*partial*", ".tmp*", "checkpoint.safetensors") for path in work.rglob(name)]


def hold(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock file, and says so."""
    code = "import sys, pathlib; from lib.machine import locked\n"
    code += "with locked(pathlib.Path(sys.argv[1])) as held: print(held, flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "True\n"
    return other


def test_a_lock_file_is_held_until_its_process_dies(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    other = hold(path)
    with locked(path, wait=False) as held:
        assert not held
    other.kill()
    other.communicate()
    with locked(path, wait=False) as held:
        assert held
        with locked(path, wait=False) as twice:
            assert not twice


def test_a_lock_file_that_its_holder_removes_guards_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with locked(path) as first:
        path.unlink()
        with locked(path) as second:
            assert first and second and path.exists()


def test_half_written_files_are_removed_only_when_nobody_holds_them(tmp_path: Path) -> None:
    held = ["a.partial-1.ipynb", "a.partial-1.jsonl"]
    orphans = ["a.partial-2.ipynb", "a.partial-2.lock", "b.partial-1.inputs"]
    others = ["a.ipynb", "a.partial-2.ipynb.bak", "notes.partial-draft.ipynb", "a.partial-23.txt"]
    for name in (*held, *orphans, *others):
        (tmp_path / name).touch()
    with locked(tmp_path / "a.partial-1.lock"):
        clear_partials(tmp_path.iterdir())
        assert {path.name for path in tmp_path.iterdir()} == {*held, *others, "a.partial-1.lock"}
    clear_partials(tmp_path.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_sockets_have_paths_that_the_system_takes_however_deep_the_temporary_files_are(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * LONGEST)
    deep.mkdir()
    for place, inside in ((temporary, True), (deep, False)):
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        with private_kernels() as manager:
            assert len(str(manager.folder / "socket-5")) <= LONGEST
            assert manager.folder.is_relative_to(place) is inside
            clear_kernels()
            assert manager.folder.is_dir()
        assert not manager.folder.exists()


def test_a_folder_that_others_can_reach_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with private_kernels() as manager:
        common = manager.folder.parent
    common.chmod(0o755)
    with pytest.raises(PermissionError, match="TMPDIR"), private_kernels():
        pass
    (common / "1-abc").mkdir()
    kernels.clear_kernels()
    assert (common / "1-abc").exists()
    common.chmod(0o700)
    kernels.clear_kernels()
    assert not (common / "1-abc").exists()


def test_sigterm_is_a_clean_end_inside_and_its_second_coming_does_not_cut_it_short() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminable():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_process_that_lives_with_its_parent_ends_when_that_one_is_killed(temporary: Path) -> None:
    child = "import os, time; from lib.runs.endings import end_with; end_with(PARENT); time.sleep(300)"
    parent = "import os, subprocess, sys; code = sys.argv[1].replace('PARENT', str(os.getpid()))"
    parent += "; subprocess.run([sys.executable, '-c', code])"
    first = start(ROOT, temporary, "-c", parent, child)
    wait_for(lambda: len(processes_of(temporary)) == 2)
    first.kill()
    first.wait()
    wait_for(lambda: not processes_of(temporary))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("p: 0 < p is allowed,\n  got -1"), "p: 0 < p is allowed, got -1"),
        (RuntimeError("out of luck"), "RuntimeError: out of luck"),
        (ValueError(), "ValueError"),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, line: str) -> None:
    assert in_one_line(error) == line


@pytest.mark.parametrize(
    "work",
    [
        "print('done')",
        "print('done'); sys.exit()",
        "print('done'); sys.exit(3)",
        "print('done'); sys.exit('out of luck')",
        "print('done'); raise ValueError('out of luck')",
        "print('done', end=''); sys.stdout.buffer.write(b'!')",
    ],
)
def test_an_end_at_once_is_the_same_end_but_takes_nothing_apart(work: str) -> None:
    code = f"import atexit, sys\ndef work():\n    {work}\nclass Loaded:\n    def __del__(self): print('taken apart')\n"
    code += "atexit.register(print, 'registered'); loaded = Loaded()\n"

    def told(end: str) -> tuple[int, str, str]:
        command = [sys.executable, "-c", code + end]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr.strip().rpartition("\n")[2]

    status, output, error = told("from lib.runs.endings import at_once; at_once(work)")
    assert output.startswith("done") and output.endswith("registered\n")
    assert (status, f"{output}taken apart\n", error) == told("work()")


def test_an_end_at_once_bears_that_its_reader_has_gone() -> None:
    code = "from lib.runs.endings import at_once; at_once(lambda: print('x' * 10))"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=buffered, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
