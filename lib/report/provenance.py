"""Where a number comes from: device, versions, code, seed, data and runs, as a table that ends a chapter.

Of recorded runs a table of their own: how many, where and when, how long, and whether the code has moved on.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lib.report.page import show_on_page
from lib.report.records import profile
from lib.runs.forecast import in_words, seconds_of
from lib.runs.provenance import PACKAGES, collect

Record = Mapping[str, Any]


class Footer:
    """The provenance table: HTML on a page, text in a terminal."""

    caption = "How this page was computed"

    def __init__(self, rows: dict[str, str]) -> None:
        self.rows = rows

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in self.rows.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
            for name, value in self.rows.items()
        )
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f'<table class="provenance">{caption}<tbody>{rows}</tbody></table>'


def footer(seed: Any = None, corpora: Iterable[Any] = (), runs: Iterable[str] = ()) -> None:
    """Show the table that ends a chapter: profile, device, versions, commit, code, seed, data and runs.

    ``seed``: an integer or several; a corpus has ``name``, ``split``, ``sha256``; a run is its identifier.
    """
    found = collect()
    commit = found["commit"].removesuffix("+") + (", with changes" if found["commit"].endswith("+") else "")
    rows = {
        "profile": profile(),
        "device": found["device"],
        "versions": ", ".join(f"{name} {found[name]}" for name in ("python", *PACKAGES)),
        "commit": commit,
        "code": f"{found['code']} (SHA-256 of lib and of imported experiments)",
    }
    if seed is not None:
        rows["seed"] = str(seed)
    rows |= {f"data {number}": _corpus(corpus) for number, corpus in enumerate(corpora, start=1)}
    names = list(runs)
    if names:
        rows["runs"] = ", ".join(names)
    show_on_page(Footer(rows))


def _corpus(corpus: Any) -> str:
    parts = [str(corpus.name), str(getattr(corpus, "split", "") or "")]
    digest = str(getattr(corpus, "sha256", "") or "")
    if digest:
        parts.append(f"SHA-256 {digest[:12]}")
    return ", ".join(part for part in parts if part)


class RecordedRuns(Footer):
    """The table that says what recorded runs a page shows."""

    caption = "The recorded runs on this page"


def summary_of_runs(profile: str, records: Sequence[Record], planned: int) -> dict[str, str]:
    """Rows of the table, by name. Raises ValueError without records."""
    if not records:
        raise ValueError("records: at least one run is allowed, got none")
    origins = [record["provenance"] for record in records]
    seconds = [seconds_of(record) for record in records]
    dates = sorted(origin["date"][:10] for origin in origins)
    stale = sum(bool(record.get("stale")) for record in records)
    rows = {
        "experiment": ", ".join(sorted({str(record.get("experiment", "unknown")) for record in records})),
        "profile": profile,
        "runs": f"{len(records)} of {planned}"
        + ("" if len(records) == planned else ": the others are not recorded yet"),
        "device": _values(origins, "device"),
        "versions": "; ".join(f"{name} {_values(origins, name)}" for name in ("python", "torch", "numpy")),
        "commit": _values(origins, "commit"),
        "recorded": dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
        "time": f"{in_words(sum(seconds))} in all, {in_words(max(seconds))} for the longest",
        "memory": f"at most {max(origin['peak_memory_MB'] for origin in origins):.0f} MB a process",
    }
    if stale:
        rows["version"] = f"{stale} of these runs answer as an earlier version of the experiment did"
    return rows


def recorded_runs(profile: str, records: Sequence[Record], planned: int) -> None:
    """Show the table on the page."""
    show_on_page(RecordedRuns(summary_of_runs(profile, records, planned)))


def missing_runs(found: Mapping[str, tuple[str, Sequence[Record], int]]) -> str:
    """What is not recorded of each experiment, and how to make it, in Markdown; "" where nothing is missing.

    found: profile, records and number of planned runs of each experiment, as `lib.runs.store.so_far` gives them.
    """
    return "\n\n".join(
        f"**Not yet**: {len(records) or 'none'} of the {planned} runs of {name} {'are' if records[1:] else 'is'} "
        f"recorded. `python -m lib sweep {name} --profile {profile}` makes {'the others' if records else 'them'}."
        for name, (profile, records, planned) in found.items()
        if len(records) < planned
    )


def _values(origins: Sequence[Record], key: str) -> str:
    return ", ".join(sorted({str(origin.get(key, "unknown")) for origin in origins}))
