"""`python -m lib measure`: the chapter *Measure your own* on a reader's text, and the folder that it leaves."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from markdown_it import MarkdownIt

from lib.batch.execution import Job, execute
from lib.batch.pages import Page
from lib.machine import expanded, write_whole
from lib.measure.results import CSV, JSON, load
from lib.measure.texts import PACKED, of_bytes, read_text

PAGE = Page("notebooks/measure/measure_your_own")
NOTEBOOK, HTML, INPUT = "measure.ipynb", "measure.html", "standard-input.txt"
LABEL = "(measure-your-own)="  # of the chapter, in every notebook that it leaves
QUICK = 1_500_000  # characters of a first look


@dataclass(frozen=True)
class Request:
    """What is to be measured, and how."""

    source: str
    folder: Path
    model: str = ""
    against: str = ""
    quick: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # further parameters of the chapter


class MeasuringFailed(RuntimeError):
    """A cell failed; the message is its error in one line, and names the log."""


def folder_for(source: str, below: Path) -> Path:
    """A folder named after a source."""
    path = Path(source)
    name = Path(path.stem).stem if path.suffix.lower() in PACKED else path.stem
    return below / (name.lstrip("-.") or ("standard-input" if source == "-" else "text"))


def check(request: Request, given: bytes | None = None) -> None:
    """``ValueError`` or ``OSError`` for what cannot be measured, before anything is started; given: standard input."""
    field_ = request.options.get("field", "text")
    if given is None:
        read_text(request.source, field_)
    else:
        of_bytes(given, "standard input")
    if request.against and request.against != "imitation":
        read_text(request.against, field_)
    if request.model:
        from lib.measure.models import check_model

        expanded(request.model)
        check_model(request.model, request.options.get("context", 0))


def check_folder(request: Request, job: Job) -> None:
    """``ValueError`` where results would be written over files that no earlier run of this command has left."""
    folder = job.target.parent
    notebooks = [_text_of(path) for path in (job.notebook, job.failed_notebook)]
    is_ours = any(LABEL in text for text in notebooks) or _text_of(job.log).startswith(PAGE.name) or _is_read(folder)
    foreign = [job.records, job.stamp]  # no run leaves these
    foreign += [] if is_ours else _results(job)
    if request.source == "-" and not any(INPUT in text for text in [*notebooks, _text_of(folder / JSON)]):
        foreign.append(folder / INPUT)
    if there := [path.name for path in foreign if path.exists()]:
        raise ValueError(
            f"a folder without {', '.join(there)}, or of an earlier run, is allowed, got {folder}: nothing is written "
            f"over what this command did not write; name another folder by -o, or move these files"
        )
    results = {path.resolve() for path in [*_results(job), *([folder / INPUT] if request.source == "-" else [])]}
    for name in filter(None, (request.source, request.against)):
        if expanded(name).resolve() in results:
            raise ValueError(f"a text that is no result of an earlier run in {folder} is allowed, got {name}")


def _results(job: Job) -> list[Path]:
    """Every file that a run can leave in its folder, but for standard input."""
    names = [_figure(cell).get("name") for cell in PAGE.notebook().cells]
    fixed = [job.target.with_name(name) for name in (NOTEBOOK, HTML, JSON, CSV)]
    return [*fixed, job.failed_notebook, job.log, *(job.target.with_name(f"{name}.svg") for name in names if name)]


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _is_read(folder: Path) -> bool:
    """Whether the numbers of a run are there."""
    try:
        return bool(load(folder))
    except (OSError, ValueError):
        return False


def measure(request: Request, tell: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Run the chapter and leave its notebook, page, figures and numbers in the folder; the files that are there.

    ``ValueError`` or ``OSError`` for bad input, before anything is written. When a cell fails, ``MeasuringFailed``;
    then, and after Ctrl-C, the folder has what was finished: numbers level by level, the notebook as far as it came.
    """
    folder = request.folder.absolute()
    check_folder(request, Job(PAGE, {}, "smoke", folder / "measure"))
    given = sys.stdin.buffer.read() if request.source == "-" else None
    check(request, given)
    parameters = {
        "source": _absolute(request.source) if given is None else str(folder / INPUT),
        "against": _absolute(request.against) if request.against != "imitation" else request.against,
        "model": _absolute(request.model) if request.model != "smollm2" else request.model,
        "folder": str(folder),
        "characters": QUICK if request.quick else 0,
        **request.options,
    }
    job = Job(PAGE, PAGE.check_parameters(parameters), "smoke", folder / "measure", keeps=True)
    folder.mkdir(parents=True, exist_ok=True)
    for old in _results(job):
        old.unlink(missing_ok=True)
    if given is not None:  # as a file, which the chapter's own process can read
        write_whole(folder / INPUT, given)
    try:
        outcome = execute(job, progress=sys.stderr.isatty())
        if outcome.failed:
            raise MeasuringFailed(f"{outcome.reason}; see {job.log}")
    finally:
        for plumbing in (job.records, job.stamp):
            plumbing.unlink(missing_ok=True)
        executed = next((path for path in (job.notebook, job.failed_notebook) if path.exists()), None)
        if executed is not None:
            tell(f"writing what {executed.name} shows")
            _write_figures(executed, folder)
            write_whole(folder / HTML, page_of(executed, str(parameters["source"])))
    return [path for path in _results(job) if path.exists()]


