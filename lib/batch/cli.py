"""The command line: run notebooks and sweeps, build the book, manage corpora, print the scorecard."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from lib import ROOT
from lib.batch import BUILD
from lib.runs.commands import fingerprint, sweep, values_of
from lib.runs.endings import Terminated, terminable


class Friendly(click.Group):
    """Bad input is a message, not a traceback; Ctrl-C and SIGTERM are clean ends."""

    def invoke(self, context: click.Context) -> Any:
        try:
            with terminable():
                return super().invoke(context)
        except BrokenPipeError:  # the reader of our output has seen enough
            sys.exit(0)
        except (ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt as end:
            click.echo("\nstopped; what was finished is kept", err=True)
            sys.exit(128 + (signal.SIGTERM if isinstance(end, Terminated) else signal.SIGINT))


@click.group(cls=Friendly, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The Memory of Sequence Models: run its notebooks, build its pages, fetch its data."""


main.add_command(sweep)
main.add_command(fingerprint)


@main.command()
@click.argument("notebooks", nargs=-1, required=True)
@click.option("-p", "--parameter", "assignments", multiple=True, metavar="NAME=VALUE", help="Change a parameter.")
@click.option("--profile", default="smoke", show_default=True, help="Sizes to start from.")
@click.option(
    "-j", "--jobs", default=None, type=click.IntRange(min=1), help="Notebooks at once [default: cores, at most 4]."
)
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the executed notebooks [default: _build/runs].",
)
def run(
    notebooks: tuple[str, ...], assignments: tuple[str, ...], profile: str, jobs: int | None, output: Path | None
) -> None:
    """Execute NOTEBOOKS with papermill; `all` means every chapter."""
    from lib.batch.book import clear_leftovers, default_workers
    from lib.batch.execution import Job
    from lib.batch.identity import digest
    from lib.batch.pages import executable_pages, find_page, profile_parameters
    from lib.batch.side_by_side import execute_all

    if notebooks == ("all",):
        pages = [page for page in executable_pages() if page.is_chapter]
    else:
        pages = [find_page(name) for name in notebooks]
    given = values_of(assignments)
    work = []
    for page in pages:  # everything is checked before anything starts
        parameters = {**profile_parameters(page, profile), **page.check_parameters(given)}
        label = f"-{digest([repr(sorted(parameters.items()))])[:8]}" if parameters else ""
        work.append(Job(page, parameters, profile, (output or BUILD / "runs") / f"{page.name}{label}"))
    clear_leftovers()
    failed = [outcome for outcome in execute_all(work, jobs or default_workers(), _tell) if outcome.failed]
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(work)} notebooks failed")


def _tell_state(outcome: Any) -> None:
    state = click.style("failed", fg="red") if outcome.failed else click.style("done", fg="green")
    click.echo(f"{state:>6} {outcome.page} ({outcome.seconds:.0f} s)")


def _tell(outcome: Any) -> None:
    _tell_state(outcome)
    if outcome.failed:
        click.echo(f"{outcome.page}: {outcome.reason}", err=True)
    for name in outcome.files:
        path = Path(name)
        click.echo(f"       {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


@main.command()
@click.option("--profile", default="smoke", show_default=True, envvar="BOOK_PROFILE", help="Sizes to execute with.")
@click.option(
    "-j", "--jobs", default=None, type=click.IntRange(min=1), help="Notebooks at once [default: cores, at most 4]."
)
@click.option("--record", is_flag=True, help="Keep the claim records of this profile in results/claims.")
@click.option("--clean", is_flag=True, help="Render every page anew.")
def book(profile: str, jobs: int | None, record: bool, clean: bool) -> None:
    """Execute every notebook and render the book."""
    from lib.batch.book import BuildFailed, execute_book, record_claims, render

    try:
        done = execute_book(profile, jobs, _tell_state)
        if record:
            for path in record_claims(done, profile):
                click.echo(f"recorded {path.relative_to(ROOT)}")
        first = render(profile, clean)
    except BuildFailed as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"The book is ready: {first.as_uri()}")


@main.command(name="print")
@click.option(
    "-o",
    "--output",
    default=ROOT / "_build" / "memory-of-sequence-models.pdf",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the PDF goes [default: _build].",
)
def print_pages(output: Path) -> None:
    """Print the built pages into one PDF, with the bookmarks of the table of contents."""
    from lib.batch.publish.address import pages_url, repository_url
    from lib.batch.publish.printing import print_book

    def tell(page: str, sheets: int) -> None:
        click.echo(f"{sheets:>6} {page}")

    sheets = print_book(BUILD / "html", output, pages_url(repository_url()), tell)
    click.echo(f"{sheets} sheets: {output}")


