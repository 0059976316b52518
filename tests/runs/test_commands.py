"""What is asked for on the command line: names and values, each once, as they are meant."""

import pytest
import yaml
from click.testing import CliRunner

from lib.batch import cli
from lib.runs.commands import values_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01),
        ("010", "010"),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("-10", -10),
        ("1_000", 1000),
        (".5", 0.5),
        ("-1.", -1.0),
        ("-2.5e+3", -2500.0),
        ("-.inf", float("-inf")),
        ("1E3", 1000.0),
        ("-2.5e+3", -2500.0),
        (".5e1", 5.0),
        ("1.e2", 100.0),
        ("[1e-2, 3]", [0.01, 3]),
        ("'1e-2'", "1e-2"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("1e5x", "1e5x"),
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("text", "text"),
        ("", None),
    ],
)
def test_a_value_is_read_as_yaml_in_which_a_number_may_have_an_exponent(text, value):
    found = values_of((f"x={text}",))["x"]
    assert found == value and type(found) is type(value)


def test_yaml_elsewhere_is_read_as_before():
    values_of(("x=1e-2",))
    assert yaml.safe_load("1e-2") == "1e-2"


def test_a_name_that_is_given_twice_is_refused():
    with pytest.raises(ValueError, match="seed: one value is allowed, got seed twice, the second time as 'seed=2'"):
        values_of(("seed=1", "width=3", "seed=2"))


def sweep(*words):
    return CliRunner().invoke(cli.main, ["sweep", "binary-printed", "--shard", "1/1", "--dry-run", *words])


def test_a_sweep_refuses_a_name_that_is_given_twice():
    refused = sweep("--where", "seed=0", "--where", "seed=1")
    assert refused.exit_code == 1 and "got seed twice" in refused.output


@pytest.mark.parametrize("text", ["true", "yes", "false"])
def test_a_truth_value_is_no_seed(text):
    refused = sweep("--where", f"seed={text}")
    assert refused.exit_code == 1 and "where: seed is one of 0, 1" in refused.output
    assert f"got {'false' if text == 'false' else 'true'}" in refused.output


def test_a_rate_may_be_written_with_an_exponent():
    plain, exponent = (sweep("--where", f"fit.learning_rate={text}").output for text in ("0.001", "1e-3"))
    assert plain == exponent and "27 runs" in plain


def test_a_whole_number_of_a_notebook_is_not_written_with_an_exponent():
    from lib.batch.pages import executable_pages

    page = next(page for page in executable_pages() if any(type(value) is int for value in page.parameters.values()))
    name = next(name for name, value in page.parameters.items() if type(value) is int)
    with pytest.raises(ValueError, match=r"got 1000\.0 \(float\), but its default is .* \(int\)"):
        page.check_parameters(values_of((f"{name}=1e3",)))