def _absolute(name: str) -> str:
    """A path for a process that works elsewhere; names of corpora stay."""
    return str(expanded(name).absolute()) if name and expanded(name).exists() else name


def _write_figures(executed: Path, folder: Path) -> None:
    for cell in nbformat.read(executed, as_version=4).cells:
        name = _figure(cell).get("name")
        for image in _images(cell):
            write_whole(folder / f"{name}.svg", image)


def _figure(cell: Any) -> dict[str, str]:
    """Name, caption and text for those who cannot see it, from the metadata of a cell."""
    notes = cell.metadata.get("mystnb", {})
    return {**notes.get("figure", {}), "alt": notes.get("image", {}).get("alt", "")} if notes else {}


def _images(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if "image/svg+xml" in output.get("data", {}):
            yield _joined(output["data"]["image/svg+xml"])


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else "".join(text)


def page_of(executed: Path, source: str) -> str:
    """One HTML file that needs no other: the headings, and what the cells below them show."""
    parts: list[dict[str, str]] = []
    for cell in nbformat.read(executed, as_version=4).cells:
        if "hide-cell" in cell.metadata.get("tags", []):  # what the book folds, such as exercises, and their heading
            while parts and parts[-1]["kind"] == "heading":
                parts.pop()
        else:
            parts += _parts(cell)
    kept = [part for place, part in enumerate(parts) if part["kind"] != "heading" or _is_used(parts, place)]
    template = Path(__file__).with_name("measured.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True).from_string(template).render(source=source, parts=kept)


def _is_used(parts: list[dict[str, str]], place: int) -> bool:
    """Whether something is shown below a heading."""
    return place + 1 < len(parts) and parts[place + 1]["kind"] != "heading"


def _parts(cell: Any) -> Iterator[dict[str, str]]:
    if cell.cell_type == "markdown":
        yield from ({"kind": "heading", "text": line[3:]} for line in cell.source.splitlines() if line[:3] == "## ")
        return
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/svg+xml" in data:
            address = base64.b64encode(_joined(data["image/svg+xml"]).encode()).decode()
            yield {"kind": "figure", "image": f"data:image/svg+xml;base64,{address}", "caption": "", **_figure(cell)}
        elif "text/markdown" in data:
            markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
            yield {"kind": "html", "html": markdown.render(_plain(_joined(data["text/markdown"])))}
        elif "text/html" in data:
            yield {"kind": "html", "html": _joined(data["text/html"])}
        elif output.get("output_type") == "error":
            yield {"kind": "error", "text": f"{output['ename']}: {output['evalue']}"}


def _plain(text: str) -> str:
    """Without what only the pages of the book can show."""
    import re

    return re.sub(r"\$([^$]*)\$", r"\1", re.sub(r"\{ref\}`([^`<]*)`", r"*\1*", text))


def summary(folder: Path) -> Iterator[str]:
    """The verdicts in a line each."""
    measured = json.loads((folder / JSON).read_text(encoding="utf-8"))
    for level, one in measured["two_point"].items():
        if one:
            ends = f" from {one['range'][0]} to {one['range'][1]}" if one["range"] else ""
            warned = not _number(one) or "; " in one["reason"]  # of a law that may be drift
            told = ends + _number(one) + (f" ({one['reason']})" if warned else "")
            yield f"{level.replace('_', ' '):>10}: {one['verdict']}{told}"


def _number(one: dict[str, Any]) -> str:
    for name in ("correlation_length", "exponent"):
        if one[name]:
            low, high = ("inf" if end is None else f"{end:.3g}" for end in one[name]["interval"])
            return f", {name.replace('_', ' ')} {one[name]['value']:.3g} [{low}, {high}]"
    return ""
