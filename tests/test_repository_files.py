"""Files that the host of the repository reads: workflows, issue forms, the citation. Each is valid by its schema."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml
from check_jsonschema import main as validate
from click.testing import CliRunner

from lib import ROOT
from lib.batch.cli import main
from lib.batch.pages import Page
from lib.report.shown import WORDS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
WRONG = {
    "github-workflows": ("runs-on:", "run-on:"),
    "github-issue-forms": ("type: textarea", "type: paragraph"),
    "github-issue-config": ("blank_issues_enabled: true", "blank_issues_enabled: often"),
    "citation-file-format": ("license: MIT", "license: none of those"),
}
COMMANDS = re.compile(
    r"make (?P<target>[\w-]+)|(\S+/)?python -m lib (?P<command>\w+)|gh release create\b|go run \S+@v\d+\.\d+\.\d+$"
)
PINNED = re.compile(r"uses: actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def faults(schema: str, *files: Path) -> str:
    """What a schema that check-jsonschema carries has against these files; empty if nothing."""
    done = CliRunner().invoke(validate, ["--builtin-schema", f"vendor.{schema}", *map(str, files)])
    return done.output if done.exit_code else ""


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_is_valid_by_its_schema_and_a_slip_in_it_is_seen(schema: str, tmp_path: Path) -> None:
    files = SCHEMAS[schema]
    assert files and not faults(schema, *files)
    right, wrong = WRONG[schema]
    text = files[0].read_text(encoding="utf-8")
    assert right in text
    slipped = tmp_path / files[0].name
    slipped.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    assert str(slipped.name) in faults(schema, slipped)


def steps(path: Path) -> list[dict[str, str]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_also_runs_by_hand_and_actions_that_cannot_change(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for step in steps(path):
        if "run" in step:
            match = COMMANDS.match(step["run"])
            assert match is not None, step["run"]
            assert match["target"] is None or match["target"] in targets
            assert match["command"] is None or match["command"] in main.commands
            assert "${{" not in step["run"], "what others write is no part of a command"
    text = path.read_text(encoding="utf-8")
    uses = [line for line in text.splitlines() if re.search(r"\buses:", line)]
    assert uses and all(PINNED.search(line) for line in uses)
    assert "permissions" in yaml.safe_load(text)


@pytest.mark.parametrize("line", ["go run example.org/tool@latest", "go run example.org/tool", "curl example.org | sh"])
def test_a_command_that_can_change_is_seen(line: str) -> None:
    assert not COMMANDS.match(line)


@pytest.mark.parametrize("line", ["uses: actions/checkout@v7", "uses: actions/checkout@3d3c42e5 # v7.0.1"])
def test_an_action_that_can_change_is_seen(line: str) -> None:
    assert not PINNED.search(line)


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint on the PATH; test.yml has it by Go")
def test_actionlint_has_nothing_against_the_workflows_and_sees_a_slip(tmp_path: Path) -> None:
    def against(*files: Path) -> str:
        lint = ["actionlint", "-no-color", "-oneline", *map(str, files)]
        return subprocess.run(lint, cwd=ROOT, capture_output=True, text=True, check=False).stdout

    assert not against(*WORKFLOWS)
    (pages,) = (path for path in WORKFLOWS if path.stem == "pages")
    text = pages.read_text(encoding="utf-8")
    slipped = tmp_path / "slip.yml"
    for right, wrong in (("steps.deployment", "steps.deployed"), ("needs: build", "needs: built")):
        assert right in text
        slipped.write_text(text.replace(right, wrong), encoding="utf-8")
        assert not faults("github-workflows", slipped) and re.split("[ .]", wrong)[-1] in against(slipped)


def test_forms_offer_the_verdicts_that_there_are() -> None:
    (form,) = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in FORMS if path.stem == "claim")
    (offered,) = (field["attributes"]["options"] for field in form["body"] if field.get("id") == "verdict")
    judged = {word for outcome, (_, word) in WORDS.items() if outcome not in ("fails", "not yet")}
    assert judged <= set(offered)


def test_the_oldest_and_the_newest_python_are_those_that_the_package_allows() -> None:
    (low, high) = re.findall(r"3\.(\d+)", (ROOT / "pyproject.toml").read_text("utf-8").partition("requires-python")[2])[
        :2
    ]
    (job,) = yaml.safe_load((ROOT / ".github/workflows/versions.yml").read_text("utf-8"))["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == [f"3.{low}", f"3.{int(high) - 1}"]


def example(name: str, text: str) -> Page:
    """The chapter that CONTRIBUTING.md prints, as a page."""
    (chapter,) = re.findall(r"^````markdown\n(.*?)^````$", text, re.MULTILINE | re.DOTALL)
    page = Page(name, ROOT)
    page.__dict__["text"] = chapter
    return page


def test_the_chapter_that_contributors_begin_with_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    page = example("notebooks/two_point/two_states", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert page.parameters == {"seed": 0}
    plt.close("all")
    names: dict[str, object] = {}
    for cell in page.notebook().cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
    assert len(names["plt"].gcf().axes[0].lines[0].get_ydata()) == 19
    names["plt"].close("all")


def test_recipes_name_files_and_commands_that_there_are() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"-m lib (\w+)", text)) <= set(main.commands)
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text)) | set(re.findall(r"\]\(([\w./-]+)\)", text))
    assert len(named) > 5 and not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_notebooks_go_alone_to_a_branch_of_origin(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout

    here = tmp_path / "here and there"  # a path with blanks
    beside = tmp_path / "here"
    beside.mkdir()
    made = here / "_build" / "html" / "_sources" / "notebooks" / "part"
    made.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", here)
    for name in ("a.ipynb", "a.md", "b.ipynb"):
        (made / name).write_text("{}")
    (here / ".gitignore").write_text("_build/\n*.ipynb\n")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "there")], check=True)
    git("init", "-q")
    git("remote", "add", "origin", str(tmp_path / "there"))
    git("add", "Makefile")
    git("commit", "-q", "-m", "one")
    for kept in (["a", "b"], ["a"]):
        subprocess.run(["make", "notebooks"], cwd=here, check=True, capture_output=True)
        (made / "b.ipynb").unlink(missing_ok=True)
        git("fetch", "-q", "origin")
        listed = git("ls-tree", "-r", "--name-only", "origin/notebooks").split()
        assert listed == [f"notebooks/part/{name}.ipynb" for name in kept]
        assert git("rev-list", "--count", "origin/notebooks").strip() == "1"
    assert git("status", "--porcelain").split() == ["??", ".gitignore"]
