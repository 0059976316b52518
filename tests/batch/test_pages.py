"""Pages, parameters and profiles: a misspelt name never passes in silence."""

from __future__ import annotations

import pytest

from lib.batch import pages


def test_every_page_of_the_contents_exists_and_chapters_come_first() -> None:
    kinds = [page.is_chapter for page in pages.executable_pages()]
    assert kinds == sorted(kinds, reverse=True)
    assert True in kinds


def test_every_chapter_has_one_parameters_cell_with_a_comment_after_each_value() -> None:
    for page in pages.executable_pages():
        if page.is_chapter:
            assert page.parameters, page.name
            cell = next(c for c in page.notebook().cells if "parameters" in c.metadata.get("tags", []))
            assert all("#" in line for line in cell.source.splitlines() if line.strip()), page.name


def test_cells_are_at_most_fifteen_lines() -> None:
    for page in pages.executable_pages():
        for cell in page.notebook().cells:
            if cell.cell_type == "code":
                assert len(cell.source.splitlines()) <= 15, f"{page.name}:\n{cell.source}"


def test_every_profile_names_real_parameters() -> None:
    for profile in pages.profile_names():
        for page in pages.executable_pages():
            pages.profile_parameters(page, profile)
    known = {page.name.removeprefix("notebooks/") for page in pages.executable_pages()}
    for profile, chapters in pages._profiles().items():
        assert set(chapters or {}) <= known, profile


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones(make_page) -> None:
    page = make_page("a", parameters="lags = 10   # lags\np = 0.2   # bias")
    with pytest.raises(ValueError, match=r"no parameter 'lag' \(did you mean 'lags'\?\).*lags = 10, p = 0.2"):
        page.check_parameters({"lag": 3})


def test_a_parameter_of_another_type_is_refused_and_an_integer_serves_as_a_float(make_page) -> None:
    page = make_page("a", parameters="lags = 10   # lags\np = 0.2   # bias\nexact = False   # law")
    assert page.check_parameters({"p": 1}) == {"p": 1.0}
    several = make_page("b", parameters="lags = [1, 2]   # lags\np = [(0.2, 'a')]   # biases\nnone = []   # any")
    for right in ({"lags": []}, {"lags": (4, 5)}, {"p": [(1, "b"), (0.5, "c")]}, {"none": ["a", 1]}):
        assert several.check_parameters(right) == right
    for wrong in ({"lags": [1, "2"]}, {"lags": [0.5]}, {"lags": 1}, {"lags": None}, {"p": [0.2]}, {"none": 3}):
        with pytest.raises(ValueError, match="its default is"):
            several.check_parameters(wrong)
    with pytest.raises(
        ValueError, match=r"got \[1, 'x'\] \(list of int, str\), but its default is \[1, 2\] \(list of int"
    ):
        several.check_parameters({"lags": [1, "x"]})
    for wrong in ({"lags": 0.5}, {"lags": "ten"}, {"lags": True}, {"exact": 1}, {"p": "x"}):
        with pytest.raises(ValueError, match="its default is"):
            page.check_parameters(wrong)


@pytest.mark.parametrize("cell", ["n = compute()", "import os", "n = 1 + x"])
def test_a_parameters_cell_holds_plain_literals_only(make_page, cell: str) -> None:
    with pytest.raises(ValueError, match=r"parameters cell|not a plain literal"):
        _ = make_page("a", parameters=cell).parameters


def test_unknown_notebooks_and_profiles_are_errors_that_say_what_exists() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'binary_sequences'(?s:.*)notebooks/two_point/natural_corpora"):
        pages.find_page("binary_sequence")
    with pytest.raises(ValueError, match="unknown profile 'laptob'; there are: smoke, laptop"):
        pages.profile_parameters(pages.executable_pages()[0], "laptob")


@pytest.mark.parametrize(
    "name", ["binary_sequences", "two_point/binary_sequences", "notebooks/two_point/binary_sequences.md"]
)
def test_a_notebook_is_found_by_any_of_its_names(name: str) -> None:
    assert pages.find_page(name).name == "notebooks/two_point/binary_sequences"
