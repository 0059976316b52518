"""The pages of the book: which exist, which are executed, what parameters they take."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode

from lib import ROOT, plain_yaml

PROFILES_FILE = ROOT / "notebooks" / "profiles.yml"


@dataclass(frozen=True)
class Page:
    """One executable page, named as Sphinx names it: its path below the book's folder, without suffix."""

    name: str
    root: Path = ROOT

    @property
    def source(self) -> Path:
        return self.root / f"{self.name}.md"

    @property
    def is_chapter(self) -> bool:
        """Chapters make results; the other executable pages (landing, scorecard …) show them, so they run after."""
        return self.name.startswith("notebooks/")

    @cached_property
    def text(self) -> str:
        return self.source.read_text(encoding="utf-8")

    def notebook(self) -> NotebookNode:
        notebook = jupytext.reads(self.text, fmt="md:myst")
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        return notebook

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Names and default values of the parameters cell; empty where the page has none."""
        cells = [cell for cell in self.notebook().cells if "parameters" in cell.metadata.get("tags", [])]
        if not cells:
            return {}
        if len(cells) > 1:
            raise ValueError(f"{self.name} has {len(cells)} cells tagged `parameters`; one is allowed")
        return dict(_literal_assignments(cells[0].source, self.name))

    def check_parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters to run with; refuses names the page does not have and values of another type.

        Raises ValueError for an unknown name (the message lists the names there are) or a value of the wrong type.
        """
        for name, value in given.items():
            if name not in self.parameters:
                known = ", ".join(f"{key} = {default!r}" for key, default in self.parameters.items()) or "none"
                raise ValueError(
                    f"{self.name} has no parameter {name!r}{_hint(name, self.parameters)}. It has: {known}"
                )
            default = self.parameters[name]
            if not _same_kind(value, default):
                raise ValueError(
                    f"parameter {name} of {self.name}: got {value!r} ({_kind(value)}), "
                    f"but its default is {default!r} ({_kind(default)})"
                )
        return {
            name: float(value) if isinstance(self.parameters[name], float) and isinstance(value, int) else value
            for name, value in given.items()
        }


def _literal_assignments(source: str, page: str) -> Iterator[tuple[str, Any]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, value = node.target.id, node.value
        else:
            raise ValueError(f"the parameters cell of {page} holds more than plain assignments: {ast.unparse(node)}")
        try:
            yield name, ast.literal_eval(value)
        except ValueError as error:
            raise ValueError(f"parameter {name} of {page} is not a plain literal: {ast.unparse(value)}") from error


def _same_kind(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    if isinstance(default, list | tuple):
        entries = value if isinstance(value, list | tuple) and default else []
        return isinstance(value, list | tuple) and all(any(_same_kind(x, y) for y in default) for x in entries)
    return isinstance(value, type(default))


def _kind(value: Any) -> str:
    inside = sorted({type(entry).__name__ for entry in value}) if isinstance(value, list | tuple) else []
    return type(value).__name__ + (f" of {', '.join(inside)}" if inside else "")


def _hint(name: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def table_of_contents() -> list[str]:
    """Page names in reading order, from `_toc.yml`."""
    return list(files_in(_in_yaml(ROOT / "_toc.yml")))


def _in_yaml(path: Path) -> Any:
    try:
        return plain_yaml.load(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: YAML is allowed, got a fault: {error}") from error


def files_in(node: Any) -> Iterator[str]:
    """Names of the pages in a part of the contents, in reading order."""
    if isinstance(node, list):
        for item in node:
            yield from files_in(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("root", "file"):
                yield str(value)
            elif isinstance(value, list):
                yield from files_in(value)


def executable_pages() -> list[Page]:
    """Pages with a kernel, chapters first: the order in which they can run."""
    pages = [Page(name) for name in table_of_contents()]
    missing = [page.name for page in pages if not page.source.exists()]
    if missing:
        raise ValueError(f"_toc.yml names pages that do not exist: {', '.join(missing)}")
    return sorted((page for page in pages if _has_kernel(page.text)), key=lambda page: not page.is_chapter)


def _has_kernel(text: str) -> bool:
    if not text.startswith("---"):
        return False
    head = plain_yaml.load(text.split("---", 2)[1])
    return isinstance(head, dict) and "kernelspec" in head


def find_page(name: str) -> Page:
    """The page a reader means: a path, a docname or just its last part.

    Raises ValueError when no page or several pages match; the message lists what exists.
    """
    pages = executable_pages()
    wanted = name.removesuffix(".md").removesuffix(".ipynb").strip("/")
    path = Path(name)
    if path.is_absolute() or name.startswith("."):
        wanted = (
            path.resolve().with_suffix("").relative_to(ROOT).as_posix()
            if path.resolve().is_relative_to(ROOT)
            else wanted
        )
    matches = [page for page in pages if page.name == wanted] or [
        page for page in pages if page.name.endswith("/" + wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    names = [page.name for page in pages]
    problem = "names several notebooks" if matches else "is not a notebook of this book"
    near = difflib.get_close_matches(wanted, [n.rsplit("/", 1)[-1] for n in names], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near and not matches else ""
    listing = "\n  ".join(page.name for page in matches) if matches else "\n  ".join(names)
    raise ValueError(f"{name!r} {problem}{hint}. There are:\n  {listing}")


def profile_names() -> list[str]:
    return ["smoke", *_profiles()]


def profile_parameters(page: Page, profile: str) -> dict[str, Any]:
    """What a profile changes in a page's parameters. `smoke` is the parameters cell itself.

    Raises ValueError for an unknown profile.
    """
    if profile == "smoke":
        return {}
    profiles = _profiles()
    if profile not in profiles:
        raise ValueError(f"unknown profile {profile!r}; there are: {', '.join(profile_names())}")
    given = (profiles[profile] or {}).get(page.name.removeprefix("notebooks/"), {})
    return page.check_parameters(given)


def _profiles() -> dict[str, Any]:
    profiles: dict[str, Any] = _in_yaml(PROFILES_FILE)
    return profiles
