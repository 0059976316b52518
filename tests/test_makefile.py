"""What the commands of the Makefile start, told by `make -n`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lib import ROOT
from tests.conftest import LONGEST


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(("user", "allowed"), [("0", True), ("1000", False), ("10", False)])
def test_jupyter_starts_for_root_too_with_its_token_and_for_this_machine_alone(
    tmp_path: Path, user: str, allowed: bool
) -> None:
    who = tmp_path / "id"
    who.write_text(f"#!/bin/sh\necho {user}\n")
    who.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    told = subprocess.run(
        ["make", "-n", "lab"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    (command,) = [line.split() for line in told.splitlines() if "jupyter lab" in line]
    assert ("--allow-root" in command) is allowed
    assert command[command.index("--ip") + 1] == "127.0.0.1"
    assert not any("token" in word.lower() or "password" in word.lower() for word in command)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(
    ("system", "driver", "setting", "index"),
    [
        ("Linux", False, None, "https://download.pytorch.org/whl/cpu"),
        ("Linux", True, None, ""),
        ("Darwin", False, None, ""),
        ("Linux", False, "", ""),
        ("Linux", True, "https://an.index", "https://an.index"),
    ],
)
def test_pytorch_is_the_build_for_the_cpu_on_linux_without_a_driver(
    tmp_path: Path, system: str, driver: bool, setting: str | None, index: str
) -> None:
    if (Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")) and not driver:
        pytest.skip("there is a driver here")
    for name, said in [("uname", system), *([("nvidia-smi", "a card")] if driver else [])]:
        (tmp_path / name).write_text(f"#!/bin/sh\necho {said}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("TORCH_INDEX", None)
    environment |= {} if setting is None else {"TORCH_INDEX": setting}
    command = ["make", "-n", "-B", ".venv/.ready"]
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    installs = [line for line in told.splitlines() if "pip install" in line]
    (torch,) = [line for line in installs if "--index-url" in line]
    assert f'test -z "{index}" ||' in torch and f'--index-url "{index}" ' in torch
    halves = [re.search(r"\$\((sed .*NR % 2 == \d'\))", line) for line in installs if "NR % 2" in line]
    packages = [
        subprocess.run(half[1][:-1], shell=True, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        for half in halves
        if half is not None
    ]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^([A-Za-z]\S*==\S+)", lock, re.MULTILINE)
    assert sorted(name for half in packages for name in half) == sorted(
        n for n in locked if not n.startswith("torch==")
    )
    assert any(line.endswith("--no-compile -r requirements.txt -c requirements.lock") for line in installs)
    version = subprocess.run(torch.partition("$(")[2].rpartition(")")[0], shell=True, cwd=ROOT, capture_output=True)
    assert re.fullmatch(rb"torch==[\d.]+\n", version.stdout)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize("failing", ["", "tests/browser", "not browser", "ruff", "book"])
def test_all_that_is_tested_is_started_and_a_fault_in_any_part_is_told(tmp_path: Path, failing: str) -> None:
    for name in ("requirements.txt", "requirements.lock", "pyproject.toml", "_build/made", ".venv/.ready"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    python = tmp_path / "python"  # tells its words, how many cores there are, and fails where it is told to
    python.write_text(
        '#!/bin/sh\ncase "$*" in -c*) echo 3; exit;; esac\necho "started: $*"\n'
        f'case "$*" in *"{failing or "nothing"}"*) exit 2;; esac\n'
    )
    python.chmod(0o755)
    command = ["make", "-f", str(ROOT / "Makefile"), "test", f"RUN={python}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is bool(failing)
    told = [line.removeprefix("started: ") for line in done.stdout.splitlines() if line.startswith("started: ")]
    wanted = ["-m ruff", "-m lib book", "-m pytest -n 3 ", "-m pytest -n 1 "]  # pages in a browser beside all others
    until = {"ruff": 1, "book": 2}.get(failing, 4)
    assert len(told) == until and all(map(str.startswith, told, wanted))
    assert until < 4 or ("not browser" in told[2] and told[3].endswith("-m browser tests/browser"))


def test_files_that_take_long_are_tested_first_and_are_there(request: pytest.FixtureRequest) -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []
    commands = [line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "loadfile" in line]
    assert commands and all("--no-loadscope-reorder" in command for command in commands)
    order = [item.path.relative_to(ROOT / "tests").as_posix() for item in request.session.items]
    long = [name in LONGEST for name in order]
    assert long == sorted(long, reverse=True)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_the_fast_tests_read_what_changed_and_are_not_of_the_longest_files(
    request: pytest.FixtureRequest,
) -> None:
    told = subprocess.run(["make", "-n", "test-fast"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert '-m "not browser and not slow" $(.venv/bin/python -m tests.changed)' in told
    for item in request.session.items:
        is_long = item.path.relative_to(ROOT / "tests").as_posix() in LONGEST
        assert (item.get_closest_marker("slow") is not None) == is_long, item.nodeid
