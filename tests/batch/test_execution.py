"""Executing a notebook: failures are loud, and nothing is written half."""

from __future__ import annotations

import datetime
import errno
import itertools
import json
import os
import sys
from pathlib import Path

import nbformat
import papermill.engines
import pytest

from lib.batch.execution import Job, execute
from lib.batch.identity import page_key
from lib.report import records


def job(page, tmp_path: Path, **parameters) -> Job:
    return Job(page, parameters, "smoke", tmp_path / "out" / page.name, page_key(page, "smoke", parameters))


def outputs(path: Path) -> str:
    notebook = nbformat.read(path, as_version=4)
    return "".join(o.get("text", "") for cell in notebook.cells for o in cell.get("outputs", []))


def test_an_executed_copy_carries_outputs_parameters_and_no_machine_paths(make_page, tmp_path: Path) -> None:
    work = job(make_page("a", "print(f'p is {p}')", parameters="p = 0.2   # bias"), tmp_path, p=0.3)
    outcome = execute(work)
    assert not outcome.failed, outcome.error
    assert work.is_done()
    assert "p is 0.3" in outputs(work.notebook)
    assert str(tmp_path) not in work.notebook.read_text()
    assert not list(work.notebook.parent.glob("*partial*"))


@pytest.mark.parametrize(("pace", "fewest", "most"), [(0, 1, 3), (40, 9, 30)])
def test_a_notebook_is_written_every_half_minute_and_not_for_every_cell(
    make_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: int, fewest: int, most: int
) -> None:
    """By a clock that goes so many seconds from one look at it to the next."""
    written, looks, write = [], itertools.count(), papermill.engines.write_ipynb
    monkeypatch.setattr(papermill.engines, "write_ipynb", lambda *words: written.append(write(*words)))
    start, tick = datetime.datetime.now(datetime.UTC), datetime.timedelta(seconds=pace)
    monkeypatch.setattr(papermill.engines.NotebookExecutionManager, "now", lambda _: start + next(looks) * tick)
    work = job(make_page("a", *[f"print({number})" for number in range(9)]), tmp_path)
    assert not execute(work).failed
    assert fewest <= len(written) <= most
    assert outputs(work.notebook).split() == [str(number) for number in range(9)]


def test_a_kernel_that_dies_is_a_failure(make_page, tmp_path: Path) -> None:
    work = job(make_page("dies", "import os; os._exit(1)"), tmp_path)
    outcome = execute(work)
    assert outcome.failed and not work.is_done()
    assert "DeadKernelError" in outcome.error


def test_another_key_means_not_done(make_page, tmp_path: Path) -> None:
    work = job(make_page("a", "1"), tmp_path)
    assert not work.is_done()
    execute(work)
    assert work.is_done()
    assert not Job(work.page, {}, "smoke", work.target, key="other").is_done()
    assert json.loads(work.stamp.read_text())["key"] == work.key


@pytest.mark.parametrize("back", [True, False])
def test_a_page_that_was_changed_before_or_while_it_ran_is_not_done(make_page, tmp_path: Path, back: bool) -> None:
    """Its kernel may have read either text, or code of either kind: that it was changed back does not help."""
    page = make_page("a", "1")
    text = page.source.read_text(encoding="utf-8")
    work = job(page, tmp_path)
    page.source.write_text(text + "\nMore words.\n", encoding="utf-8")
    assert not execute(work).failed
    if back:
        page.source.write_text(text, encoding="utf-8")
    assert not work.is_done()
    page.source.write_text(text, encoding="utf-8")
    execute(work)
    assert work.is_done()


@pytest.mark.parametrize("suffix", ["notebook", "records"])
def test_an_execution_that_is_torn_is_not_done(make_page, tmp_path: Path, suffix: str) -> None:
    work = job(make_page("a", "1", "2"), tmp_path)
    execute(work)
    path = getattr(work, suffix)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if whole else b"{")
    assert not work.is_done()
    path.write_bytes(whole)
    assert work.is_done()


def test_records_of_checks_appear_when_the_page_ends(make_page, tmp_path: Path) -> None:
    write = "import os; open(os.environ['BOOK_RECORDS'], 'a').write('{}\\n')"
    see = "import pathlib; print(*(p.name for p in pathlib.Path(os.environ['BOOK_RECORDS_DIR']).rglob('*.jsonl')))"
    good = job(make_page("good", write, see), tmp_path)
    execute(good)
    assert good.records.read_text() == "{}\n"
    assert outputs(good.notebook).split() == [f"good.partial-{os.getpid()}.jsonl"]
    assert not list(good.target.parent.glob("*partial*"))


CHECK = "from lib.report.claims import check\ncheck('shen-eq46', 1, {}, 0.1, part='{}')"


def checked(work: Job) -> list[tuple[str, str]]:
    return [(record["part"], record["outcome"]) for record in records.read(work.records)]


