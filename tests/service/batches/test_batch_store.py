"""Batches are kept, cancelled, found by the runner in order, and forgotten."""

from pathlib import Path

import pytest

from embedwell.errors import NotFound
from tests.service.batches.stores import ENDPOINT, WINDOW, Stores


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
    assert stores.batches.all() == []
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


def test_the_oldest_unfinished_batch_is_next(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    assert stores.batches.next() is None
    first, second = stores.create(), stores.create()
    assert [batch.id for batch in stores.batches.all()] == [second, first]
    for id in (first, second):
        stored = stores.batches.next()
        assert stored is not None and stored.batch.id == id
        stores.work(id).fail("x", "y")
    assert stores.batches.next() is None


def test_a_cancelled_batch_says_so_before_the_runner_knows(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    id = stores.create()
    assert stores.batches.cancelled_at(id) is None
    batch = stores.batches.cancel(id)
    assert batch.status == "cancelling" and batch.cancelling_at == stores.batches.cancelled_at(id)
    assert Stores(tmp_path).batches.all() == [batch]


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
    assert [batch.id for batch in stores.batches.all()] == [recent, running]
