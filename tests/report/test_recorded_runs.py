"""The table of recorded runs."""

import pytest

from lib.report.provenance import RecordedRuns, summary_of_runs


def record(seconds, date, stale=False):
    origin = {"device": "a processor", "python": "3.11", "torch": "2", "numpy": "2", "commit": "abc"}
    return {
        "experiment": "a-copy",
        "stale": stale,
        "provenance": {**origin, "seconds": seconds, "date": date, "peak_memory_MB": 100.0},
    }


def test_the_table_says_how_many_runs_are_missing_and_how_long_the_others_took():
    rows = summary_of_runs("laptop", [record(60.0, "2026-01-02T03:04:05"), record(180.0, "2026-01-05T00:00:00")], 3)
    assert rows["experiment"] == "a-copy"
    assert rows["runs"] == "2 of 3: the others are not recorded yet"
    assert rows["time"] == "4 min in all, 3 min for the longest"
    assert rows["recorded"] == "2026-01-02 to 2026-01-05"
    assert "version" not in rows


def test_runs_of_older_code_are_confessed():
    rows = summary_of_runs("paper", [record(1.0, "2026-01-02", stale=True), record(1.0, "2026-01-02")], 2)
    assert rows["runs"] == "2 of 2"
    assert rows["version"].startswith("1 of these runs")
    assert "earlier version" in RecordedRuns(rows)._repr_html_()


def test_no_runs_are_no_table():
    with pytest.raises(ValueError, match="at least one run"):
        summary_of_runs("laptop", [], 3)