def test_records_lie_beside_the_executed_copy_wherever_the_page_works(
    make_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = make_page("page", CHECK.format(1, "a"), "import os; print(os.environ['BOOK_RECORDS_DIR'])")
    work = Job(page, {}, "smoke", Path("out") / page.name)
    execute(work)
    assert checked(work) == [("a", "holds")]
    assert outputs(work.notebook).split()[-1] == str(tmp_path / "out")


def test_a_page_that_fails_keeps_its_records_and_the_failing_check_until_it_passes(make_page, tmp_path: Path) -> None:
    def run(*cells: str) -> Job:
        work = job(make_page("page", *cells), tmp_path)
        execute(work)
        assert not list(work.target.parent.glob("*partial*"))
        return work

    assert checked(run(*(CHECK.format(1, part) for part in "abc"))) == [("a", "holds"), ("b", "holds"), ("c", "holds")]
    failing = run(CHECK.format(1, "a"), CHECK.format(2, "b"), CHECK.format(1, "c"))
    assert checked(failing) == [("a", "holds"), ("b", "fails")] and not failing.is_done()
    *_, last = records.read(failing.records)
    assert last["sentence"].startswith("does not hold: 1 against 2")
    assert checked(run("1/0")) == [("a", "holds"), ("b", "fails")]
    assert checked(run(CHECK.format(1, "a"), "1/0", CHECK.format(1, "b"))) == [("a", "holds"), ("b", "fails")]
    passing = run("\n".join(CHECK.format(1, part) for part in "ab"), CHECK.format(1, "c"))
    assert checked(passing) == [("a", "holds"), ("b", "holds"), ("c", "holds")] and passing.is_done()
    cells = nbformat.read(passing.notebook, as_version=4).cells
    # what one cell has checked is stored as one table
    together, alone = (out.data["text/html"] for cell in cells for out in cell.get("outputs", []))
    assert [together.count(f'id="claim-shen-eq46-{part}"') for part in "abc"] == [1, 1, 0]
    assert together.count("<table") == 1 and alone.startswith("<p")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows kernels use TCP")
def test_kernels_talk_through_private_sockets(make_page, tmp_path: Path) -> None:
    cell = "from ipykernel.connect import get_connection_info; print(get_connection_info())"
    work = job(make_page("a", cell), tmp_path)
    execute(work)
    assert '"transport": "ipc"' in outputs(work.notebook)


def test_an_execution_whose_stamp_is_cut_off_or_of_a_former_version_is_not_done(make_page, tmp_path: Path) -> None:
    work = job(make_page("a", "1"), tmp_path)
    execute(work)
    assert work.is_done()
    whole = work.stamp.read_text()
    known = {"key": work.key, "sizes": work.sizes()}
    former = (
        {"key": work.key},
        {**known, "inputs": None},
        {**known, "inputs": [["a"]]},
        {"key": work.key, "inputs": []},
        [],
    )
    for wrong in ("", whole[:-4], *map(json.dumps, former)):
        work.stamp.write_text(wrong)
        assert not work.is_done(), wrong
    work.stamp.write_text(whole)
    assert work.is_done()
    work.records.unlink()
    assert not work.is_done()


def test_what_a_page_notes_is_kept_with_it_and_looked_at_again(make_page, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("first")
    note = f"from pathlib import Path; from lib import inputs; inputs.note_file(Path({str(text)!r}))"
    work = job(make_page("a", note), tmp_path)
    execute(work)
    assert work.is_done()
    first = work.execution()
    text.write_text("second")
    assert not work.is_done()
    execute(work)
    assert work.is_done() and work.execution() != first
    assert not list(work.notebook.parent.glob("*partial*"))


def test_damaged_notes_make_a_page_that_is_not_done(make_page, tmp_path: Path) -> None:
    work = job(make_page("a", "import os; open(os.environ['BOOK_INPUTS'], 'w').write('torn')"), tmp_path)
    assert not execute(work).failed
    assert not work.is_done()


def test_a_folder_that_is_removed_while_a_page_runs_is_a_failure_and_nothing_is_done(make_page, tmp_path: Path) -> None:
    """What was checked before is gone with it; the kernel makes the folder anew for what it checks afterwards."""
    gone = f"import shutil; shutil.rmtree({str(tmp_path / 'out')!r})"
    work = job(make_page("a", CHECK.format(1, "a"), gone, CHECK.format(1, "b")), tmp_path)
    outcome = execute(work)
    assert outcome.failed and "was removed while the page ran; start again" in outcome.reason
    assert not work.is_done() and not work.records.exists() and not list(work.target.parent.iterdir())


def test_a_failing_check_is_kept_though_the_disk_has_no_room_for_the_traceback(
    make_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lib.batch.execution.write_whole", full)
    work = job(make_page("a", CHECK.format(1, "a"), CHECK.format(2, "b")), tmp_path)
    outcome = execute(work)
    assert outcome.failed and "ClaimFailed" in outcome.error
    assert checked(work) == [("a", "holds"), ("b", "fails")]
    assert outcome.files == (str(work.failed_notebook),)
