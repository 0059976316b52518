"""Many pages at once: failures are local, nothing outlives an end, and how processes come to life changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest

from lib import ROOT
from lib.batch import side_by_side
from lib.batch.execution import Job, Outcome
from lib.batch.side_by_side import execute_all
from tests.batch.test_execution import CHECK, checked, job, outputs

LINUX = pytest.mark.skipif(not side_by_side.FORKS, reason="only Linux forks what has loaded libraries")


@pytest.fixture(params=[pytest.param(True, marks=LINUX, id="forked"), pytest.param(False, id="spawned")])
def forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each test of what must not depend on it is made both ways; libraries would only take their time."""
    monkeypatch.setattr(side_by_side, "FORKS", request.param)
    monkeypatch.setattr(side_by_side, "LIBRARIES", ())
    return bool(request.param)


@pytest.mark.usefixtures("forks")
def test_a_failing_notebook_leaves_its_copy_and_traceback_and_the_others_go_on(make_page, tmp_path: Path) -> None:
    good = [job(make_page(f"good{i}", f"print({i})"), tmp_path) for i in range(3)]
    bad = job(make_page("bad", "print('before')", "raise RuntimeError('the reason')", "print('after')"), tmp_path)
    outcomes = {o.page: o for o in execute_all([bad, *good], workers=2, report=lambda outcome: None)}
    assert all(work.is_done() and not outcomes[work.page.name].failed for work in good)
    assert outcomes[bad.page.name].failed
    assert not bad.notebook.exists() and not bad.is_done()
    assert "the reason" in bad.log.read_text() and "RuntimeError" in outcomes[bad.page.name].error
    assert "before" in outputs(bad.failed_notebook) and "after" not in outputs(bad.failed_notebook)


