"""Which recorded runs a page rests on: how many, where and when, how long, and whether the code has moved on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lib.report.page import show_on_page
from lib.report.provenance import Footer

Record = Mapping[str, Any]


class RecordedRuns(Footer):
    """The table that says what recorded runs a page shows."""

    caption = "The recorded runs on this page"


def summary(profile: str, records: Sequence[Record], planned: int) -> dict[str, str]:
    """Rows of the table, by name. Raises ValueError without records."""
    if not records:
        raise ValueError("records: at least one run is allowed, got none")
    origins = [record["provenance"] for record in records]
    seconds = sum(origin["seconds"] for origin in origins)
    dates = sorted(origin["date"][:10] for origin in origins)
    stale = sum(bool(record.get("stale")) for record in records)
    longest = max(origin["seconds"] for origin in origins)
    rows = {
        "profile": profile,
        "runs": f"{len(records)} of {planned}"
        + ("" if len(records) == planned else ": the others are not recorded yet"),
        "device": _values(origins, "device"),
        "versions": "; ".join(f"{name} {_values(origins, name)}" for name in ("python", "torch", "numpy")),
        "commit": _values(origins, "commit"),
        "recorded": dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
        "time": f"{_duration(seconds)} in all, {_duration(longest)} for the longest",
        "memory": f"at most {max(origin['peak_memory_MB'] for origin in origins):.0f} MB a process",
    }
    if stale:
        rows["version"] = f"{stale} of these runs answer as an earlier version of the experiment did"
    return rows


def show(profile: str, records: Sequence[Record], planned: int) -> None:
    """Show the table on the page."""
    show_on_page(RecordedRuns(summary(profile, records, planned)))


def _values(origins: Sequence[Record], key: str) -> str:
    return ", ".join(sorted({str(origin.get(key, "unknown")) for origin in origins}))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
