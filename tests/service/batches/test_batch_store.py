"""Batches are kept, cancelled, found by the runner in order, and forgotten."""

import os
import shutil
from itertools import islice
from pathlib import Path

import pytest

from embedwell.errors import NotFound, TooLarge
from tests.service.batches.stores import BLOCK, ENDPOINT, WINDOW, Stores


def test_a_batch_is_kept_with_what_the_client_said(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    file = stores.add(b"{}\n")
    id = stores.batches.create(file, ENDPOINT, WINDOW, {"job": "7"}).id
    batch = Stores(tmp_path).batches.get(id)
    assert (batch.status, batch.input_file_id, batch.metadata) == ("validating", file, {"job": "7"})
    assert (batch.completion_window, batch.expires_at - batch.created_at) == WINDOW


def test_a_batch_needs_a_file_and_keeps_it_when_it_is_deleted(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    with pytest.raises(NotFound, match="there is no file"):
        stores.batches.create("file-" + "0" * 24, ENDPOINT, WINDOW, None)
    assert [*stores.batches.newest_first()] == []
    file = stores.add(b"{}\n")
    id = stores.batches.create(file, ENDPOINT, WINDOW, None).id
    stores.files.remove(file)
    assert (stores.batches.folder(id) / "input.jsonl").read_bytes() == b"{}\n"


@pytest.mark.parametrize("id", ["batch_0", "batch_" + "0" * 24, "../batches", ""])
def test_an_unknown_batch_is_not_found(tmp_path: Path, id: str) -> None:
    batches = Stores(tmp_path).batches
    with pytest.raises(NotFound, match="there is no batch"):
        batches.get(id)
    with pytest.raises(NotFound, match="there is no batch"):
        batches.cancel(id)


def test_unfinished_batches_are_listed_oldest_first(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    assert stores.batches.unfinished() == []
    first, second = stores.create(), stores.create(seconds=5)
    assert [batch.id for batch in stores.batches.newest_first()] == [second, first]
    expiry = [stores.batches.get(id).expires_at for id in (first, second)]
    assert stores.batches.unfinished() == [(first, expiry[0]), (second, expiry[1])]
    stores.work(first).fail("x", "y")
    stores.batches.note_changed(first)
    assert [id for id, _ in stores.batches.unfinished()] == [second]
    third = Stores(tmp_path).create()
    assert [id for id, _ in stores.batches.unfinished()] == [second, third]
    shutil.rmtree(stores.batches.folder(second))
    assert [id for id, _ in stores.batches.unfinished()] == [third]
    assert [id for id, _ in Stores(tmp_path).batches.unfinished()] == [third]


def test_only_the_batches_of_a_page_are_read(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    ids = [stores.create() for _ in range(4)]
    (stores.batches.folder(ids[0]) / "batch.json").unlink()
    (stores.batches.folder(ids[0]) / "batch.json").mkdir()  # reading it would be an error
    assert [batch.id for batch in islice(stores.batches.newest_first(), 2)] == [ids[3], ids[2]]
    assert next(stores.batches.newest_first(ids[2])).id == ids[1]
    with pytest.raises(IsADirectoryError):
        next(stores.batches.newest_first(ids[1]))


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]", b'{"batch": {"id": 1}}', b"\xff"])
def test_a_damaged_batch_affects_no_other(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stores = Stores(tmp_path)
    damaged, good = stores.create(), stores.create()
    (stores.batches.folder(damaged) / "batch.json").write_bytes(content)
    assert [id for id, _ in stores.batches.unfinished()] == [good]
    [message] = caplog.messages
    assert damaged in message and "delete its folder" in message
    assert [id for id, _ in stores.batches.unfinished()] == [good]
    assert len(caplog.messages) == 1, "it is logged again and again"
    assert [batch.id for batch in stores.batches.newest_first()] == [good]
    stores.batches.remove_expired()
    with pytest.raises(NotFound):
        stores.batches.get(damaged)


def test_a_batch_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    stores = Stores(tmp_path, folder_bytes=5 * BLOCK)
    file = stores.add(b"{}\n")  # two blocks, and a batch takes one
    for _ in range(3):
        stores.batches.create(file, ENDPOINT, WINDOW, None)
    with pytest.raises(TooLarge, match="EMBEDWELL_BATCH_MAX_BYTES"):
        stores.batches.create(file, ENDPOINT, WINDOW, None)
    assert len([*(tmp_path / "batches").iterdir()]) == 3


def test_the_rest_of_a_batch_that_a_kill_cut_off_is_deleted(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    old, new, kept = (stores.create() for _ in range(3))
    for id in (old, new):
        (stores.batches.folder(id) / "batch.json").unlink()
    for path in (stores.batches.folder(old), stores.batches.folder(kept)):
        for item in (*path.iterdir(), path):
            os.utime(item, (1, 1))
    stores.batches.remove_expired()
    assert {path.name for path in (tmp_path / "batches").iterdir()} == {new, kept}


def test_a_cancelled_batch_says_so_before_the_runner_knows(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    id = stores.create()
    assert stores.batches.cancelled_at(id) is None
    batch = stores.batches.cancel(id)
    assert batch.status == "cancelling" and batch.cancelling_at == stores.batches.cancelled_at(id)
    assert [*Stores(tmp_path).batches.newest_first()] == [batch]


def test_a_batch_that_has_ended_is_not_cancelled(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    id = stores.create()
    stores.work(id).fail("x", "y")
    assert stores.batches.cancel(id).status == "failed"
    assert stores.batches.cancelled_at(id) is None


def test_only_finished_batches_are_forgotten(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    ended, running, recent = (stores.create(seconds=s) for s in (-100, -100, 0))
    for id in (ended, recent):
        stores.work(id).fail("x", "y")
    stores.batches.remove_expired()
    assert [batch.id for batch in stores.batches.newest_first()] == [recent, running]