@pytest.mark.usefixtures("forks")
def test_a_place_that_cannot_be_written_is_told_in_a_line(make_page, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    pages = [job(make_page(f"page{i}", "print(1)"), tmp_path / "file" / "below") for i in range(2)]
    outcomes = []
    execute_all(pages, workers=2, report=outcomes.append)
    assert len(outcomes) == 2
    assert all(found.failed and found.reason.startswith("NotADirectoryError: ") for found in outcomes)


@pytest.mark.usefixtures("forks")
def test_pages_side_by_side_share_the_cores(make_page, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    count = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
    pages = [job(make_page(f"page{i}", count), tmp_path) for i in range(2)]
    execute_all(pages, workers=2, report=lambda outcome: None)
    expected = max(1, (os.cpu_count() or 1) // 2)
    assert all(outputs(work.notebook).split() == ["threads", str(expected)] for work in pages)
    assert "OMP_NUM_THREADS" not in os.environ


@LINUX
def test_what_the_next_pages_need_is_loaded_while_a_single_one_runs(make_page, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(side_by_side, "LIBRARIES", ())
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    parent = "import os, psutil; print(os.environ.get('OMP_NUM_THREADS'), psutil.Process(os.getppid()).ppid())"
    first, *others = [job(make_page(f"page{i}", parent), tmp_path) for i in range(3)]
    with side_by_side.Workers(2) as pages:
        assert not pages.execute([first], lambda outcome: None)[0].failed and pages._server is None
        first.notebook.unlink()
        assert not pages.execute([first], lambda outcome: None, others_follow=True)[0].failed
        assert pages._server is not None
        server = pages._server[0]
        pages.execute(others, lambda outcome: None)
        assert pages._server[0] is server and server.is_alive()
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    assert all(outputs(work.notebook).split() == [threads, str(server.pid)] for work in others)
    assert not server.is_alive()
    with pytest.raises(ZeroDivisionError), side_by_side.Workers(2) as pages:
        pages.execute([first], lambda outcome: None, others_follow=True)
        server = pages._server[0]
        raise ZeroDivisionError
    assert not server.is_alive()


@pytest.mark.usefixtures("forks")
def test_a_process_that_dies_leaves_the_records_of_its_page_and_no_kernel(make_page, tmp_path: Path) -> None:
    die = "import os, re, signal\nopen('../kernel', 'w').write(str(os.getpid()))\nos.kill(os.getppid(), signal.SIGKILL)"
    busy = "re.match('(a|aa)+$', 'a' * 64 + 'b')"  # no other thread has its turn
    dying = job(make_page("dying", CHECK.format(1, "a"), f"{die}\n{busy}"), tmp_path)
    other = job(make_page("other", "1"), tmp_path)
    outcomes = {outcome.page: outcome for outcome in execute_all([dying, other], 2, lambda outcome: None)}
    assert outcomes[dying.page.name].failed and not outcomes[other.page.name].failed
    assert checked(dying) == [("a", "holds")] and not list(dying.target.parent.glob("*partial*"))
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "kernel").read_text())).wait(timeout=60)  # it was killed, which takes a moment


@LINUX
def test_a_server_that_dies_fails_the_pages_that_are_left(make_page, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(side_by_side, "LIBRARIES", ())
    deadly = "import os, psutil, time\npsutil.Process(os.getppid()).parent().kill()\ntime.sleep(300)"
    first = f"'{'the longest comes first ' * 10}'"
    pages = [job(make_page(f"page{i}", code), tmp_path) for i, code in enumerate([first, deadly, "1", "1"])]
    told: list[Outcome] = []
    outcomes = execute_all(pages, 1, told.append)
    assert told == outcomes and [outcome.failed for outcome in outcomes] == [False, True, True, True]
    assert all("exit code -9" in outcome.reason for outcome in outcomes[1:])
    assert pages[0].is_done() and not list((tmp_path / "out").rglob("*partial*"))


@LINUX
def test_pages_that_took_longest_come_first_and_before_them_those_that_nobody_knows(
    make_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "LIBRARIES", ())
    short, long, new, torn = pages = [
        job(make_page(name, code), tmp_path)
        for name, code in (("short", "'a text that is long'"), ("long", "1"), ("new", "1"), ("torn", "'cut off'"))
    ]
    for work, stamp in ((short, '{"seconds": 4}'), (long, '{"seconds": 30}'), (torn, '{"seconds')):
        work.stamp.parent.mkdir(parents=True, exist_ok=True)
        work.stamp.write_text(stamp)
    assert sorted(pages, key=Job.weight, reverse=True) == [torn, new, long, short]
    outcomes = execute_all([short, long], 1, lambda outcome: None)
    assert [outcome.page for outcome in outcomes] == [long.page.name, short.page.name]


FORKED = "import os, pathlib; print((pathlib.Path(os.environ['BOOK_KERNEL']) / 'process').exists())"


@LINUX
@pytest.mark.parametrize(
    ("setting", "library", "forked"),
    [
        ("", "", True),
        ("0", "", False),
        ("1", "import threading, time; threading.Thread(target=time.sleep, args=[60], daemon=True).start()", False),
    ],
    ids=["by default", "turned off", "not with a library that starts a thread"],
)
def test_pages_are_forked_where_they_may_and_can_be(
    make_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, library: str, forked: bool
) -> None:
    (tmp_path / "restless.py").write_text(library)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(side_by_side, "LIBRARIES", ("restless",))
    monkeypatch.setenv(side_by_side.SETTING, setting)
    pages = [job(make_page(name, FORKED), tmp_path) for name in "ab"]
    assert not any(outcome.failed for outcome in execute_all(pages, 2, lambda outcome: None))
    assert [outputs(work.notebook) for work in pages] == [f"{forked}\n"] * 2


def test_a_process_that_has_begun_to_use_cuda_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # of the process that runs the tests
    for begun in (False, True):
        torch = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda begun=begun: begun))
        monkeypatch.setitem(sys.modules, "torch", torch)
        assert side_by_side._is_whole_when_forked() is not begun


def test_another_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(side_by_side.SETTING, "yes")
    with pytest.raises(ValueError, match="BOOK_FORK: 0 or 1 is allowed, got 'yes'"):
        execute_all([], 1, lambda outcome: None)


STATE = """
import json, os, random, sys, warnings
import matplotlib, matplotlib.pyplot as plt, numpy, lib.report.records
def show():
    state = [numpy.random.get_state()[2], matplotlib.rcParams["lines.linewidth"], plt.get_fignums(), numpy.geterr()]
    state += ["lib.measure" in sys.modules, "only_here" in sys.modules, getattr(lib.report.records, "mark", None)]
    print(json.dumps([*state, "/only/here" in sys.path, os.environ.get("ONLY_HERE"), len(warnings.filters)]))
show()
"""
CHANGE = """
numpy.random.seed(0); numpy.random.random(2); matplotlib.rcParams["lines.linewidth"] = 7; plt.figure()
numpy.seterr(all="ignore"); import lib.measure; sys.modules["only_here"] = sys; lib.report.records.mark = 1
sys.path.append("/only/here"); os.environ["ONLY_HERE"] = "1"; warnings.simplefilter("ignore")
show()
"""
UNSEEDED = "print(numpy.random.random(), numpy.random.default_rng().random(), random.random())"


