"""A file that is read in pieces, by one process or by many, has the counts and the curves of its bytes in memory."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lib.information import auto_mutual_information, pair_counts
from lib.information.counting.dense import dense_tables
from lib.information.documents import large_file
from lib.information.documents.cluster import on_cluster
from lib.information.documents.large_file import (
    FileInformation,
    count_piece,
    file_information,
    pieces_of,
)
from lib.information.documents.leave_out import leave_blocks_out
from lib.runs.sweep import local_client


def written(folder, length, seed=0):
    """A file of a persistent source of up to 256 symbols, and its bytes."""
    random = np.random.default_rng(seed)
    symbols = random.choice([3, 10, 97, 255, *range(length % 7 * 30)], size=length).astype(np.uint8)
    for place in np.flatnonzero(random.random(length - 1) < 0.5):
        symbols[place + 1] = symbols[place]
    symbols.tofile(folder / "file")
    return folder / "file", symbols


def assert_same(found: FileInformation, symbols, lags, blocks, estimator="grassberger2003"):
    known = np.unique(symbols)
    for table, lag in zip(found.counts, lags, strict=True):
        assert table.sum() == len(symbols) - lag
        np.testing.assert_array_equal(table[np.ix_(known, known)], pair_counts(symbols, lag))
    np.testing.assert_allclose(found.curve, auto_mutual_information(symbols, lags, estimator, workers=1), atol=1e-11)
    expected = leave_blocks_out(symbols, lags, blocks=blocks, estimator=estimator, workers=1)
    np.testing.assert_allclose(found.without, expected.without, atol=1e-11)
    np.testing.assert_allclose(found.replicates(5, seed=1), expected.replicates(5, seed=1), atol=1e-11)


@settings(max_examples=25)
@given(some.data())
def test_pieces_of_any_size_give_what_the_whole_gives(tmp_path_factory, data):
    length = data.draw(some.integers(12, 1500), "length")
    blocks = data.draw(some.integers(2, min(9, length // 3)), "blocks")
    most = min(length // blocks, length - length // blocks - 1)  # some pair is left without any block
    lags = data.draw(some.lists(some.integers(1, max(most - 1, 1)), min_size=1, max_size=4), "lags")
    piece = data.draw(some.integers(max(lags), length + 5), "piece")  # up to more than the file: one piece per block
    estimator = data.draw(some.sampled_from(["grassberger2003", "miller_madow"]))
    path, symbols = written(tmp_path_factory.mktemp("bytes"), length)
    found = file_information(path, lags, blocks=blocks, piece=piece, estimator=estimator)
    assert_same(found, symbols, lags, blocks, estimator)


def test_every_place_starts_one_piece_and_pieces_without_what_follows_them_lose_pairs(tmp_path):
    path, symbols = written(tmp_path, 1000)
    pieces = list(pieces_of(1000, 3, 90))
    assert [place for _, first, last in pieces for place in range(first, last)] == list(range(1000))
    lags = np.array([1, 40])
    whole = sum(count_piece(block, path, first, last, lags, 1000)[1][1].sum() for block, first, last in pieces)
    assert whole == 999 + 960
    naive = sum(
        int(table.sum())
        for _, first, last in pieces
        for table in dense_tables(symbols[first:last], last - first, 256, lags)
    )
    assert naive == whole - (len(pieces) - 1) * 41  # at every cut, all pairs across it


class Watched:
    """A client that tells how many results are on the cluster, or under way, for it; `then` happens at a task."""

    def __init__(self, client, task, then):
        self.client, self.task, self.then = client, task, then
        self.keys, self.most = set(), 0

    def __getattr__(self, name):
        return getattr(self.client, name)

    def submit(self, *arguments, **options):
        future = self.client.submit(*arguments, **options)
        self.keys.add(future.key)
        self.most = max(self.most, len(self.keys & set(self.client.futures)))
        if len(self.keys) == self.task:
            self.then()
        return future


def test_a_cluster_that_loses_a_worker_counts_the_same_and_holds_few_pieces_at_a_time(tmp_path):
    path, symbols = written(tmp_path, 100_004)
    lags, options = [1, 2, 77], {"blocks": 4, "piece": 2000}
    with local_client(2) as client:
        some_worker = min(client.run(os.getpid).values())
        watched = Watched(client, 20, lambda: os.kill(some_worker, signal.SIGKILL))
        found = file_information(path, lags, client=watched, **options)
        assert_same(found, symbols, lags, 4)
        assert len(watched.keys) == 52 and 2 <= watched.most <= 4  # two threads, two pieces each
        path.write_bytes(b"")
        with pytest.raises(ValueError, match="had 100004 bytes and has 0 now"):
            list(on_cluster(count_piece, [(0, path, 0, 9, np.array([1]), 100_004)], client))
        symbols.tofile(path)
        with pytest.raises(ConnectionError, match="scheduler is gone"):
            file_information(path, lags, client=Watched(client, 20, client.close), **options)


def test_a_client_that_is_closed_while_it_hands_tasks_over_is_a_lost_scheduler(tmp_path):
    path, _ = written(tmp_path, 10_000)
    with local_client(1) as client:
        watched = Watched(client, 1, client.close)  # a thread gets two tasks at once: the second is not sent
        with pytest.raises(ConnectionError, match="scheduler is gone; what it had is lost") as lost:
            file_information(path, [1], client=watched, blocks=4, piece=500)
        assert type(lost.value.__cause__).__name__ == "ClosedClientError"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": [1000]}, "0 <= lag < 1000 are allowed"),
        ({"lags": [0]}, "1 <= lag < .* are allowed"),
        ({"lags": [1.5]}, "whole numbers"),
        ({"lags": [300], "blocks": 4}, "blocks: 2 to 3 are allowed.*largest lag, 300; got 4"),
        ({"lags": [1], "blocks": 1}, "blocks: 2 to 1000"),
        ({"lags": [20], "piece": 19}, "piece: from the largest lag, 20, to .* got 19"),
        ({"lags": [20], "piece": 2**31 + 1}, "got 2147483649"),
        ({"lags": [500], "blocks": 2}, "too few pairs at 500"),
        ({"lags": [1], "estimator": "best"}, "unknown estimator"),
    ],
)
def test_bad_input_is_refused(tmp_path, options, message):
    path, _ = written(tmp_path, 1000)
    with pytest.raises(ValueError, match=message):
        file_information(path, options.pop("lags"), **options)


def test_a_file_that_is_missing_empty_or_changes_is_refused(tmp_path, monkeypatch):
    path, symbols = written(tmp_path, 1000)
    with pytest.raises(ValueError, match=r"there is none at .*nothing"):
        file_information(tmp_path / "nothing", [1])
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty has 0"):
        file_information(tmp_path / "empty", [1])
    with pytest.raises(ValueError, match="had 1001 bytes and has 1000 now"):
        count_piece(0, path, 0, 10, np.array([1]), 1001)

    def changes(*task):
        found = count_piece(*task)
        if task[2] == 750:  # the last one: nobody reads on and sees it
            path.write_bytes(symbols.tobytes() + b"more")
        return found

    monkeypatch.setattr(large_file, "count_piece", changes)
    with pytest.raises(ValueError, match="has changed while it was read"):
        file_information(path, [1], blocks=4)
