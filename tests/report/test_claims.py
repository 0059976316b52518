"""Checks of claims: every comparison passes when it should and fails when it should, and records say what happened."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lib import ROOT
from lib.report import claims, records
from lib.report.claims import ClaimFailed, check
from lib.report.shown import anchor

KNOWN = "shen-eq46"


@pytest.fixture
def record_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "records" / "page.jsonl"
    monkeypatch.setenv("BOOK_RECORDS", str(path))
    monkeypatch.setenv("BOOK_PAGE", "notebooks/two_point/binary_sequences")
    monkeypatch.setenv("BOOK_PROFILE", "laptop")
    return path


# measured, arguments that agree, arguments that do not (the negative control of each kind)
COMPARISONS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "scalar": (1.0, {"expected": 1.05, "tolerance": 0.1}, {"expected": 1.2, "tolerance": 0.1}),
    "array": ([1.0, 2.0], {"expected": [1.0, 2.1], "tolerance": 0.2}, {"expected": [1.0, 2.3], "tolerance": 0.2}),
    "array against scalar": ([1.0, 1.1], {"expected": 1.0, "tolerance": 0.2}, {"expected": 1.0, "tolerance": 0.05}),
    "relative": (
        [100.0, 1e-6],
        {"expected": [101.0, 1.01e-6], "tolerance": 0.02, "relative": True},
        {"expected": [101.0, 2e-6], "tolerance": 0.02, "relative": True},
    ),
    "relative to one whole number": (
        354.8,
        {"expected": 355, "tolerance": 0.01, "relative": True},
        {"expected": 255, "tolerance": 0.01, "relative": True},
    ),
    "exact rationals": (
        Fraction(1, 3),
        {"expected": Fraction(1, 3), "tolerance": 0},
        {"expected": Fraction(1, 3) + Fraction(1, 10**40), "tolerance": 0},
    ),
    "sympy": (
        sympy.Rational(1, 3),
        {"expected": sympy.Rational(2, 6), "tolerance": 0},
        {"expected": sympy.Rational(1, 4), "tolerance": 0},
    ),
    "unsigned bytes": (
        np.array([0], dtype=np.uint8),
        {"expected": np.array([1], dtype=np.uint8), "tolerance": 1},
        {"expected": np.array([255], dtype=np.uint8), "tolerance": 1},
    ),
    "complex": (1 + 1j, {"expected": 1 + 1.05j, "tolerance": 0.1}, {"expected": 1 - 1j, "tolerance": 0.1}),
    "relative to an infinite number": (
        np.inf,
        {"expected": np.inf, "tolerance": 0.1, "relative": True},
        {"expected": -np.inf, "tolerance": 0.1, "relative": True},
    ),
    "no share of an infinite number": (
        5.0,
        {"expected": 5.2, "tolerance": 0.1, "relative": True},
        {"expected": np.inf, "tolerance": 0.1, "relative": True},
    ),
    "infinite": (np.inf, {"expected": np.inf, "tolerance": 0.1}, {"expected": 1.0, "tolerance": 0.1}),
    "interval": (0.41, {"expected": 0.4, "within": (0.39, 0.43)}, {"expected": 0.44, "within": (0.39, 0.43)}),
    "intervals": (
        [0.1, 0.2],
        {"expected": [0.1, 0.21], "within": [(0.05, 0.15), (0.15, 0.25)]},
        {"expected": [0.1, 0.26], "within": [(0.05, 0.15), (0.15, 0.25)]},
    ),
    "at least": (2.0, {"at_least": 2.0}, {"at_least": 2.1}),
    "at most": ([1.0, 2.0], {"at_most": 2.0}, {"at_most": [2.0, 1.9]}),
    "both bounds": (1.5, {"at_least": 1, "at_most": 2}, {"at_least": 1, "at_most": 1.4}),
}


@pytest.mark.parametrize("kind", COMPARISONS)
def test_a_comparison_passes_when_it_holds(kind: str) -> None:
    measured, agrees, _ = COMPARISONS[kind]
    check(KNOWN, measured, **agrees)


@pytest.mark.parametrize("kind", COMPARISONS)
def test_a_comparison_fails_when_it_does_not_hold(kind: str) -> None:
    measured, _, disagrees = COMPARISONS[kind]
    with pytest.raises(ClaimFailed, match=KNOWN):
        check(KNOWN, measured, **disagrees)


@pytest.mark.parametrize("kind", COMPARISONS)
def test_differs_asks_for_the_opposite(kind: str) -> None:
    measured, agrees, disagrees = COMPARISONS[kind]
    check(KNOWN, measured, **disagrees, outcome="differs", note="because")
    with pytest.raises(ClaimFailed, match="said to differ"):
        check(KNOWN, measured, **agrees, outcome="differs", note="because")


def test_a_failed_claim_is_an_assertion_and_says_what_was_compared() -> None:
    with pytest.raises(AssertionError, match=r"shen-eq46 \(angle\).*0\.25 against 0\.5.*0\.25 exceeds 0\.1"):
        check(KNOWN, 0.25, 0.5, 0.1, part="angle")


@pytest.mark.parametrize(
    ("measured", "arguments", "printed", "printed_that_agrees"),
    [
        (0.5, {"expected": 0.5, "tolerance": 0.01}, 0.7, 0.505),
        (0.41, {"expected": 0.4, "within": (0.39, 0.43)}, 0.5, 0.42),
        (-0.3, {"at_most": 0.0}, 0.1, -0.1),
    ],
)
def test_a_correction_needs_a_printed_form_that_disagrees(
    measured: float, arguments: dict[str, Any], printed: float, printed_that_agrees: float
) -> None:
    check(KNOWN, measured, **arguments, outcome="misprint", erratum=8, printed=printed)
    with pytest.raises(ClaimFailed, match="needs no erratum 8"):
        check(KNOWN, measured, **arguments, outcome="misprint", erratum=8, printed=printed_that_agrees)


def test_a_correction_needs_a_corrected_form_that_agrees() -> None:
    with pytest.raises(ClaimFailed, match="does not hold"):
        check(KNOWN, 0.5, 0.6, 0.01, outcome="misprint", erratum=8, printed=0.7)


UNCLEAR: dict[str, dict[str, Any]] = {
    "no comparison": {"measured": 1.0},
    "expected alone": {"measured": 1.0, "expected": 1.0},
    "tolerance without expected": {"measured": 1.0, "tolerance": 0.1},
    "interval without expected": {"measured": 1.0, "within": (0, 2)},
    "two comparisons": {"measured": 1.0, "expected": 1.0, "tolerance": 0.1, "within": (0, 2)},
    "bound and expected": {"measured": 1.0, "expected": 1.0, "at_least": 0.0},
    "relative interval": {"measured": 1.0, "expected": 1.0, "within": (0, 2), "relative": True},
    "relative bound": {"measured": 1.0, "at_least": 0.0, "relative": True},
    "negative tolerance": {"measured": 1.0, "expected": 1.0, "tolerance": -0.1},
    "infinite tolerance": {"measured": 1.0, "expected": 1.0, "tolerance": np.inf},
    "infinite interval": {"measured": 1.0, "expected": 1.0, "within": (-np.inf, 2)},
    "bounds the wrong way round": {"measured": 1.0, "at_least": 2.0, "at_most": 0.0},
    "infinite bound": {"measured": 1.0, "at_least": -np.inf},
    "reversed interval": {"measured": 1.0, "expected": 1.0, "within": (2, 0)},
    "interval of three": {"measured": 1.0, "expected": 1.0, "within": (0, 1, 2)},
    "empty": {"measured": [], "expected": [], "tolerance": 1.0},
    "shapes": {"measured": [1.0, 2.0], "expected": [1.0, 2.0, 3.0], "tolerance": 9.0},
    "text": {"measured": "1.0", "expected": 1.0, "tolerance": 9.0},
    "complex bound": {"measured": 1j, "at_least": 0.0},
    "nan measured": {"measured": np.nan, "expected": 1.0, "tolerance": 9.0},
    "nan in an array": {"measured": [1.0, np.nan], "at_least": 0.0},
    "nan expected": {"measured": 1.0, "expected": np.nan, "tolerance": 9.0},
    "nan interval": {"measured": 1.0, "expected": 1.0, "within": (0, np.nan)},
    "nan bound": {"measured": 1.0, "at_most": np.nan},
    "nan tolerance": {"measured": 1.0, "expected": 1.0, "tolerance": np.nan},
    "nan printed": {
        "measured": 1.0, "expected": 1.0, "tolerance": 0.1, "outcome": "misprint", "erratum": 8, "printed": np.nan,
    },
    "unknown outcome": {"measured": 1.0, "expected": 1.0, "tolerance": 0.1, "outcome": "true"},
    "correction without erratum": {
        "measured": 1.0, "expected": 1.0, "tolerance": 0.1, "outcome": "misprint", "printed": 2.0,
    },
    "correction without printed": {
        "measured": 1.0, "expected": 1.0, "tolerance": 0.1, "outcome": "misprint", "erratum": 8,
    },
    "printed without correction": {"measured": 1.0, "expected": 1.0, "tolerance": 0.1, "printed": 2.0},
    "false without erratum": {"measured": 2.0, "at_most": 1.0, "outcome": "false", "note": "for even n"},
    "false without note or printed form": {"measured": 2.0, "at_most": 1.0, "outcome": "false", "erratum": 8},
    "erratum of what holds": {"measured": 1.0, "at_most": 1.0, "erratum": 8},
    "difference without note": {"measured": 1.0, "expected": 2.0, "tolerance": 0.1, "outcome": "differs"},
}  # fmt: skip


@pytest.mark.parametrize("case", UNCLEAR)
def test_an_unclear_check_is_refused_and_records_nothing(case: str, record_file: Path) -> None:
    with pytest.raises(ValueError):
        check(KNOWN, **UNCLEAR[case])
    assert not record_file.exists()


def test_an_unknown_claim_lists_near_matches() -> None:
    with pytest.raises(ValueError, match=r"'shen-eq466'.*near: .*shen-eq46"):
        check("shen-eq466", 1.0, 1.0, 0.1)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_tolerance_is_the_largest_difference_allowed(measured: float, expected: float, tolerance: float) -> None:
    if abs(measured - expected) <= tolerance:
        check(KNOWN, measured, expected, tolerance)
    else:
        with pytest.raises(ClaimFailed):
            check(KNOWN, measured, expected, tolerance)


def test_a_record_holds_what_was_compared(record_file: Path) -> None:
    check(
        KNOWN,
        np.linspace(0, 1, 1000),
        np.linspace(0, 1, 1000) + 1e-9,
        1e-8,
        part="Orthant probability, c > 0",
        outcome="misprint",
        erratum=8,
        printed=2.0,
        paper="Eq. 46",
        note="at 1000 angles",
    )
    check(KNOWN, Fraction(1, 3), Fraction(1, 3), 0)
    check(KNOWN, np.float64(0.41), 0.4, within=np.array([0.39, 0.43]), part="interval")
    check(KNOWN, 3, at_least=2, part="bound")
    first, second, third, fourth = records.read(record_file)
    assert first["claim"] == KNOWN
    assert first["anchor"] == "claim-shen-eq46-orthant-probability-c-0"
    assert (first["page"], first["profile"]) == ("notebooks/two_point/binary_sequences", "laptop")
    assert first["deviation"] == pytest.approx(1e-9)
    assert first["measured"] == {"shape": [1000], "first": pytest.approx([0, 1 / 999, 2 / 999, 3 / 999]),
                                 "smallest": 0.0, "largest": 1.0}  # fmt: skip
    assert (first["erratum"], first["printed"], first["paper"], first["note"]) == (8, 2.0, "Eq. 46", "at 1000 angles")
    assert {"python", "numpy", "commit", "code", "date", "device", "seed"} <= set(first["provenance"])
    assert (second["measured"], second["outcome"], second["tolerance"]) == ("1/3", "holds", 0)
    assert third["within"] == [0.39, 0.43]
    assert (fourth["at_least"], fourth["at_most"]) == (2, None)


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "no agreement": ({"expected": 2.0, "tolerance": 0.1}, "does not hold: 1 against 2; .*exceeds 0.1; at noon"),
    "no difference": (
        {"expected": 1.0, "tolerance": 0.1, "outcome": "differs"},
        "agrees with the paper, but is said to differ: 1 against 1",
    ),
    "nothing to correct": (
        {"expected": 1.0, "tolerance": 0.1, "outcome": "misprint", "erratum": 8, "printed": 1.05},
        "needs no erratum 8, the printed form agrees too: 1 against 1.05",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failing_check_is_recorded_before_it_raises(case: str, record_file: Path) -> None:
    arguments, sentence = FAILING[case]
    check(KNOWN, 1.0, 1.0, 0.1)
    with pytest.raises(ClaimFailed):
        check(KNOWN, 1.0, **arguments, part="angle", note="at noon", paper="Eq. 46")
    good, bad = records.read(record_file)
    assert good["outcome"] == "holds" and good.get("stated") is None
    assert bad["outcome"] == "fails" and bad["stated"] == arguments.get("outcome", "holds")
    assert re.match(sentence, bad["sentence"])
    assert (bad["part"], bad["measured"], bad["paper"]) == ("angle", 1.0, "Eq. 46")
    assert [bad[key] for key in ("expected", "page", "profile")] == [
        arguments["expected"], good["page"], good["profile"]]  # fmt: skip


def test_a_check_that_fails_raises_although_it_cannot_be_recorded(record_file: Path) -> None:
    record_file.parent.write_text("a file in the place of the folder")
    with pytest.raises(ClaimFailed, match="does not hold"):
        check(KNOWN, 1.0, 2.0, 0.1)


def test_what_is_undecided_is_recorded_with_its_reason(record_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"part": "every width", "sentence": "4 values in [1, 2], asked for: at most 1", "note": "few", "paper": 0.8}
    for number, reason in enumerate(records.REASONS):
        claims.undecided(KNOWN, reason=reason, **said | {"part": f"every width, {number}"})
    found = list(records.read(record_file))
    assert [one["reason"] for one in found] == list(records.REASONS)
    assert all((one["outcome"], one["paper"], one["note"]) == ("undecided", 0.8, "few") for one in found)
    assert found[1]["sentence"] == "seeds disagree: 4 values in [1, 2], asked for: at most 1; few"
    assert found[1]["anchor"] == anchor(KNOWN, "every width, 1")
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "◇ ran, undecided · shen-eq46 (every width, 1): " + found[1]["sentence"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"reason": "bored"},
            "unknown reason 'bored', known: not converged, seeds disagree, interval too wide, comparisons disagree",
        ),
        ({"reason": ""}, "unknown reason ''"),
        ({"part": ""}, "part=''"),
        ({"sentence": ""}, "sentence=''"),
        ({"claim": "shen-eq466"}, "unknown claim"),
        ({"paper": float("nan")}, "field paper: NaN"),
    ],
)
def test_an_undecided_part_without_its_reason_is_refused(changes: Any, message: str, record_file: Path) -> None:
    said = {"claim": KNOWN, "part": "p", "reason": "not converged", "sentence": "s"}
    with pytest.raises(ValueError, match=message):
        claims.undecided(**(said | changes))
    assert not record_file.exists()


@pytest.mark.parametrize("outcome", ["undecided", "fails", "not yet"])
def test_no_comparison_is_said_to_fail_or_to_be_undecided(outcome: str, record_file: Path) -> None:
    with pytest.raises(ValueError, match="known: holds, reduced, misprint, false, differs"):
        check(KNOWN, 1.0, 1.0, 0.1, outcome=outcome)
    assert not record_file.exists()


def test_without_a_record_file_a_check_only_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    check(KNOWN, 1.0, 1.0, 0.1, part="one")
    assert capsys.readouterr().out.startswith("✓ holds · shen-eq46 (one): 1 against 1")


# --- a part twice


def test_a_part_of_a_claim_is_checked_once_on_a_page(record_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(KNOWN, 1.0, 1.0, 0.1, part="angle")
    twice = "page 'notebooks/two_point/binary_sequences' has two checks of shen-eq46 with the same part 'angle'"
    with pytest.raises(ValueError, match=twice):
        check(KNOWN, 2.0, 2.0, 0.1, part="angle")
    with pytest.raises(ValueError, match=twice):
        claims.undecided(KNOWN, part="angle", reason="not converged", sentence="s")
    with pytest.raises(ClaimFailed, match="does not hold") as failed:  # what fails says so first
        check(KNOWN, 1.0, 2.0, 0.1, part="angle")
    assert re.match(twice, str(failed.value.__cause__))
    assert len(list(records.read(record_file))) == 1
    check(KNOWN, 1.0, 1.0, 0.1, part="another angle")
    check("shen-eq47", 1.0, 1.0, 0.1, part="angle")
    check(KNOWN, 1.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="same part ''"):
        check(KNOWN, 1.0, 1.0, 0.1)
    monkeypatch.setenv("BOOK_PAGE", "notebooks/two_point/ising_chain")
    check(KNOWN, 1.0, 1.0, 0.1, part="angle")
    assert len(list(records.read(record_file))) == 5


def test_a_cell_may_be_run_again_where_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOK_RECORDS", raising=False)
    for _ in range(2):
        check(KNOWN, 1.0, 1.0, 0.1, part="angle")


# --- false as stated, remarks, conditions


def test_a_statement_is_false_where_a_counterexample_fails_it(record_file: Path) -> None:
    check(KNOWN, 1.5, at_most=1.0, outcome="false", erratum=8, note="true for even n", part="counterexample")
    with pytest.raises(ClaimFailed, match="is said to be false: 0"):
        check(KNOWN, 0.5, at_most=1.0, outcome="false", erratum=8, note="true for even n", part="none")
    said, failed = records.read(record_file)
    assert (said["outcome"], said["erratum"], said["note"]) == ("false", 8, "true for even n")
    assert "(erratum 8); true for even n" in said["sentence"] and "printed" not in said["sentence"]
    assert (failed["outcome"], failed["stated"]) == ("fails", "false")


def test_a_statement_is_false_where_what_survives_agrees_and_the_printed_form_does_not(record_file: Path) -> None:
    check(KNOWN, 0.5, 0.5, 0.01, outcome="false", erratum=8, printed=0.7, part="a")
    with pytest.raises(ClaimFailed, match="needs no erratum 8"):
        check(KNOWN, 0.5, 0.5, 0.01, outcome="false", erratum=8, printed=0.505, part="b")
    with pytest.raises(ClaimFailed, match="does not hold"):  # nothing survives
        check(KNOWN, 0.5, 0.6, 0.01, outcome="false", erratum=8, printed=0.7, part="c")
    outcomes = [(one["outcome"], one["printed"]) for one in records.read(record_file)]
    assert outcomes == [("false", 0.7), ("fails", 0.505), ("fails", 0.7)]


def test_remarks_and_conditions_are_recorded_and_shown(record_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(KNOWN, 1.0, 1.0, 0.1, part="a", condition="as printed")
    check(KNOWN, 1.0, 1.0, 0.1, part="b", remark=True)
    claims.undecided(KNOWN, part="c", reason="not converged", sentence="s", condition="to plateau", remark=True)
    with pytest.raises(ClaimFailed):
        check(KNOWN, 1.0, 2.0, 0.1, part="d", condition="as printed", remark=True)
    shown = capsys.readouterr().out
    found = [(one["condition"], one["remark"]) for one in records.read(record_file)]
    assert found == [("as printed", False), ("", True), ("to plateau", True), ("as printed", True)]
    for told in ("(a, as printed): ", "(b, a remark): ", "(c, to plateau, a remark): "):
        assert told in shown


@pytest.mark.parametrize("condition", ["for long", "To plateau", None])
def test_an_unknown_condition_is_refused(condition: Any, record_file: Path) -> None:
    allowed = "allowed: '', 'as printed', 'to plateau'"
    with pytest.raises(ValueError, match=f"unknown condition {condition!r}, {allowed}"):
        check(KNOWN, 1.0, 1.0, 0.1, condition=condition)
    with pytest.raises(ValueError, match=allowed):
        claims.undecided(KNOWN, part="p", reason="not converged", sentence="s", condition=condition)
    assert not record_file.exists()


def test_a_torn_last_line_is_left_out_and_cut_off_by_the_next_record(record_file: Path) -> None:
    check(KNOWN, 1.0, 1.0, 0.1)
    whole = record_file.read_bytes()
    record_file.write_bytes(whole + whole[: len(whole) // 2])
    assert len(list(records.read(record_file))) == 1
    check(KNOWN, 1.0, 1.0, 0.1, part="after")
    assert [record["part"] for record in records.read(record_file)] == ["", "after"]


FULL = """
import resource, sys
from pathlib import Path
from lib.machine import append_line
path = Path(sys.argv[1])
append_line(path, "a" * 99)
resource.setrlimit(resource.RLIMIT_FSIZE, (150, resource.RLIM_INFINITY))
try:
    append_line(path, "b" * 99)