@LINUX
def test_what_a_page_changes_is_not_there_for_the_next(make_page, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(side_by_side, "LIBRARIES", ("matplotlib.pyplot", "numpy.random"))
    pages = [job(make_page(name, STATE, UNSEEDED, CHANGE), tmp_path) for name in "ab"]
    assert not any(outcome.failed for outcome in execute_all(pages, 1, lambda outcome: None))
    (before, drawn, after), second = (outputs(work.notebook).splitlines() for work in pages)
    assert before == second[0]
    assert not set(drawn.split()) & set(second[1].split()), "without a seed no two pages draw the same"
    changed = [one != other for one, other in zip(json.loads(before), json.loads(after), strict=True)]
    assert all(changed), "a control: on its own page every change is seen"


SEEN = """
import logging, os, re, signal, sys, threading, tqdm, tqdm.auto, warnings
import matplotlib, matplotlib.pyplot as plt, numba, numpy, pandas, seaborn, torch
here = os.environ["BOOK_KERNEL"]
print(__name__, sys.modules["__main__"].__dict__ is globals(), os.getcwd(), sys.path)
print([word.replace(here, "") for word in sys.argv if "parent_handle" not in word])
print({name: value.replace(here, "") for name, value in sorted(os.environ.items()) if name in SETTINGS})
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), os.getsid(0) == os.getpid(), sys.stdin.read())
print(plt.get_backend(), dict(matplotlib.rcParams), logging.root.handlers, numpy.geterr())
print(sorted(str(each) for each in warnings.filters if each[2].__module__ == "builtins"))  # not those of libraries
print(tqdm.auto.tqdm, list(tqdm.tqdm("ab")), torch.get_num_threads(), numba.config.CACHE_DIR)
print(len(threading.enumerate()))
plt.plot([0, 1])
plt.show()
pandas.DataFrame({"a": [1.5]})
"""


@LINUX
def test_a_page_is_the_same_whether_its_kernel_was_forked_or_not(make_page, tmp_path: Path, monkeypatch) -> None:
    settings = ["BOOK_PAGE", "BOOK_PROFILE", "MPLBACKEND", "OMP_NUM_THREADS", "PATH", "PYTHONPATH", "TQDM_DISABLE"]
    code = SEEN.replace("SETTINGS", repr(settings))
    shown = []
    for forks in (True, False):
        monkeypatch.setattr(side_by_side, "FORKS", forks)
        pages = [job(make_page(name, code), tmp_path) for name in "ab"]
        assert not any(outcome.failed for outcome in execute_all(pages, 2, lambda outcome: None))
        cells = [cell for work in pages for cell in nbformat.read(work.notebook, as_version=4).cells]
        shown.append([cell.get("outputs") for cell in cells])
    assert shown[0] == shown[1]
    assert "image/png" in json.dumps(shown)


def test_an_interrupt_keeps_what_is_finished_and_leaves_nothing_half(make_page, tmp_path: Path, forks: bool) -> None:
    make_page("quick", "print('done')")
    make_page("slow", "import time; time.sleep(300)")
    script = f"""
import signal
from pathlib import Path
from lib.batch import side_by_side
from lib.batch.execution import Job
from lib.batch.pages import Page
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
root = Path({str(tmp_path)!r})
if __name__ == "__main__":
    jobs = [Job(Page(f"notebooks/{{n}}", root), {{}}, "smoke", root / "out" / n, "k") for n in ("quick", "slow")]
    side_by_side.FORKS, side_by_side.LIBRARIES = {forks}, ()
    side_by_side.execute_all(jobs, 2, lambda outcome: print("ended", outcome.page, flush=True))
"""
    (tmp_path / "script.py").write_text(script)
    running = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert running.stdout is not None
    assert "quick" in running.stdout.readline()
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) != 0
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"quick.ipynb", "quick.stamp.json"} <= left
    assert not any(name.startswith("slow") for name in left), left


def test_an_interrupt_that_python_loses_is_heeded_all_the_same(make_page, tmp_path: Path, forks: bool) -> None:
    quick, slow = (
        job(make_page(name, code), tmp_path) for name, code in (("a", "1"), ("b", "import time; time.sleep(300)"))
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def lose(outcome: Outcome) -> None:
        with contextlib.suppress(KeyboardInterrupt):  # as Python does for what is raised in a callback
            signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            execute_all([quick, slow], 2, lose)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert quick.is_done() and not list(slow.target.parent.glob("b*"))
