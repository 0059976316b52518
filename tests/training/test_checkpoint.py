"""Checkpoints: whole or refused."""

import json
import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

from lib import ROOT
from lib.models import create
from lib.runs.sweep import clear_half_written
from lib.training import CheckpointError, FitSettings, NextToken, fit
from lib.training.checkpoint import FORMAT, _checksum, load_checkpoint, save_checkpoint

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b.c": torch.tensor(3, dtype=torch.int64), "none": torch.empty(0)}
WHAT = {"width": 3}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "folder" / "checkpoint.safetensors"
    save_checkpoint(file, TENSORS, {"epoch": 4, "losses": [0.5, 0.25]}, WHAT)
    return file


def test_what_is_saved_comes_back(path):
    tensors, progress = load_checkpoint(path, WHAT)
    assert progress == {"epoch": 4, "losses": [0.5, 0.25]}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # nothing half written is left


@pytest.mark.parametrize("place", [-1, -9, -20])
def test_one_changed_byte_of_a_number_is_noticed(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="corrupt"):
        load_checkpoint(path, WHAT)


def test_a_changed_header_is_noticed(path):
    content = path.read_bytes()
    assert content.count(b"0.25") == 1
    path.write_bytes(content.replace(b"0.25", b"0.26"))
    with pytest.raises(CheckpointError, match="corrupt"):
        load_checkpoint(path, WHAT)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", bytes(100)])
def test_a_file_that_is_no_checkpoint_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="no readable checkpoint"):
        load_checkpoint(path, WHAT)


def test_half_a_file_is_refused(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="checkpoint"):
        load_checkpoint(path, WHAT)


def test_another_configuration_is_refused_and_the_difference_is_named(path):
    with pytest.raises(CheckpointError, match="width: 3 there, 4 asked for"):
        load_checkpoint(path, {"width": 4})


def test_an_entry_that_is_none_differs_from_one_that_is_missing(path):
    for there, asked, told in (
        ({"x": None}, {}, r"\(x: None there, no entry asked for\)"),
        ({}, {"x": None}, r"\(x: no entry there, None asked for\)"),
        ({"x": None, "y": 1}, {"x": 2, "y": 1}, r"\(x: None there, 2 asked for\)"),
    ):
        save_checkpoint(path, TENSORS, {}, there)
        with pytest.raises(CheckpointError, match=f"another configuration {told}"):
            load_checkpoint(path, asked)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_come_back_as_they_were(path, dtype):
    numbers = torch.randn(4, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    given = {"a": numbers, "b": numbers.T, "c": numbers.conj(), "d": numbers[0, 0].clone(), "e": numbers[:0]}
    save_checkpoint(path, given, {}, WHAT)
    found, _ = load_checkpoint(path, WHAT)
    assert found.keys() == given.keys()
    assert all(found[name].dtype == one.dtype and torch.equal(found[name], one) for name, one in given.items())


def test_complex_numbers_of_checkpoints_before_they_were_pairs_are_read(path):
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    header = {"format": FORMAT, "progress": "{}", "configuration": json.dumps(WHAT)}
    header["checksum"] = _checksum({"a": numbers}, header)
    save_file({"a": numbers}, path, metadata=header)
    assert torch.equal(load_checkpoint(path, WHAT)[0]["a"], numbers)


def test_a_pickle_is_never_opened(path):
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="no readable checkpoint"):
        load_checkpoint(path, WHAT)


def test_training_refuses_a_foreign_checkpoint_before_any_work(tmp_path):
    class Untouchable(NextToken):
        def batches(self, batch, epoch, device):
            raise AssertionError("work has started")

    data = torch.randint(0, 2, (20, 8), generator=torch.Generator().manual_seed(0)).numpy()
    path = tmp_path / "checkpoint.safetensors"
    fit(create("rnn", 2, 2), NextToken(data, data), FitSettings(epochs=1), checkpoint=path, progress=False)
    with pytest.raises(CheckpointError, match="epochs"):
        fit(create("rnn", 2, 2), Untouchable(data, data), FitSettings(epochs=2), checkpoint=path, progress=False)
    for other in (create("rnn", 2, 3, seed=5), create("lstm", 2, 2, seed=5), create("rnn", 2, 2, seed=5).double()):
        before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
        with pytest.raises(CheckpointError, match=r"of another network \([a-z].* there, .* in the model\)"):
            fit(other, Untouchable(data, data), FitSettings(epochs=1), checkpoint=path, progress=False)
        assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
    assert json.loads(json.dumps(FitSettings(epochs=1).model_dump())) == FitSettings(epochs=1).model_dump()


SAVING = """
import sys, torch
from pathlib import Path
from lib.training.checkpoint import save_checkpoint
number = 0
while True:
    number += 1
    save_checkpoint(Path(sys.argv[1]), {"a": torch.full((2_000_000,), float(number))}, {"epoch": number}, {})
"""


def test_a_kill_while_it_is_written_leaves_the_old_one_and_what_a_sweep_clears(tmp_path):
    path = tmp_path / "run" / "checkpoint.safetensors"
    for _ in range(20):  # until one kill comes between the first byte and the renaming
        saving = subprocess.Popen([sys.executable, "-c", SAVING, str(path)], cwd=ROOT)
        end = time.monotonic() + 60
        while not (path.exists() and len(list(path.parent.iterdir())) > 1) and time.monotonic() < end:
            pass
        saving.kill()
        saving.wait()
        tensors, progress = load_checkpoint(path, {})
        assert torch.all(tensors["a"] == progress["epoch"])
        if left := {file.name for file in path.parent.iterdir()} - {path.name}:
            break
    assert left
    clear_half_written(tmp_path)
    assert {file.name for file in path.parent.iterdir()} == {path.name, "lock"}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no umask")
def test_a_checkpoint_may_be_read_by_whom_the_umask_allows(path):
    before = os.umask(0o027)
    try:
        save_checkpoint(path, TENSORS, {}, WHAT)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