except OSError:
    print("an error and", len(path.read_bytes()), "bytes")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
append_line(path, "c" * 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there files have no limit")
def test_a_line_that_does_not_fit_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "an error and 100 bytes\n"
    assert path.read_text() == "a" * 99 + "\n" + "c" * 9 + "\n"


def test_a_file_of_nothing_but_a_torn_line_starts_again(record_file: Path) -> None:
    record_file.parent.mkdir()
    record_file.write_bytes(b'{"claim": ' + b"x" * 10_000)
    assert list(records.read(record_file)) == []
    check(KNOWN, 1.0, 1.0, 0.1)
    assert len(list(records.read(record_file))) == 1


def test_a_broken_line_in_the_middle_is_named(record_file: Path) -> None:
    check(KNOWN, 1.0, 1.0, 0.1)
    line = record_file.read_text()
    record_file.write_text("{broken\n" + line)
    with pytest.raises(ValueError, match=r"page\.jsonl, line 1"):
        list(records.read(record_file))
    record_file.write_text('{"claim": "shen-eq46"}\n')
    with pytest.raises(ValueError, match="outcome"):
        list(records.read(record_file))


def test_processes_that_append_at_once_leave_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "shared.jsonl"
    program = (
        "import os\nfrom lib.report.claims import check\n"
        "for number in range(50): check('shen-eq46', 1, 1, 0.1, note='n' * 500, part=f'{number} of {os.getpid()}')"
    )
    environment = {**os.environ, "BOOK_RECORDS": str(path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL) for _ in range(2)
    ]
    assert [process.wait() for process in running] == [0, 0]
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 100


def test_an_unknown_profile_is_refused(record_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOK_PROFILE", "huge")
    with pytest.raises(ValueError, match="smoke, laptop, paper"):
        check(KNOWN, 1.0, 1.0, 0.1)