@main.command()
@click.option("--paper", default=None, help="Only the claims of one paper, such as shen2019.")
def claims(paper: str | None) -> None:
    """Print the scorecard: every claim, whether it holds, and which of its records are of older code."""
    from lib.report import scorecard

    folders = sorted(path for path in (BUILD / "executed").glob("*") if path.is_dir())
    click.echo(scorecard.text_table(scorecard.load_records(folders), paper=paper))


@main.command(name="measure")
@click.argument("source")
@click.option("--model", default="", metavar="DIR|smollm2", help="A causal language model of transformers, by folder.")
@click.option("--against", default="", metavar="FILE", help="Another text, or `imitation`: 4-grams of the source.")
@click.option(
    "-o", "--output", default=None, type=click.Path(file_okay=False, path_type=Path), help="Where it all goes."
)
@click.option("--quick", is_flag=True, help="A first look: the first 1.5 million characters.")
@click.option("--field", default="text", show_default=True, help="Of the lines of a .jsonl file.")
@click.option("--largest-lag", default=1000, show_default=True, type=click.IntRange(min=10), help="Farthest distance.")
@click.option("--context", default=0, type=click.IntRange(min=0), help="Tokens of a window, at least 4 [default: 512].")
@click.option("--windows", default=64, show_default=True, type=click.IntRange(min=8), help="That the model reads.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of shuffles and bootstrap.")
def measure_own(source: str, model: str, against: str, output: Path | None, quick: bool, **options: Any) -> None:
    """Measure a text of your own: SOURCE is a file, a folder, `-`, or a corpus of the catalogue.

    Reads .txt, .jsonl and folders of them, also .gz, .xz and .zst. Leaves a notebook, a page, figures, CSV and JSON.
    """
    from lib.batch.measuring import MeasuringFailed, Request, folder_for, measure, summary

    folder = output or folder_for(source, BUILD / "measured")
    try:
        files = measure(Request(source, folder, model, against, quick, options))
    except MeasuringFailed as error:
        raise click.ClickException(str(error)) from error
    for line in summary(folder):
        click.echo(line)
    for path in files:
        click.echo(f"  wrote {path}")


@main.command()
@click.argument("question")
@click.option("--part", required=True, help="Folder of notebooks that the chapter goes to.")
@click.option("--title", default="", help="Of the chapter [default: made of the name].")
def new(question: str, part: str, title: str) -> None:
    """Write the files of a new QUESTION: a sweep, a run, its test and a chapter, as a small example that works."""
    from lib.batch.question import create

    for path in create(question, part, title):
        click.echo(f"  wrote {path.relative_to(ROOT)}")
    click.echo(
        f"\nEdit\n  1. experiments/{question}: what a run does, what is swept, what the records say; and its test\n"
        f"  2. notebooks/{part}/{question}.md: the chapter\n"
        f"  3. _toc.yml: a line `- file: notebooks/{part}/{question}` where the chapter belongs\n"
        f"and try\n  python -m lib sweep {question} --profile smoke\n  python -m lib run {question}    # after step 3"
    )


@main.group()
def data() -> None:
    """The corpora and pretrained models: what there is, what is here, what has the right checksum."""


def _size(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f} MB"


@data.command(name="list")
def list_corpora() -> None:
    """Every corpus and split, every file of a pretrained model, where it was found, and on what terms it is."""
    from lib.processes import corpora

    rows = corpora.list_table()
    for row in rows:
        name = f"{row.name}/{row.split}" if row.split else row.name
        place = click.style(row.where, fg="green") if row.where else "not here"
        click.echo(f"{name:<44} {_size(row.bytes):>9}  {place}")
    click.echo("\nFetch what is not here with: python -m lib data fetch NAME. Terms:")
    for name, licence in {row.name: row.licence for row in rows}.items():
        click.echo(f"  {name}: {licence}")


@data.command()
@click.argument("names", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Download the corpora and models NAMES (or name/part; `all` for every one) and check them."""
    from lib.processes import corpora

    _finish(corpora.fetch(None if names == ("all",) else names), required=True)


@data.command()
@click.argument("names", nargs=-1)
def verify(names: tuple[str, ...]) -> None:
    """Check what is here against its checksums; without NAMES, everything."""
    from lib.processes import corpora

    _finish(corpora.verify(names or None), required=bool(names))


def _finish(outcomes: Iterable[Any], required: bool) -> None:
    from lib.processes import corpora

    seen = []
    for outcome in outcomes:
        seen.append(outcome)
        click.echo(f"{outcome.status:>8} {outcome.name}/{outcome.file} {outcome.message}".rstrip())
    if any(outcome.status == "failed" for outcome in seen):
        click.echo(
            "\nWhat failed can also be put by hand into a folder of its corpus or model, under the name above, in a "
            "folder that the setting BOOK_DATA names. `python -m lib data list` shows what is here.",
            err=True,
        )
    sys.exit(corpora.exit_status(seen, required))
