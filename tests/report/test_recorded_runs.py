"""The table of recorded runs."""

import pytest

from lib.report.provenance import RecordedRuns, missing_runs, summary_of_runs


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


def test_time_trained_before_an_interruption_counts():
    resumed = {**record(60.0, "2026-01-02"), "result": {"training_seconds": 3600.0}}
    assert (
        summary_of_runs("laptop", [resumed, record(1200.0, "2026-01-02")], 2)["time"]
        == "80 min in all, 60 min for the longest"
    )


def test_runs_of_older_code_are_confessed():
    rows = summary_of_runs("paper", [record(1.0, "2026-01-02", stale=True), record(1.0, "2026-01-02")], 2)
    assert rows["runs"] == "2 of 2"
    assert rows["version"].startswith("1 of these runs")
    assert "earlier version" in RecordedRuns(rows)._repr_html_()


def test_no_runs_are_no_table():
    with pytest.raises(ValueError, match="at least one run"):
        summary_of_runs("laptop", [], 3)


def test_what_is_missing_is_told_with_its_command():
    found = {"none": ("paper", [], 93), "one": ("laptop", [{}], 38), "more": ("laptop", [{}, {}], 3)}
    none, one, more = missing_runs({**found, "all": ("laptop", [{}], 1)}).split("\n\n")
    assert none.startswith("**Not yet**: none of the 93 runs of none is recorded.")
    assert none.endswith("`python -m lib sweep none --profile paper` makes them.")
    assert "1 of the 38 runs of one is recorded" in one and "2 of the 3 runs of more are recorded" in more
    assert more.endswith("`python -m lib sweep more --profile laptop` makes the others.")
    assert missing_runs({}) == ""
